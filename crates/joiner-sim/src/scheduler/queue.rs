//! Who is looked at next.
//!
//! Pods wait in one of four places. *Active*: to be looked at, by priority, then by the time they came. *Backing off*: something happened
//! that may help, but the last attempt was a moment ago; such pods are taken early when nobody else waits. *Unschedulable*: until
//! something happens that may help, or five minutes have passed. *Gated*: until their gates go.
//!
//! What may help is known per rule ([`Rule`]): a pod refused for lack of CPU is not looked at again because a volume appeared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::nodes::PodId;

const FIRST_BACKOFF_SECONDS: i64 = 1;
const LONGEST_BACKOFF_SECONDS: i64 = 10;
/// So long a pod stays unschedulable at most without another look.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// The rules that refuse, in the order in which they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    Unschedulable,
    Taints,
    NodeAffinity,
    Ports,
    Fit,
    VolumeRestrictions,
    VolumeLimits,
    VolumeBinding,
    VolumeZone,
    Spread,
    PodAffinity,
}

/// A set of rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rules(u16);

impl Rules {
    /// All of them.
    pub(crate) const ALL: Self = Self(u16::MAX);

    /// These.
    pub(crate) const fn of(rules: &[Rule]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < rules.len() {
            bits |= 1 << rules[at] as u16;
            at += 1;
        }
        Self(bits)
    }

    /// Adds one.
    pub(crate) fn add(&mut self, rule: Rule) {
        self.0 |= 1 << rule as u16;
    }

    /// Whether they have one in common.
    pub(crate) fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

#[derive(Debug, Clone)]
struct Entry {
    priority: i32,
    /// When it came, or when it was refused last.
    since: Timestamp,
    /// Order of arrival, where times are equal.
    number: u64,
    refusals: u32,
    subqueue: Subqueue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subqueue {
    Active,
    /// Until then; early only if it was refused and not wronged.
    BackingOff {
        until: Timestamp,
        early: bool,
    },
    Unschedulable {
        by: Rules,
    },
    Gated,
    /// Taken out and being looked at, or on its way to a node.
    Out,
}

type Rank = (Reverse<i32>, Timestamp, u64, PodId);

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: BTreeMap<PodId, Entry>,
    active: BTreeSet<Rank>,
    backing_off: BTreeSet<(Timestamp, Rank)>,
    unschedulable: BTreeSet<(Timestamp, PodId)>,
    numbers: u64,
}

impl Queue {
    /// A new pod.
    pub(crate) fn add(&mut self, pod: PodId, priority: i32, gated: bool, now: Timestamp) {
        self.remove(pod);
        self.numbers += 1;
        let entry =
            Entry { priority, since: now, number: self.numbers, refusals: 0, subqueue: Subqueue::Out };
        self.entries.insert(pod, entry);
        self.put(pod, if gated { Subqueue::Gated } else { Subqueue::Active });
    }

    /// A pod that is gone, bound or finished.
    pub(crate) fn remove(&mut self, pod: PodId) {
        self.take_out(pod);
        self.entries.remove(&pod);
    }

    /// Whether the pod waits for anything at all.
    pub(crate) fn has(&self, pod: PodId) -> bool {
        self.entries.contains_key(&pod)
    }

    /// The next pod, taken out.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<PodId> {
        self.flush(now);
        let pod = match self.active.first() {
            Some((.., pod)) => *pod,
            None => self.first_early()?,
        };
        self.take_out(pod);
        Some(pod)
    }

    fn first_early(&self) -> Option<PodId> {
        self.backing_off.iter().map(|(_, (.., pod))| *pod).find(|pod| {
            matches!(
                self.entries.get(pod),
                Some(Entry { subqueue: Subqueue::BackingOff { early: true, .. }, .. })
            )
        })
    }

