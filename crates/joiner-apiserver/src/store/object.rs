//! An object as the store keeps it: the JSON text that clients get, and beside it the little that is asked for all the time.
//!
//! A parsed object takes ten times the memory of its text, and nearly everybody wants the text: lists, watches, answers, the data
//! file. So an object is written once, when it is stored, and parsed again when somebody looks inside. Selectors, owners and the
//! garbage collector look so often that what they want is kept apart.

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;

use super::written::{Written, written};
use super::{ResourceName, slim};

/// Resources of which there are few and which nearly every write looks into; these stay parsed.
const OFTEN_READ: [(&str, &str); 7] = [
    ("", "serviceaccounts"),
    ("", "services"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("node.k8s.io", "runtimeclasses"),
    ("policy", "poddisruptionbudgets"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
];

/// An object as it was when it was written.
#[derive(Clone, Debug)]
pub(super) struct FreshValue {
    value: Arc<Value>,
    /// Where the record of owners is in the text, if the value is without. Half of a new object is that record, and hardly
    /// anybody asks for it before the next write.
    record_at: Range<usize>,
}

impl FreshValue {
    fn is_whole(&self) -> bool {
        self.record_at.is_empty()
    }
}

/// One state of an object.
#[derive(Debug)]
pub struct Object {
    text: Bytes,
    /// Where the fields after kind and version begin.
    rest_at: usize,
    /// Where the digits of the resource version begin; 0 if there are none.
    version_at: usize,
    revision: u64,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    owners: Box<[Box<str>]>,
    /// The node of a pod.
    node: Box<str>,
    /// The phase of a pod.
    phase: Box<str>,
    is_pod: bool,
    deleting: bool,
    finalizers: bool,
    often_read: bool,
    parsed: OnceLock<Arc<Value>>,
    /// The same for an object that was written lately.
    fresh: Mutex<Option<Box<FreshValue>>>,
    /// The definition under which the text was found to be what clients are shown; 0 for none.
    plain_under: AtomicU64,
}

impl Object {
    /// Writes an object down. The resource version is that of its metadata.
    pub(super) fn new(resource: &ResourceName, value: &Value) -> Self {
        Self::of_written(resource, value, written(value, None))
    }

    fn of_written(resource: &ResourceName, value: &Value, written: Written) -> Self {
        let Written { text, rest_at, version_at, .. } = written;
        let metadata = value.get("metadata").and_then(Value::as_object);
        let meta_text = |field: &str| {
            metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_str).unwrap_or_default()
        };
        let list = |field: &str| {
            metadata.and_then(|metadata| metadata.get(field)).and_then(Value::as_array).into_iter().flatten()
        };
        let labels = metadata.and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
        let labels = labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
        let owners = list("ownerReferences").filter_map(|owner| Some(owner.get("uid")?.as_str()?.into()));
        let is_pod = resource.group.is_empty() && &*resource.plural == "pods";
        let inner = |outer: &str, field: &str| match value.get(outer).and_then(|outer| outer.get(field)) {
            Some(Value::String(text)) if is_pod => text.as_str(),
            _ => "",
        };
        Self {
            rest_at,
            version_at,
            revision: meta_text("resourceVersion").parse().unwrap_or(0),
            uid: meta_text("uid").into(),
            labels: labels.collect(),
            owners: owners.collect(),
            node: inner("spec", "nodeName").into(),
            phase: inner("status", "phase").into(),
            is_pod,
            deleting: !meta_text("deletionTimestamp").is_empty(),
            finalizers: list("finalizers").next().is_some(),
            often_read: OFTEN_READ.contains(&(&*resource.group, &*resource.plural)),
            text,
            parsed: OnceLock::new(),
            fresh: Mutex::default(),
            plain_under: AtomicU64::new(0),
        }
    }

    /// The text with another revision in it.
    fn text_at(&self, revision: u64) -> Bytes {
        if self.version_at == 0 {
            return self.text.clone();
        }
        let (before, rest) = self.text.split_at(self.version_at);
        let digits = rest.iter().take_while(|byte| **byte != b'"').count();
        let number = revision.to_string();
        let mut text = Vec::with_capacity(before.len() + number.len() + rest.len() - digits);
        text.extend_from_slice(before);
        text.extend_from_slice(number.as_bytes());
        text.extend_from_slice(&rest[digits..]);
        text.into()
    }

    /// The same state at another revision, as a deletion shows it.
    pub(crate) fn at_revision(&self, revision: u64) -> Self {
        Self {
            text: self.text_at(revision),
            rest_at: self.rest_at,
            version_at: self.version_at,
            revision,
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            owners: self.owners.clone(),
            node: self.node.clone(),
            phase: self.phase.clone(),
            is_pod: self.is_pod,
            deleting: self.deleting,
            finalizers: self.finalizers,
            often_read: self.often_read,
            parsed: OnceLock::new(),
            fresh: Mutex::default(),
            plain_under: AtomicU64::new(self.plain_under.load(Ordering::Relaxed)),
        }
    }

    /// The object as JSON: version and kind first, the other fields in the order of their names.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// The text after version and kind, up to and including the last brace.
    pub(crate) fn rest(&self) -> Bytes {
        self.text.slice(self.rest_at..)
    }

    /// The text before that.
    pub(crate) fn beginning(&self) -> &[u8] {
        &self.text[..self.rest_at]
    }

    /// The object, if it is still parsed since it was written, perhaps without the record of its owners.
    pub(super) fn fresh(&self) -> Option<FreshValue> {
        self.fresh.lock().as_deref().cloned()
    }

    /// Lets the parsed object go, if there is one.
    pub(super) fn cool(&self) -> Option<Arc<Value>> {
        self.fresh.lock().take().map(|fresh| fresh.value)
    }

    /// The object, if it is still parsed. It stays so with its record, for whoever asks next.
    fn fresh_whole(&self) -> Option<Arc<Value>> {
        let fresh = self.fresh()?;
        if fresh.is_whole() {
            return Some(fresh.value);
        }
        let whole = Arc::new(self.with_record(&fresh));
        // It may have been let go meanwhile.
        if let Some(kept) = &mut *self.fresh.lock() {
            **kept = FreshValue { value: whole.clone(), record_at: 0..0 };
        }
        Some(whole)
    }

    /// A copy of a parsed object, with the record of its owners.
    fn with_record(&self, fresh: &FreshValue) -> Value {
        let mut value = Value::clone(&fresh.value);
        if !fresh.is_whole()
            && let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut)
            && let Some(record) = self.text.get(fresh.record_at.clone())
        {
            // The text was written here.
            metadata.insert(slim::RECORD.to_owned(), serde_json::from_slice(record).unwrap_or_default());
        }
        value
    }

    /// The object, parsed anew.
    fn parse(&self) -> Value {
        // The text was written here from a value.
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// The object, to be changed.
    fn to_value(&self) -> Value {
        match self.fresh() {
            Some(fresh) => self.with_record(&fresh),
            None => self.parse(),
        }
    }

    /// The object without `metadata.managedFields`.
    pub fn parse_slim(&self) -> Value {
        self.fresh_slim().unwrap_or_else(|| slim::read(&self.text))
    }

    fn fresh_slim(&self) -> Option<Value> {
        let fresh = self.fresh()?;
        Some(if fresh.is_whole() { slim::copied(&fresh.value) } else { Value::clone(&fresh.value) })
    }

    /// The resource version.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The uids of its owners.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.owners.iter().map(|uid| &**uid)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }

    /// Whether it is on its way out.
    pub fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// Whether it has finalizers.
    pub fn has_finalizers(&self) -> bool {
        self.finalizers
    }

    /// The text at a path, if it is one of those kept apart. Absent is empty.
    pub fn kept_field(&self, path: &str) -> Option<&str> {
        match path {
            "spec.nodeName" if self.is_pod => Some(&self.node),
            "status.phase" if self.is_pod => Some(&self.phase),
            _ => None,
        }
    }

    /// Whether the text was found to be what clients are shown under a definition.
    pub(crate) fn is_plain_under(&self, definition: u64) -> bool {
        self.plain_under.load(Ordering::Relaxed) == definition
    }

    /// Remembers that it is.
    pub(crate) fn set_plain_under(&self, definition: u64) {
        self.plain_under.store(definition, Ordering::Relaxed);
    }
}

/// An object that is written and has no revision yet.
#[derive(Debug)]
pub struct Draft {
    object: Object,
    value: Value,
    record_at: Range<usize>,
}

impl Draft {
    /// Writes an object down for [`put_draft`](super::Session::put_draft).
    pub fn new(resource: &ResourceName, value: Value) -> Self {
        Self::with_record(resource, value, None)
    }

    /// The same for an object whose `metadata.managedFields` are a text already.
    pub(crate) fn with_record(resource: &ResourceName, mut value: Value, record: Option<Vec<u8>>) -> Self {
        // The place for the revision.
        stamp(&mut value, String::new());
        let written = written(&value, record.as_deref());
        let record_at = written.record_at.clone();
        Self { object: Object::of_written(resource, &value, written), value, record_at }
    }

    /// The object. Its `metadata.managedFields` may be missing.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The object, without a revision.
    pub fn into_value(self) -> Value {
        let fresh = FreshValue { value: Arc::new(self.value), record_at: self.record_at };
        let mut value = self.object.with_record(&fresh);
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        value
    }

    pub(super) fn at_revision(mut self, revision: u64) -> Object {
        stamp(&mut self.value, revision.to_string());
        // The record stands before the revision and stays where it is.
        let fresh = FreshValue { value: Arc::new(self.value), record_at: self.record_at };
        let fresh = Mutex::new(Some(Box::new(fresh)));
        Object { text: self.object.text_at(revision), revision, fresh, ..self.object }
    }
}

fn stamp(object: &mut Value, revision: String) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision));
    }
}

