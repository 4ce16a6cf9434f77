//! The fields of a new object, in the form in which they are recorded.
//!
//! Of a new object there is nothing to compare with but what every object of its kind has without anybody's doing, and
//! nobody to take fields from: everything else is its creator's. So the record is written in one walk, and not as a difference of sets.

use serde_json::{Map, Value};

use super::set::field_element;
use super::typed::{Form, by_name, form, same};
use crate::fields::zero_value;
use crate::schema::{Shape, TypeRef, ZeroValue};

/// What belongs to nobody: names, versions and times.
const OF_OBJECT: [&str; 2] = ["apiVersion", "kind"];
const OF_METADATA: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The fields that whoever creates the object comes to own; empty if there are none.
pub(super) fn fields(ty: TypeRef<'_>, object: &Map<String, Value>) -> Map<String, Value> {
    let status_apart = ty.status_apart();
    let counted = object.iter().filter(|(name, _)| {
        let elsewhere = status_apart && name.as_str() == "status";
        !elsewhere && !OF_OBJECT.contains(&name.as_str())
    });
    let owned = counted.filter_map(|(name, value)| {
        let (field, listed) = ty.member(name)?;
        let was = before(field, Before::Untouched);
        let recorded = match value {
            Value::Object(metadata) if name == "metadata" => {
                let below: Map<String, Value> = metadata
                    .iter()
                    .filter(|(name, _)| !OF_METADATA.contains(&name.as_str()))
                    .filter_map(|(name, value)| member(field, name, value, was))
                    .collect();
                (!below.is_empty()).then_some(Value::Object(below))?
            }
            _ if name == "metadata" => return None,
            _ => at(field, was, value)?,
        };
        Some((named(listed.map(AsRef::as_ref), name), recorded))
    });
    owned.collect()
}

/// What was at a place before.
#[derive(Clone, Copy)]
enum Before {
    /// Nothing.
    Absent,
    /// What is there without anybody's doing.
    Untouched,
}

/// What was before at a field of a place. Only fields that are always written are there untouched.
fn before(field: TypeRef<'_>, of: Before) -> Before {
    match (of, field.zero()) {
        (Before::Untouched, ZeroValue::Always | ZeroValue::Null) => Before::Untouched,
        _ => Before::Absent,
    }
}

fn named(listed: Option<&str>, name: &str) -> String {
    listed.map_or_else(|| field_element(name), str::to_owned)
}

/// A field of a place, if somebody owns it or something in it.
fn member(of: TypeRef<'_>, name: &str, value: &Value, was: Before) -> Option<(String, Value)> {
    let (field, listed) = of.member(name)?;
    let recorded = at(field, before(field, was), value)?;
    Some((named(listed.map(AsRef::as_ref), name), recorded))
}

/// What is recorded for a place.
fn at(ty: TypeRef<'_>, was: Before, value: &Value) -> Option<Value> {
    if matches!(was, Before::Absent) {
        return Some(Value::Object(inside(ty, value, Before::Absent, true)));
    }
    let old = if matches!(ty.shape(), Shape::Struct) { Before::Untouched } else { Before::Absent };
    let below = inside(ty, value, old, false);
    if !below.is_empty() {
        return Some(Value::Object(below));
    }
    // A place as a whole, or one with nothing in it.
    let unchanged = match (old, form(ty, Some(value)), value) {
        (Before::Untouched, Form::Object, Value::Object(_)) => true,
        _ if ty.zero() == ZeroValue::Null => value.is_null(),
        _ => same(&zero_value(ty), value),
    };
    (!unchanged).then(|| Value::Object(Map::new()))
}