    /// A pod that was taken out has been refused by these rules.
    pub(crate) fn refuse(&mut self, pod: PodId, by: Rules, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&pod) else { return };
        entry.refusals += 1;
        entry.since = now;
        self.put(pod, Subqueue::Unschedulable { by });
    }

    /// A pod that was taken out could not be looked at, or its binding failed: it comes again after a while.
    pub(crate) fn retry(&mut self, pod: PodId, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(&pod) else { return };
        entry.refusals += 1;
        entry.since = now;
        let until = backoff_end(entry);
        self.put(pod, Subqueue::BackingOff { until, early: false });
    }

    /// Something happened that may help pods which one of these rules refused, if `may` says so.
    pub(crate) fn stir(&mut self, rules: Rules, now: Timestamp, mut may: impl FnMut(PodId) -> bool) {
        let moved: Vec<PodId> = self
            .unschedulable
            .iter()
            .map(|(_, pod)| *pod)
            .filter(|pod| {
                let by = self.entries.get(pod).map(|entry| entry.subqueue);
                matches!(by, Some(Subqueue::Unschedulable { by }) if by.meet(rules)) && may(*pod)
            })
            .collect();
        for pod in moved {
            self.wake(pod, now);
        }
    }

    /// A pod itself changed so that another look is worth it.
    pub(crate) fn wake(&mut self, pod: PodId, now: Timestamp) {
        let Some(entry) = self.entries.get(&pod) else { return };
        if entry.subqueue == Subqueue::Out || entry.subqueue == Subqueue::Active {
            return;
        }
        let until = backoff_end(entry);
        let subqueue =
            if until <= now { Subqueue::Active } else { Subqueue::BackingOff { until, early: true } };
        self.take_out(pod);
        self.put(pod, subqueue);
    }

    /// Another priority, or gates that came or went.
    pub(crate) fn change(&mut self, pod: PodId, priority: i32, gated: bool, now: Timestamp) {
        let Some(entry) = self.entries.get(&pod) else { return };
        let subqueue = entry.subqueue;
        self.take_out(pod);
        if let Some(entry) = self.entries.get_mut(&pod) {
            entry.priority = priority;
        }
        match (subqueue, gated) {
            (Subqueue::Out, _) => {}
            (_, true) => self.put(pod, Subqueue::Gated),
            (Subqueue::Gated, false) => self.put(pod, Subqueue::Active),
            (subqueue, false) => {
                self.put(pod, subqueue);
                self.wake(pod, now);
            }
        }
    }

    /// When the queue has something to do by itself.
    pub(crate) fn wakes_at(&self) -> Option<Timestamp> {
        let backoff = self.backing_off.first().map(|(until, _)| *until);
        let patience = self.unschedulable.first().and_then(|(since, _)| since.checked_add(PATIENCE).ok());
        match (backoff, patience) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether somebody can be looked at now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.active.is_empty() || self.first_early().is_some()
    }

    fn flush(&mut self, now: Timestamp) {
        while let Some((until, (.., pod))) = self.backing_off.first().copied() {
            if until > now {
                break;
            }
            self.take_out(pod);
            self.put(pod, Subqueue::Active);
        }
        while let Some((since, pod)) = self.unschedulable.first().copied() {
            if since.checked_add(PATIENCE).is_ok_and(|end| end > now) {
                break;
            }
            self.take_out(pod);
            self.put(pod, Subqueue::Active);
        }
    }

    fn put(&mut self, pod: PodId, subqueue: Subqueue) {
        let Some(entry) = self.entries.get_mut(&pod) else { return };
        entry.subqueue = subqueue;
        let rank = (Reverse(entry.priority), entry.since, entry.number, pod);
        match subqueue {
            Subqueue::Active => {
                self.active.insert(rank);
            }
            Subqueue::BackingOff { until, .. } => {
                self.backing_off.insert((until, rank));
            }
            Subqueue::Unschedulable { .. } => {
                self.unschedulable.insert((entry.since, pod));
            }
            Subqueue::Gated | Subqueue::Out => {}
        }
    }

    fn take_out(&mut self, pod: PodId) {
        let Some(entry) = self.entries.get_mut(&pod) else { return };
        let rank = (Reverse(entry.priority), entry.since, entry.number, pod);
        match entry.subqueue {
            Subqueue::Active => self.active.remove(&rank),
            Subqueue::BackingOff { until, .. } => self.backing_off.remove(&(until, rank)),
            Subqueue::Unschedulable { .. } => self.unschedulable.remove(&(entry.since, pod)),
            Subqueue::Gated | Subqueue::Out => false,
        };
        entry.subqueue = Subqueue::Out;
    }
}

fn backoff_end(entry: &Entry) -> Timestamp {
    let doublings = entry.refusals.saturating_sub(1).min(10);
    let seconds = match entry.refusals {
        0 => 0,
        _ => (FIRST_BACKOFF_SECONDS << doublings).min(LONGEST_BACKOFF_SECONDS),
    };
    entry.since.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(entry.since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("a moment")
    }

    #[test]
    fn priority_goes_before_age() {
        let mut queue = Queue::default();
        queue.add(1, 0, false, at(0));
        queue.add(2, 5, false, at(1));
        queue.add(3, 0, false, at(0));
        queue.add(4, 9, true, at(0));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(at(2))).collect();
        assert_eq!(order, [2, 1, 3], "the gated one is not looked at");
        queue.change(4, 9, false, at(3));
        assert_eq!(queue.pop(at(3)), Some(4));
    }

    #[test]
    fn a_refused_pod_waits_for_what_may_help_or_five_minutes() {
        let mut queue = Queue::default();
        queue.add(1, 0, false, at(0));
        queue.pop(at(0));
        queue.refuse(1, Rules::of(&[Rule::Fit]), at(0));
        queue.stir(Rules::of(&[Rule::VolumeBinding]), at(5), |_| true);
        assert_eq!(queue.pop(at(5)), None);
        assert_eq!(queue.wakes_at(), Some(at(300)));
        queue.stir(Rules::of(&[Rule::Fit, Rule::Ports]), at(5), |_| true);
        assert_eq!(queue.pop(at(5)), Some(1));
        queue.refuse(1, Rules::of(&[Rule::Fit]), at(5));
        assert_eq!(queue.pop(at(304)), None);
        assert_eq!(queue.pop(at(305)), Some(1));
    }

    #[test]
    fn backoff_doubles_up_to_ten_seconds_and_gives_way_when_nobody_else_waits() {
        let mut queue = Queue::default();
        queue.add(1, 0, false, at(0));
        for (refusal, wait) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10)] {
            let now = at(refusal * 100);
            assert_eq!(queue.pop(now), Some(1));
            queue.retry(1, now);
            assert_eq!(queue.wakes_at(), Some(at(refusal * 100 + wait)));
            assert_eq!(queue.pop(now), None, "a wronged pod is not taken early");
        }
        let mut queue = Queue::default();
        queue.add(1, 9, false, at(0));
        queue.pop(at(0));
        queue.refuse(1, Rules::of(&[Rule::Fit]), at(0));
        queue.stir(Rules::ALL, at(0), |_| true);
        queue.add(2, 0, false, at(0));
        assert_eq!(queue.pop(at(0)), Some(2), "backing off");
        assert_eq!(queue.pop(at(0)), Some(1), "nobody else waits");
    }
}
