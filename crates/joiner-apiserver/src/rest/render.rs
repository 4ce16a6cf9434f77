//! Objects and lists in the form that the client accepts.

use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value, json};

use super::{Answer, Call, Form, Payload};
use crate::resources::Resource;
use crate::table;

/// One object.
pub(crate) fn object(call: &Call<'_>, code: u16, object: &Value) -> Answer {
    if call.accepted.form == Form::Objects && is_in_version(&call.resource, object) {
        // Writing JSON into memory fails only for keys that are no strings, and there are none.
        return Answer::new(code, Payload::Written(serde_json::to_vec(object).unwrap_or_default()));
    }
    Answer::new(code, Payload::Document(shaped(call, object)))
}

/// Whether [`in_version`] would change nothing.
pub(crate) fn is_in_version(resource: &Resource, object: &Value) -> bool {
    let is = |field: &str, wanted: &str| object.get(field).and_then(Value::as_str) == Some(wanted);
    resource.custom.is_none()
        && !resource.is("events.k8s.io", "events")
        && is("kind", &resource.kind)
        && is("apiVersion", &resource.api_version())
}

fn shaped(call: &Call<'_>, object: &Value) -> Value {
    match call.accepted.form {
        Form::Objects | Form::Discovery => in_version(&call.resource, object),
        Form::Metadata => metadata_only(object),
        Form::Table(version) => {
            let resource_version = super::meta_text(object, "resourceVersion").to_owned();
            let include = table::Include::from_query(call.query().get("includeObject"));
            let mut table = table::table(
                &call.resource,
                std::iter::once(object),
                call.core.clock.now(),
                include,
                version,
            );
            table["metadata"] = json!({"resourceVersion": resource_version});
            table
        }
    }
}

/// The object in the version of the path, where it is kept in another.
pub(crate) fn in_version(resource: &Resource, object: &Value) -> Value {
    let mut object = object.clone();
    if resource.is("events.k8s.io", "events") {
        object = super::events::to_regarding(object);
    }
    if resource.custom.is_some() {
        // A definition may have got new defaults since the object was written.
        super::typed::default(resource, &mut object);
    }
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.clone().into();
    object
}

/// What and which an object is.
pub(crate) fn metadata_only(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// The metadata of a list.
pub(crate) struct ListMeta {
    pub resource_version: String,
    pub continue_token: Option<String>,
    pub remaining: Option<usize>,
}

impl ListMeta {
    pub(crate) fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), self.resource_version.clone().into());
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), token.clone().into());
        }
        if let Some(remaining) = self.remaining {
            metadata.insert("remainingItemCount".to_owned(), remaining.into());
        }
        Value::Object(metadata)
    }
}

/// A list.
pub(crate) fn list(call: &Call<'_>, items: &[Arc<Value>], meta: &ListMeta) -> Answer {
    let resource = &call.resource;
    let payload = match call.accepted.form {
        Form::Objects | Form::Discovery => {
            let document = ListDocument { resource, items, meta };
            // Writing JSON into memory fails only for keys that are no strings, and there are none.
            Payload::Written(serde_json::to_vec(&document).unwrap_or_default())
        }
        Form::Metadata => {
            let items: Vec<Value> = items.iter().map(|item| metadata_only(item)).collect();
            Payload::Document(json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta.to_value(), "items": items,
            }))
        }
        Form::Table(version) => {
            let include = table::Include::from_query(call.query().get("includeObject"));
            let objects = items.iter().map(|item| &**item);
            let mut table = table::table(resource, objects, call.core.clock.now(), include, version);
            table["metadata"] = meta.to_value();
            Payload::Document(table)
        }
    };
    Answer::new(200, payload)
}

/// A list is written straight from the stored objects: it may be long.
struct ListDocument<'a> {
    resource: &'a Resource,
    items: &'a [Arc<Value>],
    meta: &'a ListMeta,
}

impl Serialize for ListDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("kind", &self.resource.list_kind)?;
        map.serialize_entry("apiVersion", &self.resource.api_version())?;
        let mut meta = self.meta.to_value();
        if self.resource.custom.is_some() && self.meta.continue_token.is_none() {
            // Lists of custom resources always say where they go on, even if nowhere.
            meta["continue"] = "".into();
        }
        map.serialize_entry("metadata", &meta)?;
        map.serialize_entry("items", &Items { resource: self.resource, items: self.items })?;
        map.end()
    }
}

struct Items<'a> {
    resource: &'a Resource,
    items: &'a [Arc<Value>],
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.items.len()))?;
        for item in self.items {
            if self.resource.custom.is_some() {
                list.serialize_element(&in_version(self.resource, item))?;
            } else if self.resource.is("events.k8s.io", "events") {
                list.serialize_element(&Untyped(&super::events::to_regarding(Value::clone(item))))?;
            } else {
                list.serialize_element(&Untyped(item))?;
            }
        }
        list.end()
    }
}

/// Items of built-in lists do not repeat their kind and version.
struct Untyped<'a>(&'a Value);

impl Serialize for Untyped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(fields) = self.0.as_object() else { return self.0.serialize(serializer) };
        let mut map = serializer.serialize_map(None)?;
        for (field, value) in fields.iter().filter(|(field, _)| *field != "kind" && *field != "apiVersion") {
            map.serialize_entry(field, value)?;
        }
        map.end()
    }
}
