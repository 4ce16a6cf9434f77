//! One more pod on a cluster that is nearly full: the everyday case, where the answer should not cost a rebuild of
//! everything.
//!
//! Nodes are `m5.4xlarge` with thirty pods each; some of the last tenth have a third fewer. The pending pod is one of a
//! service that is spread over zones, and too large for the gaps of the full nodes, so nine in ten have to be turned down.

use anyhow::Result;
use serde_json::{Value, json};

use super::Sink;
use super::draw::Draw;
use super::objects::{HOSTNAME, ZONE, affinity_term, pod, pool, spread};

const SERVICES: u32 = 200;
const PODS_PER_NODE: u32 = 30;
const ZONES: [&str; 4] = ["us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d"];
/// The service that is spread over zones; the pending pod is one of it.
const SPREAD_SERVICE: u32 = 17;
/// A service whose pods keep apart, so that bound pods have a say too; it runs on a few nodes only.
const APART_SERVICE: u32 = 18;

/// Nodes, their pods, and one pending pod at the end.
pub fn write(nodes: u32, draw: &mut Draw, sink: &mut Sink) -> Result<()> {
    sink(pool("default", None, &json!([])))?;
    for index in 0..nodes {
        let zone = ZONES[(index % 4) as usize];
        let name = format!("node-{index:05}");
        sink(node(&name, zone))?;
        let roomy = index >= nodes - nodes / 10 && draw.below(5) == 0;
        let pods = if roomy { PODS_PER_NODE * 2 / 3 } else { PODS_PER_NODE };
        for slot in 0..pods {
            sink(bound(&name, index, slot, draw))?;
        }
    }
    let labels = service_labels(SPREAD_SERVICE);
    let mut one = pod("one-more", &draw.uid(), &labels, "3", "6Gi");
    one["spec"]["topologySpreadConstraints"] = json!([spread(ZONE, 1, "DoNotSchedule", &labels)]);
    sink(one)
}

fn service_labels(service: u32) -> Value {
    json!({"app": format!("service-{service:03}")})
}

/// 400m to 600m of CPU per pod: thirty of them leave less than the pending pod asks for, or next to it.
fn bound(node: &str, index: u32, slot: u32, draw: &mut Draw) -> Value {
    let service = if slot == 0 {
        // Pods of the spread service lie on every fourth node of each zone in turn, which keeps its skew at one.
        if index % 16 < 4 { SPREAD_SERVICE } else { APART_SERVICE + 1 }
    } else if slot == 1 && index.is_multiple_of(100) {
        APART_SERVICE
    } else {
        APART_SERVICE + 1 + draw.below(SERVICES - APART_SERVICE - 1)
    };
    let cpu = draw.pick(&["400m", "450m", "500m", "550m"]);
    let memory = draw.pick(&["512Mi", "1Gi", "1536Mi", "2Gi"]);
    let labels = service_labels(service);
    let mut pod = pod(&format!("{node}-{slot:02}"), &draw.uid(), &labels, cpu, memory);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({"phase": "Running"});
    if service == APART_SERVICE {
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(HOSTNAME, &labels)],
        }});
    }
    pod
}

fn node(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "karpenter.sh/capacity-type": "on-demand",
                "karpenter.sh/initialized": "true",
                "karpenter.sh/nodepool": "default",
                "karpenter.sh/registered": "true",
                "karpenter.kwok.sh/instance-cpu": "16",
                "karpenter.kwok.sh/instance-family": "m5",
                "karpenter.kwok.sh/instance-memory": "64Gi",
                "karpenter.kwok.sh/instance-size": "4xlarge",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m5.4xlarge",
                "topology.kubernetes.io/zone": zone,
            },
        },
        "spec": {"providerID": format!("kwok://{name}")},
        "status": {
            "allocatable": {"cpu": "15900m", "ephemeral-storage": "20Gi", "memory": "65526Mi", "pods": "256"},
            "capacity": {"cpu": "16", "ephemeral-storage": "20Gi", "memory": "64Gi", "pods": "256"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}
