//! A large cluster: `cargo bench -p joiner-apiserver --bench load`.
//!
//! Wanted on two cores: 5,000 nodes and 100,000 pods in less than 15 seconds and 2 GB. After it, the list of all pods over TLS.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::future::try_join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use joiner_apiserver::credentials::Credentials;
use joiner_apiserver::serve::Endpoint;
use joiner_apiserver::service::{ApiServer, Settings};
use serde_json::{Value, json};

#[path = "../tests/tls_client/mod.rs"]
mod tls_client;
use tls_client::TlsClient;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: usize = 5_000;
const PODS: usize = 100_000;

#[allow(clippy::print_stdout, reason = "the figures are what it is for")]
fn main() {
    let begun = Instant::now();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        let server = ApiServer::new(Arc::new(Timestamp::now), &Settings::default());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let credentials = Credentials::generate().expect("credentials");
        let endpoint = Endpoint::open(address, &credentials).await.expect("a free port");
        let client = TlsClient::from_kubeconfig(&endpoint.kubeconfig());
        let serving = tokio::spawn(endpoint.serve(server.clone(), std::future::pending()));
        let (code, _) = client.ask("GET", "/api/v1/namespaces/default", "").await.expect("an answer");
        assert_eq!(code, 200);
        println!(
            "from nothing to the first answer over TLS: {:.1?} ({:.2} s of CPU)",
            begun.elapsed(),
            cpu_seconds()
        );

        let (start, cpu) = (Instant::now(), cpu_seconds());
        load(&server).await;
        println!(
            "{NODES} nodes and {PODS} pods: {:.1?} ({:.1} s of CPU, with the making of the bodies), {} at most",
            start.elapsed(),
            cpu_seconds() - cpu,
            peak_memory()
        );

        for round in 1..=3 {
            let start = Instant::now();
            let (code, list) = client.ask("GET", "/api/v1/pods", "").await.expect("an answer");
            assert_eq!(code, 200);
            println!(
                "list of all pods over TLS, {round}: {:.2?}, {} MB",
                start.elapsed(),
                list.len() / 1_000_000
            );
        }
        println!("{} at most", peak_memory());
        serving.abort();
    });
}

async fn load(server: &ApiServer) {
    let writers = (0..2).map(|writer| {
        let server = server.clone();
        tokio::spawn(async move {
            for number in (0..NODES).filter(|number| number % 2 == writer) {
                post(&server, "/api/v1/nodes", node(number)).await;
            }
            for number in (0..PODS).filter(|number| number % 2 == writer) {
                post(&server, "/api/v1/namespaces/default/pods", pod(number)).await;
            }
        })
    });
    try_join_all(writers).await.expect("no writer fails");
}

async fn post(server: &ApiServer, path: &str, body: Value) {
    let request = Request::builder()
        .method("POST")
        .uri(format!("http://localhost{path}"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .expect("the request is valid");
    let answer = server.answer(request).await;
    assert_eq!(answer.status(), 201);
    answer.into_body().collect().await.expect("the answer is whole");
}

fn node(number: usize) -> Value {
    let quantities = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{number}"), "labels": {
            "kubernetes.io/hostname": format!("node-{number}"), "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
            "node.kubernetes.io/instance-type": "m5.4xlarge", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        }},
        "spec": {"providerID": format!("kwok://node-{number}")},
        "status": {"capacity": quantities, "allocatable": quantities, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("app-{}-{number}", number % 500), "labels": {"app": format!("app-{}", number % 500)}},
        "spec": {"nodeName": format!("node-{}", number % NODES), "containers": [{
            "name": "main", "image": "registry/app:1", "ports": [{"containerPort": 8080}],
            "env": [{"name": "MODE", "value": "production"}],
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        }]},
    })
}

/// The time this process has kept a core busy, as Linux tells it: on a machine that does other things too, the better measure.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// The most memory this process has had so far, as Linux tells it.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: Option<u64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kibibytes.map_or("unknown memory".to_owned(), |kibibytes| format!("{} MiB", kibibytes / 1024))
}
