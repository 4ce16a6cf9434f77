//! StatefulSets: numbered pods with claims of their own, made in order and ended in the reverse order.

mod identity;

use jiff::Timestamp;
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Map, Value};

use super::history::{History, template_of};
use super::{availability, claim, is_ready, note, owners_of, status_write};
use crate::cache::Cache;
use crate::controller::{Controller, Outcome};
use crate::event::Event;
use crate::json::{put_nonzero, share};
use crate::object::{Fields, Key, Kind, Object};
use crate::write::Write;

pub(super) const NAME: &str = "statefulset-controller";
pub(super) const REVISION: &str = "controller-revision-hash";

/// The label under which revisions of StatefulSets keep their hash.
const HASH_OF_REVISION: &str = "controller.kubernetes.io/hash";

/// The controller.
pub struct StatefulSets;

impl Controller for StatefulSets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>) {
        match event.key.kind {
            Kind::StatefulSet => keys.push(event.key.clone()),
            Kind::Pod | Kind::ControllerRevision => owners_of(event, Kind::StatefulSet, cache, keys),
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
        let history = History::of(cache, set);
        if !set.is_deleting()
            && let Some(write) = history.keep(Kind::StatefulSet, set, HASH_OF_REVISION)
        {
            return Outcome::writes(vec![write]);
        }
        let mut turn = Turn::new(key, set, &claimed.objects, &history, cache, now);
        if !set.is_deleting() {
            turn.advance();
            if turn.outcome.writes.is_empty() {
                let limit = set.number(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
                let current = turn.current.clone();
                let used = |revision: &Key| {
                    *revision.name == *current
                        || claimed.objects.iter().any(|(_, pod)| pod.label(REVISION) == Some(&revision.name))
                };
                turn.outcome.writes.extend(history.surplus(limit, used));
            }
        }
        let status = turn.status();
        let mut outcome = turn.outcome;
        outcome.writes.extend(status_write(key, set, status));
        outcome
    }
}

/// One reconciliation of one set.
struct Turn<'a> {
    key: &'a Key,
    set: &'a Object,
    cache: &'a Cache,
    now: Timestamp,
    /// Pods by ordinal, for all ordinals that are wanted.
    wanted: Vec<(i64, Option<(&'a Key, &'a Object)>)>,
    /// Pods beyond those, the highest ordinal first.
    condemned: Vec<(i64, &'a Key, &'a Object)>,
    current: String,
    update: String,
    current_template: Value,
    update_template: Value,
    min_ready: i64,
    outcome: Outcome,
}

impl<'a> Turn<'a> {
    fn new(
        key: &'a Key,
        set: &'a Object,
        pods: &[(&'a Key, &'a Object)],
        history: &History<'a>,
        cache: &'a Cache,
        now: Timestamp,
    ) -> Self {
        let start = set.number(&["spec", "ordinals", "start"]).unwrap_or(0);
        let count = set.number(&["spec", "replicas"]).unwrap_or(1).max(0);
        let mut wanted: Vec<(i64, Option<(&Key, &Object)>)> =
            (start..start.saturating_add(count)).map(|ordinal| (ordinal, None)).collect();
        let mut condemned = Vec::new();
        for (pod_key, pod) in pods {
            let Some(ordinal) = identity::ordinal(&key.name, &pod_key.name) else { continue };
            match wanted.iter_mut().find(|(wanted, _)| *wanted == ordinal) {
                Some((_, place)) => *place = Some((pod_key, pod)),
                None => condemned.push((ordinal, *pod_key, *pod)),
            }
        }
        condemned.sort_by_key(|(ordinal, ..)| -ordinal);
        let present = history.present.map(|index| history.all[index]);
        let update = present.map_or_else(String::new, |(key, _)| key.name.to_string());
        let update_template = set.at(&["spec", "template"]).clone();
        let told = set.text(&["status", "currentRevision"]);
        let found = history.all.iter().find(|(key, _)| *key.name == *told);
        let (current, current_template) = match found {
            Some((key, revision)) => (key.name.to_string(), template_of(revision)),
            None => (update.clone(), update_template.clone()),
        };
        Self {
            key,
            set,
            cache,
            now,
            wanted,
            condemned,
            current,
            update,
            current_template,
            update_template,
            min_ready: set.number(&["spec", "minReadySeconds"]).unwrap_or(0),
            outcome: Outcome::nothing(),
        }
    }

    fn available(&mut self, pod: &Object) -> bool {
        let (available, due) = availability(pod, self.min_ready, self.now);
        if let Some(due) = due {
            self.outcome.again(due);
        }
        available
    }

    /// Takes the steps that the order allows now.
    fn advance(&mut self) {
        let in_order = self.set.text(&["spec", "podManagementPolicy"]) != "Parallel";
        for place in 0..self.wanted.len() {
            let (ordinal, present) = self.wanted[place];
            let Some((pod_key, pod)) = present else {
                self.create(ordinal);
                if in_order {
                    return;
                }
                continue;
            };
            if super::is_finished(pod) && !pod.is_deleting() {
                self.delete(pod_key, pod);
                if in_order {
                    return;
                }
                continue;
            }
            self.ensure_claims(ordinal);
            if in_order && (pod.is_deleting() || !is_ready(pod) || !self.available(pod)) {
                return;
            }
        }
        if !self.shrink(in_order) {
            self.roll();
        }
    }

