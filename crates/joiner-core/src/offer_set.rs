//! Sets of offerings as words of bits. Offerings are numbered by rising price, so the cheapest of a set is its first bit.
//!
//! These few loops are most of a run: a large catalogue is about a hundred words, an intersection of four sets some fifty
//! nanoseconds.

/// An immutable, shared set.
pub type OfferSet = std::sync::Arc<[u64]>;

/// Words needed for so many offerings.
pub fn words(offerings: usize) -> usize {
    offerings.div_ceil(64)
}

/// The empty set.
pub fn empty(words: usize) -> Vec<u64> {
    vec![0; words]
}

/// Adds one.
pub fn insert(set: &mut [u64], at: usize) {
    set[at / 64] |= 1 << (at % 64);
}

/// Whether it is in.
#[inline]
pub fn contains(set: &[u64], at: usize) -> bool {
    set[at / 64] & (1 << (at % 64)) != 0
}

/// `a ∧= b`.
#[inline]
pub fn and_into(a: &mut [u64], b: &[u64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a &= *b;
    }
}

/// `a ∧= ¬b`.
pub fn remove_all(a: &mut [u64], b: &[u64]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a &= !*b;
    }
}

/// Whether nothing is in.
#[inline]
pub fn is_empty(set: &[u64]) -> bool {
    set.iter().all(|word| *word == 0)
}

/// Whether two sets share a member.
#[inline]
pub fn intersects(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

/// The first member: the cheapest.
#[inline]
pub fn first(set: &[u64]) -> Option<usize> {
    set.iter().position(|word| *word != 0).map(|at| at * 64 + set[at].trailing_zeros() as usize)
}

/// All members, cheapest first.
pub fn iter(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(at, word)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(at * 64 + bit)
        })
    })
}
