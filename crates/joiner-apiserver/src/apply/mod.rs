//! Server-side apply and the record of who owns which field.
//!
//! An applier sends the fields it wants. They are merged into the live object along the type; fields that the same applier sent
//! before and now leaves out are removed, unless somebody else owns them too; a field of somebody else that would change is a
//! conflict, unless the applier forces. Every other write is recorded as well ([`track_update`]): who changes a field owns it.
//!
//! Without a type (a custom resource that keeps unknown fields) objects merge field by field and lists are wholes.

mod created;
mod last_applied;
mod managers;
mod merge;
mod set;
mod typed;
mod validate;

use std::sync::LazyLock;

use serde_json::{Map, Value};

use self::managers::{Manager, Managers, Owned};
use self::set::FieldSet;
use crate::crd::Cause;
use crate::schema::{Schemas, TypeRef};

pub use set::FieldSet as OwnedFields;
pub use set::display_path;

/// Owner of the fields that were there before anybody's writes were recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager that takes over from client-side apply.
const KUBECTL: &str = "kubectl";

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyError {
    /// The HTTP status.
    pub status: u16,
    /// The reason in the `Status` object; empty where Kubernetes gives none.
    pub reason: &'static str,
    /// The message in the `Status` object.
    pub message: String,
    /// The conflicts, one by one.
    pub causes: Vec<Cause>,
}

impl ApplyError {
    fn bad_request(message: String) -> Self {
        Self { status: 400, reason: "BadRequest", message, causes: Vec::new() }
    }
}

/// Applies a configuration. The result is the new object with its managers; defaults are not in it yet.
///
/// `now` is the time to record. When nothing changes, the recorded times stay, so an equal apply gives back an equal object.
///
/// # Errors
///
/// 409 with one cause per field in conflict, 400 for a configuration with managers or of another version, 500 for one whose fields do
/// not fit the type.
#[allow(clippy::too_many_arguments, reason = "the request has that many parts")]
pub fn apply(
    ty: Option<TypeRef<'_>>,
    live: Option<&Value>,
    config: &Value,
    manager: &str,
    api_version: &str,
    subresource: &str,
    force: bool,
    now: &str,
) -> Result<Value, ApplyError> {
    let ty = ty.unwrap_or(Schemas::any());
    let version = config.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if version != api_version {
        return Err(ApplyError::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {version}, expected: {api_version}"
        )));
    }
    if config.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::bad_request("metadata.managedFields must be nil".to_owned()));
    }
    if let Some(message) = validate::check(ty, config) {
        let message = format!("failed to create typed patch object ({}): {message}", object_name(config));
        return Err(ApplyError { status: 500, reason: "", message, causes: Vec::new() });
    }
    let mut managers = live.map_or_else(|| Some(Managers::default()), Managers::of).unwrap_or_default();
    let bare = live.map_or_else(|| Value::Object(Map::new()), without_managers);
    let scope = Scope { ty, api_version, subresource, now };
    if managers.0.is_empty() {
        scope.update(
            &unset(ty),
            &bare,
            &mut managers,
            &Manager::updater(BEFORE_FIRST_APPLY, api_version, subresource),
        );
    }
    let applier = Manager::applier(manager, subresource);
    let mut outcome = scope.apply(&bare, config, managers.clone(), &applier, force);
    if let Err(conflicts) = &outcome
        && manager == KUBECTL
        && let Some(allowed) = last_applied::allowed_conflicts(ty, &bare, api_version)
    {
        let rest: Vec<Conflict> =
            conflicts.iter().filter(|conflict| !allowed.contains(&conflict.path)).cloned().collect();
        outcome =
            if rest.is_empty() { scope.apply(&bare, config, managers, &applier, true) } else { Err(rest) };
    }
    let (mut object, managers) = outcome.map_err(|conflicts| conflict_error(&conflicts))?;
    if manager == KUBECTL {
        last_applied::refresh(&mut object, config);
    }
    managers.store_in(&mut object);
    Ok(object)
}

