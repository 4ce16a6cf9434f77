//! The objects that are measured with.

use serde_json::{Value, json};

/// A pool of KWOK's made-up machines, of one size if one is given.
pub fn pool(cpus: Option<&str>) -> Vec<Value> {
    let mut requirements = vec![
        json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}),
        json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}),
    ];
    if let Some(cpus) = cpus {
        requirements
            .push(json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": [cpus]}));
    }
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    vec![
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
            "template": {"spec": {"requirements": requirements, "nodeClassRef": class, "expireAfter": "Never"}},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}}}),
    ]
}

/// A Deployment.
pub fn deployment(name: &str, replicas: usize, cpu: &str, memory: &str) -> Value {
    let labels = json!({"app": name});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "containers": [{"name": "main", "image": "example.com/app:1",
                "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}}}})
}
