//! Existing nodes, managed or not, with the pods already bound to them.

use serde_json::{Value, json};

use super::workloads::{bound_daemon, bound_pod};
use super::{Draw, RACKS, TEAMS, ZONES};

/// Draws nodes, their CSINodes and bound pods into the manifests.
pub(super) fn nodes(draw: &mut Draw, pools: &[Value], types: &[Value], daemons: &[Value], most: u64) {
    for number in 0..draw.random.between(1, most) {
        let name = format!("node-{number}");
        let ty = draw.random.pick(types);
        let managed = draw.random.chance(60).then(|| draw.random.pick(pools));
        let node = node(draw, &name, &ty, managed.as_ref());
        draw.manifests.push(node);
        if draw.features.volumes && draw.random.chance(50) {
            let limit = draw.random.between(1, 4);
            draw.manifests.push(json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
                "spec": {"drivers": [{"name": "csi.example.com", "nodeID": name, "allocatable": {"count": limit}}]},
            }));
        }
        fill(draw, &name, &ty, daemons);
    }
}

fn node(draw: &mut Draw, name: &str, ty: &Value, pool: Option<&Value>) -> Value {
    let mut labels = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": ty["architecture"]});
    if draw.random.chance(90) {
        labels["kubernetes.io/hostname"] = name.into();
    }
    if draw.random.chance(90) {
        let zone_key = if draw.random.chance(90) {
            "topology.kubernetes.io/zone"
        } else {
            "failure-domain.beta.kubernetes.io/zone"
        };
        labels[zone_key] = draw.random.pick(&ZONES).into();
    }
    let mut taints = Vec::new();
    if let Some(pool) = pool {
        labels["karpenter.sh/nodepool"] = pool["metadata"]["name"].clone();
        labels["karpenter.kwok.sh/kwoknodeclass"] = "default".into();
        labels["node.kubernetes.io/instance-type"] = ty["name"].clone();
        labels["karpenter.sh/capacity-type"] = draw.random.pick(&["spot", "on-demand"]).into();
        labels["karpenter.sh/registered"] = "true".into();
        let template = &pool["spec"]["template"];
        if let Some(own) = template["metadata"]["labels"].as_object() {
            for (key, value) in own {
                labels[key] = value.clone();
            }
        }
        taints.extend(template["spec"]["taints"].as_array().cloned().unwrap_or_default());
        if draw.random.chance(80) {
            labels["karpenter.sh/initialized"] = "true".into();
        } else {
            taints.extend(template["spec"]["startupTaints"].as_array().cloned().unwrap_or_default());
            taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
        }
    } else if draw.features.custom_labels {
        if draw.random.chance(60) {
            labels["example.com/team"] = draw.random.pick(&TEAMS).into();
        }
        if draw.random.chance(60) {
            labels["example.com/rack"] = draw.random.pick(&RACKS).into();
        }
    }
    if draw.features.soft_taints
        && draw.random.chance(30)
        && !taints.iter().any(|taint| taint["key"] == "slow")
    {
        taints.push(json!({"key": "slow", "effect": "PreferNoSchedule"}));
    }
    let mut metadata = json!({"name": name, "labels": labels});
    let mut spec = json!({});
    match draw.random.between(0, 19) {
        0 => spec["unschedulable"] = true.into(),
        1 => taints.push(json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"})),
        2 => {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            metadata["finalizers"] = json!(["karpenter.sh/termination"]);
        }
        _ => {}
    }
    if !taints.is_empty() {
        spec["taints"] = taints.into();
    }
    let mut capacity = ty["resources"].clone();
    if capacity["pods"].is_null() {
        capacity["pods"] = "110".into();
    }
    let mut allocatable = capacity.clone();
    allocatable["cpu"] = format!("{}m", cores(ty) * 1000 - 100).into();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec,
        "status": {"capacity": capacity, "allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Whole cores of a type this generator made.
fn cores(ty: &Value) -> u64 {
    ty["resources"]["cpu"].as_str().and_then(|cpu| cpu.parse().ok()).unwrap_or(1)
}

/// Binds daemons and some pods, never more than three quarters of the CPU.
fn fill(draw: &mut Draw, node: &str, ty: &Value, daemons: &[Value]) {
    for daemon in daemons {
        if draw.random.chance(60) {
            draw.manifests.push(bound_daemon(daemon, node));
        }
    }
    let mut room = cores(ty) * 700;
    for number in 0..draw.random.between(0, 3) {
        let cpu = draw.random.pick(&[50, 100, 250, 500, 1000]);
        if cpu <= room {
            room -= cpu;
            let pod = bound_pod(draw, node, number, cpu);
            draw.manifests.push(pod);
        }
    }
}
