//! Kinds that make pods from a template.

use serde_json::{Value, json};

use super::{Object, child, each, existing, fill, pods, text};

/// Fills in a workload; says whether the kind is one.
pub(super) fn apply(group: &str, kind: &str, object: &mut Object) -> bool {
    match (group, kind) {
        ("apps", "Deployment") => deployment(child(object, "spec")),
        ("apps", "ReplicaSet") => {
            let spec = child(object, "spec");
            fill(spec, "replicas", 1);
            pods::template(spec.get_mut("template"));
        }
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "StatefulSet") => stateful_set(child(object, "spec")),
        ("", "ReplicationController") => replication_controller(object),
        ("batch", "Job") => job(object),
        ("batch", "CronJob") => cron_job(child(object, "spec")),
        _ => return false,
    }
    true
}

fn deployment(spec: &mut Object) {
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    let strategy = child(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", "25%");
        fill(rolling, "maxSurge", "25%");
    }
    pods::template(spec.get_mut("template"));
}

fn daemon_set(object: &mut Object) {
    let annotations = child(child(object, "metadata"), "annotations");
    fill(annotations, "deprecated.daemonset.template.generation", "1");
    let spec = child(object, "spec");
    fill(spec, "revisionHistoryLimit", 10);
    let strategy = child(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling = child(strategy, "rollingUpdate");
        fill(rolling, "maxUnavailable", 1);
        fill(rolling, "maxSurge", 0);
    }
    pods::template(spec.get_mut("template"));
}

fn stateful_set(spec: &mut Object) {
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "podManagementPolicy", "OrderedReady");
    let strategy = child(spec, "updateStrategy");
    fill(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        fill(child(strategy, "rollingUpdate"), "partition", 0);
    }
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    for claim in each(spec, "volumeClaimTemplates") {
        claim.insert("apiVersion".to_owned(), "v1".into());
        claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
        super::resources::claim(claim);
    }
    pods::template(spec.get_mut("template"));
}

fn replication_controller(object: &mut Object) {
    let labels = template_labels(object);
    let spec = child(object, "spec");
    fill(spec, "replicas", 1);
    if let Some(labels) = labels {
        fill(spec, "selector", labels);
    }
    pods::template(spec.get_mut("template"));
    take_labels(object);
}

/// A workload without labels takes those of its pods.
fn take_labels(object: &mut Object) {
    if let Some(labels) = template_labels(object) {
        let meta = child(object, "metadata");
        if meta.get("labels").and_then(Value::as_object).is_none_or(Object::is_empty) {
            meta.insert("labels".to_owned(), labels);
        }
    }
}

fn template_labels(object: &Object) -> Option<Value> {
    let labels = object.get("spec")?.pointer("/template/metadata/labels")?;
    labels.as_object().is_some_and(|labels| !labels.is_empty()).then(|| labels.clone())
}

fn job(object: &mut Object) {
    take_labels(object);
    let spec = child(object, "spec");
    if !spec.contains_key("parallelism") && !spec.contains_key("completions") {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let limit = if spec.contains_key("backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let replacement = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", replacement);
    failure_policy(spec);
    pods::template(spec.get_mut("template"));
    select_own_pods(object);
    // Kubernetes fills in again when it reads what it stored: the labels of the selection count too.
    take_labels(object);
}

/// A job finds its pods by its own uid, unless the user chose a selector.
fn select_own_pods(object: &mut Object) {
    let meta = object.get("metadata").and_then(Value::as_object);
    let (uid, name) = match meta {
        Some(meta) => (text(meta, "uid").to_owned(), text(meta, "name").to_owned()),
        None => return,
    };
    let spec = child(object, "spec");
    if uid.is_empty()
        || spec.get("manualSelector") == Some(&Value::Bool(true))
        || spec.contains_key("selector")
    {
        return;
    }
    spec.insert("selector".to_owned(), json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    for prefix in ["", "batch.kubernetes.io/"] {
        labels.insert(format!("{prefix}controller-uid"), uid.clone().into());
        labels.insert(format!("{prefix}job-name"), name.clone().into());
    }
}

fn cron_job(spec: &mut Object) {
    fill(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
    let job = child(child(spec, "jobTemplate"), "spec");
    failure_policy(job);
    pods::template(job.get_mut("template"));
}

/// A condition named without its status means that it holds.
fn failure_policy(spec: &mut Object) {
    let Some(policy) = existing(spec, "podFailurePolicy") else { return };
    for rule in each(policy, "rules") {
        for pattern in each(rule, "onPodConditions") {
            if text(pattern, "status").is_empty() {
                pattern.insert("status".to_owned(), "True".into());
            }
        }
    }
}
