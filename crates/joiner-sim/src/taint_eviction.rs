//! Pods leave nodes with taints of the effect `NoExecute`: at once, after the time they tolerate, or never.

use jiff::{SignedDuration, Timestamp};
use joiner_core::model::{Effect, Taint, Toleration};
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::json::set_condition;
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::{is_finished, note};
use crate::write::Write;

const NAME: &str = "taint-eviction-controller";

/// The controller.
pub struct TaintEviction;

impl Controller for TaintEviction {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::Node if event.change != Change::Deleted => {
                let before = event.previous.as_ref().map(|node| driving(node)).unwrap_or_default();
                let after = driving(&event.object);
                if !after.is_empty() && before != after {
                    keys.extend(cache.pods_on(&event.key.name).map(|(key, _)| key.clone()));
                }
            }
            Kind::Pod if event.change != Change::Deleted => {
                let node = cache.find(Kind::Node, "", event.object.text(&["spec", "nodeName"]));
                if node.is_some_and(|node| !driving(node).is_empty()) {
                    keys.push(event.key.clone());
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(pod) = cache.get(key).filter(|pod| !pod.is_deleting() && !is_finished(pod)) else {
            return Outcome::nothing();
        };
        let Some(node) = cache.find(Kind::Node, "", pod.text(&["spec", "nodeName"])) else {
            return Outcome::nothing();
        };
        let taints = driving(node);
        if taints.is_empty() {
            return Outcome::nothing();
        }
        let mut outcome = Outcome::nothing();
        match leaves_at(pod, &taints) {
            None => {}
            Some(due) if due > now => outcome.again(due),
            Some(_) => evict(key, pod, now, &mut outcome),
        }
        outcome
    }
}

/// The taints of a node that drive pods away.
fn driving(node: &Value) -> Vec<&Value> {
    node.items(&["spec", "taints"]).iter().filter(|taint| taint["effect"] == "NoExecute").collect()
}

/// Whether a toleration covers a taint.
pub(crate) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let of = |field: &str| toleration.text(&[field]);
    let toleration = Toleration::read(of("key"), of("operator"), of("value"), of("effect"));
    Effect::parse(taint.text(&["effect"])).is_some_and(|effect| {
        let (key, value) = (taint.text(&["key"]).into(), taint.text(&["value"]).into());
        toleration.tolerates(&Taint { key, value, effect })
    })
}

/// When a pod has to leave, nothing if it may stay.
fn leaves_at(pod: &Value, taints: &[&Value]) -> Option<Timestamp> {
    let tolerations = pod.items(&["spec", "tolerations"]);
    let mut shortest: Option<i64> = None;
    for taint in taints {
        // As everywhere in Kubernetes the first toleration that covers a taint counts.
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Some(Timestamp::MIN);
        };
        if let Some(seconds) = toleration.number(&["tolerationSeconds"]) {
            let seconds = seconds.max(0);
            shortest = Some(shortest.map_or(seconds, |other| other.min(seconds)));
        }
    }
    let seconds = shortest?;
    let since = taints.iter().filter_map(|taint| taint.time(&["timeAdded"])).max();
    let since = since.max(pod.created()).unwrap_or(Timestamp::MIN);
    Some(since.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX))
}

fn evict(key: &Key, pod: &Object, now: Timestamp, outcome: &mut Outcome) {
    let mut conditions = pod.items(&["status", "conditions"]).to_vec();
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastProbeTime": null,
    });
    let message = format!("Marking for deletion Pod {}/{}", key.namespace, key.name);
    outcome.writes.push(note(NAME, key, pod, "TaintManagerEviction", message));
    if set_condition(&mut conditions, condition, now) {
        let patch = json!({"status": {"conditions": conditions}});
        outcome.writes.push(Write::merge_status(key.clone(), patch));
    }
    outcome.writes.push(Write::delete(key.clone(), pod.uid()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_stays_as_long_as_it_tolerates() {
        let taint = json!({"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
        let pod = |tolerations: Value| json!({"metadata": {"creationTimestamp": "2025-01-01T00:00:00Z"}, "spec": {"tolerations": tolerations}});
        let leaves = |tolerations: Value| leaves_at(&pod(tolerations), &[&taint]);
        assert_eq!(leaves(json!([])), Some(Timestamp::MIN));
        assert_eq!(leaves(json!([{"operator": "Exists"}])), None);
        assert_eq!(leaves(json!([{"key": "a", "operator": "Equal", "value": "x"}])), Some(Timestamp::MIN));
        let after = leaves(json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 300}]));
        assert_eq!(after, Some("2026-01-01T00:05:00Z".parse().unwrap()));
    }
}
