//! The life of a node: it boots, registers, and takes off the taints of its start.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Kubelets, annotations};
use crate::controller::Outcome;
use crate::json::{merge_patch, moment, set_condition};
use crate::object::{Fields, Key, Object};
use crate::write::Write;

/// Whether a node's kubelet no longer reports.
pub(crate) fn has_stopped(node: &Value) -> bool {
    node.annotation(annotations::KUBELET) == Some("stopped")
}

/// The pressures a kubelet reports, with the reason and sentence for their absence.
const NO_PRESSURE: [(&str, &str, &str); 3] = [
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
];

impl Kubelets {
    pub(super) fn node(&mut self, key: &Key, node: &Object, now: Timestamp) -> Outcome {
        let mut outcome = Outcome::nothing();
        if has_stopped(node) || node.is_deleting() {
            return outcome;
        }
        if self.node_chaos(key, node, now, &mut outcome) {
            return outcome;
        }
        if !node.condition_is_true("Ready") {
            if node.annotation(annotations::REGISTRATION) == Some("never") {
                return outcome;
            }
            let boot = self.time(node, annotations::BOOT_TIME, "node-initialize", self.lifecycle.node_boot);
            // The server's clock may be ahead of the machine's; the machine goes by its own.
            let begun = node.created().map_or(now, |created| created.min(now));
            let begun = *self.booting.entry(node.uid().to_owned()).or_insert(begun);
            let due = begun.saturating_add(boot).unwrap_or(Timestamp::MAX);
            if due > now {
                outcome.again(due);
            } else {
                self.booting.remove(node.uid());
                self.initialize(key, node, now, &mut outcome);
            }
            return outcome;
        }
        take_off_startup_taints(key, node, now, &mut outcome);
        outcome
    }

    fn initialize(&mut self, key: &Key, node: &Object, now: Timestamp, outcome: &mut Outcome) {
        let mut status = ready_status(node, now);
        for (field, room) in [("capacity", None), ("allocatable", status.get("capacity").cloned())] {
            if status.entries(&[field]).is_none_or(serde_json::Map::is_empty) {
                let room = room.unwrap_or_else(|| json!({"cpu": "1k", "memory": "1Ti", "pods": "1M"}));
                status[field] = room;
            }
        }
        if status.items(&["addresses"]).is_empty() {
            let address = self.next_address();
            status["addresses"] = json!([{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": *key.name}]);
        }
        let os = node.label("kubernetes.io/os").unwrap_or("linux").to_owned();
        let architecture = node.label("kubernetes.io/arch").unwrap_or("amd64").to_owned();
        let info = json!({
            "architecture": architecture, "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": joiner_apiserver::VERSION, "machineID": "",
            "operatingSystem": os, "osImage": "", "systemUUID": "",
        });
        if let (Some(have), Some(all)) = (status.at(&["nodeInfo"]).as_object(), info.as_object()) {
            let given = have.iter().filter(|(_, value)| **value != "");
            let mut merged = all.clone();
            merged.extend(given.map(|(name, value)| (name.clone(), value.clone())));
            status["nodeInfo"] = merged.into();
        } else {
            status["nodeInfo"] = info;
        }
        status["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": 10247}});
        status["phase"] = "Running".into();
        if let Some(patch) = merge_patch(node.at(&["status"]), &status) {
            outcome.writes.push(Write::merge_status(key.clone(), json!({"status": patch})));
        }
    }
}

/// The status with all conditions that a kubelet reports.
fn ready_status(node: &Value, now: Timestamp) -> Value {
    let mut status = node.at(&["status"]).clone();
    if !status.is_object() {
        status = json!({});
    }
    let mut conditions = status.items(&["conditions"]).to_vec();
    let mut set = |kind: &str, status: &str, reason: &str, message: &str| {
        let present = conditions.iter().find(|condition| condition["type"] == kind);
        if present.is_some_and(|present| present["status"] == status) {
            return;
        }
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": moment(now),
        });
        set_condition(&mut conditions, condition, now);
    };
    set("Ready", "True", "KubeletReady", "kubelet is posting ready status");
    for (kind, reason, message) in NO_PRESSURE {
        set(kind, "False", reason, message);
    }
    set("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route");
    status["conditions"] = conditions.into();
    status
}

fn take_off_startup_taints(key: &Key, node: &Value, now: Timestamp, outcome: &mut Outcome) {
    let Some(names) = node.annotation(annotations::STARTUP_TAINTS) else { return };
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let taints = node.items(&["spec", "taints"]);
    let goes = |taint: &&Value| {
        let (key, effect) = (taint.text(&["key"]), taint.text(&["effect"]));
        names.iter().any(|name| match name.split_once(':') {
            Some((of, with)) => of == key && with == effect,
            None => *name == key,
        })
    };
    let kept: Vec<&Value> = taints.iter().filter(|taint| !goes(taint)).collect();
    if kept.len() == taints.len() {
        return;
    }
    let delay = annotations::duration(node, annotations::STARTUP_TAINTS_TIME).unwrap_or(SignedDuration::ZERO);
    let ready = node.condition("Ready").and_then(|ready| ready.time(&["lastTransitionTime"])).unwrap_or(now);
    let due = ready.saturating_add(delay).unwrap_or(Timestamp::MAX);
    if due > now {
        outcome.again(due);
    } else {
        outcome.writes.push(Write::merge(key.clone(), json!({"spec": {"taints": kept}})));
    }
}
