//! The way from client-side to server-side apply.
//!
//! Client-side apply keeps what it sent last in an annotation. When `kubectl` then applies server-side, fields of that annotation
//! are its own although another manager name is recorded for them; and the annotation is kept up to date so that the way back
//! stays open.

use serde_json::Value;

use super::set::FieldSet;
use super::typed;
use crate::schema::TypeRef;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// Fields that client-side apply set last and that still hold what it set.
pub(super) fn allowed_conflicts(ty: TypeRef<'_>, live: &Value, api_version: &str) -> Option<FieldSet> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    let difference = typed::difference(ty, &last, live);
    Some(
        typed::field_set(ty, &last)
            .difference(&difference.modified)
            .difference(&difference.added)
            .difference(&difference.removed),
    )
}

/// Writes the configuration into the annotation, if there is one.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION.to_owned(), format!("{config}\n").into());
    }
}
