//! The controllers in a process of their own beside an API server with a large cluster: how much memory they take once they know it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use joiner::commands::up::assembly::{Design, Parts};
use joiner_api::NodeClaim;
use joiner_apiserver::direct::Direct;
use joiner_apiserver::serve::Endpoint;
use joiner_controllers::{Controllers, RuntimeClock, Settings};
use joiner_provider::{Provider, Registry};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use joiner_sim::clock::Clock;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::objects::pool;
use crate::peak_memory;

const AT: &str = "2026-03-02T00:00:00Z";
const PODS_PER_SET: usize = 300;
/// Objects that are put into the server at a time.
const CHUNK: usize = 2000;
/// Pods that come one by one.
const LONE: usize = 9;

/// Serves a cluster, and starts the controllers as a process that prints what it takes.
pub fn run(nodes: usize, pods: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let begun = Instant::now();
        let clock = Clock::new(Timestamp::now(), 1);
        let design = Design {
            clock,
            seed: 3,
            catalogue: None,
            folder: None,
            restored: Vec::new(),
            startup_taints: None,
        };
        let Parts { server, .. } = design.assemble().unwrap();
        fill(&server.direct("measurement"), nodes, pods);
        println!(
            "{nodes} nodes with claims, {pods} pods on them: the server has them after {:.1?}",
            begun.elapsed()
        );
        let endpoint = Endpoint::bind(0).await.unwrap();
        let file = std::env::temp_dir().join(format!("joiner-memory-{}.yaml", std::process::id()));
        std::fs::write(&file, endpoint.kubeconfig()).unwrap();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let serving = tokio::spawn(endpoint.serve(server, async {
            ended.await.ok();
        }));
        let program = std::env::current_exe().unwrap();
        let child = tokio::task::spawn_blocking({
            let file = file.clone();
            move || {
                let mut command = Command::new(program);
                command.arg("controllers").arg(&file).stdin(Stdio::null()).status()
            }
        });
        let status = child.await.unwrap().unwrap();
        std::fs::remove_file(&file).ok();
        end.send(()).ok();
        serving.await.unwrap();
        assert!(status.success());
    });
}

/// The controllers alone, over a kubeconfig.
pub fn controllers(kubeconfig: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let begun = Instant::now();
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let clock: Arc<dyn joiner_provider::Clock> = Arc::new(RuntimeClock::new(Timestamp::now));
        let own = client.clone();
        let provider = KwokProvider::new(client.clone(), Catalogue::hypothetical(), clock.clone());
        let registry = Registry::new([Arc::new(provider) as Arc<dyn Provider>]).unwrap();
        let controllers = Controllers::new(client, registry, clock, Settings::default());
        let (mut summary, metrics) = (controllers.summary(), controllers.metrics());
        let script = async {
            summary.wait_for(|summary| summary.ready).await.unwrap();
            let ready = begun.elapsed();
            // Whatever follows from the lists is over.
            tokio::time::sleep(std::time::Duration::from_secs(8)).await;
            let nodes = summary.borrow().nodes;
            println!(
                "the controllers know {nodes} nodes after {ready:.1?}: {} MiB, {} MiB at most (wanted: 200 with 100,000 pods, 450 with 300,000); \
                 the loop did not listen for {:.1?} at most",
                memory(),
                peak_memory(),
                metrics.longest_stall()
            );
            lone_pods(&own).await;
        };
        tokio::select! {
            () = script => {}
            () = controllers.run(std::future::pending()) => {}
        }
    });
}

/// Prints how long it takes from the end of a lone pod's batch to its claim, as the API server has it: the decision and one write.
async fn lone_pods(client: &Client) {
    let (pods, claims): (Api<Pod>, Api<NodeClaim>) =
        (Api::default_namespaced(client.clone()), Api::all(client.clone()));
    let mut times = Vec::new();
    for number in 0..LONE {
        let name = format!("lone-{number}");
        // Larger than any room that is left, so that a machine is bought.
        let object = json!({"metadata": {"name": name}, "spec": {"containers": [
            {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "30"}}}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let status = json!({"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": AT}]}});
        let newest = claims.list(&ListParams::default().limit(1)).await.unwrap().metadata.resource_version;
        let mut changes = claims.watch(&WatchParams::default(), &newest.unwrap()).await.unwrap().boxed();
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let begun = Instant::now();
        while !matches!(changes.try_next().await.unwrap(), Some(WatchEvent::Added(_))) {}
        times.push(begun.elapsed().saturating_sub(Settings::default().batch_idle));
        // The next one is a batch of its own.
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    }
    times.sort_unstable();
    println!(
        "a lone pod: {:.1?} from the end of its batch to its claim in the API, {:.1?} at most (wanted: 5 ms for the decision)",
        times[times.len() / 2],
        times[times.len() - 1]
    );
}

