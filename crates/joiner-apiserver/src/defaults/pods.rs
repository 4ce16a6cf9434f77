//! Pods and pod templates.

use serde_json::{Map, Value, json};

use super::{Object, child, each, existing, fill, text};

const DEFAULT_MODE: i64 = 0o644;
/// What a volume may have beside its source.
const VOLUME_NAME: &str = "name";

/// A pod: everything a template gets, and what only pods get.
pub(super) fn pod(object: &mut Object) {
    let spec = child(object, "spec");
    pod_spec(spec);
    fill(spec, "enableServiceLinks", true);
    for list in ["initContainers", "containers"] {
        for container in each(spec, list) {
            requests_from_limits(container);
        }
    }
    if let Some(resources) = existing(spec, "resources") {
        copy_limits(resources, |name| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-"));
    }
    if let Some(status) = existing(object, "status") {
        addresses(status);
    }
}

/// The one address of old and the list of new say the same.
fn addresses(status: &mut Object) {
    let one = text(status, "podIP").to_owned();
    let first = status.get("podIPs").and_then(|list| list.pointer("/0/ip")).and_then(Value::as_str);
    let first = first.unwrap_or_default().to_owned();
    if !one.is_empty() && one != first {
        status.insert("podIPs".to_owned(), json!([{"ip": one}]));
    } else if one.is_empty() && !first.is_empty() {
        status.insert("podIP".to_owned(), first.into());
    }
}

/// The template of a workload.
pub(super) fn template(template: Option<&mut Value>) {
    if let Some(template) = template.and_then(Value::as_object_mut) {
        pod_spec(child(template, "spec"));
    }
}

fn pod_spec(spec: &mut Object) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    child(spec, "securityContext");
    // The old name of the account follows the new one.
    let account = text(spec, "serviceAccountName").to_owned();
    let old = text(spec, "serviceAccount").to_owned();
    if !account.is_empty() {
        spec.insert("serviceAccount".to_owned(), account.into());
    } else if !old.is_empty() {
        spec.insert("serviceAccountName".to_owned(), old.into());
    }
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in each(spec, list) {
            self::container(container);
            for port in each(container, "ports").filter(|_| host_network) {
                let number = port.get("containerPort").cloned().unwrap_or(Value::Null);
                let wanted = number.as_i64().unwrap_or(0) != 0;
                if wanted && port.get("hostPort").and_then(Value::as_i64).unwrap_or(0) == 0 {
                    port.insert("hostPort".to_owned(), number);
                }
            }
        }
    }
    each(spec, "volumes").for_each(volume);
}

fn container(container: &mut Object) {
    let policy = pull_policy(text(container, "image"));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    child(container, "resources");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = existing(container, probe) {
            fill_number(probe, "timeoutSeconds", 1);
            fill_number(probe, "periodSeconds", 10);
            fill_number(probe, "successThreshold", 1);
            fill_number(probe, "failureThreshold", 3);
            http_get(probe);
            if let Some(grpc) = existing(probe, "grpc") {
                fill(grpc, "service", "");
            }
        }
    }
    if let Some(lifecycle) = existing(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = existing(lifecycle, hook) {
                http_get(hook);
            }
        }
    }
    for variable in each(container, "env") {
        if let Some(source) = existing(variable, "valueFrom") {
            field_ref(source);
            if let Some(key) = existing(source, "fileKeyRef") {
                fill(key, "optional", false);
            }
        }
    }
}

/// A probe's zero means unset.
fn fill_number(object: &mut Object, name: &str, value: i64) {
    if object.get(name).and_then(Value::as_i64).unwrap_or(0) == 0 {
        object.insert(name.to_owned(), value.into());
    }
}

fn http_get(handler: &mut Object) {
    if let Some(get) = existing(handler, "httpGet") {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
}

fn field_ref(source: &mut Object) {
    if let Some(field) = existing(source, "fieldRef") {
        fill(field, "apiVersion", "v1");
    }
}

/// Images without a tag and those tagged `latest` may change; others are fetched once. A digest alone names one image for ever.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or_default();
    let (repository, tag) = last.split_once(':').map_or((last, None), |(name, tag)| (name, Some(tag)));
    // What is no image name has no tag either.
    if repository.is_empty() || repository.contains(|c: char| c.is_ascii_uppercase()) {
        return "IfNotPresent";
    }
    match tag {
        Some("latest") => "Always",
        None if !digest => "Always",
        _ => "IfNotPresent",
    }
}

fn volume(volume: &mut Object) {
    if !volume.keys().any(|key| key != VOLUME_NAME) {
        volume.insert("emptyDir".to_owned(), Value::Object(Map::new()));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = existing(volume, source) {
            fill(source, "defaultMode", DEFAULT_MODE);
            each(source, "items").for_each(field_ref);
            for part in each(source, "sources") {
                if let Some(token) = existing(part, "serviceAccountToken") {
                    fill(token, "expirationSeconds", 3600);
                }
                if let Some(downward) = existing(part, "downwardAPI") {
                    each(downward, "items").for_each(field_ref);
                }
            }
        }
    }
    shared_sources(volume);
    if let Some(claim) =
        existing(volume, "ephemeral").and_then(|source| existing(source, "volumeClaimTemplate"))
    {
        fill(child(claim, "spec"), "volumeMode", "Filesystem");
    }
    if let Some(image) = existing(volume, "image") {
        let policy = pull_policy(text(image, "reference"));
        fill(image, "pullPolicy", policy);
    }
}

/// Sources that pods and persistent volumes have in common.
pub(super) fn shared_sources(volume: &mut Object) {
    if let Some(path) = existing(volume, "hostPath") {
        fill(path, "type", "");
    }
    if let Some(disk) = existing(volume, "azureDisk") {
        fill(disk, "readOnly", false);
    }
}

fn requests_from_limits(container: &mut Object) {
    if let Some(resources) = existing(container, "resources") {
        copy_limits(resources, |_| true);
    }
}

fn copy_limits(resources: &mut Object, counts: impl Fn(&str) -> bool) {
    let Some(mut limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    limits.retain(|name, _| counts(name));
    if limits.is_empty() {
        return;
    }
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if let Some(requests) = requests.as_object_mut() {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}
