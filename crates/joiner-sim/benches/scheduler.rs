//! How fast pods get their nodes.
//!
//! `cargo bench -p joiner-sim --bench scheduler` times our scheduler alone: 1,000 pods on 1,000 and on 5,000 nodes that hold twenty pods each, plain ones,
//! ones with spread and anti-affinity, and ones that fit nowhere. `scheduler_beside_real` holds it against kube-scheduler.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for developers")]

use std::time::Instant;

use jiff::Timestamp;
use joiner_sim::controller::Participant;
use joiner_sim::event::{Change, Event};
use joiner_sim::object::{Key, Kind, Object};
use joiner_sim::scheduler::{Scheduler, Settings};
use joiner_sim::write::Write;
use serde_json::{Value, json};

const PODS: usize = 1000;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("{:<44} {:>10} {:>12} {:>12}", "1,000 pods", "nodes", "all", "each");
    for nodes in [1000, 5000] {
        for (name, shape) in [
            ("plain", Shape::Plain),
            ("spread and anti-affinity", Shape::Spread),
            ("fit nowhere", Shape::Huge),
        ] {
            let mut scheduler = Scheduler::new(Settings::default());
            let start = Instant::now();
            for at in 0..nodes {
                added(&mut scheduler, Kind::Node, node(at));
                for on in 0..20 {
                    let mut pod = pod(at * 20 + on, "old", Shape::Plain);
                    pod["spec"]["nodeName"] = json!(node_name(at));
                    added(&mut scheduler, Kind::Pod, pod);
                }
            }
            scheduler.step(Timestamp::UNIX_EPOCH);
            let loaded = start.elapsed();
            let pods: Vec<Object> = (0..PODS).map(|at| Object::from(pod(at, "new", shape))).collect();
            let start = Instant::now();
            for pod in &pods {
                scheduler.observe(&event(Change::Added, Kind::Pod, pod.clone(), None));
                let writes = scheduler.step(Timestamp::UNIX_EPOCH);
                let after = outcome(pod, &writes);
                scheduler.observe(&event(
                    Change::Modified,
                    Kind::Pod,
                    Object::from(after),
                    Some(pod.clone()),
                ));
            }
            let all = start.elapsed();
            println!(
                "{name:<44} {nodes:>10} {all:>12.1?} {:>12.1?}   (loaded in {loaded:.1?})",
                all / PODS as u32
            );
        }
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Plain,
    Spread,
    Huge,
}

fn node_name(at: usize) -> String {
    format!("node-{at:05}")
}

fn node(at: usize) -> Value {
    let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node_name(at), "labels": {
            "kubernetes.io/hostname": node_name(at), "topology.kubernetes.io/zone": format!("zone-{}", at % 3)}},
        "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(at: usize, app: &str, shape: Shape) -> Value {
    let cpu = if matches!(shape, Shape::Huge) { "30" } else { "100m" };
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{app}-{at:06}"), "namespace": "default", "uid": format!("{app}-{at}"), "labels": {"app": app, "kind": (at % 50).to_string()}},
        "spec": {"automountServiceAccountToken": false, "schedulerName": "default-scheduler", "containers": [
            {"name": "web", "image": "nginx:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]}});
    if matches!(shape, Shape::Spread) {
        let selector = json!({"matchLabels": {"app": app, "kind": (at % 50).to_string()}});
        pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]);
    }
    pod
}

fn event(change: Change, kind: Kind, object: Object, previous: Option<Object>) -> Event {
    Event { change, key: Key::of(kind, &object), object, previous, revision: 0 }
}

fn added(scheduler: &mut Scheduler, kind: Kind, object: Value) {
    scheduler.observe(&event(Change::Added, kind, Object::from(object), None));
}

/// The pod as the server would have it after the writes.
fn outcome(pod: &Value, writes: &[Write]) -> Value {
    let mut after = pod.clone();
    for write in writes {
        if let Write::Bind { node, .. } = write {
            after["spec"]["nodeName"] = json!(node);
        }
    }
    after
}
