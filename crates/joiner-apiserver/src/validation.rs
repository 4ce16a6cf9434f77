//! Rules of objects that are checked on the way in.
//!
//! What every object has is judged by [`metadata`] and [`names`], built-in kinds by the modules of their rules, custom ones by their
//! schema. Every fault is told, in the words of Kubernetes.

mod addresses;
mod autoscalers;
mod claims;
mod containers;
mod events;
mod handlers;
mod ingresses;
mod jobs;
mod limits;
mod line_difference;
mod metadata;
mod names;
mod network_policies;
mod nodes;
mod persistent_volumes;
mod place;
mod pods;
mod resources;
mod roles;
mod schedules;
mod scheduling;
mod selectors;
mod services;
mod settings;
mod storage_classes;
mod variables;
mod volumes;
mod workloads;

use serde_json::Value;

use self::place::Place;
use crate::crd::Definition;
use crate::resources::Resource;
use crate::rest::Cause;

pub(crate) use names::{label_key_breaks, label_value_breaks};

const RBAC: &str = "rbac.authorization.k8s.io";

/// What is wrong with a new object.
pub(crate) fn on_create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = names::check(resource, object);
    causes.extend(metadata::check(resource, object));
    match &resource.custom {
        Some(_) => causes.extend(custom_rules(resource, object, None)),
        None => causes.extend(kind_rules(resource, object)),
    }
    if resource.is("apps", "statefulsets") {
        causes.extend(workloads::on_stateful_set_create(object));
    }
    if resource.is("", "nodes") {
        nodes::amounts(object, &mut causes);
    }
    if resource.is("batch", "cronjobs") {
        causes.extend(schedules::on_create(object));
    }
    if resource.is("events.k8s.io", "events") {
        events::strictly(object, &mut causes);
    }
    if resource.is("networking.k8s.io", "ingresses") {
        causes.extend(ingresses::on_create(object));
    }
    if resource.is("", "pods") && object["spec"].get("ephemeralContainers").is_some() {
        causes.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if resource.is("", "pods")
        && !place::text(&object["spec"]["nodeName"]).is_empty()
        && !place::list(&object["spec"]["schedulingGates"]).is_empty()
    {
        let detail = "cannot be set until all schedulingGates have been cleared";
        causes.push(Cause::forbidden("spec.nodeName", detail));
    }
    causes
}

/// What is wrong with a changed object.
pub(crate) fn on_update(resource: &Resource, old: &Value, new: &Value, subresource: &str) -> Vec<Cause> {
    let mut causes = metadata::check(resource, new);
    causes.extend(metadata::check_new_finalizers(old, new));
    if resource.custom.is_some() {
        causes.extend(custom_rules(resource, new, Some(old)));
        return causes;
    }
    if subresource == "status" {
        if resource.is("", "nodes") {
            nodes::amounts(new, &mut causes);
        }
        return causes;
    }
    causes.extend(kind_rules(resource, new));
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") if subresource.is_empty() => causes.extend(pods::on_update(old, new)),
        ("", "pods") if subresource == "ephemeralcontainers" => {
            causes.extend(pods::on_ephemeral_update(old, new));
        }
        ("", "nodes") => causes.extend(nodes::on_update(old, new)),
        ("batch", "cronjobs") => causes.extend(schedules::on_update(old, new)),
        ("", "configmaps" | "secrets") => causes.extend(settings::on_update(old, new)),
        ("", "services") => causes.extend(services::on_update(old, new)),
        ("", "persistentvolumeclaims") => causes.extend(claims::on_update(old, new)),
        ("", "persistentvolumes") => causes.extend(persistent_volumes::on_update(old, new)),
        ("", "resourcequotas") => causes.extend(limits::on_quota_update(old, new)),
        ("storage.k8s.io", "storageclasses") => causes.extend(storage_classes::on_update(old, new)),
        (RBAC, "rolebindings" | "clusterrolebindings") => causes.extend(roles::on_binding_update(old, new)),
        ("networking.k8s.io", "ingressclasses") => causes.extend(ingresses::on_class_update(old, new)),
        ("apps", "deployments" | "replicasets" | "daemonsets") | ("batch", "jobs") => {
            let selector = &new["spec"]["selector"];
            if *selector != old["spec"]["selector"] {
                causes.push(Cause::invalid("spec.selector", selector, "field is immutable"));
            }
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            causes.extend(definition_on_update(old, new));
        }
        ("events.k8s.io", "events") => events::on_update(old, new, &mut causes),
        ("scheduling.k8s.io", "priorityclasses") if old["value"] != new["value"] => {
            causes.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        _ => {}
    }
    causes
}

