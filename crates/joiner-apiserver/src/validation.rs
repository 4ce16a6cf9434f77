//! Rules of built-in kinds that are checked on the way in.
//!
//! Names and labels of everything; beyond that the rules that controllers and autoscalers run into: what of a pod, a node or a
//! workload may change, and what contradicts itself.

mod names;
mod nodes;
mod pods;

use serde_json::Value;

use crate::crd::Definition;
use crate::resources::Resource;
use crate::rest::{Cause, meta, meta_text};
use crate::selector::LabelSelector;

pub(crate) use names::{label_key_breaks, label_value_breaks};

/// What is wrong with a new object.
pub(crate) fn on_create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = names::check(resource, object);
    match &resource.custom {
        Some(_) => causes.extend(custom_rules(resource, object, None)),
        None => causes.extend(kind_rules(resource, object)),
    }
    causes
}

/// What is wrong with a changed object.
pub(crate) fn on_update(resource: &Resource, old: &Value, new: &Value, subresource: &str) -> Vec<Cause> {
    let mut causes = names::check_labels(new);
    causes.extend(new_finalizers(old, new));
    if resource.custom.is_some() {
        causes.extend(custom_rules(resource, new, Some(old)));
        return causes;
    }
    if subresource == "status" {
        return causes;
    }
    causes.extend(kind_rules(resource, new));
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") if subresource.is_empty() => causes.extend(pods::on_update(old, new)),
        ("", "nodes") => causes.extend(nodes::on_update(old, new)),
        ("", "configmaps" | "secrets") => causes.extend(immutable_content(old, new)),
        ("apps", "deployments" | "replicasets" | "daemonsets") | ("batch", "jobs") => {
            let selector = &new["spec"]["selector"];
            if *selector != old["spec"]["selector"] {
                causes.push(Cause::invalid("spec.selector", selector, "field is immutable"));
            }
        }
        ("scheduling.k8s.io", "priorityclasses") if old["value"] != new["value"] => {
            causes.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        _ => {}
    }
    causes
}

/// Rules that hold for new and for changed objects alike.
fn kind_rules(resource: &Resource, object: &Value) -> Vec<Cause> {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pods::check(&object["spec"], "spec"),
        ("", "nodes") => nodes::check(object),
        ("apps", _) => workload(object),
        ("batch", "jobs") => pods::check(&object["spec"]["template"]["spec"], "spec.template.spec"),
        ("policy", "poddisruptionbudgets") => budget(object),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition(object),
        _ => Vec::new(),
    }
}

fn workload(object: &Value) -> Vec<Cause> {
    let spec = &object["spec"];
    // Controller revisions are of the same group and have no pods.
    let Some(template) = spec.get("template") else { return Vec::new() };
    let mut causes = Vec::new();
    match LabelSelector::from_object(&spec["selector"]) {
        None => causes.push(Cause::required("spec.selector", "")),
        Some(selector) if selector.is_empty() => {
            let detail = "empty selector is invalid for deployment";
            causes.push(Cause::invalid("spec.selector", &spec["selector"], detail));
        }
        Some(selector) if !selector.matches(template) => {
            let labels = template["metadata"].get("labels").cloned().unwrap_or(Value::Null);
            let detail = "`selector` does not match template `labels`";
            causes.push(Cause::invalid("spec.template.metadata.labels", &labels, detail));
        }
        Some(_) => {}
    }
    causes.extend(pods::check(&template["spec"], "spec.template.spec"));
    causes
}

fn budget(object: &Value) -> Vec<Cause> {
    let spec = &object["spec"];
    if spec.get("minAvailable").is_none() || spec.get("maxUnavailable").is_none() {
        return Vec::new();
    }
    // Kubernetes shows the spec by the names of its fields in Go.
    let get = |field: &str| spec.get(field).cloned().unwrap_or(Value::Null);
    let shown = format!(
        "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
        get("minAvailable"),
        get("selector"),
        get("maxUnavailable"),
        get("unhealthyPodEvictionPolicy")
    );
    let message = format!("Invalid value: {shown}: minAvailable and maxUnavailable cannot be both set");
    vec![Cause { reason: "FieldValueInvalid".to_owned(), message, field: "spec".to_owned() }]
}

fn definition(object: &Value) -> Vec<Cause> {
    match Definition::parse(object) {
        Ok(_) => Vec::new(),
        Err(causes) => causes.into_iter().map(Cause::from).collect(),
    }
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

/// An object on its way out takes no new finalizers.
fn new_finalizers(old: &Value, new: &Value) -> Vec<Cause> {
    if meta_text(old, "deletionTimestamp").is_empty() {
        return Vec::new();
    }
    let list = |object: &Value| -> Vec<String> {
        let list = meta(object).and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let before = list(old);
    let added: Vec<String> =
        list(new).into_iter().filter(|name| !before.contains(name)).map(|name| format!("{name:?}")).collect();
    if added.is_empty() {
        return Vec::new();
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    // Both the common rules and those of the kind say so.
    vec![Cause::forbidden("metadata.finalizers", &detail); 2]
}

fn immutable_content(old: &Value, new: &Value) -> Vec<Cause> {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let mut causes = Vec::new();
    let detail = "field is immutable when `immutable` is set";
    if new.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(Cause::forbidden("immutable", detail));
    }
    for field in ["data", "binaryData"] {
        if old.get(field) != new.get(field) {
            causes.push(Cause::forbidden(field, detail));
        }
    }
    causes
}