/// A state of an object, to be read: a [`Value`] that is parsed when somebody looks inside, and dropped with this handle.
#[derive(Clone, Debug)]
pub struct Stored {
    object: Arc<Object>,
    value: OnceLock<Arc<Value>>,
}

impl Stored {
    pub(super) fn new(object: Arc<Object>) -> Self {
        Self { object, value: OnceLock::new() }
    }

    pub(super) fn with_value(object: Arc<Object>, value: Arc<Value>) -> Self {
        Self { object, value: OnceLock::from(value) }
    }

    /// An object that is shown as if it were stored: the result of a dry run, or of a write that changed nothing.
    pub(crate) fn shown(resource: &ResourceName, value: Value) -> Self {
        Self::with_value(Arc::new(Object::new(resource, &value)), Arc::new(value))
    }

    /// The object as it is kept.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The object, parsed.
    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| {
            if self.object.often_read {
                self.object.parsed.get_or_init(|| Arc::new(self.object.parse())).clone()
            } else {
                self.object.fresh_whole().unwrap_or_else(|| Arc::new(self.object.parse()))
            }
        })
    }

    /// The object, parsed, to be changed.
    pub fn to_value(&self) -> Value {
        match self.value.get() {
            Some(value) => Value::clone(value),
            None => self.object.to_value(),
        }
    }

    /// The object without `metadata.managedFields`, if it is parsed.
    pub fn into_slim(mut self) -> Option<Value> {
        match self.value.take() {
            Some(value) => Some(slim::copied(&value)),
            None => self.object.fresh_slim(),
        }
    }

    /// The object, parsed, without a copy where there is one that nobody else has.
    pub fn into_value(mut self) -> Value {
        match self.value.take() {
            Some(value) => Arc::try_unwrap(value).unwrap_or_else(|shared| Value::clone(&shared)),
            None => self.object.to_value(),
        }
    }
}

