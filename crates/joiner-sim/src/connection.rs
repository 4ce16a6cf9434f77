//! The connection to the API server: the only file that knows how a write reaches it and how a watch becomes events.
//!
//! Writes and watches go straight to the server (`joiner_apiserver::direct`), without HTTP and without text. The one exception is the subresource
//! `scale`, which that way does not know.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::select_all;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use joiner_apiserver::direct::{Changes, Direct, Event};
use joiner_apiserver::resources::Resource;
use joiner_apiserver::rest::{DeleteOptions, Failure, PatchLanguage, Propagation as ServerPropagation};
use joiner_apiserver::service::ApiServer;
use joiner_apiserver::store::{ChangeKind, Stored};
use serde_json::{Value, json};

use crate::event::Change;
use crate::object::{Fields, Key, Kind, Object};
use crate::write::{Note, PatchKind, Propagation, Write};

/// Kinds whose objects nobody reconciles.
const NOT_WATCHED: [Kind; 3] = [Kind::Event, Kind::Lease, Kind::ConfigMap];

/// The name under which the connection itself reads.
const READER: &str = "simulated-cluster";

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

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let status = failure.to_value();
        Self {
            code: failure.code,
            reason: status.text(&["reason"]).to_owned(),
            message: status.text(&["message"]).to_owned(),
        }
    }
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
pub(crate) struct Connection {
    server: ApiServer,
    /// One client for each name under which something is written.
    clients: BTreeMap<String, Direct>,
    resources: BTreeMap<Kind, Arc<Resource>>,
    watches: Vec<Watch>,
    /// What was written since it was last read, by version: these need not be parsed again.
    written: BTreeMap<u64, Value>,
}

struct Watch {
    kind: Kind,
    resource: Arc<Resource>,
    /// Nothing until it is opened, and when it has fallen behind.
    changes: Option<Changes>,
    waiting: Vec<Event>,
}

impl Connection {
    pub fn new(server: ApiServer) -> Self {
        let reader = server.direct(READER);
        let found = |kind: &Kind| Some((*kind, reader.resource(kind.group(), kind.plural()).ok()?));
        let resources: BTreeMap<Kind, Arc<Resource>> = Kind::ALL.iter().filter_map(found).collect();
        let watched = resources.iter().filter(|(kind, _)| !NOT_WATCHED.contains(kind));
        let watches = watched
            .map(|(kind, resource)| Watch {
                kind: *kind,
                resource: resource.clone(),
                changes: None,
                waiting: Vec::new(),
            })
            .collect();
        Self { server, clients: BTreeMap::new(), resources, watches, written: BTreeMap::new() }
    }

    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Waits until what was written can be seen: where objects are kept in a folder, that is when they are there.
    pub async fn saved(&self) {
        // Whoever asks for it is told why a disk takes nothing more; the cluster lives on without what was lost.
        let _ = self.server.saved().await;
    }

    /// All changes that have not been told yet, in the order in which the server made them.
    pub fn drain(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        for watch in &mut self.watches {
            watch.read(&self.server);
            for event in watch.waiting.drain(..) {
                let text = event.object.object().clone();
                let change = match event.kind {
                    ChangeKind::Added => Change::Added,
                    ChangeKind::Modified => Change::Modified,
                    ChangeKind::Deleted => Change::Deleted,
                };
                let object = match self.written.remove(&event.revision) {
                    Some(value) => Object::parsed(text, value),
                    None => Object::kept(text),
                };
                let key = Key::stored(watch.kind, &event.key);
                told.push(Told { change, key, object, revision: event.revision });
            }
        }
        self.written.clear();
        told.sort_by_key(|told| told.revision);
        told
    }

    /// Waits until there is something to drain.
    pub async fn changed(&mut self) {
        let waiting: Vec<_> = self
            .watches
            .iter_mut()
            .filter(|watch| watch.changes.is_some())
            .map(|watch| watch.next().boxed_local())
            .collect();
        if !waiting.is_empty() {
            select_all(waiting).await;
        }
    }

