//! What is looked at: the states of objects without times, uids and random names.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use joiner_sim::object::{Fields, Kind};
use joiner_testbed::client::Client;
use serde_json::{Map, Value, json};

use crate::script::Script;
use crate::target::Server;

/// Everything a script wants to look at.
pub async fn look(server: &Server<'_>, script: &Script, answer: Value, sequence: &Sequence) -> Value {
    let mut names = Names::default();
    for kind in [Kind::ReplicaSet, Kind::ControllerRevision, Kind::Pod] {
        for object in server.list(kind, &script.name).await {
            names.learn(kind, &object);
        }
    }
    let mut seen = Map::new();
    if !answer.is_null() {
        seen.insert("answer".to_owned(), answer);
    }
    for name in &script.observe {
        let kind = Kind::named(name).unwrap_or_else(|| panic!("{}: unknown kind {name}", script.name));
        let mut objects: Vec<Value> = server.list(kind, &script.name).await;
        if !kind.namespaced() {
            objects.retain(|object| object.name().starts_with(&script.name));
        }
        let mut shown: Vec<Value> = objects
            .iter()
            .map(|object| match kind {
                Kind::Pod => pod(object, &names),
                Kind::Node => node(object),
                _ => state(kind, object, &names),
            })
            .collect();
        shown.sort_by_key(Value::to_string);
        seen.insert(name.clone(), counted(shown));
    }
    if script.sequence {
        seen.insert("sequence".to_owned(), json!(sequence.lines));
    }
    Value::Object(seen)
}

/// Equal entries in one, with their number.
fn counted(shown: Vec<Value>) -> Value {
    let mut counted: Vec<Value> = Vec::new();
    for mut entry in shown {
        match counted.last_mut() {
            Some(last) if without_count(last) == entry => {
                last["count"] = (last["count"].as_u64().unwrap() + 1).into();
            }
            _ => {
                entry["count"] = 1.into();
                counted.push(entry);
            }
        }
    }
    for entry in &mut counted {
        if entry["count"] == 1 {
            entry.as_object_mut().unwrap().remove("count");
        }
    }
    counted.into()
}

fn without_count(entry: &Value) -> Value {
    let mut entry = entry.clone();
    entry.as_object_mut().unwrap().remove("count");
    entry
}

/// Random parts of names, and what is written in their place.
#[derive(Default)]
struct Names {
    known: BTreeMap<String, String>,
    pods: BTreeMap<String, String>,
}

impl Names {
    fn learn(&mut self, kind: Kind, object: &Value) {
        match kind {
            Kind::ReplicaSet => {
                if let Some(hash) = object.label("pod-template-hash") {
                    let revision = object.annotation("deployment.kubernetes.io/revision").unwrap_or("?");
                    self.known.insert(hash.to_owned(), format!("#{revision}"));
                }
            }
            Kind::Pod => {
                let prefix = object.text(&["metadata", "generateName"]);
                if !prefix.is_empty() && object.label("apps.kubernetes.io/pod-index").is_none() {
                    self.pods.insert(object.name().to_owned(), format!("{prefix}*"));
                }
            }
            _ => {
                let hash = object.name().rsplit('-').next().unwrap_or_default();
                let revision = object.number(&["revision"]).unwrap_or(0);
                self.known.insert(hash.to_owned(), format!("#{revision}"));
            }
        }
    }

    fn plain(&self, text: &str) -> String {
        self.pods
            .iter()
            .chain(&self.known)
            .fold(text.to_owned(), |text, (random, plain)| text.replace(random, plain))
    }
}

/// Labels with random values, and those that the API server and not a controller puts on pods.
const LABELS_OF_THE_SERVER: [&str; 3] =
    ["controller-uid", "topology.kubernetes.io/", "pod-template-generation"];

fn pod(pod: &Value, names: &Names) -> Value {
    let generated = pod.text(&["metadata", "generateName"]);
    let name = if generated.is_empty() || pod.label("apps.kubernetes.io/pod-index").is_some() {
        pod.name().to_owned()
    } else {
        format!("{generated}*")
    };
    let mut shown = json!({
        "name": names.plain(&name),
        "phase": pod.text(&["status", "phase"]),
    });
    // KWOK leaves a pod that has ended ready, a kubelet does not.
    if !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
        shown["ready"] = pod.condition_is_true("Ready").into();
    }
    if pod.is_deleting() {
        shown["deleting"] = true.into();
    }
    if !pod.text(&["spec", "nodeName"]).is_empty() {
        shown["node"] = pod.text(&["spec", "nodeName"]).into();
    }
    if let Some(target) = pod.condition("DisruptionTarget") {
        shown["disruption"] = target["reason"].clone();
    }
    if !pod.items(&["metadata", "finalizers"]).is_empty() {
        shown["finalizers"] = pod["metadata"]["finalizers"].clone();
    }
    let labels = pod.entries(&["metadata", "labels"]).into_iter().flatten();
    let labels: Map<String, Value> = labels
        .filter(|(key, _)| !LABELS_OF_THE_SERVER.iter().any(|label| key.contains(label)))
        .map(|(key, value)| (key.clone(), names.plain(value.as_str().unwrap()).into()))
        .collect();
    shown["labels"] = labels.into();
    if let Some(manager) = pod.manager() {
        shown["owner"] = format!("{} {}", manager.kind, names.plain(manager.name)).into();
    }
    let annotations = [
        ("mark", "mark"),
        ("index", "batch.kubernetes.io/job-completion-index"),
        ("indexFailures", "batch.kubernetes.io/job-index-failure-count"),
        ("indexIgnoredFailures", "batch.kubernetes.io/job-index-ignored-failure-count"),
    ];
    for (name, field) in annotations {
        if let Some(mark) = pod.annotation(field) {
            shown[name] = mark.into();
        }
    }
    shown
}

