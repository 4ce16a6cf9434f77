//! Times that objects carry, made safe against a wall clock that is set.
//!
//! A condition says when it changed, a claim when it was made, an annotation until when a drain may take: all of it by the clock on
//! somebody's wall. If that clock is set by an hour, "two minutes ago" becomes "an hour ago" or "in 58 minutes", and every limit built on it runs
//! out early or not at all. So the wall clock is believed once, when a time is first seen; from then on the time passes by the clock that nobody sets.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_api::NodeClaim;
use joiner_api::names::TERMINATION_TIMESTAMP_ANNOTATION;
use joiner_provider::Monotonic;
use kube::ResourceExt;

use crate::clock::Present;
use crate::pods::CachedPod;

/// When the times of objects were first seen, by the uid of the object.
#[derive(Debug, Default)]
pub struct ObservedTimes(BTreeMap<String, Vec<Seen>>);

#[derive(Debug, Clone, Copy)]
struct Seen {
    stamp: Timestamp,
    first: Monotonic,
    /// How far in the future it was then.
    ahead: SignedDuration,
}

impl ObservedTimes {
    /// Takes note of all times an object carries. Those it no longer carries are forgotten.
    pub fn observe(&mut self, uid: &str, stamps: impl IntoIterator<Item = Timestamp>, present: Present) {
        let old = self.0.remove(uid).unwrap_or_default();
        let mut seen: Vec<Seen> = Vec::new();
        for stamp in stamps {
            if seen.iter().any(|of| of.stamp == stamp) {
                continue;
            }
            let known = old.iter().find(|of| of.stamp == stamp).copied();
            let ahead = stamp.duration_since(present.wall);
            seen.push(known.unwrap_or(Seen { stamp, first: present.monotonic, ahead }));
        }
        if !seen.is_empty() {
            self.0.insert(uid.to_owned(), seen);
        }
    }

    /// Takes note of the times of a claim.
    pub fn observe_claim(&mut self, claim: &NodeClaim, present: Present) {
        let status = claim.status.as_ref();
        let conditions = status.into_iter().flat_map(|status| &status.conditions);
        let stamps = conditions
            .map(|condition| condition.last_transition_time.0)
            .chain(claim.metadata.creation_timestamp.as_ref().map(|time| time.0))
            .chain(status.and_then(|status| status.last_pod_event_time.as_ref()).map(|time| time.0))
            .chain(drain_deadline(claim));
        self.observe(claim.metadata.uid.as_deref().unwrap_or_default(), stamps, present);
    }

    /// Takes note of when a pod is to be gone.
    pub fn observe_pod(&mut self, pod: &CachedPod, present: Present) {
        self.observe(&pod.uid, pod.deletion(), present);
    }

    /// The object is gone.
    pub fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// The times of an object as seen from the present.
    pub fn of(&self, uid: Option<&str>, present: Present) -> TimesOf<'_> {
        let seen = uid.and_then(|uid| self.0.get(uid)).map_or(&[][..], Vec::as_slice);
        TimesOf { seen, present }
    }
}

/// The time at which the drain of a claim's node is over whatever pods say.
pub fn drain_deadline(claim: &NodeClaim) -> Option<Timestamp> {
    claim.annotations().get(TERMINATION_TIMESTAMP_ANNOTATION)?.parse().ok()
}

/// The times of one object. What it answers is by the wall clock as it is set now.
#[derive(Debug, Clone, Copy)]
pub struct TimesOf<'a> {
    seen: &'a [Seen],
    present: Present,
}

impl TimesOf<'_> {
    /// When something happened, given the time the object says; never in the future.
    pub fn past(&self, stamp: Timestamp) -> Timestamp {
        let Some(seen) = self.find(stamp) else { return stamp.min(self.present.wall) };
        let age = if seen.ahead.is_negative() { seen.ahead.unsigned_abs() } else { Duration::ZERO };
        self.present.before(self.present.monotonic.since(seen.first).saturating_add(age))
    }

    /// When something is to happen or was to, given the time the object says.
    pub fn deadline(&self, stamp: Timestamp) -> Timestamp {
        let Some(seen) = self.find(stamp) else { return stamp };
        let began = self.present.before(self.present.monotonic.since(seen.first));
        began.checked_add(seen.ahead).unwrap_or(stamp)
    }

    fn find(&self, stamp: Timestamp) -> Option<&Seen> {
        self.seen.iter().find(|seen| seen.stamp == stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn present(wall: i64, monotonic: u64) -> Present {
        Present { wall: at(wall), monotonic: Monotonic::new(Duration::from_secs(monotonic)) }
    }

    #[test]
    fn a_clock_that_is_set_changes_no_age() {
        let mut times = ObservedTimes::default();
        times.observe("a", [at(990), at(1100)], present(1000, 5));
        for step in [-3600, 0, 3600] {
            let now = present(1060 + step, 65);
            let of = times.of(Some("a"), now);
            assert_eq!(now.wall.duration_since(of.past(at(990))).as_secs(), 70);
            assert_eq!(of.deadline(at(1100)).duration_since(now.wall).as_secs(), 40);
        }
    }

    #[test]
    fn what_is_said_to_happen_later_has_just_happened() {
        let mut times = ObservedTimes::default();
        times.observe("a", [at(9000)], present(1000, 5));
        let later = present(1030, 35);
        assert_eq!(later.wall.duration_since(times.of(Some("a"), later).past(at(9000))).as_secs(), 30);
        assert_eq!(times.of(Some("other"), later).past(at(9000)), later.wall);
        assert_eq!(times.of(None, later).past(at(900)), at(900));
    }

    #[test]
    fn only_times_that_are_still_carried_are_kept() {
        let mut times = ObservedTimes::default();
        times.observe("a", [at(1), at(2), at(1)], present(10, 0));
        times.observe("a", [at(2)], present(11, 1));
        assert_eq!(times.0["a"].len(), 1);
        assert_eq!(times.0["a"][0].first, Monotonic::default());
        times.observe("a", [], present(12, 2));
        assert!(times.0.is_empty());
    }
}
