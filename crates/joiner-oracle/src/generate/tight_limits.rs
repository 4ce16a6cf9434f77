//! Clusters that are all about what a limit leaves: few pods, types of very different shape, and limits that just hold them, or just do not.
//!
//! In clusters drawn from everything, a limit is mostly far away or hopeless. Here the order of pods, what machines may become, and which types share
//! a limit of two resources decide whether the last pod finds room.

use serde_json::{Value, json};

use super::{Generated, Random, ZONES};

/// One or two pools with a limit of processors, memory, nodes or several of them, some with `minValues`, and up to seven pods, some apart or
/// kept to an architecture or a zone.
pub fn tight_limits(seed: u64) -> Generated {
    let mut random = Random::new(seed);
    let pools = if random.chance(25) { 2 } else { 1 };
    let mut manifests: Vec<Value> = (0..pools).map(|at| pool(at, &mut random)).collect();
    for group in 0..random.between(1, 3) {
        manifests.extend(alike(group, &mut random));
    }
    Generated { manifests, types: types(&mut random), scheduler_config: None }
}

fn pool(at: u64, random: &mut Random) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut limits = json!({});
    if random.chance(75) {
        limits["cpu"] = random.between(2, 20).to_string().into();
    }
    if random.chance(50) {
        limits["memory"] = format!("{}Gi", random.between(8, 64)).into();
    }
    if limits == json!({}) || random.chance(20) {
        limits["nodes"] = random.between(1, 3).to_string().into();
    }
    let mut requirements = json!([]);
    if random.chance(30) {
        requirements = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": random.between(2, 3)},
        ]);
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("pool-{at}")},
        "spec": {
            "weight": 10 - at, "limits": limits,
            "template": {"spec": {"requirements": requirements, "nodeClassRef": class}},
        },
    })
}

/// Pods of one kind.
fn alike(group: u64, random: &mut Random) -> Vec<Value> {
    let cpu = random.pick(&["300m", "900m", "1", "1800m", "3"]);
    let memory = random.pick(&["256Mi", "1Gi", "3Gi", "7Gi"]);
    let mut spec = json!({
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
    });
    let app = format!("app-{group}");
    if random.chance(20) {
        spec["nodeSelector"] = json!({"topology.kubernetes.io/zone": random.pick(&ZONES)});
    } else if random.chance(25) {
        spec["nodeSelector"] = json!({"kubernetes.io/arch": random.pick(&["amd64", "arm64"])});
    }
    if random.chance(40) {
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
    (0..random.between(1, 3)).map(pod).collect()
}

/// Types with much memory or little; the larger are not always the dearer.
fn types(random: &mut Random) -> Vec<Value> {
    let mut of = |cpus: u64, gibibytes: u64, architecture: &str| {
        let price = (cpus * random.between(20, 60) + gibibytes * random.between(2, 10)) as f64 / 1000.0;
        let offering = |zone: &str| {
            json!({"Price": price, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
            ]})
        };
        json!({
            "name": format!("t-{cpus}-{gibibytes}-{architecture}"), "architecture": architecture, "operatingSystems": ["linux"],
            "resources": {"cpu": cpus.to_string(), "memory": format!("{gibibytes}Gi"), "pods": "8"},
            "offerings": ZONES.map(offering),
        })
    };
    let mut types = Vec::new();
    for (cpus, gibibytes) in [(1, 4), (2, 4), (2, 16), (4, 8), (4, 32), (8, 16)] {
        types.push(of(cpus, gibibytes, "amd64"));
    }
    types.push(of(2, 8, "arm64"));
    types.push(of(4, 16, "arm64"));
    types
}
