//! The life of a pod on its node: created, ready, at its end, and gone.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Kubelets, annotations, chaos};
use crate::controller::Outcome;
use crate::json::{moment, set_condition};
use crate::object::{Fields, Key, Object};
use crate::workloads::is_finished;
use crate::write::Write;

/// The longest wait before a container starts again.
const LONGEST_RESTART_WAIT: SignedDuration = SignedDuration::from_mins(5);

impl Kubelets {
    pub(super) fn pod(&mut self, key: &Key, pod: &Object, node: &Value, now: Timestamp) -> Outcome {
        let mut outcome = Outcome::nothing();
        if pod.is_deleting() {
            self.end(key, pod, now, &mut outcome);
        } else if is_finished(pod) || !node.condition_is_true("Ready") {
            // A finished pod stays as it is, and nothing starts before its node has.
        } else if pod.text(&["status", "phase"]) == "Pending" {
            self.start(key, pod, node, now, &mut outcome);
        } else if !pod.condition_is_true("Ready") && marked_by_node_loss(pod, node) {
            outcome.writes.push(ready_again(key, pod, now));
        } else if !self.pod_chaos(key, pod, now, &mut outcome) {
            self.finish(key, pod, now, &mut outcome);
        }
        outcome
    }

    fn start(&mut self, key: &Key, pod: &Object, node: &Value, now: Timestamp, outcome: &mut Outcome) {
        let bound = pod.condition("PodScheduled").and_then(|bound| bound.time(&["lastTransitionTime"]));
        let node_ready = node.condition("Ready").and_then(|ready| ready.time(&["lastTransitionTime"]));
        let begin = bound.or_else(|| pod.created()).max(node_ready).map_or(now, |begin| begin.min(now));
        let wait = match annotations::duration(pod, annotations::START_TIME) {
            Some(wait) => wait,
            None => {
                let create = self.time(pod, "", "pod-create", self.lifecycle.pod_create);
                let inits = pod.items(&["spec", "initContainers"]).len();
                let inits = create.saturating_mul(i32::try_from(inits).unwrap_or(0));
                let ready = self.time(pod, "", "pod-ready", self.lifecycle.pod_ready);
                create.saturating_add(inits).saturating_add(ready)
            }
        };
        let due = begin.saturating_add(wait).unwrap_or(Timestamp::MAX);
        if due > now {
            outcome.again(due);
            return;
        }
        let address = match pod.at(&["spec", "hostNetwork"]) == true {
            true => host_address(node).to_owned(),
            false => self.next_address(),
        };
        outcome.writes.push(running(key, pod, node, &address, now));
    }

    /// Pods of Jobs end by themselves, and any pod that says so.
    fn finish(&mut self, key: &Key, pod: &Object, now: Timestamp, outcome: &mut Outcome) {
        if !ends_by_itself(pod) {
            return;
        }
        let duration = self.time(pod, annotations::DURATION, "pod-complete", self.lifecycle.job_duration);
        let code = pod.annotation(annotations::EXIT_CODE).and_then(|code| code.parse().ok()).unwrap_or(0_i64);
        let policy = pod.text(&["spec", "restartPolicy"]);
        let restarts = policy == "Always" || (policy == "OnFailure" && code != 0);
        let last = restarted_at(pod).or_else(|| pod.time(&["status", "startTime"])).unwrap_or(now);
        let mut due = last.saturating_add(duration).unwrap_or(Timestamp::MAX);
        if restarts {
            due = due.saturating_add(restart_wait(pod)).unwrap_or(Timestamp::MAX);
        }
        if due > now {
            outcome.again(due);
        } else if restarts {
            outcome.writes.push(restarted(key, pod, code, now));
        } else {
            outcome.writes.push(finished(key, pod, code, now));
        }
    }

