//! Patch, in its four languages.

use serde_json::{Value, json};

use super::body::yaml_document;
use super::metadata::{map_of, meta_text, set_meta};
use super::options::{FieldValidation, WriteOptions};
use super::status::{Cause, Failure};
use super::update::check_place;
use super::{Answer, Call, UpdateContext, create, go_json, render, typed, update_object};
use crate::patch::{self, PatchError};
use crate::protobuf;
use crate::resources::Resource;

/// The content type of server-side apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// The language of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// The language that the content type names.
pub(crate) fn language(call: &Call<'_>) -> Result<Language, Failure> {
    let custom = call.resource.custom.is_some();
    match call.incoming.content_type.as_deref() {
        Some("application/json-patch+json") => Ok(Language::Json),
        Some("application/merge-patch+json") => Ok(Language::Merge),
        Some("application/strategic-merge-patch+json") if !custom => Ok(Language::Strategic),
        Some(APPLY) => Ok(Language::Apply),
        Some("application/strategic-merge-patch+json") => {
            let message = "the body of the request was in an unknown format - accepted media types include: \
                application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            Err(Failure::new(415, "UnsupportedMediaType", message))
        }
        _ => {
            let failure = Failure::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            Err(failure.with_details(json!({})))
        }
    }
}

impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        let failure = Failure::new(error.status, error.reason, error.message);
        if error.status == 422 { failure.with_details(json!({})) } else { failure }
    }
}

/// The patch as a value.
pub(crate) fn patch_value(call: &Call<'_>) -> Result<Value, Failure> {
    let text = String::from_utf8_lossy(&call.incoming.body);
    serde_json::from_str(&text)
        .map_err(|_| Failure::bad_request(format!("error decoding patch: {}", go_json::complaint(&text))))
}

/// Carries a patch out on a document of a kind.
pub(crate) fn patched(
    language: Language,
    resource: &Resource,
    document: &Value,
    patch: &Value,
) -> Result<Value, Failure> {
    match language {
        Language::Json => Ok(patch::json(document, patch)?),
        Language::Merge => {
            patch::check_merge(patch)?;
            Ok(patch::merge(document, patch))
        }
        Language::Strategic | Language::Apply => match typed::type_of(resource) {
            Some(ty) => Ok(patch::strategic(ty, document, patch)?),
            None => Ok(patch::merge(document, patch)),
        },
    }
}

/// `PATCH` of an object or of a subresource of the same kind.
pub(crate) fn patch(call: &Call<'_>) -> Result<Answer, Failure> {
    let language = language(call)?;
    let options = call.write_options("PatchOptions")?;
    if language == Language::Apply {
        return apply(call, &options);
    }
    let patch = patch_value(call)?;
    let mut session = call.core.store.open();
    let old = call.stored(&session)?;
    let resource = &call.resource;
    let shown = render::in_version(resource, &old);
    let mut new = patched(language, resource, &shown, &patch)?;
    let problems = typed::check_value(resource, &new)?;
    if options.validation == FieldValidation::Strict
        && let Some(message) = crate::fields::strict_error(&problems)
    {
        return Err(refuse_strictly(language, resource, &patch, &new, &message));
    }
    let warnings = typed::judge(resource, problems, options.validation)?;
    new = typed::clean(resource, new);
    if resource.is("events.k8s.io", "events") {
        new = super::events::to_involved(new);
    }
    for field in ["apiVersion", "kind"] {
        new[field] = old[field].clone();
    }
    check_place(call, &mut new)?;
    check_uid(resource, &old, &new)?;
    let subresource = call.subresource.as_deref().unwrap_or_default();
    let context = UpdateContext { options: &options, subresource, tracked: true };
    let stored = update_object(call.core, &mut session, resource, &old, new, &context)?;
    call.core.settle(&mut session);
    let mut answer = render::object(call, 200, &stored);
    answer.warnings = warnings;
    Ok(answer)
}

/// The uid of a body is a precondition, that of a patched object a change. Both the common rules and those of the kind refuse it.
fn check_uid(resource: &Resource, old: &Value, new: &Value) -> Result<(), Failure> {
    let uid = meta_text(new, "uid");
    if uid.is_empty() || uid == meta_text(old, "uid") {
        return Ok(());
    }
    let cause = Cause::invalid("metadata.uid", &uid.into(), "field is immutable");
    let name = meta_text(old, "name");
    Err(Failure::invalid(&resource.group, &resource.kind, name, &[cause.clone(), cause]))
}