/// What this process has in memory now, in MiB, as Linux tells it.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn fill(client: &Direct, nodes: usize, pods: usize) {
    let put = |group: &str, plural: &str, count: usize, make: &dyn Fn(usize) -> Value| {
        let resource = client.resource(group, plural).unwrap();
        for from in (0..count).step_by(CHUNK) {
            let chunk = (from..count.min(from + CHUNK)).map(make);
            let ready = chunk.map(|object| client.prepare_restored(&resource, object).unwrap()).collect();
            client.put_restored(ready).unwrap();
        }
    };
    let made = pool(None);
    put("karpenter.kwok.sh", "kwoknodeclasses", 1, &|_| with_identity(made[0].clone(), 1, 0));
    put("karpenter.sh", "nodepools", 1, &|_| with_identity(made[1].clone(), 2, 0));
    put("karpenter.sh", "nodeclaims", nodes, &|number| with_identity(claim(number), 3, number));
    put("", "nodes", nodes, &|number| with_identity(node(number), 4, number));
    put("", "pods", pods, &|number| with_identity(pod(number, nodes), 5, number));
}

fn with_identity(mut object: Value, kind: u32, number: usize) -> Value {
    object["metadata"]["uid"] = format!("{kind:08x}-0000-4000-8000-{number:012x}").into();
    object["metadata"]["creationTimestamp"] = AT.into();
    object["metadata"]["managedFields"] = json!([{"manager": "someone", "operation": "Update", "apiVersion": "v1",
        "time": AT, "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:resources": {}}}}}}]);
    object
}

fn name(number: usize) -> String {
    format!("default-{number:05}")
}

fn labels(number: usize) -> Value {
    json!({"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        "karpenter.kwok.sh/kwoknodeclass": "default", "kubernetes.io/hostname": name(number),
        "node.kubernetes.io/instance-type": "m-16x-amd64-linux", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": format!("test-zone-{}", ["a", "b", "c", "d"][number % 4])})
}

fn room() -> Value {
    json!({"cpu": "16", "memory": "128Gi", "pods": "110", "ephemeral-storage": "20Gi"})
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": AT})
}

fn claim(number: usize) -> Value {
    let types: Vec<String> = (0..40).map(|size| format!("m-{size}x-amd64-linux")).collect();
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name(number), "labels": labels(number), "finalizers": ["karpenter.sh/termination"]},
        "spec": {
            "expireAfter": "Never",
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}],
            "resources": {"requests": {"cpu": "14", "memory": "50Gi"}}},
        "status": {"providerID": format!("kwok://{}", name(number)), "nodeName": name(number), "imageID": "none",
            "capacity": room(), "allocatable": room(),
            "conditions": (["Launched", "Registered", "Initialized", "Ready"].map(condition))},
    })
}

fn node(number: usize) -> Value {
    // As a kubelet reports them: the longest part of a real Node.
    let images: Vec<Value> = (0..40)
        .map(|image| json!({"names": [format!("example.com/team/application-{image}@sha256:{image:064x}"), format!("example.com/team/application-{image}:1.2.3")], "sizeBytes": 123_456_789}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name(number), "labels": labels(number), "finalizers": ["karpenter.sh/termination"],
            "annotations": {"kwok.x-k8s.io/node": "fake"}, "ownerReferences": [{"apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim", "name": name(number), "uid": format!("{:08x}-0000-4000-8000-{number:012x}", 3), "blockOwnerDeletion": true}]},
        "spec": {"providerID": format!("kwok://{}", name(number))},
        "status": {"capacity": room(), "allocatable": room(), "images": images, "conditions": [condition("Ready")],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    })
}

fn pod(number: usize, nodes: usize) -> Value {
    let app = format!("app-{:04}", number / PODS_PER_SET);
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    let environment: Vec<Value> = (0..12)
        .map(|at| json!({"name": format!("VARIABLE_{at}"), "value": format!("value {at} of {app}")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{app}-7f9c6d5b84-{number:06}"), "namespace": "default",
            "labels": {"app": app, "pod-template-hash": "7f9c6d5b84"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-7f9c6d5b84"),
                "uid": format!("{:08x}-0000-4000-8000-{:012x}", 6, number / PODS_PER_SET), "controller": true}]},
        "spec": {"nodeName": name(number % nodes), "serviceAccountName": "default", "containers": [{
            "name": "main", "image": "example.com/team/application:1.2.3", "env": environment, "livenessProbe": probe, "readinessProbe": probe,
            "resources": {"requests": {"cpu": format!("{}m", 100 + 10 * (number / PODS_PER_SET % 30)), "memory": "256Mi"}}}]},
        "status": {"phase": "Running", "startTime": AT, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": (["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition)),
            "containerStatuses": [{"name": "main", "image": "example.com/team/application:1.2.3", "imageID": "sha256:0", "ready": true,
                "started": true, "restartCount": 0, "state": {"running": {"startedAt": AT}}}]},
    })
}
