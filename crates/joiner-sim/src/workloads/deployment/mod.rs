//! Deployments: one ReplicaSet per template, and the way from the old ones to the new.

mod progress;
mod revisions;
mod rolling;
mod scaling;

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Value, json};

use super::{claim, note, owners_of};
use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::Event;
use crate::json::share;
use crate::object::{Fields, Key, Kind, Object};
use crate::write::Write;

pub(crate) const NAME: &str = "deployment-controller";
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(crate) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(crate) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
pub(crate) const HASH: &str = "pod-template-hash";

/// The controller.
pub struct Deployments;

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Longer than that of the sets: a rollout is judged by what its sets have done already.
    fn patience(&self) -> SignedDuration {
        SignedDuration::from_millis(20)
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::Deployment => keys.push(event.key.clone()),
            Kind::ReplicaSet => owners_of(event, Kind::Deployment, cache, keys),
            // Only the end of the last old pod lets a Deployment that recreates go on.
            Kind::Pod if event.present().is_none_or(super::is_finished) => {
                if let Some(manager) = event.object.manager()
                    && manager.kind == "ReplicaSet"
                    && let Some(set) = cache.find(Kind::ReplicaSet, &event.key.namespace, manager.name)
                    && let Some(owner) = set.manager()
                {
                    keys.push(Key::new(Kind::Deployment, &event.key.namespace, owner.name));
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome {
        let Some(deployment) = cache.get(key) else { return Outcome::nothing() };
        let Some(selector) = LabelSelector::from_object(deployment.at(&["spec", "selector"])) else {
            return Outcome::nothing();
        };
        let claimed = claim(cache, key, deployment, &selector, Kind::ReplicaSet);
        if !claimed.writes.is_empty() {
            return Outcome::writes(claimed.writes);
        }
        let mut rollout = Rollout::new(key, deployment, &claimed.objects, now);
        if deployment.is_deleting() {
            rollout.sync_status();
        } else {
            rollout.proceed(cache);
        }
        rollout.outcome
    }
}

/// A ReplicaSet as the Deployment sees it.
#[derive(Clone)]
pub(crate) struct Set<'a> {
    pub key: &'a Key,
    pub object: &'a Object,
    pub replicas: i64,
    pub available: i64,
}

impl Set<'_> {
    fn created(&self) -> Option<Timestamp> {
        self.object.created()
    }

    fn annotation_number(&self, name: &str) -> Option<i64> {
        self.object.annotation(name)?.parse().ok()
    }
}

/// One reconciliation of one Deployment.
pub(crate) struct Rollout<'a> {
    key: &'a Key,
    deployment: &'a Object,
    now: Timestamp,
    /// All sets, the oldest first.
    sets: Vec<Set<'a>>,
    /// The place of the set with the present template.
    new: Option<usize>,
    replicas: i64,
    surge: i64,
    unavailable: i64,
    recreate: bool,
    conditions: Vec<Value>,
    outcome: Outcome,
}

impl<'a> Rollout<'a> {
    fn new(key: &'a Key, deployment: &'a Object, sets: &[(&'a Key, &'a Object)], now: Timestamp) -> Self {
        let mut sets: Vec<Set<'a>> = sets
            .iter()
            .map(|(key, object)| Set {
                key,
                object,
                replicas: object.number(&["spec", "replicas"]).unwrap_or(0),
                available: object.number(&["status", "availableReplicas"]).unwrap_or(0),
            })
            .collect();
        sets.sort_by(|a, b| a.created().cmp(&b.created()).then_with(|| a.key.cmp(b.key)));
        let new = sets.iter().position(|set| {
            revisions::same_template(
                deployment.at(&["spec", "template"]),
                set.object.at(&["spec", "template"]),
            )
        });
        let replicas = deployment.number(&["spec", "replicas"]).unwrap_or(1);
        let recreate = deployment.text(&["spec", "strategy", "type"]) == "Recreate";
        let (surge, unavailable) = if recreate { (0, 0) } else { bounds(deployment, replicas) };
        Self {
            key,
            deployment,
            now,
            sets,
            new,
            replicas,
            surge,
            unavailable,
            recreate,
            conditions: deployment.items(&["status", "conditions"]).to_vec(),
            outcome: Outcome::nothing(),
        }
    }

    fn proceed(&mut self, cache: &Cache) {
        let paused = self.deployment.at(&["spec", "paused"]) == true;
        self.note_pause(paused);
        if paused || self.is_scaling() {
            if !paused || self.new.is_some() {
                self.keep_revision();
            }
            self.scale();
            if paused {
                self.clean_up();
            }
            self.sync_status();
        } else if let Some(write) = self.count_collision(cache) {
            self.outcome.writes.push(write);
        } else if self.recreate {
            self.roll_by_recreation(cache);
        } else {
            self.roll();
        }
    }

    /// Replicas were changed: some set still carries the number it was scaled for.
    fn is_scaling(&self) -> bool {
        let mut active = self.sets.iter().filter(|set| set.replicas > 0);
        active.any(|set| set.annotation_number(DESIRED).is_some_and(|desired| desired != self.replicas))
    }

    fn old(&self) -> impl Iterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |index| Some(*index) != new)
    }

    fn total(&self) -> i64 {
        self.sets.iter().map(|set| set.replicas).sum()
    }

    fn maximum(&self) -> i64 {
        if self.recreate { self.replicas } else { self.replicas + self.surge }
    }

    /// How many replicas the new set may have now.
    fn room_for_new(&self) -> i64 {
        if self.recreate {
            return self.replicas;
        }
        let present = self.new.map_or(0, |index| self.sets[index].replicas);
        let (total, maximum) = (self.total(), self.maximum());
        if total >= maximum { present } else { present + (maximum - total).min(self.replicas - present) }
    }

    /// Gives a set another size; says whether it had another one.
    fn resize(&mut self, index: usize, size: i64) -> bool {
        let set = &self.sets[index];
        let (desired, maximum) = (self.replicas.to_string(), self.maximum().to_string());
        let stale = set.object.annotation(DESIRED) != Some(&desired)
            || set.object.annotation(MAXIMUM) != Some(&maximum);
        let before = set.replicas;
        if before == size && !stale {
            return false;
        }
        let mut patch = json!({"metadata": {"annotations": {DESIRED: desired, MAXIMUM: maximum}}});
        if before != size {
            patch["spec"] = json!({"replicas": size});
        }
        self.outcome.writes.push(Write::merge(set.key.clone(), patch));
        if before != size {
            let way = if size > before { "up" } else { "down" };
            let message = format!("Scaled {way} replica set {} from {before} to {size}", set.key.name);
            self.outcome.writes.push(note(NAME, self.key, self.deployment, "ScalingReplicaSet", message));
        }
        self.sets[index].replicas = size;
        before != size
    }
}

/// How many pods may exist beyond the wanted number, and how many may be missing. Not both can be zero.
pub(crate) fn bounds(deployment: &Value, replicas: i64) -> (i64, i64) {
    let rolling = deployment.at(&["spec", "strategy", "rollingUpdate"]);
    let surge = share(&rolling["maxSurge"], replicas, true);
    let unavailable = share(&rolling["maxUnavailable"], replicas, false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable.min(replicas.max(0))) }
}
