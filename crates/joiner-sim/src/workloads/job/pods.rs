//! As many pods at a time as the job wants, with a wait after failures.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::indexes::Indexes;
use super::per_index::{self, PerIndex};
use super::{FIRST_BACKOFF, Jobs, LONGEST_BACKOFF, NAME, TRACKING, Turn};
use crate::cache::Cache;
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::{is_ready, name_from_prefix, note, pod_from_template};
use crate::write::Write;

/// So many pods are created at a time.
const BURST: usize = 500;

/// The index of a pod, as label and annotation.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

impl Turn<'_> {
    /// Creates or removes pods; says how many.
    pub(super) fn resize(
        &mut self,
        jobs: &mut Jobs,
        cache: &Cache,
        succeeded: i64,
        indexes: &Indexes,
        per_index: Option<&PerIndex<'_>>,
    ) -> (usize, usize) {
        let parallelism = self.job.number(&["spec", "parallelism"]).unwrap_or(1);
        let active = i64::try_from(self.active.len()).unwrap_or(0);
        let wanted = match self.job.number(&["spec", "completions"]) {
            None if succeeded > 0 => active.min(parallelism),
            None => parallelism,
            Some(completions) => (completions - succeeded).max(0).min(parallelism),
        };
        if active > wanted {
            let surplus = usize::try_from(active - wanted).unwrap_or(0);
            let mut ranked = self.active.clone();
            ranked.sort_by_key(|(key, pod)| order(key, pod));
            ranked.truncate(surplus);
            return (0, self.let_go(&ranked));
        }
        // Pods on their way out keep their place while the job waits for their end.
        let held: Vec<&Object> = match self.job.text(&["spec", "podReplacementPolicy"]) == "Failed" {
            true => self.going().collect(),
            false => Vec::new(),
        };
        let missing = usize::try_from(wanted - active).unwrap_or(0).saturating_sub(held.len());
        if missing == 0 {
            return (0, 0);
        }
        if per_index.is_none()
            && let Some(due) = self.backoff(jobs)
            && due > self.now
        {
            self.outcome.again(due);
            return (0, 0);
        }
        let mut free = match self.is_indexed() {
            true => self.free_indexes(indexes, per_index, &held, missing.min(BURST)),
            false => Vec::new(),
        };
        if let Some(per_index) = per_index {
            let due = |index: &i64| per_index.due(*index).filter(|due| *due > self.now);
            if let Some(next) = free.iter().filter_map(due).min() {
                self.outcome.again(next);
            }
            free.retain(|index| per_index.due(*index).is_none_or(|due| due <= self.now));
        }
        let count = if self.is_indexed() { free.len() } else { missing.min(BURST) };
        for turn in 0..count {
            self.create(jobs, cache, free.get(turn).copied(), per_index);
        }
        (count, 0)
    }

    /// Until when no new pod is made because of failures.
    fn backoff(&self, jobs: &Jobs) -> Option<Timestamp> {
        let (failures, last) = jobs.failures.get(self.job.uid())?;
        after_failures(*failures, *last)
    }

    /// The first indexes that have no pod and want one.
    fn free_indexes(
        &self,
        done: &Indexes,
        per_index: Option<&PerIndex<'_>>,
        held: &[&Object],
        count: usize,
    ) -> Vec<i64> {
        let there = self.active.iter().map(|(_, pod)| *pod).chain(held.iter().copied());
        let taken: BTreeSet<i64> = there.filter_map(|pod| index_of(pod)).collect();
        let failed = |index: i64| per_index.is_some_and(|known| known.failed.contains(index));
        let completions = self.job.number(&["spec", "completions"]).unwrap_or(0);
        (0..completions)
            .filter(|index| !done.contains(*index) && !taken.contains(index) && !failed(*index))
            .take(count)
            .collect()
    }

    fn create(
        &mut self,
        jobs: &mut Jobs,
        cache: &Cache,
        index: Option<i64>,
        per_index: Option<&PerIndex<'_>>,
    ) {
        let mut pod = pod_from_template(Kind::Job, self.job, self.job.at(&["spec", "template"]));
        let mut finalizers = pod.items(&["metadata", "finalizers"]).to_vec();
        finalizers.push(TRACKING.into());
        pod["metadata"]["finalizers"] = finalizers.into();
        let mut prefix = format!("{}-", self.key.name);
        if let Some(index) = index {
            prefix = format!("{prefix}{index}-");
            give_index(&mut pod, &self.key.name, index);
            if let Some(per_index) = per_index {
                let (failures, ignored) = per_index.carried(self.job, index);
                let annotations = &mut pod["metadata"]["annotations"];
                annotations[per_index::FAILURES] = failures.to_string().into();
                if ignored > 0 {
                    annotations[per_index::IGNORED] = ignored.to_string().into();
                }
            }
        }
        jobs.turn += 1;
        let turn = jobs.turn ^ cache.revision().rotate_left(32);
        let name = name_from_prefix(&mut pod, &prefix, jobs.seed, turn);
        let namespace = self.key.namespace.to_string();
        self.outcome.writes.push(Write::Create { kind: Kind::Pod, namespace, object: pod });
        self.outcome.writes.push(note(
            NAME,
            self.key,
            self.job,
            "SuccessfulCreate",
            format!("Created pod: {name}"),
        ));
    }

    /// Deletes pods that are not to be counted as failed; says how many.
    pub(super) fn let_go(&mut self, pods: &[(&Key, &Object)]) -> usize {
        let tracked = pods.iter().filter(|(_, pod)| super::is_tracked(pod));
        self.outcome.writes.extend(tracked.map(|(key, _)| super::release(key)));
        self.remove(pods)
    }

    /// Deletes pods; says how many.
    pub(super) fn remove(&mut self, pods: &[(&Key, &Object)]) -> usize {
        for (pod_key, pod) in pods {
            self.outcome.writes.push(Write::delete((*pod_key).clone(), pod.uid()));
            let message = format!("Deleted pod: {}", pod_key.name);
            self.outcome.writes.push(note(NAME, self.key, self.job, "SuccessfulDelete", message));
        }
        pods.len()
    }
}

