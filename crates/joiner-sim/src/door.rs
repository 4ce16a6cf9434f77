//! The door to the API server: the only file that knows how a write becomes a request and how a watch becomes events.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::select_all;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use joiner_apiserver::service::{ApiServer, ResponseBody};
use serde_json::{Value, json};

use crate::event::Change;
use crate::object::{Fields, Key, Kind, Object};
use crate::write::{Note, PatchKind, Write};

/// Kinds whose objects nobody reconciles.
const NOT_WATCHED: [Kind; 3] = [Kind::Event, Kind::Lease, Kind::ConfigMap];

/// A watch is asked to last this long; when it ends it is opened again.
const WATCH_SECONDS: u32 = 365 * 24 * 3600;

/// The server said no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub code: u16,
    /// The reason in one word, `AlreadyExists`.
    pub reason: String,
    /// The sentence.
    pub message: String,
}

/// A change as a watch tells it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub change: Change,
    pub key: Key,
    pub object: Object,
    pub revision: u64,
}

/// The server, and a watch of every kind.
pub(crate) struct Door {
    server: ApiServer,
    watches: Vec<Watch>,
}

struct Watch {
    kind: Kind,
    /// Nothing until it is opened, and when the server has ended it.
    body: Option<ResponseBody>,
    seen: u64,
    waiting: Vec<Told>,
}

impl Door {
    pub fn new(server: ApiServer) -> Self {
        let kinds = Kind::ALL.iter().copied().filter(|kind| !NOT_WATCHED.contains(kind));
        let watches = kinds.map(|kind| Watch { kind, body: None, seen: 0, waiting: Vec::new() }).collect();
        Self { server, watches }
    }

    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// All changes that have not been told yet, in the order in which the server made them.
    pub async fn drain(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        for watch in &mut self.watches {
            watch.open(&self.server).await;
            // The runtime makes a task pause after some turns; here everything that is there must come out.
            while let Some(frame) = tokio::task::unconstrained(watch.frame()).now_or_never() {
                match frame {
                    Some(bytes) => watch.read(&bytes),
                    None => watch.open(&self.server).await,
                }
            }
            told.append(&mut watch.waiting);
        }
        told.sort_by_key(|told| told.revision);
        told
    }

    /// Waits until there is something to drain.
    pub async fn changed(&mut self) {
        let frames = self.watches.iter_mut().filter(|watch| watch.body.is_some()).map(|watch| {
            async move {
                match watch.frame().await {
                    Some(bytes) => watch.read(&bytes),
                    None => watch.body = None,
                }
            }
            .boxed_local()
        });
        let frames: Vec<_> = frames.collect();
        if frames.is_empty() {
            return;
        }
        select_all(frames).await;
    }

    /// Makes one change.
    pub async fn apply(&self, manager: &str, write: &Write) -> Result<(), Refusal> {
        match write {
            Write::Create { kind, namespace, object } => {
                let mut object = object.clone();
                object["apiVersion"] = kind.api_version().into();
                object["kind"] = kind.name().into();
                self.send(manager, Method::POST, &collection(*kind, namespace), "", Some(&object)).await
            }
            Write::Update { key, object } => {
                self.send(manager, Method::PUT, &path(key), "", Some(object)).await
            }
            Write::UpdateStatus { key, object } => {
                let path = format!("{}/status", path(key));
                self.send(manager, Method::PUT, &path, "", Some(object)).await
            }
            Write::Patch { key, subresource, how, patch } => {
                let mut path = path(key);
                if let Some(subresource) = subresource {
                    path = format!("{path}/{subresource}");
                }
                let content = match how {
                    PatchKind::Merge => "application/merge-patch+json",
                    PatchKind::Strategic => "application/strategic-merge-patch+json",
                };
                self.send(manager, Method::PATCH, &path, content, Some(patch)).await
            }
            Write::Delete { key, uid, grace, propagation } => {
                let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
                if let Some(uid) = uid {
                    options["preconditions"] = json!({"uid": uid});
                }
                if let Some(grace) = grace {
                    options["gracePeriodSeconds"] = (*grace).into();
                }
                if let Some(propagation) = propagation {
                    options["propagationPolicy"] = propagation.name().into();
                }
                self.send(manager, Method::DELETE, &path(key), "", Some(&options)).await
            }
            Write::Bind { pod, uid, node } => {
                let binding = json!({
                    "apiVersion": "v1", "kind": "Binding", "metadata": {"name": *pod.name, "uid": uid},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": node},
                });
                let path = format!("{}/binding", path(pod));
                self.send(manager, Method::POST, &path, "", Some(&binding)).await
            }
            Write::Evict { pod } => {
                let eviction = json!({
                    "apiVersion": "policy/v1", "kind": "Eviction",
                    "metadata": {"name": *pod.name, "namespace": *pod.namespace},
                });
                let path = format!("{}/eviction", path(pod));
                self.send(manager, Method::POST, &path, "", Some(&eviction)).await
            }
            // The loop's recorder turns these into creations and patches.
            Write::Event(_) => Ok(()),
        }
    }

