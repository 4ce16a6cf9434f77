//! Delete: at once, after a grace period, or when the last finalizer is gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::metadata::{finalizers, generation, is_deleting, meta, meta_text, set_meta, text_at};
use super::options::dry_run;
use super::read::Choice;
use super::render::ListMeta;
use super::status::{self, Cause, Failure};
use super::{Answer, Call, Core, Payload, Target, body, definitions, render};
use crate::clock::format_time;
use crate::resources::Resource;
use crate::store::{Session, Stored};

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

/// Options of a delete, from the query and the body.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// How long the object may take to go.
    pub grace: Option<i64>,
    /// What becomes of dependents.
    pub propagation: Option<Propagation>,
    /// Only this very object.
    pub uid: Option<String>,
    /// Only this version of it.
    pub resource_version: Option<String>,
    /// Do everything but the write.
    pub dry_run: bool,
}

impl DeleteOptions {
    fn read(call: &Call<'_>) -> Result<Self, Failure> {
        let mut options = if call.incoming.body.is_empty() {
            Self::default()
        } else {
            Self::from_value(&body::document(call, "DeleteOptions")?.to_value())?
        };
        if let Some(grace) = call.query().integer("gracePeriodSeconds")? {
            options.grace = Some(grace);
        }
        let orphans = call.query().get("orphanDependents").map(|_| call.query().is_set("orphanDependents"));
        if let Some(propagation) = propagation_asked(call.query().get("propagationPolicy"), orphans)? {
            options.propagation = Some(propagation);
        }
        options.dry_run |= dry_run(call.query().all("dryRun").map(str::to_owned).collect(), "DeleteOptions")?;
        Ok(options)
    }

    /// Reads the options of a body.
    ///
    /// # Errors
    /// An option has a value that Kubernetes does not know.
    pub fn from_value(value: &Value) -> Result<Self, Failure> {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let directives = value["dryRun"].as_array().into_iter().flatten().filter_map(text).collect();
        Ok(Self {
            grace: value["gracePeriodSeconds"].as_i64(),
            propagation: propagation_asked(
                text(&value["propagationPolicy"]).as_deref(),
                value["orphanDependents"].as_bool(),
            )?,
            uid: text(&value["preconditions"]["uid"]),
            resource_version: text(&value["preconditions"]["resourceVersion"]),
            dry_run: dry_run(directives, "DeleteOptions")?,
        })
    }
}

/// The policy, in its new form or in the old one that knew only orphans or not.
fn propagation_asked(policy: Option<&str>, orphans: Option<bool>) -> Result<Option<Propagation>, Failure> {
    match (policy, orphans) {
        (Some(policy), Some(_)) => {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let cause = Cause::invalid("propagationPolicy", &json!(policy), detail);
            Err(Failure::invalid_option("DeleteOptions", cause))
        }
        (Some(policy), None) => propagation(policy).map(Some),
        (None, Some(true)) => Ok(Some(Propagation::Orphan)),
        (None, Some(false)) => Ok(Some(Propagation::Background)),
        (None, None) => Ok(None),
    }
}

fn propagation(policy: &str) -> Result<Propagation, Failure> {
    match policy {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => {
            let cause = Cause::unsupported(
                "propagationPolicy",
                &json!(other),
                &["Foreground", "Background", "Orphan", "nil"],
            );
            Err(Failure::invalid_option("DeleteOptions", cause))
        }
    }
}

/// What a delete left behind.
pub(crate) enum Outcome {
    /// Nothing; the last state of the object.
    Gone(Stored),
    /// The object, on its way out.
    Held(Stored),
}

/// `DELETE` of one object.
pub(crate) fn delete(call: &Call<'_>) -> Result<Answer, Failure> {
    let options = DeleteOptions::read(call)?;
    let resource = &call.resource;
    let outcome = delete_target(&call.target(), &options)?;
    let mut answer = match outcome {
        Outcome::Held(object) => render::object(call, 200, &object),
        Outcome::Gone(object) if resource.is("", "pods") => render::object(call, 200, &object),
        Outcome::Gone(object) => {
            let mut details = status::about(resource, &call.name);
            details["uid"] = meta_text(&object, "uid").into();
            Answer::new(200, Payload::Document(status::success(None, Some(details))))
        }
    };
    if resource.is("batch", "jobs") && options.propagation.is_none() {
        let text = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or \
            set propagationPolicy=Orphan to suppress this warning";
        answer.warnings.push(text.to_owned());
    }
    Ok(answer)
}