impl From<&Arc<Object>> for Stored {
    fn from(object: &Arc<Object>) -> Self {
        Self::new(object.clone())
    }
}

impl Deref for Stored {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn kept(value: &Value) -> Object {
        Object::new(&ResourceName::new("", "pods"), value)
    }

    #[test]
    fn the_text_is_the_object_and_its_rest_an_item_of_a_list() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "binary": 1, "metadata": {"name": "a\"b", "resourceVersion": "7", "uid": "u",
            "labels": {"a": "b"}, "ownerReferences": [{"uid": "o"}], "finalizers": ["f"]}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let object = kept(&pod);
        assert_eq!(object.parse(), pod);
        let mut item = b"{".to_vec();
        item.extend_from_slice(&object.rest());
        let mut rest = pod.clone();
        rest.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
        assert_eq!(serde_json::from_slice::<Value>(&item).unwrap(), rest);
        assert_eq!(object.beginning(), b"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",");
        assert_eq!((object.revision(), object.uid(), object.label("a")), (7, "u", Some("b")));
        assert_eq!(object.owners().collect::<Vec<_>>(), ["o"]);
        assert!(object.has_finalizers() && !object.is_deleting());
        assert_eq!(object.kept_field("spec.nodeName"), Some("n"));

        let later = object.at_revision(12_345);
        let mut changed = pod;
        changed["metadata"]["resourceVersion"] = "12345".into();
        assert_eq!((later.parse(), later.revision()), (changed, 12_345));
    }

