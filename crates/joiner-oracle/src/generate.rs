//! Small random clusters as Kubernetes objects, the same for the same seed.
//!
//! A seed first draws a mix of features (spread, volumes, limits …), so that some clusters are simple and others combine a few
//! things at a time; one in eight has none at all. Every object is one an API server would accept: skews of at least 1,
//! `minDomains` only with DoNotSchedule, unique constraint pairs, and so on. Names and values come from short lists on
//! purpose: chance meetings of selectors, taints and zones are what makes the clusters worth planning.

mod attachments;
mod catalogue;
mod contested_zones;
mod default_spread;
mod extras;
mod limited_pools;
mod nodes;
mod pools;
mod random;
mod services;
mod storage;
mod tight_limits;
mod workloads;

use serde_json::{Value, json};

pub use contested_zones::contested_zones;
pub use limited_pools::limited_pools;
pub(crate) use random::Random;
pub use services::services;
pub use tight_limits::tight_limits;

/// How large a cluster to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Up to 8 pending pods and 2 nodes: easy to read when a test fails.
    Tiny,
    /// Up to 40 pending pods and 6 nodes.
    Small,
    /// Up to 200 pending pods and 20 nodes.
    Large,
}

/// A generated cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// Kubernetes objects.
    pub manifests: Vec<Value>,
    /// Instance types in the file format of the KWOK provider.
    pub types: Vec<Value>,
    /// A scheduler configuration with default spread constraints.
    pub scheduler_config: Option<Value>,
}

/// Zones that exist.
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// Values of the custom label `example.com/rack`.
const RACKS: [&str; 3] = ["r1", "r2", "r3"];
/// Values of the custom label `example.com/team`.
const TEAMS: [&str; 2] = ["red", "blue"];
/// Values of the pod label `app`.
const APPS: [&str; 4] = ["web", "api", "db", "cache"];
/// Namespaces and the value of their label `team`.
const NAMESPACES: [(&str, &str); 3] = [("default", "red"), ("shop", "blue"), ("data", "blue")];

/// What a cluster makes use of.
#[derive(Debug, Clone, Default)]
struct Features {
    nodes: bool,
    daemons: bool,
    taints: bool,
    soft_taints: bool,
    limits: bool,
    min_values: bool,
    custom_labels: bool,
    reservations: bool,
    devices: bool,
    selectors: bool,
    required_terms: bool,
    preferred_terms: bool,
    spread: bool,
    soft_spread: bool,
    affinity: bool,
    anti_affinity: bool,
    preferred_affinity: bool,
    namespaces: bool,
    ports: bool,
    priorities: bool,
    volumes: bool,
    init_containers: bool,
    broken_pods: bool,
}

impl Features {
    fn draw(random: &mut Random) -> Self {
        if random.chance(12) {
            return Features::default();
        }
        // How much is going on at all: a few things at a time, or nearly everything.
        let likely = random.pick(&[15, 30, 45, 70]);
        let mut on = |percent: u64| random.chance(percent * likely / 40);
        Features {
            nodes: on(50),
            daemons: on(40),
            taints: on(40),
            soft_taints: on(25),
            limits: on(35),
            min_values: on(20),
            custom_labels: on(40),
            reservations: on(12),
            devices: on(25),
            selectors: on(45),
            required_terms: on(40),
            preferred_terms: on(35),
            spread: on(50),
            soft_spread: on(30),
            affinity: on(35),
            anti_affinity: on(40),
            preferred_affinity: on(30),
            namespaces: on(40),
            ports: on(25),
            priorities: on(30),
            volumes: on(30),
            init_containers: on(25),
            broken_pods: on(8),
        }
    }
}

/// What every part of the generator draws from.
struct Draw {
    random: Random,
    features: Features,
    manifests: Vec<Value>,
    /// Pods still to be made.
    pods_left: u64,
}

