//! Disruption budgets: how many of the chosen pods are healthy, how many have to be, and how many may go.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Map, Value, json};

use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::{Change, Event};
use crate::json::{set_condition, share};
use crate::object::{Fields, Key, Kind, Object};
use crate::workloads::status_write;

/// An evicted pod that has not begun to end after this long is counted again.
const EVICTION_FORGOTTEN: SignedDuration = SignedDuration::from_mins(2);

/// The controller.
pub struct Disruption;

impl Controller for Disruption {
    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        let namespace = &*event.key.namespace;
        match event.key.kind {
            Kind::PodDisruptionBudget if event.change != Change::Deleted => keys.push(event.key.clone()),
            Kind::Pod => {
                for (key, budget) in cache.within(Kind::PodDisruptionBudget, namespace) {
                    let Some(selector) = LabelSelector::from_object(budget.at(&["spec", "selector"])) else {
                        continue;
                    };
                    let before = event.previous.as_ref().is_some_and(|pod| selector.matches(pod));
                    if before || selector.matches(&event.object) {
                        keys.push(key.clone());
                    }
                }
            }
            // Budgets in shares go by the wanted size of the workloads.
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController => {
                let size = |object: &Object| object.number(&["spec", "replicas"]);
                let before = event.previous.as_ref().map(size);
                if before != Some(size(&event.object)) || event.change == Change::Deleted {
                    keys.extend(
                        cache.within(Kind::PodDisruptionBudget, namespace).map(|(key, _)| key.clone()),
                    );
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(budget) = cache.get(key) else { return Outcome::nothing() };
        let mut outcome = Outcome::nothing();
        let selector = LabelSelector::from_object(budget.at(&["spec", "selector"]));
        let pods: Vec<(&Key, &Object)> = cache
            .within(Kind::Pod, &key.namespace)
            .filter(|(_, pod)| selector.as_ref().is_some_and(|selector| selector.matches(pod)))
            .collect();
        let status = match expectation(budget, &pods, cache) {
            Ok(expected) => counted(budget, &pods, expected, now, &mut outcome),
            Err(message) => failed(budget, &message, now),
        };
        outcome.writes.extend(status_write(key, budget, status));
        outcome
    }
}

/// How many pods there should be, and how many of them healthy.
struct Expectation {
    pods: i64,
    healthy: i64,
}

fn expectation(budget: &Value, pods: &[(&Key, &Object)], cache: &Cache) -> Result<Expectation, String> {
    let most = budget.at(&["spec", "maxUnavailable"]);
    let least = budget.at(&["spec", "minAvailable"]);
    if !most.is_null() {
        let pods = wanted_pods(pods, cache)?;
        return Ok(Expectation { pods, healthy: (pods - share(most, pods, true)).max(0) });
    }
    if least.is_null() {
        return Ok(Expectation { pods: 0, healthy: 0 });
    }
    if let Some(number) = least.as_i64() {
        return Ok(Expectation { pods: i64::try_from(pods.len()).unwrap_or(0), healthy: number });
    }
    let pods = wanted_pods(pods, cache)?;
    Ok(Expectation { pods, healthy: share(least, pods, true) })
}

/// The sum of the sizes of all workloads that the pods belong to.
fn wanted_pods(pods: &[(&Key, &Object)], cache: &Cache) -> Result<i64, String> {
    let mut sizes: BTreeMap<String, i64> = BTreeMap::new();
    for (key, pod) in pods {
        // A pod that nobody manages has no wanted number.
        let Some(manager) = pod.manager() else { continue };
        if sizes.contains_key(manager.uid) {
            continue;
        }
        let kind = Kind::named(manager.kind);
        let owner = kind.and_then(|kind| cache.find(kind, &key.namespace, manager.name));
        let scalable = matches!(
            kind,
            Some(Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController | Kind::Deployment)
        );
        let Some(owner) = owner.filter(|owner| owner.uid() == manager.uid && scalable) else {
            return Err(format!("found no controllers for pod \"{}\"", key.name));
        };
        // The Deployment speaks for its sets, so that a rollout does not count twice.
        let top = owner.manager().filter(|top| top.kind == "Deployment");
        let deployment = top.and_then(|top| cache.find(Kind::Deployment, &key.namespace, top.name));
        let (uid, size) = match deployment {
            Some(deployment) => (deployment.uid(), deployment.number(&["spec", "replicas"])),
            None => (owner.uid(), owner.number(&["spec", "replicas"])),
        };
        sizes.insert(uid.to_owned(), size.unwrap_or(1));
    }
    Ok(sizes.values().sum())
}

fn counted(
    budget: &Value,
    pods: &[(&Key, &Object)],
    expected: Expectation,
    now: Timestamp,
    outcome: &mut Outcome,
) -> Value {
    let mut disrupted = Map::new();
    for (name, since) in budget.entries(&["status", "disruptedPods"]).into_iter().flatten() {
        let present = pods.iter().find(|(key, _)| *key.name == **name);
        let Some(since) = since.as_str().and_then(|since| since.parse::<Timestamp>().ok()) else { continue };
        let due = since.saturating_add(EVICTION_FORGOTTEN).unwrap_or(Timestamp::MAX);
        if present.is_some_and(|(_, pod)| !pod.is_deleting()) && now < due {
            disrupted.insert(name.clone(), crate::json::moment(since));
            outcome.again(due);
        }
    }
    let healthy = pods
        .iter()
        .filter(|(key, pod)| {
            !pod.is_deleting() && !disrupted.contains_key(&*key.name) && pod.condition_is_true("Ready")
        })
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(0);
    let allowed = if expected.pods <= 0 { 0 } else { (healthy - expected.healthy).max(0) };
    let mut status = json!({
        "currentHealthy": healthy, "desiredHealthy": expected.healthy, "expectedPods": expected.pods,
        "disruptionsAllowed": allowed, "observedGeneration": budget.generation(),
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = disrupted.into();
    }
    let (holds, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    status["conditions"] = condition(budget, holds, reason, "", now);
    status
}

/// What cannot be counted forbids everything.
fn failed(budget: &Value, message: &str, now: Timestamp) -> Value {
    let mut status = budget.at(&["status"]).clone();
    if !status.is_object() {
        status = json!({"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    }
    status["disruptionsAllowed"] = 0.into();
    status["observedGeneration"] = budget.generation().into();
    status["conditions"] = condition(budget, "False", "SyncFailed", message, now);
    status
}

fn condition(budget: &Value, holds: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut conditions = budget.items(&["status", "conditions"]).to_vec();
    let condition = json!({
        "type": "DisruptionAllowed", "status": holds, "reason": reason, "message": message,
        "observedGeneration": budget.generation(),
    });
    set_condition(&mut conditions, condition, now);
    conditions.into()
}
