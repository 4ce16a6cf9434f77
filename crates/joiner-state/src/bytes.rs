//! Distinct byte strings with small ids, kept end to end in one arena.
//!
//! A hundred thousand pods of a cluster share a few hundred specs. Writing a spec as canonical bytes into a reused buffer and
//! looking the bytes up costs no allocation, and equal bytes mean equal specs because every text carries its length. Hashes only
//! find candidates; bytes decide.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use joiner_core::model::{FixedState, fixed_state};

/// A table of distinct byte strings.
#[derive(Debug)]
pub(crate) struct ByteTable {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    table: HashTable<u32>,
    state: FixedState,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    len: u32,
    hash: u64,
}

impl Default for ByteTable {
    fn default() -> Self {
        Self { arena: Vec::new(), entries: Vec::new(), table: HashTable::new(), state: fixed_state() }
    }
}

impl ByteTable {
    /// The id of some bytes, and whether they are new. Ids count up from zero.
    #[inline]
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> (u32, bool) {
        let hash = self.state.hash_one(bytes);
        let (arena, entries) = (&self.arena, &self.entries);
        let same = |id: &u32| {
            let entry = entries[*id as usize];
            entry.hash == hash && &arena[entry.start..entry.start + entry.len as usize] == bytes
        };
        if let Some(id) = self.table.find(hash, same) {
            return (*id, false);
        }
        let id = self.entries.len() as u32;
        self.entries.push(Entry { start: self.arena.len(), len: bytes.len() as u32, hash });
        self.arena.extend_from_slice(bytes);
        let entries = &self.entries;
        self.table.insert_unique(hash, id, |id| entries[*id as usize].hash);
        (id, true)
    }

    /// The id of some bytes, if they are known.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<u32> {
        let hash = self.state.hash_one(bytes);
        self.table.find(hash, |id| self.get(*id) == bytes).copied()
    }

    /// The bytes of an id.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> &[u8] {
        let entry = self.entries[id as usize];
        &self.arena[entry.start..entry.start + entry.len as usize]
    }

    /// The text of an id whose bytes were a text.
    pub(crate) fn text(&self, id: u32) -> &str {
        std::str::from_utf8(self.get(id)).unwrap_or_default()
    }

    /// How many distinct byte strings there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// Writes a text with its length.
#[inline]
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Writes a text that may be absent; absent and empty differ.
#[inline]
pub(crate) fn put_option(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        None => out.extend_from_slice(&u32::MAX.to_le_bytes()),
        Some(text) => put_text(out, text),
    }
}

/// Writes a count.
#[inline]
pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes());
}

/// Reads back what [`put_text`] wrote, from the front.
#[inline]
pub(crate) fn take_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b str> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    let (text, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

/// Pairs of texts written with [`put_text`].
pub(crate) struct Pairs<'b>(pub &'b [u8]);

impl<'b> Iterator for Pairs<'b> {
    type Item = (&'b str, &'b str);

    fn next(&mut self) -> Option<Self::Item> {
        Some((take_text(&mut self.0)?, take_text(&mut self.0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_share_an_id() {
        let mut table = ByteTable::default();
        assert_eq!(table.intern(b"a"), (0, true));
        assert_eq!(table.intern(b""), (1, true));
        assert_eq!(table.intern(b"a"), (0, false));
        for n in 0..1000u32 {
            table.intern(&n.to_le_bytes());
        }
        assert_eq!(table.intern(&17u32.to_le_bytes()), (19, false));
        assert_eq!((table.find(b"a"), table.find(b"b"), table.len()), (Some(0), None, 1002));
    }

    #[test]
    fn texts_read_back() {
        let mut out = Vec::new();
        for text in ["", "key", "ü", "value"] {
            put_text(&mut out, text);
        }
        assert_eq!(Pairs(&out).collect::<Vec<_>>(), [("", "key"), ("ü", "value")]);
        assert_eq!(Pairs(&out[..3]).next(), None);
    }
}
