//! Update: the whole object, or one side of it.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::metadata::{
    generation, has_finalizers, is_deleting, keep_field, keep_meta, map_of, meta, meta_mut, meta_text,
    set_meta,
};
use super::options::WriteOptions;
use super::status::{Cause, Failure};
use super::{Answer, Call, Core, Target, body, create, definitions, events, render, typed};
use crate::resources::Resource;
use crate::store::{Session, Stored};
use crate::{admission, validation};

/// `PUT` of an object, its status or another subresource of the same kind.
pub(crate) fn put(call: &Call<'_>) -> Result<Answer, Failure> {
    let options = call.write_options("UpdateOptions")?;
    let decoded = body::decode(call, options.validation)?;
    let (code, stored) = replace(&call.target(), decoded.object, &options)?;
    let mut answer = render::object(call, code, &stored);
    answer.warnings = decoded.warnings;
    Ok(answer)
}

/// Replaces an object, or one side of it, by one that was read and checked. Says with which status it is answered.
pub(crate) fn replace(
    target: &Target<'_>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<(u16, Stored), Failure> {
    let Target { core, resource, namespace, name, subresource } = *target;
    if meta_text(&object, "name").is_empty() && resource.custom.is_none() {
        return Err(Failure::bad_request("name must be provided"));
    }
    check_place(target, &mut object)?;
    let mut session = core.open_to_change()?;
    let old = session.get(&resource.stored_as, namespace, name);
    let (code, stored) = match old {
        None if resource.created_by_update() && subresource.is_empty() => {
            set_meta(&mut object, "resourceVersion", None);
            (201, create::create_object(core, &mut session, resource, namespace, object, options, true)?)
        }
        None => return Err(Failure::not_found(resource, name)),
        Some(old) => {
            let version = meta_text(&object, "resourceVersion");
            if !resource.updates_without_version() && matches!(version, "" | "0") {
                let value = Value::from(0);
                let cause =
                    Cause::invalid("metadata.resourceVersion", &value, "must be specified for an update");
                // Kubernetes names the resource here, where it names the kind elsewhere.
                let Resource { group, plural, .. } = &**resource;
                return Err(Failure::invalid(group, plural, name, &[cause]));
            }
            let context = UpdateContext { options, subresource, tracked: true };
            (200, update_object(core, &mut session, resource, &old, object, &context)?)
        }
    };
    core.settle(&mut session);
    Ok((code, stored))
}

/// The name and namespace in the body must be those of the path.
pub(crate) fn check_place(target: &Target<'_>, object: &mut Value) -> Result<(), Failure> {
    let name = meta_text(object, "name");
    if !name.is_empty() && name != target.name {
        let message =
            format!("the name of the object ({name}) does not match the name on the URL ({})", target.name);
        return Err(Failure::bad_request(message));
    }
    let namespace = meta_text(object, "namespace");
    if !namespace.is_empty() && namespace != target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Failure::bad_request(message));
    }
    set_meta(object, "name", Some(target.name.into()));
    set_meta(object, "namespace", target.resource.namespaced.then(|| target.namespace.into()));
    Ok(())
}

/// How an update is meant.
pub(crate) struct UpdateContext<'a> {
    pub options: &'a WriteOptions,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The fields go to the manager as those of an update; an apply has tracked them itself.
    pub tracked: bool,
}

/// Replaces an object, or removes it when nothing holds it any more. Returns what the client is to see.
pub(crate) fn update_object(
    core: &Core,
    session: &mut Session<'_>,
    resource: &Arc<Resource>,
    old: &Value,
    mut new: Value,
    context: &UpdateContext<'_>,
) -> Result<Stored, Failure> {
    let name = meta_text(old, "name").to_owned();
    let namespace = meta_text(old, "namespace").to_owned();
    // What is written is compared in the form in which it came, and judged and kept in the other.
    let kept = old;
    let other_face = events::is_other_face(resource).then(|| render::in_version(resource, kept));
    let old = other_face.as_ref().unwrap_or(kept);
    check_identity(resource, &name, old, &new)?;
    let fields = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
    ];
    for field in fields {
        if field == "generateName" && meta(&new).is_some_and(|metadata| metadata.contains_key(field)) {
            continue;
        }
        keep_meta(&mut new, old, field);
    }
    keep_meta(&mut new, old, "resourceVersion");
    new = merge_sides(resource, old, new, context.subresource);
    typed::default(resource, &mut new);
    admission::on_update(resource, old, &mut new, context.subresource);
    if resource.is("", "services") && context.subresource.is_empty() {
        admission::services::on_update(core, session, resource, old, &mut new)?;
    }
    if resource.has_generation() && context.subresource != "status" && wanted_changed(resource, old, &new) {
        set_meta(&mut new, "generation", Some((generation(old) + 1).into()));
    }
    if context.tracked {
        typed::track(resource, Some(old), &mut new, context.options, context.subresource, &core.now());
    }
    if other_face.is_some() {
        new = events::to_kept(new);
    }
    let causes = validation::on_update(resource, kept, &new, context.subresource);
    if !causes.is_empty() {
        return Err(Failure::invalid(events::judged_group(resource), &resource.kind, &name, &causes));
    }
    if new == *kept {
        return Ok(Stored::shown(&resource.stored_as, new));
    }
    if context.options.dry_run {
        return Ok(Stored::shown(&resource.stored_as, new));
    }
    if nothing_holds(resource, &new) {
        let gone = session.remove(&resource.stored_as, &namespace, &name);
        let version = gone.as_ref().map(|gone| meta_text(gone, "resourceVersion").to_owned());
        set_meta(&mut new, "resourceVersion", version.map(Value::from));
        definitions::after_removal(core, session, resource, &new);
        return Ok(Stored::shown(&resource.stored_as, new));
    }
    let stored = session.put(&resource.stored_as, &namespace, &name, new);
    render::has_its_defaults(resource, &stored);
    definitions::after_write(core, session, resource, &stored);
    Ok(stored)
}

