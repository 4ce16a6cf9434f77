//! Events have two faces, `v1` and `events.k8s.io/v1`, and one place where they are kept: in the first form.

use serde_json::{Map, Value};

use super::typed;
use crate::fields::normalize;
use crate::resources::Resource;
use crate::schema::Schemas;

const RENAMED: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Whether a resource shows events in another form than they are kept in.
pub(crate) fn is_other_face(resource: &Resource) -> bool {
    resource.is("events.k8s.io", "events")
}

/// The group of the form in which an object is judged.
pub(crate) fn judged_group(resource: &Resource) -> &str {
    if is_other_face(resource) { "" } else { &resource.group }
}

/// An event of the other form as it is kept.
pub(crate) fn to_kept(event: Value) -> Value {
    let mut event = to_involved(event);
    event["apiVersion"] = "v1".into();
    if let Some(ty) = Schemas::builtin().kind("", "v1", "Event") {
        normalize(ty, &mut event);
    }
    event
}

/// A kept event in the form of a resource that shows the other one.
pub(crate) fn to_shown(resource: &Resource, event: Value) -> Value {
    let mut event = to_regarding(event);
    if let Some(ty) = typed::type_of(resource) {
        normalize(ty, &mut event);
    }
    event
}

/// The names of the core form become those of the other.
fn to_regarding(event: Value) -> Value {
    rename(event, |name| {
        if name == "reportingComponent" {
            return "reportingController";
        }
        RENAMED.iter().find(|(core, _)| *core == name).map_or(name, |(_, other)| other)
    })
}

/// The names of the other form become those of the core.
fn to_involved(event: Value) -> Value {
    rename(event, |name| {
        if name == "reportingController" {
            return "reportingComponent";
        }
        RENAMED.iter().find(|(_, other)| *other == name).map_or(name, |(core, _)| core)
    })
}

fn rename(event: Value, name: impl Fn(&str) -> &str) -> Value {
    match event {
        Value::Object(fields) => Value::Object(
            fields.into_iter().map(|(field, value)| (name(&field).to_owned(), value)).collect::<Map<_, _>>(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_two_forms_are_one_event() {
        let core = json!({"involvedObject": {"name": "p"}, "message": "m", "count": 1, "reason": "r", "reportingComponent": "c"});
        let other = json!({"regarding": {"name": "p"}, "note": "m", "deprecatedCount": 1, "reason": "r", "reportingController": "c"});
        assert_eq!(to_regarding(core.clone()), other);
        assert_eq!(to_involved(other), core);
    }
}
