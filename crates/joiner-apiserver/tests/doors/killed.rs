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
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Folder;
use super::tls_client::TlsClient;

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

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn connect(folder: &Folder) -> TlsClient {
    TlsClient::from_kubeconfig(&std::fs::read_to_string(folder.0.join("kubeconfig")).unwrap())
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

async fn list(client: &TlsClient) -> Value {
    let (code, body) = client.ask("GET", MAPS, "").await.unwrap();
    assert_eq!(code, 200);
    serde_json::from_slice(&body).unwrap()
}

/// Everything acknowledged is in the list, at the version acknowledged.
fn check(list: &Value, acknowledged: &[(String, String)]) {
    let items = list["items"].as_array().unwrap();
    assert!(items.len() >= acknowledged.len());
    for (name, told) in acknowledged {
        let found = items.iter().find(|map| map["metadata"]["name"] == name.as_str());
        assert_eq!(found.map(version), Some(told.as_str()), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost() {
    let folder = Folder::new();
    let acknowledged: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let mut latest = 0;
    for round in 0..3 {
        let process = Process::start(&folder);
        let client = connect(&folder);
        // What every earlier round was told is there, with the version it was told.
        let found = list(&client).await;
        let present: u64 = version(&found).parse().unwrap();
        assert!(present >= latest, "{present} after {latest}");
        check(&found, &acknowledged.lock());
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (client, acknowledged) = (client.clone(), acknowledged.clone());
                tokio::spawn(async move {
                    for turn in 0.. {
                        let name = format!("r{round}-w{writer}-{turn}");
                        let map = json!({"metadata": {"name": name}, "data": {"text": "x".repeat(200)}});
                        let Ok((code, made)) = client.ask("POST", MAPS, &map.to_string()).await else {
                            return;
                        };
                        assert_eq!(code, 201);
                        let made: Value = serde_json::from_slice(&made).unwrap();
                        acknowledged.lock().push((name, version(&made).to_owned()));
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
    let acknowledged = std::mem::take(&mut *acknowledged.lock());
    assert!(acknowledged.len() >= 180);
    check(&list(&connect(&folder)).await, &acknowledged);
    process.kill();
}
