//! How long it takes to take pods in: `cargo run --release -p joiner-state --example digest_speed`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "the figures are the point")]

use std::time::Instant;

use joiner_state::{Cluster, Options};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

const PODS: usize = 100_000;
const KINDS: usize = 200;

fn pod(n: usize) -> Pod {
    let kind = n % KINDS;
    let value = json!({
        "metadata": {
            "name": format!("web-{kind}-{n}"), "namespace": "production", "uid": format!("00000000-0000-0000-0000-{n:012}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app": format!("web-{kind}"), "pod-template-hash": "5f7d8c9b4", "apps.kubernetes.io/pod-index": n.to_string(), "tier": "front" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{kind}-5f7d8c9b4"), "uid": "u", "controller": true }],
        },
        "spec": {
            "nodeName": if n.is_multiple_of(2) { Some(format!("node-{}", n % 5000)) } else { None },
            "containers": [
                { "name": "main", "image": "example/web:1", "env": [{ "name": "A", "value": "b" }],
                  "resources": { "requests": { "cpu": format!("{}m", 100 + kind), "memory": "512Mi" }, "limits": { "memory": "512Mi" } } },
                { "name": "proxy", "image": "example/proxy:1", "resources": { "requests": { "cpu": "50m", "memory": "64Mi" } } },
            ],
            "tolerations": [
                { "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
                { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
            ],
            "topologySpreadConstraints": [
                { "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": { "matchLabels": { "app": format!("web-{kind}") } } },
            ],
            "volumes": [{ "name": "token", "projected": {} }],
            "priority": 0,
        },
    });
    serde_json::from_value(value).expect("a well-formed pod")
}

/// Pods come in as a stream: made, taken in, dropped. Batches of this many are made outside the clock.
const BATCH: usize = 25;

fn main() {
    for _ in 0..3 {
        let mut cluster = Cluster::new(Options { max_pods: PODS, ..Options::default() });
        let mut batches = Vec::with_capacity(PODS / BATCH);
        for batch in 0..PODS / BATCH {
            let pods: Vec<Pod> = (0..BATCH).map(|n| pod(batch * BATCH + n)).collect();
            let start = Instant::now();
            for pod in &pods {
                cluster.add_pod(pod).expect("a good pod");
            }
            batches.push(start.elapsed());
        }
        let start = Instant::now();
        let lowered = cluster.finish();
        let finished = start.elapsed();
        // The median shrugs off batches during which the machine did something else.
        batches.sort();
        println!(
            "add_pod {:>5} ns per pod (mean {:>5}); finish {:>5} ns per pod; {} classes",
            batches[batches.len() / 2].as_nanos() / BATCH as u128,
            batches.iter().sum::<std::time::Duration>().as_nanos() / PODS as u128,
            finished.as_nanos() / PODS as u128,
            lowered.snapshot.classes.len()
        );
    }
}
