//! A company's services: many deployments of different size, with the constraints people really write.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::Sink;
use super::draw::Draw;
use super::objects::{CAPACITY_TYPE, HOSTNAME, ZONE, affinity_term, is_in, pod, pool, spread};

const SERVICES: u32 = 150;
const ZONES: [&str; 4] = ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"];
const SHAPES: [(&str, &str); 10] = [
    ("50m", "64Mi"),
    ("100m", "128Mi"),
    ("100m", "512Mi"),
    ("250m", "256Mi"),
    ("250m", "1Gi"),
    ("500m", "1Gi"),
    ("1", "2Gi"),
    ("1", "6Gi"),
    ("2", "4Gi"),
    ("4", "16Gi"),
];

/// Three pools, two daemon sets and `pods` pods of 150 services.
pub fn write(pods: u32, draw: &mut Draw, sink: &mut Sink) -> Result<()> {
    write_some(SERVICES, pods, draw, sink)
}

/// The same with another number of services; there are at least three pods of each.
pub fn write_some(services: u32, pods: u32, draw: &mut Draw, sink: &mut Sink) -> Result<()> {
    for pool in pools() {
        sink(pool)?;
    }
    sink(daemon_set("node-agent", "100m", "128Mi", true))?;
    sink(daemon_set("log-shipper", "50m", "192Mi", false))?;
    for (number, replicas) in replica_counts(services, pods, draw).into_iter().enumerate() {
        let service = Service::drawn(number as u32, replicas, draw);
        for replica in 0..replicas {
            sink(service.pod(replica, draw))?;
        }
    }
    Ok(())
}

/// A general pool first, an arm64 pool of lower weight, and a tainted pool for batch work.
fn pools() -> Vec<Value> {
    let linux = is_in("kubernetes.io/os", &["linux"]);
    let general = pool("general", Some(50), &json!([is_in("kubernetes.io/arch", &["amd64"]), linux]));
    let mut arm = pool("arm", Some(20), &json!([is_in("kubernetes.io/arch", &["arm64"]), linux]));
    arm["spec"]["template"]["metadata"] = json!({"labels": {"example.com/tier": "arm"}});
    let mut batch = pool(
        "batch",
        Some(10),
        &json!([is_in(CAPACITY_TYPE, &["spot"]), {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["7"]}]),
    );
    batch["spec"]["template"]["metadata"] = json!({"labels": {"example.com/dedicated": "batch"}});
    batch["spec"]["template"]["spec"]["taints"] =
        json!([{"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"}]);
    vec![general, arm, batch]
}

fn daemon_set(name: &str, cpu: &str, memory: &str, everywhere: bool) -> Value {
    let mut template = json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{
            "name": "main",
            "image": "pause",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }]},
    });
    if everywhere {
        template["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template},
    })
}

/// Few services are large and most are small; together they have exactly `pods` replicas, each at least three.
fn replica_counts(services: u32, pods: u32, draw: &mut Draw) -> Vec<u32> {
    let weights: Vec<u64> = (0..services)
        .map(|_| {
            let roll = u64::from(draw.below(1_000)) + 1;
            // One over a uniform draw is heavy-tailed; the cap keeps the largest at about a twentieth of all.
            (4_000 / roll).clamp(4, 200)
        })
        .collect();
    let total: u64 = weights.iter().sum();
    let spare = u64::from(pods.saturating_sub(3 * services));
    let mut counts: Vec<u32> = weights.iter().map(|weight| 3 + (weight * spare / total) as u32).collect();
    // Rounding down lost less than one replica per service.
    let left = pods.saturating_sub(counts.iter().sum()) as usize;
    for count in counts.iter_mut().take(left) {
        *count += 1;
    }
    counts
}

/// One deployment: what its pods have in common.
struct Service {
    name: String,
    labels: Value,
    cpu: &'static str,
    memory: &'static str,
    spec: Map<String, Value>,
}

