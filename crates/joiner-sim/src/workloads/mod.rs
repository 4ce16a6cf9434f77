//! The controllers of workloads, and what they have in common: pods made from templates, adoption, and the judgement of pods.

pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
mod history;
pub mod job;
pub mod replica_set;
pub mod stateful_set;

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::selector::LabelSelector;
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::event::Event;
use crate::object::{Fields, Key, Kind, Object};
use crate::write::{Note, PatchKind, Write};

/// Whether a pod has neither ended nor is on its way out.
pub fn is_active(pod: &Object) -> bool {
    !is_finished(pod) && !pod.is_deleting()
}

/// Whether a pod's containers have ended for good.
pub fn is_finished(pod: &Object) -> bool {
    matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

/// Whether a pod is ready.
pub fn is_ready(pod: &Object) -> bool {
    pod.condition_is_true("Ready")
}

/// Since when a pod is ready.
pub fn ready_since(pod: &Object) -> Option<Timestamp> {
    pod.true_since("Ready")
}

/// Whether a pod has been ready for long enough; if it is ready and has not, also when it will have been.
pub fn availability(pod: &Object, min_ready_seconds: i64, now: Timestamp) -> (bool, Option<Timestamp>) {
    if !is_ready(pod) {
        return (false, None);
    }
    if min_ready_seconds == 0 {
        return (true, None);
    }
    let Some(since) = ready_since(pod) else { return (false, None) };
    let due = since.saturating_add(SignedDuration::from_secs(min_ready_seconds)).unwrap_or(Timestamp::MAX);
    if due <= now { (true, None) } else { (false, Some(due)) }
}

/// The reference from an object to the one that manages it.
pub fn owner_reference(kind: Kind, owner: &Value) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.name(), "name": owner.name(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A pod made from a template, without a name.
pub fn pod_from_template(kind: Kind, owner: &Value, template: &Value) -> Value {
    let mut metadata = json!({"ownerReferences": [owner_reference(kind, owner)]});
    for field in ["labels", "annotations", "finalizers"] {
        let value = template.at(&["metadata", field]);
        if !value.is_null() {
            metadata[field] = value.clone();
        }
    }
    json!({"metadata": metadata, "spec": template["spec"]})
}

/// Gives an object a name that begins with `prefix`, and the same name for the same seed and turn.
pub fn name_from_prefix(object: &mut Value, prefix: &str, seed: u64, turn: u64) -> String {
    let kept: String = prefix.chars().take(58).collect();
    let name =
        format!("{kept}{}", crate::json::safe_text(crate::json::chance(seed, prefix, "name", turn), 5));
    object["metadata"]["generateName"] = prefix.into();
    object["metadata"]["name"] = name.clone().into();
    name
}

/// An entry about an object.
pub fn note(
    component: &'static str,
    about: &Key,
    object: &Value,
    reason: &'static str,
    message: String,
) -> Write {
    Write::Event(Note {
        about: about.clone(),
        uid: object.uid().to_owned(),
        warning: false,
        reason,
        message,
        component,
    })
}

/// As [`note`], for something that went wrong.
pub fn warning(
    component: &'static str,
    about: &Key,
    object: &Value,
    reason: &'static str,
    message: String,
) -> Write {
    match note(component, about, object, reason, message) {
        Write::Event(note) => Write::Event(Note { warning: true, ..note }),
        write => write,
    }
}

/// A merge patch of the status from its present to a new state, nothing when they are equal.
pub fn status_write(key: &Key, object: &Value, status: Value) -> Option<Write> {
    let patch = crate::json::merge_patch(object.at(&["status"]), &status)?;
    Some(Write::merge_status(key.clone(), json!({"status": patch})))
}

/// Objects of a kind that an owner manages, with the writes that adopt those without a manager which its selector chooses and set
/// free those it no longer chooses.
pub struct Claimed<'a> {
    /// The managed objects that the selector chooses.
    pub objects: Vec<(&'a Key, &'a Object)>,
    /// What to write first.
    pub writes: Vec<Write>,
}

/// See [`Claimed`].
pub fn claim<'a>(
    cache: &'a Cache,
    owner_key: &Key,
    owner: &Value,
    selector: &LabelSelector,
    kind: Kind,
) -> Claimed<'a> {
    let mut claimed = Claimed { objects: Vec::new(), writes: Vec::new() };
    for (key, object) in cache.managed_by(owner.uid(), kind) {
        if selector.matches(object) {
            claimed.objects.push((key, object));
        } else if !owner.is_deleting() {
            claimed.writes.push(release(key, object, owner.uid()));
        }
    }
    if owner.is_deleting() || !cache.has_orphans(kind, &owner_key.namespace) {
        return claimed;
    }
    for (key, object) in cache.orphans(kind, &owner_key.namespace) {
        if selector.matches(object) && !object.is_deleting() && !(kind == Kind::Pod && is_finished(object)) {
            claimed.writes.push(adopt(key, object, owner_key.kind, owner));
        }
    }
    claimed
}

fn adopt(key: &Key, object: &Value, kind: Kind, owner: &Value) -> Write {
    let patch = json!({"metadata": {"ownerReferences": [owner_reference(kind, owner)], "uid": object.uid()}});
    Write::Patch { key: key.clone(), subresource: None, how: PatchKind::Strategic, patch }
}

fn release(key: &Key, object: &Value, owner: &str) -> Write {
    let patch = json!({"metadata": {
        "ownerReferences": [{"$patch": "delete", "uid": owner}], "uid": object.uid(),
    }});
    Write::Patch { key: key.clone(), subresource: None, how: PatchKind::Strategic, patch }
}

/// Names the owners that an event about one of their pods, or of their other dependents, concerns: the manager before and after, and for an object
/// without a manager every owner whose selector chooses it.
pub fn owners_of(event: &Event, owner: Kind, cache: &Cache, keys: &mut Vec<Key>) {
    let namespace = &*event.key.namespace;
    let mut push = |object: &Object| {
        if let Some(manager) = object.manager()
            && manager.kind == owner.name()
        {
            let key = Key::new(owner, namespace, manager.name);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    };
    push(&event.object);
    if let Some(previous) = &event.previous {
        push(previous);
    }
    if event.object.manager().is_none()
        && let Some(object) = event.present()
    {
        for (key, candidate) in cache.within(owner, namespace) {
            let selector = LabelSelector::from_object(candidate.at(&["spec", "selector"]));
            if selector.is_some_and(|selector| !selector.is_empty() && selector.matches(object)) {
                keys.push(key.clone());
            }
        }
    }
}
