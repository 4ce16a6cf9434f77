//! Nodes that are well and nodes that are not: conditions become taints, lost nodes are noticed, and their pods are called unready.
//!
//! Nobody writes heartbeats (see [`crate::kubelet`]); a node counts as silent while its annotation says that its kubelet has stopped.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::json::{moment, set_condition};
use crate::kubelet::annotations;
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::note;
use crate::write::Write;

const NAME: &str = "node-controller";

/// A node is given up after so long without a word from its kubelet.
const SILENCE: SignedDuration = SignedDuration::from_secs(50);

/// Between two nodes of a zone whose pods are driven away.
const BETWEEN_EVICTIONS: SignedDuration = SignedDuration::from_secs(10);
/// The same in a large zone most of which is gone.
const BETWEEN_EVICTIONS_IN_TROUBLE: SignedDuration = SignedDuration::from_secs(100);
/// Zones up to this size whose larger part is gone are left alone.
const SMALL_ZONE: usize = 50;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Which status of which condition makes which taint.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The controller.
#[derive(Default)]
pub struct NodeLifecycle {
    /// Since when nodes have been silent.
    silent: BTreeMap<Key, Timestamp>,
    /// Nodes that are not ready.
    ill: BTreeSet<Key>,
    /// From when on the next node of a zone may lose its pods.
    next_eviction: BTreeMap<String, Timestamp>,
}

impl Controller for NodeLifecycle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::Node => {
                if event.change == Change::Deleted {
                    self.silent.remove(&event.key);
                } else {
                    keys.push(event.key.clone());
                }
                match event.present().and_then(|node| trouble(node)) {
                    Some(_) => self.ill.insert(event.key.clone()),
                    None => self.ill.remove(&event.key),
                };
                // Whether pods are driven away depends on how the other nodes of the cluster are.
                let health = |node: &Object| node.condition_is_true("Ready");
                let before = event.previous.as_ref().map(health);
                if before != event.present().map(health) && before.is_some() {
                    keys.extend(self.ill.iter().filter(|key| **key != event.key).cloned());
                }
            }
            // A pod that comes to a lost node is not ready there.
            Kind::Pod if event.object.condition_is_true("Ready") && event.change != Change::Deleted => {
                let node = Key::new(Kind::Node, "", event.object.text(&["spec", "nodeName"]));
                if cache.get(&node).is_some_and(|node| trouble(node) == Some(UNREACHABLE)) {
                    keys.push(node);
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(node) = cache.get(key) else { return Outcome::nothing() };
        let mut outcome = Outcome::nothing();
        if self.notice_silence(key, node, now, &mut outcome) {
            return outcome;
        }
        let mut taints = node.items(&["spec", "taints"]).to_vec();
        reconcile_no_schedule(node, &mut taints, now);
        self.reconcile_no_execute(node, cache, &mut taints, now, &mut outcome);
        if taints != node.items(&["spec", "taints"]) {
            let list = if taints.is_empty() { Value::Null } else { taints.into() };
            outcome.writes.push(Write::merge(key.clone(), json!({"spec": {"taints": list}})));
        }
        // A kubelet that says itself that its node is not ready knows about its pods.
        if trouble(node) == Some(UNREACHABLE) {
            for (pod_key, pod) in cache.pods_on(&key.name).filter(|(_, pod)| pod.condition_is_true("Ready")) {
                outcome.writes.push(call_unready(pod_key, pod, now));
                outcome.writes.push(crate::workloads::warning(
                    NAME,
                    pod_key,
                    pod,
                    "NodeNotReady",
                    "Node is not ready".to_owned(),
                ));
            }
        }
        outcome
    }
}

/// The taint of a node that is not ready.
fn trouble(node: &Value) -> Option<&'static str> {
    match node.condition("Ready").map(|ready| ready.text(&["status"])) {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    }
}