    /// Makes one change.
    pub async fn apply(&mut self, manager: &str, write: &Write) -> Result<(), Refusal> {
        if let Write::Patch { key, subresource: Some("scale"), patch, .. } = write {
            return self.scale(manager, key, patch).await;
        }
        if !self.clients.contains_key(manager) {
            self.clients.insert(manager.to_owned(), self.server.direct(manager).forgiving());
        }
        let Some(client) = self.clients.get(manager) else { return Ok(()) };
        let resource = |kind: Kind| {
            self.resources.get(&kind).ok_or_else(|| Refusal {
                code: 404,
                reason: "NotFound".to_owned(),
                message: format!("the server does not know the kind `{}`", kind.name()),
            })
        };
        let stored = match write {
            Write::Create { kind, namespace, object } => {
                let stored = client.create(resource(*kind)?, namespace, object.clone())?;
                (!NOT_WATCHED.contains(kind)).then_some(stored)
            }
            Write::Update { key, object } => Some(client.update(resource(key.kind)?, object.clone())?),
            Write::UpdateStatus { key, object } => {
                Some(client.update_status(resource(key.kind)?, object.clone())?)
            }
            Write::Patch { key, subresource, how, patch } => {
                let language = match how {
                    PatchKind::Merge => PatchLanguage::Merge,
                    PatchKind::Strategic => PatchLanguage::Strategic,
                };
                let place = (&*key.namespace, &*key.name);
                let part = subresource.unwrap_or_default();
                let stored = client.patch(resource(key.kind)?, place, part, language, patch.clone())?;
                (!NOT_WATCHED.contains(&key.kind)).then_some(stored)
            }
            Write::Delete { key, uid, grace, propagation } => {
                let propagation = propagation.map(|propagation| match propagation {
                    Propagation::Background => ServerPropagation::Background,
                    Propagation::Foreground => ServerPropagation::Foreground,
                    Propagation::Orphan => ServerPropagation::Orphan,
                });
                let options = DeleteOptions {
                    grace: *grace,
                    propagation,
                    uid: uid.clone(),
                    ..DeleteOptions::default()
                };
                client.delete(resource(key.kind)?, &key.namespace, &key.name, &options)?;
                None
            }
            Write::Bind { pod, uid, node } => {
                client.bind_exactly(&pod.namespace, &pod.name, uid, node)?;
                None
            }
            Write::Evict { pod } => {
                client.evict(&pod.namespace, &pod.name, &DeleteOptions::default())?;
                None
            }
            // The loop's recorder turns these into creations and patches.
            Write::Event(_) => None,
        };
        if let Some(stored) = stored {
            self.remember(stored);
        }
        Ok(())
    }

    fn remember(&mut self, stored: Stored) {
        let revision = stored.object().revision();
        if let Some(value) = stored.into_slim() {
            self.written.insert(revision, value);
        }
    }

    async fn scale(&self, manager: &str, key: &Key, patch: &Value) -> Result<(), Refusal> {
        let (group, version, plural) = (key.kind.group(), key.kind.version(), key.kind.plural());
        let path =
            format!("/apis/{group}/{version}/namespaces/{}/{plural}/{}/scale", key.namespace, key.name);
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("{path}?fieldManager={manager}"))
            .header("content-type", "application/merge-patch+json")
            .body(Full::<bytes::Bytes>::from(patch.to_string()));
        let request = request.map_err(|error| Refusal {
            code: 400,
            reason: "BadRequest".to_owned(),
            message: error.to_string(),
        })?;
        let answer = self.server.answer(request).await;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let bytes = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        Err(Refusal {
            code: status.as_u16(),
            reason: document.text(&["reason"]).to_owned(),
            message: document.text(&["message"]).to_owned(),
        })
    }
}

impl Watch {
    /// Takes what has changed since it was last read; the first time, what there is.
    fn read(&mut self, server: &ApiServer) {
        loop {
            let Some(changes) = &mut self.changes else {
                self.open(server);
                if self.changes.is_none() {
                    return;
                }
                continue;
            };
            if !changes.has_moved() {
                return;
            }
            match changes.take() {
                Ok(events) => self.waiting.extend(events),
                // The history has moved past this watch: begin anew with the present state.
                Err(_) => self.changes = None,
            }
        }
    }

    /// Begins with the present state.
    fn open(&mut self, server: &ApiServer) {
        let client = server.direct(READER);
        let (objects, revision) = client.present(&self.resource);
        let present = objects.into_iter().map(|(key, object)| {
            let revision = object.object().revision();
            Event { kind: ChangeKind::Added, key, object, revision }
        });
        self.waiting.extend(present);
        self.changes = client.watch(&self.resource, revision).ok();
    }

    async fn next(&mut self) {
        let Some(changes) = &mut self.changes else { return };
        match changes.next().await {
            Ok(events) => self.waiting.extend(events),
            Err(_) => self.changes = None,
        }
    }
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
