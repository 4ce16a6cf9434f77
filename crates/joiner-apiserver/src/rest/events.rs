//! Events have two faces, `v1` and `events.k8s.io/v1`, and one place where they are kept: in the first form.

use serde_json::{Map, Value};

const RENAMED: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// The names of the core form become those of the other.
pub(crate) fn to_regarding(event: Value) -> Value {
    rename(event, |name| {
        if name == "reportingComponent" {
            return "reportingController";
        }
        RENAMED.iter().find(|(core, _)| *core == name).map_or(name, |(_, other)| other)
    })
}

/// The names of the other form become those of the core.
pub(crate) fn to_involved(event: Value) -> Value {
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
