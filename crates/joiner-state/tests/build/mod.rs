//! Builders for objects, and readable views of snapshots.
#![allow(dead_code, reason = "each test file uses its own part")]

use joiner_api::instance_type::{InstanceType, Offering, Overhead, TypeRequirement};
use joiner_api::quantity::Quantity;
use joiner_api::{NodeClaim, NodePool};
use joiner_core::model::{GroupIdx, GroupSpec, Node as PlacedNode, PodClass, ReqId, Snapshot};
use joiner_state::{Cluster, Lowered, Options};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOST: &str = "kubernetes.io/hostname";
pub const TYPE: &str = "node.kubernetes.io/instance-type";

/// Any object from JSON.
pub fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a well-formed object")
}

/// A pod under construction.
#[derive(Clone)]
pub struct PodBuilder(pub Value);

pub fn pod(name: &str) -> PodBuilder {
    PodBuilder(json!({
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "containers": [{ "name": "main", "resources": { "requests": {} } }] },
    }))
}

impl PodBuilder {
    pub fn with(mut self, path: &str, value: Value) -> Self {
        let mut at = &mut self.0;
        for part in path.split('.') {
            at = match part.parse::<usize>() {
                Ok(index) => &mut at[index],
                Err(_) => &mut at[part],
            };
        }
        *at = value;
        self
    }

    pub fn cpu(self, amount: &str) -> Self {
        self.with("spec.containers.0.resources.requests.cpu", json!(amount))
    }

    pub fn memory(self, amount: &str) -> Self {
        self.with("spec.containers.0.resources.requests.memory", json!(amount))
    }

    pub fn namespace(self, name: &str) -> Self {
        self.with("metadata.namespace", json!(name))
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    pub fn node(self, name: &str) -> Self {
        self.with("spec.nodeName", json!(name))
    }

    pub fn owner(self, kind: &str, name: &str) -> Self {
        let version = if matches!(kind, "Node" | "ReplicationController") { "v1" } else { "apps/v1" };
        let owner =
            json!([{ "apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": true }]);
        self.with("metadata.ownerReferences", owner)
    }

    pub fn select(mut self, key: &str, value: &str) -> Self {
        self.0["spec"]["nodeSelector"][key] = json!(value);
        self
    }

    pub fn required(self, terms: Value) -> Self {
        self.with(
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            json!({ "nodeSelectorTerms": terms }),
        )
    }

    pub fn preferred(self, terms: Value) -> Self {
        self.with("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", terms)
    }

    pub fn spread(self, constraints: Value) -> Self {
        self.with("spec.topologySpreadConstraints", constraints)
    }

    pub fn affinity(self, terms: Value) -> Self {
        self.with("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", terms)
    }

    pub fn anti_affinity(self, terms: Value) -> Self {
        self.with("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", terms)
    }

    pub fn claim(self, name: &str) -> Self {
        self.with("spec.volumes", json!([{ "name": "data", "persistentVolumeClaim": { "claimName": name } }]))
    }

    pub fn build(&self) -> Pod {
        object(self.0.clone())
    }
}

/// One expression on a node label.
pub fn term(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] })
}

pub fn app(name: &str) -> Value {
    json!({ "matchLabels": { "app": name } })
}

pub fn node(name: &str, labels: Value) -> Node {
    object(node_json(name, labels))
}

pub fn node_json(name: &str, labels: Value) -> Value {
    let amounts = json!({ "cpu": "4", "memory": "16Gi", "pods": "110" });
    json!({
        "metadata": { "name": name, "labels": labels },
        "status": { "allocatable": amounts.clone(), "capacity": amounts },
    })
}

pub fn pool_json(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name },
        "spec": { "template": { "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
        } } },
    })
}

pub fn pool(name: &str) -> NodePool {
    object(pool_json(name))
}

pub fn claim_json(name: &str, pool: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": name, "labels": { "karpenter.sh/nodepool": pool } },
        "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
        },
    })
}

pub fn claim(value: Value) -> NodeClaim {
    object(value)
}

