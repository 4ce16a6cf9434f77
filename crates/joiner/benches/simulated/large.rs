//! A large cluster: loaded, brought to life, and then asked for more.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use joiner::commands::up::assembly::{Design, Parts};
use joiner::commands::up::feed::SharedBoard;
use joiner_apiserver::direct::{Changes, Direct};
use joiner_apiserver::resources::Resource;
use joiner_apiserver::service::ApiServer;
use joiner_provider_kwok::Catalogue;
use joiner_sim::clock::Clock;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::objects::{deployment, pool};
use crate::{cpu_seconds, peak_memory};

const PODS_PER_SET: usize = 200;
const MORE: usize = 1000;
const LOADERS: usize = 2;

/// Prints how long it takes.
pub fn run(nodes: usize, pods: usize) {
    let begun = Instant::now();
    let (tell, told) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let cluster = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let design = Design {
                clock: Clock::new(Timestamp::now(), 1),
                seed: 1,
                catalogue: Some(Catalogue::hypothetical()),
                folder: None,
                restored: Vec::new(),
            };
            let Parts { server, client, mut world, controllers, .. } = design.assemble().unwrap();
            load(&server, nodes, pods);
            let controllers = controllers.unwrap();
            let board = SharedBoard::default();
            tell.send((server, controllers.summary(), board.clone())).ok();
            tokio::select! {
                _ = ended => {}
                () = world.run() => {}
                () = controllers.run(std::future::pending()) => {}
                () = board.follow(client) => {}
            }
        });
    });
    let (server, summary, board) = told.blocking_recv().unwrap();
    println!("{nodes} nodes and {pods} pods loaded: {:.1?}, {} MiB", begun.elapsed(), peak_memory());
    let door = server.direct("measurement");
    let deployments = door.resource("apps", "deployments").unwrap();
    let all_pods = door.resource("", "pods").unwrap();

    // A first pod that is bound says that the scheduler knows everything before it.
    let mut changes = watch(&door, &all_pods);
    door.create(&deployments, "default", deployment("first", 1, "100m", "64Mi")).unwrap();
    bound(&mut changes, 1);
    while !summary.borrow().ready || board.open().counts().running < pods {
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "ready (first new pod bound, joiner and the screen know all): {:.1?} ({:.1} s of CPU; wanted: 20 s), {} MiB (wanted: 2,500)",
        begun.elapsed(),
        cpu_seconds(),
        peak_memory()
    );
    // Whatever else follows from the load is over.
    std::thread::sleep(Duration::from_secs(3));

    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let mut changes = watch(&door, &all_pods);
    door.create(&deployments, "default", deployment("more", MORE, "500m", "1Gi")).unwrap();
    bound(&mut changes, MORE);
    println!(
        "{MORE} more pods bound: {:.2?} ({:.2} s of CPU; wanted: 5 s), {} MiB",
        begun.elapsed(),
        cpu_seconds() - cpu,
        peak_memory()
    );
    end.send(()).ok();
    cluster.join().unwrap();
}

fn watch(door: &Direct, pods: &Arc<Resource>) -> Changes {
    let (_, revision) = door.present(pods);
    door.watch(pods, revision).unwrap()
}

/// Waits until so many pods have got a node.
fn bound(changes: &mut Changes, wanted: usize) {
    let mut found = std::collections::BTreeSet::new();
    while found.len() < wanted {
        for event in changes.take().unwrap() {
            let on_node = event.object["spec"]["nodeName"].is_string();
            if on_node && !found.contains(&event.key) {
                found.insert(event.key);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn load(server: &ApiServer, nodes: usize, pods: usize) {
    let door = server.direct("loader");
    let resource = |group: &str, plural: &str| door.resource(group, plural).unwrap();
    let (sets, all_nodes, all_pods) =
        (resource("apps", "replicasets"), resource("", "nodes"), resource("", "pods"));
    let kinds = [resource("karpenter.kwok.sh", "kwoknodeclasses"), resource("karpenter.sh", "nodepools")];
    for (kind, object) in kinds.iter().zip(pool(None)) {
        door.create(kind, "", object).unwrap();
    }
    let owners: Vec<Value> = (0..pods.div_ceil(PODS_PER_SET))
        .map(|set| {
            let replicas = PODS_PER_SET.min(pods - set * PODS_PER_SET);
            let made = door.create(&sets, "default", replica_set(set, replicas)).unwrap();
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": made["metadata"]["name"],
                "uid": made["metadata"]["uid"], "controller": true})
        })
        .collect();
    std::thread::scope(|scope| {
        for loader in 0..LOADERS {
            let (door, all_nodes, all_pods, owners) = (&door, &all_nodes, &all_pods, &owners);
            scope.spawn(move || {
                for number in (loader..nodes).step_by(LOADERS) {
                    door.create(all_nodes, "", node(number)).unwrap();
                }
                for number in (loader..pods).step_by(LOADERS) {
                    let made =
                        door.create(all_pods, "default", pod(number, nodes, &owners[number / PODS_PER_SET]));
                    let mut running = made.unwrap().into_value();
                    running["status"] = status();
                    door.update_status(all_pods, running).unwrap();
                }
            });
        }
    });
}

fn app(set: usize) -> String {
    format!("app-{set:03}")
}

fn replica_set(set: usize, replicas: usize) -> Value {
    let labels = json!({"app": app(set)});
    json!({"metadata": {"name": app(set), "labels": labels}, "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}}})
}

fn container() -> Value {
    json!({"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}})
}

fn node(number: usize) -> Value {
    let name = format!("node-{number:05}");
    let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let at = "2026-03-02T00:00:00Z";
    json!({
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            "node.kubernetes.io/instance-type": "m5.4xlarge", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}},
        "spec": {"providerID": format!("other://{name}")},
        "status": {"capacity": room, "allocatable": room, "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": at, "lastTransitionTime": at}]},
    })
}

fn pod(number: usize, nodes: usize, owner: &Value) -> Value {
    json!({
        "metadata": {"name": format!("{}-{number:06}", app(number / PODS_PER_SET)), "labels": {"app": app(number / PODS_PER_SET)},
            "ownerReferences": [owner]},
        "spec": {"nodeName": format!("node-{:05}", number % nodes), "containers": [container()]},
    })
}

fn status() -> Value {
    let at = "2026-03-02T00:00:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": at});
    json!({"phase": "Running", "startTime": at, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [
            condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        "containerStatuses": [{"name": "main", "image": "example.com/app:1", "imageID": "", "ready": true, "started": true,
            "restartCount": 0, "state": {"running": {"startedAt": at}}}]})
}
