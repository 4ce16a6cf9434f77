//! NodePools: one that takes nearly anything, and up to three with opinions.

use serde_json::{Value, json};

use super::{Draw, RACKS, TEAMS, ZONES};

/// Draws 1 to 4 pools and adds them to the manifests; returns them for the nodes to belong to.
pub(super) fn pools(draw: &mut Draw) -> Vec<Value> {
    draw.manifests.push(json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
    }));
    let count = draw.random.between(1, 4);
    let mut pools = Vec::new();
    for name in draw.random.some(&["batch", "default", "edge", "web"], count) {
        let picky = !pools.is_empty() || draw.random.chance(30);
        pools.push(pool(draw, name, picky));
    }
    draw.manifests.extend(pools.clone());
    pools
}

fn pool(draw: &mut Draw, name: &str, picky: bool) -> Value {
    let mut labels = json!({});
    let mut taints = Vec::new();
    let mut requirements = Vec::new();
    if picky {
        requirements = opinions(draw);
        if draw.features.custom_labels && draw.random.chance(50) {
            labels["example.com/team"] = draw.random.pick(&TEAMS).into();
        }
        if draw.features.taints && draw.random.chance(40) {
            let effect = draw.random.pick(&["NoSchedule", "NoSchedule", "NoExecute"]);
            let value = draw.random.pick(&["batch", "5"]);
            taints.push(json!({"key": "dedicated", "value": value, "effect": effect}));
        }
        if draw.features.soft_taints && draw.random.chance(50) {
            taints.push(json!({"key": "slow", "effect": "PreferNoSchedule"}));
        }
    }
    // The rack is said at most once, as a label or as a requirement.
    if draw.features.custom_labels && draw.random.chance(60) {
        match draw.random.between(0, 3) {
            0 => labels["example.com/rack"] = draw.random.pick(&RACKS).into(),
            1 => {
                let racks = draw.random.some(&RACKS, 2);
                requirements.push(json!({"key": "example.com/rack", "operator": "In", "values": racks}));
            }
            2 => requirements.push(json!({"key": "example.com/rack", "operator": "Exists"})),
            _ => requirements.push(json!({"key": "example.com/rack", "operator": "NotIn", "values": ["r1"]})),
        }
    }
    if draw.features.min_values && draw.random.chance(60) {
        let key = draw.random.pick(&[
            "node.kubernetes.io/instance-type",
            "karpenter.kwok.sh/instance-family",
            "topology.kubernetes.io/zone",
        ]);
        let number = draw.random.between(1, 3);
        requirements.push(json!({"key": key, "operator": "Exists", "minValues": number}));
    }
    let mut template = json!({
        "requirements": requirements,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
    });
    if !taints.is_empty() {
        template["taints"] = taints.into();
    }
    if draw.features.taints && draw.random.chance(20) {
        template["startupTaints"] = json!([{"key": "example.com/starting", "effect": "NoSchedule"}]);
    }
    let mut spec = json!({"template": {"metadata": {"labels": labels}, "spec": template}});
    if draw.random.chance(40) {
        spec["weight"] = draw.random.pick(&[1, 10, 10, 100]).into();
    }
    if draw.features.limits {
        spec["limits"] = limits(draw);
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
}

fn limits(draw: &mut Draw) -> Value {
    let mut limits = json!({});
    if draw.random.chance(40) {
        limits["cpu"] = draw.random.pick(&["4", "10", "16", "40", "100"]).into();
    }
    if draw.random.chance(30) {
        limits["memory"] = draw.random.pick(&["16Gi", "64Gi", "200Gi"]).into();
    }
    if draw.random.chance(40) {
        limits["nodes"] = draw.random.pick(&["0", "1", "2", "3", "6"]).into();
    }
    if draw.features.devices && draw.random.chance(30) {
        limits["nvidia.com/gpu"] = draw.random.pick(&["0", "1", "4"]).into();
    }
    limits
}

/// Up to three requirements on different keys, over all operators.
fn opinions(draw: &mut Draw) -> Vec<Value> {
    let count = draw.random.between(0, 3);
    let mut requirements = Vec::new();
    for topic in draw.random.some(&["zone", "capacity", "arch", "cpu", "family", "os", "tier"], count) {
        requirements.push(match topic {
            "zone" => {
                let operator = draw.random.pick(&["In", "In", "NotIn"]);
                let number = if operator == "In" { 2 } else { 1 };
                let zones = draw.random.some(&ZONES, number);
                json!({"key": "topology.kubernetes.io/zone", "operator": operator, "values": zones})
            }
            "capacity" => {
                let types: &[&str] = draw.random.pick(&[
                    &["spot"] as &[&str],
                    &["on-demand"],
                    &["spot", "on-demand"],
                    &["spot", "on-demand", "reserved"],
                ]);
                json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": types})
            }
            "arch" => json!({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}),
            "cpu" => {
                let operator = draw.random.pick(&["Gt", "Lt", "Gte", "Lte"]);
                let bound = draw.random.pick(&["1", "2", "4", "8"]);
                json!({"key": "karpenter.kwok.sh/instance-cpu", "operator": operator, "values": [bound]})
            }
            "family" => {
                let operator = draw.random.pick(&["In", "NotIn"]);
                let families = draw.random.some(&["c", "s", "m"], 2);
                json!({"key": "karpenter.kwok.sh/instance-family", "operator": operator, "values": families})
            }
            "os" => json!({"key": "kubernetes.io/os", "operator": "Exists"}),
            _ => json!({"key": "example.com/tier", "operator": "DoesNotExist"}),
        });
    }
    requirements
}
