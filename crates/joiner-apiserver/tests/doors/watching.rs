//! A kube-rs watcher whose connection is cut, whose version expires, and whose server ends and begins again.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tower::Service;

use super::Folder;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The way to a server that may be away, or cut all its connections.
#[derive(Clone)]
struct Line {
    server: Arc<Mutex<Option<ApiServer>>>,
    cuts: Arc<watch::Sender<u64>>,
}

impl Line {
    fn to(server: ApiServer) -> Self {
        Self { server: Arc::new(Mutex::new(Some(server))), cuts: Arc::new(watch::Sender::new(0)) }
    }

    fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    fn present(&self) -> ApiServer {
        self.server.lock().clone().unwrap()
    }
}

type Frames = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BoxError> + Send>>;

impl Service<Request<Body>> for Line {
    type Response = Response<Frames>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.server.lock().clone();
        let cuts = self.cuts.subscribe();
        Box::pin(async move {
            let server = server.ok_or("connection refused")?;
            let answer = server.answer(request).await;
            let (parts, body) = answer.into_parts();
            drop(server);
            let frames = futures::stream::unfold(Some(body), move |body| {
                let mut cuts = cuts.clone();
                async move {
                    let mut body = body?;
                    tokio::select! {
                        biased;
                        _ = cuts.changed() => Some((Err(BoxError::from("connection reset")), None)),
                        frame = body.frame() => match frame? {
                            Ok(frame) => Some((Ok(frame), Some(body))),
                            Err(never) => match never {},
                        },
                    }
                }
            });
            let frames: Frames = Box::pin(StreamBody::new(frames));
            Ok(Response::from_parts(parts, frames))
        })
    }
}

/// What a watcher was told.
#[derive(Default)]
struct Heard {
    lists: usize,
    /// Versions that came as events of their own, in order.
    events: Vec<u64>,
    /// The state that follows from everything told.
    known: BTreeMap<String, String>,
}

fn version(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

fn value(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default()
}

async fn listen(api: Api<ConfigMap>, config: watcher::Config, heard: Arc<Mutex<Heard>>) {
    let mut stream = watcher(api, config).boxed();
    let mut fresh = BTreeMap::new();
    while let Some(event) = stream.next().await {
        let mut heard = heard.lock();
        match event {
            Ok(watcher::Event::Init) => fresh.clear(),
            Ok(watcher::Event::InitApply(map)) => drop(fresh.insert(map.name_any(), value(&map))),
            Ok(watcher::Event::InitDone) => {
                heard.lists += 1;
                heard.known = std::mem::take(&mut fresh);
            }
            Ok(watcher::Event::Apply(map)) => {
                heard.events.push(version(&map));
                heard.known.insert(map.name_any(), value(&map));
            }
            Ok(watcher::Event::Delete(map)) => {
                heard.events.push(version(&map));
                heard.known.remove(&map.name_any());
            }
            Err(_) => {
                drop(heard);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

/// Writes to a few objects in turn, so that there are creations, changes and deletions; returns the versions written.
async fn write(api: &Api<ConfigMap>, turns: std::ops::Range<u64>) -> BTreeSet<u64> {
    let mut written = BTreeSet::new();
    for turn in turns {
        let name = format!("m{}", turn % 5);
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": turn.to_string()}});
        if turn % 7 == 6 && api.get_opt(&name).await.unwrap().is_some() {
            let before = api.list(&ListParams::default()).await.unwrap();
            api.delete(&name, &DeleteParams::default()).await.unwrap();
            written.insert(before.metadata.resource_version.unwrap().parse::<u64>().unwrap() + 1);
        } else if turn % 3 == 0 && api.get_opt(&name).await.unwrap().is_none() {
            let map = serde_json::from_value(body).unwrap();
            written.insert(version(&api.create(&PostParams::default(), &map).await.unwrap()));
        } else {
            let parameters = PatchParams::apply("writer").force();
            written.insert(version(&api.patch(&name, &parameters, &Patch::Apply(body)).await.unwrap()));
        }
        if turn % 4 == 0 {
            tokio::task::yield_now().await;
        }
    }
    written
}

/// Waits until a watcher knows what the server has.
async fn until_equal(api: &Api<ConfigMap>, heard: &Mutex<Heard>) {
    let list = api.list(&ListParams::default()).await.unwrap();
    let wanted: BTreeMap<String, String> = list.iter().map(|map| (map.name_any(), value(map))).collect();
    for _ in 0..2000 {
        if heard.lock().known == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("wanted {wanted:?}, the watcher knows {:?}", heard.lock().known);
}

fn configs() -> [watcher::Config; 2] {
    [watcher::Config::default(), watcher::Config::default().streaming_lists()]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_and_restarts_lose_and_repeat_nothing() {
    for config in configs() {
        let folder = Folder::new();
        let open =
            || ApiServer::in_folder(Arc::new(Timestamp::now), &Settings::default(), &folder.0).unwrap();
        let line = Line::to(open());
        let heard = Arc::new(Mutex::new(Heard::default()));
        let watched: Api<ConfigMap> = Api::default_namespaced(Client::new(line.clone(), "default"));
        let listener = tokio::spawn(listen(watched, config, heard.clone()));
        while heard.lock().lists == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut written = BTreeSet::new();
        for round in 0..8 {
            let api: Api<ConfigMap> = Api::default_namespaced(super::client(&line.present()));
            written.extend(write(&api, round * 40..(round + 1) * 40).await);
            if round % 2 == 0 {
                line.cut();
            } else {
                // The server ends; the next one reads what it left.
                let server = line.server.lock().take().unwrap();
                line.cut();
                server.close();
                drop((api, server));
                tokio::time::sleep(Duration::from_millis(10)).await;
                *line.server.lock() = Some(open());
            }
        }
        let api: Api<ConfigMap> = Api::default_namespaced(super::client(&line.present()));
        until_equal(&api, &heard).await;
        listener.abort();
        let heard = heard.lock();
        assert_eq!(heard.lists, 1, "the history was there all the time");
        assert!(heard.events.windows(2).all(|pair| pair[0] < pair[1]), "an event came twice or too late");
        assert_eq!(heard.events.iter().copied().collect::<BTreeSet<_>>(), written);
        assert!(written.len() > 250, "{}", written.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_version_costs_one_list() {
    for config in configs() {
        let line = Line::to(super::server());
        let heard = Arc::new(Mutex::new(Heard::default()));
        let watched: Api<ConfigMap> = Api::default_namespaced(Client::new(line.clone(), "default"));
        let listener = tokio::spawn(listen(watched, config, heard.clone()));
        let api: Api<ConfigMap> = Api::default_namespaced(super::client(&line.present()));
        for round in 0..6 {
            write(&api, round * 30..round * 30 + 15).await;
            until_equal(&api, &heard).await;
            // While the watcher is away, things happen and their history is forgotten.
            let server = line.server.lock().take().unwrap();
            line.cut();
            write(&api, round * 30 + 15..round * 30 + 30).await;
            server.forget_history();
            *line.server.lock() = Some(server);
            until_equal(&api, &heard).await;
        }
        listener.abort();
        let heard = heard.lock();
        assert!((2..=7).contains(&heard.lists), "{} lists", heard.lists);
        assert!(heard.events.windows(2).all(|pair| pair[0] < pair[1]), "an event came twice or too late");
    }
}
