//! Hash-consing: equal values share one small id.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

use super::{FixedState, fixed_state};

/// A table of distinct values.
#[derive(Debug, Clone)]
pub struct Interner<T> {
    items: Vec<T>,
    table: HashTable<u32>,
    state: FixedState,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { items: Vec::new(), table: HashTable::new(), state: fixed_state() }
    }
}

impl<T: Hash + Eq> Interner<T> {
    /// The id of a value, made on first use.
    pub fn intern(&mut self, item: T) -> u32 {
        if let Some(id) = self.find(&item) {
            return id;
        }
        let id = self.items.len() as u32;
        let hash = self.state.hash_one(&item);
        self.items.push(item);
        let (items, state) = (&self.items, &self.state);
        self.table.insert_unique(hash, id, |id| state.hash_one(&items[*id as usize]));
        id
    }

    /// The id of a value that is there already.
    pub fn find<Q>(&self, item: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.state.hash_one(item);
        self.table.find(hash, |id| self.items[*id as usize].borrow() == item).copied()
    }

    /// The value of an id.
    #[inline]
    pub fn get(&self, id: u32) -> &T {
        &self.items[id as usize]
    }

    /// How many distinct values there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// A table that grows on top of a shared, immutable one: a run may meet new requirements without touching its snapshot.
#[derive(Debug)]
pub struct Layered<'a, T> {
    base: &'a Interner<T>,
    own: Interner<T>,
}

impl<'a, T: Hash + Eq> Layered<'a, T> {
    /// An empty layer.
    pub fn over(base: &'a Interner<T>) -> Self {
        Self { base, own: Interner::default() }
    }

    /// The id of a value, made in the layer if the base does not have it.
    pub fn intern(&mut self, item: T) -> u32 {
        match self.base.find(&item) {
            Some(id) => id,
            None => self.base.len() as u32 + self.own.intern(item),
        }
    }

    /// The value of an id.
    #[inline]
    pub fn get(&self, id: u32) -> &T {
        let base = self.base.len() as u32;
        if id < base { self.base.get(id) } else { self.own.get(id - base) }
    }
}
