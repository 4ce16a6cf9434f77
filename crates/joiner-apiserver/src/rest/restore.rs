//! Objects of another cluster, put here as they were there: with their uid, their age and their status.
//!
//! A create gives an object a new identity and an empty status, and asks the cluster what it thinks of it; both are wrong for an object that
//! has lived already. What a restored object may not bring along is what cannot be checked here: who owned which field, and its version.
//! Making an object ready takes long and needs nothing of the store, so that many can be made ready at once, and then put in one go.

use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata::{meta_text, set_meta};
use super::status::Failure;
use super::{Core, FieldValidation, checked, definitions, events, typed};
use crate::resources::{Resource, Resources};
use crate::store::Draft;
use crate::{admission, validation};

/// An object that is ready to be put into the store.
#[derive(Debug)]
pub struct Restored {
    resource: Arc<Resource>,
    namespace: String,
    name: String,
    draft: Draft,
}

impl Restored {
    /// The object as it will be.
    pub fn value(&self) -> &Value {
        self.draft.value()
    }

    /// The kind and the name, as messages have them.
    pub fn told(&self) -> String {
        format!("{} `{}`", self.resource.kind, self.name)
    }
}

/// Makes an object ready. Fields that nobody knows are left out.
pub(crate) fn prepare(core: &Core, resource: &Arc<Resource>, object: Value) -> Result<Restored, Failure> {
    let mut object = checked(resource, object, FieldValidation::Ignore)?;
    // An event has lived already: it is judged in the form that asks for less.
    let events = Resources::builtin().find("", "v1", "events").filter(|_| events::is_other_face(resource));
    if events.is_some() {
        object = events::to_kept(object);
    }
    let resource = events.unwrap_or(resource);
    let namespace = meta_text(&object, "namespace").to_owned();
    if !resource.namespaced {
        set_meta(&mut object, "namespace", None);
    }
    for field in
        ["resourceVersion", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
    {
        set_meta(&mut object, field, None);
    }
    if meta_text(&object, "uid").is_empty() {
        set_meta(&mut object, "uid", Some(core.chance.uid().into()));
    }
    if meta_text(&object, "creationTimestamp").parse::<jiff::Timestamp>().is_err() {
        set_meta(&mut object, "creationTimestamp", Some(core.now().into()));
    }
    if resource.has_generation() && object["metadata"].get("generation").is_none() {
        set_meta(&mut object, "generation", Some(json!(1)));
    }
    typed::default(resource, &mut object);
    if resource.is("", "namespaces") {
        object["spec"] = json!({"finalizers": ["kubernetes"]});
        object["status"] = json!({"phase": "Active"});
    }
    if resource.is("", "pods") && object.get("status").and_then(|status| status.get("phase")).is_none() {
        object["status"]["phase"] = "Pending".into();
    }
    let name = meta_text(&object, "name").to_owned();
    let causes = validation::on_create(resource, &object);
    if !causes.is_empty() {
        return Err(Failure::invalid(&resource.group, &resource.kind, &name, &causes));
    }
    let namespace = if resource.namespaced { namespace } else { String::new() };
    let draft = Draft::new(&resource.stored_as, object);
    Ok(Restored { resource: resource.clone(), namespace, name, draft })
}

/// Puts objects into the store, in this order. The first that cannot be put ends it.
pub(crate) fn put(core: &Core, objects: Vec<Restored>) -> Result<(), (String, Failure)> {
    let mut session = core.open_to_change().map_err(|failure| ("the objects".to_owned(), failure))?;
    for object in objects {
        let told = object.told();
        let Restored { resource, namespace, name, draft } = object;
        if let Err(failure) = admission::namespace_of_new(&session, &resource, &namespace, draft.value()) {
            return Err((told, failure));
        }
        if session.get(&resource.stored_as, &namespace, &name).is_some() {
            return Err((told, Failure::already_exists(&resource, &name)));
        }
        let stored = session.put_draft(&resource.stored_as, &namespace, &name, draft);
        definitions::after_write(core, &mut session, &resource, &stored);
    }
    core.settle(&mut session);
    Ok(())
}
