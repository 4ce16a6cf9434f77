//! Create.

use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata::{meta_text, set_meta};
use super::options::WriteOptions;
use super::status::{Cause, Failure};
use super::{Answer, Call, Core, body, definitions, render, typed};
use crate::resources::Resource;
use crate::store::{Session, Stored};
use crate::{admission, validation};

/// `POST` to a collection.
pub(crate) fn create(call: &Call<'_>) -> Result<Answer, Failure> {
    let options = call.write_options("CreateOptions")?;
    let decoded = body::decode(call, options.validation)?;
    let stored = create_new(call.core, &call.resource, &call.namespace, decoded.object, &options)?;
    let mut answer = render::object(call, 201, &stored);
    answer.warnings = decoded.warnings;
    Ok(answer)
}

/// Creates an object whose body was read and checked.
pub(crate) fn create_new(
    core: &Core,
    resource: &Arc<Resource>,
    namespace: &str,
    object: Value,
    options: &WriteOptions,
) -> Result<Stored, Failure> {
    let mut session = core.store.open();
    let stored = create_object(core, &mut session, resource, namespace, object, options, true)?;
    core.settle(&mut session);
    Ok(stored)
}

/// Creates an object. `tracked`: the fields go to the manager as those of an update; an apply has tracked them itself.
pub(crate) fn create_object(
    core: &Core,
    session: &mut Session<'_>,
    resource: &Arc<Resource>,
    namespace: &str,
    mut object: Value,
    options: &WriteOptions,
    tracked: bool,
) -> Result<Stored, Failure> {
    let given = meta_text(&object, "namespace");
    if !given.is_empty() && given != namespace {
        let message = if resource.namespaced {
            "the namespace of the provided object does not match the namespace sent on the request"
        } else {
            "namespace may not be set on a cluster-scoped object"
        };
        return Err(Failure::bad_request(message));
    }
    set_meta(&mut object, "namespace", resource.namespaced.then(|| namespace.into()));
    if !meta_text(&object, "resourceVersion").is_empty() {
        return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
    }
    set_meta(&mut object, "resourceVersion", None);
    admission::namespace_of_new(session, resource, namespace, &object)?;

    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_meta(&mut object, field, None);
    }
    if meta_text(&object, "name").is_empty() {
        let prefix = meta_text(&object, "generateName").to_owned();
        if prefix.is_empty() {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            return Err(Failure::invalid(&resource.group, &resource.kind, "", &[cause]));
        }
        set_meta(&mut object, "name", Some(core.chance.name(&prefix).into()));
    }
    let name = meta_text(&object, "name").to_owned();
    set_meta(&mut object, "uid", Some(core.chance.uid().into()));
    set_meta(&mut object, "creationTimestamp", Some(core.now().into()));
    if resource.has_generation() {
        set_meta(&mut object, "generation", Some(json!(1)));
    }
    prepare(resource, &mut object);
    typed::default(resource, &mut object);
    admission::on_create(core, session, resource, &mut object)?;
    if tracked {
        typed::track(resource, None, &mut object, options, "", &core.now());
    }
    let causes = validation::on_create(resource, &object);
    if !causes.is_empty() {
        return Err(Failure::invalid(&resource.group, &resource.kind, &name, &causes));
    }
    if session.get(&resource.stored_as, namespace, &name).is_some() {
        return Err(Failure::already_exists(resource, &name));
    }
    if options.dry_run {
        return Ok(Stored::shown(&resource.stored_as, object));
    }
    let stored = session.put(&resource.stored_as, namespace, &name, object);
    definitions::after_write(core, session, resource, &stored);
    Ok(stored)
}

/// What creation does to the status: nobody but its owner writes it.
fn prepare(resource: &Resource, object: &mut Value) {
    let keeps_status = resource.is("", "nodes") || !resource.has_status();
    if !keeps_status && let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
}
