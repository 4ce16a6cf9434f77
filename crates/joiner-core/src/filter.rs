//! The rules of one pod on one node, as pure functions of a few numbers.
//!
//! The planner asks them of nodes, of machines it may open and of label values; the scheduler of the simulated cluster asks them of
//! nodes that are there. What differs between the two is how the numbers are kept (a snapshot with an undo log here, counts that
//! follow a watch there), not what they mean: that stands here, once, so that they can't disagree.
//!
//! Two more rules are shared as methods of what they are about: [`Toleration::tolerates`](crate::model::Toleration::tolerates) and
//! [`Port::clashes`](crate::model::Port::clashes).

use crate::model::{KeyId, Names, Port, Requirement, ValueId};

/// Whether a label (its value, or nothing where it is missing) satisfies what is asked of its key.
#[inline]
pub fn label_ok(names: &Names, key: KeyId, asked: &Requirement, value: Option<ValueId>) -> bool {
    match value {
        Some(value) => asked.allows(names, key, value),
        None => asked.may_be_absent,
    }
}

/// Whether a lane's request fits the room that is left: a request of zero (or less) needs nothing.
#[inline]
pub fn lane_fits(want: i64, room: i64) -> bool {
    want <= 0 || want <= room
}

/// The lanes in which a request does not fit a room.
pub fn short_lanes<'a>(request: &'a [i64], room: &'a [i64]) -> impl Iterator<Item = usize> + 'a {
    request
        .iter()
        .enumerate()
        .filter(|(lane, want)| !lane_fits(**want, room.get(*lane).copied().unwrap_or(0)))
        .map(|(lane, _)| lane)
}

/// Whether none of the ports wanted is taken.
#[inline]
pub fn ports_free<'a>(wanted: &[Port], taken: impl Iterator<Item = &'a Port> + Clone) -> bool {
    wanted.iter().all(|port| !taken.clone().any(|other| port.clashes(other)))
}

/// What a spread compares with: the least count of its domains, or zero while there are fewer domains than it asks for.
#[inline]
pub fn spread_floor(least: Option<i64>, domains: usize, min_domains: i64) -> i64 {
    if (domains as i64) < min_domains { 0 } else { least.unwrap_or(0) }
}

/// Whether a pod may be one more where `count` pods are already.
#[inline]
pub fn spread_ok(count: i64, counts_itself: bool, floor: i64, max_skew: i64) -> bool {
    count + i64::from(counts_itself) - floor <= max_skew
}

/// Whether affinity is satisfied where `count` pods match. A pod that matches its own terms may be the first of its kind.
#[inline]
pub fn affinity_ok(count: i64, may_be_first: impl FnOnce() -> bool) -> bool {
    count > 0 || may_be_first()
}

/// Whether anti-affinity, its own or that of a pod already there, leaves a place open.
#[inline]
pub fn anti_affinity_ok(count: i64) -> bool {
    count <= 0
}

/// Whether a node can attach `added` volumes of a driver on top of those it has. What asks for nothing new is never refused.
#[inline]
pub fn volumes_ok(attached: usize, added: usize, limit: u32) -> bool {
    added == 0 || attached.saturating_add(added) <= limit as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_that_ask_for_nothing_always_fit() {
        assert!(short_lanes(&[0, -1, 5], &[-3, 0, 5]).next().is_none());
        assert_eq!(short_lanes(&[2, 0, 6, 1], &[1, 0, 5]).collect::<Vec<_>>(), [0, 2, 3]);
    }

    #[test]
    fn few_domains_make_the_floor_zero() {
        assert_eq!(spread_floor(Some(3), 2, 3), 0);
        assert_eq!(spread_floor(Some(3), 3, 3), 3);
        assert_eq!(spread_floor(None, 0, 0), 0);
        assert!(spread_ok(3, true, 3, 1) && !spread_ok(4, true, 3, 1) && spread_ok(4, false, 3, 1));
    }

    #[test]
    fn volumes_that_are_there_already_cost_nothing() {
        assert!(volumes_ok(9, 0, 3) && volumes_ok(2, 1, 3) && !volumes_ok(3, 1, 3));
    }
}