/// Whether nothing needs to be written before an object goes: nobody holds it, the delete puts no hold on it, and nothing is asked of it. That is told
/// without a look inside.
fn goes_at_once(resource: &Resource, object: &Stored, options: &DeleteOptions) -> bool {
    let takes_steps = ["pods", "namespaces"].iter().any(|plural| resource.is("", plural))
        || definitions::is_definition(resource);
    let holds = match options.propagation {
        Some(Propagation::Orphan | Propagation::Foreground) => true,
        Some(Propagation::Background) => false,
        None => resource.orphans_by_default(),
    };
    let asks = options.uid.is_some() || options.resource_version.is_some();
    !takes_steps && !holds && !asks && !object.object().has_finalizers()
}

/// Deletes one object.
pub(crate) fn delete_target(target: &Target<'_>, options: &DeleteOptions) -> Result<Outcome, Failure> {
    let mut session = target.core.open_to_change()?;
    let object = target.stored(&session)?;
    let outcome = if goes_at_once(target.resource, &object, options) {
        if !options.dry_run {
            session.remove(&target.resource.stored_as, target.namespace, target.name);
            definitions::after_removal(target.core, &mut session, target.resource, &object);
        }
        Outcome::Gone(object)
    } else {
        delete_object(target.core, &mut session, target.resource, &object, options)?
    };
    target.core.settle(&mut session);
    Ok(outcome)
}

/// `DELETE` of a collection.
pub(crate) fn delete_collection(call: &Call<'_>) -> Result<Answer, Failure> {
    let options = DeleteOptions::read(call)?;
    let choice = Choice::read(call)?;
    let mut session = call.core.open_to_change()?;
    let namespace = call.resource.namespaced.then_some(call.namespace.as_str());
    let found = session.list(&call.resource.stored_as, namespace, None);
    let mut items = Vec::new();
    for (_, object) in found.into_iter().filter(|(_, object)| choice.matches(&call.resource, object)) {
        match delete_object(call.core, &mut session, &call.resource, &object, &options)? {
            Outcome::Gone(object) | Outcome::Held(object) => items.push(object),
        }
    }
    call.core.settle(&mut session);
    let meta =
        ListMeta { resource_version: session.revision().to_string(), continue_token: None, remaining: None };
    drop(session);
    Ok(render::list(call, &items, &meta))
}

/// Deletes an object as far as its grace and its finalizers allow.
pub(crate) fn delete_object(
    core: &Core,
    session: &mut Session<'_>,
    resource: &Arc<Resource>,
    object: &Stored,
    options: &DeleteOptions,
) -> Result<Outcome, Failure> {
    check_preconditions(resource, object, options)?;
    crate::admission::on_delete(resource, object)?;
    if resource.is("", "namespaces") {
        return Ok(end_namespace(core, session, resource, object, options));
    }
    if definitions::is_definition(resource) && !is_deleting(object) {
        return Ok(Outcome::Held(definitions::begin_end(core, session, resource, object, options.dry_run)));
    }
    // Only pods take time. One that is dying already may be told to hurry, and nothing else.
    let graceful = resource.is("", "pods");
    let left = grace_left(object);
    let asked = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
    if graceful && left > 0 && asked.is_none_or(|asked| asked >= left) {
        return Ok(Outcome::Held(object.clone()));
    }
    let grace = if graceful { pod_grace(object, asked) } else { 0 };
    let mut new = object.to_value();
    set_finalizers(resource, &mut new, options.propagation);
    let held = !finalizers(&new).is_empty() || grace > 0;
    let written_first = graceful && (left > 0 || !is_deleting(object));
    mark(core.clock.now(), &mut new, grace);

    let (namespace, name) = (meta_text(object, "namespace"), meta_text(object, "name"));
    if held {
        let unchanged = new == **object;
        if unchanged || options.dry_run {
            return Ok(Outcome::Held(Stored::shown(&resource.stored_as, new)));
        }
        let stored = session.put(&resource.stored_as, namespace, name, new);
        definitions::after_write(core, session, resource, &stored);
        return Ok(Outcome::Held(stored));
    }
    let mut last = if graceful { Stored::shown(&resource.stored_as, new) } else { object.clone() };
    if options.dry_run {
        return Ok(Outcome::Gone(last));
    }
    if written_first {
        // Who watches sees the end announced before it comes.
        last = session.put(&resource.stored_as, namespace, name, last.to_value());
    }
    let gone = session.remove(&resource.stored_as, namespace, name);
    definitions::after_removal(core, session, resource, object);
    Ok(Outcome::Gone(gone.filter(|_| graceful).unwrap_or(last)))
}

