//! Clusters that are all about which zone (or capacity type) a pod is given.
//!
//! Pools that see different zones, some tainted, some with `minValues`; prices that differ by zone; pods that spread by all policies beside pods that
//! only some pools take, and pods that keep together or apart and can't go everywhere. Which machines open a domain for whom, who waits for whom, and
//! what is cheapest all decide here.

use serde_json::{Value, json};

use super::{Generated, Random};

const ZONES: [&str; 4] = ["zone-a", "zone-b", "zone-c", "zone-d"];
const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY: &str = "karpenter.sh/capacity-type";

/// Two or three pools and up to six small workloads.
pub fn contested_zones(seed: u64) -> Generated {
    let mut random = Random::new(seed ^ 0xC0_27E5);
    let pools = random.between(2, 3);
    let mut manifests: Vec<Value> = (0..pools).map(|at| pool(at, &mut random)).collect();
    for number in 0..random.between(2, 6) {
        manifests.push(workload(number, &mut random));
    }
    Generated { manifests, types: types(&mut random), scheduler_config: None }
}

fn pool(at: u64, random: &mut Random) -> Value {
    let mut requirements = Vec::new();
    if random.chance(70) {
        let count = random.between(1, 3);
        let mut zones = json!({"key": ZONE, "operator": "In", "values": random.some(&ZONES, count)});
        if count > 1 && random.chance(15) {
            zones["minValues"] = 2.into();
        }
        requirements.push(zones);
    }
    if random.chance(20) {
        requirements.push(json!({"key": CAPACITY, "operator": "In", "values": ["spot", "on-demand"], "minValues": 2}));
    }
    let mut template = json!({
        "requirements": requirements,
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
    });
    if random.chance(40) {
        let effect = random.pick(&["NoSchedule", "NoSchedule", "PreferNoSchedule"]);
        template["taints"] = json!([{"key": "dedicated", "effect": effect}]);
    }
    let mut spec = json!({"template": {"spec": template}});
    if random.chance(20) {
        spec["limits"] = json!({"cpu": random.pick(&["4", "8", "16"])});
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": format!("pool-{at}")}, "spec": spec})
}

fn workload(number: u64, random: &mut Random) -> Value {
    let app = format!("app-{}", random.between(0, 2));
    let cpu = random.pick(&["200m", "700m", "1", "1500m"]);
    let mut spec = json!({"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]});
    if random.chance(35) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    match random.between(0, 9) {
        0..=2 => spec["nodeSelector"] = json!({ZONE: random.pick(&ZONES)}),
        3 => spec["nodeSelector"] = json!({CAPACITY: random.pick(&["spot", "on-demand"])}),
        4 => {
            let terms: Vec<Value> = (0..2)
                .map(|_| json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": random.some(&ZONES, 2)}]}))
                .collect();
            spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!({"nodeSelectorTerms": terms});
        }
        _ => {}
    }
    let key = random.pick(&[ZONE, ZONE, ZONE, CAPACITY]);
    let other = random.pick(&[app.clone(), app.clone(), "app-0".to_owned(), "app-1".to_owned()]);
    let mut selector = json!({"labelSelector": {"matchLabels": {"app": other}}});
    if random.chance(20) {
        selector["matchLabelKeys"] = json!(["pod-template-hash"]);
    }
    selector["topologyKey"] = key.into();
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    match random.between(0, 9) {
        0..=4 => {
            selector["maxSkew"] = random.between(1, 2).into();
            selector["whenUnsatisfiable"] = random.pick(&["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]).into();
            for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
                if random.chance(30) {
                    selector[policy] = random.pick(&["Honor", "Ignore"]).into();
                }
            }
            spec["topologySpreadConstraints"] = json!([selector]);
        }
        5 | 6 => spec["affinity"]["podAffinity"][required] = json!([selector]),
        7 | 8 => spec["affinity"]["podAntiAffinity"][required] = json!([selector]),
        _ => {
            spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"weight": 1, "podAffinityTerm": selector}]);
        }
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "default", "name": format!("work-{number}")},
        "spec": {
            "replicas": random.pick(&[1, 1, 2, 3, 6]),
            "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": spec},
        },
    })
}

/// Three sizes; every zone has its price, and now and then an offering is missing.
fn types(random: &mut Random) -> Vec<Value> {
    let per_zone: Vec<u64> = ZONES.iter().map(|_| random.pick(&[100, 100, 110, 150, 200])).collect();
    let mut types = Vec::new();
    for cpu in [1u64, 2, 4] {
        let mut offerings = Vec::new();
        for (zone, factor) in ZONES.iter().zip(&per_zone) {
            for (capacity_type, share) in [("spot", 40), ("on-demand", 100)] {
                if random.chance(85) {
                    offerings.push(json!({
                        "Price": (cpu * factor * share) as f64 / 100_000.0,
                        "Available": true,
                        "Requirements": [
                            {"key": CAPACITY, "operator": "In", "values": [capacity_type]},
                            {"key": ZONE, "operator": "In", "values": [zone]},
                        ],
                    }));
                }
            }
        }
        if !offerings.is_empty() {
            types.push(json!({
                "name": format!("s.{cpu}x"), "architecture": "amd64", "operatingSystems": ["linux"],
                "resources": {"cpu": cpu.to_string(), "memory": format!("{}Gi", 4 * cpu), "pods": "16"},
                "offerings": offerings,
            }));
        }
    }
    types
}
