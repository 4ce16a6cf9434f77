//! Custom resource definitions: a write to one changes what resources there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::Core;
use super::metadata::{finalizers, is_deleting, map_of, meta_text, set_meta, text_at};
use crate::crd::{Definition, Structural};
use crate::resources::{Resource, Resources, Subresource};
use crate::store::{ResourceName, Session, Stored};
use crate::table::{Path, age_of};

/// What a definition says about one version of its resource.
#[derive(Debug)]
pub struct CustomKind {
    /// The definition, as far as it is about objects.
    definition: Arc<Definition>,
    /// The version of this resource.
    version: String,
    /// No other definition that was ever read has this number.
    mark: u64,
    /// The version of the definition that was read.
    revision: u64,
    /// Fields that field selectors may name.
    pub selectable: Vec<String>,
    /// Where `scale` finds wanted and present replicas and the selector.
    pub scale: Option<(String, String, Option<String>)>,
    /// The schema as it was written, for OpenAPI documents.
    pub openapi: Value,
    /// Columns for tables.
    pub columns: Vec<PrinterColumn>,
    /// What to tell those who use this version, if they should not.
    pub deprecation: Option<String>,
}

/// A column of the tables of a custom resource.
#[derive(Clone, Debug)]
pub struct PrinterColumn {
    name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    kind: String,
    format: String,
    description: String,
    /// Columns above 0 are for wide output.
    priority: i64,
    /// Where the value is; nothing for a path that is not understood.
    path: Option<Path>,
}

impl PrinterColumn {
    fn cell(&self, object: &Value, now: jiff::Timestamp) -> Value {
        let Some(value) = self.path.as_ref().and_then(|path| path.first(object)) else { return Value::Null };
        match self.kind.as_str() {
            "date" => value.as_str().map_or(Value::Null, |moment| age_of(moment, now).into()),
            "integer" | "number" if value.is_number() => value.clone(),
            "boolean" if value.is_boolean() => value.clone(),
            "string" => match value {
                Value::String(text) => text.clone().into(),
                other => other.to_string().into(),
            },
            _ => Value::Null,
        }
    }
}

impl CustomKind {
    /// The schema of its objects.
    pub(crate) fn schema(&self) -> Option<&Structural> {
        self.definition.version(&self.version)
    }

    /// The number of this reading of the definition.
    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// The headings of its tables.
    pub(crate) fn headings(&self) -> Vec<Value> {
        let heading = |name: &str, kind: &str, format: &str, description: &str, priority: i64| json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority});
        let mut headings =
            vec![heading("Name", "string", "name", "The name, unique among objects of the kind.", 0)];
        if self.columns.is_empty() {
            headings.push(heading("Age", "date", "", "The time since the object was created.", 0));
        }
        headings.extend(self.columns.iter().map(|column| {
            heading(&column.name, &column.kind, &column.format, &column.description, column.priority)
        }));
        headings
    }

    /// The row of an object.
    pub(crate) fn cells(&self, object: &Value, now: jiff::Timestamp) -> Vec<Value> {
        let mut cells = vec![Value::from(meta_text(object, "name"))];
        if self.columns.is_empty() {
            cells.push(age_of(meta_text(object, "creationTimestamp"), now).into());
        }
        cells.extend(self.columns.iter().map(|column| column.cell(object, now)));
        cells
    }
}

