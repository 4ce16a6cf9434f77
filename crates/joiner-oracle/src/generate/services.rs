//! Clusters of many small services: what it takes for the order of the input to decide a tie.
//!
//! Many workloads of equal pods that only their labels tell apart, each with rules of its own about hosts, and hundreds of types whose prices are a hair
//! from each other: whatever is numbered as it comes shows in the plan.

use serde_json::{Value, json};

use super::{Generated, Random, ZONES};

/// A hundred workloads or so, as single pods, over some three hundred types.
pub fn services(seed: u64) -> Generated {
    let mut random = Random::new(seed ^ 0x5E17_1CE5);
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut manifests = vec![json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
    })];
    for number in 0..random.between(30, 120) {
        manifests.extend(service(number, &mut random));
    }
    Generated { manifests, types: types(&mut random), scheduler_config: None }
}

/// The pods of one service.
fn service(number: u64, random: &mut Random) -> Vec<Value> {
    // Few sizes: services of equal pods are what ties are made of.
    let (cpu, memory) = random.pick(&[
        ("100m", "128Mi"),
        ("100m", "128Mi"),
        ("250m", "512Mi"),
        ("250m", "512Mi"),
        ("500m", "3Gi"),
        ("1500m", "1Gi"),
        ("3", "6Gi"),
    ]);
    let (app, tier) = (format!("svc-{number}"), random.pick(&["front", "back"]));
    let mut spec = json!({
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
    });
    if random.chance(20) {
        spec["nodeSelector"] = json!({"karpenter.sh/capacity-type": random.pick(&["spot", "on-demand"])});
    }
    let of_app = json!({"matchLabels": {"app": app}});
    let selector =
        random.pick(&[of_app.clone(), of_app.clone(), json!({"matchLabels": {"tier": tier}}), json!({})]);
    match random.between(0, 6) {
        0 | 1 => spec["topologySpreadConstraints"] = json!([spread("kubernetes.io/hostname", selector)]),
        2 => {
            spec["topologySpreadConstraints"] = json!([
                spread("topology.kubernetes.io/zone", of_app),
                spread("kubernetes.io/hostname", selector)
            ]);
        }
        3 => {
            let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": of_app});
            spec["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        4 if random.chance(50) => {
            let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": of_app});
            let term = json!({"weight": 1, "podAffinityTerm": term});
            spec["affinity"] =
                json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        _ => {}
    }
    (0..random.pick(&[1, 1, 2, 3, 5]))
        .map(|pod| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": "default", "name": format!("{app}-{pod}"), "labels": {"app": app, "tier": tier}},
                "spec": spec,
            })
        })
        .collect()
}

fn spread(key: &str, selector: Value) -> Value {
    json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector})
}

/// Sizes of several families and generations; a generation costs a few thousandths more or less than the one before.
fn types(random: &mut Random) -> Vec<Value> {
    let mut types = Vec::new();
    for (family, per_cpu) in [("c", 2), ("m", 4), ("r", 8)] {
        for generation in 0..12u64 {
            let hair = random.between(990, 1010);
            for cpu in [1, 2, 4, 8, 16, 32, 48, 64] {
                let memory = cpu * per_cpu;
                let price = (34 * cpu + 4 * memory) * hair;
                let mut offerings = Vec::new();
                for zone in ZONES {
                    let share = random.between(60, 63);
                    offerings.push(offering("spot", zone, price * share / 100));
                    offerings.push(offering("on-demand", zone, price));
                }
                types.push(json!({
                    "name": format!("{family}{generation}.{cpu}x"), "architecture": "amd64", "operatingSystems": ["linux"],
                    "resources": {
                        "cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": (8 + 7 * cpu).min(250).to_string(),
                    },
                    "offerings": offerings,
                }));
            }
        }
    }
    types
}

/// Prices are whole millionths, so that equal ones are exactly equal.
fn offering(capacity_type: &str, zone: &str, millionths: u64) -> Value {
    json!({
        "Price": millionths as f64 / 1_000_000.0,
        "Available": true,
        "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
        ],
    })
}
