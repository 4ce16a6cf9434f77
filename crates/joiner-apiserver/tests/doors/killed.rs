//! A server in a process of its own is killed while clients write: what it acknowledged is there when it comes back.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_apiserver::credentials::Credentials;
use joiner_apiserver::serve::Endpoint;
use joiner_apiserver::service::{ApiServer, Settings};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

use super::Folder;

const FOLDER: &str = "JOINER_TEST_SERVE_FOLDER";

/// The server, in the other process; nothing when it runs as a test.
#[test]
fn serve_a_folder() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = Path::new(&folder);
        let server = ApiServer::in_folder(Arc::new(Timestamp::now), &Settings::default(), folder).unwrap();
        let credentials = Credentials::in_folder(folder).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let endpoint = Endpoint::open(address, &credentials).await.unwrap();
        std::fs::write(folder.join("kubeconfig"), endpoint.kubeconfig()).unwrap();
        println!("\nready");
        endpoint.serve(server, std::future::pending()).await;
    });
}

struct Process(Child);

impl Process {
    fn start(folder: &Folder) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::serve_a_folder", "--exact", "--nocapture"])
            .env(FOLDER, &folder.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "the server did not start");
        Self(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn connect(folder: &Folder) -> Api<ConfigMap> {
    let kubeconfig = Kubeconfig::read_from(folder.0.join("kubeconfig")).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.connect_timeout = Some(Duration::from_secs(5));
    Api::default_namespaced(Client::try_from(config).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    let folder = Folder::new();
    let acknowledged: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let mut latest = 0;
    for round in 0..3 {
        let process = Process::start(&folder);
        let api = connect(&folder).await;
        // What every earlier round was told is there, with the version it was told.
        let list = api.list(&ListParams::default()).await.unwrap();
        let version: u64 = list.metadata.resource_version.clone().unwrap().parse().unwrap();
        assert!(version >= latest, "{version} after {latest}");
        for (name, version) in acknowledged.lock().iter() {
            let found = list.iter().find(|map| map.name_any() == *name);
            assert_eq!(found.and_then(ResourceExt::resource_version).as_ref(), Some(version), "{name}");
        }
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (api, acknowledged) = (api.clone(), acknowledged.clone());
                tokio::spawn(async move {
                    for turn in 0.. {
                        let name = format!("r{round}-w{writer}-{turn}");
                        let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(200)}});
                        let map = serde_json::from_value(map).unwrap();
                        let Ok(made) = api.create(&PostParams::default(), &map).await else { return };
                        acknowledged.lock().push((name, made.resource_version().unwrap()));
                    }
                })
            })
            .collect();
        let wanted = acknowledged.lock().len() + 60;
        while acknowledged.lock().len() < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        process.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        latest =
            acknowledged.lock().iter().map(|(_, version)| version.parse().unwrap()).max().unwrap_or(latest);
    }
    let process = Process::start(&folder);
    let list = connect(&folder).await.list(&ListParams::default()).await.unwrap();
    let acknowledged = acknowledged.lock();
    assert!(acknowledged.len() >= 180 && list.items.len() >= acknowledged.len());
    for (name, version) in acknowledged.iter() {
        let found = list.iter().find(|map| map.name_any() == *name);
        assert_eq!(found.and_then(ResourceExt::resource_version).as_ref(), Some(version), "{name}");
    }
    process.kill();
}
