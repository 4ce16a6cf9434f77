//! Patch, in its four languages.

use serde_json::{Value, json};

use super::body::yaml_document;
use super::metadata::{map_of, meta_text, set_meta};
use super::options::{FieldValidation, WriteOptions};
use super::status::{Cause, Failure};
use super::update::check_place;
use super::{Answer, Call, Target, UpdateContext, create, events, go_json, render, typed, update_object};
use crate::patch::{self, PatchError};
use crate::protobuf;
use crate::resources::Resource;
use crate::store::Stored;

/// The content type of server-side apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// The language of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// A list of operations.
    Json,
    /// What changes, with nulls for what goes.
    Merge,
    /// The same, with lists merged as their type says. Not for custom resources.
    Strategic,
    /// Server-side apply.
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
    crate::fields::parse_value(&text)
        .map(|(patch, _)| patch)
        .map_err(|_| Failure::bad_request(format!("error decoding patch: {}", go_json::complaint(&text))))
}

/// Carries a patch out on a document of a kind.
pub(crate) fn patched(
    language: Language,
    resource: &Resource,
    document: Value,
    patch: &Value,
) -> Result<Value, Failure> {
    match language {
        Language::Json => Ok(patch::json(&document, patch)?),
        Language::Merge => {
            patch::check_merge(patch)?;
            Ok(patch::merge(document, patch))
        }
        Language::Strategic | Language::Apply => match typed::type_of(resource) {
            Some(ty) => Ok(patch::strategic(ty, &document, patch)?),
            None => Ok(patch::merge(document, patch)),
        },
    }
}

/// `PATCH` of an object or of a subresource of the same kind.
pub(crate) fn patch(call: &Call<'_>) -> Result<Answer, Failure> {
    let language = language(call)?;
    let options = call.write_options("PatchOptions")?;
    let mut warnings = Vec::new();
    let patch = if language == Language::Apply {
        if call.query().get("fieldManager").is_none() {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(Failure::invalid_option("PatchOptions", cause));
        }
        let text = String::from_utf8_lossy(&call.incoming.body);
        let config = yaml_document(&text)?.to_value();
        warnings.extend(judge_repeated(&text, options.validation)?);
        config
    } else {
        patch_value(call)?
    };
    let (code, stored, more) = patch_object(&call.target(), language, patch, &options)?;
    warnings.extend(more);
    let mut answer = render::object(call, code, &stored);
    answer.warnings = warnings;
    Ok(answer)
}

/// What is said of keys that a text in YAML has more than once.
fn judge_repeated(text: &str, validation: FieldValidation) -> Result<Option<String>, Failure> {
    let Some(repeated) = crate::fields::repeated_keys(text) else { return Ok(None) };
    match validation {
        FieldValidation::Ignore => Ok(None),
        FieldValidation::Warn => Ok(Some(repeated)),
        FieldValidation::Strict => {
            let message = format!("error strict decoding YAML: error converting YAML to JSON: {repeated}");
            Err(Failure::bad_request(message))
        }
    }
}

/// Carries out a patch that was read. Says with which status it is answered, and what is to be warned of.
pub(crate) fn patch_object(
    target: &Target<'_>,
    language: Language,
    patch: Value,
    options: &WriteOptions,
) -> Result<(u16, Stored, Vec<String>), Failure> {
    if language == Language::Apply {
        return apply(target, &patch, options);
    }
    let Target { core, resource, subresource, .. } = *target;
    let mut session = core.open_to_change()?;
    let old = target.stored(&session)?;
    let shown = render::to_patch(resource, &old);
    let mut new = patched(language, resource, shown, &patch)?;
    let problems = typed::check_value(resource, &new)?;
    if options.validation == FieldValidation::Strict
        && let Some(message) = crate::fields::strict_error(&problems)
    {
        return Err(refuse_strictly(language, resource, &patch, &new, &message));
    }
    let warnings = typed::judge(resource, problems, options.validation)?;
    new = typed::clean(resource, new);
    if events::is_other_face(resource) {
        new["apiVersion"] = resource.api_version().into();
        new["kind"] = resource.kind.clone().into();
    } else {
        for field in ["apiVersion", "kind"] {
            new[field] = old[field].clone();
        }
    }
    check_place(target, &mut new)?;
    check_uid(resource, &old, &new)?;
    let context = UpdateContext { options, subresource, tracked: true };
    let stored = update_object(core, &mut session, resource, &old, new, &context)?;
    core.settle(&mut session);
    Ok((200, stored, warnings))
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
fn check_kind_of_config(resource: &Resource, config: &Value) -> Result<(), Failure> {
    let text = |field: &str| config.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version == resource.api_version() && kind != resource.kind {
        let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        return Err(Failure::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    Ok(())
}

/// An apply that creates must name its object, and cannot mean one that was there before.
fn check_identity_of_new(target: &Target<'_>, applied: &mut Value) -> Result<(), Failure> {
    if meta_text(applied, "name").is_empty() {
        return Err(Failure::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    let uid = meta_text(applied, "uid");
    if !uid.is_empty() {
        let detail = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Failure::conflict(target.resource, target.name, &detail));
    }
    set_meta(applied, "resourceVersion", None);
    Ok(())
}

/// Server-side apply.
fn apply(
    target: &Target<'_>,
    config: &Value,
    options: &WriteOptions,
) -> Result<(u16, Stored, Vec<String>), Failure> {
    let Target { core, resource, namespace, name, subresource } = *target;
    let mut session = core.open_to_change()?;
    let old = session.get(&resource.stored_as, namespace, name);
    if old.is_none() && !subresource.is_empty() {
        return Err(Failure::not_found(resource, name));
    }
    check_kind_of_config(resource, config)?;
    if let (Some(old), version) = (&old, meta_text(config, "resourceVersion"))
        && !version.is_empty()
        && version != meta_text(old, "resourceVersion")
    {
        return Err(Failure::modified(resource, name));
    }
    let other_face = old.as_ref().filter(|_| events::is_other_face(resource));
    let other_face = other_face.map(|old| render::in_version(resource, old));
    let live = other_face.as_ref().or(old.as_deref());
    let mut applied = typed::applied(resource, live, config, options, subresource, &core.now())?;
    if old.is_none() {
        check_identity_of_new(target, &mut applied)?;
    }
    check_place(target, &mut applied)?;
    let problems = typed::check_value(resource, &applied)?;
    let warnings = typed::judge(resource, problems, options.validation)?;
    let applied = typed::clean(resource, applied);
    let (code, stored) = match old {
        None => {
            (201, create::create_object(core, &mut session, resource, namespace, applied, options, false)?)
        }
        Some(old) => {
            let context = UpdateContext { options, subresource, tracked: false };
            (200, update_object(core, &mut session, resource, &old, applied, &context)?)
        }
    };
    core.settle(&mut session);
    Ok((code, stored, warnings))
}
