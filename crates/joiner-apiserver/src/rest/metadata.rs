//! Small readers and writers of `metadata`.

use serde_json::{Map, Value};

/// The metadata of an object.
pub(crate) fn meta(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// The metadata of an object, made when it is missing. Something that is no object becomes one.
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    child_mut(object, "metadata")
}

/// A field of an object as a map, made when it is missing or of another type.
pub(crate) fn child_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    map_of(&mut object[field])
}

/// A value as a map, made when it is of another type.
pub(crate) fn map_of(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

/// A text of the metadata, empty when it is missing.
pub(crate) fn meta_text<'a>(object: &'a Value, field: &str) -> &'a str {
    meta(object).and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// A text at a path such as `spec.nodeName`, empty when it is missing.
pub(crate) fn text_at<'a>(object: &'a Value, path: &str) -> &'a str {
    path.split('.')
        .try_fold(object, |place, part| place.get(part))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The labels as a value.
pub(crate) fn labels_of(object: &Value) -> Option<&Map<String, Value>> {
    meta(object)?.get("labels")?.as_object()
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = meta(object).and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether anything waits before the object may go.
pub(crate) fn has_finalizers(object: &Value) -> bool {
    !finalizers(object).is_empty()
}

/// Whether the object is on its way out.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !meta_text(object, "deletionTimestamp").is_empty()
}

/// Sets a field of the metadata, or takes it out.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Option<Value>) {
    let metadata = meta_mut(object);
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

/// Copies a field of the metadata from another state of the object, also its absence.
pub(crate) fn keep_meta(object: &mut Value, old: &Value, field: &str) {
    let kept = meta(old).and_then(|metadata| metadata.get(field)).cloned();
    set_meta(object, field, kept);
}

/// Copies a top-level field from another state of the object, also its absence.
pub(crate) fn keep_field(object: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => object[field] = value.clone(),
        None => {
            if let Some(map) = object.as_object_mut() {
                map.remove(field);
            }
        }
    }
}

/// The generation, 0 when there is none.
pub(crate) fn generation(object: &Value) -> i64 {
    meta(object).and_then(|metadata| metadata.get("generation")).and_then(Value::as_i64).unwrap_or(0)
}
