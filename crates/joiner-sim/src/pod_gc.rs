//! Pods of nodes that no longer exist are removed: looked for every twenty seconds, after forty seconds of doubt.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::json::set_condition;
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::is_finished;
use crate::write::Write;

/// Seconds between two looks.
const ROUND: i64 = 20;

/// Seconds that a node has to be missing.
const DOUBT: SignedDuration = SignedDuration::from_secs(40);

/// The controller. Its keys are nodes that are not there.
#[derive(Default)]
pub struct PodGc {
    missing: BTreeMap<Key, Timestamp>,
}

impl Controller for PodGc {
    fn name(&self) -> &'static str {
        "pod-garbage-collector"
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::Node if event.change == Change::Deleted => keys.push(event.key.clone()),
            Kind::Node => {
                self.missing.remove(&event.key);
            }
            Kind::Pod if event.change != Change::Deleted => {
                let name = event.object.text(&["spec", "nodeName"]);
                if !name.is_empty() && cache.find(Kind::Node, "", name).is_none() {
                    keys.push(Key::new(Kind::Node, "", name));
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let mut pods = cache.pods_on(&key.name).peekable();
        if cache.get(key).is_some() || pods.peek().is_none() {
            self.missing.remove(key);
            return Outcome::nothing();
        }
        let mut outcome = Outcome::nothing();
        let noticed = *self.missing.entry(key.clone()).or_insert_with(|| next_round(now));
        let due = noticed.saturating_add(DOUBT).unwrap_or(Timestamp::MAX);
        if now < due {
            outcome.again(due);
            return outcome;
        }
        for (key, pod) in pods {
            collect(key, pod, now, &mut outcome);
        }
        outcome
    }
}

fn next_round(now: Timestamp) -> Timestamp {
    let second = now.as_second();
    Timestamp::from_second(second + ROUND - second.rem_euclid(ROUND)).unwrap_or(now)
}

fn collect(key: &Key, pod: &Object, now: Timestamp, outcome: &mut Outcome) {
    if !is_finished(pod) {
        let mut conditions = pod.items(&["status", "conditions"]).to_vec();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "lastProbeTime": null,
        });
        set_condition(&mut conditions, condition, now);
        let patch = json!({"status": {"phase": "Failed", "conditions": conditions}});
        outcome.writes.push(Write::merge_status(key.clone(), patch));
    }
    // Of a pod that somebody still holds with a finalizer there is nothing more to take away.
    if !(pod.is_deleting() && pod.number(&["metadata", "deletionGracePeriodSeconds"]) == Some(0)) {
        outcome.writes.push(Write::Delete {
            key: key.clone(),
            uid: Some(pod.uid().to_owned()),
            grace: Some(0),
            propagation: None,
        });
    }
}
