//! Jobs: pods until enough have succeeded, or too many have failed.

mod failure;
mod indexes;
mod per_index;
mod pods;
mod success;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Map, Value, json};

use super::{claim, is_ready, note, owners_of, status_write};
use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::json::{moment, put_nonzero, set_condition};
use crate::object::{Fields, Key, Kind, Object};
use crate::write::{PatchKind, Propagation, Write};
use failure::Mercy;
use per_index::PerIndex;

pub(super) const NAME: &str = "job-controller";

/// Whom `managedBy` names for this controller; jobs of others are left alone.
const MANAGER: &str = "kubernetes.io/job-controller";

/// Pods carry it until they have been counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The first wait after a failure, and the longest.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_mins(10);

const REACHED: &str = "Reached expected number of succeeded pods";

/// The controller.
pub struct Jobs {
    seed: u64,
    turn: u64,
    /// Per job: failures since the last success, and the time of the last.
    failures: BTreeMap<String, (u32, Timestamp)>,
    /// Pods that are counted, until their finalizer is gone.
    counted: BTreeSet<String>,
}

impl Jobs {
    /// Names of pods come from the seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, turn: 0, failures: BTreeMap::new(), counted: BTreeSet::new() }
    }
}

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::Job => {
                if event.change == Change::Deleted {
                    self.failures.remove(event.object.uid());
                }
                keys.push(event.key.clone());
            }
            Kind::Pod => {
                if event.change == Change::Deleted || !is_tracked(&event.object) {
                    self.counted.remove(event.object.uid());
                }
                owners_of(event, Kind::Job, cache, keys);
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(job) = cache.get(key) else { return orphans(key, cache) };
        if !matches!(job.text(&["spec", "managedBy"]), "" | MANAGER) {
            return Outcome::nothing();
        }
        let Some(selector) = LabelSelector::from_object(job.at(&["spec", "selector"])) else {
            return Outcome::nothing();
        };
        let claimed = claim(cache, key, job, &selector, Kind::Pod);
        if !claimed.writes.is_empty() {
            return Outcome::writes(claimed.writes);
        }
        let mut turn = Turn::new(key, job, &claimed.objects, &self.counted, now);
        if let Some(finished) = turn.finished_at() {
            turn.release_all();
            turn.expire(finished);
        } else if job.is_deleting() {
            turn.release_all();
        } else {
            turn.advance(self, cache);
        }
        turn.outcome
    }
}

pub(super) fn is_tracked(pod: &Object) -> bool {
    pod.items(&["metadata", "finalizers"]).iter().any(|finalizer| finalizer == TRACKING)
}

fn release(key: &Key) -> Write {
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}});
    Write::Patch { key: key.clone(), subresource: None, how: PatchKind::Strategic, patch }
}

/// Pods of a job that is gone are held by nobody.
fn orphans(key: &Key, cache: &Cache) -> Outcome {
    let pods = cache
        .within(Kind::Pod, &key.namespace)
        .filter(|(_, pod)| is_tracked(pod) && pod.label("batch.kubernetes.io/job-name") == Some(&key.name));
    Outcome::writes(pods.map(|(key, _)| release(key)).collect())
}

/// One reconciliation of one job.
struct Turn<'a> {
    key: &'a Key,
    job: &'a Object,
    now: Timestamp,
    pods: Vec<(&'a Key, &'a Object)>,
    active: Vec<(&'a Key, &'a Object)>,
    /// Ended and not yet counted.
    new_succeeded: Vec<(&'a Key, &'a Object)>,
    new_failed: Vec<(&'a Key, &'a Object)>,
    conditions: Vec<Value>,
    outcome: Outcome,
}

impl<'a> Turn<'a> {
    fn new(
        key: &'a Key,
        job: &'a Object,
        pods: &[(&'a Key, &'a Object)],
        counted: &BTreeSet<String>,
        now: Timestamp,
    ) -> Self {
        let replaces_failed_only = job.text(&["spec", "podReplacementPolicy"]) == "Failed";
        let mut turn = Self {
            key,
            job,
            now,
            pods: pods.to_vec(),
            active: Vec::new(),
            new_succeeded: Vec::new(),
            new_failed: Vec::new(),
            conditions: job.items(&["status", "conditions"]).to_vec(),
            outcome: Outcome::nothing(),
        };
        for (pod_key, pod) in pods {
            let fresh = is_tracked(pod) && !counted.contains(pod.uid());
            match pod.text(&["status", "phase"]) {
                "Succeeded" if fresh => turn.new_succeeded.push((pod_key, pod)),
                "Failed" if fresh => turn.new_failed.push((pod_key, pod)),
                "Succeeded" | "Failed" => {}
                // A pod on its way out counts as failed, unless the job waits for its end.
                _ if pod.is_deleting() && !replaces_failed_only && fresh => {
                    turn.new_failed.push((pod_key, pod));
                }
                _ if pod.is_deleting() => {}
                _ => turn.active.push((pod_key, pod)),
            }
        }
        turn
    }

