//! The body of a create or an update: read, checked against its kind, cleaned.

use serde_json::Value;

use super::options::FieldValidation;
use super::status::Failure;
use super::{Call, go_json, typed};
use crate::fields::{Document, FieldProblem, MOST_NESTED, nesting, parse_value};
use crate::protobuf;
use crate::resources::Resource;

/// The types a body may have.
const BODY_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// A body that was read.
pub(crate) struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// Reads a body of JSON or YAML as a document, duplicates included. `expected` is the kind that messages name.
pub(crate) fn document(call: &Call<'_>, expected: &str) -> Result<Document, Failure> {
    let text = String::from_utf8_lossy(&call.incoming.body);
    match call.incoming.content_type.as_deref() {
        None | Some("" | "application/json") => json_document(&text, expected),
        Some("application/yaml") => yaml_document(&text),
        Some(protobuf::MEDIA_TYPE) => {
            let object = protobuf::decode(&call.incoming.body).map_err(Failure::bad_request)?;
            if nesting(&object) > MOST_NESTED {
                return Err(Failure::bad_request("the body of the request exceeded max depth"));
            }
            Ok(Document::from(&object))
        }
        Some(_) => {
            let message = format!(
                "the body of the request was in an unknown format - accepted media types include: {BODY_TYPES}"
            );
            Err(Failure::new(415, "UnsupportedMediaType", message))
        }
    }
}

fn json_document(text: &str, expected: &str) -> Result<Document, Failure> {
    Document::parse(text).map_err(|_| {
        let shown = if text.is_empty() { "<empty>" } else { text };
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {expected}): couldn't get version/kind; json parse error: {} ({shown})",
            go_json::complaint(text)
        ))
    })
}

/// Reads YAML as a document.
pub(crate) fn yaml_document(text: &str) -> Result<Document, Failure> {
    let value: Value = serde_saphyr::from_str_with_options(text, crate::fields::forgiving())
        .map_err(|error| Failure::bad_request(format!("error decoding YAML: {error}")))?;
    Ok(Document::from(&value))
}

/// Reads the object that is to be written, and checks its kind and its fields.
pub(crate) fn decode(call: &Call<'_>, validation: FieldValidation) -> Result<Decoded, Failure> {
    let resource = &call.resource;
    let (object, problems) = read(call)?;
    let warnings = typed::judge(resource, problems, validation)?;
    Ok(Decoded { object: cleaned(resource, object), warnings })
}

/// Checks an object that did not come as a request, and brings it into the form in which it is written.
pub(crate) fn checked(
    resource: &Resource,
    mut object: Value,
    validation: FieldValidation,
) -> Result<Value, Failure> {
    let Some(fields) = object.as_object_mut() else {
        return Err(Failure::bad_request(format!("a {} is an object, and this is none", resource.kind)));
    };
    fields.entry("apiVersion").or_insert_with(|| resource.api_version().into());
    fields.entry("kind").or_insert_with(|| resource.kind.clone().into());
    check_kind(resource, &object)?;
    let problems = typed::check_value(resource, &object)?;
    typed::judge(resource, problems, validation)?;
    Ok(cleaned(resource, object))
}

fn cleaned(resource: &Resource, object: Value) -> Value {
    let mut object = typed::clean(resource, object);
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.clone().into();
    object
}

/// Reads the object, and finds what is wrong with its fields. Nearly always nothing is, and then nobody asks in which order the
/// body has them.
fn read(call: &Call<'_>) -> Result<(Value, Vec<FieldProblem>), Failure> {
    let resource = &call.resource;
    if let (None | Some("" | "application/json"), Ok(text)) =
        (call.incoming.content_type.as_deref(), std::str::from_utf8(&call.incoming.body))
        && let Ok((object, false)) = parse_value(text)
    {
        check_kind(resource, &object)?;
        if let Ok(problems) = typed::check_value(resource, &object)
            && problems.is_empty()
        {
            return Ok((object, problems));
        }
    }
    let document = document(call, &resource.kind)?;
    let object = document.to_value();
    check_kind(resource, &object)?;
    let mut problems = typed::check(resource, &document)?;
    if call.incoming.content_type.as_deref() == Some("application/yaml") {
        let repeated = crate::fields::repeated_keys(&String::from_utf8_lossy(&call.incoming.body));
        problems.splice(0..0, repeated.map(FieldProblem::Repeated));
    }
    Ok((object, problems))
}

/// Built-in kinds need not be named in the body; what is named must be right.
fn check_kind(resource: &Resource, object: &Value) -> Result<(), Failure> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let (expected_kind, expected_version) = (&resource.kind, resource.api_version());
    if resource.custom.is_some() {
        if api_version != expected_version {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({expected_version})"
            )));
        }
        if kind != *expected_kind {
            return Err(Failure::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {expected_kind}: strict decoding error: wrong kind",
                resource.version
            )));
        }
        return Ok(());
    }
    let version = &resource.version;
    let wrong = |detail: String| Err(Failure::bad_request(detail));
    match (kind.as_str(), api_version.as_str()) {
        ("", _) | (_, "") => Ok(()),
        (kind, api_version) if kind == expected_kind && api_version == expected_version => Ok(()),
        (kind, api_version) => {
            let (group, sent_version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
            if crate::schema::Schemas::builtin().kind(group, sent_version, kind).is_none() {
                return wrong(format!(
                    "{expected_kind} in version {version:?} cannot be handled as a {expected_kind}: no kind {kind:?} is registered \
                     for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
                ));
            }
            let package = if resource.group.is_empty() {
                "core"
            } else {
                resource.group.split('.').next().unwrap_or_default()
            };
            wrong(format!(
                "{kind} in version {sent_version:?} cannot be handled as a {expected_kind}: converting ({sent_version}.{kind}) to \
                 ({package}.{expected_kind}): unknown conversion"
            ))
        }
    }
}