impl Service {
    fn drawn(number: u32, replicas: u32, draw: &mut Draw) -> Service {
        let name = format!("service-{number:03}");
        let labels = json!({"app": name, "team": format!("team-{}", draw.below(12))});
        let own = json!({"app": name});
        // Large services have small pods, as a rule.
        let shapes = if replicas > 150 { 6 } else { SHAPES.len() as u32 };
        let (cpu, memory) = SHAPES[draw.below(shapes) as usize];
        let mut spec = Map::new();
        let mut spreads = Vec::new();
        let mut node_affinity = Map::new();

        match draw.below(100) {
            0..30 => spreads.push(spread(ZONE, 1, "DoNotSchedule", &own)),
            30..42 => spreads.push(spread(ZONE, 1, "ScheduleAnyway", &own)),
            _ => {}
        }
        // Keeping apart costs a node per replica: people do it for small services only.
        match draw.below(100) {
            0..12 if replicas <= 40 => {
                spec.insert(
                    "affinity".into(),
                    json!({"podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(HOSTNAME, &own)],
                    }}),
                );
            }
            12..30 => spreads.push(spread(HOSTNAME, 1 + replicas / 20, "DoNotSchedule", &own)),
            30..40 => {
                spec.insert(
                    "affinity".into(),
                    json!({"podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution":
                            [{"weight": 50, "podAffinityTerm": affinity_term(HOSTNAME, &own)}],
                    }}),
                );
            }
            _ => {}
        }
        let mut batch = false;
        match draw.below(100) {
            0..10 => {
                batch = true;
                spec.insert("nodeSelector".into(), json!({"example.com/dedicated": "batch"}));
                spec.insert(
                    "tolerations".into(),
                    json!([{"key": "example.com/dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}]),
                );
            }
            10..20 => {
                spec.insert("nodeSelector".into(), json!({"kubernetes.io/arch": "arm64"}));
            }
            20..28 => {
                spec.insert("nodeSelector".into(), json!({"kubernetes.io/arch": "amd64"}));
            }
            28..34 if spreads.is_empty() => {
                spec.insert("nodeSelector".into(), json!({"topology.kubernetes.io/zone": draw.pick(&ZONES)}));
            }
            _ => {}
        }
        match draw.below(100) {
            0..15 if !batch => {
                node_affinity.insert(
                    "requiredDuringSchedulingIgnoredDuringExecution".into(),
                    json!({"nodeSelectorTerms": [{"matchExpressions": [is_in(CAPACITY_TYPE, &["on-demand"])]}]}),
                );
            }
            15..35 => {
                node_affinity.insert(
                    "preferredDuringSchedulingIgnoredDuringExecution".into(),
                    json!([{"weight": 10, "preference": {"matchExpressions": [is_in(CAPACITY_TYPE, &["spot"])]}}]),
                );
            }
            35..42 if !batch => {
                let families =
                    ["c5", "c6a", "c6g", "c6i", "c7g", "m5", "m6a", "m6g", "m6i", "m7g", "r6g", "r6i"];
                node_affinity.insert(
                    "requiredDuringSchedulingIgnoredDuringExecution".into(),
                    json!({"nodeSelectorTerms": [{"matchExpressions":
                        [is_in("karpenter.kwok.sh/instance-family", &families)]}]}),
                );
            }
            _ => {}
        }
        if !spreads.is_empty() {
            spec.insert("topologySpreadConstraints".into(), Value::Array(spreads));
        }
        if !node_affinity.is_empty() {
            let affinity = spec.entry("affinity").or_insert_with(|| json!({}));
            affinity["nodeAffinity"] = Value::Object(node_affinity);
        }
        Service { name, labels, cpu, memory, spec }
    }

    fn pod(&self, replica: u32, draw: &mut Draw) -> Value {
        let name = format!("{}-{replica:04}", self.name);
        let mut pod = pod(&name, &draw.uid(), &self.labels, self.cpu, self.memory);
        for (field, value) in &self.spec {
            pod["spec"][field.as_str()] = value.clone();
        }
        pod
    }
}
