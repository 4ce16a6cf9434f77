//! A client-go informer through broken connections, expired history and a restarted server: nothing missed, nothing repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use jiff::Timestamp;
use joiner_apiserver::serve::Endpoint;
use joiner_apiserver::service::{ApiServer, Settings};
use joiner_testbed::client::Client;
use joiner_testbed::plane::{Parts, scratch};
use joiner_testbed::relay::Relay;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The running program and what it printed.
struct Informer {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Informer {
    /// Started behind a relay.
    fn start(program: &Path, kubeconfig: &str, server: &str, relay: &Relay) -> Self {
        let folder = scratch("informer").unwrap();
        let file = folder.join("kubeconfig");
        std::fs::write(&file, kubeconfig.replace(server, &relay.address().to_string())).unwrap();
        let mut child = Command::new(program)
            .arg(file)
            .arg("default")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (out, sink) = (child.stdout.take().unwrap(), lines.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                sink.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
            let _ = std::fs::remove_dir_all(folder);
        });
        Self { child, lines }
    }

    fn events(&self) -> Vec<Value> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits until the handler knows exactly these objects in these versions.
    async fn settled(&self, wanted: &BTreeMap<String, String>, when: &str) {
        let start = Instant::now();
        loop {
            let known = known(&self.events());
            if known == *wanted {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_secs(90),
                "{when}: the informer knows {known:?} and not {wanted:?}; it printed {:?}",
                self.events().iter().rev().take(8).collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        // It ends when its input does.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// What a controller would know from the events alone; fails on one that does not fit those before it.
fn known(events: &[Value]) -> BTreeMap<String, String> {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for event in events {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let (name, version) = (text("name"), text("version"));
        match event["event"].as_str().unwrap() {
            "added" => {
                assert!(known.insert(name.clone(), version.clone()).is_none(), "added twice: {event}");
                assert!(seen.insert((name, version)), "repeated: {event}");
            }
            // After listing anew the informer tells of every object, also of those it knew as they are: its own doing, on any server.
            "updated" if text("before") == version => assert_eq!(known.get(&name), Some(&version), "{event}"),
            "updated" => {
                let before = known.insert(name.clone(), version.clone());
                assert_eq!(before, Some(text("before")), "{event}");
                assert!(seen.insert((name, version)), "repeated: {event}");
            }
            "deleted" => assert!(known.remove(&name).is_some(), "deleted but not known: {event}"),
            _ => {}
        }
    }
    known
}

/// Writes objects and remembers what was written.
struct Writer<'a> {
    client: &'a Client,
    present: BTreeMap<String, String>,
    written: BTreeSet<(String, String)>,
    count: u32,
}

impl Writer<'_> {
    async fn write(&mut self, name: &str) {
        self.count += 1;
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"value": self.count.to_string()}});
        let (status, answer) = if self.present.contains_key(name) {
            self.client.call(Method::PUT, &format!("{MAPS}/{name}"), Some(&body)).await.unwrap()
        } else {
            self.client.call(Method::POST, MAPS, Some(&body)).await.unwrap()
        };
        assert!(status < 300, "{answer}");
        let version = answer["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        self.present.insert(name.to_owned(), version.clone());
        self.written.insert((name.to_owned(), version));
    }

    async fn delete(&mut self, name: &str) {
        let (status, answer) =
            self.client.call(Method::DELETE, &format!("{MAPS}/{name}"), None).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        self.present.remove(name);
    }
}

/// Runs the informer through everything. `expire` makes the server forget its history.
async fn follow(
    program: &Path,
    kubeconfig: &str,
    client: &Client,
    mut expire: impl AsyncFnMut(),
) -> (usize, usize) {
    let relay = Relay::start(client.address()).await.unwrap();
    let mut writer = Writer { client, present: BTreeMap::new(), written: BTreeSet::new(), count: 0 };
    for number in 0..20 {
        writer.write(&format!("m{number}")).await;
    }
    let before = writer.written.clone();
    let informer = Informer::start(program, kubeconfig, client.address(), &relay);
    informer.settled(&writer.present, "at the start").await;

    // Connections break again and again under writes: every single change must come, once.
    for round in 0..8 {
        for number in 0..15 {
            writer.write(&format!("m{}", (round * 7 + number) % 20)).await;
            if number == 7 {
                relay.cut();
            }
        }
        informer.settled(&writer.present, "after a cut").await;
    }
    let seen: BTreeSet<(String, String)> = informer
        .events()
        .iter()
        .filter(|event| event["event"] == "added" || event["event"] == "updated")
        .map(|event| {
            (event["name"].as_str().unwrap().to_owned(), event["version"].as_str().unwrap().to_owned())
        })
        .collect();
    let missed: Vec<_> = writer.written.difference(&seen).filter(|change| !before.contains(change)).collect();
    assert!(missed.is_empty(), "missed {missed:?}");

    // Away for so long that history is gone: what remains must be right, what was deleted meanwhile must be told.
    for round in 0..2 {
        relay.close();
        for number in 0..60 {
            writer.write(&format!("m{}", 10 + number % 10)).await;
        }
        writer.delete(&format!("m{round}")).await;
        writer.write(&format!("new{round}")).await;
        expire().await;
        relay.open(client.address());
        informer.settled(&writer.present, "after expired history").await;
        // And it follows again.
        writer.write("m15").await;
        informer.settled(&writer.present, "after the return").await;
    }
    let events = informer.events();
    let deleted = events.iter().filter(|event| event["event"] == "deleted").count();
    assert_eq!(deleted, 2, "deletions told");
    (events.len(), relay.accepted())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_misses_and_repeats_nothing_on_the_embedded_server() {
    let test = "an_informer_misses_and_repeats_nothing_on_the_embedded_server";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    // A short history, so that being away is long enough to fall out of it.
    let settings = Settings { history: 40, ..Settings::default() };
    let server = ApiServer::new(Arc::new(Timestamp::now), &settings);
    let endpoint = Endpoint::bind(0).await.unwrap();
    let kubeconfig = endpoint.kubeconfig();
    let client = Client::from_kubeconfig(&kubeconfig).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(endpoint.serve(server, async move {
        let _ = stopped.await;
    }));
    let (events, connections) = follow(&programs.path("informer"), &kubeconfig, &client, async || {}).await;
    assert!(events > 140 && connections > 8, "{events} events over {connections} connections");
    drop(stop);
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_informer_misses_and_repeats_nothing_on_a_real_server() {
    let test = "an_informer_misses_and_repeats_nothing_on_a_real_server";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let Some(mut bed) = joiner_testbed::plane_for(test, Parts::BARE).await.unwrap() else { return };
    let Some(mut plane) = bed.plane.take() else {
        joiner_testbed::not_run(test, "it restarts the server, which is not ours");
        return;
    };
    let kubeconfig = std::fs::read_to_string(&bed.kubeconfig).unwrap();
    let client = plane.client().unwrap();
    // A restarted server remembers nothing of before.
    follow(&programs.path("informer"), &kubeconfig, &client, async || {
        plane.stop_api_server();
        plane.start_api_server().await.unwrap();
    })
    .await;
}