/// When a pod may come after so many failures in a row.
pub(super) fn after_failures(failures: u32, last: Timestamp) -> Option<Timestamp> {
    let factor = 1_i32.checked_shl(failures.saturating_sub(1).min(10)).unwrap_or(1024);
    last.saturating_add(FIRST_BACKOFF.saturating_mul(factor).min(LONGEST_BACKOFF)).ok()
}

/// The order in which surplus pods go: those that have got least far first.
fn order(key: &Key, pod: &Object) -> (bool, bool, bool, std::cmp::Reverse<Option<Timestamp>>, Key) {
    (
        !pod.text(&["spec", "nodeName"]).is_empty(),
        pod.text(&["status", "phase"]) == "Running",
        is_ready(pod),
        std::cmp::Reverse(pod.created()),
        key.clone(),
    )
}

pub(super) fn index_of(pod: &Value) -> Option<i64> {
    pod.annotation(INDEX)?.parse().ok()
}

fn give_index(pod: &mut Value, job: &str, index: i64) {
    for field in ["labels", "annotations"] {
        if !pod["metadata"][field].is_object() {
            pod["metadata"][field] = json!({});
        }
        pod["metadata"][field][INDEX] = index.to_string().into();
    }
    let spec = &mut pod["spec"];
    spec["hostname"] = format!("{job}-{index}").into();
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mut variables = container.items(&["env"]).to_vec();
            if variables.iter().any(|variable| variable["name"] == "JOB_COMPLETION_INDEX") {
                continue;
            }
            let path = format!("metadata.labels['{INDEX}']");
            variables.push(json!({
                "name": "JOB_COMPLETION_INDEX",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}},
            }));
            container["env"] = variables.into();
        }
    }
}
