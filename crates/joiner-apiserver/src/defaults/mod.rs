//! What Kubernetes fills in when nobody says it: the defaults of built-in kinds.
//!
//! Most are written down here kind by kind, because they are code in Kubernetes and not data. The few that the published schema states
//! (the protocol of a port, say) come from there. Defaults of custom resources are in their definitions, see
//! [`crate::crd`]. Filling in twice changes nothing.

mod pods;
mod resources;
mod workloads;

use serde_json::{Map, Value};

use crate::schema::{Schemas, Shape, TypeRef};

/// Fills in the defaults of a built-in kind. The object should be in canonical form already
/// ([`crate::fields::normalize`]).
pub fn apply(group: &str, version: &str, kind: &str, object: &mut Value) {
    if let Some(ty) = Schemas::builtin().kind(group, version, kind) {
        apply_stated(ty, object);
    }
    if let Value::Object(object) = object {
        match (group, kind) {
            ("", "Pod") => pods::pod(object),
            ("", "PodTemplate") => pods::template(object.get_mut("template")),
            ("" | "apps" | "batch", _) if workloads::apply(group, kind, object) => {}
            _ => resources::apply(group, version, kind, object),
        }
    }
}

/// Lists that are there and empty, and must not be filled for that: somebody who says that there are none is refused. They are no part of
/// the canonical form, which knows no difference between absent and empty.
pub fn emptied(group: &str, kind: &str, object: &Value) -> Vec<[&'static str; 4]> {
    if (group, kind) != ("autoscaling", "HorizontalPodAutoscaler") {
        return Vec::new();
    }
    let lists = ["scaleUp", "scaleDown"].map(|direction| ["spec", "behavior", direction, "policies"]);
    let is_empty = |path: &[&str; 4]| {
        let value = path.iter().try_fold(object, |value, name| value.get(name));
        value.and_then(Value::as_array).is_some_and(Vec::is_empty)
    };
    lists.into_iter().filter(is_empty).collect()
}

/// Puts back the lists that [`emptied`] found.
pub fn empty(object: &mut Value, lists: &[[&'static str; 4]]) {
    let Value::Object(object) = object else { return };
    for [first, second, third, list] in lists {
        let parent = child(child(child(object, first), second), third);
        parent.insert((*list).to_owned(), Value::Array(Vec::new()));
    }
}

/// Defaults that the schema states, wherever their parent is there.
fn apply_stated(ty: TypeRef<'_>, value: &mut Value) {
    match (ty.shape(), value) {
        (Shape::Struct, Value::Object(map)) => {
            for (name, value) in map.iter_mut() {
                if let Some(field) = ty.listed_field(name) {
                    apply_stated(field, value);
                }
            }
            for (name, default) in ty.fields_with_default() {
                if !map.contains_key(name) {
                    map.insert(name.to_owned(), default.clone());
                }
            }
        }
        (Shape::Map(element), Value::Object(map)) => {
            map.values_mut().for_each(|value| apply_stated(element, value))
        }
        (Shape::List(element), Value::Array(items)) => {
            items.iter_mut().for_each(|item| apply_stated(element, item))
        }
        _ => {}
    }
}

type Object = Map<String, Value>;

/// Sets a field that is absent. Empty text where it counts as absent is gone by then: the canonical form has none.
fn fill(object: &mut Object, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null) {
        object.insert(name.to_owned(), value.into());
    }
}

/// The object in a field, made if it is absent.
fn child<'a>(object: &'a mut Object, name: &str) -> &'a mut Object {
    let value = object.entry(name).or_insert(Value::Null);
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object just above"),
    }
}

/// The object in a field, if there is one.
fn existing<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

/// The objects in a list.
fn each<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    let list = object.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
