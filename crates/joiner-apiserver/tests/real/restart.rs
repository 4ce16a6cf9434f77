//! A client-go informer while the embedded server ends and begins again on its folder: no change missed, none repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use jiff::Timestamp;
use joiner_apiserver::credentials::Credentials;
use joiner_apiserver::serve::Endpoint;
use joiner_apiserver::service::{ApiServer, Settings};
use joiner_testbed::client::Client;
use joiner_testbed::plane::scratch;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server on a folder, behind a listener.
struct Serving {
    server: ApiServer,
    client: Client,
    kubeconfig: String,
    port: u16,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Serving {
    /// On a port; 0 takes a free one.
    async fn start(folder: &Path, port: u16) -> Self {
        let server = ApiServer::in_folder(Arc::new(Timestamp::now), &Settings::default(), folder).unwrap();
        let credentials = Credentials::in_folder(folder).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let endpoint = Endpoint::open(address, &credentials).await.unwrap();
        let port = endpoint.address().port();
        let kubeconfig = endpoint.kubeconfig();
        let client = Client::from_kubeconfig(&kubeconfig).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(endpoint.serve(server.clone(), async move {
            let _ = stopped.await;
        }));
        Self { server, client, kubeconfig, port, stop, task }
    }

    /// Ends it; the folder is free then.
    async fn end(self) {
        drop(self.stop);
        self.task.await.unwrap();
        self.server.close();
    }
}

/// Ends the program with the test; it ends when its input does.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Object and version of each change the informer told of, and how often it had to list anew. A change told twice fails the test.
fn told(events: &[Value]) -> (BTreeSet<(String, String)>, usize) {
    let (mut told, mut listed) = (BTreeSet::new(), 0);
    for event in events {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let change = (text("name"), text("version"));
        match event["event"].as_str().unwrap_or_default() {
            // After listing anew an informer tells of every object, also of those it knew as they are: its own doing, on any server.
            "updated" if text("before") == change.1 => listed += usize::from(change.0 == "start"),
            "added" | "updated" => assert!(told.insert(change), "told twice: {event}"),
            "deleted" => assert!(told.insert((change.0, "gone".to_owned())), "told twice: {event}"),
            _ => {}
        }
    }
    (told, listed)
}

const ROUNDS: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_misses_and_repeats_nothing_when_the_server_restarts_on_its_folder() {
    let test = "an_informer_misses_and_repeats_nothing_when_the_server_restarts_on_its_folder";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let folder = scratch("restart").unwrap();
    let data = folder.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let mut serving = Serving::start(&data, 0).await;
    let file = folder.join("kubeconfig");
    std::fs::write(&file, &serving.kubeconfig).unwrap();
    let mut changes = Changes::default();
    changes.write(&serving.client, "start", 0).await;

    let mut command = Command::new(programs.path("informer"));
    command.arg(&file).arg("default").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut program = Program(command.spawn().unwrap());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (out, sink) = (program.0.stdout.take().unwrap(), lines.clone());
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            sink.lock().unwrap().push(serde_json::from_str::<Value>(&line).unwrap());
        }
    });
    changes.settled(&lines, "at the start").await;

    for round in 0..ROUNDS {
        for number in 0..12 {
            // In the middle of the writes the server goes and comes back.
            if number == 6 {
                let port = serving.port;
                serving.end().await;
                serving = Serving::start(&data, port).await;
            }
            changes.write(&serving.client, &format!("m{}", number % 8), round * 100 + number).await;
        }
        changes.write_and_delete(&serving.client, &format!("once{round}")).await;
        changes.settled(&lines, &format!("round {round}")).await;
    }
    let (told, listed) = told(&lines.lock().unwrap());
    assert!(told.len() > 60, "{} changes", told.len());
    assert!(listed < ROUNDS as usize, "the history of the folder is of no use: listed anew {listed} times");
    drop(program);
    serving.end().await;
    let _ = std::fs::remove_dir_all(folder);
}

/// What was written: each object with its versions in order.
#[derive(Default)]
struct Changes(BTreeMap<String, Vec<String>>);

impl Changes {
    async fn write(&mut self, client: &Client, name: &str, value: u32) {
        let body = map(name, value);
        let (status, answer) = if self.0.contains_key(name) {
            client.call(Method::PUT, &format!("{MAPS}/{name}"), Some(&body)).await.unwrap()
        } else {
            client.call(Method::POST, MAPS, Some(&body)).await.unwrap()
        };
        assert!(status < 300, "{answer}");
        let version = answer["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        self.0.entry(name.to_owned()).or_default().push(version);
    }

    async fn write_and_delete(&mut self, client: &Client, name: &str) {
        self.write(client, name, 0).await;
        let (status, answer) = client.call(Method::DELETE, &format!("{MAPS}/{name}"), None).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        self.0.entry(name.to_owned()).or_default().push("gone".to_owned());
    }

    /// Waits until the informer has told of everything. Only one that listed anew may pass over a version that has a successor.
    async fn settled(&self, lines: &Mutex<Vec<Value>>, when: &str) {
        let start = Instant::now();
        loop {
            let (told, listed) = told(&lines.lock().unwrap());
            let is_told = |name: &String, version: &String| told.contains(&(name.clone(), version.clone()));
            let lacks = |(name, versions): (&String, &Vec<String>)| match (listed, versions.split_last()) {
                (0, _) => versions.iter().any(|version| !is_told(name, version)),
                // Created and deleted unseen.
                (_, Some((last, earlier))) if last == "gone" => {
                    !is_told(name, last) && earlier.iter().any(|version| is_told(name, version))
                }
                (_, Some((last, _))) => !is_told(name, last),
                (_, None) => false,
            };
            let missed: Vec<&String> =
                self.0.iter().filter(|entry| lacks(*entry)).map(|(name, _)| name).collect();
            if missed.is_empty() {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(90), "{when}: missed changes of {missed:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn map(name: &str, value: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value.to_string()}})
}
