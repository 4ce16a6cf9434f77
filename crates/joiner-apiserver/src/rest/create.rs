//! Create.

use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata::{meta_mut, meta_text, set_meta};
use super::options::WriteOptions;
use super::status::{Cause, Failure};
use super::{Answer, Call, Core, body, definitions, events, render, typed};
use crate::admission::Around;
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
        let mut session = core.open_to_change()?;
        let stored = create_object(core, &mut session, resource, namespace, object, options, true)?;
        core.settle(&mut session);
        return Ok(stored);
    }
    let mut new = New { core, resource, namespace, object, record: None, given: None };
    new.enter(&core.store.open())?;
    new.complete()?;
    new.track(options);
    let around = Around::look(&core.store.open(), resource, &new.object);
    new.admit(&around)?;
    let new = new.finish(&around)?;
    let mut session = core.open_to_change()?;
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
    let mut new = New { core, resource, namespace, object, record: None, given: None };
    new.enter(session)?;
    new.complete()?;
    if tracked {
        new.track(options);
    }
    let around = Around::look(session, resource, &new.object);
    new.admit(&around)?;
    if resource.is("", "services") {
        new.given = Some(services::on_create(core, session, resource, &new.object)?);
    }
    new.finish(&around)?.put(core, session, options)
}

/// An object on its way into the store.
struct New<'a> {
    core: &'a Core,
    resource: &'a Arc<Resource>,
    namespace: &'a str,
    object: Value,
    /// The text of its `metadata.managedFields`, where these are not in it.
    record: Option<Vec<u8>>,
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
        let metadata = meta_mut(object);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.remove(field);
        }
        let text = |field: &str| metadata.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() {
            let prefix = text("generateName");
            if prefix.is_empty() {
                let cause = Cause::required("metadata.name", "name or generateName is required");
                return Err(Failure::invalid(&resource.group, &resource.kind, "", &[cause]));
            }
            let name = core.chance.name(prefix);
            metadata.insert("name".to_owned(), name.into());
        }
        metadata.insert("uid".to_owned(), core.chance.uid().into());
        metadata.insert("creationTimestamp".to_owned(), core.now().into());
        if resource.has_generation() {
            metadata.insert("generation".to_owned(), json!(1));
        }
        prepare(resource, object);
        typed::default_new(resource, object);
        Ok(())
    }

    /// Its fields get their owner. What the cluster adds later is nobody's.
    fn track(&mut self, options: &WriteOptions) {
        self.record = typed::track_new(self.resource, &mut self.object, options, &self.core.now());
    }

    /// The cluster adds its own, or refuses.
    fn admit(&mut self, around: &Around) -> Result<(), Failure> {
        admission::on_create(self.core, around, self.resource, &mut self.object)
    }

    /// It is checked and written.
    fn finish(self, around: &Around) -> Result<Finished<'a>, Failure> {
        let Self { resource, namespace, mut object, record, given, .. } = self;
        if let Some(given) = given {
            given.put_into(&mut object);
        }
        if events::is_other_face(resource) {
            object = events::to_kept(object);
        }
        let name = meta_text(&object, "name").to_owned();
        let causes = validation::on_create(resource, &object);
        if !causes.is_empty() {
            return Err(Failure::invalid(events::judged_group(resource), &resource.kind, &name, &causes));
        }
        admission::check_new(around, resource, &object)?;
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
        admission::quotas::check(session, resource, namespace, draft.value())?;
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
