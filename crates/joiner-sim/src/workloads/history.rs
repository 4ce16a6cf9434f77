//! The past templates of a DaemonSet or StatefulSet, kept as ControllerRevisions.

use serde_json::{Value, json};

use super::owner_reference;
use crate::cache::Cache;
use crate::json::template_hash;
use crate::object::{Fields, Key, Kind, Object};
use crate::write::Write;

/// The revisions of a workload.
pub(crate) struct History<'a> {
    /// All, the oldest first.
    pub all: Vec<(&'a Key, &'a Object)>,
    /// The place of the one with the present template.
    pub present: Option<usize>,
}

impl<'a> History<'a> {
    pub fn of(cache: &'a Cache, owner: &Value) -> Self {
        let mut all: Vec<(&Key, &Object)> = cache.managed_by(owner.uid(), Kind::ControllerRevision).collect();
        all.sort_by_key(|(key, revision)| (revision.number(&["revision"]).unwrap_or(0), (*key).clone()));
        let data = data(owner);
        let present = all.iter().rposition(|(_, revision)| revision["data"] == data);
        Self { all, present }
    }

    /// What to write so that the present template is the latest revision.
    pub fn keep(&self, owner_kind: Kind, owner: &Value, hash_label: &str) -> Option<Write> {
        let latest = self.all.last().map_or(0, |(_, revision)| revision.number(&["revision"]).unwrap_or(0));
        if let Some(present) = self.present {
            // A template that comes back becomes the latest again.
            return (present + 1 != self.all.len())
                .then(|| Write::merge(self.all[present].0.clone(), json!({"revision": latest + 1})));
        }
        let data = data(owner);
        let hash = template_hash(&data, owner.number(&["status", "collisionCount"]).unwrap_or(0));
        let mut labels = owner.at(&["spec", "template", "metadata", "labels"]).clone();
        if !labels.is_object() {
            labels = json!({});
        }
        labels[hash_label] = hash.clone().into();
        let mut metadata = json!({
            "name": format!("{}-{hash}", owner.name()), "namespace": owner.namespace(), "labels": labels,
            "ownerReferences": [owner_reference(owner_kind, owner)],
        });
        if let Some(annotations) = owner.entries(&["metadata", "annotations"]) {
            metadata["annotations"] = annotations.clone().into();
        }
        let object = json!({"metadata": metadata, "data": data, "revision": latest + 1});
        Some(Write::Create {
            kind: Kind::ControllerRevision,
            namespace: owner.namespace().to_owned(),
            object,
        })
    }

    /// The oldest revisions beyond the limit that nobody uses any more.
    pub fn surplus(&self, limit: i64, in_use: impl Fn(&Key) -> bool) -> Vec<Write> {
        let unused: Vec<&(&Key, &Object)> = self
            .all
            .iter()
            .enumerate()
            .filter(|(index, (key, _))| Some(*index) != self.present && !in_use(key))
            .map(|(_, revision)| revision)
            .collect();
        let kept = usize::try_from(limit).unwrap_or(usize::MAX);
        let surplus = unused.len().saturating_sub(kept);
        let gone = unused.into_iter().take(surplus);
        gone.map(|(key, revision)| Write::delete((*key).clone(), revision.uid())).collect()
    }
}

/// What is kept of a workload: its template, marked so that applying it replaces the whole.
fn data(owner: &Value) -> Value {
    let mut template = owner.at(&["spec", "template"]).clone();
    template["$patch"] = "replace".into();
    json!({"spec": {"template": template}})
}

/// The template that a revision keeps.
pub(crate) fn template_of(revision: &Value) -> Value {
    let mut template = revision.at(&["data", "spec", "template"]).clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}

/// The hash at the end of a revision's name.
pub(crate) fn hash_of(key: &Key) -> &str {
    key.name.rsplit('-').next().unwrap_or_default()
}