/// How many definitions were read so far.
static READ: AtomicU64 = AtomicU64::new(0);

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.is("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Registers the resources of a definition that was written, and establishes a new one unless its names are taken.
pub(crate) fn after_write(core: &Core, session: &mut Session<'_>, resource: &Resource, definition: &Stored) {
    // Other objects need not be looked into.
    if !is_definition(resource) {
        return;
    }
    if !is_deleting(definition) {
        let name = meta_text(definition, "name");
        settle_names(core, session, &resource.stored_as, name);
    }
    refresh(core, session, &resource.stored_as);
}

/// Decides again which names a definition gets.
fn settle_names(core: &Core, session: &mut Session<'_>, definitions: &ResourceName, name: &str) {
    let all = session.list(definitions, None, None).into_iter().map(|(_, definition)| definition);
    let (own, others): (Vec<_>, Vec<_>) = all.partition(|definition| meta_text(definition, "name") == name);
    for definition in own {
        let group = &definition["spec"]["group"];
        let others: Vec<_> = others.iter().filter(|other| other["spec"]["group"] == *group).collect();
        let mut new = definition.to_value();
        accept_names(core, &mut new, &others);
        if new != *definition {
            session.put(definitions, "", name, new);
        }
    }
}

/// Names that another definition of the group has are not given twice. Those that are free are accepted one by one.
fn accept_names(core: &Core, definition: &mut Value, others: &[&Stored]) {
    let taken = |fields: &[&str]| -> Vec<String> {
        let names = others.iter().map(|other| &other["status"]["acceptedNames"]);
        names
            .flat_map(|names| {
                fields.iter().flat_map(|field| match &names[*field] {
                    Value::Array(list) => list.clone(),
                    other => vec![other.clone()],
                })
            })
            .filter_map(|name| name.as_str().filter(|name| !name.is_empty()).map(str::to_owned))
            .collect()
    };
    let resources = taken(&["plural", "singular", "shortNames"]);
    let kinds = taken(&["kind", "listKind"]);
    let wanted = definition["spec"]["names"].clone();
    let before = definition["status"]["acceptedNames"].clone();
    let mut accepted = json!({});
    let mut conflict: Option<(&str, String)> = None;
    for (field, reason, taken) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("shortNames", "ShortNamesConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        let names: Vec<&str> = match &wanted[field] {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            other => other.as_str().into_iter().filter(|name| !name.is_empty()).collect(),
        };
        let doubled = names.iter().filter(|name| taken.iter().any(|other| other == *name));
        let doubled: Vec<String> = doubled.map(|name| format!("{name:?} is already in use")).collect();
        let value = if doubled.is_empty() { wanted.get(field) } else { before.get(field) };
        if let (Some(value), false) = (value, names.is_empty()) {
            accepted[field] = value.clone();
        }
        match doubled.as_slice() {
            [] => {}
            [only] => conflict = Some((reason, only.clone())),
            _ => conflict = Some((reason, format!("[{}]", doubled.join(", ")))),
        }
    }
    if let Some(categories) = wanted.get("categories") {
        accepted["categories"] = categories.clone();
    }
    for required in ["plural", "kind"] {
        if accepted.get(required).is_none() {
            accepted[required] = "".into();
        }
    }
    definition["status"]["acceptedNames"] = accepted;
    let established = has_condition(definition, "Established");
    match conflict {
        Some((reason, message)) => {
            set_condition(core, definition, "NamesAccepted", "False", reason, &message);
            if !established {
                let message = "not all names are accepted";
                set_condition(core, definition, "Established", "False", "NotAccepted", message);
            }
        }
        None => {
            set_condition(core, definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found");
            if !established {
                let message = "the initial names have been accepted";
                set_condition(core, definition, "Established", "True", "InitialNamesAccepted", message);
            }
        }
    }
}

fn has_condition(definition: &Value, kind: &str) -> bool {
    definition["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
    })
}

