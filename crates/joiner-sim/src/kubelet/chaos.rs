//! Failures on demand, with the labels and annotations of KWOK's chaos stages.
//!
//! The label `pod-container-running-failed.stage.kwok.x-k8s.io: "true"` lets a running pod fail, `node-not-ready.stage.kwok.x-k8s.io: "true"` makes a
//! node report that it is not ready. Annotations that begin with the same words say after how long, with which reason, message and exit code, and which
//! container or which other condition of the node is meant.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Kubelets, Span, annotations};
use crate::controller::Outcome;
use crate::json::{moment, set_condition};
use crate::object::{Fields, Key, Object};
use crate::write::Write;

/// A running pod fails.
const POD: &str = "pod-container-running-failed";
/// A node is not ready.
const NODE: &str = "node-not-ready";

/// Unless an annotation says otherwise.
const DELAY: Span = Span::exactly(SignedDuration::from_secs(1));

fn is_wanted(object: &Object, stage: &str) -> bool {
    object.label(&format!("{stage}.stage.kwok.x-k8s.io")) == Some("true")
}

/// Whether a pod is meant to fail.
pub(super) fn is_to_fail(pod: &Object) -> bool {
    is_wanted(pod, POD)
}

fn said<'a>(object: &'a Value, stage: &str, what: &str) -> Option<&'a str> {
    object.annotation(&format!("{stage}.stage.kwok.x-k8s.io/{what}"))
}

impl Kubelets {
    /// When a failure is due, counted from `since`.
    fn chaos_at(&self, object: &Value, stage: &str, since: Timestamp) -> Timestamp {
        let delay = annotations::stage_delay(object, stage, DELAY).draw(self.seed, object.uid(), stage);
        since.saturating_add(delay).unwrap_or(Timestamp::MAX)
    }

    /// Lets a running pod fail, if it is meant to; says whether it is.
    pub(super) fn pod_chaos(&self, key: &Key, pod: &Object, now: Timestamp, outcome: &mut Outcome) -> bool {
        if !is_to_fail(pod) {
            return false;
        }
        let due = self.chaos_at(pod, POD, pod.time(&["status", "startTime"]).unwrap_or(now));
        if due > now {
            outcome.again(due);
            return true;
        }
        let code = said(pod, POD, "exit-code").and_then(|code| code.parse().ok()).unwrap_or(1_i64);
        let ended = json!({"terminated": {
            "exitCode": code, "reason": said(pod, POD, "reason").unwrap_or("containerFailed"),
            "message": said(pod, POD, "message").unwrap_or("container failed"),
            "startedAt": pod.at(&["status", "startTime"]), "finishedAt": moment(now),
        }});
        let meant = said(pod, POD, "container-name");
        let containers: Vec<Value> = pod
            .items(&["status", "containerStatuses"])
            .iter()
            .map(|container| {
                let mut container = container.clone();
                if meant.is_none_or(|name| container["name"] == name) {
                    container["ready"] = false.into();
                    container["started"] = false.into();
                    container["state"] = ended.clone();
                }
                container
            })
            .collect();
        let mut conditions = pod.items(&["status", "conditions"]).to_vec();
        for kind in ["Ready", "ContainersReady"] {
            let condition = json!({"type": kind, "status": "False", "lastProbeTime": null});
            set_condition(&mut conditions, condition, now);
        }
        let status = json!({"phase": "Failed", "conditions": conditions, "containerStatuses": containers});
        outcome.writes.push(Write::merge_status(key.clone(), json!({"status": status})));
        true
    }

    /// Makes a node not ready, if it is meant to be; says whether it is.
    pub(super) fn node_chaos(&self, key: &Key, node: &Object, now: Timestamp, outcome: &mut Outcome) -> bool {
        if !is_wanted(node, NODE) || node.text(&["status", "phase"]) != "Running" {
            return false;
        }
        let ready = node.condition("Ready").and_then(|ready| ready.time(&["lastTransitionTime"]));
        let due = self.chaos_at(node, NODE, ready.unwrap_or(now));
        if due > now && node.condition_is_true("Ready") {
            outcome.again(due);
            return true;
        }
        let mut conditions = node.items(&["status", "conditions"]).to_vec();
        let mut changed = false;
        for (kind, status) in [Some(("Ready", "False")), said(node, NODE, "type").map(|kind| (kind, "True"))]
            .into_iter()
            .flatten()
        {
            if conditions.iter().any(|known| known["type"] == kind && known["status"] == status) {
                continue;
            }
            let condition = json!({
                "type": kind, "status": status, "reason": said(node, NODE, "reason").unwrap_or("nodeFailed"),
                "message": said(node, NODE, "message").unwrap_or("node failed"), "lastHeartbeatTime": moment(now),
            });
            changed |= set_condition(&mut conditions, condition, now);
        }
        if changed {
            let patch = json!({"status": {"conditions": conditions}});
            outcome.writes.push(Write::merge_status(key.clone(), patch));
        }
        true
    }
}