impl NodeLifecycle {
    /// After long enough a silent node's conditions are unknown; says whether that was written.
    fn notice_silence(&mut self, key: &Key, node: &Object, now: Timestamp, outcome: &mut Outcome) -> bool {
        if node.annotation(annotations::KUBELET) != Some("stopped") {
            self.silent.remove(key);
            return false;
        }
        let since = *self.silent.entry(key.clone()).or_insert(now);
        let due = since.saturating_add(SILENCE).unwrap_or(Timestamp::MAX);
        if now < due {
            outcome.again(due);
            return false;
        }
        let mut conditions = node.items(&["status", "conditions"]).to_vec();
        let mut changed = false;
        for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
            let old = conditions.iter().find(|condition| condition["type"] == kind);
            if old.is_some_and(|old| old["status"] == "Unknown") {
                continue;
            }
            let mut condition = json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            });
            if let Some(heartbeat) = old.and_then(|old| old.get("lastHeartbeatTime")) {
                condition["lastHeartbeatTime"] = heartbeat.clone();
            }
            changed |= set_condition(&mut conditions, condition, now);
        }
        if changed {
            let patch = json!({"status": {"conditions": conditions}});
            outcome.writes.push(Write::merge_status(key.clone(), patch));
            let message = format!("Node {} status is now: NodeNotReady", key.name);
            outcome.writes.push(note(NAME, key, node, "NodeNotReady", message));
        }
        changed
    }

    /// Taints that drive pods away: one node of a zone at a time, and none while nothing in the cluster is ready.
    fn reconcile_no_execute(
        &mut self,
        node: &Object,
        cache: &Cache,
        taints: &mut Vec<Value>,
        now: Timestamp,
        outcome: &mut Outcome,
    ) {
        let is_ours = |taint: &Value| {
            taint["effect"] == "NoExecute" && matches!(taint.text(&["key"]), NOT_READY | UNREACHABLE)
        };
        let Some(wanted) = trouble(node) else {
            if node.condition_is_true("Ready") {
                taints.retain(|taint| !is_ours(taint));
            }
            return;
        };
        if taints.iter().any(|taint| is_ours(taint) && taint["key"] == wanted) {
            return;
        }
        let pause = match zone_pause(node, cache) {
            Some(pause) => pause,
            None => {
                if !cache.all(Kind::Node).any(|(_, node)| node.condition_is_true("Ready")) {
                    taints.retain(|taint| !is_ours(taint));
                }
                return;
            }
        };
        // One that is lost in another way than before has had its turn.
        let swapped = taints.iter().any(is_ours);
        let zone = zone(node);
        let earliest = self.next_eviction.get(&zone).copied().unwrap_or(Timestamp::MIN);
        if !swapped && now < earliest {
            outcome.again(earliest);
            return;
        }
        if !swapped {
            self.next_eviction.insert(zone, now.saturating_add(pause).unwrap_or(Timestamp::MAX));
        }
        taints.retain(|taint| !is_ours(taint));
        taints.push(json!({"key": wanted, "effect": "NoExecute", "timeAdded": moment(now)}));
    }
}

fn zone(node: &Value) -> String {
    let label = |name: &str| node.label(name).unwrap_or_default();
    format!("{}/{}", label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

/// How long to wait between two nodes of this node's zone; nothing when nobody is to be driven away.
fn zone_pause(node: &Value, cache: &Cache) -> Option<SignedDuration> {
    let zone = zone(node);
    let (mut ready, mut lost, mut ready_anywhere) = (0_usize, 0_usize, false);
    for (_, other) in cache.all(Kind::Node) {
        let is_ready = other.condition_is_true("Ready");
        ready_anywhere |= is_ready;
        if self::zone(other) == zone {
            ready += usize::from(is_ready);
            lost += usize::from(!is_ready && other.condition("Ready").is_some());
        }
    }
    let larger_part = lost > 2 && lost * 100 >= (ready + lost) * 55;
    match () {
        () if !ready_anywhere => None,
        () if ready > 0 && larger_part && ready + lost <= SMALL_ZONE => None,
        () if ready > 0 && larger_part => Some(BETWEEN_EVICTIONS_IN_TROUBLE),
        () => Some(BETWEEN_EVICTIONS),
    }
}

/// Taints that keep new pods away follow from conditions and from `spec.unschedulable`.
fn reconcile_no_schedule(node: &Value, taints: &mut Vec<Value>, now: Timestamp) {
    let conditions = node.items(&["status", "conditions"]);
    let mut wanted: Vec<&str> = Vec::new();
    for condition in conditions {
        let taint = TAINTS
            .iter()
            .find(|(kind, status, _)| condition["type"] == *kind && condition["status"] == *status);
        wanted.extend(taint.map(|(_, _, key)| key));
    }
    if node.at(&["spec", "unschedulable"]) == true {
        wanted.push(UNSCHEDULABLE);
    }
    let is_ours = |taint: &Value| {
        let key = taint.text(&["key"]);
        taint["effect"] == "NoSchedule"
            && (key == UNSCHEDULABLE || TAINTS.iter().any(|(_, _, known)| *known == key))
    };
    taints.retain(|taint| !is_ours(taint) || wanted.contains(&taint.text(&["key"])));
    for key in wanted {
        if !taints.iter().any(|taint| is_ours(taint) && taint["key"] == key) {
            taints.push(json!({"key": key, "effect": "NoSchedule", "timeAdded": moment(now)}));
        }
    }
}

fn call_unready(key: &Key, pod: &Value, now: Timestamp) -> Write {
    let mut conditions = pod.items(&["status", "conditions"]).to_vec();
    if let Some(ready) = conditions.iter().find(|condition| condition["type"] == "Ready").cloned() {
        let mut condition = ready;
        condition["status"] = "False".into();
        set_condition(&mut conditions, condition, now);
    }
    Write::merge_status(key.clone(), json!({"status": {"conditions": conditions}}))
}