/// Draws the cluster of a seed.
pub fn cluster(seed: u64, size: Size) -> Generated {
    let mut random = Random::new(seed);
    let features = Features::draw(&mut random);
    let (most_pods, most_nodes) = match size {
        Size::Tiny => (8, 2),
        Size::Small => (40, 6),
        Size::Large => (200, 20),
    };
    let pods_left = random.between(1, most_pods);
    let mut draw = Draw { random, features, manifests: Vec::new(), pods_left };

    for (name, team) in NAMESPACES {
        draw.manifests.push(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}},
        }));
    }
    let mut types = catalogue::types(&mut draw);
    let pools = pools::pools(&mut draw);
    storage::classes(&mut draw);
    let daemons = workloads::daemon_sets(&mut draw);
    if draw.features.nodes {
        nodes::nodes(&mut draw, &pools, &types, &daemons, most_nodes);
    }
    workloads::pending(&mut draw);
    let mut manifests = draw.manifests;
    // Numbers of their own: what came before stays what it was.
    let mut more = Random::new(seed ^ 0x5EED_0F0D_EFA1_7500);
    if draw.features.volumes {
        attachments::type_limits(&mut more, &mut types);
        attachments::volumes(&mut more, &mut manifests);
    }
    attachments::closed_pools(&mut more, &mut manifests);
    let scheduler_config = default_spread::scheduler_config(&mut more, &mut manifests);
    extras::extras(seed, &mut manifests, &types);
    Generated { manifests, types, scheduler_config }
}

/// `{"cpu": …, "memory": …}` with CPU in millicores and memory in mebibytes.
fn amounts(cpu: u64, memory: u64) -> Value {
    json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_cluster() {
        assert_eq!(cluster(7, Size::Small), cluster(7, Size::Small));
        assert_ne!(cluster(7, Size::Small), cluster(8, Size::Small));
    }

    #[test]
    fn names_are_unique_within_kind_and_namespace() {
        for seed in 0..200 {
            let mut seen = BTreeSet::new();
            for object in cluster(seed, Size::Small).manifests {
                let key = format!(
                    "{} {} {}",
                    object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
                );
                assert!(seen.insert(key.clone()), "seed {seed}: {key} twice");
            }
        }
    }

    #[test]
    fn constraints_are_valid() {
        for seed in 0..200 {
            for object in cluster(seed, Size::Small).manifests {
                for spec in [&object["spec"], &object["spec"]["template"]["spec"]] {
                    let mut pairs = BTreeSet::new();
                    for item in spec["topologySpreadConstraints"].as_array().into_iter().flatten() {
                        assert!(item["maxSkew"].as_i64().is_some_and(|skew| skew >= 1), "seed {seed}");
                        let hard = item["whenUnsatisfiable"] == "DoNotSchedule";
                        assert!(hard || item["minDomains"].is_null(), "seed {seed}");
                        assert!(pairs.insert((item["topologyKey"].to_string(), hard)), "seed {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_feature_occurs_in_some_seed() {
        let all: String = (0..300)
            .map(|seed| {
                let made = cluster(seed, Size::Small);
                Value::from(made.manifests).to_string()
                    + &Value::from(made.types).to_string()
                    + &made.scheduler_config.unwrap_or_default().to_string()
            })
            .collect();
        for text in [
            "DaemonSet",
            "StatefulSet",
            "\"Job\"",
            "Deployment",
            "PersistentVolumeClaim",
            "StorageClass",
            "CSINode",
            "PriorityClass",
            "PreferNoSchedule",
            "NoExecute",
            "minValues",
            "minDomains",
            "ScheduleAnyway",
            "hostPort",
            "nodeTaintsPolicy",
            "nodeAffinityPolicy",
            "matchLabelKeys",
            "mismatchLabelKeys",
            "namespaceSelector",
            "initContainers",
            "\"Gte\"",
            "\"Lt\"",
            "DoesNotExist",
            "reserved",
            "nvidia.com/gpu",
            "overhead",
            "preferredDuringScheduling",
            "unschedulable",
            "failure-domain.beta.kubernetes.io/zone",
            "hostIP",
            "allowedTopologies",
            "deletionTimestamp",
            "\"nodes\"",
            "resourceClaims",
            "startupTaints",
            "karpenter.sh/disrupted",
            "\"Service\"",
            "defaultConstraints",
            "ReplicationController",
            "volumeLimits",
            "__zone-",
            "\"Drawn\"",
            "NodeOverlay",
            "priceAdjustment",
            "CapacityBuffer",
            "PodTemplate",
            "percentage",
            "\"replicas\":0",
            "\"fixed\"",
        ] {
            assert!(all.contains(text), "{text} never occurs");
        }
    }
}