/// A type with `cpu` cores, offered in two zones on demand.
pub fn instance_type(name: &str, cpu: i64, price: f64) -> InstanceType {
    let offering = |zone: &str, price: f64| Offering {
        requirements: [
            TypeRequirement::one_of(ZONE, [zone]),
            TypeRequirement::one_of("karpenter.sh/capacity-type", ["on-demand"]),
        ]
        .into(),
        price,
        available: true,
        reservation: None,
        capacity_override: Default::default(),
        price_source: Default::default(),
    };
    InstanceType {
        name: name.to_owned(),
        requirements: vec![
            TypeRequirement::one_of("node.kubernetes.io/instance-type", [name]),
            TypeRequirement::one_of(ZONE, ["zone-a", "zone-b"]),
        ],
        offerings: vec![offering("zone-b", price), offering("zone-a", price)],
        capacity: [
            ("cpu".to_owned(), Quantity::from_value(cpu)),
            ("memory".to_owned(), Quantity::from_bytes(cpu << 32)),
            ("pods".to_owned(), Quantity::from_value(110)),
        ]
        .into(),
        overhead: Overhead {
            kube_reserved: [("cpu".to_owned(), Quantity::from_milli(100))].into(),
            ..Overhead::default()
        }
        .into(),
        volume_limits: Default::default(),
    }
}

pub fn cluster() -> Cluster {
    Cluster::new(Options { max_pods: 100_000, ..Options::default() })
}

/// Lowers some pods alone.
pub fn lower(pods: &[PodBuilder]) -> Lowered {
    lower_with(cluster(), pods)
}

pub fn lower_with(mut cluster: Cluster, pods: &[PodBuilder]) -> Lowered {
    for pod in pods {
        cluster.add_pod(&pod.build()).expect("a good pod");
    }
    cluster.finish()
}

/// A set of requirements as text.
pub fn set(snapshot: &Snapshot, id: ReqId) -> String {
    let vocabulary = &snapshot.vocabulary;
    let mut texts: Vec<String> =
        vocabulary.set_items(id).map(|(key, rq)| rq.text(&vocabulary.names, key)).collect();
    texts.sort();
    texts.join(", ")
}

/// A group as text: kind, key, selectors.
pub fn group(snapshot: &Snapshot, id: GroupIdx) -> String {
    let spec = snapshot.group(id);
    let kind = match spec {
        GroupSpec::Spread { .. } => "spread",
        GroupSpec::Affinity { .. } => "with",
        GroupSpec::AntiAffinity { .. } => "without",
    };
    let terms: Vec<String> = spec
        .matcher()
        .terms
        .iter()
        .map(|term| term.selector.map_or("nothing".to_owned(), |selector| set(snapshot, selector)))
        .collect();
    format!("{kind} {}: {}", snapshot.vocabulary.names.key_text(spec.key()), terms.join(" & "))
}

/// The class of a pending pod.
pub fn class<'s>(snapshot: &'s Snapshot, name: &str) -> &'s PodClass {
    let pod = snapshot.pods.iter().find(|pod| *pod.name == *name).expect("a pending pod");
    &snapshot.classes[pod.class.at()]
}

pub fn placed<'s>(snapshot: &'s Snapshot, name: &str) -> &'s PlacedNode {
    snapshot.nodes.iter().find(|node| *node.name == *name).expect("a node")
}

/// The ladder of a pod: what was given up, ask, groups.
pub fn ladder(snapshot: &Snapshot, name: &str) -> Vec<String> {
    class(snapshot, name)
        .rungs
        .iter()
        .map(|rung| {
            let relaxed = rung.relaxed.map_or("all".to_owned(), |relaxed| format!("{relaxed:?}"));
            let groups: Vec<String> = rung.groups.iter().map(|id| group(snapshot, *id)).collect();
            let spare = if rung.spare_preferred { " spare" } else { "" };
            format!("{relaxed}{spare} | {} | {}", set(snapshot, rung.ask), groups.join("; "))
        })
        .collect()
}
