//! A server, embedded or real, with our scheduler beside it: what the server has becomes events, what the scheduler wants is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings as ServerSettings};
use joiner_sim::controller::Participant;
use joiner_sim::event::{Change, Event};
use joiner_sim::object::{Fields, Key, Kind, Object};
use joiner_sim::scheduler::{Scheduler, Settings, Verdict};
use joiner_sim::write::{PatchKind, Write};
use joiner_testbed::client::Client;
use serde_json::{Value, json};

/// The kinds a scheduler looks at.
const KINDS: [Kind; 13] = [
    Kind::Namespace,
    Kind::Node,
    Kind::Pod,
    Kind::Service,
    Kind::ReplicationController,
    Kind::ReplicaSet,
    Kind::StatefulSet,
    Kind::PodDisruptionBudget,
    Kind::PersistentVolume,
    Kind::PersistentVolumeClaim,
    Kind::StorageClass,
    Kind::CSINode,
    Kind::VolumeAttachment,
];

/// The time of all tests.
pub fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).expect("a moment")
}

/// Where requests go.
pub enum Server {
    /// Ours.
    Embedded(ApiServer),
    /// A real one.
    Real(Client),
}

impl Server {
    /// A new one of ours.
    pub fn embedded() -> Self {
        Self::Embedded(ApiServer::new(Arc::new(now), &ServerSettings::default()))
    }

    /// Sends a request.
    pub async fn call(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value)> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, kind)
            .body(Full::new(Bytes::from(body)))?;
        let (status, body) = match self {
            Self::Embedded(server) => {
                let answer = server.answer(request).await;
                (answer.status(), answer.into_body().collect().await?.to_bytes())
            }
            Self::Real(client) => {
                let answer = client.send(request).await?;
                (answer.status(), answer.into_body())
            }
        };
        Ok((status.as_u16(), serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Sends a request that must succeed.
    pub async fn must(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let (status, answer) = self.call(method, path, kind, body).await?;
        if !(200..300).contains(&status) {
            bail!("{method} {path}: {status}: {answer}");
        }
        Ok(answer)
    }
}

/// The path of a kind's collection.
pub fn collection(kind: Kind, namespace: &str) -> String {
    let group = match kind.group() {
        "" => format!("/api/{}", kind.version()),
        group => format!("/apis/{group}/{}", kind.version()),
    };
    match (kind.namespaced(), namespace) {
        (true, namespace) if !namespace.is_empty() => {
            format!("{group}/namespaces/{namespace}/{}", kind.plural())
        }
        _ => format!("{group}/{}", kind.plural()),
    }
}

/// The path of an object.
pub fn path(key: &Key) -> String {
    format!("{}/{}", collection(key.kind, &key.namespace), key.name)
}

/// A server with our scheduler.
pub struct Bed {
    /// The server.
    pub server: Server,
    /// Ours.
    pub scheduler: Scheduler,
    known: BTreeMap<Key, Object>,
}

impl Bed {
    /// A scheduler that has seen nothing yet.
    pub fn new(server: Server) -> Self {
        Self { server, scheduler: Scheduler::new(Settings::default()), known: BTreeMap::new() }
    }

    /// Tells the scheduler what changed on the server since last time.
    pub async fn sync(&mut self) -> Result<()> {
        self.sync_only(&KINDS).await
    }

    /// The same, where only objects of some kinds can have changed.
    pub async fn sync_only(&mut self, kinds: &[Kind]) -> Result<()> {
        let mut present = self.known.clone();
        present.retain(|key, _| !kinds.contains(&key.kind));
        for kind in kinds.iter().copied() {
            let list = self.server.must("GET", &collection(kind, ""), None).await?;
            for object in list.items(&["items"]) {
                present.insert(Key::of(kind, object), Object::from(object.clone()));
            }
        }
        self.show(present);
        Ok(())
    }

    /// Tells the scheduler about these objects, and that all others are gone.
    pub fn show(&mut self, present: BTreeMap<Key, Object>) {
        let mut events: Vec<Event> = Vec::new();
        for (key, old) in &self.known {
            if !present.contains_key(key) {
                events.push(event(Change::Deleted, key, old, Some(old)));
            }
        }
        for (key, object) in &present {
            match self.known.get(key) {
                None => events.push(event(Change::Added, key, object, None)),
                Some(old) if old != object => events.push(event(Change::Modified, key, object, Some(old))),
                Some(_) => {}
            }
        }
        events.sort_by_key(|event| (event.change != Change::Deleted, event.revision));
        for event in events {
            self.scheduler.observe(&event);
        }
        self.known = present;
    }

    /// Lets the scheduler work until it has nothing to do.
    pub async fn settle(&mut self) -> Result<()> {
        for _ in 0..200 {
            self.sync().await?;
            let writes = self.scheduler.step(now());
            if writes.is_empty() {
                return Ok(());
            }
            for write in &writes {
                let (code, answer) = self.write(write).await?;
                if code >= 300 {
                    self.scheduler.refused(write, code, answer.text(&["message"]));
                    bail!("{write:?}: {code}: {answer}");
                }
            }
        }
        bail!("the scheduler does not come to rest")
    }

    /// What the scheduler would do with a new pod that nobody has looked at yet. Nothing is written.
    pub fn ask(&mut self, key: &Key, pod: Value) -> Option<Verdict> {
        let mut present = self.known.clone();
        present.insert(key.clone(), Object::from(pod));
        self.show(present);
        for _ in 0..20 {
            let writes = self.scheduler.step(now());
            match self.scheduler.last() {
                Some(attempt) if attempt.pod == *key => return Some(attempt.verdict),
                _ if writes.is_empty() => break,
                _ => {}
            }
        }
        None
    }

    /// Sends a write.
    pub async fn write(&self, write: &Write) -> Result<(u16, Value)> {
        let server = &self.server;
        match write {
            Write::Patch { key, subresource, how, patch } => {
                let kind = match how {
                    PatchKind::Merge => "application/merge-patch+json",
                    PatchKind::Strategic => "application/strategic-merge-patch+json",
                };
                let below = subresource.map(|name| format!("/{name}")).unwrap_or_default();
                server.call("PATCH", &format!("{}{below}", path(key)), kind, Some(patch)).await
            }
            Write::Delete { key, uid, .. } => {
                let body =
                    json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
                server.call("DELETE", &path(key), "application/json", Some(&body)).await
            }
            Write::Bind { pod, uid, node } => {
                let body = json!({
                    "apiVersion": "v1", "kind": "Binding", "metadata": {"name": &*pod.name, "uid": uid},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": node},
                });
                server.call("POST", &format!("{}/binding", path(pod)), "application/json", Some(&body)).await
            }
            Write::Event(_) => Ok((200, Value::Null)),
            other => bail!("a scheduler does not write {other:?}"),
        }
    }

    /// An object as it was at the last look.
    pub fn object(&self, key: &Key) -> Option<&Object> {
        self.known.get(key)
    }

    /// All objects of a kind.
    pub fn objects(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        self.known.iter().filter(move |(key, _)| key.kind == kind)
    }
}

fn event(change: Change, key: &Key, object: &Object, previous: Option<&Object>) -> Event {
    let revision = object.text(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
    Event { change, key: key.clone(), object: object.clone(), previous: previous.cloned(), revision }
}

/// Replaces the name of the namespace throughout.
pub fn with_namespace(value: &Value, namespace: &str) -> Result<Value> {
    serde_json::from_str(&value.to_string().replace("${NS}", namespace)).context("still JSON")
}
