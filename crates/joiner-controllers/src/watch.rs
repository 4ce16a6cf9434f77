//! Watches of all kinds that matter, brought into one bounded channel.
//!
//! One task per kind follows a `watcher`, which lists, watches, and lists again when it was away for too long. What it tells goes into the
//! channel in order; a full channel makes the task wait, nothing is dropped. Errors go there too: a kind that is forbidden or missing is asked for
//! again from time to time, and picked up when it can be had.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{GroupKind, NodeClassKind, Provider, Registry, TypeFeed};
use joiner_record::{Resource, WatchVerb};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::core::Status;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::cache::{Kind, WatchEvent, Watched};
use crate::slim;
use crate::watch_health::{WatchFailure, Why};

/// Events that may wait.
const ROOM: usize = 4096;
/// First and longest pause of a watch after an error.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Starts all watches; they end with the set.
pub fn start(client: &Client, registry: &Registry, tasks: &mut JoinSet<()>) -> mpsc::Receiver<WatchEvent> {
    let (sender, receiver) = mpsc::channel(ROOM);
    macro_rules! follow {
        ($($variant:ident),*) => {
            $(tasks.spawn(follow_typed(client, &sender, WatchEvent::$variant, Kind::$variant, slim::object));)*
        };
    }
    tasks.spawn(follow_typed(client, &sender, WatchEvent::Node, Kind::Node, slim::node));
    // Where no node classes are served, the cluster need not even know these kinds.
    if follows_pools(registry) {
        follow!(Claim, Pool, Overlay);
    }
    follow!(
        Pod,
        DaemonSet,
        Budget,
        Namespace,
        Volume,
        VolumeClaim,
        StorageClass,
        PriorityClass,
        CsiNode,
        Attachment
    );
    for (class, provider) in registry.kinds() {
        tasks.spawn(follow_classes(client, class, provider.clone(), sender.clone()));
    }
    receiver
}

/// Whether NodePools and what is made of them are anybody's here; node groups have none.
pub fn follows_pools(registry: &Registry) -> bool {
    registry.kinds().next().is_some()
}

fn follow_typed<K>(
    client: &Client,
    sender: &mpsc::Sender<WatchEvent>,
    wrap: fn(Event<K>) -> WatchEvent,
    kind: Kind,
    slim: fn(&mut K),
) -> impl Future<Output = ()> + Send + 'static
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let resource = Resource { group: K::group(&()).into_owned(), plural: K::plural(&()).into_owned() };
    follow(Api::all(client.clone()), resource, sender.clone(), wrap, Watched::Objects(kind), slim)
}

async fn follow<K>(
    api: Api<K>,
    resource: Resource,
    sender: mpsc::Sender<WatchEvent>,
    mut wrap: impl FnMut(Event<K>) -> WatchEvent,
    watched: Watched,
    slim: fn(&mut K),
) where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = watcher(api, watcher::Config::default()).modify(slim).boxed();
    let mut pauses = Pauses::default();
    let mut failing = false;
    while let Some(event) = events.next().await {
        let mut told = Vec::with_capacity(2);
        let mut pause = None;
        match event {
            Ok(event) => {
                // A list has begun: only what comes of it shows that it works.
                if !matches!(event, Event::Init) {
                    pauses = Pauses::default();
                    if std::mem::take(&mut failing) {
                        told.push(WatchEvent::WatchRecovered(watched.clone()));
                    }
                }
                told.push(wrap(event));
            }
            Err(error) => {
                pause = pauses.next();
                if let Some((verb, why)) = failure(&error) {
                    failing = true;
                    let (watched, resource) = (watched.clone(), resource.clone());
                    told.push(WatchEvent::WatchFailed(WatchFailure { watched, resource, verb, why }));
                }
            }
        }
        for event in told {
            if sender.send(event).await.is_err() {
                return;
            }
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Follows the node classes of a kind, and the machine types of each class that is there.
fn follow_classes(
    client: &Client,
    class: &NodeClassKind,
    provider: Arc<dyn Provider>,
    sender: mpsc::Sender<WatchEvent>,
) -> impl Future<Output = ()> + Send + 'static {
    let kind = GroupVersionKind::gvk(&class.group, &class.version, &class.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &class.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let name = Resource { group: class.group.clone(), plural: class.plural.clone() };
    let class = class.group_kind();
    let watched = Watched::Classes(class.clone());
    let mut feeds =
        TypeFeeds { provider, sender: sender.clone(), of: BTreeMap::new(), tasks: JoinSet::new() };
    let wrap = move |event| {
        feeds.keep(&class, &event);
        WatchEvent::Class(class.clone(), event)
    };
    follow(api, name, sender, wrap, watched, slim::object)
}

/// The machine types of all classes of a kind. What follows them ends with this.
struct TypeFeeds {
    provider: Arc<dyn Provider>,
    sender: mpsc::Sender<WatchEvent>,
    of: BTreeMap<String, AbortHandle>,
    tasks: JoinSet<()>,
}

impl TypeFeeds {
    /// Begins with classes that come, ends with those that go.
    fn keep(&mut self, class: &GroupKind, event: &Event<DynamicObject>) {
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                self.of.entry(object.name_any()).or_insert_with(|| {
                    let reference = reference(class, object);
                    let feed = self.provider.watch_types(&reference);
                    self.tasks.spawn(follow_types(feed, reference, self.sender.clone()))
                });
            }
            Event::Delete(object) => {
                if let Some(task) = self.of.remove(&object.name_any()) {
                    task.abort();
                }
            }
            Event::Init | Event::InitDone => {}
        }
        while self.tasks.try_join_next().is_some() {}
    }
}

fn reference(class: &GroupKind, object: &DynamicObject) -> NodeClassReference {
    NodeClassReference { group: class.group.clone(), kind: class.kind.clone(), name: object.name_any() }
}

async fn follow_types(mut feed: TypeFeed, class: NodeClassReference, sender: mpsc::Sender<WatchEvent>) {
    loop {
        feed.changed().await;
        if sender.send(WatchEvent::Types(class.clone())).await.is_err() {
            return;
        }
    }
}

/// What an error says; nothing for a watch that was away for too long and lists again.
fn failure(error: &watcher::Error) -> Option<(WatchVerb, Why)> {
    let by_code = |status: &Status| match status.code {
        403 => Some(Why::Forbidden),
        404 => Some(Why::NotServed),
        410 => None,
        _ => Some(Why::Other(status.message.clone())),
    };
    let by_error = |error: &kube::Error| match error {
        kube::Error::Api(status) => by_code(status),
        error => Some(Why::Other(error.to_string())),
    };
    let (verb, why) = match error {
        watcher::Error::InitialListFailed(error) => (WatchVerb::List, by_error(error)),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            (WatchVerb::Watch, by_error(error))
        }
        watcher::Error::WatchError(status) => (WatchVerb::Watch, by_code(status)),
        watcher::Error::NoResourceVersion => (WatchVerb::List, Some(Why::Other(error.to_string()))),
    };
    Some((verb, why?))
}

/// Pauses that double. Without chance in them: two runs must wait alike.
struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(PAUSES.0)
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.0;
        self.0 = (pause * 2).min(PAUSES.1);
        Some(pause)
    }
}
