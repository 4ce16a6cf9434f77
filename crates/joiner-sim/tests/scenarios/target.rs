//! Where a script is played: on the simulated cluster, or on a real one.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::SignedDuration;
use joiner_apiserver::service::ApiServer;
use joiner_sim::kubelet::{Lifecycle, Managed};
use joiner_sim::object::{Fields, Kind};
use joiner_sim::settings::Settings;
use joiner_sim::world::World;
use joiner_testbed::client::Client;
use serde_json::{Value, json};

use crate::observe;
use crate::script::{Script, seconds};

/// A server that requests can be sent to.
pub enum Server<'a> {
    Real(&'a Client),
    Simulated(&'a ApiServer),
}

impl Server<'_> {
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        match self {
            Server::Real(client) => {
                let answer = client.send(request).await.unwrap();
                (answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap_or_default())
            }
            Server::Simulated(server) => {
                let answer = server.answer(request).await;
                let status = answer.status().as_u16();
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                (status, serde_json::from_slice(&body).unwrap_or_default())
            }
        }
    }

    pub async fn list(&self, kind: Kind, namespace: &str) -> Vec<Value> {
        let (status, list) =
            self.send(Method::GET, &collection(kind, namespace), "application/json", None).await;
        assert_eq!(status, 200, "{list}");
        list.items(&["items"]).to_vec()
    }
}

pub fn collection(kind: Kind, namespace: &str) -> String {
    let root = match kind.group() {
        "" => format!("/api/{}", kind.version()),
        group => format!("/apis/{group}/{}", kind.version()),
    };
    match kind.namespaced() {
        true => format!("{root}/namespaces/{namespace}/{}", kind.plural()),
        false => format!("{root}/{}", kind.plural()),
    }
}

fn kind_of(value: &Value) -> Kind {
    Kind::named(value.as_str().unwrap()).unwrap_or_else(|| panic!("unknown kind {value}"))
}

/// Creates the namespace and the nodes of a script.
async fn prepare(server: &Server<'_>, script: &Script) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": script.name}});
    let path = collection(Kind::Namespace, "");
    let (status, answer) = server.send(Method::POST, &path, "application/json", Some(&namespace)).await;
    assert_eq!(status, 201, "{answer}");
    for name in &script.nodes {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    "kubernetes.io/hostname": name, "scenario": script.name,
                    "topology.kubernetes.io/zone": script.name,
                },
            },
            "status": {"capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        });
        let path = collection(Kind::Node, "");
        let (status, answer) = server.send(Method::POST, &path, "application/json", Some(&node)).await;
        assert_eq!(status, 201, "{answer}");
    }
}