/// Records an ordinary write: `new` gets its managers, given what was there before (nothing on create).
///
/// The operation is `Update` for every write but apply. Managers that the body carries are taken over, except on a subresource; an
/// empty list forgets them all.
#[allow(clippy::too_many_arguments, reason = "the request has that many parts")]
pub fn track_update(
    ty: Option<TypeRef<'_>>,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    operation: &str,
    api_version: &str,
    subresource: &str,
    now: &str,
) {
    let ty = ty.unwrap_or(Schemas::any());
    let of_old = || old.and_then(Managers::of).unwrap_or_default();
    let mut managers = if !subresource.is_empty() {
        of_old()
    } else if Managers::are_reset_by(new) {
        Managers::default()
    } else {
        Managers::of(new).filter(|managers| !managers.0.is_empty()).unwrap_or_else(of_old)
    };
    if let Some(meta) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    if old.is_none() && managers.0.is_empty() && subresource.is_empty() && operation != "Apply" {
        let record = new.as_object().and_then(|new| created::record(ty, new, manager, api_version, now));
        if let (Some(record), Value::Object(new)) = (record, new) {
            let metadata = new.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
            if let Some(metadata) = metadata.as_object_mut() {
                // The text was written here.
                let record = serde_json::from_slice(&record).unwrap_or_default();
                metadata.insert("managedFields".to_owned(), record);
            }
        }
        return;
    }
    // Objects whose managers were forgotten are recorded again only after an apply.
    if !managers.0.is_empty() || old.is_none() {
        let scope = Scope { ty, api_version, subresource, now };
        let manager = match operation {
            "Apply" => Manager::applier(manager, subresource),
            _ => Manager::updater(manager, api_version, subresource),
        };
        match old {
            Some(old) => scope.update(old, new, &mut managers, &manager),
            None => scope.update(&unset(ty), new, &mut managers, &manager),
        }
        managers.cap();
    }
    managers.store_in(new);
}

/// As [`track_update`] of a new object. If it brings no managers along, `new` is left without: the text of its
/// `metadata.managedFields` is handed back instead, for whoever writes the object and would only have to write that again.
pub(crate) fn track_creation(
    ty: Option<TypeRef<'_>>,
    new: &mut Value,
    manager: &str,
    api_version: &str,
    now: &str,
) -> Option<Vec<u8>> {
    let metadata = new.get("metadata").and_then(Value::as_object);
    if metadata.is_none_or(|metadata| metadata.contains_key("managedFields")) {
        track_update(ty, None, new, manager, "Update", api_version, "", now);
        return None;
    }
    created::record(ty.unwrap_or(Schemas::any()), new.as_object()?, manager, api_version, now)
}

/// What a write is about.
struct Scope<'a> {
    ty: TypeRef<'a>,
    api_version: &'a str,
    subresource: &'a str,
    now: &'a str,
}

/// A field of another manager that an apply would change.
#[derive(Debug, Clone)]
struct Conflict {
    manager: Manager,
    path: Vec<String>,
}