    async fn send(
        &self,
        manager: &str,
        method: Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<(), Refusal> {
        let options = if method == Method::DELETE { "" } else { "fieldManager=" };
        let manager_option = if options.is_empty() { "" } else { manager };
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?{options}{manager_option}"))
            .header("content-type", if content.is_empty() { "application/json" } else { content })
            .header("user-agent", manager);
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::<bytes::Bytes>::from(body)).map_err(|error| Refusal {
            code: 400,
            reason: "BadRequest".to_owned(),
            message: error.to_string(),
        })?;
        let answer = self.server.answer(request).await;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(refusal(status, answer.into_body()).await)
    }
}

async fn refusal(status: StatusCode, body: ResponseBody) -> Refusal {
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    Refusal {
        code: status.as_u16(),
        reason: document.text(&["reason"]).to_owned(),
        message: match document.text(&["message"]) {
            "" => String::from_utf8_lossy(&bytes).into_owned(),
            message => message.to_owned(),
        },
    }
}

impl Watch {
    async fn open(&mut self, server: &ApiServer) {
        if self.body.is_some() {
            return;
        }
        let path = collection(self.kind, "");
        let from = format!("{path}?watch=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}", self.seen);
        let Ok(request) = Request::builder().uri(from).body(Full::<bytes::Bytes>::default()) else { return };
        let answer = server.answer(request).await;
        if answer.status().is_success() {
            self.body = Some(answer.into_body());
        }
    }

    /// The next piece, nothing when the server has ended the watch.
    async fn frame(&mut self) -> Option<bytes::Bytes> {
        let body = self.body.as_mut()?;
        match body.frame().await {
            Some(Ok(frame)) => frame.into_data().ok(),
            None => {
                self.body = None;
                None
            }
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(mut event) = serde_json::from_slice::<Value>(line) else { continue };
            let change = match event.text(&["type"]) {
                "ADDED" => Change::Added,
                "MODIFIED" => Change::Modified,
                "DELETED" => Change::Deleted,
                _ => {
                    // The history has moved past this watch: begin anew with the present state.
                    self.body = None;
                    self.seen = 0;
                    return;
                }
            };
            let object = event["object"].take();
            let revision = object.text(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
            self.seen = self.seen.max(revision);
            let key = Key::of(self.kind, &object);
            self.waiting.push(Told { change, key, object: Arc::new(object), revision });
        }
    }
}

fn collection(kind: Kind, namespace: &str) -> String {
    let root = match kind.group() {
        "" => format!("/api/{}", kind.version()),
        group => format!("/apis/{group}/{}", kind.version()),
    };
    match namespace {
        "" => format!("{root}/{}", kind.plural()),
        namespace => format!("{root}/namespaces/{namespace}/{}", kind.plural()),
    }
}

fn path(key: &Key) -> String {
    format!("{}/{}", collection(key.kind, &key.namespace), key.name)
}

/// The object that keeps a note.
pub(crate) fn event_object(note: &Note, name: &str, now: &str) -> Value {
    let mut involved = json!({
        "kind": note.about.kind.name(), "apiVersion": note.about.kind.api_version(),
        "name": *note.about.name, "uid": note.uid,
    });
    if !note.about.namespace.is_empty() {
        involved["namespace"] = (*note.about.namespace).into();
    }
    json!({
        "metadata": {"name": name, "namespace": Write::namespace_of_note(note)},
        "involvedObject": involved,
        "reason": note.reason,
        "message": note.message,
        "type": if note.warning { "Warning" } else { "Normal" },
        "source": {"component": note.component},
        "reportingComponent": note.component,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}
