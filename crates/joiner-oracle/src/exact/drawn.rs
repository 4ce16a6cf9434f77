//! Small worlds of which the optimum can be worked out: up to twelve pods, two or three zones, a part of a real catalogue.

use serde_json::{Value, json};

use crate::generate::Random;

/// What a world is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Sizes and nothing else.
    Sizes,
    /// Two pools with taints and labels, selectors, daemons.
    Access,
    /// Anti-affinity, spread and ports by host.
    Hosts,
    /// Anti-affinity, spread and affinity by zone.
    Zones,
    /// Pods that want company on a host.
    Company,
    /// All of it but company.
    Mixed,
}

impl Theme {
    /// All of them.
    pub const ALL: [Theme; 6] =
        [Theme::Sizes, Theme::Access, Theme::Hosts, Theme::Zones, Theme::Company, Theme::Mixed];
}

/// A world as manifests and instance types.
#[derive(Debug, Clone)]
pub struct Drawn {
    /// Pools, daemons and pods.
    pub manifests: Vec<Value>,
    /// Instance types in the file format of the KWOK provider.
    pub types: Vec<Value>,
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// Draws a world; `catalogue` are instance types of the same format, of which some are kept, in two or three zones.
pub fn drawn(seed: u64, theme: Theme, catalogue: &[Value]) -> Drawn {
    let mut random = Random::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(theme as u64));
    let types = some_types(&mut random, catalogue);
    let mut manifests = pools(&mut random, theme);
    let most = random.between(4, if matches!(theme, Theme::Zones | Theme::Mixed) { 10 } else { 12 });
    let style = random.between(0, 2);
    let mut left = most;
    let mut number = 0;
    while left > 0 {
        let replicas = random.between(1, 4).min(left);
        left -= replicas;
        workload(&mut random, theme, style, number, replicas, &mut manifests);
        number += 1;
    }
    Drawn { manifests, types }
}

fn some_types(random: &mut Random, catalogue: &[Value]) -> Vec<Value> {
    let zones = random.between(2, 3) as usize;
    let zones = &["us-west-2a", "us-west-2b", "us-west-2c"][..zones];
    let count = random.between(15, 45);
    let mut types = random.some(catalogue, count);
    for entry in &mut types {
        if let Some(offerings) = entry["offerings"].as_array_mut() {
            offerings.retain(|offering| {
                let of = |key: &str| {
                    let listed = offering["Requirements"].as_array().into_iter().flatten();
                    listed
                        .filter(|expr| expr["key"] == key)
                        .find_map(|expr| expr["values"][0].as_str())
                        .unwrap_or("")
                };
                zones.contains(&of(ZONE))
            });
        }
    }
    types.retain(|entry| entry["offerings"].as_array().is_some_and(|offerings| !offerings.is_empty()));
    types
}

fn pools(random: &mut Random, theme: Theme) -> Vec<Value> {
    let pool = |name: &str, requirements: Value| {
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"metadata": {"labels": {}}, "spec": {
                "requirements": requirements,
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            }}},
        })
    };
    let is_in = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let mut manifests = Vec::new();
    if !matches!(theme, Theme::Access | Theme::Mixed) {
        let capacity: &[&str] = random.pick(&[&["on-demand", "spot"] as &[&str], &["on-demand"]]);
        manifests.push(pool("default", json!([is_in(CAPACITY_TYPE, capacity)])));
        return manifests;
    }
    manifests.push(pool("default", json!([is_in(CAPACITY_TYPE, &["on-demand"])])));
    let mut other = pool("other", json!([]));
    other["spec"]["template"]["metadata"]["labels"]["example.com/tier"] = json!("other");
    if random.chance(60) {
        other["spec"]["template"]["spec"]["taints"] =
            json!([{"key": "example.com/tier", "value": "other", "effect": "NoSchedule"}]);
    }
    manifests.push(other);
    if random.chance(60) {
        manifests.push(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "kube-system"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "tolerations": if random.chance(50) { json!([{"operator": "Exists"}]) } else { json!([]) },
                    "containers": [{"name": "main", "image": "agent", "resources": {"requests": {"cpu": "150m", "memory": "200Mi"}}}],
                },
            }},
        }));
    }
    manifests
}

