//! A large cluster out of a file: read, brought to life, and then asked for more.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use joiner::commands::up::assembly::{Design, Parts};
use joiner::commands::up::feed::SharedBoard;
use joiner::import::FromMode;
use joiner::snapshot::kinds::KINDS;
use joiner::snapshot::scrub::Scrubber;
use joiner_apiserver::direct::{Changes, Direct};
use joiner_apiserver::resources::Resource;
use joiner_provider_kwok::Catalogue;
use joiner_sim::clock::Clock;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::objects::{deployment, pool};
use crate::{cpu_seconds, peak_memory};

const PODS_PER_SET: usize = 200;
const MORE: usize = 1000;
/// When everything began.
const AT: &str = "2026-03-02T00:00:00Z";

/// Prints how long it takes.
pub fn run(nodes: usize, pods: usize) {
    let file = std::env::temp_dir().join(format!("joiner-large-{}.json", std::process::id()));
    let size = write_snapshot(&file, nodes, pods);
    println!("{nodes} nodes and {pods} pods in a file of {} MB", size / 1_000_000);
    let begun = Instant::now();
    let (tell, told) = oneshot::channel();
    let (end, ended) = oneshot::channel::<()>();
    let cluster = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let import =
                joiner::import::read(std::slice::from_ref(&file)).unwrap().for_simulation(FromMode::AsIs);
            std::fs::remove_file(&file).ok();
            let design = Design {
                clock: Clock::new(Timestamp::now(), 1),
                seed: 1,
                catalogue: Some(Catalogue::hypothetical().into()),
                folder: None,
                restored: import.objects,
                startup_taints: None,
            };
            let Parts { server, client, mut world, controllers, .. } = design.assemble().unwrap();
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
    println!("the server has them: {:.1?}, {} MiB", begun.elapsed(), peak_memory());
    let client = server.direct("measurement");
    let deployments = client.resource("apps", "deployments").unwrap();
    let all_pods = client.resource("", "pods").unwrap();

    // A first pod that is bound says that the scheduler knows everything before it.
    let mut changes = watch(&client, &all_pods);
    client.create(&deployments, "default", deployment("first", 1, "100m", "64Mi")).unwrap();
    bound(&mut changes, 1);
    while !summary.borrow().ready || board.open().counts().running < pods {
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "ready (first new pod bound, joiner and the screen know all): {:.1?} ({:.1} s of CPU; wanted: 10 s), {} MiB (wanted: 1,200)",
        begun.elapsed(),
        cpu_seconds(),
        peak_memory()
    );
    // Whatever else follows from the load is over.
    std::thread::sleep(Duration::from_secs(3));

    let (begun, cpu) = (Instant::now(), cpu_seconds());
    let mut changes = watch(&client, &all_pods);
    client.create(&deployments, "default", deployment("more", MORE, "500m", "1Gi")).unwrap();
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

fn watch(client: &Direct, pods: &Arc<Resource>) -> Changes {
    let (_, revision) = client.present(pods);
    client.watch(pods, revision).unwrap()
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

/// A snapshot as `joiner snapshot` writes them. Returns its size.
fn write_snapshot(file: &Path, nodes: usize, pods: usize) -> u64 {
    let scrubber = Scrubber::new("measurement");
    let kinds = [("apps/v1", "ReplicaSet"), ("v1", "Node"), ("v1", "Pod")];
    let whole = |(version, kind): (&str, &str), namespace: Option<&str>, mut object: Value| {
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"]["creationTimestamp"] = AT.into();
        object["metadata"]["uid"] = uid(kind, object["metadata"]["name"].as_str().unwrap()).into();
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        let read_as = KINDS.iter().find(|known| known.kind == kind).unwrap();
        scrubber.object(read_as, "v1", object).unwrap()
    };
    let sets = (0..pods.div_ceil(PODS_PER_SET)).map(|set| {
        let replicas = PODS_PER_SET.min(pods - set * PODS_PER_SET);
        whole(kinds[0], Some("default"), replica_set(set, replicas))
    });
    let all_nodes = (0..nodes).map(|number| whole(kinds[1], None, node(number)));
    let all_pods = (0..pods).map(|number| whole(kinds[2], Some("default"), pod(number, nodes)));
    let mut out = BufWriter::new(File::create(file).unwrap());
    out.write_all(br#"{"apiVersion":"v1","kind":"List","items":["#).unwrap();
    for (number, object) in pool(None).into_iter().chain(sets).chain(all_nodes).chain(all_pods).enumerate() {
        out.write_all(if number == 0 { b"\n" } else { b",\n" }).unwrap();
        serde_json::to_writer(&mut out, &object).unwrap();
    }
    out.write_all(b"\n]}\n").unwrap();
    out.into_inner().unwrap().metadata().unwrap().len()
}

/// The same for the same object, different for others.
fn uid(kind: &str, name: &str) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    (kind, name).hash(&mut hasher);
    let number = hasher.finish();
    format!("{:08x}-{:04x}-4000-8000-{:012x}", number >> 32, number >> 16 & 0xffff, number & 0xffff_ffff_ffff)
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
    json!({
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            "node.kubernetes.io/instance-type": "m5.4xlarge", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}},
        "spec": {"providerID": format!("other://{name}")},
        "status": {"capacity": room, "allocatable": room, "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": AT, "lastTransitionTime": AT}]},
    })
}

fn pod(number: usize, nodes: usize) -> Value {
    let set = app(number / PODS_PER_SET);
    json!({
        "metadata": {"name": format!("{set}-{number:06}"), "labels": {"app": set}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": uid("ReplicaSet", &set), "controller": true}]},
        "spec": {"nodeName": format!("node-{:05}", number % nodes), "containers": [container()]},
        "status": status(),
    })
}

fn status() -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": AT});
    json!({"phase": "Running", "startTime": AT, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [
            condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        "containerStatuses": [{"name": "main", "image": "example.com/app:1", "imageID": "", "ready": true, "started": true,
            "restartCount": 0, "state": {"running": {"startedAt": AT}}}]})
}
