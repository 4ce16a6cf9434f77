//! What every object has: labels, annotations, owners, finalizers.

use serde_json::{Map, Value, json};

use super::names;
use super::place::{Place, list, text};
use crate::resources::Resource;
use crate::rest::{Cause, meta, meta_text};

/// Annotations together may have so many bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// What is wrong with the metadata of an object, its name apart.
pub(super) fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(metadata) = meta(object) else { return causes };
    let place = Place::Start("metadata");
    if let Some(labels) = metadata.get("labels") {
        names::check_labels(labels, place.field("labels"), &mut causes);
    }
    if let Some(annotations) = metadata.get("annotations") {
        check_annotations(annotations, place.field("annotations"), &mut causes);
    }
    if let Some(owners) = metadata.get("ownerReferences") {
        check_owners(list(owners), place.field("ownerReferences"), &mut causes);
    }
    if let Some(finalizers) = metadata.get("finalizers") {
        check_finalizers(resource, list(finalizers), place.field("finalizers"), &mut causes);
    }
    causes
}

/// Keys of annotations are those of labels, in any case; values may hold anything, within limits.
pub(super) fn check_annotations(annotations: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        for broken in names::qualified_name_breaks(&key.to_lowercase()) {
            causes.push(Cause::invalid(place, &json!(key), &broken));
        }
        bytes += key.len() + text(value).len();
    }
    if bytes > ANNOTATIONS_LIMIT {
        causes.push(Cause::too_long(place, ANNOTATIONS_LIMIT));
    }
}

/// Owners are told in full, and at most one of them controls.
fn check_owners(owners: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut first: Option<String> = None;
    for owner in owners {
        let of = |field: &str| text(&owner[field]);
        let version = of("apiVersion").rsplit_once('/').map_or(of("apiVersion"), |(_, version)| version);
        if version.is_empty() {
            let detail = "version must not be empty";
            causes.push(Cause::invalid(place.field("apiVersion"), &json!(of("apiVersion")), detail));
        }
        for field in ["kind", "name", "uid"] {
            if of(field).is_empty() {
                causes.push(Cause::invalid(place.field(field), &json!(""), "must not be empty"));
            }
        }
        if of("apiVersion") == "v1" && of("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid_shown(place, &shown_owner(owner), detail));
        }
        if owner["controller"] == true {
            let name = format!("{}/{}", of("kind"), of("name"));
            match &first {
                None => first = Some(name),
                Some(first) => {
                    let shown: Vec<String> = owners.iter().map(shown_owner).collect();
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    causes.push(Cause::invalid_shown(place, &format!("[{}]", shown.join(",")), &detail));
                }
            }
        }
    }
}

/// An owner with its fields in the order in which Kubernetes writes them.
fn shown_owner(owner: &Value) -> String {
    let mut parts = Vec::new();
    for field in ["apiVersion", "kind", "name", "uid"] {
        parts.push(format!("{field:?}:{}", json!(text(&owner[field]))));
    }
    for field in ["controller", "blockOwnerDeletion"] {
        if let Some(value) = owner.get(field) {
            parts.push(format!("{field:?}:{value}"));
        }
    }
    format!("{{{}}}", parts.join(","))
}

const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Finalizers are qualified names; those of built-in kinds have a domain, but for the few of Kubernetes itself.
fn check_finalizers(resource: &Resource, finalizers: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    for finalizer in finalizers {
        names::check_key(text(finalizer), place, causes);
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid(place, &json!(finalizers), detail));
    }
    let built_in = resource.custom.is_none() && resource.group != "apiextensions.k8s.io";
    for (index, finalizer) in finalizers.iter().enumerate().filter(|_| built_in) {
        let name = text(finalizer);
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(place.index(index), &json!(name), detail));
        }
    }
}

/// An object on its way out takes no new finalizers.
pub(super) fn check_new_finalizers(old: &Value, new: &Value) -> Vec<Cause> {
    if meta_text(old, "deletionTimestamp").is_empty() {
        return Vec::new();
    }
    let names = |object: &Value| -> Vec<String> {
        let finalizers = meta(object).and_then(|metadata: &Map<String, Value>| metadata.get("finalizers"));
        finalizers.map(list).unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let before = names(old);
    let mut added: Vec<String> = names(new).into_iter().filter(|name| !before.contains(name)).collect();
    if added.is_empty() {
        return Vec::new();
    }
    added.sort();
    added.dedup();
    let added: Vec<String> = added.into_iter().map(|name| format!("{name:?}")).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    // Both the common rules and those of the kind say so.
    vec![Cause::forbidden("metadata.finalizers", &detail); 2]
}