impl Scope<'_> {
    /// Records the difference between two objects under a manager. Their own records of managers are no part of them.
    fn update(&self, old: &Value, new: &Value, managers: &mut Managers, manager: &Manager) {
        let mut difference = typed::difference(self.ty, old, new).filtered(|set| self.counted(set));
        difference.removed = difference.removed.minus(&RECORDS);
        let changed = difference.modified.plus(difference.added);
        for owned in managers.0.values_mut() {
            owned.set = std::mem::take(&mut owned.set).minus(&changed).minus(&difference.removed);
        }
        let mine = changed.minus(&IDENTITY);
        if !mine.is_empty() {
            let before = managers.0.remove(manager).map(|owned| owned.set).unwrap_or_default();
            managers.0.insert(
                manager.clone(),
                Owned {
                    set: mine.plus(before),
                    api_version: self.api_version.to_owned(),
                    time: Some(self.now.to_owned()),
                },
            );
        }
        managers.0.retain(|_, owned| !owned.set.is_empty());
    }

    fn apply(
        &self,
        live: &Value,
        config: &Value,
        mut managers: Managers,
        applier: &Manager,
        force: bool,
    ) -> Result<(Value, Managers), Vec<Conflict>> {
        let merged = merge::merge(self.ty, Some(live), Some(config)).unwrap_or_else(|| config.clone());
        let last = managers.0.remove(applier);
        let mine = self.counted(typed::field_set(self.ty, config));
        managers.0.insert(
            applier.clone(),
            Owned {
                set: mine,
                api_version: self.api_version.to_owned(),
                time: last.as_ref().and_then(|last| last.time.clone()),
            },
        );
        let object = match &last {
            Some(last) if !last.set.is_empty() => self.prune(merged, &managers, &last.set),
            _ => merged,
        };

        let difference = typed::difference(self.ty, live, &object).filtered(|set| self.counted(set));
        let changed = difference.modified.plus(difference.added);
        let mut conflicts = Vec::new();
        for (manager, owned) in &mut managers.0 {
            if manager == applier {
                continue;
            }
            let taken = owned.set.intersection(&changed);
            let paths = taken.paths().into_iter();
            conflicts.extend(paths.map(|path| Conflict { manager: manager.clone(), path }));
            owned.set = std::mem::take(&mut owned.set).minus(&taken).minus(&difference.removed);
        }
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        let unchanged = typed::same(live, &object);
        if let Some(owned) = managers.0.get_mut(applier) {
            owned.set = std::mem::take(&mut owned.set).minus(&IDENTITY);
            if !unchanged {
                owned.time = Some(self.now.to_owned());
            }
        }
        managers.0.retain(|_, owned| !owned.set.is_empty());
        Ok((object, managers))
    }

    /// Removes what the applier owned before and does not send any more, unless it is somebody's still.
    fn prune(&self, merged: Value, managers: &Managers, last: &FieldSet) -> Value {
        let ty = self.ty;
        let named = |set: &FieldSet| set.with_named_parents(ty);
        let remove = |set: &FieldSet| match typed::remove(ty, &merged, set) {
            Value::Null => Value::Object(Map::new()),
            object => object,
        };
        let owned = managers.0.values().fold(FieldSet::default(), |all, owned| all.union(&owned.set));
        let last = named(last);
        let all = named(&typed::field_set(ty, &merged));

        let stripped = remove(&last);
        let left = named(&typed::field_set(ty, &stripped));
        let kept = remove(&all.difference(&left.union(&named(&owned))));
        // What nobody owns but also was not the applier's own stays where it is.
        let kept = named(&typed::field_set(ty, &kept));
        remove(&all.difference(&kept).intersection(&last))
    }

    /// Without fields that a write to this subresource never changes.
    fn counted(&self, set: FieldSet) -> FieldSet {
        match self.subresource {
            "" if self.ty.status_apart() => set.without_below(&STATUS),
            "status" => set.without_below(&SPEC),
            _ => set,
        }
    }
}

static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["status"]]));
static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"]]));
static RECORDS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["metadata", "managedFields"]]));

/// Names, versions and times of an object belong to nobody.
static IDENTITY: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// An object nobody has touched: fields that are always written are there already, so nobody comes to own them by creating it.
fn unset(ty: TypeRef<'_>) -> Value {
    let mut object = Value::Object(Map::new());
    crate::fields::normalize(ty, &mut object);
    object
}

fn without_managers(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    object
}

/// `namespace/name; group/version, Kind=KIND`.
fn object_name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
    format!("{}/{}; {version}, Kind={}", text("/metadata/namespace"), text("/metadata/name"), text("/kind"))
}

fn conflict_error(conflicts: &[Conflict]) -> ApplyError {
    let causes = conflicts.iter().map(|conflict| Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.manager.display(None)),
        field: display_path(&conflict.path),
    });
    let causes: Vec<Cause> = causes.collect();
    let message = match causes.as_slice() {
        [only] => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        _ => {
            let mut lines = Vec::new();
            let mut before: Option<&Manager> = None;
            for (conflict, cause) in conflicts.iter().zip(&causes) {
                if before != Some(&conflict.manager) {
                    lines.push(format!("conflicts with {}:", conflict.manager.display(None)));
                    before = Some(&conflict.manager);
                }
                lines.push(format!("- {}", cause.field));
            }
            format!("Apply failed with {} conflicts: {}", causes.len(), lines.join("\n"))
        }
    };
    ApplyError { status: 409, reason: "Conflict", message, causes }
}

#[cfg(test)]
mod tests;
