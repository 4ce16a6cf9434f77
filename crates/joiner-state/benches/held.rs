//! What one event costs when the cluster is large: from the event to a new snapshot, and from there to a plan.
//!
//! `cargo bench -p joiner-state --bench held [-- NODES PODS]`; 10,000 nodes and 300,000 pods unless told otherwise. Prints medians of 200 events
//! each, the slowest of them, and what a bound pod takes in memory.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::disallowed_methods, reason = "a measurement")]

use std::time::{Duration, Instant};

use joiner_api::instance_type::{InstanceType, Offering, Overhead, TypeRequirement};
use joiner_api::quantity::Quantity;
use joiner_core::decide::{self, Packing};
use joiner_state::{Cluster, Options};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
/// What an event does; the number is that of the event.
type Change = Box<dyn Fn(&mut Cluster, usize)>;
/// Kinds of pods: a cluster of this size has a few hundred.
const KINDS: usize = 300;
const EVENTS: usize = 200;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(number: usize) -> Node {
    object(json!({"metadata": {"name": format!("node-{number:05}"), "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            "node.kubernetes.io/instance-type": "m-16x", "karpenter.sh/capacity-type": "on-demand", "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux", "kubernetes.io/hostname": format!("node-{number:05}"), ZONE: format!("zone-{}", number % 3)}},
        "spec": {"providerID": format!("kwok://{number}")},
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}, "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"}}}))
}

fn pod(number: usize, on: Option<usize>) -> Pod {
    let app = format!("app-{}", number % KINDS);
    let mut spec = json!({"containers": [{"name": "main", "resources": {"requests": {
        "cpu": format!("{}m", 100 + 10 * (number % KINDS % 30)), "memory": format!("{}Mi", 128 + number % KINDS)}}}]});
    if number.is_multiple_of(3) {
        spec["topologySpreadConstraints"] = json!([{"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": app}}}]);
    }
    if let Some(node) = on {
        spec["nodeName"] = json!(format!("node-{node:05}"));
    }
    object(
        json!({"metadata": {"name": format!("{app}-7f9c6d5b84-{number:06}"), "namespace": format!("team-{}", number % 20),
            "uid": format!("00000000-0000-4000-8000-{number:012}"), "labels": {"app": app, "pod-template-hash": "7f9c6d5b84"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-7f9c6d5b84"), "uid": "r", "controller": true}]},
        "spec": spec, "status": {"phase": if on.is_some() { "Running" } else { "Pending" }}}),
    )
}

/// Many types in three zones at two capacity types.
fn types() -> Vec<InstanceType> {
    let made = |number: usize| {
        let cpu = 1 << (number % 7);
        let name = if number == 4 { "m-16x".to_owned() } else { format!("type-{number}") };
        let offering = |zone: usize, spot: bool| Offering {
            requirements: [
                TypeRequirement::one_of(ZONE, [format!("zone-{zone}").as_str()]),
                TypeRequirement::one_of(
                    "karpenter.sh/capacity-type",
                    [if spot { "spot" } else { "on-demand" }],
                ),
            ]
            .into(),
            price: 0.04 * cpu as f64 * (1.0 + number as f64 / 900.0) * if spot { 0.4 } else { 1.0 },
            available: true,
            reservation: None,
            capacity_override: Default::default(),
            price_source: Default::default(),
        };
        InstanceType {
            requirements: vec![
                TypeRequirement::one_of("node.kubernetes.io/instance-type", [name.as_str()]),
                TypeRequirement::one_of("kubernetes.io/arch", ["amd64"]),
                TypeRequirement::one_of("kubernetes.io/os", ["linux"]),
            ],
            offerings: (0..3).flat_map(|zone| [offering(zone, false), offering(zone, true)]).collect(),
            capacity: [
                ("cpu".to_owned(), Quantity::from_value(cpu)),
                ("memory".to_owned(), Quantity::from_bytes(cpu << 32)),
                ("pods".to_owned(), Quantity::from_value(110)),
            ]
            .into(),
            overhead: Overhead::default().into(),
            volume_limits: Default::default(),
            name,
        }
    };
    (0..800).map(made).collect()
}

fn pool() -> joiner_api::NodePool {
    object(json!({"metadata": {"name": "default"}, "spec": {"template": {"spec": {"requirements": [],
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}}))
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{what:<44} {:>9.0} µs   slowest {:>9.0} µs",
        micros(times[times.len() / 2]),
        micros(times[times.len() - 1])
    );
}

/// Resident memory, where the system tells.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let (nodes, pods) = (*numbers.first().unwrap_or(&10_000), *numbers.get(1).unwrap_or(&300_000));
    let options = Options { note_duplicates: false, ..Options::default() };
    let mut cluster = Cluster::new(options);
    cluster.add_catalogue(None, types(), &[]);
    cluster.add_nodepool(&pool()).unwrap();
    (0..nodes).for_each(|number| cluster.add_node(&node(number)).unwrap());
    let before = resident_bytes();
    (0..pods).for_each(|number| cluster.add_pod(&pod(number, Some(number % nodes))).unwrap());
    let per_pod = resident_bytes().saturating_sub(before) / pods.max(1) as u64;
    println!("{nodes} nodes, {pods} pods; {per_pod} bytes of memory per bound pod before the first snapshot");
    let begun = Instant::now();
    let mut last = cluster.snapshot();
    println!("everything lowered: {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);

    let mut event = |what: &str, change: Change| {
        let mut times = Vec::with_capacity(EVENTS);
        for number in 0..EVENTS {
            // The reader of the snapshot before still holds it, as a worker would.
            let held = last.clone();
            let begun = Instant::now();
            change(&mut cluster, number);
            last = cluster.snapshot();
            times.push(begun.elapsed());
            drop(held);
        }
        report(what, times);
    };
    event(
        "a pod that waits has come",
        Box::new(move |cluster, number| cluster.add_pod(&pod(pods + number, None)).unwrap()),
    );
    event(
        "a pod that waited is bound",
        Box::new(move |cluster, number| cluster.add_pod(&pod(pods + number, Some(number))).unwrap()),
    );
    event(
        "a bound pod has gone",
        Box::new(move |cluster, number| {
            let gone = pod(number, Some(number % nodes)).metadata;
            cluster.remove_pod(gone.namespace.as_deref().unwrap(), gone.name.as_deref().unwrap());
        }),
    );
    event(
        "a node has come",
        Box::new(move |cluster, number| cluster.add_node(&node(nodes + number)).unwrap()),
    );

    for (what, packing) in [
        ("its decision, as the original packs", Packing::Upstream),
        ("its decision, cheapest packing", Packing::Cheapest),
    ] {
        let mut times = Vec::new();
        for number in 0..20 {
            cluster.add_pod(&pod(2 * pods + number, None)).unwrap();
            let snapshot = cluster.snapshot();
            let options = decide::Options { packing, ..decide::Options::default() };
            let begun = Instant::now();
            let plan = decide::decide(&snapshot, &options);
            times.push(begun.elapsed());
            assert_eq!(plan.refused.len(), 0);
            let gone = pod(2 * pods + number, None).metadata;
            cluster.remove_pod(gone.namespace.as_deref().unwrap(), gone.name.as_deref().unwrap());
        }
        report(what, times);
    }
}
