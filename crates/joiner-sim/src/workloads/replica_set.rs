//! ReplicaSets: as many pods as are wanted, made from one template; and which of them go first when there are too many.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Value, json};

use super::{
    availability, claim, is_active, is_ready, note, owners_of, pod_from_template, ready_since, status_write,
};
use crate::cache::Cache;
use crate::connection::Refusal;
use crate::controller::{Controller, Outcome};
use crate::event::Event;
use crate::json::{put_nonzero, set_condition};
use crate::object::{Fields, Key, Kind, Object};
use crate::write::Write;

const NAME: &str = "replicaset-controller";

/// So many pods are created or deleted at a time.
const BURST: usize = 500;

/// The condition of a set whose pods cannot be created.
const FAILURE: &str = "ReplicaFailure";

/// The cost of deleting a pod, lower goes first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The controller.
pub struct ReplicaSets {
    seed: u64,
    turn: u64,
    /// Why pods of a set could not be created, until one can.
    failures: BTreeMap<Key, String>,
}

impl ReplicaSets {
    /// Names of pods come from the seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, turn: 0, failures: BTreeMap::new() }
    }
}

impl Controller for ReplicaSets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::ReplicaSet => keys.push(event.key.clone()),
            Kind::Pod => owners_of(event, Kind::ReplicaSet, cache, keys),
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(set) = cache.get(key) else { return Outcome::nothing() };
        let Some(selector) = LabelSelector::from_object(set.at(&["spec", "selector"])) else {
            return Outcome::nothing();
        };
        let claimed = claim(cache, key, set, &selector, Kind::Pod);
        if !claimed.writes.is_empty() {
            return Outcome::writes(claimed.writes);
        }
        let terminating =
            claimed.objects.iter().filter(|(_, pod)| pod.is_deleting() && !super::is_finished(pod));
        let terminating = i64::try_from(terminating.count()).unwrap_or(0);
        let pods: Vec<(&Key, &Object)> =
            claimed.objects.into_iter().filter(|(_, pod)| is_active(pod)).collect();
        let wanted = usize::try_from(set.number(&["spec", "replicas"]).unwrap_or(1)).unwrap_or(0);
        let mut outcome = Outcome::nothing();
        if pods.len() >= wanted {
            self.failures.remove(key);
        }
        if !set.is_deleting() {
            self.manage(key, set, &pods, wanted, cache, now, &mut outcome);
        }
        let failure = self.failures.get(key).map(String::as_str);
        if outcome.writes.is_empty() || failure.is_some() {
            // What was refused before is told before it is tried again.
            let status = status(set, &pods, terminating, failure, now, &mut outcome);
            outcome.writes.splice(0..0, status_write(key, set, status));
        }
        outcome
    }

    fn refused(&mut self, key: &Key, write: &Write, refusal: &Refusal) {
        if matches!(write, Write::Create { .. }) {
            self.failures.insert(key.clone(), refusal.message.clone());
        }
    }
}

impl ReplicaSets {
    #[allow(clippy::too_many_arguments, reason = "one step of one reconciliation")]
    fn manage(
        &mut self,
        key: &Key,
        set: &Value,
        pods: &[(&Key, &Object)],
        wanted: usize,
        cache: &Cache,
        now: Timestamp,
        outcome: &mut Outcome,
    ) {
        if pods.len() < wanted {
            let prefix = format!("{}-", key.name);
            for _ in 0..(wanted - pods.len()).min(BURST) {
                let mut pod = pod_from_template(Kind::ReplicaSet, set, set.at(&["spec", "template"]));
                self.turn += 1;
                let turn = self.turn ^ cache.revision().rotate_left(32);
                let name = super::name_from_prefix(&mut pod, &prefix, self.seed, turn);
                let namespace = key.namespace.to_string();
                outcome.writes.push(Write::Create { kind: Kind::Pod, namespace, object: pod });
                outcome.writes.push(note(NAME, key, set, "SuccessfulCreate", format!("Created pod: {name}")));
            }
        } else if pods.len() > wanted {
            for pod in ranked(set, pods, cache, now).iter().take((pods.len() - wanted).min(BURST)) {
                let name = &pod.key.name;
                outcome.writes.push(Write::delete(pod.key.clone(), pod.uid));
                outcome.writes.push(note(NAME, key, set, "SuccessfulDelete", format!("Deleted pod: {name}")));
            }
        }
    }
}

