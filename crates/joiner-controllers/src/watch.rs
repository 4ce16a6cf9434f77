//! Watches of all kinds that matter, brought into one bounded channel.
//!
//! One task per kind follows a `watcher`, which lists, watches, and lists again when it was away for too long. What it tells goes into the
//! channel in order; a full channel makes the task wait, nothing is dropped. A kind that the server does not have counts as empty and is asked for
//! again from time to time.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{GroupKind, NodeClassKind, Provider, Registry, TypeFeed};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::pods;
use crate::world::{Kind, Seen};

/// Events that may wait.
const ROOM: usize = 4096;
/// First and longest pause of a watch after an error.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Starts all watches; they end with the set.
pub fn start(client: &Client, registry: &Registry, tasks: &mut JoinSet<()>) -> mpsc::Receiver<Seen> {
    let (sender, receiver) = mpsc::channel(ROOM);
    macro_rules! follow {
        ($($variant:ident),*) => {
            $(tasks.spawn(follow(Api::all(client.clone()), sender.clone(), Seen::$variant, Kind::$variant, drop_record));)*
        };
    }
    tasks.spawn(follow(Api::all(client.clone()), sender.clone(), Seen::Pod, Kind::Pod, pods::drop_unasked));
    follow!(
        Node,
        Claim,
        Pool,
        Overlay,
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
        tasks.spawn(follow_classes(client.clone(), class.clone(), provider.clone(), sender.clone()));
    }
    receiver
}

/// Nobody here asks who owns which field, and it is half of an object.
fn drop_record<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

async fn follow<K>(
    api: Api<K>,
    sender: mpsc::Sender<Seen>,
    wrap: fn(Event<K>) -> Seen,
    kind: Kind,
    slim: fn(&mut K),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = watcher(api, watcher::Config::default()).backoff(Pauses::default()).modify(slim).boxed();
    while let Some(event) = events.next().await {
        let seen = match event {
            Ok(event) => wrap(event),
            Err(error) if is_not_served(&error) => Seen::NotServed(kind),
            // The watcher pauses, then lists or watches again by itself.
            Err(_) => continue,
        };
        if sender.send(seen).await.is_err() {
            return;
        }
    }
}

/// Follows the node classes of a kind, and the machine types of each class that is there.
async fn follow_classes(
    client: Client,
    class: NodeClassKind,
    provider: Arc<dyn Provider>,
    sender: mpsc::Sender<Seen>,
) {
    let kind = GroupVersionKind::gvk(&class.group, &class.version, &class.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &class.plural);
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let class = class.group_kind();
    let mut types: BTreeMap<String, AbortHandle> = BTreeMap::new();
    // They end with this task.
    let mut tasks = JoinSet::new();
    let watched = watcher(api, watcher::Config::default()).backoff(Pauses::default()).modify(drop_record);
    let mut events = watched.boxed();
    while let Some(event) = events.next().await {
        let seen = match event {
            Ok(event) => {
                match &event {
                    Event::Apply(object) | Event::InitApply(object) => {
                        types.entry(object.name_any()).or_insert_with(|| {
                            let reference = reference(&class, object);
                            let feed = provider.watch_types(&reference);
                            tasks.spawn(follow_types(feed, reference, sender.clone()))
                        });
                    }
                    Event::Delete(object) => {
                        if let Some(task) = types.remove(&object.name_any()) {
                            task.abort();
                        }
                    }
                    Event::Init | Event::InitDone => {}
                }
                while tasks.try_join_next().is_some() {}
                Seen::Class(class.clone(), event)
            }
            Err(error) if is_not_served(&error) => Seen::ClassesNotServed(class.clone()),
            Err(_) => continue,
        };
        if sender.send(seen).await.is_err() {
            return;
        }
    }
}

fn reference(class: &GroupKind, object: &DynamicObject) -> NodeClassReference {
    NodeClassReference { group: class.group.clone(), kind: class.kind.clone(), name: object.name_any() }
}

async fn follow_types(mut feed: TypeFeed, class: NodeClassReference, sender: mpsc::Sender<Seen>) {
    loop {
        feed.changed().await;
        if sender.send(Seen::Types(class.clone())).await.is_err() {
            return;
        }
    }
}

fn is_not_served(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
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

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0 = PAUSES.0;
    }
}
