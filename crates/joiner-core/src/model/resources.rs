//! Amounts of resources, one integer per lane. All arithmetic saturates: an absurd request becomes "too large", never an overflow.

use smallvec::SmallVec;

/// One amount per lane of [`Names`](super::Names); shorter vectors mean zero in the missing lanes.
pub type ResVec = SmallVec<[i64; 6]>;

/// Adds `b` to `a`, lane by lane.
#[inline]
pub fn add_into(a: &mut ResVec, b: &[i64]) {
    if a.len() < b.len() {
        a.resize(b.len(), 0);
    }
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.saturating_add(*b);
    }
}

/// Takes `b` from `a`, lane by lane.
#[inline]
pub fn sub_into(a: &mut ResVec, b: &[i64]) {
    if a.len() < b.len() {
        a.resize(b.len(), 0);
    }
    for (a, b) in a.iter_mut().zip(b) {
        *a = a.saturating_sub(*b);
    }
}

/// `a + b`.
#[inline]
pub fn sum(a: &[i64], b: &[i64]) -> ResVec {
    let mut total = ResVec::from_slice(a);
    add_into(&mut total, b);
    total
}

/// The larger amount per lane.
pub fn max_into(a: &mut ResVec, b: &[i64]) {
    if a.len() < b.len() {
        a.resize(b.len(), 0);
    }
    for (a, b) in a.iter_mut().zip(b) {
        *a = (*a).max(*b);
    }
}

/// Whether a request fits a room: a lane with a request of zero (or less) needs nothing.
#[inline]
pub fn fits(request: &[i64], room: &[i64]) -> bool {
    request
        .iter()
        .enumerate()
        .all(|(lane, want)| crate::filter::lane_fits(*want, room.get(lane).copied().unwrap_or(0)))
}

/// The amount in a lane.
#[inline]
pub fn lane_of(amounts: &[i64], lane: usize) -> i64 {
    amounts.get(lane).copied().unwrap_or(0)
}