    /// Ends surplus pods from the highest ordinal; says whether something is still to be waited for.
    fn shrink(&mut self, in_order: bool) -> bool {
        for (_, pod_key, pod) in self.condemned.clone() {
            if pod.is_deleting() {
                if in_order {
                    return true;
                }
                continue;
            }
            self.delete(pod_key, pod);
            if in_order {
                return true;
            }
        }
        !self.condemned.is_empty() && in_order
    }

    /// Replaces pods of an older template from the highest ordinal down to the partition.
    fn roll(&mut self) {
        let strategy = self.set.at(&["spec", "updateStrategy"]);
        if strategy.text(&["type"]) == "OnDelete" {
            return;
        }
        let rolling = strategy.at(&["rollingUpdate"]);
        let start = self.set.number(&["spec", "ordinals", "start"]).unwrap_or(0);
        let partition = start + rolling.number(&["partition"]).unwrap_or(0);
        let count = i64::try_from(self.wanted.len()).unwrap_or(0);
        let most = match &rolling["maxUnavailable"] {
            Value::Null => 1,
            value => share(value, count, true).max(1),
        };
        let mut unavailable = 0;
        for place in 0..self.wanted.len() {
            let healthy = match self.wanted[place].1 {
                Some((_, pod)) => !pod.is_deleting() && self.available(pod),
                None => false,
            };
            unavailable += i64::from(!healthy);
        }
        for place in (0..self.wanted.len()).rev() {
            let (ordinal, present) = self.wanted[place];
            if ordinal < partition || unavailable >= most {
                break;
            }
            let Some((pod_key, pod)) = present else { continue };
            if pod.label(REVISION) != Some(&self.update) && !pod.is_deleting() {
                self.delete(pod_key, pod);
                unavailable += 1;
            }
        }
    }

    fn delete(&mut self, pod_key: &Key, pod: &Object) {
        self.outcome.writes.extend(identity::before_removal(self.set, pod_key, pod, self.cache));
        self.outcome.writes.push(Write::delete(pod_key.clone(), pod.uid()));
        let message = format!("delete Pod {} in StatefulSet {} successful", pod_key.name, self.key.name);
        self.outcome.writes.push(note(NAME, self.key, self.set, "SuccessfulDelete", message));
    }

    /// Below the partition pods are made from the current template, otherwise from the new one.
    fn create(&mut self, ordinal: i64) {
        let strategy = self.set.at(&["spec", "updateStrategy"]);
        let start = self.set.number(&["spec", "ordinals", "start"]).unwrap_or(0);
        let partition = strategy.number(&["rollingUpdate", "partition"]).unwrap_or(0);
        let keeps = strategy.text(&["type"]) == "RollingUpdate" && ordinal < start + partition;
        let (template, revision) = match keeps {
            true => (&self.current_template, &self.current),
            false => (&self.update_template, &self.update),
        };
        let (pod, name) = identity::pod(self.set, template, revision, ordinal);
        self.ensure_claims(ordinal);
        let namespace = self.key.namespace.to_string();
        self.outcome.writes.push(Write::Create { kind: Kind::Pod, namespace, object: pod });
        let message = format!("create Pod {name} in StatefulSet {} successful", self.key.name);
        self.outcome.writes.push(note(NAME, self.key, self.set, "SuccessfulCreate", message));
    }

    fn ensure_claims(&mut self, ordinal: i64) {
        for (name, claim) in identity::claims(self.set, ordinal) {
            let key = Key::new(Kind::PersistentVolumeClaim, &self.key.namespace, &name);
            if self.cache.get(&key).is_none() {
                let namespace = self.key.namespace.to_string();
                let kind = Kind::PersistentVolumeClaim;
                self.outcome.writes.push(Write::Create { kind, namespace, object: claim });
            }
        }
    }

    fn status(&mut self) -> Value {
        let pods: Vec<&Object> = self
            .wanted
            .iter()
            .filter_map(|(_, pod)| pod.map(|(_, pod)| pod))
            .chain(self.condemned.iter().map(|(_, _, pod)| *pod))
            .collect();
        let (mut ready, mut available, mut current, mut updated) = (0, 0, 0, 0);
        for pod in &pods {
            let running = pod.text(&["status", "phase"]) == "Running";
            if running && is_ready(pod) {
                ready += 1;
                available += i64::from(self.available(pod));
            }
            if !pod.is_deleting() {
                current += i64::from(pod.label(REVISION) == Some(&self.current));
                updated += i64::from(pod.label(REVISION) == Some(&self.update));
            }
        }
        let replicas = i64::try_from(pods.len()).unwrap_or(0);
        let mut current_revision = self.current.clone();
        let rolling = self.set.text(&["spec", "updateStrategy", "type"]) == "RollingUpdate";
        let wanted = i64::try_from(self.wanted.len()).unwrap_or(0);
        if rolling && updated == wanted && ready == wanted && replicas == wanted {
            current = updated;
            current_revision.clone_from(&self.update);
        }
        let mut status = Map::new();
        put_nonzero(&mut status, "observedGeneration", self.set.generation());
        status.insert("replicas".to_owned(), replicas.into());
        put_nonzero(&mut status, "readyReplicas", ready);
        status.insert("availableReplicas".to_owned(), available.into());
        put_nonzero(&mut status, "currentReplicas", current);
        put_nonzero(&mut status, "updatedReplicas", updated);
        status.insert("currentRevision".to_owned(), current_revision.into());
        status.insert("updateRevision".to_owned(), self.update.clone().into());
        status.insert(
            "collisionCount".to_owned(),
            self.set.number(&["status", "collisionCount"]).unwrap_or(0).into(),
        );
        status.into()
    }
}