/// Whether a real cluster has made what every namespace needs.
async fn is_prepared(server: &Server<'_>, script: &Script) -> bool {
    let accounts = server.list(Kind::ServiceAccount, &script.name).await;
    let nodes = server.list(Kind::Node, "").await;
    let ready = nodes
        .iter()
        .filter(|node| script.nodes.iter().any(|name| name == node.name()))
        .filter(|node| node.condition_is_true("Ready") && node.items(&["spec", "taints"]).is_empty());
    !accounts.is_empty() && ready.count() == script.nodes.len()
}

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Does one step; returns what the server said, where that is of interest.
async fn act(server: &Server<'_>, script: &Script, step: &Value) -> Value {
    let namespace = &script.name;
    let Some((verb, what)) =
        step.as_object().unwrap().iter().find(|(verb, _)| *verb != "within" && *verb != "about")
    else {
        panic!("{namespace}: a step without a verb: {step}");
    };
    let expect = |(status, answer): (u16, Value)| {
        assert!(status < 300, "{namespace}: {step}: {status} {answer}");
        answer
    };
    match verb.as_str() {
        "create" => {
            let objects = what.as_array().cloned().unwrap_or_else(|| vec![what.clone()]);
            for mut object in objects {
                let kind = kind_of(&object["kind"]);
                object["apiVersion"] = kind.api_version().into();
                let path = collection(kind, namespace);
                expect(server.send(Method::POST, &path, "application/json", Some(&object)).await);
            }
            Value::Null
        }
        "patch" => {
            let mut path =
                format!("{}/{}", collection(kind_of(&what["kind"]), namespace), what.text(&["name"]));
            if let Some(subresource) = what["subresource"].as_str() {
                path = format!("{path}/{subresource}");
            }
            let content = if what["strategic"] == true { STRATEGIC } else { MERGE };
            expect(server.send(Method::PATCH, &path, content, Some(&what["with"])).await);
            Value::Null
        }
        "scale" => {
            let path =
                format!("{}/{}/scale", collection(kind_of(&what["kind"]), namespace), what.text(&["name"]));
            let patch = json!({"spec": {"replicas": what["replicas"]}});
            expect(server.send(Method::PATCH, &path, MERGE, Some(&patch)).await);
            Value::Null
        }
        "delete" => {
            let path = format!("{}/{}", collection(kind_of(&what["kind"]), namespace), what.text(&["name"]));
            let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            for field in ["gracePeriodSeconds", "propagationPolicy"] {
                if let Some(value) = what.get(field) {
                    options[field] = value.clone();
                }
            }
            expect(server.send(Method::DELETE, &path, "application/json", Some(&options)).await);
            Value::Null
        }
        // Pods chosen by label, in the order of their names, or as many as are asked for.
        "pods" => {
            let selector = what.text(&["selector"]).replace('=', "%3D").replace(',', "%2C");
            let path = format!("{}?labelSelector={selector}", collection(Kind::Pod, namespace));
            let list = expect(server.send(Method::GET, &path, "application/json", None).await);
            let unbound = what["unbound"] == true;
            let pods = list
                .items(&["items"])
                .iter()
                .filter(|pod| !pod.is_deleting() && (!unbound || pod.text(&["spec", "nodeName"]).is_empty()));
            let on = what["on"].as_str();
            let pods = pods.filter(|pod| on.is_none_or(|node| pod.text(&["spec", "nodeName"]) == node));
            let phase = what["phase"].as_str();
            let pods = pods.filter(|pod| phase.is_none_or(|phase| pod.text(&["status", "phase"]) == phase));
            let count = what["count"].as_u64().map_or(usize::MAX, |count| usize::try_from(count).unwrap());
            let mut answers = Vec::new();
            for pod in pods.take(count) {
                answers.push(to_pod(server, namespace, pod, what).await);
            }
            // Only a refused eviction tells something; other pods may have gone meanwhile.
            if what["do"] == "evict" { answers.into() } else { Value::Null }
        }
        "wait" => Value::Null,
        other => panic!("{namespace}: a step has no verb `{other}`"),
    }
}

/// What the script wants done to one of the chosen pods.
async fn to_pod(server: &Server<'_>, namespace: &str, pod: &Value, what: &Value) -> Value {
    let path = format!("{}/{}", collection(Kind::Pod, namespace), pod.name());
    let (status, answer) = match what.text(&["do"]) {
        "delete" => {
            let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            if let Some(grace) = what.get("gracePeriodSeconds") {
                options["gracePeriodSeconds"] = grace.clone();
            }
            server.send(Method::DELETE, &path, "application/json", Some(&options)).await
        }
        "evict" => {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": pod.name(), "namespace": namespace},
            });
            server.send(Method::POST, &format!("{path}/eviction"), "application/json", Some(&eviction)).await
        }
        "bind" => {
            let node = match what["node"].as_str() {
                Some(node) => node.to_owned(),
                None => meant_for(pod).to_owned(),
            };
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name()},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            server.send(Method::POST, &format!("{path}/binding"), "application/json", Some(&binding)).await
        }
        "patch" => server.send(Method::PATCH, &path, STRATEGIC, Some(&what["with"])).await,
        "status" => {
            server.send(Method::PATCH, &format!("{path}/status"), STRATEGIC, Some(&what["with"])).await
        }
        "ready" | "fail" | "succeed" => {
            let status = match what.text(&["do"]) {
                "ready" => json!({"phase": "Running", "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": now(server).await},
                ]}),
                "fail" => json!({"phase": "Failed"}),
                _ => json!({"phase": "Succeeded"}),
            };
            let patch = json!({"status": status});
            server.send(Method::PATCH, &format!("{path}/status"), STRATEGIC, Some(&patch)).await
        }
        other => panic!("{namespace}: nothing called `{other}` can be done to a pod"),
    };
    let refused = status >= 300;
    json!({"status": status, "message": if refused { answer["message"].clone() } else { Value::Null }})
}

/// The node at which a daemon pod is aimed.
fn meant_for(pod: &Value) -> &str {
    let required = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    pod.at(&required)["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str().unwrap()
}

/// The server's time, from something it writes down.
async fn now(server: &Server<'_>) -> Value {
    let path = collection(Kind::ConfigMap, "default");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "now-"}});
    let (_, made) = server.send(Method::POST, &path, "application/json", Some(&map)).await;
    let name = made.name().to_owned();
    server.send(Method::DELETE, &format!("{path}/{name}"), "application/json", None).await;
    made["metadata"]["creationTimestamp"].clone()
}

/// A simulated cluster.
pub struct Simulated {
    world: World,
}