/// Holds a definition that is to be deleted until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Begins the end of a definition: it says so, its objects are deleted, and when none is left it goes too. Returns it as it was when it
/// said so.
pub(crate) fn begin_end(
    core: &Core,
    session: &mut Session<'_>,
    resource: &Arc<Resource>,
    definition: &Stored,
    dry_run: bool,
) -> Stored {
    let mut new = definition.to_value();
    set_meta(&mut new, "deletionTimestamp", Some(core.now().into()));
    let mut finalizers: Vec<&str> = finalizers(definition);
    if !finalizers.contains(&CLEANUP) {
        finalizers.push(CLEANUP);
    }
    set_meta(&mut new, "finalizers", Some(json!(finalizers)));
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(core, &mut new, "Terminating", "True", "InstanceDeletionPending", message);
    if dry_run {
        return Stored::shown(&resource.stored_as, new);
    }
    let stored = session.put(&resource.stored_as, "", meta_text(definition, "name"), new);
    for (_, object) in session.list(&stored_by(&stored), None, None) {
        let kind = core.custom.lock().all().find(|kind| kind.stored_as == stored_by(&stored)).cloned();
        if let Some(kind) = kind {
            // What its finalizers hold goes when they let go.
            let _ = super::delete_object(core, session, &kind, &object, &super::DeleteOptions::default());
        }
    }
    go_on(core, session, &resource.stored_as, meta_text(&stored, "name"));
    stored
}

/// Removes a definition on its way out if none of its objects is left.
fn go_on(core: &Core, session: &mut Session<'_>, definitions: &ResourceName, name: &str) {
    let Some(definition) = session.get(definitions, "", name).filter(|definition| is_deleting(definition))
    else {
        return;
    };
    if !session.list(&stored_by(&definition), None, None).is_empty() {
        return;
    }
    let rest: Vec<&str> = finalizers(&definition).into_iter().filter(|name| *name != CLEANUP).collect();
    if rest.is_empty() {
        session.remove(definitions, "", name);
        release_names(core, session, definitions);
    } else if rest.len() < finalizers(&definition).len() {
        let mut new = Value::clone(&definition);
        set_meta(&mut new, "finalizers", Some(json!(rest)));
        let reason = "InstanceDeletionCompleted";
        set_condition(core, &mut new, "Terminating", "False", reason, "removed all instances");
        session.put(definitions, "", name, new);
    }
    refresh(core, session, definitions);
}

fn stored_by(definition: &Value) -> ResourceName {
    ResourceName::new(text_at(definition, "spec.group"), text_at(definition, "spec.names.plural"))
}

/// Takes away the resources of a definition that is gone, and their objects; a definition may go with the last of its objects.
pub(crate) fn after_removal(core: &Core, session: &mut Session<'_>, resource: &Resource, gone: &Value) {
    if resource.custom.is_some() {
        let definitions = ResourceName::new("apiextensions.k8s.io", "customresourcedefinitions");
        go_on(core, session, &definitions, &resource.qualified());
        return;
    }
    if !is_definition(resource) {
        return;
    }
    for (_, object) in session.list(&stored_by(gone), None, None) {
        session.remove(&stored_by(gone), meta_text(&object, "namespace"), meta_text(&object, "name"));
    }
    release_names(core, session, &resource.stored_as);
    refresh(core, session, &resource.stored_as);
}

/// Names of a definition that is gone are free for those that wait for them.
fn release_names(core: &Core, session: &mut Session<'_>, definitions: &ResourceName) {
    for (_, other) in session.list(definitions, None, None) {
        if !has_condition(&other, "NamesAccepted") {
            settle_names(core, session, definitions, meta_text(&other, "name"));
        }
    }
}

/// Sets a condition; its time moves when its status does.
fn set_condition(core: &Core, definition: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let conditions = map_of(&mut definition["status"]).entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    let mut new = json!({"type": kind, "status": status, "lastTransitionTime": core.now(), "reason": reason, "message": message});
    match list.iter_mut().find(|condition| condition["type"] == kind) {
        Some(present) => {
            if present["status"] == status {
                new["lastTransitionTime"] = present["lastTransitionTime"].clone();
            }
            *present = new;
        }
        None => list.push(new),
    }
}