fn status(
    set: &Value,
    pods: &[(&Key, &Object)],
    terminating: i64,
    failure: Option<&str>,
    now: Timestamp,
    outcome: &mut Outcome,
) -> Value {
    let min_ready = set.number(&["spec", "minReadySeconds"]).unwrap_or(0);
    let template_labels = set.entries(&["spec", "template", "metadata", "labels"]);
    let (mut labelled, mut ready, mut available) = (0, 0, 0);
    for (_, pod) in pods {
        let mut labels = template_labels.into_iter().flatten();
        labelled += i64::from(labels.all(|(key, value)| pod.label(key) == value.as_str()));
        ready += i64::from(is_ready(pod));
        let (is_available, due) = availability(pod, min_ready, now);
        available += i64::from(is_available);
        if let Some(due) = due {
            outcome.again(due);
        }
    }
    let mut status = serde_json::Map::new();
    status.insert("replicas".to_owned(), pods.len().into());
    put_nonzero(&mut status, "fullyLabeledReplicas", labelled);
    put_nonzero(&mut status, "readyReplicas", ready);
    put_nonzero(&mut status, "availableReplicas", available);
    status.insert("terminatingReplicas".to_owned(), terminating.into());
    put_nonzero(&mut status, "observedGeneration", set.generation());
    let mut conditions = set.items(&["status", "conditions"]).to_vec();
    let known = conditions.iter().any(|condition| condition["type"] == FAILURE);
    match failure {
        // Names differ from try to try; the first sentence stands for all.
        Some(message) if !known => {
            let condition =
                json!({"type": FAILURE, "status": "True", "reason": "FailedCreate", "message": message});
            set_condition(&mut conditions, condition, now);
        }
        Some(_) => {}
        None => conditions.retain(|condition| condition["type"] != FAILURE),
    }
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), conditions.into());
    }
    json!(status)
}

/// What decides how soon a pod goes, what counts first at the top; the least goes first.
///
/// Kubernetes leaves it to chance which of otherwise equal pods goes, and asks for the uid before it looks at restarts: that is no order,
/// for it can go in circles. Here the uid comes last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    bound: bool,
    phase: u8,
    ready: bool,
    deletion_cost: i32,
    /// How many pods of the same owner's sets share its node.
    neighbours: Reverse<usize>,
    /// 0 for pods that are not ready: they are only compared with their like.
    ready_for: i64,
    restarts: Reverse<i64>,
    age: i64,
    uid: &'a str,
    key: &'a Key,
}

impl<'a> Rank<'a> {
    fn of(key: &'a Key, pod: &'a Object, neighbours: usize, now: Timestamp) -> Self {
        let ready = is_ready(pod);
        let cost = pod.annotation(DELETION_COST).and_then(|cost| cost.parse().ok());
        Self {
            bound: !pod.text(&["spec", "nodeName"]).is_empty(),
            phase: match pod.text(&["status", "phase"]) {
                "Pending" => 0,
                "Running" => 2,
                _ => 1,
            },
            ready,
            deletion_cost: cost.unwrap_or(0),
            neighbours: Reverse(neighbours),
            ready_for: if ready { magnitude(ready_since(pod), now) } else { 0 },
            restarts: Reverse(restarts(pod)),
            age: magnitude(pod.created(), now),
            uid: pod.uid(),
            key,
        }
    }
}

