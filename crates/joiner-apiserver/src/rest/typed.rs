//! What the type of a kind says about an object: which fields it has, what they are when nobody sets them, who owns them.
//!
//! Built-in kinds have their types from the published OpenAPI, custom ones from their definitions; this is the one place that knows
//! the difference.

use serde_json::{Value, json};

use super::options::{FieldValidation, WriteOptions};
use super::status::Failure;
use crate::crd::Structural;
use crate::fields::{self, Document, FieldProblem};
use crate::resources::Resource;
use crate::schema::{Schemas, TypeRef};
use crate::{apply, defaults};

/// The type of a resource's objects.
pub(crate) fn type_of(resource: &Resource) -> Option<TypeRef<'_>> {
    match &resource.custom {
        Some(custom) => custom.schema().map(Structural::type_ref),
        None => Schemas::builtin().kind(&resource.group, &resource.version, &resource.kind),
    }
}

/// Problems of a body. A value of the wrong type refuses it.
pub(crate) fn check(resource: &Resource, document: &Document) -> Result<Vec<FieldProblem>, Failure> {
    let Some(ty) = type_of(resource) else { return Ok(Vec::new()) };
    if let Some(schema) = resource.custom.as_ref().and_then(|custom| custom.schema()) {
        // Values of the wrong type are the business of validation, which says more about them.
        let mut problems = fields::check(ty, document);
        problems.retain(|problem| matches!(problem, FieldProblem::Duplicate(_)));
        problems.extend(schema.prune(&mut document.to_value()).into_iter().map(FieldProblem::Unknown));
        return Ok(problems);
    }
    let problems = fields::check(ty, document);
    refuse_types(&problems, &resource.version, &resource.kind)?;
    Ok(problems)
}

/// Problems of an object that was put together here.
pub(crate) fn check_value(resource: &Resource, object: &Value) -> Result<Vec<FieldProblem>, Failure> {
    let Some(ty) = type_of(resource) else { return Ok(Vec::new()) };
    if let Some(schema) = resource.custom.as_ref().and_then(|custom| custom.schema()) {
        let unknown = schema.undeclared(object);
        return Ok(unknown.into_iter().map(FieldProblem::Unknown).collect());
    }
    let problems = fields::check(ty, object);
    refuse_types(&problems, &resource.version, &resource.kind)?;
    Ok(problems)
}

/// Values of the wrong type refuse a body of a kind.
pub(crate) fn refuse_types(problems: &[FieldProblem], version: &str, kind: &str) -> Result<(), Failure> {
    match problems.iter().find(|problem| !problem.is_strict()) {
        Some(problem) => Err(Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {problem}"
        ))),
        None => Ok(()),
    }
}

/// Fields nobody knows: refused, reported or passed over. Returns the warnings.
pub(crate) fn judge(
    resource: &Resource,
    problems: Vec<FieldProblem>,
    validation: FieldValidation,
) -> Result<Vec<String>, Failure> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(problems.iter().map(ToString::to_string).collect()),
        FieldValidation::Strict => match fields::strict_error(&problems) {
            Some(message) => {
                let Resource { kind, version, .. } = resource;
                Err(Failure::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {message}"
                )))
            }
            None => Ok(Vec::new()),
        },
    }
}

/// Drops what nobody knows and brings the rest into its canonical form.
pub(crate) fn clean(resource: &Resource, mut object: Value) -> Value {
    if let Some(schema) = resource.custom.as_ref().and_then(|custom| custom.schema()) {
        schema.prune(&mut object);
        let metadata = Schemas::builtin().definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        if let (Some(ty), Some(metadata)) = (metadata, object.get_mut("metadata")) {
            fields::normalize(ty, metadata);
        }
    } else if let Some(ty) = type_of(resource) {
        let emptied = defaults::emptied(&resource.group, &resource.kind, &object);
        fields::normalize(ty, &mut object);
        defaults::empty(&mut object, &emptied);
    }
    object
}

/// Fills in what nobody set.
pub(crate) fn default(resource: &Resource, object: &mut Value) {
    if let Some(schema) = resource.custom.as_ref().and_then(|custom| custom.schema()) {
        schema.default(object);
        return;
    }
    defaults::apply(&resource.group, &resource.version, &resource.kind, object);
    if let Some(ty) = type_of(resource) {
        fields::normalize(ty, object);
    }
}

/// As [`default`], of a new object that is in its canonical form. What pods are filled with is canonical too, and their status
/// comes later, so that these, of which there are most, need not be gone through again.
pub(crate) fn default_new(resource: &Resource, object: &mut Value) {
    if resource.is("", "pods") {
        defaults::apply(&resource.group, &resource.version, &resource.kind, object);
    } else {
        default(resource, object);
    }
}

/// Writes down who owns the fields that differ.
pub(crate) fn track(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    options: &WriteOptions,
    subresource: &str,
    now: &str,
) {
    let ty = type_of(resource);
    apply::track_update(ty, old, new, &options.manager, "Update", &resource.api_version(), subresource, now);
}

/// Writes down that all fields of a new object are its creator's. Where the result is a text, the object is still without it.
pub(crate) fn track_new(
    resource: &Resource,
    new: &mut Value,
    options: &WriteOptions,
    now: &str,
) -> Option<Vec<u8>> {
    apply::track_creation(type_of(resource), new, &options.manager, &resource.api_version(), now)
}

/// Server-side apply: what the object becomes.
pub(crate) fn applied(
    resource: &Resource,
    live: Option<&Value>,
    config: &Value,
    options: &WriteOptions,
    subresource: &str,
    now: &str,
) -> Result<Value, Failure> {
    let (manager, version) = (&options.manager, resource.api_version());
    apply::apply(type_of(resource), live, config, manager, &version, subresource, options.force, now).map_err(
        |error| {
            let failure = Failure::new(error.status, error.reason, error.message);
            if error.causes.is_empty() {
                return failure;
            }
            let causes: Vec<Value> = error
                .causes
                .iter()
                .map(|cause| json!({"reason": cause.reason, "message": cause.message, "field": cause.field}))
                .collect();
            failure.with_details(json!({"causes": causes}))
        },
    )
}
