//! Tables: what `kubectl get` prints.

mod age;
mod jsonpath;
mod pods;
mod settings;
mod workloads;

use std::borrow::Borrow;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resources::Resource;
use crate::rest::meta_text;

pub(crate) use age::{age_of, human};
pub(crate) use jsonpath::Path;

/// How much of an object its row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    Nothing,
    /// What and which it is.
    Metadata,
    /// All of it.
    Object,
}

impl Include {
    /// Refuses values of the parameter `includeObject` that mean nothing.
    pub(crate) fn check(text: Option<&str>) -> Result<(), String> {
        match text {
            None | Some("None" | "Metadata" | "Object") => Ok(()),
            Some(other) => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', \
                 'None', or empty"
            )),
        }
    }

    /// The meaning of the parameter `includeObject`.
    pub fn from_query(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::Nothing,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// A heading: name, type, format, priority (above 0 for wide output), meaning.
pub(crate) struct Column {
    name: String,
    kind: &'static str,
    format: &'static str,
    priority: i64,
    description: String,
}

fn column(name: &str, kind: &'static str, priority: i64, description: &str) -> Column {
    Column { name: name.to_owned(), kind, format: "", priority, description: description.to_owned() }
}

fn text(name: &str, description: &str) -> Column {
    column(name, "string", 0, description)
}

fn wide(name: &str, description: &str) -> Column {
    column(name, "string", 1, description)
}

fn integer(name: &str, description: &str) -> Column {
    column(name, "integer", 0, description)
}

fn name_column() -> Column {
    Column { format: "name", ..text("Name", "The name, unique among objects of the kind in a namespace.") }
}

fn age_column() -> Column {
    text("Age", "The time since the object was created.")
}

/// How objects of one resource become rows.
pub(crate) struct Layout {
    columns: Vec<Column>,
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

fn layout(columns: Vec<Column>, cells: fn(&Value, Timestamp) -> Vec<Value>) -> Layout {
    Layout { columns, cells }
}

fn layout_of(resource: &Resource) -> Layout {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pods::pods(),
        ("", "nodes") => workloads::nodes(),
        ("", "configmaps") => layout(
            vec![name_column(), text("Data", "How many entries there are."), age_column()],
            |object, now| {
                vec![
                    name(object),
                    (count(&object["data"]) + count(&object["binaryData"])).into(),
                    age(object, now),
                ]
            },
        ),
        ("", "secrets") => layout(
            vec![
                name_column(),
                text("Type", "The type of the secret."),
                text("Data", "How many entries there are."),
                age_column(),
            ],
            |object, now| {
                vec![name(object), string(&object["type"]), count(&object["data"]).into(), age(object, now)]
            },
        ),
        ("", "serviceaccounts") => {
            layout(vec![name_column(), age_column()], |object, now| vec![name(object), age(object, now)])
        }
        ("", "namespaces") => layout(
            vec![name_column(), text("Status", "The phase of the namespace."), age_column()],
            |object, now| vec![name(object), string(&object["status"]["phase"]), age(object, now)],
        ),
        ("" | "events.k8s.io", "events") => workloads::events(),
        ("", "services") => workloads::services(),
        ("", "persistentvolumeclaims") => workloads::claims(),
        ("", "persistentvolumes") => workloads::volumes(),
        ("apps", "deployments") => workloads::deployments(),
        ("apps", "replicasets") => workloads::replica_sets(),
        ("apps", "daemonsets") => workloads::daemon_sets(),
        ("apps", "statefulsets") => workloads::stateful_sets(),
        ("batch", "jobs") => workloads::jobs(),
        ("batch", "cronjobs") => workloads::cron_jobs(),
        ("policy", "poddisruptionbudgets") => workloads::budgets(),
        ("scheduling.k8s.io", "priorityclasses") => layout(
            vec![
                name_column(),
                integer("Value", "The priority of pods of this class."),
                column("Global-Default", "boolean", 0, "Whether pods without a class get this one."),
                age_column(),
                text("PreemptionPolicy", "Whether pods of this class displace others."),
            ],
            |object, now| {
                let default = object["globalDefault"].as_bool().unwrap_or(false);
                vec![
                    name(object),
                    object["value"].clone(),
                    default.into(),
                    age(object, now),
                    string(&object["preemptionPolicy"]),
                ]
            },
        ),
        ("storage.k8s.io", "storageclasses") => workloads::storage_classes(),
        ("coordination.k8s.io", "leases") => layout(
            vec![name_column(), text("Holder", "Who holds the lease."), age_column()],
            |object, now| vec![name(object), string(&object["spec"]["holderIdentity"]), age(object, now)],
        ),
        ("autoscaling", "horizontalpodautoscalers") => settings::autoscalers(),
        ("", "resourcequotas") => settings::quotas(),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => settings::role_bindings(),
        ("storage.k8s.io", "csinodes") => settings::csi_nodes(),
        ("node.k8s.io", "runtimeclasses") => settings::runtime_classes(),
        ("networking.k8s.io", "networkpolicies") => settings::network_policies(),
        ("apps", "controllerrevisions") => settings::controller_revisions(),
        _ => layout(
            vec![name_column(), column("Created At", "date", 0, "When the object was created.")],
            |object, _| vec![name(object), string(&object["metadata"]["creationTimestamp"])],
        ),
    }
}

/// A table of objects. Its metadata is the caller's.
pub(crate) fn table<V: Borrow<Value>>(
    resource: &Resource,
    objects: impl Iterator<Item = V>,
    now: Timestamp,
    include: Include,
    version: &str,
) -> Value {
    let row = |cells: Vec<Value>, object: &Value| match include {
        Include::Nothing => json!({"cells": cells, "object": null}),
        Include::Metadata => json!({"cells": cells, "object": crate::rest::metadata_only(object)}),
        Include::Object => json!({"cells": cells, "object": object}),
    };
    let (columns, rows): (Vec<Value>, Vec<Value>) = match &resource.custom {
        Some(custom) => {
            let rows = objects.map(|object| row(custom.cells(object.borrow(), now), object.borrow()));
            (custom.headings(), rows.collect())
        }
        None => {
            let layout = layout_of(resource);
            let rows = objects.map(|object| row((layout.cells)(object.borrow(), now), object.borrow()));
            let rows = rows.collect();
            (layout.columns.iter().map(heading).collect(), rows)
        }
    };
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": {}, "columnDefinitions": columns, "rows": rows})
}

fn heading(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

fn name(object: &Value) -> Value {
    meta_text(object, "name").into()
}

fn age(object: &Value, now: Timestamp) -> Value {
    age_of(meta_text(object, "creationTimestamp"), now).into()
}

fn string(value: &Value) -> Value {
    value.as_str().unwrap_or_default().into()
}

fn count(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// A text, or what stands for none.
fn or(value: &Value, none: &str) -> Value {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(none).into()
}
