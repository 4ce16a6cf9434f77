//! Which set is the new one, its number, and how many old ones are kept.

use serde_json::{Value, json};

use super::{DESIRED, HASH, MAXIMUM, NAME, REVISION, Rollout};
use crate::json::{set_condition, template_hash};
use crate::object::{Fields, Key, Kind};
use crate::workloads::{note, owner_reference};
use crate::write::{Propagation, Write};

/// Numbers that a set had before, separated by commas.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// Annotations of the Deployment that its sets do not take over.
const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

/// Whether two templates make the same pods; the label that tells sets apart does not count.
pub(crate) fn same_template(one: &Value, other: &Value) -> bool {
    let plain = |template: &Value| -> Value {
        let mut template = template.clone();
        if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
            if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove(HASH);
            }
            metadata.remove("creationTimestamp");
        }
        template
    };
    one["spec"] == other["spec"] && plain(one) == plain(other)
}

impl Rollout<'_> {
    /// The highest number among the old sets.
    fn highest_old_revision(&self) -> i64 {
        self.old().filter_map(|index| self.sets[index].annotation_number(REVISION)).max().unwrap_or(0)
    }

    /// The new set has the highest number and the Deployment's annotations; the Deployment has its number.
    pub(super) fn keep_revision(&mut self) {
        let Some(index) = self.new else { return };
        let next = self.highest_old_revision() + 1;
        let set = &self.sets[index];
        let present = set.annotation_number(REVISION).unwrap_or(0);
        let revision = present.max(next);
        let mut annotations = serde_json::Map::new();
        for (name, value) in self.own_annotations() {
            if set.object.annotation(&name) != value.as_str() {
                annotations.insert(name, value);
            }
        }
        if present < next {
            annotations.insert(REVISION.to_owned(), next.to_string().into());
            if present > 0 {
                let history = match set.object.annotation(HISTORY) {
                    Some(history) => format!("{history},{present}"),
                    None => present.to_string(),
                };
                annotations.insert(HISTORY.to_owned(), history.into());
            }
        }
        let mut patch = json!({});
        if !annotations.is_empty() {
            patch["metadata"] = json!({"annotations": annotations});
        }
        let min_ready = self.deployment.number(&["spec", "minReadySeconds"]).unwrap_or(0);
        if set.object.number(&["spec", "minReadySeconds"]).unwrap_or(0) != min_ready {
            patch["spec"] = json!({"minReadySeconds": min_ready});
        }
        if patch != json!({}) {
            self.outcome.writes.push(Write::merge(set.key.clone(), patch));
        }
        let name = set.key.name.to_string();
        self.show_revision(revision);
        if !self.conditions.iter().any(|condition| condition["type"] == "Progressing") {
            let message = format!("Found new replica set \"{name}\"");
            self.progress_note("FoundNewReplicaSet", message);
        }
    }

    fn own_annotations(&self) -> Vec<(String, Value)> {
        let all = self.deployment.entries(&["metadata", "annotations"]);
        all.into_iter()
            .flatten()
            .filter(|(name, _)| !OWN_ANNOTATIONS.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    fn show_revision(&mut self, revision: i64) {
        let revision = revision.to_string();
        if self.deployment.annotation(REVISION) != Some(&revision) {
            let patch = json!({"metadata": {"annotations": {REVISION: revision}}});
            self.outcome.writes.push(Write::merge(self.key.clone(), patch));
        }
    }

    fn progress_note(&mut self, reason: &str, message: String) {
        if self.has_deadline() {
            let condition = json!({
                "type": "Progressing", "status": "True", "reason": reason, "message": message,
                "lastUpdateTime": crate::json::moment(self.now),
            });
            set_condition(&mut self.conditions, condition, self.now);
        }
    }

    /// Finds the new set, or asks for it; says whether it is there.
    pub(super) fn ensure_new(&mut self) -> bool {
        if self.new.is_some() {
            self.keep_revision();
            return true;
        }
        let template = self.deployment.at(&["spec", "template"]);
        let collisions = self.deployment.number(&["status", "collisionCount"]).unwrap_or(0);
        let hash = template_hash(template, collisions);
        let name = format!("{}-{hash}", self.key.name);
        let revision = self.highest_old_revision() + 1;
        let size = self.room_for_new();
        let labelled = |place: &Value| -> Value {
            let mut place = place.clone();
            if !place.is_object() {
                place = json!({});
            }
            place[HASH] = hash.clone().into();
            place
        };
        let mut template = template.clone();
        template["metadata"]["labels"] = labelled(&template["metadata"]["labels"]);
        let mut selector = self.deployment.at(&["spec", "selector"]).clone();
        selector["matchLabels"] = labelled(&selector["matchLabels"]);
        let mut annotations: serde_json::Map<String, Value> = self.own_annotations().into_iter().collect();
        annotations.insert(REVISION.to_owned(), revision.to_string().into());
        annotations.insert(DESIRED.to_owned(), self.replicas.to_string().into());
        annotations.insert(MAXIMUM.to_owned(), self.maximum().to_string().into());
        let mut spec = json!({"replicas": size, "selector": selector, "template": template});
        if let Some(seconds) =
            self.deployment.number(&["spec", "minReadySeconds"]).filter(|seconds| *seconds > 0)
        {
            spec["minReadySeconds"] = seconds.into();
        }
        let object = json!({
            "metadata": {
                "name": name, "namespace": *self.key.namespace, "annotations": annotations,
                "labels": template["metadata"]["labels"],
                "ownerReferences": [owner_reference(Kind::Deployment, self.deployment)],
            },
            "spec": spec,
        });
        let namespace = self.key.namespace.to_string();
        self.outcome.writes.push(Write::Create { kind: Kind::ReplicaSet, namespace, object });
        if size > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {size}");
            self.outcome.writes.push(note(NAME, self.key, self.deployment, "ScalingReplicaSet", message));
        }
        self.show_revision(revision);
        self.progress_note("NewReplicaSetCreated", format!("Created new replica set \"{name}\""));
        false
    }

    /// A set of another owner has the name that the new one would get: the next hash will be another.
    pub(super) fn count_collision(&self, cache: &crate::cache::Cache) -> Option<Write> {
        if self.new.is_some() {
            return None;
        }
        let collisions = self.deployment.number(&["status", "collisionCount"]).unwrap_or(0);
        let hash = template_hash(self.deployment.at(&["spec", "template"]), collisions);
        let name = format!("{}-{hash}", self.key.name);
        cache.get(&Key::new(Kind::ReplicaSet, &self.key.namespace, &name))?;
        Some(Write::merge_status(self.key.clone(), json!({"status": {"collisionCount": collisions + 1}})))
    }

    /// Forgets the oldest of the old sets that have nothing left.
    pub(super) fn clean_up(&mut self) {
        let limit = self.deployment.number(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
        let mut removable: Vec<usize> = self
            .old()
            .filter(|index| {
                let set = &self.sets[*index];
                set.replicas == 0
                    && set.object.number(&["status", "replicas"]).unwrap_or(0) == 0
                    && set.object.generation()
                        <= set.object.number(&["status", "observedGeneration"]).unwrap_or(0)
                    && !set.object.is_deleting()
            })
            .collect();
        removable.sort_by_key(|index| self.sets[*index].annotation_number(REVISION).unwrap_or(0));
        let old = self.old().count();
        let surplus = usize::try_from(limit).map_or(0, |limit| old.saturating_sub(limit));
        for index in removable.into_iter().take(surplus) {
            let set = &self.sets[index];
            self.outcome.writes.push(Write::Delete {
                key: set.key.clone(),
                uid: Some(set.object.uid().to_owned()),
                grace: None,
                propagation: Some(Propagation::Background),
            });
        }
    }
}
