//! The fields of a new object, in the form in which they are recorded.
//!
//! Of a new object there is nothing to compare with but what every object of its kind has without anybody's doing, and
//! nobody to take fields from: everything else is its creator's. So the record is written in one walk, and not as a difference of sets.

use serde_json::{Map, Value};

use super::managers::named;
use super::set::field_element;
use super::typed::{Form, by_name, element_name, form, same};
use crate::fields::zero_value;
use crate::json_text::{close, write_name, write_text};
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

/// The text of `metadata.managedFields` of a new object: all of its fields are its creator's. None if it has none.
pub(super) fn record(
    ty: TypeRef<'_>,
    object: &Map<String, Value>,
    manager: &str,
    api_version: &str,
    now: &str,
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(TYPICAL);
    out.extend_from_slice(b"[{\"apiVersion\":");
    write_text(api_version, &mut out);
    out.extend_from_slice(b",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
    if !fields(ty, object, &mut out) {
        return None;
    }
    out.extend_from_slice(b",\"manager\":");
    write_text(named(manager), &mut out);
    out.extend_from_slice(b",\"operation\":\"Update\",\"time\":");
    write_text(now, &mut out);
    out.extend_from_slice(b"}]");
    Some(out)
}

/// As long as the record of a pod.
const TYPICAL: usize = 1024;

/// Writes the fields that whoever creates the object comes to own; says whether there are any.
fn fields(ty: TypeRef<'_>, object: &Map<String, Value>, out: &mut Vec<u8>) -> bool {
    let status_apart = ty.status_apart();
    let counted = object.iter().filter(|(name, _)| {
        let elsewhere = status_apart && name.as_str() == "status";
        !elsewhere && !OF_OBJECT.contains(&name.as_str())
    });
    written(out, false, |out| {
        for (name, value) in counted {
            if name != "metadata" {
                member(ty, name, value, Before::Untouched, out);
            } else if let (Some((field, _)), Value::Object(metadata)) = (ty.member(name), value) {
                let was = before(field, Before::Untouched);
                let others = metadata.iter().filter(|(name, _)| !OF_METADATA.contains(&name.as_str()));
                entry("f:metadata", out, |out| {
                    written(out, false, |out| {
                        others.for_each(|(name, value)| member(field, name, value, was, out));
                    })
                });
            }
        }
    })
}

/// Writes an object of what `content` writes, each entry with a comma behind it, after a mark for the place itself if it is
/// owned. Where there are no entries nothing is written.
fn written(out: &mut Vec<u8>, itself: bool, content: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = out.len();
    out.push(b'{');
    if itself {
        // It comes before all names, so that they are in order.
        out.extend_from_slice(b"\".\":{},");
    }
    let begun = out.len();
    content(out);
    if out.len() == begun {
        out.truncate(start);
        return false;
    }
    close(out, b'{', b'}');
    true
}

/// Writes an entry of an object, if there is something to write behind its name.
fn entry(name: &str, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>) -> bool) {
    let start = out.len();
    write_name(name, out);
    if content(out) {
        out.push(b',');
    } else {
        out.truncate(start);
    }
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

/// Writes a field of a place, if somebody owns it or something in it.
fn member(of: TypeRef<'_>, name: &str, value: &Value, was: Before, out: &mut Vec<u8>) {
    let Some((field, listed)) = of.member(name) else { return };
    let was = before(field, was);
    match listed {
        Some(listed) => entry(listed, out, |out| at(field, was, value, out)),
        None => entry(&field_element(name), out, |out| at(field, was, value, out)),
    }
}

/// Writes what is recorded for a place; says whether there is something.
fn at(ty: TypeRef<'_>, was: Before, value: &Value, out: &mut Vec<u8>) -> bool {
    if matches!(was, Before::Absent) {
        if !inside(ty, value, Before::Absent, true, out) {
            whole(out);
        }
        return true;
    }
    let old = if matches!(ty.shape(), Shape::Struct) { Before::Untouched } else { Before::Absent };
    if inside(ty, value, old, false, out) {
        return true;
    }
    // A place as a whole, or one with nothing in it.
    let unchanged = match (old, form(ty, Some(value)), value) {
        (Before::Untouched, Form::Object, Value::Object(_)) => true,
        _ if ty.zero() == ZeroValue::Null => value.is_null(),
        _ => same(&zero_value(ty), value),
    };
    if !unchanged {
        whole(out);
    }
    !unchanged
}

/// A place as a whole.
fn whole(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{}");
}

/// Writes what is recorded for the fields or elements of a place, and for the place itself if there are any; says whether there are.
fn inside(ty: TypeRef<'_>, value: &Value, was: Before, itself: bool, out: &mut Vec<u8>) -> bool {
    match (form(ty, Some(value)), value) {
        (Form::Object, Value::Object(fields)) => written(out, itself, |out| {
            fields.iter().for_each(|(name, value)| member(ty, name, value, was, out));
        }),
        (Form::List, Value::Array(items)) => {
            let Some(element) = ty.element() else { return false };
            let of_item = |item: &Value, out: &mut Vec<u8>| at(element, Before::Absent, item, out);
            written(out, itself, |out| match items.as_slice() {
                // Most lists are short, and one name needs no order.
                [item] => {
                    if let Ok(name) = element_name(ty, item) {
                        entry(&name, out, |out| of_item(item, out));
                    }
                }
                items => {
                    for (name, items) in by_name(ty, items) {
                        entry(&name, out, |out| match items.as_slice() {
                            [item] => of_item(item, out),
                            // Elements with one name twice are owned together, as a whole.
                            _ => {
                                whole(out);
                                true
                            }
                        });
                    }
                }
            })
        }
        _ => false,
    }
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

    /// The record as it is written, names in order.
    fn recorded(ty: TypeRef<'_>, object: &Value) -> Value {
        let Some(text) = record(ty, object.as_object().unwrap(), "m", "v1", "") else { return json!({}) };
        let record: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(record.to_string().as_bytes(), text);
        record[0]["fieldsV1"].clone()
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
                assert_eq!(recorded(ty, &object), compared(ty, &object), "{kind}: {object}");
            }
        }
        let free =
            json!({"metadata": {"name": "a"}, "spec": {"list": [1], "deep": {"a": {}}}, "status": {"x": 1}});
        assert_eq!(recorded(Schemas::any(), &free), compared(Schemas::any(), &free));
    }
}
