//! Requests without a socket: `cargo bench -p joiner-apiserver --bench requests`.
//!
//! Wanted on two cores: 20,000 objects written a second, 200,000 events a second to 100 watches.

use std::sync::Arc;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use futures::future::try_join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::runtime::Runtime;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn server() -> ApiServer {
    ApiServer::new(Arc::new(Timestamp::now), &Settings::default())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
}

fn config_map(number: usize) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number}"), "labels": {"app": "bench"}},
        "data": {"key": "value"},
    })
}

fn pod(number: usize) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{number}"), "labels": {"app": "bench"}},
        "spec": {"containers": [{
            "name": "main", "image": "registry/app:1", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        }]},
    })
}

async fn post(server: &ApiServer, path: &str, body: Bytes) {
    let request = Request::builder()
        .method("POST")
        .uri(format!("http://localhost{path}"))
        .header("content-type", "application/json")
        .body(Full::new(body))
        .expect("the request is valid");
    let answer = server.answer(request).await;
    assert_eq!(answer.status(), 201);
    answer.into_body().collect().await.expect("the answer is whole");
}

const WRITES: usize = 4000;

/// JSON in, JSON out.
#[divan::bench(args = ["configmaps", "pods"], sample_count = 5, sample_size = 1)]
fn create(bencher: Bencher<'_, '_>, kind: &str) {
    let runtime = runtime();
    let path = format!("/api/v1/namespaces/default/{kind}");
    bencher
        .counter(ItemsCount::new(WRITES))
        .with_inputs(|| {
            let make = if kind == "pods" { pod } else { config_map };
            (server(), (0..WRITES).map(|number| Bytes::from(make(number).to_string())).collect::<Vec<_>>())
        })
        .bench_values(|(server, bodies)| {
            runtime.block_on(async {
                let half = bodies.len() / 2;
                let (first, second) = bodies.split_at(half);
                let writers = [first.to_vec(), second.to_vec()].map(|bodies| {
                    let (server, path) = (server.clone(), path.clone());
                    tokio::spawn(async move {
                        for body in bodies {
                            post(&server, &path, body).await;
                        }
                    })
                });
                try_join_all(writers).await.expect("no writer fails");
            });
            server
        });
}

/// The same through kube-rs, with its typed objects on both sides.
#[divan::bench(args = ["configmaps", "pods"], sample_count = 5, sample_size = 1)]
fn create_with_kube(bencher: Bencher<'_, '_>, kind: &str) {
    let runtime = runtime();
    bencher.counter(ItemsCount::new(WRITES)).with_inputs(server).bench_values(|server| {
        runtime.block_on(async {
            // A client is a queue: each writer has its own.
            let writers = (0..2).map(|writer| {
                let (client, kind) = (Client::new(server.clone(), "default"), kind.to_owned());
                tokio::spawn(async move {
                    let numbers = (0..WRITES).filter(|number| number % 2 == writer);
                    if kind == "pods" {
                        let api: Api<Pod> = Api::default_namespaced(client);
                        for number in numbers {
                            let pod = serde_json::from_value(pod(number)).expect("a pod");
                            api.create(&PostParams::default(), &pod).await.expect("it is created");
                        }
                    } else {
                        let api: Api<ConfigMap> = Api::default_namespaced(client);
                        for number in numbers {
                            let map = serde_json::from_value(config_map(number)).expect("a config map");
                            api.create(&PostParams::default(), &map).await.expect("it is created");
                        }
                    }
                })
            });
            try_join_all(writers).await.expect("no writer fails");
        });
        server
    });
}

/// The same without requests: parsed objects in, parsed objects out.
#[divan::bench(args = ["configmaps", "pods"], sample_count = 5, sample_size = 1)]
fn create_directly(bencher: Bencher<'_, '_>, kind: &str) {
    bencher
        .counter(ItemsCount::new(WRITES))
        .with_inputs(|| {
            let make = if kind == "pods" { pod } else { config_map };
            (server(), (0..WRITES).map(make).collect::<Vec<_>>())
        })
        .bench_values(|(server, objects)| {
            let client = server.direct("bench");
            let resource = client.resource("", kind).expect("a resource");
            for object in objects {
                client.create(&resource, "default", object).expect("it is created");
            }
            server
        });
}

/// A pod is bound and its status written, as a scheduler and a kubelet do.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn bind_and_run_directly(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(2 * WRITES))
        .with_inputs(|| {
            let server = server();
            let client = server.direct("bench");
            let pods = client.resource("", "pods").expect("a resource");
            for number in 0..WRITES {
                client.create(&pods, "default", pod(number)).expect("it is created");
            }
            (server, pods)
        })
        .bench_values(|(server, pods)| {
            let client = server.direct("bench");
            for number in 0..WRITES {
                let name = format!("pod-{number}");
                client.bind("default", &name, "node-1").expect("it is bound");
                let mut pod = client.get(&pods, "default", &name).expect("it is there").into_value();
                pod["status"]["phase"] = "Running".into();
                client.update_status(&pods, pod).expect("its status is written");
            }
            server
        });
}

const WATCHES: usize = 100;
const CHANGES: usize = 2000;

/// Every change to every watch.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn fan_out(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let server = server();
    let from = runtime.block_on(async {
        let request =
            Request::get("http://localhost/api/v1/pods").body(Full::<Bytes>::default()).expect("a request");
        let list = server.answer(request).await.into_body().collect().await.expect("the list is whole");
        let list: serde_json::Value = serde_json::from_slice(&list.to_bytes()).expect("a list is JSON");
        for number in 0..CHANGES {
            post(&server, "/api/v1/namespaces/default/pods", Bytes::from(pod(number).to_string())).await;
        }
        list["metadata"]["resourceVersion"].as_str().expect("a list has a version").to_owned()
    });
    // All changes lie in the history: what is measured is the way from there to the readers.
    bencher.counter(ItemsCount::new(WATCHES * CHANGES)).bench(|| {
        runtime.block_on(async {
            let readers = (0..WATCHES).map(|_| {
                let server = server.clone();
                let uri = format!(
                    "http://localhost/api/v1/pods?watch=true&resourceVersion={from}&timeoutSeconds=60"
                );
                tokio::spawn(async move {
                    let request =
                        Request::builder().uri(uri).body(Full::new(Bytes::new())).expect("a request");
                    let mut body = server.answer(request).await.into_body();
                    let mut events = 0;
                    while events < CHANGES {
                        let frame = body.frame().await.expect("the watch goes on").expect("it does not fail");
                        let data = frame.into_data().expect("events are data");
                        events += data.iter().filter(|byte| **byte == b'\n').count();
                    }
                })
            });
            try_join_all(readers).await.expect("no reader fails");
        });
    });
}