/// What is recorded for the fields or elements of a place, and for the place itself if there are any.
fn inside(ty: TypeRef<'_>, value: &Value, was: Before, itself: bool) -> Map<String, Value> {
    let mut recorded: Vec<(String, Value)> = Vec::new();
    // It comes before all names, so that they are in order.
    let begin = |recorded: &mut Vec<(String, Value)>, count: usize| {
        recorded.reserve_exact(count + usize::from(itself));
        if itself {
            recorded.push((".".to_owned(), Value::Object(Map::new())));
        }
    };
    match (form(ty, Some(value)), value) {
        (Form::Object, Value::Object(fields)) if !fields.is_empty() => {
            begin(&mut recorded, fields.len());
            recorded.extend(fields.iter().filter_map(|(name, value)| member(ty, name, value, was)));
        }
        (Form::List, Value::Array(items)) if !items.is_empty() => {
            let Some(element) = ty.element() else { return Map::new() };
            begin(&mut recorded, items.len());
            recorded.extend(by_name(ty, items).into_iter().filter_map(|(name, items)| {
                // Elements with one name twice are owned together, as a whole.
                let recorded = match items.as_slice() {
                    [item] => at(element, Before::Absent, item)?,
                    _ => Value::Object(Map::new()),
                };
                Some((name, recorded))
            }));
        }
        _ => return Map::new(),
    }
    if recorded.len() == usize::from(itself) {
        return Map::new();
    }
    recorded.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::managers::{Manager, Managers};
    use super::super::{Scope, unset};
    use super::*;
    use crate::fields::{FieldProblem, check, normalize};
    use crate::schema::Schemas;

    /// The record as the difference to an object that nobody has touched.
    fn compared(ty: TypeRef<'_>, object: &Value) -> Value {
        let scope = Scope { ty, api_version: "v1", subresource: "", now: "" };
        let mut managers = Managers::default();
        scope.update(&unset(ty), object, &mut managers, &Manager::updater("m", "v1", ""));
        managers.0.into_values().next().map_or_else(|| json!({}), |owned| owned.set.to_fields_v1())
    }

    fn places(value: &Value, path: &str, all: &mut Vec<String>) {
        let mut visit = |step: String, value: &Value| {
            let path = format!("{path}/{}", step.replace('~', "~0").replace('/', "~1"));
            places(value, &path, all);
            all.push(path);
        };
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| visit(name.clone(), value)),
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| visit(index.to_string(), item));
            }
            _ => {}
        }
    }

    fn objects() -> Vec<(&'static str, &'static str, Value)> {
        vec![
            (
                "",
                "Pod",
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}, "annotations": {},
                "ownerReferences": [{"uid": "u", "name": "o"}], "finalizers": ["a/b"], "generation": 1}, "spec": {"containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}],
                 "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "resources": {"requests": {"cpu": "1"}}},
                {"name": "d", "resources": {}}], "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}], "volumes": [
                {"name": "v", "projected": {"sources": [{"configMap": {"name": "m"}}]}}], "securityContext": {},
                "nope": 1}, "status": {"phase": "Pending"}}),
            ),
            (
                "apps",
                "Deployment",
                json!({"metadata": {}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}},
                "strategy": {"type": "Recreate"}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": null}}},
                "status": {}}),
            ),
            (
                "",
                "Event",
                json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "source": {}, "eventTime": null,
                "firstTimestamp": "2026-01-01T00:00:00Z", "reportingComponent": "x", "reportingInstance": "", "count": 1}),
            ),
            (
                "",
                "Node",
                json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {
                "conditions": [{"type": "Ready"}], "nodeInfo": {"machineID": "1", "bootID": ""}}}),
            ),
            (
                "",
                "ConfigMap",
                json!({"metadata": {"name": "m", "labels": {}}, "data": {"a": "1"}, "binaryData": {}}),
            ),
            (
                "",
                "Service",
                json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
                "status": {"loadBalancer": {}}}),
            ),
        ]
    }

    #[test]
    fn the_record_is_the_difference_to_an_untouched_object() {
        for (group, kind, object) in objects() {
            let ty = Schemas::builtin().kind(group, "v1", kind).unwrap();
            let mut all = Vec::new();
            places(&object, "", &mut all);
            let mut variants = vec![object.clone()];
            for place in all {
                for other in [json!(null), json!({}), json!([]), json!("")] {
                    let mut changed = object.clone();
                    *changed.pointer_mut(&place).unwrap() = other;
                    variants.push(changed);
                }
            }
            // Objects come here after their types were checked, in their canonical form.
            let fits = |object: &Value| check(ty, object).iter().all(FieldProblem::is_strict);
            for mut object in variants.into_iter().filter(fits) {
                normalize(ty, &mut object);
                let fast = Value::Object(fields(ty, object.as_object().unwrap()));
                assert_eq!(fast, compared(ty, &object), "{kind}: {object}");
            }
        }
        let free =
            json!({"metadata": {"name": "a"}, "spec": {"list": [1], "deep": {"a": {}}}, "status": {"x": 1}});
        let fast = Value::Object(fields(Schemas::any(), free.as_object().unwrap()));
        assert_eq!(fast, compared(Schemas::any(), &free));
    }
}