/// How long an object that is on its way out may take.
fn grace_left(object: &Value) -> i64 {
    let seconds = meta(object).and_then(|metadata| metadata.get("deletionGracePeriodSeconds"));
    seconds.and_then(Value::as_i64).filter(|_| is_deleting(object)).unwrap_or(0)
}

fn check_preconditions(resource: &Resource, object: &Value, options: &DeleteOptions) -> Result<(), Failure> {
    let name = meta_text(object, "name");
    // Kubernetes names the kind here, where it names the resource elsewhere.
    let refuse = |detail: String| {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {detail}", resource.qualified_kind());
        let mut details = status::about(resource, name);
        details["kind"] = resource.kind.clone().into();
        Failure::new(409, "Conflict", message).with_details(details)
    };
    if let Some(uid) = &options.uid
        && uid != meta_text(object, "uid")
    {
        return Err(refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and \
             then recreated",
            meta_text(object, "uid")
        )));
    }
    if let Some(version) = &options.resource_version
        && version != meta_text(object, "resourceVersion")
    {
        return Err(refuse(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object \
             might have been modified",
            meta_text(object, "resourceVersion")
        )));
    }
    Ok(())
}

/// A pod that runs nowhere, or runs no more, needs no time to end.
fn pod_grace(pod: &Value, asked: Option<i64>) -> i64 {
    if text_at(pod, "spec.nodeName").is_empty()
        || matches!(text_at(pod, "status.phase"), "Succeeded" | "Failed")
    {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    match asked.unwrap_or(own) {
        grace if grace < 0 => 1,
        grace => grace,
    }
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

fn set_finalizers(resource: &Resource, object: &mut Value, propagation: Option<Propagation>) {
    let propagation = match propagation {
        Some(propagation) => Some(propagation),
        None if finalizers(object).iter().any(|name| [ORPHAN, FOREGROUND].contains(name)) => return,
        None if resource.orphans_by_default() => Some(Propagation::Orphan),
        None => return,
    };
    let present: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
    let mut wanted: Vec<String> =
        present.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned().collect();
    match propagation {
        Some(Propagation::Orphan) => wanted.push(ORPHAN.to_owned()),
        Some(Propagation::Foreground) => wanted.push(FOREGROUND.to_owned()),
        Some(Propagation::Background) | None => {}
    }
    set_meta(object, "finalizers", (!wanted.is_empty()).then(|| wanted.into()));
}

/// Writes down that and when the object is to go. A second delete may bring the end nearer, never farther.
fn mark(now: Timestamp, object: &mut Value, grace: i64) {
    if !is_deleting(object) {
        let end = now + SignedDuration::from_secs(grace);
        set_meta(object, "deletionTimestamp", Some(format_time(end).into()));
        set_meta(object, "deletionGracePeriodSeconds", Some(grace.into()));
        if generation(object) > 0 {
            let next = generation(object) + 1;
            set_meta(object, "generation", Some(next.into()));
        }
        return;
    }
    let before = grace_left(object);
    if grace >= before {
        return;
    }
    let end: Option<Timestamp> = meta_text(object, "deletionTimestamp").parse().ok();
    let end = end.unwrap_or(now) - SignedDuration::from_secs(before - grace);
    // The end is never in the past; what was to take time still takes some.
    let (end, grace) = if end < now { (now, grace.min(1)) } else { (end, grace) };
    set_meta(object, "deletionTimestamp", Some(format_time(end).into()));
    set_meta(object, "deletionGracePeriodSeconds", Some(grace.into()));
}

/// A namespace stays until everything in it is gone and its own finalizers are empty.
fn end_namespace(
    core: &Core,
    session: &mut Session<'_>,
    resource: &Arc<Resource>,
    object: &Stored,
    options: &DeleteOptions,
) -> Outcome {
    let name = meta_text(object, "name");
    let free =
        object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty) && finalizers(object).is_empty();
    if free {
        if !options.dry_run {
            session.remove(&resource.stored_as, "", name);
        }
        return Outcome::Gone(object.clone());
    }
    let mut new = object.to_value();
    if !is_deleting(&new) {
        set_meta(&mut new, "deletionTimestamp", Some(core.now().into()));
    }
    new["status"]["phase"] = "Terminating".into();
    if options.dry_run || new == **object {
        return Outcome::Held(Stored::shown(&resource.stored_as, new));
    }
    Outcome::Held(session.put(&resource.stored_as, "", name, new))
}
