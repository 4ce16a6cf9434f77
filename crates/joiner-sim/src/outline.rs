//! What is asked of every pod of a cluster: who manages it, which annotations it has, since when it is ready. Read straight from the text, passing over all else.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::object::{Fields, Manager};

/// The condition that tells whether something is ready.
pub(crate) const READY: &str = "Ready";

/// The outline of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Kind, name and uid of the managing owner.
    manager: Option<[Box<str>; 3]>,
    /// The names of its annotations, in order.
    annotations: Box<[Box<str>]>,
    /// Whether it is ready.
    pub ready: bool,
    /// Since when.
    pub ready_since: Option<Timestamp>,
}

impl Outline {
    /// Reads the text of an object.
    pub fn read(text: &[u8]) -> Self {
        match serde_json::from_slice::<Sketch<'_>>(text) {
            Ok(sketch) => sketch.into(),
            // A field has another type than it should.
            Err(_) => Self::of(&serde_json::from_slice(text).unwrap_or_default()),
        }
    }

    /// Reads an object that is parsed.
    pub fn of(object: &Value) -> Self {
        Self {
            manager: object.manager().map(|manager| [manager.kind, manager.name, manager.uid].map(Box::from)),
            annotations: object
                .entries(&["metadata", "annotations"])
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str().into())
                .collect(),
            ready: object.condition_is_true(READY),
            ready_since: object.true_since(READY),
        }
    }

    /// The managing owner.
    pub fn manager(&self) -> Option<Manager<'_>> {
        let [kind, name, uid] = self.manager.as_ref()?;
        Some(Manager { kind, name, uid })
    }

    /// Whether there is an annotation of this name.
    pub fn has_annotation(&self, name: &str) -> bool {
        self.annotations.iter().any(|known| &**known == name)
    }
}

#[derive(Deserialize)]
struct Sketch<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    annotations: BTreeMap<Cow<'a, str>, IgnoredAny>,
    #[serde(borrow, default)]
    owner_references: Vec<Owner<'a>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    controller: bool,
}

#[derive(Deserialize, Default)]
struct Status<'a> {
    #[serde(borrow, default)]
    conditions: Vec<Condition<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    last_transition_time: Option<Cow<'a, str>>,
}

impl From<Sketch<'_>> for Outline {
    fn from(sketch: Sketch<'_>) -> Self {
        let Metadata { annotations, owner_references } = sketch.metadata;
        let manager = owner_references.into_iter().find(|owner| owner.controller);
        let ready = sketch.status.conditions.into_iter().find(|condition| condition.kind == READY);
        let ready = ready.filter(|condition| condition.status == "True");
        Self {
            manager: manager.map(|owner| [owner.kind, owner.name, owner.uid].map(Box::from)),
            annotations: annotations.into_keys().map(Box::from).collect(),
            ready: ready.is_some(),
            ready_since: ready.and_then(|ready| ready.last_transition_time?.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn agree(object: &Value) {
        assert_eq!(Outline::read(object.to_string().as_bytes()), Outline::of(object), "{object}");
    }

    #[test]
    fn the_text_tells_what_the_object_does() {
        let ready = |status: &str, since: Value| {
            json!({"status": {"conditions": [{"type": "Other", "status": "True"},
            {"type": READY, "status": status, "lastTransitionTime": since}]}})
        };
        let owned = |controller: Value| {
            json!({"metadata": {"ownerReferences": [{"uid": "0"},
            {"kind": "ReplicaSet", "name": "a\"b", "uid": "1", "controller": controller}]}})
        };
        let since = json!("2026-01-01T12:00:00Z");
        let outline = Outline::of(&ready("True", since.clone()));
        assert!(outline.ready && outline.ready_since.is_some());
        assert_eq!(Outline::of(&owned(json!(true))).manager().unwrap().name, "a\"b");
        let annotated = json!({"metadata": {"annotations": {"b": "1", "a\"": "2", "c": 3}}});
        assert!(
            Outline::of(&annotated).has_annotation("a\"") && !Outline::of(&annotated).has_annotation("a")
        );
        for object in [
            annotated,
            json!({"metadata": {"annotations": null}}),
            json!({}),
            json!(null),
            json!([]),
            json!({"metadata": null, "status": null}),
            json!({"metadata": {"ownerReferences": null}, "status": {"conditions": "none"}}),
            ready("True", since.clone()),
            ready("False", since),
            ready("True", json!(null)),
            ready("True", json!("soon")),
            ready("True", json!(7)),
            owned(json!(true)),
            owned(json!(false)),
            owned(json!(null)),
            owned(json!("true")),
        ] {
            agree(&object);
        }
    }

    proptest! {
        #[test]
        fn for_any_owners_and_conditions(
            owners in proptest::collection::vec(("[a-c\"é]{0,2}", any::<Option<bool>>()), 0..4),
            conditions in proptest::collection::vec(("(Ready|Other)", "(True|False)", any::<Option<i32>>()), 0..4),
        ) {
            let owners: Vec<Value> =
                owners.into_iter().map(|(name, controller)| json!({"name": name, "controller": controller})).collect();
            let conditions: Vec<Value> = conditions
                .into_iter()
                .map(|(kind, status, at)| {
                    let at = at.map(|at| Timestamp::from_second(i64::from(at)).unwrap().to_string());
                    json!({"type": kind, "status": status, "lastTransitionTime": at})
                })
                .collect();
            agree(&json!({"metadata": {"ownerReferences": owners}, "status": {"conditions": conditions}}));
        }
    }
}
