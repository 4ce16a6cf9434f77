//! Create.

use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata::{meta_text, set_meta};
use super::options::WriteOptions;
use super::status::{Cause, Failure};
use super::{Answer, Call, Core, body, definitions, render, typed};
use crate::admission::services::{self, Given};
use crate::resources::Resource;
use crate::store::{Draft, Session, Stored};
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

/// Creates an object whose body was read and checked. Others wait only while it is looked around in the store and put there, as
/// on a real server; the long work between is done aside.
pub(crate) fn create_new(
    core: &Core,
    resource: &Arc<Resource>,
    namespace: &str,
    object: Value,
    options: &WriteOptions,
) -> Result<Stored, Failure> {
    if resource.is("", "services") {
        // What one is given nobody else may be given before it is written.
        let mut session = core.store.open();
        let stored = create_object(core, &mut session, resource, namespace, object, options, true)?;
        core.settle(&mut session);
        return Ok(stored);
    }
    let mut new = New { core, resource, namespace, object, given: None };
    new.enter(&core.store.open())?;
    new.complete()?;
    new.admit(&core.store.open())?;
    let new = new.finish(options, true)?;
    let mut session = core.store.open();
    // The namespace may have begun to end meanwhile.
    admission::namespace_of_new(&session, resource, namespace, new.draft.value())?;
    let stored = new.put(core, &mut session, options)?;
    core.settle(&mut session);
    Ok(stored)
}

/// Creates an object in one step with what else the session does. `tracked`: the fields go to the manager as those of an update; an
/// apply has tracked them itself.
pub(crate) fn create_object(
    core: &Core,
    session: &mut Session<'_>,
    resource: &Arc<Resource>,
    namespace: &str,
    object: Value,
    options: &WriteOptions,
    tracked: bool,
) -> Result<Stored, Failure> {
    let mut new = New { core, resource, namespace, object, given: None };
    new.enter(session)?;
    new.complete()?;
    new.admit(session)?;
    new.finish(options, tracked)?.put(core, session, options)
}

/// An object on its way into the store.
struct New<'a> {
    core: &'a Core,
    resource: &'a Arc<Resource>,
    namespace: &'a str,
    object: Value,
    given: Option<Given>,
}

impl<'a> New<'a> {
    /// It comes to the right place.
    fn enter(&mut self, session: &Session<'_>) -> Result<(), Failure> {
        let Self { resource, namespace, object, .. } = self;
        let given = meta_text(object, "namespace");
        if !given.is_empty() && given != *namespace {
            let message = if resource.namespaced {
                "the namespace of the provided object does not match the namespace sent on the request"
            } else {
                "namespace may not be set on a cluster-scoped object"
            };
            return Err(Failure::bad_request(message));
        }
        set_meta(object, "namespace", resource.namespaced.then(|| (*namespace).into()));
        if !meta_text(object, "resourceVersion").is_empty() {
            return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
        }
        set_meta(object, "resourceVersion", None);
        admission::namespace_of_new(session, resource, namespace, object)
    }

    /// It gets its identity and its defaults.
    fn complete(&mut self) -> Result<(), Failure> {
        let Self { core, resource, object, .. } = self;
        for field in
            ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
        {
            set_meta(object, field, None);
        }
        if meta_text(object, "name").is_empty() {
            let prefix = meta_text(object, "generateName").to_owned();
            if prefix.is_empty() {
                let cause = Cause::required("metadata.name", "name or generateName is required");
                return Err(Failure::invalid(&resource.group, &resource.kind, "", &[cause]));
            }
            set_meta(object, "name", Some(core.chance.name(&prefix).into()));
        }
        set_meta(object, "uid", Some(core.chance.uid().into()));
        set_meta(object, "creationTimestamp", Some(core.now().into()));
        if resource.has_generation() {
            set_meta(object, "generation", Some(json!(1)));
        }
        prepare(resource, object);
        typed::default_new(resource, object);
        Ok(())
    }

    /// The cluster adds its own, or refuses.
    fn admit(&mut self, session: &Session<'_>) -> Result<(), Failure> {
        admission::on_create(self.core, session, self.resource, &mut self.object)?;
        if self.resource.is("", "services") {
            self.given = Some(services::on_create(self.core, session, self.resource, &self.object)?);
        }
        Ok(())
    }

    /// Its fields get their owner and are checked, and it is written.
    fn finish(self, options: &WriteOptions, tracked: bool) -> Result<Finished<'a>, Failure> {
        let Self { core, resource, namespace, mut object, given } = self;
        let record =
            if tracked { typed::track_new(resource, &mut object, options, &core.now()) } else { None };
        if let Some(given) = given {
            given.put_into(&mut object);
        }
        let name = meta_text(&object, "name").to_owned();
        let causes = validation::on_create(resource, &object);
        if !causes.is_empty() {
            return Err(Failure::invalid(&resource.group, &resource.kind, &name, &causes));
        }
        let draft = Draft::with_record(&resource.stored_as, object, record);
        Ok(Finished { resource, namespace, name, draft })
    }
}

/// A new object, ready to be put into the store.
struct Finished<'a> {
    resource: &'a Arc<Resource>,
    namespace: &'a str,
    name: String,
    draft: Draft,
}

impl Finished<'_> {
    fn put(self, core: &Core, session: &mut Session<'_>, options: &WriteOptions) -> Result<Stored, Failure> {
        let Self { resource, namespace, name, draft } = self;
        if session.get(&resource.stored_as, namespace, &name).is_some() {
            return Err(Failure::already_exists(resource, &name));
        }
        if options.dry_run {
            return Ok(Stored::shown(&resource.stored_as, draft.into_value()));
        }
        let stored = session.put_draft(&resource.stored_as, namespace, &name, draft);
        definitions::after_write(core, session, resource, &stored);
        Ok(stored)
    }
}

/// What creation does to the status: nobody but its owner writes it.
fn prepare(resource: &Resource, object: &mut Value) {
    let keeps_status = resource.is("", "nodes") || !resource.has_status();
    if !keeps_status && let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
}
