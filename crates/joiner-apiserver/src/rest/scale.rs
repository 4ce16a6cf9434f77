//! The subresource `scale`: replicas and nothing else.

use serde_json::{Map, Value, json};

use super::metadata::{keep_meta, meta_mut, meta_text};
use super::options::WriteOptions;
use super::patching::{Language, language, patch_value, patched};
use super::status::{Cause, Failure};
use super::{Answer, Call, Payload, UpdateContext, body, typed, update_object};
use crate::fields::MOST_NESTED;
use crate::resources::Resource;
use crate::schema::Schemas;
use crate::selector::format_selector;
use crate::store::Session;

/// `GET`, `PUT` and `PATCH` of a scale.
pub(crate) fn answer(call: &Call<'_>, verb: &str) -> Result<Answer, Failure> {
    let mut session = if verb == "get" { call.core.store.open() } else { call.core.open_to_change()? };
    let old = call.stored(&session)?;
    let resource = &call.resource;
    let scale = scale_of(resource, &old);
    let replicas_path = paths(resource).0;
    if verb != "get" && replicas_path.split('.').count() >= MOST_NESTED {
        let message = format!(
            "specReplicasPath of {} names more than {MOST_NESTED} fields: shorten it",
            resource.qualified()
        );
        return Err(Failure::bad_request(message));
    }
    if verb == "get" {
        if at(&old, &replicas_path).is_none() && resource.custom.is_some() {
            let problem = format!("the spec replicas field \".{replicas_path}\" does not exist");
            let details = json!({"causes": [{"message": problem}]});
            let message = format!("Internal error occurred: {problem}");
            return Err(Failure::new(500, "InternalError", message).with_details(details));
        }
        return Ok(Answer::new(200, Payload::Document(scale)));
    }
    let options = call.write_options(if verb == "patch" { "PatchOptions" } else { "UpdateOptions" })?;
    let wanted = if verb == "patch" {
        let language = language(call)?;
        if language == Language::Apply {
            return apply(call, &mut session, &old, &options);
        }
        patched(language, resource, scale, &patch_value(call)?)?
    } else {
        body::document(call, "Scale")?.to_value()
    };
    if let Some(ty) = Schemas::builtin().kind("autoscaling", "v1", "Scale") {
        typed::refuse_types(&crate::fields::check(ty, &wanted), "v1", "Scale")?;
    }
    let replicas = replicas_of(call, &wanted)?;
    let mut new = Value::clone(&old);
    set_at(&mut new, &replicas_path, replicas.into());
    let version = meta_text(&wanted, "resourceVersion").to_owned();
    if !version.is_empty() {
        meta_mut(&mut new).insert("resourceVersion".to_owned(), version.into());
    }
    let context = UpdateContext { options: &options, subresource: "scale", tracked: true };
    let stored = update_object(call.core, &mut session, resource, &old, new, &context)?;
    Ok(Answer::new(200, Payload::Document(scale_of(resource, &stored))))
}

/// The replicas of a scale, which are not below zero.
fn replicas_of(call: &Call<'_>, scale: &Value) -> Result<i64, Failure> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let detail = "must be greater than or equal to 0";
        let cause = Cause::invalid("spec.replicas", &replicas.into(), detail);
        return Err(Failure::invalid("autoscaling", "Scale", &call.name, &[cause]));
    }
    Ok(replicas)
}

/// Server-side apply of a scale: the applier owns the replicas of the object itself.
fn apply(
    call: &Call<'_>,
    session: &mut Session<'_>,
    old: &Value,
    options: &WriteOptions,
) -> Result<Answer, Failure> {
    let resource = &call.resource;
    let text = String::from_utf8_lossy(&call.incoming.body);
    let scale = body::yaml_document(&text)?.to_value();
    let of = |field: &str| scale.get(field).and_then(Value::as_str).unwrap_or_default();
    if of("apiVersion") != "autoscaling/v1" {
        return Err(Failure::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {}, expected: autoscaling/v1",
            of("apiVersion")
        )));
    }
    if of("kind") != "Scale" {
        return Err(Failure::bad_request(format!(
            "invalid object type: autoscaling/v1, Kind={}",
            of("kind")
        )));
    }
    let mut config = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
    if scale["spec"].get("replicas").is_some() {
        set_at(&mut config, &paths(resource).0, replicas_of(call, &scale)?.into());
    }
    let mut new = typed::applied(resource, Some(old), &config, options, "scale", &call.core.now())?;
    let version = meta_text(&scale, "resourceVersion");
    if !version.is_empty() {
        meta_mut(&mut new).insert("resourceVersion".to_owned(), version.into());
    }
    let context = UpdateContext { options, subresource: "scale", tracked: false };
    let stored = update_object(call.core, session, resource, old, new, &context)?;
    Ok(Answer::new(200, Payload::Document(scale_of(resource, &stored))))
}

/// Where the wanted replicas, the present ones and the selector are kept.
fn paths(resource: &Resource) -> (String, String, Option<String>) {
    match resource.custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
        Some(scale) => scale.clone(),
        None => ("spec.replicas".to_owned(), "status.replicas".to_owned(), None),
    }
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |place, part| place.get(part))
}

fn set_at(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[part];
    }
    *place = value;
}

fn scale_of(resource: &Resource, object: &Value) -> Value {
    let (wanted, present, selector_path) = paths(resource);
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        keep_meta(&mut scale, object, field);
    }
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or(0);
    scale["spec"] = match number(&wanted) {
        0 => json!({}),
        replicas => json!({"replicas": replicas}),
    };
    let selector = match selector_path {
        Some(path) => at(object, &path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        None if resource.custom.is_some() => String::new(),
        // A replication controller selects by plain labels.
        None if resource.is("", "replicationcontrollers") => {
            format_selector(Some(&json!({"matchLabels": object["spec"]["selector"]})))
        }
        None => format_selector(object["spec"].get("selector")),
    };
    scale["status"] = json!({"replicas": number(&present)});
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    scale
}