    fn end(&mut self, key: &Key, pod: &Object, now: Timestamp, outcome: &mut Outcome) {
        let grace = pod.number(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        if grace > 0 {
            let grace = SignedDuration::from_secs(grace);
            let latest = pod.time(&["metadata", "deletionTimestamp"]).unwrap_or(now);
            let wished = latest.saturating_sub(grace).unwrap_or(latest);
            let time =
                self.time(pod, annotations::TERMINATION_TIME, "pod-delete", self.lifecycle.termination);
            // The wish is known to the second; one that is older was made before there was a kubelet to see it.
            let recent = now.duration_since(wished) < SignedDuration::from_secs(1);
            let begun = *self.ending.entry(pod.uid().to_owned()).or_insert(if recent { now } else { wished });
            let due = begun.saturating_add(time.min(grace)).unwrap_or(Timestamp::MAX);
            if due > now && !is_finished(pod) {
                outcome.again(due);
                return;
            }
        }
        if !is_finished(pod) && !pod.items(&["metadata", "finalizers"]).is_empty() {
            // Whoever holds the pod waits for its end.
            outcome.writes.push(finished(key, pod, 143, now));
        }
        if grace > 0 || pod.items(&["metadata", "finalizers"]).is_empty() {
            outcome.writes.push(Write::Delete {
                key: key.clone(),
                uid: Some(pod.uid().to_owned()),
                grace: Some(0),
                propagation: None,
            });
        }
    }
}

/// Whether there is nothing to do for a pod before somebody changes it: it runs, and is to go on.
pub(super) fn runs_on(pod: &Object) -> bool {
    pod.text(&["status", "phase"]) == "Running"
        && !pod.is_deleting()
        && pod.condition_is_true("Ready")
        && !ends_by_itself(pod)
        && !chaos::is_to_fail(pod)
}

fn ends_by_itself(pod: &Object) -> bool {
    pod.manager().is_some_and(|manager| manager.kind == "Job")
        || pod.annotation(annotations::DURATION).is_some()
}

fn host_address(node: &Value) -> &str {
    let addresses = node.items(&["status", "addresses"]).iter();
    addresses
        .filter(|address| address["type"] == "InternalIP")
        .map(|address| address.text(&["address"]))
        .next()
        .unwrap_or("10.0.0.0")
}

/// All conditions of a running pod, over those it has.
fn conditions(pod: &Value, ready: bool, reason: Option<&str>, now: Timestamp) -> Vec<Value> {
    let mut conditions = pod.items(&["status", "conditions"]).to_vec();
    let mut set = |kind: &str, holds: bool| {
        let mut condition =
            json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastProbeTime": null});
        if let (Some(reason), false) = (reason, holds) {
            condition["reason"] = reason.into();
        }
        set_condition(&mut conditions, condition, now);
    };
    set("PodReadyToStartContainers", ready);
    set("Initialized", true);
    set("ContainersReady", ready);
    for gate in pod.items(&["spec", "readinessGates"]) {
        set(gate.text(&["conditionType"]), ready);
    }
    set("Ready", ready);
    set("PodScheduled", true);
    conditions
}

fn container_status(container: &Value, running: bool, state: Value, restarts: i64) -> Value {
    json!({
        "name": container["name"], "image": container["image"], "imageID": "", "ready": running, "started": running,
        "restartCount": restarts, "state": state,
    })
}

fn running(key: &Key, pod: &Value, node: &Value, address: &str, now: Timestamp) -> Write {
    let since = json!({"running": {"startedAt": moment(now)}});
    let ended = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": moment(now), "finishedAt": moment(now),
    }});
    let containers = pod.items(&["spec", "containers"]).iter();
    let containers: Vec<Value> =
        containers.map(|container| container_status(container, true, since.clone(), 0)).collect();
    let inits = pod.items(&["spec", "initContainers"]).iter();
    let inits: Vec<Value> = inits
        .map(|container| match container["restartPolicy"] == "Always" {
            true => container_status(container, true, since.clone(), 0),
            false => {
                let mut status = container_status(container, true, ended.clone(), 0);
                status["started"] = false.into();
                status
            }
        })
        .collect();
    let host = host_address(node);
    let mut status = json!({
        "phase": "Running", "conditions": conditions(pod, true, None, now), "containerStatuses": containers,
        "hostIP": host, "hostIPs": [{"ip": host}], "podIP": address, "podIPs": [{"ip": address}],
        "startTime": moment(now), "observedGeneration": pod.generation(),
    });
    if !inits.is_empty() {
        status["initContainerStatuses"] = inits.into();
    }
    Write::merge_status(key.clone(), json!({"status": status}))
}

fn finished(key: &Key, pod: &Value, code: i64, now: Timestamp) -> Write {
    let (phase, reason) = if code == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    let begun = pod.text(&["status", "startTime"]).to_owned();
    let ended = json!({"terminated": {
        "exitCode": code, "reason": reason, "startedAt": begun, "finishedAt": moment(now),
    }});
    let containers = pod.items(&["spec", "containers"]).iter();
    let containers: Vec<Value> = containers
        .map(|container| container_status(container, false, ended.clone(), restarts(pod)))
        .collect();
    let why = if code == 0 { "PodCompleted" } else { "PodFailed" };
    let status = json!({
        "phase": phase, "conditions": conditions(pod, false, Some(why), now), "containerStatuses": containers,
    });
    Write::merge_status(key.clone(), json!({"status": status}))
}

fn restarts(pod: &Value) -> i64 {
    let containers = pod.items(&["status", "containerStatuses"]).iter();
    containers.filter_map(|container| container.number(&["restartCount"])).max().unwrap_or(0)
}

fn restarted_at(pod: &Value) -> Option<Timestamp> {
    let first = pod.items(&["status", "containerStatuses"]).first()?;
    first.time(&["state", "running", "startedAt"])
}

/// Nothing the first time, then ten seconds, doubling.
fn restart_wait(pod: &Value) -> SignedDuration {
    match restarts(pod) {
        0 => SignedDuration::ZERO,
        count => {
            let factor = 1_i32.checked_shl(u32::try_from(count - 1).unwrap_or(9).min(9)).unwrap_or(512);
            SignedDuration::from_secs(10).saturating_mul(factor).min(LONGEST_RESTART_WAIT)
        }
    }
}

fn restarted(key: &Key, pod: &Value, code: i64, now: Timestamp) -> Write {
    let count = restarts(pod) + 1;
    let since = json!({"running": {"startedAt": moment(now)}});
    let last = json!({"terminated": {
        "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": moment(restarted_at(pod).unwrap_or(now)), "finishedAt": moment(now),
    }});
    let containers = pod.items(&["spec", "containers"]).iter();
    let containers: Vec<Value> = containers
        .map(|container| {
            let mut status = container_status(container, true, since.clone(), count);
            status["lastState"] = last.clone();
            status
        })
        .collect();
    Write::merge_status(key.clone(), json!({"status": {"containerStatuses": containers}}))
}

/// The node controller calls pods of a lost node unready; a kubelet that is back corrects it, but leaves alone what somebody else says later.
fn marked_by_node_loss(pod: &Value, node: &Value) -> bool {
    let time =
        |object: &Value| object.condition("Ready").and_then(|ready| ready.time(&["lastTransitionTime"]));
    let containers = pod.items(&["status", "containerStatuses"]);
    !containers.is_empty()
        && containers.iter().all(|container| container["ready"] == true)
        && time(pod) <= time(node)
}

fn ready_again(key: &Key, pod: &Value, now: Timestamp) -> Write {
    Write::merge_status(key.clone(), json!({"status": {"conditions": conditions(pod, true, None, now)}}))
}