fn workload(
    random: &mut Random,
    theme: Theme,
    style: u64,
    number: u64,
    replicas: u64,
    manifests: &mut Vec<Value>,
) {
    let own = json!({"matchLabels": {"app": format!("app-{number}")}});
    let (cpu, memory) = match style {
        0 => (random.pick(&[100, 250, 500, 1000, 2000]), random.pick(&[128, 512, 1024, 2048, 4096])),
        1 => {
            let cpu = random.between(50, 3000);
            (cpu, 64 + cpu * random.between(500, 8000) / 1000)
        }
        _ => {
            let cpu = 500 * random.between(1, 12);
            (cpu, cpu * random.between(1, 8))
        }
    };
    let mut spec = json!({"containers": [{
        "name": "main", "image": "app", "resources": {"requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}},
    }]});
    let term = |key: &str, selector: &Value| json!([{"topologyKey": key, "labelSelector": selector}]);
    let required = |terms: Value| json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
    let spread = |key: &str, skew: u64| json!([{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": own}]);
    let (access, hosts, zones) = match theme {
        Theme::Sizes => (false, false, false),
        Theme::Access => (random.chance(60), false, false),
        Theme::Hosts => (false, random.chance(70), false),
        Theme::Zones => (false, false, random.chance(60)),
        Theme::Company => (false, false, false),
        Theme::Mixed => (random.chance(30), random.chance(40), random.chance(25)),
    };
    if access {
        match random.between(0, 4) {
            0 => spec["nodeSelector"] = json!({"example.com/tier": "other"}),
            1 => spec["nodeSelector"] = json!({CAPACITY_TYPE: "spot"}),
            2 => spec["nodeSelector"] = json!({"kubernetes.io/arch": random.pick(&["amd64", "arm64"])}),
            3 => {
                spec["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["us-west-2a"]}]},
                ]}});
            }
            _ => {}
        }
        if random.chance(70) {
            spec["tolerations"] = json!([{"key": "example.com/tier", "operator": "Exists"}]);
        }
    }
    if hosts {
        match random.between(0, 3) {
            0 | 1 => spec["affinity"]["podAntiAffinity"] = required(term(HOSTNAME, &own)),
            2 => spec["topologySpreadConstraints"] = spread(HOSTNAME, random.between(1, 2)),
            _ => {
                spec["containers"][0]["ports"] =
                    json!([{"containerPort": 80, "hostPort": random.pick(&[8080, 9090])}])
            }
        }
    }
    if zones {
        match random.between(0, 3) {
            0 | 1 => spec["topologySpreadConstraints"] = spread(ZONE, random.between(1, 2)),
            2 if replicas <= 2 => spec["affinity"]["podAntiAffinity"] = required(term(ZONE, &own)),
            _ => spec["affinity"]["podAffinity"] = required(term(ZONE, &own)),
        }
    }
    if theme == Theme::Company && random.chance(50) {
        // Either the own group, or a group that wants no company itself: every even one.
        if number % 2 == 1 && random.chance(60) {
            let other = json!({"matchLabels": {"app": format!("app-{}", number - 1)}});
            spec["affinity"]["podAffinity"] = required(term(HOSTNAME, &other));
        } else if number % 2 == 1 {
            spec["affinity"]["podAffinity"] = required(term(HOSTNAME, &own));
        }
    }
    for replica in 0..replicas {
        manifests.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("app-{number}-{replica}"), "namespace": "default", "uid": format!("{number}-{replica}"),
                "labels": {"app": format!("app-{number}")},
            },
            "spec": spec.clone(),
        }));
    }
}
