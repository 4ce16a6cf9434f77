//! Hash-consing: equal values share one small id.
//!
//! A table is handed out with every snapshot and goes on growing behind it, so copying one must cost little. It stands on a shared base
//! and keeps what came since in a layer of its own; a copy shares the base and copies the layer, which is folded into the base before
//! it gets large. A table that nobody else holds grows in its base right away.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use hashbrown::HashTable;

use super::{FixedState, fixed_state};

/// Values that came since the base was shared, at most: what a copy costs.
const LARGEST_LAYER: usize = 256;

/// A table of distinct values.
#[derive(Debug, Clone)]
pub struct Interner<T> {
    base: Arc<Table<T>>,
    layer: Table<T>,
}

#[derive(Debug, Clone)]
struct Table<T> {
    items: Vec<T>,
    ids: HashTable<u32>,
    state: FixedState,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ids: HashTable::new(), state: fixed_state() }
    }
}

impl<T: Hash + Eq> Table<T> {
    fn find<Q>(&self, item: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if self.items.is_empty() {
            return None;
        }
        let hash = self.state.hash_one(item);
        self.ids.find(hash, |id| self.items[*id as usize].borrow() == item).copied()
    }

    fn push(&mut self, item: T) -> u32 {
        let id = self.items.len() as u32;
        let hash = self.state.hash_one(&item);
        self.items.push(item);
        let (items, state) = (&self.items, &self.state);
        self.ids.insert_unique(hash, id, |id| state.hash_one(&items[*id as usize]));
        id
    }
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { base: Arc::new(Table::default()), layer: Table::default() }
    }
}

impl<T: Hash + Eq> Interner<T> {
    /// The id of a value that is there already.
    pub fn find<Q>(&self, item: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let in_base = self.base.find(item);
        in_base.or_else(|| Some(self.base.items.len() as u32 + self.layer.find(item)?))
    }

    /// The value of an id.
    #[inline]
    pub fn get(&self, id: u32) -> &T {
        let base = &self.base.items;
        match base.get(id as usize) {
            Some(item) => item,
            None => &self.layer.items[id as usize - base.len()],
        }
    }

    /// How many distinct values there are.
    pub fn len(&self) -> usize {
        self.base.items.len() + self.layer.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Hash + Eq + Clone> Interner<T> {
    /// The id of a value, made on first use.
    pub fn intern(&mut self, item: T) -> u32 {
        if let Some(id) = self.find(&item) {
            return id;
        }
        if self.layer.items.is_empty()
            && let Some(base) = Arc::get_mut(&mut self.base)
        {
            return base.push(item);
        }
        if self.layer.items.len() >= LARGEST_LAYER {
            let base = Arc::make_mut(&mut self.base);
            for item in std::mem::take(&mut self.layer).items {
                base.push(item);
            }
            return base.push(item);
        }
        self.base.items.len() as u32 + self.layer.push(item)
    }
}

/// A table that grows on top of a borrowed one: a run may meet new requirements without touching its snapshot.
#[derive(Debug)]
pub struct Layered<'a, T> {
    base: &'a Interner<T>,
    own: Interner<T>,
}

impl<'a, T: Hash + Eq + Clone> Layered<'a, T> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_what_was_there_and_differ_in_what_comes() {
        let mut table: Interner<u32> = Interner::default();
        for value in 0..10 {
            assert_eq!(table.intern(value), value);
        }
        let copy = table.clone();
        for value in 10..2000 {
            assert_eq!(table.intern(value), value);
            assert_eq!(table.intern(value), value);
        }
        assert_eq!((copy.len(), copy.find(&10), copy.find(&9)), (10, None, Some(9)));
        assert_eq!((table.len(), table.find(&1999), *table.get(1999)), (2000, Some(1999), 1999));
        assert!(table.layer.items.len() <= LARGEST_LAYER);
        let mut other = copy.clone();
        assert_eq!(other.intern(77), 10);
        assert_eq!(*table.get(10), 10);
    }
}