/// Fields nobody knows refuse a strict patch. Of a strategic one the patch is shown, of the others what came of it.
fn refuse_strictly(
    language: Language,
    resource: &Resource,
    patch: &Value,
    patched: &Value,
    message: &str,
) -> Failure {
    let shown = match language {
        Language::Strategic => patch::go_print::go_print(patch),
        Language::Merge => protobuf::written(&resource.api_version(), &resource.kind, patched, patch),
        Language::Json | Language::Apply => {
            protobuf::written(&resource.api_version(), &resource.kind, patched, &reached_by(patch))
        }
    };
    Failure::invalid("", "", "", &[Cause::invalid("patch", &shown.into(), message)])
}

/// The objects into which the operations of a JSON patch reach.
fn reached_by(operations: &Value) -> Value {
    let mut reached = json!({});
    for operation in operations.as_array().into_iter().flatten() {
        for field in ["path", "from"] {
            let path = operation[field].as_str().unwrap_or_default().trim_start_matches('/');
            let parts: Vec<String> =
                path.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
            let mut place = &mut reached;
            for part in &parts[..parts.len() - 1] {
                place = map_of(place).entry(part.as_str()).or_insert_with(|| json!({}));
            }
        }
    }
    reached
}

/// A configuration says what it is, and it must be what the path says.
fn check_kind_of_config(call: &Call<'_>, config: &Value) -> Result<(), Failure> {
    let resource = &call.resource;
    let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version == resource.api_version() && kind != resource.kind {
        let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        return Err(Failure::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    Ok(())
}

/// An apply that creates must name its object, and cannot mean one that was there before.
fn check_identity_of_new(call: &Call<'_>, applied: &mut Value) -> Result<(), Failure> {
    if meta_text(applied, "name").is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name
        )));
    }
    let uid = meta_text(applied, "uid");
    if !uid.is_empty() {
        let detail = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Failure::conflict(&call.resource, &call.name, &detail));
    }
    set_meta(applied, "resourceVersion", None);
    Ok(())
}

/// Server-side apply.
fn apply(call: &Call<'_>, options: &WriteOptions) -> Result<Answer, Failure> {
    let resource = &call.resource;
    let text = String::from_utf8_lossy(&call.incoming.body);
    let config = yaml_document(&text)?.to_value();
    let mut warnings = Vec::new();
    if let Some(repeated) = crate::fields::repeated_keys(&text) {
        match options.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.push(repeated),
            FieldValidation::Strict => {
                let message =
                    format!("error strict decoding YAML: error converting YAML to JSON: {repeated}");
                return Err(Failure::bad_request(message));
            }
        }
    }
    let mut session = call.core.store.open();
    let old = session.get(&resource.stored_as, &call.namespace, &call.name);
    let subresource = call.subresource.as_deref().unwrap_or_default();
    if old.is_none() && !subresource.is_empty() {
        return Err(Failure::not_found(resource, &call.name));
    }
    check_kind_of_config(call, &config)?;
    if let (Some(old), version) = (&old, meta_text(&config, "resourceVersion"))
        && !version.is_empty()
        && version != meta_text(old, "resourceVersion")
    {
        return Err(Failure::modified(resource, &call.name));
    }
    let mut applied =
        typed::applied(resource, old.as_deref(), &config, options, subresource, &call.core.now())?;
    if old.is_none() {
        check_identity_of_new(call, &mut applied)?;
    }
    check_place(call, &mut applied)?;
    let problems = typed::check_value(resource, &applied)?;
    warnings.extend(typed::judge(resource, problems, options.validation)?);
    let applied = typed::clean(resource, applied);
    let (code, stored) = match old {
        None => {
            let namespace = &call.namespace;
            (
                201,
                create::create_object(call.core, &mut session, resource, namespace, applied, options, false)?,
            )
        }
        Some(old) => {
            let context = UpdateContext { options, subresource, tracked: false };
            (200, update_object(call.core, &mut session, resource, &old, applied, &context)?)
        }
    };
    call.core.settle(&mut session);
    let mut answer = render::object(call, code, &stored);
    answer.warnings = warnings;
    Ok(answer)
}