/// Reads all definitions that have changed.
pub(crate) fn refresh(core: &Core, session: &Session<'_>, definitions: &ResourceName) {
    let known = core.custom.lock().clone();
    let mut all = Resources::default();
    for (_, definition) in session.list(definitions, None, None) {
        if !has_condition(&definition, "Established") {
            continue;
        }
        let revision = definition.object().revision();
        let is_same = |resource: &&Arc<Resource>| {
            resource.custom.as_ref().is_some_and(|custom| custom.revision == revision)
        };
        if known.all().any(|resource| is_same(&resource)) {
            // Versions come in the order of the definition, which is not that of their names.
            let group = text_at(&definition, "spec.group");
            for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
                let resources = known.of(group, text_at(version, "name")).into_iter().flatten();
                resources.filter(is_same).for_each(|resource| all.add(resource.clone()));
            }
            continue;
        }
        // Only definitions that can be read were stored.
        let Ok(parsed) = Definition::read(&definition) else { continue };
        for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
            if version["served"] == true {
                all.add(Arc::new(resource_of(&definition, version, &parsed)));
            }
        }
    }
    *core.custom.lock() = Arc::new(all);
}

fn resource_of(definition: &Stored, version: &Value, parsed: &Arc<Definition>) -> Resource {
    let text = |path: &str| text_at(definition, path).to_owned();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let names = &definition["spec"]["names"];
    let (group, plural, kind) = (text("spec.group"), text("spec.names.plural"), text("spec.names.kind"));
    let declared = &version["subresources"];
    let verbs = || ["get", "patch", "update"].map(str::to_owned).to_vec();
    let mut subresources = Vec::new();
    if declared.get("status").is_some() {
        subresources.push(Subresource {
            name: "status".to_owned(),
            kind: (String::new(), String::new(), kind.clone()),
            verbs: verbs(),
        });
    }
    let path = |value: &Value| value.as_str().unwrap_or_default().trim_start_matches('.').to_owned();
    let scale = declared.get("scale").map(|scale| {
        subresources.push(Subresource {
            name: "scale".to_owned(),
            kind: ("autoscaling".to_owned(), "v1".to_owned(), "Scale".to_owned()),
            verbs: verbs(),
        });
        let selector = scale.get("labelSelectorPath").map(path);
        (path(&scale["specReplicasPath"]), path(&scale["statusReplicasPath"]), selector)
    });
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let columns = list(&version["additionalPrinterColumns"]).into_iter().map(|column| PrinterColumn {
        name: text_at(&column, "name").to_owned(),
        kind: text_at(&column, "type").to_owned(),
        format: text_at(&column, "format").to_owned(),
        description: text_at(&column, "description").to_owned(),
        priority: column["priority"].as_i64().unwrap_or(0),
        path: Path::parse(text_at(&column, "jsonPath")),
    });
    let deprecation = (version["deprecated"] == true).then(|| match version["deprecationWarning"].as_str() {
        Some(warning) => warning.to_owned(),
        None => format!("{group}/{} {kind} is deprecated", text_at(version, "name")),
    });
    let custom = CustomKind {
        deprecation,
        definition: parsed.clone(),
        mark: READ.fetch_add(1, Ordering::Relaxed) + 1,
        revision: definition.object().revision(),
        version: text_at(version, "name").to_owned(),
        selectable: list(&version["selectableFields"]).iter().map(|field| path(&field["jsonPath"])).collect(),
        scale,
        openapi: version["schema"]["openAPIV3Schema"].clone(),
        columns: columns.collect(),
    };
    let list_kind = match text("spec.names.listKind") {
        name if name.is_empty() => format!("{kind}List"),
        name => name,
    };
    Resource {
        stored_as: ResourceName::new(&group, &plural),
        group,
        version: text_at(version, "name").to_owned(),
        singular: text("spec.names.singular"),
        list_kind,
        namespaced: definition["spec"]["scope"] == "Namespaced",
        verbs: VERBS.map(str::to_owned).to_vec(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        subresources,
        plural,
        kind,
        custom: Some(Arc::new(custom)),
    }
}