    fn number(&self, field: &str) -> i64 {
        self.job.number(&["status", field]).unwrap_or(0)
    }

    fn has(&self, kind: &str) -> bool {
        self.conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    }

    /// Reason and sentence of a condition.
    fn why(&self, kind: &str) -> Option<(String, String)> {
        let condition = self.conditions.iter().find(|condition| condition["type"] == kind)?;
        Some((condition.text(&["reason"]).to_owned(), condition.text(&["message"]).to_owned()))
    }

    /// Pods on their way out.
    fn going(&self) -> impl Iterator<Item = &'a Object> {
        self.pods.iter().map(|(_, pod)| *pod).filter(|pod| pod.is_deleting() && !super::is_finished(pod))
    }

    fn finished_at(&self) -> Option<Timestamp> {
        let ended = |condition: &&Value| {
            condition["status"] == "True"
                && (condition["type"] == "Complete" || condition["type"] == "Failed")
        };
        self.conditions.iter().find(ended)?.time(&["lastTransitionTime"])
    }

    fn release_all(&mut self) {
        let tracked = self.pods.iter().filter(|(_, pod)| is_tracked(pod));
        self.outcome.writes.extend(tracked.map(|(key, _)| release(key)));
    }

    /// A finished job with a time to live goes when it is over.
    fn expire(&mut self, finished: Timestamp) {
        let Some(seconds) = self.job.number(&["spec", "ttlSecondsAfterFinished"]) else { return };
        let due = finished.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        if due > self.now {
            self.outcome.again(due);
        } else if !self.job.is_deleting() {
            self.outcome.writes.push(Write::Delete {
                key: self.key.clone(),
                uid: Some(self.job.uid().to_owned()),
                grace: None,
                propagation: Some(Propagation::Foreground),
            });
        }
    }

    fn is_indexed(&self) -> bool {
        self.job.text(&["spec", "completionMode"]) == "Indexed"
    }

    fn advance(&mut self, jobs: &mut Jobs, cache: &Cache) {
        let job = self.job;
        let suspended = job.at(&["spec", "suspend"]) == true;
        let mut start = job.time(&["status", "startTime"]);
        if start.is_none() && !suspended {
            start = Some(self.now);
        }
        let mut verdict = failure::judge(self, start);
        let indexes = indexes::Indexes::of(job, &self.new_succeeded);
        let ended = self.has("FailureTarget") || self.has("SuccessCriteriaMet");
        // What is taken down because the job ends has not failed.
        let failures: &[_] = if ended { &[] } else { &self.new_failed };
        let mut per_index = match self.is_indexed() {
            true => PerIndex::of(job, &indexes, &self.active, failures),
            false => None,
        };
        let ending = ended || verdict.fails.is_some();
        if !ending
            && let Some((reason, message)) = per_index.as_ref().and_then(|all| all.fails(job, &indexes))
        {
            verdict.fails = Some((reason.to_owned(), message.to_owned()));
        }
        let succeeded = match self.is_indexed() {
            true => indexes.count(),
            false => self.number("succeeded") + i64::try_from(self.new_succeeded.len()).unwrap_or(0),
        };
        self.remember_failures(jobs, verdict.counted);

        let mut terminating = self.going().count();
        let mut active = self.active.clone();
        let completions = job.number(&["spec", "completions"]);
        let done = match completions {
            Some(wanted) => succeeded >= wanted,
            None => succeeded > 0 && active.is_empty(),
        };
        let success = match success::met(job, &indexes).filter(|_| self.is_indexed()) {
            Some(message) => Some(("SuccessPolicy", message)),
            None => done.then(|| ("CompletionsReached", REACHED.to_owned())),
        };
        let mut created = 0_usize;
        let removed;
        if let Some((reason, message)) = &verdict.fails {
            self.set("FailureTarget", reason, message);
            removed = self.remove(&active);
        } else if self.has("FailureTarget") {
            removed = self.remove(&active);
        } else if self.has("SuccessCriteriaMet") {
            removed = self.let_go(&active);
        } else if let Some((reason, message)) = success {
            self.set("SuccessCriteriaMet", reason, &message);
            removed = self.let_go(&active);
        } else if suspended {
            removed = self.let_go(&active);
            if start.is_some() || !self.has("Suspended") {
                self.suspend(true);
            }
            start = None;
        } else {
            if self.has("Suspended") {
                self.suspend(false);
                start = Some(self.now);
            }
            (created, removed) = self.resize(jobs, cache, succeeded, &indexes, per_index.as_ref());
        }
        // A job that ends has no successors to wait for.
        if self.has("FailureTarget") || self.has("SuccessCriteriaMet") {
            per_index.iter_mut().for_each(|per_index| per_index.awaiting.clear());
        }
        self.new_failed.retain(|(key, _)| !per_index.as_ref().is_some_and(|known| known.keeps(key)));
        let ignored = |pod: &Object| failure::mercy(job, pod) == Mercy::Ignored;
        let newly_failed = self.new_failed.iter().filter(|(_, pod)| !ignored(pod)).count();
        let failed = self.number("failed") + i64::try_from(newly_failed).unwrap_or(0);
        if removed > 0 {
            active.drain(..removed.min(active.len()));
            // What has no node goes at once, what has one takes its time; the next event tells.
            terminating += removed;
        }
        let over = active.is_empty() && terminating == 0;
        let mut completion = None;
        if over && self.has("FailureTarget") && !self.has("Failed") {
            if let Some((reason, message)) = self.why("FailureTarget") {
                self.set("Failed", &reason, &message);
                let reason = failure::known_reason(&reason);
                self.outcome.writes.push(super::warning(NAME, self.key, job, reason, message));
            }
        } else if over && self.has("SuccessCriteriaMet") && !self.has("Complete") {
            if let Some((reason, message)) = self.why("SuccessCriteriaMet") {
                self.set("Complete", &reason, &message);
            }
            completion = Some(self.now);
            self.outcome.writes.push(note(NAME, self.key, job, "Completed", "Job completed".to_owned()));
        }
        let mut status = Map::new();
        put_nonzero(&mut status, "active", i64::try_from(active.len() + created).unwrap_or(0));
        put_nonzero(&mut status, "succeeded", succeeded);
        put_nonzero(&mut status, "failed", failed);
        let ready = active.iter().filter(|(_, pod)| is_ready(pod)).count();
        status.insert("ready".to_owned(), ready.into());
        status.insert("terminating".to_owned(), terminating.into());
        status.insert("uncountedTerminatedPods".to_owned(), json!({}));
        if let Some(start) = start {
            status.insert("startTime".to_owned(), moment(start));
        }
        if let Some(completion) = completion {
            status.insert("completionTime".to_owned(), moment(completion));
        }
        if self.is_indexed() && indexes.count() > 0 {
            status.insert("completedIndexes".to_owned(), indexes.to_string().into());
        }
        if let Some(per_index) = &per_index {
            status.insert("failedIndexes".to_owned(), per_index.failed.to_string().into());
        }
        if !self.conditions.is_empty() {
            status.insert("conditions".to_owned(), self.conditions.clone().into());
        }
        // The count comes first: a pod whose finalizer is gone can no longer be counted.
        let mut writes: Vec<Write> = status_write(self.key, job, status.into()).into_iter().collect();
        for (pod_key, pod) in self.new_succeeded.iter().chain(&self.new_failed) {
            jobs.counted.insert(pod.uid().to_owned());
            writes.push(release(pod_key));
        }
        // Those counted before whose finalizer could not be taken off.
        let known = self.pods.iter().filter(|(_, pod)| is_tracked(pod) && super::is_finished(pod));
        for (pod_key, pod) in known {
            let fresh = self.new_succeeded.iter().chain(&self.new_failed).any(|(key, _)| key == pod_key);
            if !fresh && jobs.counted.contains(pod.uid()) {
                writes.push(release(pod_key));
            }
        }
        writes.append(&mut self.outcome.writes);
        self.outcome.writes = writes;
    }

    fn remember_failures(&self, jobs: &mut Jobs, counted: i64) {
        if !self.new_succeeded.is_empty() {
            jobs.failures.remove(self.job.uid());
        }
        if counted > 0 {
            let entry = jobs.failures.entry(self.job.uid().to_owned()).or_insert((0, self.now));
            entry.0 = entry.0.saturating_add(u32::try_from(counted).unwrap_or(1));
            entry.1 = self.now;
        }
    }

    fn set(&mut self, kind: &str, reason: &str, message: &str) {
        let condition = json!({
            "type": kind, "status": "True", "reason": reason, "message": message, "lastProbeTime": moment(self.now),
        });
        if !self.has(kind) {
            set_condition(&mut self.conditions, condition, self.now);
        }
    }

    fn suspend(&mut self, suspended: bool) {
        let (status, reason, message) = match suspended {
            true => ("True", "JobSuspended", "Job suspended"),
            false => ("False", "JobResumed", "Job resumed"),
        };
        if suspended && self.has("Suspended") {
            return;
        }
        let condition = json!({
            "type": "Suspended", "status": status, "reason": reason, "message": message,
            "lastProbeTime": moment(self.now),
        });
        set_condition(&mut self.conditions, condition, self.now);
        let word = if suspended { "Suspended" } else { "Resumed" };
        self.outcome.writes.push(note(NAME, self.key, self.job, word, message.to_owned()));
    }
}
