//! The garbage collector, the end of namespaces, and the status of quotas.
//!
//! On a real cluster these are controllers of their own. Here they follow every write, when the server is told to collect: an object
//! whose owners are gone goes, an owner deleted in the foreground waits for its dependents, an orphaned dependent loses its
//! reference, a namespace empties itself, and quotas say what is used ([`quotas`]).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::admission::quotas;
use crate::resources::{Resource, Resources};
use crate::rest::{
    Core, DeleteOptions, FieldValidation, UpdateContext, WriteOptions, delete_object, meta_mut, meta_text,
    update_object,
};
use crate::store::{ChangeKind, Location, Object, ResourceName, Session, Stored};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Follows all changes since the last call until nothing is left to do.
pub(crate) fn collect(core: &Core, session: &mut Session<'_>) {
    loop {
        let changes = session.take_unsettled();
        if changes.is_empty() {
            return;
        }
        quotas::follow(core, session, &changes);
        let mut shaken = BTreeSet::new();
        for (resource, change) in changes {
            if change.kind == ChangeKind::Deleted {
                for dependent in session.dependents(change.object.uid()) {
                    judge(core, session, &dependent);
                }
                for owner in change.object.owners() {
                    if let Some(owner) = session.locate(owner) {
                        end_owner(core, session, &owner);
                    }
                }
                shaken.insert(change.key.split_once('/').map_or("", |(namespace, _)| namespace).to_owned());
            } else if needs_judging(&resource, &change.object) {
                let place = Location { resource: resource.clone(), key: change.key.clone() };
                judge(core, session, &place);
                end_owner(core, session, &place);
                if is_namespaces(&resource) {
                    shaken.insert(change.key.to_string());
                }
            }
        }
        for namespace in shaken {
            end_namespace(core, session, &namespace);
        }
    }
}

/// Most objects own nothing, belong to nobody and stay.
fn needs_judging(resource: &ResourceName, object: &Object) -> bool {
    object.is_deleting() || object.owners().next().is_some() || is_namespaces(resource)
}

fn is_namespaces(resource: &ResourceName) -> bool {
    resource.group.is_empty() && &*resource.plural == "namespaces"
}

fn namespaces() -> ResourceName {
    ResourceName::new("", "namespaces")
}

/// The resource of a place, in any version that is served.
fn resource_of(core: &Core, place: &Location) -> Option<Arc<Resource>> {
    let custom = core.custom.lock().clone();
    let mut all = Resources::builtin().all().chain(custom.all());
    all.find(|resource| resource.stored_as == place.resource).cloned()
}

fn is_deleting(object: &Value) -> bool {
    !meta_text(object, "deletionTimestamp").is_empty()
}

/// An object none of whose owners lives goes.
fn judge(core: &Core, session: &mut Session<'_>, place: &Location) {
    let Some(object) = session.at(place) else { return };
    let owners: Vec<String> = object.object().owners().map(str::to_owned).collect();
    if owners.is_empty() || object.object().is_deleting() {
        return;
    }
    let living: Vec<&String> = owners.iter().filter(|uid| session.locate(uid).is_some()).collect();
    if living.is_empty() {
        remove(core, session, place, &object);
    } else if living.len() < owners.len() {
        let living: Vec<String> = living.into_iter().cloned().collect();
        let mut new = Value::clone(&object);
        keep_references(&mut new, |uid| living.iter().any(|living| living == uid));
        rewrite(core, session, place, &object, new);
    }
}