impl Simulated {
    pub fn new(speed: u32) -> Self {
        let lifecycle = Lifecycle { managed: Managed::Annotated, ..Lifecycle::fast() };
        let start = "2026-01-01T12:00:00Z".parse().unwrap();
        let mut world = World::new(Settings { seed: 7, start, speed, lifecycle, ..Settings::default() });
        world.keep_trace();
        Self { world }
    }

    pub fn trace(&self) -> Vec<String> {
        self.world.trace().to_vec()
    }

    pub async fn play(&mut self, script: &Script) -> Vec<Value> {
        let mut found = Vec::new();
        prepare(&Server::Simulated(&self.world.server().clone()), script).await;
        self.world.run_for(SignedDuration::from_secs(3)).await;
        let mut seen = observe::Sequence::default();
        let mut read = 0;
        for step in &script.steps {
            let server = self.world.server().clone();
            let server = Server::Simulated(&server);
            let answer = act(&server, script, step).await;
            let time = i64::try_from(seconds(step)).unwrap();
            self.world.run_for(SignedDuration::from_secs(time)).await;
            if script.sequence {
                for line in &self.world.trace()[read..] {
                    seen.take_trace(line, &script.name);
                }
                read = self.world.trace().len();
            }
            found.push(observe::look(&server, script, answer, &seen).await);
        }
        found
    }
}

/// A real cluster.
pub struct Real {
    client: Client,
}

impl Real {
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Plays a script. What is to be seen after a step is waited for; without knowing it, until nothing has changed for a while.
    pub async fn play(&self, script: &Script, expected: Option<&[Value]>) -> Vec<Value> {
        let server = Server::Real(&self.client);
        prepare(&server, script).await;
        while !is_prepared(&server, script).await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let watch = script.sequence.then(|| observe::Follower::start(self.client.another(), &script.name));
        let mut watch = match watch {
            Some(watch) => Some(watch.await),
            None => None,
        };
        let mut found = Vec::new();
        for (number, step) in script.steps.iter().enumerate() {
            let answer = act(&server, script, step).await;
            let expected = expected.and_then(|expected| expected.get(number));
            found.push(self.settle(script, step, answer, expected, watch.as_mut()).await);
        }
        self.clean(script).await;
        found
    }

    async fn settle(
        &self,
        script: &Script,
        step: &Value,
        answer: Value,
        expected: Option<&Value>,
        mut watch: Option<&mut observe::Follower>,
    ) -> Value {
        let server = Server::Real(&self.client);
        let start = tokio::time::Instant::now();
        let least = Duration::from_secs(seconds(step));
        let longest = least * 2 + Duration::from_secs(40);
        // A recording may not catch a cluster that only takes a breath.
        let quiet = Duration::from_millis(if expected.is_some() { 400 } else { 4000 });
        let mut last = Value::Null;
        let mut since = start;
        loop {
            let nothing = observe::Sequence::default();
            let seen = match watch.as_deref_mut() {
                Some(watch) => watch.seen().await,
                None => &nothing,
            };
            let look = observe::look(&server, script, answer.clone(), seen).await;
            if look != last {
                last = look;
                since = tokio::time::Instant::now();
            }
            let settled = since.elapsed() >= quiet;
            let done = match expected {
                Some(expected) => settled && last == *expected,
                None => settled && start.elapsed() >= least,
            };
            if done || start.elapsed() > longest {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    async fn clean(&self, script: &Script) {
        let server = Server::Real(&self.client);
        for node in server.list(Kind::Node, "").await {
            if !is_of(&node, script) {
                continue;
            }
            let path = format!("{}/{}", collection(Kind::Node, ""), node.name());
            server.send(Method::DELETE, &path, "application/json", None).await;
        }
        let path = format!("{}/{}", collection(Kind::Namespace, ""), script.name);
        server.send(Method::DELETE, &path, "application/json", None).await;
    }

    /// Waits until nothing is left of a script that was played.
    pub async fn is_gone(&self, script: &Script) {
        let server = Server::Real(&self.client);
        let path = format!("{}/{}", collection(Kind::Namespace, ""), script.name);
        for _ in 0..600 {
            let (status, _) = server.send(Method::GET, &path, "application/json", None).await;
            let nodes = server.list(Kind::Node, "").await;
            if status == 404 && !nodes.iter().any(|node| is_of(node, script)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("{}: its namespace or its nodes do not go", script.name);
    }
}

/// Whether a node is called `$ns-WORD`. The name of one script may be the beginning of another's.
fn is_of(node: &Value, script: &Script) -> bool {
    let word = node.name().strip_prefix(&script.name).and_then(|rest| rest.strip_prefix('-'));
    word.is_some_and(|word| !word.contains('-'))
}