/// The uid of a body, and in a binding also the version, must be that of the object.
pub(crate) fn check_preconditions(resource: &Resource, old: &Value, given: &Value) -> Result<(), Failure> {
    let (namespace, name) = (meta_text(old, "namespace"), meta_text(old, "name"));
    for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (wanted, present) = (meta_text(given, field), meta_text(old, field));
        if !wanted.is_empty() && wanted != present {
            let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            let message = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{place}{name}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {present}",
                resource.plural
            );
            return Err(Failure::conflict(resource, name, &message));
        }
    }
    Ok(())
}

fn check_identity(resource: &Resource, name: &str, old: &Value, new: &Value) -> Result<(), Failure> {
    let uid = meta_text(new, "uid");
    check_preconditions(resource, old, &json!({"metadata": {"uid": uid}}))?;
    let version = meta_text(new, "resourceVersion");
    if !version.is_empty() && version.parse::<u64>().is_err() {
        let message = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
        return Err(Failure::internal(message));
    }
    if !matches!(version, "" | "0") && version != meta_text(old, "resourceVersion") {
        return Err(Failure::modified(resource, name));
    }
    Ok(())
}

/// The object keeps its status, the status keeps its object.
fn merge_sides(resource: &Resource, old: &Value, mut new: Value, subresource: &str) -> Value {
    match subresource {
        "status" => {
            // Nodes and pods are written by their agents through the status, labels included.
            let takes_metadata = resource.is("", "nodes") || resource.is("", "pods");
            let taken: &[&str] =
                if takes_metadata { &["managedFields", "labels", "annotations"] } else { &["managedFields"] };
            give_back(meta_mut(&mut new), meta(old), taken);
            give_back(map_of(&mut new), old.as_object(), &["metadata", "status"]);
            new
        }
        "ephemeralcontainers" => {
            let mut merged = old.clone();
            keep_meta(&mut merged, &new, "managedFields");
            keep_field(&mut merged["spec"], &new["spec"], "ephemeralContainers");
            merged
        }
        _ => {
            if resource.has_status() {
                keep_field(&mut new, old, "status");
            }
            new
        }
    }
}

/// Makes all fields but those taken what they were. Mostly they still are, and comparing costs less than copying.
fn give_back(new: &mut Map<String, Value>, old: Option<&Map<String, Value>>, taken: &[&str]) {
    let before = |name: &String| old.and_then(|old| old.get(name));
    new.retain(|name, _| taken.contains(&name.as_str()) || before(name).is_some());
    for (name, value) in old.into_iter().flatten().filter(|(name, _)| !taken.contains(&name.as_str())) {
        if new.get(name) != Some(value) {
            new.insert(name.clone(), value.clone());
        }
    }
}

/// Whether what is wanted differs, which moves the generation.
fn wanted_changed(resource: &Resource, old: &Value, new: &Value) -> bool {
    if resource.has_status()
        && (resource.custom.is_none() || new.get("spec").is_some() || old.get("spec").is_some())
    {
        if old.get("spec") != new.get("spec") {
            return true;
        }
        if resource.custom.is_none() {
            return resource.is("apps", "deployments") && annotations(old) != annotations(new);
        }
    }
    let apart = resource.has_status();
    let counts = |(name, _): &(&String, &Value)| *name != "metadata" && !(apart && *name == "status");
    match (old.as_object(), new.as_object()) {
        (Some(old), Some(new)) => !old.iter().filter(counts).eq(new.iter().filter(counts)),
        _ => old != new,
    }
}

fn annotations(object: &Value) -> Option<&Value> {
    meta(object).and_then(|metadata| metadata.get("annotations"))
}

/// Whether a deleted object has lost its last hold.
fn nothing_holds(resource: &Resource, object: &Value) -> bool {
    if !is_deleting(object) || has_finalizers(object) {
        return false;
    }
    if resource.is("", "namespaces") {
        return object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    }
    meta(object)
        .and_then(|metadata| metadata.get("deletionGracePeriodSeconds"))
        .and_then(Value::as_i64)
        .unwrap_or(0)
        == 0
}
