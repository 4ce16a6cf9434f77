//! Kubernetes objects as JSON values, with only the fields that placement reads.

use serde_json::{Value, json};

/// Zone label.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Host name label.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Capacity type label.
pub const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// A pending pod in namespace `default` with one container.
pub fn pod(name: &str, uid: &str, labels: &Value, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": labels},
        "spec": {"containers": [{
            "name": "main",
            "image": "pause",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }]},
    })
}

/// A pool of the KWOK node class `default`. `template` is merged into `spec.template`.
pub fn pool(name: &str, weight: Option<u32>, requirements: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": requirements,
            }},
            "limits": {"cpu": "10000000", "memory": "10000000Gi"},
        },
    });
    if let Some(weight) = weight {
        pool["spec"]["weight"] = json!(weight);
    }
    pool
}

/// `key In (values)` as a node selector requirement.
pub fn is_in(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// A topology spread constraint on pods with these labels.
pub fn spread(key: &str, max_skew: u32, when_unsatisfiable: &str, match_labels: &Value) -> Value {
    json!({
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": {"matchLabels": match_labels},
    })
}

/// A pod affinity term on pods with these labels.
pub fn affinity_term(key: &str, match_labels: &Value) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": match_labels}})
}
