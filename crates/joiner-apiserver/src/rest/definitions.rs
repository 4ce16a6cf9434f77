//! Custom resource definitions: a write to one changes what resources there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::Core;
use super::metadata::{is_deleting, meta_text, text_at};
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

fn is_definition(resource: &Resource) -> bool {
    resource.is("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Registers the resources of a definition that was written, and establishes a new one.
pub(crate) fn after_write(core: &Core, session: &mut Session<'_>, resource: &Resource, definition: &Value) {
    if !is_definition(resource) {
        return;
    }
    let established = definition["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    });
    if !established && !is_deleting(definition) {
        let now = core.now();
        let mut new = definition.clone();
        let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
        new["status"]["conditions"] = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ]);
        new["status"]["acceptedNames"] = new["spec"]["names"].clone();
        session.put(&resource.stored_as, "", meta_text(definition, "name"), new);
    }
    refresh(core, session, &resource.stored_as);
}

/// Takes away the resources of a definition that is gone, and their objects.
pub(crate) fn after_removal(core: &Core, session: &mut Session<'_>, resource: &Resource, definition: &Value) {
    if !is_definition(resource) {
        return;
    }
    let stored_as =
        ResourceName::new(text_at(definition, "spec.group"), text_at(definition, "spec.names.plural"));
    for (_, object) in session.list(&stored_as, None, None) {
        session.remove(&stored_as, meta_text(&object, "namespace"), meta_text(&object, "name"));
    }
    refresh(core, session, &resource.stored_as);
}

/// Reads all definitions that have changed.
pub(crate) fn refresh(core: &Core, session: &Session<'_>, definitions: &ResourceName) {
    let known = core.custom.lock().clone();
    let mut all = Resources::default();
    for (_, definition) in session.list(definitions, None, None) {
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
        let Ok(parsed) = Definition::parse(&definition) else { continue };
        let parsed = Arc::new(parsed);
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
    let custom = CustomKind {
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