/// The order in which pods go. Pods on nodes with many of their kind go earlier: those of all sets of the same Deployment count.
fn ranked<'a>(set: &Value, pods: &[(&'a Key, &'a Object)], cache: &Cache, now: Timestamp) -> Vec<Rank<'a>> {
    let mut per_node: BTreeMap<&str, usize> = BTreeMap::new();
    let sets: Vec<&str> = match set.manager() {
        Some(manager) => cache.managed_by(manager.uid, Kind::ReplicaSet).map(|(_, set)| set.uid()).collect(),
        None => vec![set.uid()],
    };
    for uid in sets {
        for (_, pod) in cache.managed_by(uid, Kind::Pod).filter(|(_, pod)| is_active(pod)) {
            *per_node.entry(pod.text(&["spec", "nodeName"])).or_default() += 1;
        }
    }
    let neighbours = |pod: &Object| per_node.get(pod.text(&["spec", "nodeName"])).copied().unwrap_or(0);
    let mut ranked: Vec<Rank<'_>> =
        pods.iter().map(|(key, pod)| Rank::of(key, pod, neighbours(pod), now)).collect();
    ranked.sort_unstable();
    ranked
}

/// Ages are compared by their power of two, so that which of many old pods goes is a matter of chance (their uid) rather than of age.
/// What has no beginning is younger than everything.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> i64 {
    let Some(since) = since else { return -2 };
    let age = now.duration_since(since).as_nanos();
    if age <= 0 { -1 } else { i64::from(age.ilog2()) }
}

fn restarts(pod: &Value) -> i64 {
    let containers = pod.items(&["status", "containerStatuses"]).iter();
    containers.filter_map(|container| container.number(&["restartCount"])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the fields say, most weighty first; each pod goes before the next for that reason alone.
    #[test]
    fn what_counts_more_decides_first() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let time = |seconds: i64| (now - jiff::SignedDuration::from_secs(seconds)).to_string();
        let pod = |node: &str,
                   phase: &str,
                   ready: Option<i64>,
                   cost: &str,
                   restarts: i64,
                   age: i64,
                   uid: &str| {
            let ready = ready
                .map(|since| json!({"type": "Ready", "status": "True", "lastTransitionTime": time(since)}));
            Object::from(json!({
                "metadata": {"name": "web", "namespace": "shop", "uid": uid, "creationTimestamp": time(age),
                    "annotations": {DELETION_COST: cost}},
                "spec": {"nodeName": node},
                "status": {"phase": phase, "conditions": ready.into_iter().collect::<Vec<_>>(),
                    "containerStatuses": [{"restartCount": restarts}]},
            }))
        };
        let order = [
            (pod("", "Pending", None, "9", 0, 900, "z"), 1),
            (pod("a", "Pending", None, "9", 0, 900, "z"), 1),
            (pod("a", "Unknown", None, "9", 0, 900, "z"), 1),
            (pod("a", "Running", None, "9", 0, 900, "z"), 1),
            (pod("a", "Running", Some(800), "-5", 0, 900, "z"), 1),
            (pod("a", "Running", Some(800), "0", 0, 900, "z"), 3),
            (pod("a", "Running", Some(10), "0", 0, 900, "z"), 2),
            (pod("a", "Running", Some(800), "0", 5, 900, "z"), 2),
            (pod("a", "Running", Some(800), "0", 1, 820, "z"), 2),
            // 800 and 1,000 seconds are of one magnitude, 9,000 are not.
            (pod("a", "Running", Some(800), "0", 0, 1000, "z"), 2),
            (pod("a", "Running", Some(800), "0", 0, 9000, "a"), 2),
            (pod("a", "Running", Some(800), "0", 0, 9100, "b"), 2),
        ];
        let key = Key::new(Kind::Pod, "shop", "web");
        let ranks: Vec<Rank<'_>> =
            order.iter().map(|(pod, neighbours)| Rank::of(&key, pod, *neighbours, now)).collect();
        for (number, pair) in ranks.windows(2).enumerate() {
            assert!(pair[0] < pair[1], "pod {number} goes before the next");
        }
    }
}