/// Rules that hold for new and for changed objects alike.
fn kind_rules(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pods::check(&object["spec"], Place::Start("spec"), &mut causes),
        ("", "nodes") => nodes::check(object, &mut causes),
        ("apps", "deployments") => workloads::deployment(object, &mut causes),
        ("apps", "replicasets") => workloads::replica_set(object, &mut causes),
        ("apps", "daemonsets") => workloads::daemon_set(object, &mut causes),
        ("apps", "statefulsets") => workloads::stateful_set(object, &mut causes),
        ("batch", "jobs") => workloads::job(&object["spec"], Place::Start("spec"), true, &mut causes),
        ("batch", "cronjobs") => workloads::cron_job(object, &mut causes),
        ("policy", "poddisruptionbudgets") => workloads::budget(object, &mut causes),
        ("scheduling.k8s.io", "priorityclasses") => workloads::priority_class(object, &mut causes),
        ("apiextensions.k8s.io", "customresourcedefinitions") => return definition(object),
        _ => other_kind_rules(resource, object, &mut causes),
    }
    causes
}

/// The same for kinds that have no pods.
fn other_kind_rules(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "services") => services::check(object, causes),
        ("", "configmaps") => settings::config_map(object, causes),
        ("", "secrets") => settings::secret(object, causes),
        ("", "persistentvolumeclaims") => claims::check(object, causes),
        ("", "persistentvolumes") => persistent_volumes::check(object, causes),
        ("", "limitranges") => limits::range(object, causes),
        ("", "resourcequotas") => limits::quota(object, causes),
        ("coordination.k8s.io", "leases") => limits::lease(object, causes),
        ("storage.k8s.io", "storageclasses") => storage_classes::check(object, causes),
        (RBAC, "roles" | "clusterroles") => roles::role(object, resource.namespaced, causes),
        (RBAC, "rolebindings" | "clusterrolebindings") => {
            roles::binding(object, resource.namespaced, causes);
        }
        // Metrics of the older version lie in annotations.
        ("autoscaling", "horizontalpodautoscalers") if resource.version != "v1" => {
            autoscalers::check(object, causes);
        }
        ("networking.k8s.io", "ingresses") => ingresses::check(object, causes),
        ("networking.k8s.io", "ingressclasses") => ingresses::class(object, causes),
        ("networking.k8s.io", "networkpolicies") => network_policies::check(object, causes),
        ("" | "events.k8s.io", "events") => events::check(resource, object, causes),
        _ => {}
    }
}

fn definition(object: &Value) -> Vec<Cause> {
    let mut causes: Vec<Cause> = match Definition::read(object) {
        Ok(_) => Vec::new(),
        Err(causes) => causes.into_iter().map(Cause::from).collect(),
    };
    let stored = object["status"].get("storedVersions").unwrap_or(&Value::Null);
    if stored.as_array().is_none_or(Vec::is_empty) {
        let detail = "must have at least one stored version";
        causes.push(Cause::invalid("status.storedVersions", stored, detail));
    }
    causes
}

/// What of a definition may not change, once it is served.
fn definition_on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut fixed = vec![("/spec/group", "spec.group"), ("/spec/names/plural", "spec.names.plural")];
    let established = place::list(&old["status"]["conditions"])
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    if established {
        fixed.extend([("/spec/scope", "spec.scope"), ("/spec/names/kind", "spec.names.kind")]);
    }
    for (pointer, field) in fixed {
        let value = new.pointer(pointer).unwrap_or(&Value::Null);
        if Some(value) != old.pointer(pointer) {
            causes.push(Cause::invalid(field, value, "field is immutable"));
        }
    }
    causes
}

/// The schema of a custom resource judges its objects.
fn custom_rules(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let schema = resource.custom.as_ref().and_then(|custom| custom.schema());
    schema
        .map(|schema| schema.validate(object, old))
        .unwrap_or_default()
        .into_iter()
        .map(Cause::from)
        .collect()
}
