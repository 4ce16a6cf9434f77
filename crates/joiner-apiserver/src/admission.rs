//! What a cluster with its default settings adds to objects on the way in, or refuses.

mod amounts;
mod limit_ranges;
mod pods;
mod quality;
pub(crate) mod quotas;
pub(crate) mod services;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::resources::Resource;
use crate::rest::{Core, Failure, meta_mut, meta_text};
use crate::store::{Listed, ResourceName, Session, Stored};

/// The namespace of a new object must exist and must not be on its way out.
pub(crate) fn namespace_of_new(
    session: &Session<'_>,
    resource: &Resource,
    namespace: &str,
    object: &Value,
) -> Result<(), Failure> {
    if !resource.namespaced {
        return Ok(());
    }
    static NAMESPACES: LazyLock<ResourceName> = LazyLock::new(|| ResourceName::new("", "namespaces"));
    let Some(found) = session.get(&NAMESPACES, "", namespace) else {
        let message = format!("namespaces {namespace:?} not found");
        let details = json!({"name": namespace, "kind": "namespaces"});
        return Err(Failure::new(404, "NotFound", message).with_details(details));
    };
    if !found.object().is_deleting() {
        return Ok(());
    }
    let name = meta_text(object, "name");
    let message =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut failure = Failure::forbidden(resource, name, &message);
    if let Some(details) = &mut failure.details {
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
    }
    Err(failure)
}

/// What of the cluster counts for a new object. It is looked up apart, so that nobody else waits while the object is admitted.
#[derive(Default)]
pub(crate) struct Around {
    pod: pods::Around,
    /// The default one, for a claim.
    storage_class: Option<Stored>,
    /// Those of the namespace, for a pod or a claim.
    limit_ranges: Listed,
}

impl Around {
    pub(crate) fn look(session: &Session<'_>, resource: &Resource, object: &Value) -> Self {
        let limit_ranges = || limit_ranges::of_namespace(session, meta_text(object, "namespace"));
        if resource.is("", "pods") {
            let pod = pods::Around::look(session, object);
            Self { pod, limit_ranges: limit_ranges(), ..Self::default() }
        } else if resource.is("", "persistentvolumeclaims") {
            let storage_class = default_storage_class(session);
            Self { storage_class, limit_ranges: limit_ranges(), ..Self::default() }
        } else {
            Self::default()
        }
    }
}

/// A new object.
pub(crate) fn on_create(
    core: &Core,
    around: &Around,
    resource: &Resource,
    object: &mut Value,
) -> Result<(), Failure> {
    if resource.custom.is_some() {
        return Ok(());
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => {
            limit_ranges::fill(&around.limit_ranges, object);
            pods::on_create(core, &around.pod, resource, object)?;
        }
        ("", "nodes") => not_ready_taint(object),
        ("", "persistentvolumeclaims") => {
            add_finalizer(object, "kubernetes.io/pvc-protection");
            if object["spec"].get("storageClassName").is_none()
                && let Some(class) = &around.storage_class
            {
                object["spec"]["storageClassName"] = meta_text(class, "name").into();
            }
            data_sources(&mut object["spec"]);
        }
        ("coordination.k8s.io", "leases") => plain_lease(object),
        ("", "persistentvolumes") => {
            add_finalizer(object, "kubernetes.io/pv-protection");
            object["status"]["lastPhaseTransitionTime"] = core.now().into();
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => stored_version(object),
        ("", "namespaces") => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
            name_label(object);
        }
        _ => {}
    }
    Ok(())
}

/// A new object that was found to be right.
///
/// # Errors
/// It asks for less or more than is allowed.
pub(crate) fn check_new(around: &Around, resource: &Resource, object: &Value) -> Result<(), Failure> {
    limit_ranges::check(&around.limit_ranges, resource, object)
}

/// A changed object.
pub(crate) fn on_update(resource: &Resource, old: &Value, new: &mut Value, subresource: &str) {
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        stored_version(new);
    }
    if resource.is("", "namespaces") {
        if subresource != "finalize" {
            // The finalizers of the spec change only through their own subresource.
            new["spec"] = old["spec"].clone();
        }
        name_label(new);
    }
}

/// An object that is to be deleted.
pub(crate) fn on_delete(resource: &Resource, object: &Value) -> Result<(), Failure> {
    let name = meta_text(object, "name");
    if resource.is("", "namespaces") && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(Failure::forbidden(resource, name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// A definition remembers the versions in which objects may have been stored.
fn stored_version(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let Some(name) =
        versions.filter(|version| version["storage"] == true).find_map(|version| version["name"].as_str())
    else {
        return;
    };
    let name = json!(name);
    let stored = &mut definition["status"]["storedVersions"];
    match stored.as_array_mut() {
        Some(stored) if stored.contains(&name) => {}
        Some(stored) => stored.push(name),
        None => *stored = json!([name]),
    }
}

/// Nothing is scheduled to a node before its controller has seen it.
fn not_ready_taint(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    let taints = &mut node["spec"]["taints"];
    if !taints.is_array() {
        *taints = json!([]);
    }
    if let Some(taints) = taints.as_array_mut() {
        let present = taints.iter().any(|taint| taint["key"] == KEY && taint["effect"] == "NoSchedule");
        if !present {
            taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
        }
    }
}

/// The two ways to say where a claim takes its content from say the same. What cannot be such a source is passed over.
fn data_sources(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    let possible = |source: &Value| {
        let group = source["apiGroup"].as_str().unwrap_or_default();
        let kind = source["kind"].as_str().unwrap_or_default();
        matches!((group, kind), ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot"))
    };
    if spec.get("dataSource").is_some_and(|source| !possible(source)) {
        spec.remove("dataSource");
    }
    let reference = spec.get("dataSourceRef").cloned();
    match (spec.get("dataSource").cloned(), reference) {
        (Some(source), None) => {
            spec.insert("dataSourceRef".to_owned(), source);
        }
        (None, Some(source)) if possible(&source) && source.get("namespace").is_none() => {
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

/// Leases chosen among candidates are a feature that is off: what asks for it is passed over.
fn plain_lease(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("strategy");
        spec.remove("preferredHolder");
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    let list = meta_mut(object).entry("finalizers").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|present| present == finalizer)
    {
        list.push(finalizer.into());
    }
}

fn name_label(namespace: &mut Value) {
    let name = meta_text(namespace, "name").to_owned();
    let labels = meta_mut(namespace).entry("labels").or_insert_with(|| json!({}));
    if !labels.is_object() {
        *labels = json!({});
    }
    labels["kubernetes.io/metadata.name"] = name.into();
}

/// A claim without a class takes the newest of the default ones.
fn default_storage_class(session: &Session<'_>) -> Option<Stored> {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let classes = session.list(&ResourceName::new("storage.k8s.io", "storageclasses"), None, None);
    classes
        .into_iter()
        .map(|(_, class)| class)
        .filter(|class| class["metadata"]["annotations"][DEFAULT] == "true")
        .max_by_key(|class| meta_text(class, "creationTimestamp").to_owned())
}
