//! Jobs whose indexes fail one by one (`backoffLimitPerIndex`).
//!
//! Each pod carries how often its index has failed before it. The last failed pod of an index that is to be tried again is kept, uncounted, until its successor is
//! there to carry the number on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::failure::{self, Mercy};
use super::indexes::Indexes;
use super::pods::index_of;
use crate::object::{Fields, Key, Object};

/// How often the index of a pod failed before it, and how often that was ignored.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// What the failures of single indexes mean for a job.
#[derive(Debug, Default)]
pub(super) struct PerIndex<'a> {
    /// Indexes that are not tried again.
    pub failed: Indexes,
    /// The last failed pod of each index that is.
    pub awaiting: BTreeMap<i64, (&'a Key, &'a Object)>,
}

impl<'a> PerIndex<'a> {
    /// Nothing for jobs that count failures as a whole.
    pub fn of(
        job: &Object,
        done: &Indexes,
        active: &[(&Key, &Object)],
        failed: &[(&'a Key, &'a Object)],
    ) -> Option<Self> {
        let limit = job.number(&["spec", "backoffLimitPerIndex"])?;
        let completions = job.number(&["spec", "completions"])?;
        let failed: Vec<(i64, &'a Key, &'a Object)> = failed
            .iter()
            .filter_map(|(key, pod)| Some((index_of(pod)?, *key, *pod)))
            .filter(|(index, ..)| *index < completions)
            .collect();
        let mut known = Self { failed: Indexes::failed_before(job), awaiting: BTreeMap::new() };
        for (index, _, pod) in &failed {
            match failure::mercy(job, pod) {
                Mercy::FailIndex => known.failed.insert(*index),
                Mercy::Counts if count(pod, FAILURES) >= limit => known.failed.insert(*index),
                Mercy::Counts | Mercy::Ignored => {}
            }
        }
        let running: Vec<i64> = active.iter().filter_map(|(_, pod)| index_of(pod)).collect();
        for (index, key, pod) in failed {
            if done.contains(index) || known.failed.contains(index) || running.contains(&index) {
                continue;
            }
            let later = |other: &Object| tries(pod) >= tries(other) && finished_at(pod) >= finished_at(other);
            if known.awaiting.get(&index).is_none_or(|(_, other)| later(other)) {
                known.awaiting.insert(index, (key, pod));
            }
        }
        Some(known)
    }

    /// Why the job as a whole has failed.
    pub fn fails(&self, job: &Object, done: &Indexes) -> Option<(&'static str, &'static str)> {
        let most = job.number(&["spec", "maxFailedIndexes"]);
        let completions = job.number(&["spec", "completions"]).unwrap_or(i64::MAX);
        if most.is_some_and(|most| self.failed.count() > most) {
            return Some((
                failure::TOO_MANY_INDEXES,
                "Job has exceeded the specified maximal number of failed indexes",
            ));
        }
        let over = self.failed.count() > 0 && self.failed.count() + done.count() >= completions;
        over.then_some((failure::FAILED_INDEXES, "Job has failed indexes"))
    }

    /// When the next pod of an index may come.
    pub fn due(&self, index: i64) -> Option<Timestamp> {
        let (_, pod) = self.awaiting.get(&index)?;
        super::pods::after_failures(tries(pod).saturating_add(1), finished_at(pod)?)
    }

    /// What the next pod of an index carries: failures so far, and ignored ones.
    pub fn carried(&self, job: &Object, index: i64) -> (i64, i64) {
        let Some((_, pod)) = self.awaiting.get(&index) else { return (0, 0) };
        let ignored = i64::from(failure::mercy(job, pod) == Mercy::Ignored);
        (count(pod, FAILURES) + 1 - ignored, count(pod, IGNORED) + ignored)
    }

    /// Whether a failed pod is kept for its successor.
    pub fn keeps(&self, key: &Key) -> bool {
        self.awaiting.values().any(|(kept, _)| *kept == key)
    }
}

fn count(pod: &Value, annotation: &str) -> i64 {
    // Whoever writes nonsense there starts from the beginning.
    pod.annotation(annotation)
        .and_then(|text| text.parse::<i32>().ok())
        .map_or(0, |count| count.max(0).into())
}

fn tries(pod: &Value) -> u32 {
    u32::try_from(count(pod, FAILURES) + count(pod, IGNORED)).unwrap_or(u32::MAX)
}

/// When a pod ended: when its last container did, or it stopped being ready, or was deleted; else when it was made.
fn finished_at(pod: &Value) -> Option<Timestamp> {
    let containers = pod.items(&["status", "containerStatuses"]);
    let ends: Option<Vec<Timestamp>> =
        containers.iter().map(|container| container.time(&["state", "terminated", "finishedAt"])).collect();
    let not_ready =
        || pod.condition("Ready").filter(|ready| ready["status"] == "False")?.time(&["lastTransitionTime"]);
    let deleted = || {
        let grace = pod.number(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        let deadline = pod.time(&["metadata", "deletionTimestamp"])?;
        deadline.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    ends.and_then(|ends| ends.into_iter().max())
        .or_else(not_ready)
        .or_else(deleted)
        .or_else(|| pod.time(&["metadata", "creationTimestamp"]))
}