fn node(node: &Value) -> Value {
    let conditions: BTreeSet<String> = node
        .items(&["status", "conditions"])
        .iter()
        .map(|condition| format!("{}={}", condition.text(&["type"]), condition.text(&["status"])))
        .collect();
    let taints: BTreeSet<String> = node
        .items(&["spec", "taints"])
        .iter()
        .map(|taint| format!("{}:{}", taint.text(&["key"]), taint.text(&["effect"])))
        .collect();
    json!({"name": node.name(), "conditions": conditions, "taints": taints})
}

/// Annotations that controllers write.
const ANNOTATIONS: [&str; 8] = [
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/revision-history",
    "deployment.kubernetes.io/desired-replicas",
    "deployment.kubernetes.io/max-replicas",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    "volume.kubernetes.io/storage-provisioner",
];

fn state(kind: Kind, object: &Value, names: &Names) -> Value {
    let generated = object.text(&["metadata", "generateName"]);
    let name = if generated.is_empty() { object.name().to_owned() } else { format!("{generated}*") };
    let mut shown = json!({"name": names.plain(&name)});
    if object.is_deleting() {
        shown["deleting"] = true.into();
    }
    for field in ["replicas", "volumeName", "completions", "parallelism", "suspend"] {
        let value = object.at(&["spec", field]);
        if !value.is_null() {
            shown[field] = value.clone();
        }
    }
    for name in ANNOTATIONS {
        if let Some(value) = object.annotation(name) {
            shown[name] = value.into();
        }
    }
    if kind == Kind::ControllerRevision {
        shown["revision"] = object["revision"].clone();
    }
    if let Some(manager) = object.manager() {
        shown["owner"] = format!("{} {}", manager.kind, names.plain(manager.name)).into();
    }
    let finalizers = object.items(&["metadata", "finalizers"]);
    if !finalizers.is_empty() {
        shown["finalizers"] = finalizers.into();
    }
    if let Some(status) = object.get("status") {
        shown["status"] = plain(status, names);
        // How many steps a rollout took is a matter of how fast the controllers are; that they are done is not.
        if let Some(seen) =
            shown["status"].as_object_mut().and_then(|status| status.remove("observedGeneration"))
        {
            shown["observed"] = (seen.as_i64() == Some(object.generation())).into();
        }
        if let Some(list) = shown["status"].get_mut("conditions").and_then(Value::as_array_mut) {
            list.sort_by_key(|condition| condition.text(&["type"]).to_owned());
        }
    }
    shown
}

/// A status without times and uids.
fn plain(value: &Value, names: &Names) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| {
                !key.ends_with("Time")
                    && !key.ends_with("Timestamp")
                    && *key != "uid"
                    && *key != "resourceVersion"
            });
            kept.map(|(key, value)| (key.clone(), plain(value, names))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(|item| plain(item, names)).collect::<Vec<_>>().into(),
        Value::String(text) => names.plain(text).into(),
        other => other.clone(),
    }
}

/// The order in which pods came, became ready and went.
#[derive(Default)]
pub struct Sequence {
    lines: Vec<String>,
    states: BTreeMap<String, &'static str>,
}

impl Sequence {
    fn take(&mut self, deleted: bool, pod: &Value) {
        let state = match () {
            () if deleted => "gone",
            () if pod.is_deleting() => "ending",
            () if pod.condition_is_true("Ready") => "ready",
            () => "made",
        };
        // A pod with a random name tells nothing by it.
        let random = !pod.text(&["metadata", "generateName"]).is_empty()
            && pod.label("apps.kubernetes.io/pod-index").is_none();
        let name = if random { pod.annotation("mark").unwrap_or("*") } else { pod.name() };
        if self.states.get(pod.uid()) != Some(&state) {
            self.states.insert(pod.uid().to_owned(), state);
            // That a pod ends may be told or not, when it goes at once.
            if state != "ending" {
                self.lines.push(format!("{name} {state}"));
            }
        }
    }

    /// Reads a line that the simulated cluster kept.
    pub fn take_trace(&mut self, line: &str, namespace: &str) {
        let mut parts = line.splitn(4, ' ');
        let (_, change, key, object) = (parts.next(), parts.next(), parts.next(), parts.next());
        if key.is_some_and(|key| key.starts_with(&format!("pods/{namespace}/"))) {
            let pod: Value = serde_json::from_str(object.unwrap()).unwrap();
            self.take(change == Some("deleted"), &pod);
        }
    }
}

/// Follows the pods of a namespace on a real server.
pub struct Follower {
    body: hyper::body::Incoming,
    rest: Vec<u8>,
    sequence: Sequence,
}

impl Follower {
    pub async fn start(client: Client, namespace: &str) -> Self {
        let path = format!("/api/v1/namespaces/{namespace}/pods?watch=true");
        let request = Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
        let body = client.stream(request).await.unwrap().into_body();
        Self { body, rest: Vec::new(), sequence: Sequence::default() }
    }

    /// Everything so far.
    pub async fn seen(&mut self) -> &Sequence {
        let wait = std::time::Duration::from_millis(50);
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(wait, self.body.frame()).await {
            if let Ok(data) = frame.into_data() {
                self.rest.extend(data);
            }
        }
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            self.sequence.take(event["type"] == "DELETED", &event["object"]);
        }
        &self.sequence
    }
}
