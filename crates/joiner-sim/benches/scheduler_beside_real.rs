//! The embedded scheduler beside kube-scheduler: 1,000 pods on as many nodes, each through its own API.
//!
//! `cargo bench -p joiner-sim --bench scheduler_beside_real` starts a real control plane (programs of `cargo xtask control-plane build`) and needs an idle
//! machine; `-- 5000` takes as many nodes, `-- 1000 ours` leaves the real one out. Ours runs in the loop of a simulated cluster, with all its controllers and the
//! embedded server. Measured is the time from the moment at which the scheduler has something to do until the last pod is bound: for kube-scheduler, which needs
//! a while to start, from the first binding on.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for developers")]

use std::time::{Duration, Instant};

use http::Method;
use jiff::SignedDuration;
use joiner_sim::object::{Fields, Kind};
use joiner_sim::scheduler::{Scheduler, Settings};
use joiner_sim::settings::Settings as WorldSettings;
use joiner_sim::world::World;
use joiner_testbed::plane::{ControlPlane, Parts};
use joiner_testbed::process::Kept;
use serde_json::{Value, json};

const PODS: usize = 1000;
/// Ours takes so little time that chance has a say; the middle of so many counts.
const RUNS: usize = 7;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let nodes = arguments.first().map_or(1000, |nodes| nodes.parse().unwrap());
    let alone = arguments.get(1).is_some_and(|word| word == "ours");
    let mut all: Vec<Duration> = (0..RUNS).map(|_| runtime(true).block_on(embedded(nodes))).collect();
    all.sort_unstable();
    let ours = all[RUNS / 2];
    println!(
        "embedded scheduler and server: {PODS} pods on {nodes} nodes bound in {ours:.2?} ({:.2?} to {:.2?}, {RUNS} runs)",
        all[0],
        all[RUNS - 1]
    );
    if alone {
        return;
    }
    let theirs = runtime(false).block_on(real(nodes));
    println!("kube-scheduler and kube-apiserver: {PODS} pods on {nodes} nodes bound in {theirs:.2?}");
    println!("{:.0} times faster (wanted: 20)", theirs.as_secs_f64() / ours.as_secs_f64());
}

fn runtime(paused: bool) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(paused).build().unwrap()
}

fn node(at: usize) -> Value {
    let name = format!("node-{at:05}");
    let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    // Nobody plays kubelet on it, on either side.
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "real"}, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", at % 3)}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(at: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("web-{at:06}"), "namespace": "default", "labels": {"app": "web", "kind": (at % 50).to_string()}},
        "spec": {"automountServiceAccountToken": false, "containers": [
            {"name": "web", "image": "nginx:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}})
}

async fn embedded(nodes: usize) -> Duration {
    let mut world = World::new(WorldSettings::default());
    world.join(Box::new(Scheduler::new(Settings::default())));
    let server = world.server().direct("measurement");
    let (all_nodes, pods) = (server.resource("", "nodes").unwrap(), server.resource("", "pods").unwrap());
    for at in 0..nodes {
        server.create(&all_nodes, "", node(at)).unwrap();
    }
    world.run_for(SignedDuration::from_secs(1)).await;
    for at in 0..PODS {
        server.create(&pods, "default", pod(at)).unwrap();
    }
    let start = Instant::now();
    world.run_for(SignedDuration::from_secs(1)).await;
    let took = start.elapsed();
    let bound = world.cache().all(Kind::Pod).filter(|(_, pod)| !pod.text(&["spec", "nodeName"]).is_empty());
    assert_eq!(bound.count(), PODS);
    took
}

async fn real(nodes: usize) -> Duration {
    let programs = joiner_testbed::cache::Programs::built().unwrap();
    let plane = ControlPlane::start(&programs, Parts::BARE).await.unwrap();
    let client = plane.client().unwrap();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    client.call(Method::POST, "/api/v1/namespaces/default/serviceaccounts", Some(&account)).await.unwrap();
    for at in 0..nodes {
        let (code, answer) = client.call(Method::POST, "/api/v1/nodes", Some(&node(at))).await.unwrap();
        assert_eq!(code, 201, "{answer}");
        let taints = json!({"spec": {"taints": null}});
        let path = format!("/api/v1/nodes/node-{at:05}");
        client.call(Method::PATCH, &path, Some(&taints)).await.unwrap();
    }
    for at in 0..PODS {
        let (code, answer) =
            client.call(Method::POST, "/api/v1/namespaces/default/pods", Some(&pod(at))).await.unwrap();
        assert_eq!(code, 201, "{answer}");
    }
    let log = std::env::temp_dir().join(format!("joiner-bench-kube-scheduler-{}.log", std::process::id()));
    let arguments = [
        format!("--kubeconfig={}", plane.kubeconfig().display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=5000".to_owned(),
        "--kube-api-burst=10000".to_owned(),
    ];
    let _scheduler =
        Kept::start("kube-scheduler", &programs.path("kube-scheduler"), &arguments, &log).unwrap();
    let mut first: Option<Instant> = None;
    loop {
        let (_, list) =
            client.get("/api/v1/namespaces/default/pods?fieldSelector=spec.nodeName%3D").await.unwrap();
        let left = list.items(&["items"]).len();
        let now = Instant::now();
        if left < PODS {
            first.get_or_insert(now);
        }
        if left == 0 {
            return first.map_or(Duration::ZERO, |first| now - first);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