/// An owner on its way out: dependents first in the foreground, set free as orphans.
fn end_owner(core: &Core, session: &mut Session<'_>, place: &Location) {
    let Some(owner) = session.at(place) else { return };
    if !owner.object().is_deleting() || !owner.object().has_finalizers() {
        return;
    }
    let uid = meta_text(&owner, "uid").to_owned();
    if has_finalizer(&owner, ORPHAN) {
        for dependent in session.dependents(&uid) {
            if let Some(object) = session.at(&dependent) {
                let mut new = Value::clone(&object);
                keep_references(&mut new, |of| of != uid);
                rewrite(core, session, &dependent, &object, new);
            }
        }
        drop_finalizer(core, session, place, ORPHAN);
    } else if has_finalizer(&owner, FOREGROUND) {
        for dependent in session.dependents(&uid) {
            if let Some(object) = session.at(&dependent)
                && !is_deleting(&object)
            {
                remove(core, session, &dependent, &object);
            }
        }
        let blocked =
            session.dependents(&uid).iter().filter_map(|dependent| session.at(dependent)).any(|object| {
                let references = object["metadata"]["ownerReferences"].as_array();
                let mut references = references.into_iter().flatten();
                references.any(|reference| {
                    reference["uid"] == uid.as_str() && reference["blockOwnerDeletion"] == true
                })
            });
        if !blocked {
            drop_finalizer(core, session, place, FOREGROUND);
        }
    }
}

/// A namespace that ends takes everything in it along, and goes when it is empty.
fn end_namespace(core: &Core, session: &mut Session<'_>, name: &str) {
    let Some(namespace) = session.get(&namespaces(), "", name) else { return };
    if !is_deleting(&namespace) {
        return;
    }
    let mut left = false;
    for resource in session.resources() {
        for (key, object) in session.list(&resource, Some(name), None) {
            let place = Location { resource: resource.clone(), key };
            if !is_deleting(&object) {
                remove(core, session, &place, &object);
            }
            left |= session.at(&place).is_some();
        }
    }
    if left {
        return;
    }
    let place = Location { resource: namespaces(), key: name.into() };
    let mut new = Value::clone(&namespace);
    if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("finalizers");
    }
    if let Some(resource) = resource_of(core, &place) {
        let options = options();
        let context = UpdateContext { options: &options, subresource: "finalize", tracked: false };
        // A refusal leaves the namespace as it is, which is what a controller that fails does too.
        let _ = update_object(core, session, &resource, &namespace, new, &context);
    }
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    let list = object["metadata"]["finalizers"].as_array();
    list.is_some_and(|list| list.iter().any(|finalizer| finalizer == name))
}

fn drop_finalizer(core: &Core, session: &mut Session<'_>, place: &Location, name: &str) {
    let Some(object) = session.at(place) else { return };
    let mut new = Value::clone(&object);
    let metadata = meta_mut(&mut new);
    if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        list.retain(|finalizer| finalizer != name);
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    }
    rewrite(core, session, place, &object, new);
}

fn keep_references(object: &mut Value, keep: impl Fn(&str) -> bool) {
    let metadata = meta_mut(object);
    if let Some(list) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        list.retain(|reference| reference["uid"].as_str().is_some_and(&keep));
        if list.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

fn options() -> WriteOptions {
    WriteOptions {
        dry_run: false,
        manager: "garbage-collector".to_owned(),
        validation: FieldValidation::Ignore,
        force: false,
    }
}

fn rewrite(core: &Core, session: &mut Session<'_>, place: &Location, old: &Value, new: Value) {
    let Some(resource) = resource_of(core, place) else { return };
    let options = options();
    let context = UpdateContext { options: &options, subresource: "", tracked: false };
    // A refusal leaves the object as it is, which is what a controller that fails does too.
    let _ = update_object(core, session, &resource, old, new, &context);
}

fn remove(core: &Core, session: &mut Session<'_>, place: &Location, object: &Stored) {
    let Some(resource) = resource_of(core, place) else {
        // Nobody serves it, so nobody can hold it: earlier versions kept events of the two groups apart.
        session.remove(&place.resource, meta_text(object, "namespace"), meta_text(object, "name"));
        return;
    };
    let options =
        DeleteOptions { propagation: Some(crate::rest::Propagation::Background), ..DeleteOptions::default() };
    let _ = delete_object(core, session, &resource, object, &options);
}