    #[test]
    fn a_record_that_comes_as_text_is_part_of_the_object() {
        let record = json!([{"manager": "m", "fieldsV1": {"f:a": {}}}]);
        for metadata in [json!({"name": "a", "labels": {"b": "c"}}), json!({"a": 1}), json!({})] {
            let bare = json!({"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}});
            let mut whole = bare.clone();
            whole["metadata"]["managedFields"] = record.clone();
            let pods = ResourceName::new("", "pods");
            let draft = || Draft::with_record(&pods, bare.clone(), Some(record.to_string().into_bytes()));
            assert_eq!(draft().into_value(), whole);

            let stored = || Stored::new(Arc::new(draft().at_revision(12)));
            assert_eq!(stored().into_slim().unwrap()["metadata"].get("managedFields"), None);
            whole["metadata"]["resourceVersion"] = "12".into();
            let object = stored();
            assert_eq!(object.object().parse(), whole);
            assert_eq!(object.to_value(), whole);
            assert_eq!(*object.value(), whole);
            // It has been put together now.
            assert_eq!(*Stored::new(object.object().clone()), whole);
            assert_eq!(object.object().parse_slim(), stored().object().parse_slim());
            assert_eq!(object.object().text(), Draft::new(&pods, whole).at_revision(12).text());
        }
    }

    #[test]
    fn odd_objects_are_kept_too() {
        for value in [
            json!({}),
            json!({"kind": "X"}),
            json!({"apiVersion": "v1", "kind": "X"}),
            json!({"metadata": {}}),
            json!({"metadata": {"resourceVersion": 5}}),
            json!({"metadata": "x", "kind": 3}),
            json!(null),
        ] {
            let object = kept(&value);
            assert_eq!(object.parse(), value);
            assert_eq!(object.at_revision(9).parse(), value, "there is no version to change");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let name = prop_oneof![
                Just("metadata".to_owned()),
                Just("kind".to_owned()),
                Just("resourceVersion".to_owned()),
                any::<String>()
            ];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(name, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value in values()) {
            prop_assert_eq!(kept(&value).parse(), value);
        }

        #[test]
        fn a_version_is_all_that_another_revision_changes(mut value in values(), name in any::<String>(), revision in any::<u64>()) {
            if value.is_object() {
                value["metadata"] = json!({"name": name, "resourceVersion": "1", "z": [1]});
                let later = kept(&value).at_revision(revision);
                value["metadata"]["resourceVersion"] = revision.to_string().into();
                prop_assert_eq!(later.parse(), value);
            }
        }
    }
}
