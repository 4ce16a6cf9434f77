//! How fast pods get their nodes.
//!
//! `cargo bench -p joiner-sim --bench scheduler` times our scheduler alone: 1,000 pods on 1,000 and on 5,000 nodes that hold twenty pods each, plain ones,
//! ones with spread and anti-affinity, and ones that fit nowhere. `-- real 1000` puts 1,000 pods on as many nodes of a real control plane and of the
//! embedded server, and times kube-scheduler and ours from the first binding to the last; it needs the programs of
//! `cargo xtask control-plane build` and an idle machine.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for developers")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings as ServerSettings};
use joiner_sim::controller::Participant;
use joiner_sim::event::{Change, Event};
use joiner_sim::object::{Fields, Key, Kind, Object};
use joiner_sim::scheduler::{Scheduler, Settings};
use joiner_sim::write::Write;
use joiner_testbed::plane::{ControlPlane, Parts};
use joiner_testbed::process::Kept;
use serde_json::{Value, json};

const PODS: usize = 1000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.as_slice() {
        [word, nodes] if word == "real" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(beside_real(nodes.parse().unwrap()));
        }
        _ => alone(),
    }
}

fn alone() {
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
            let pods: Vec<Object> = (0..PODS).map(|at| Arc::new(pod(at, "new", shape))).collect();
            let start = Instant::now();
            for pod in &pods {
                scheduler.observe(&event(Change::Added, Kind::Pod, pod.clone(), None));
                let writes = scheduler.step(Timestamp::UNIX_EPOCH);
                let after = outcome(pod, &writes);
                scheduler.observe(&event(Change::Modified, Kind::Pod, Arc::new(after), Some(pod.clone())));
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
    scheduler.observe(&event(Change::Added, kind, Arc::new(object), None));
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

/// The same nodes and pods on both.
async fn beside_real(nodes: usize) {
    let ours = embedded(nodes).await;
    println!("ours, with the embedded server: {PODS} pods on {nodes} nodes bound in {ours:.2?}");
    let theirs = real(nodes).await;
    println!("kube-scheduler with kube-apiserver: {PODS} pods on {nodes} nodes bound in {theirs:.2?}");
    println!("{:.0} times faster", theirs.as_secs_f64() / ours.as_secs_f64());
}

async fn embedded(nodes: usize) -> Duration {
    let server = ApiServer::new(Arc::new(|| Timestamp::UNIX_EPOCH), &ServerSettings::default());
    let call = async |method: &str, path: String, body: Value| {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let answer = server.answer(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await;
        let status = answer.status();
        let body: Value =
            serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert!(status.is_success(), "{body}");
        body
    };
    let mut scheduler = Scheduler::new(Settings::default());
    for at in 0..nodes {
        call("POST", "/api/v1/nodes".to_owned(), node(at)).await;
        // As it is once its taint of a new node is gone.
        added(&mut scheduler, Kind::Node, node(at));
    }
    let mut waiting = Vec::new();
    for at in 0..PODS {
        let made =
            call("POST", "/api/v1/namespaces/default/pods".to_owned(), pod(at, "new", Shape::Plain)).await;
        waiting.push(Arc::new(made));
    }
    let start = Instant::now();
    for pod in &waiting {
        scheduler.observe(&event(Change::Added, Kind::Pod, pod.clone(), None));
    }
    let mut bound = 0;
    loop {
        let writes = scheduler.step(Timestamp::UNIX_EPOCH);
        if writes.is_empty() {
            break;
        }
        for write in writes {
            let Write::Bind { pod, uid, node } = write else { continue };
            let path = format!("/api/v1/namespaces/default/pods/{}", pod.name);
            let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": &*pod.name, "uid": uid}, "target": {"kind": "Node", "name": node}});
            call("POST", format!("{path}/binding"), body).await;
            let after = call("GET", path, Value::Null).await;
            scheduler.observe(&event(Change::Modified, Kind::Pod, Arc::new(after), None));
            bound += 1;
        }
    }
    assert_eq!(bound, PODS);
    start.elapsed()
}

async fn real(nodes: usize) -> Duration {
    let programs = joiner_testbed::cache::Programs::built().unwrap();
    let plane = ControlPlane::start(&programs, Parts::BARE).await.unwrap();
    let client = plane.client().unwrap();
    let post = http::Method::POST;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    client.call(post.clone(), "/api/v1/namespaces/default/serviceaccounts", Some(&account)).await.unwrap();
    for at in 0..nodes {
        let (code, answer) = client.call(post.clone(), "/api/v1/nodes", Some(&node(at))).await.unwrap();
        assert_eq!(code, 201, "{answer}");
        let taints = json!({"spec": {"taints": null}});
        client
            .call(http::Method::PATCH, &format!("/api/v1/nodes/{}", node_name(at)), Some(&taints))
            .await
            .unwrap();
    }
    for at in 0..PODS {
        let mut pod = pod(at, "new", Shape::Plain);
        pod["metadata"].as_object_mut().unwrap().remove("uid");
        let (code, answer) =
            client.call(post.clone(), "/api/v1/namespaces/default/pods", Some(&pod)).await.unwrap();
        assert_eq!(code, 201, "{answer}");
    }
    let log = std::env::temp_dir().join("joiner-bench-kube-scheduler.log");
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
