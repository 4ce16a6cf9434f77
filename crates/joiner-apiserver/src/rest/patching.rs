//! Patch, in its four languages.

use serde_json::Value;

use super::body::yaml_document;
use super::metadata::meta_text;
use super::options::{FieldValidation, WriteOptions};
use super::status::{Cause, Failure};
use super::update::check_place;
use super::{Answer, Call, Target, UpdateContext, create, go_json, render, typed, update_object};
use crate::patch::{self, PatchError};
use crate::resources::Resource;
use crate::store::Stored;

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
        Some("application/apply-patch+yaml") => Ok(Language::Apply),
        Some("application/strategic-merge-patch+json") => {
            let message = "the body of the request was in an unknown format - accepted media types include: \
                application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            Err(Failure::new(415, "UnsupportedMediaType", message))
        }
        _ => {
            let failure = Failure::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            Err(failure.with_details(serde_json::json!({})))
        }
    }
}

impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        let failure = Failure::new(error.status, error.reason, error.message);
        if error.status == 422 { failure.with_details(serde_json::json!({})) } else { failure }
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
    let patch = if language == Language::Apply {
        if call.query().get("fieldManager").is_none() {
            let cause = Cause::required("fieldManager", "is required for apply patch");
            return Err(Failure::invalid_option("PatchOptions", cause));
        }
        yaml_document(&String::from_utf8_lossy(&call.incoming.body))?.to_value()
    } else {
        patch_value(call)?
    };
    let (code, stored, warnings) = patch_object(&call.target(), language, patch, &options)?;
    let mut answer = render::object(call, code, &stored);
    answer.warnings = warnings;
    Ok(answer)
}

/// Carries out a patch that was read. Says with which status it is answered, and what is to be warned of.
pub(crate) fn patch_object(
    target: &Target<'_>,
    language: Language,
    patch: Value,
    options: &WriteOptions,
) -> Result<(u16, Stored, Vec<String>), Failure> {
    if language == Language::Apply {
        return apply(target, patch, options);
    }
    let Target { core, resource, name, subresource, .. } = *target;
    let mut session = core.store.open();
    let old = target.stored(&session)?;
    let shown = render::in_version(resource, &old);
    let mut new = patched(language, resource, &shown, &patch)?;
    let problems = typed::check_value(resource, &new)?;
    let warnings = judge_patch(resource, name, problems, options.validation)?;
    new = typed::clean(resource, new);
    if resource.is("events.k8s.io", "events") {
        new = super::events::to_involved(new);
    }
    for field in ["apiVersion", "kind"] {
        new[field] = old[field].clone();
    }
    check_place(target, &mut new)?;
    let context = UpdateContext { options, subresource, tracked: true };
    let stored = update_object(core, &mut session, resource, &old, new, &context)?;
    core.settle(&mut session);
    Ok((200, stored, warnings))
}

/// Fields nobody knows refuse a strict patch with another status than a strict body.
fn judge_patch(
    resource: &Resource,
    name: &str,
    problems: Vec<crate::fields::FieldProblem>,
    validation: FieldValidation,
) -> Result<Vec<String>, Failure> {
    match crate::fields::strict_error(&problems) {
        Some(message) if validation == FieldValidation::Strict => {
            let cause = Cause::invalid("patch", &Value::Null, &message);
            let cause = Cause { message: cause.message.replacen("null", "<patch>", 1), ..cause };
            Err(Failure::invalid(&resource.group, &resource.kind, name, &[cause]))
        }
        _ => typed::judge(resource, problems, validation),
    }
}

/// Server-side apply.
fn apply(
    target: &Target<'_>,
    mut config: Value,
    options: &WriteOptions,
) -> Result<(u16, Stored, Vec<String>), Failure> {
    let Target { core, resource, namespace, name, subresource } = *target;
    check_place(target, &mut config)?;
    let mut session = core.store.open();
    let old = session.get(&resource.stored_as, namespace, name);
    if old.is_none() && !subresource.is_empty() {
        return Err(Failure::not_found(resource, name));
    }
    if let (Some(old), version) = (&old, meta_text(&config, "resourceVersion"))
        && !version.is_empty()
        && version != meta_text(old, "resourceVersion")
    {
        return Err(Failure::modified(resource, name));
    }
    let applied = typed::applied(resource, old.as_deref(), &config, options, subresource, &core.now())?;
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
