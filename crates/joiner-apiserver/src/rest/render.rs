//! Objects and lists in the form that the client accepts.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{Answer, Call, Form, Payload, WrittenList, events};
use crate::json_text::write_text;
use crate::resources::Resource;
use crate::store::{Object, Stored};
use crate::table;

/// One object.
pub(crate) fn object(call: &Call<'_>, code: u16, object: &Stored) -> Answer {
    if call.accepted.form == Form::Objects
        && let Some(text) = text_in_version(&call.resource, object)
    {
        return Answer::new(code, Payload::Written(text));
    }
    Answer::new(code, Payload::Document(shaped(call, object)))
}

/// One object that is not kept in the store.
pub(crate) fn document(call: &Call<'_>, code: u16, object: &Value) -> Answer {
    Answer::new(code, Payload::Document(shaped(call, object)))
}

/// What the text of an object in the version of the path begins with.
fn beginning(resource: &Resource) -> Vec<u8> {
    let mut beginning = b"{\"apiVersion\":".to_vec();
    write_text(&resource.api_version(), &mut beginning);
    beginning.extend_from_slice(b",\"kind\":");
    write_text(&resource.kind, &mut beginning);
    beginning.push(b',');
    beginning
}

/// Whether the fields of an object, kind and version apart, are shown as they are kept.
pub(crate) fn is_plain(resource: &Resource, object: &Stored) -> bool {
    if events::is_other_face(resource) {
        return false;
    }
    let Some(custom) = &resource.custom else { return true };
    let kept = object.object();
    if kept.is_plain_under(custom.mark()) {
        return true;
    }
    // A definition may have got new defaults since the object was written.
    let mut defaulted = object.to_value();
    super::typed::default(resource, &mut defaulted);
    let plain = defaulted == **object;
    if plain {
        kept.set_plain_under(custom.mark());
    }
    plain
}

/// Writes down that an object was just filled with what its definition sets when nobody else does.
pub(crate) fn has_its_defaults(resource: &Resource, object: &Stored) {
    if let Some(custom) = &resource.custom {
        object.object().set_plain_under(custom.mark());
    }
}

/// The text of an object in the version of the path, if it can be had without looking inside.
pub(crate) fn text_in_version(resource: &Resource, object: &Stored) -> Option<Bytes> {
    if !is_plain(resource, object) {
        return None;
    }
    let kept: &Object = object.object();
    let beginning = beginning(resource);
    if kept.beginning() == beginning {
        return Some(kept.text().clone());
    }
    let rest = kept.rest();
    // Without other fields there is no comma to go before them.
    (rest.len() > 1).then(|| [&beginning, &rest[..]].concat().into())
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
    if events::is_other_face(resource) {
        object = events::to_shown(resource, object);
    }
    if resource.custom.is_some() {
        // A definition may have got new defaults since the object was written.
        super::typed::default(resource, &mut object);
    }
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.clone().into();
    object
}

/// The object in the version of the path, to be changed.
pub(crate) fn to_patch(resource: &Resource, object: &Stored) -> Value {
    if !is_plain(resource, object) {
        return in_version(resource, object);
    }
    let mut shown = object.to_value();
    shown["apiVersion"] = resource.api_version().into();
    shown["kind"] = resource.kind.clone().into();
    shown
}

/// An object as clients of a version see it.
pub(crate) fn shown(resource: &Resource, object: Stored) -> Stored {
    let same_version = || object.object().beginning() == beginning(resource);
    if is_plain(resource, &object) && same_version() {
        return object;
    }
    Stored::shown(&resource.stored_as, in_version(resource, &object))
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
pub(crate) fn list(call: &Call<'_>, items: &[Stored], meta: &ListMeta) -> Answer {
    let resource = &call.resource;
    let payload = match call.accepted.form {
        Form::Objects | Form::Discovery => Payload::List(written_list(resource, items, meta)),
        Form::Metadata | Form::Table(_) => {
            return list_of_values(call, items.iter().map(|item| item.clone().into_value()), meta);
        }
    };
    Answer::new(200, payload)
}

/// A list of objects that are not kept in the store, or are looked into.
pub(crate) fn list_of_values(call: &Call<'_>, items: impl Iterator<Item = Value>, meta: &ListMeta) -> Answer {
    let resource = &call.resource;
    let document = match call.accepted.form {
        Form::Objects | Form::Discovery => {
            let items: Vec<Value> = items.map(|item| untyped(resource, item)).collect();
            json!({
                "kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": list_meta(resource, meta), "items": items,
            })
        }
        Form::Metadata => {
            let items: Vec<Value> = items.map(|item| metadata_only(&item)).collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta.to_value(), "items": items,
            })
        }
        Form::Table(version) => {
            let include = table::Include::from_query(call.query().get("includeObject"));
            let mut table = table::table(resource, items, call.core.clock.now(), include, version);
            table["metadata"] = meta.to_value();
            table
        }
    };
    Answer::new(200, Payload::Document(document))
}

fn list_meta(resource: &Resource, meta: &ListMeta) -> Value {
    let mut metadata = meta.to_value();
    if resource.custom.is_some() && meta.continue_token.is_none() {
        // Lists of custom resources always say where they go on, even if nowhere.
        metadata["continue"] = "".into();
    }
    metadata
}

/// A list is sent straight from the texts in the store: it may be long.
fn written_list(resource: &Resource, items: &[Stored], meta: &ListMeta) -> WrittenList {
    let kind = Value::from(resource.list_kind.as_str());
    let version = Value::from(resource.api_version());
    let metadata = list_meta(resource, meta);
    let beginning = format!("{{\"kind\":{kind},\"apiVersion\":{version},\"metadata\":{metadata},\"items\":[");
    if resource.custom.is_some() {
        let texts = items.iter().map(|item| {
            text_in_version(resource, item)
                .unwrap_or_else(|| Bytes::from(in_version(resource, item).to_string()))
        });
        return WrittenList::new(beginning.into(), texts.collect(), b"");
    }
    let texts = items.iter().map(|item| {
        if is_plain(resource, item) {
            return item.object().rest();
        }
        let item = untyped(resource, item.to_value()).to_string();
        Bytes::from(item).slice(1..)
    });
    WrittenList::new(beginning.into(), texts.collect(), b"{")
}

/// An item of a list: those of built-in lists do not repeat their kind and version.
fn untyped(resource: &Resource, mut item: Value) -> Value {
    if resource.custom.is_some() {
        return in_version(resource, &item);
    }
    if events::is_other_face(resource) {
        item = events::to_shown(resource, item);
    }
    if let Some(fields) = item.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    item
}
