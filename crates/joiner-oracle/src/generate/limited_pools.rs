//! Clusters that are all about weights and limits: the heavier pools hold a part of the pods and no more.
//!
//! In clusters drawn from everything, a limit seldom meets pods that a lighter pool would take, too; here it always does.

use serde_json::{Value, json};

use super::{Generated, Random, ZONES};

/// Two or three pools of falling weight, all but the last with a tight limit, and pods that may go to any of them, some kept to a zone or apart.
pub fn limited_pools(seed: u64) -> Generated {
    let mut random = Random::new(seed);
    let pools = random.between(2, 3);
    let mut manifests: Vec<Value> = (0..pools).map(|at| pool(at, at + 1 == pools, &mut random)).collect();
    for group in 0..random.between(1, 4) {
        manifests.extend(alike(group, &mut random));
    }
    Generated { manifests, types: types(&mut random), scheduler_config: None }
}

fn pool(at: u64, last: bool, random: &mut Random) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut spec = json!({
        "weight": 100 - 30 * at,
        "template": {"spec": {"requirements": [], "nodeClassRef": class}},
    });
    if !last {
        spec["limits"] = match random.between(0, 2) {
            0 => json!({"cpu": random.between(3, 24).to_string()}),
            1 => json!({"nodes": random.between(1, 3).to_string()}),
            _ => {
                json!({"cpu": random.between(8, 40).to_string(), "memory": format!("{}Gi", random.between(8, 48))})
            }
        };
    }
    let name = format!("pool-{at}");
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
}

/// Pods of one kind.
fn alike(group: u64, random: &mut Random) -> Vec<Value> {
    let cpu = random.pick(&["300m", "700m", "1", "1500m", "2", "3"]);
    let memory = random.pick(&["256Mi", "1Gi", "3Gi", "6Gi"]);
    let mut spec = json!({
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
    });
    let app = format!("app-{group}");
    if random.chance(20) {
        spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": random.pick(&ZONES)});
    }
    if random.chance(20) {
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"},
        ]}});
    }
    let pod = |at: u64| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{app}-{at}"), "namespace": "default", "labels": {"app": app}},
            "spec": spec,
        })
    };
    (0..random.between(2, 14)).map(pod).collect()
}

/// Types of which the larger are not always the cheaper by the CPU.
fn types(random: &mut Random) -> Vec<Value> {
    let mut of = |cpus: u64| {
        let per_cpu = random.between(30, 70) as f64 / 1000.0;
        let offering = |zone: &str| {
            json!({"Price": per_cpu * cpus as f64, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ]})
        };
        json!({
            "name": format!("t-{cpus}"), "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cpus.to_string(), "memory": format!("{}Gi", 4 * cpus), "pods": "30"},
            "offerings": ZONES.map(offering),
        })
    };
    [2, 4, 8, 16].into_iter().map(&mut of).collect()
}
