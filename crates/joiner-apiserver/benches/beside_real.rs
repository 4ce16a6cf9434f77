//! The embedded server beside kube-apiserver and etcd: the same requests, writes per second, memory, and a list of all pods.
//!
//! `cargo bench -p joiner-apiserver --bench beside_real -- 20000` says how many pods to write (100 000 otherwise). Needs the programs of
//! `cargo xtask control-plane build`, and an idle machine: both sides share its cores with the client.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement for developers")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use joiner_apiserver::serve::Endpoint;
use joiner_apiserver::service::{ApiServer, Settings};
use joiner_testbed::client::Client;
use joiner_testbed::plane::{ControlPlane, Parts};
use joiner_testbed::process::Kept;
use serde_json::{Value, json};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WRITERS: usize = 16;
const PODS: &str = "/api/v1/namespaces/default/pods";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match arguments.as_slice() {
        [word, kubeconfig] if word == "serve" => runtime.block_on(serve(kubeconfig)),
        [pods] => runtime.block_on(compare(pods.parse().unwrap())),
        _ => runtime.block_on(compare(100_000)),
    }
}

/// The other process: the embedded server on its own, so that its memory is its own.
async fn serve(kubeconfig: &str) {
    let server = ApiServer::new(Arc::new(Timestamp::now), &Settings::default());
    let endpoint = Endpoint::bind(0).await.unwrap();
    std::fs::write(kubeconfig, endpoint.kubeconfig()).unwrap();
    // Whoever started it ends it.
    endpoint.serve(server, std::future::pending()).await;
}

fn pod(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("web-{number:06}"), "labels": {"app": "web", "number": number.to_string()}},
        "spec": {"automountServiceAccountToken": false, "nodeName": format!("node-{}", number % 1000), "containers": [
            {"name": "web", "image": "nginx:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
             "env": [{"name": "A", "value": "b"}], "ports": [{"containerPort": 80}]}]}})
}

struct Figures {
    writes: f64,
    updates: f64,
    list: Duration,
    list_bytes: usize,
    memory_mib: usize,
}

/// Creates the pods over TLS, changes a tenth of them, lists all.
async fn over_tls(client: &Client, pods: usize, memory: impl Fn() -> usize) -> Figures {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    // There already, unless no controller made it.
    let _ = client.call(Method::POST, "/api/v1/namespaces/default/serviceaccounts", Some(&account)).await;
    let created = spread(client, pods, |number| (Method::POST, PODS.to_owned(), pod(number))).await;
    let changes = (pods / 10).max(1);
    let changed = spread(client, changes, |number| {
        let body = json!({"metadata": {"labels": {"changed": "yes"}}});
        (Method::PATCH, format!("{PODS}/web-{number:06}"), body)
    })
    .await;
    let mut list = Duration::MAX;
    let mut list_bytes = 0;
    for _ in 0..3 {
        let start = Instant::now();
        let request = Request::get("/api/v1/pods").header("accept", "application/json");
        let answer = client.send(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        list = list.min(start.elapsed());
        list_bytes = answer.body().len();
    }
    Figures {
        writes: pods as f64 / created.as_secs_f64(),
        updates: changes as f64 / changed.as_secs_f64(),
        list,
        list_bytes,
        memory_mib: memory(),
    }
}

async fn spread(
    client: &Client,
    count: usize,
    request: impl Fn(usize) -> (Method, String, Value) + Copy + Send + Sync + 'static,
) -> Duration {
    let next = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (client, next) = (client.another(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let (method, path, body) = request(number);
                    let (status, answer) = client.call(method, &path, Some(&body)).await.unwrap();
                    assert!(status < 300, "{answer}");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    start.elapsed()
}

/// The same creations without a socket.
async fn in_process(pods: usize) -> f64 {
    let server = ApiServer::new(Arc::new(Timestamp::now), &Settings::default());
    let bodies: Vec<Bytes> = (0..pods).map(|number| Bytes::from(pod(number).to_string())).collect();
    let start = Instant::now();
    for body in bodies {
        let request = Request::post(PODS)
            .header("content-type", "application/json")
            .header("accept", "application/json")
            .body(Full::new(body))
            .unwrap();
        let answer = server.answer(request).await;
        assert_eq!(answer.status(), 201);
        let _ = answer.into_body().collect().await.unwrap();
    }
    pods as f64 / start.elapsed().as_secs_f64()
}

/// Resident memory of the programs that some shells keep, in MiB.
fn resident(keepers: &[u32]) -> usize {
    let output = Command::new("ps").args(["-A", "-o", "ppid=,rss="]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().map(|line| {
        line.split_whitespace().map(|word| word.parse::<usize>().unwrap_or(0)).collect::<Vec<_>>()
    });
    let of_ours = |row: &Vec<usize>| keepers.iter().any(|id| row[0] == usize::try_from(*id).unwrap());
    rows.filter(of_ours).map(|row| row[1]).sum::<usize>() / 1024
}

async fn start_embedded() -> (Kept, PathBuf, Client) {
    let folder = joiner_testbed::plane::scratch("bench").unwrap();
    let kubeconfig = folder.join("kubeconfig");
    let arguments = ["serve".to_owned(), kubeconfig.display().to_string()];
    let program = std::env::current_exe().unwrap();
    let mut server = Kept::start("embedded", &program, &arguments, &folder.join("log")).unwrap();
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.check().unwrap();
        if let Ok(text) = std::fs::read_to_string(&kubeconfig)
            && let Ok(client) = Client::from_kubeconfig(&text)
        {
            return (server, folder, client);
        }
    }
}

async fn compare(pods: usize) {
    let programs = joiner_testbed::cache::Programs::built().unwrap();
    let within = in_process(pods).await;
    println!("embedded, in process: {within:.0} creations/s");

    let (server, folder, client) = start_embedded().await;
    let ids = [server.id()];
    let ours = over_tls(&client, pods, || resident(&ids)).await;
    print("embedded, TLS", &ours);
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();

    let plane = ControlPlane::start(&programs, Parts::BARE).await.unwrap();
    let ids = plane.ids();
    let theirs = over_tls(&plane.client().unwrap(), pods, || resident(&ids)).await;
    print("kube-apiserver and etcd", &theirs);

    println!("in process: {:.1} times the writes (wanted: 10)", within / theirs.writes);
    println!("over TLS: {:.1} times the writes (wanted: 3)", ours.writes / theirs.writes);
    println!("over TLS: {:.1} times the changes", ours.updates / theirs.updates);
    println!("memory: {:.2} of theirs (wanted: 0.25)", ours.memory_mib as f64 / theirs.memory_mib as f64);
    println!("list: {:.2} of their time (wanted: 1)", ours.list.as_secs_f64() / theirs.list.as_secs_f64());
}

fn print(name: &str, figures: &Figures) {
    println!(
        "{name}: {:.0} creations/s, {:.0} changes/s, list of all in {:.2} s ({} MiB), {} MiB of memory",
        figures.writes,
        figures.updates,
        figures.list.as_secs_f64(),
        figures.list_bytes / 1024 / 1024,
        figures.memory_mib
    );
}
