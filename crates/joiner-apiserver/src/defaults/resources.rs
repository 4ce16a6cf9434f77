//! Kinds without pods.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Object, child, each, existing, fill, text};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Fills in a kind that makes no pods.
pub(super) fn apply(group: &str, version: &str, kind: &str, object: &mut Object) {
    match (group, kind) {
        ("", "Node") => node(object),
        ("", "Namespace") => namespace(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "PersistentVolume") => volume(object),
        ("", "Secret") => secret(object),
        ("", "Service") => service(child(object, "spec")),
        ("", "Endpoints") => {
            for subset in each(object, "subsets") {
                each(subset, "ports").for_each(|port| fill(port, "protocol", "TCP"));
            }
        }
        ("discovery.k8s.io", "EndpointSlice") => each(object, "ports").for_each(|port| {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }),
        ("scheduling.k8s.io", "PriorityClass") => fill(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("storage.k8s.io", "StorageClass") => {
            fill(object, "reclaimPolicy", "Delete");
            fill(object, "volumeBindingMode", "Immediate");
        }
        ("storage.k8s.io", "CSIDriver") => csi_driver(child(object, "spec")),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(version, child(object, "spec")),
        ("", "LimitRange") => each(child(object, "spec"), "limits").for_each(limit),
        ("networking.k8s.io", "IngressClass") => {
            if let Some(parameters) = existing(child(object, "spec"), "parameters") {
                fill(parameters, "scope", "Cluster");
            }
        }
        ("networking.k8s.io", "NetworkPolicy") => network_policy(child(object, "spec")),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            each(object, "webhooks").for_each(webhook);
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            for hook in each(object, "webhooks") {
                webhook(hook);
                fill(hook, "reinvocationPolicy", "Never");
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(child(object, "spec")),
        _ => {}
    }
}

fn namespace(object: &mut Object) {
    fill(child(object, "status"), "phase", "Active");
    let meta = child(object, "metadata");
    let name = text(meta, "name").to_owned();
    if !name.is_empty() {
        child(meta, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

fn autoscaler(version: &str, spec: &mut Object) {
    fill(spec, "minReplicas", 1);
    if version == "v1" {
        return;
    }
    if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        spec.insert(
            "metrics".to_owned(),
            json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
        );
    }
    let Some(behavior) = existing(spec, "behavior") else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    for (direction, policies) in [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))] {
        let rules = child(behavior, direction);
        fill(rules, "selectPolicy", "Max");
        fill(rules, "policies", policies);
        if direction == "scaleUp" {
            fill(rules, "stabilizationWindowSeconds", 0);
        }
    }
}

/// The one range of old and the list of new say the same.
fn pod_ranges(spec: &mut Object) {
    let one = text(spec, "podCIDR").to_owned();
    let first = spec.get("podCIDRs").and_then(|list| list.get(0)).and_then(Value::as_str);
    let first = first.unwrap_or_default().to_owned();
    if !one.is_empty() && one != first {
        spec.insert("podCIDRs".to_owned(), json!([one]));
    } else if one.is_empty() && !first.is_empty() {
        spec.insert("podCIDR".to_owned(), first.into());
    }
}

/// A node that says only what it has may give all of it.
fn node(object: &mut Object) {
    if let Some(spec) = existing(object, "spec") {
        pod_ranges(spec);
    }
    if let Some(status) = existing(object, "status")
        && let Some(capacity) = status.get("capacity").cloned()
    {
        fill(status, "allocatable", capacity);
    }
}

pub(super) fn claim(object: &mut Object) {
    fill(child(object, "spec"), "volumeMode", "Filesystem");
    fill(child(object, "status"), "phase", "Pending");
}

fn volume(object: &mut Object) {
    let spec = child(object, "spec");
    fill(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    super::pods::shared_sources(spec);
    fill(child(object, "status"), "phase", "Pending");
}

/// Plain text of a secret goes to its data, encoded.
fn secret(object: &mut Object) {
    fill(object, "type", "Opaque");
    if let Some(Value::Object(plain)) = object.remove("stringData") {
        let data = child(object, "data");
        for (name, value) in plain {
            data.insert(name, STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    }
}

fn service(spec: &mut Object) {
    fill(spec, "sessionAffinity", "None");
    fill(spec, "type", "ClusterIP");
    if text(spec, "sessionAffinity") == "None" {
        spec.remove("sessionAffinityConfig");
    } else if text(spec, "sessionAffinity") == "ClientIP" {
        fill(child(child(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", 10_800);
    }
    let kind = text(spec, "type").to_owned();
    for port in each(spec, "ports") {
        fill(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(Value::Null);
        let unset = matches!(port.get("targetPort"), None | Some(Value::Null))
            || port.get("targetPort") == Some(&json!(0))
            || port.get("targetPort") == Some(&json!(""));
        if unset {
            port.insert("targetPort".to_owned(), number);
        }
    }
    let has_addresses =
        spec.get("externalIPs").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if kind == "NodePort" || kind == "LoadBalancer" || (kind == "ClusterIP" && has_addresses) {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn csi_driver(spec: &mut Object) {
    fill(spec, "attachRequired", true);
    fill(spec, "podInfoOnMount", false);
    fill(spec, "storageCapacity", false);
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    fill(spec, "requiresRepublish", false);
    fill(spec, "seLinuxMount", false);
    if spec.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}

fn network_policy(spec: &mut Object) {
    for rules in ["ingress", "egress"] {
        for rule in each(spec, rules) {
            each(rule, "ports").for_each(|port| fill(port, "protocol", "TCP"));
        }
    }
    if spec.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
        let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        spec.insert("policyTypes".to_owned(), types);
    }
}

/// Of containers, the most is the limit that is given, and that is what they ask for; else the least is.
fn limit(limit: &mut Object) {
    if text(limit, "type") != "Container" {
        return;
    }
    for (field, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
        let amounts = limit.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
        if !amounts.is_empty() {
            let filled = child(limit, field);
            for (name, amount) in amounts {
                filled.entry(name).or_insert(amount);
            }
        }
    }
}

fn binding(object: &mut Object) {
    let role = child(object, "roleRef");
    if text(role, "apiGroup").is_empty() {
        role.insert("apiGroup".to_owned(), RBAC.into());
    }
    for subject in each(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fill(subject, "apiGroup", RBAC);
        }
    }
}

fn webhook(hook: &mut Object) {
    fill(hook, "failurePolicy", "Fail");
    fill(hook, "matchPolicy", "Equivalent");
    fill(hook, "timeoutSeconds", 10);
    hook.entry("namespaceSelector").or_insert_with(|| Value::Object(Map::new()));
    hook.entry("objectSelector").or_insert_with(|| Value::Object(Map::new()));
    each(hook, "rules").for_each(|rule| fill(rule, "scope", "*"));
    if let Some(service) = existing(hook, "clientConfig").and_then(|config| existing(config, "service")) {
        fill(service, "port", 443);
    }
}

fn definition(spec: &mut Object) {
    let names = child(spec, "names");
    let kind = text(names, "kind").to_owned();
    fill(names, "singular", kind.to_lowercase());
    fill(names, "listKind", format!("{kind}List"));
    let conversion = child(spec, "conversion");
    fill(conversion, "strategy", "None");
    if let Some(service) = existing(conversion, "webhook")
        .and_then(|webhook| existing(webhook, "clientConfig"))
        .and_then(|config| existing(config, "service"))
    {
        fill(service, "port", 443);
    }
}
