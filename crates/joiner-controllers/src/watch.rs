//! Watches of all kinds that matter, brought into one bounded channel.
//!
//! One task per kind follows a `watcher`, which lists, watches, and lists again when it was away for too long. What it tells goes into the
//! channel in order; a full channel makes the task wait, nothing is dropped. Errors go there too: a kind that is forbidden or missing is asked for
//! again from time to time, and picked up when it can be had.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use joiner_provider::NodeClassKind;
use joiner_record::{Resource, WatchVerb};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::core::Status;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::pods;
use crate::watch_health::{WatchFailure, Why};
use crate::world::{Kind, Seen};

/// Events that may wait.
const ROOM: usize = 4096;
/// First and longest pause of a watch after an error.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Says of what kind of class an event is.
type Wrap = fn(Event<DynamicObject>) -> Seen;

/// Starts all watches; they end with the set.
pub fn start(client: &Client, classes: &[NodeClassKind], tasks: &mut JoinSet<()>) -> mpsc::Receiver<Seen> {
    let (sender, receiver) = mpsc::channel(ROOM);
    macro_rules! follow {
        ($($variant:ident),*) => {
            $(tasks.spawn(follow_typed(client, &sender, Seen::$variant, Kind::$variant, drop_record));)*
        };
    }
    tasks.spawn(follow_typed(client, &sender, Seen::Pod, Kind::Pod, pods::drop_unasked));
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
    // A list replaces what its shelf holds, so each kind of class has one of its own; there are two.
    let shelves: [(Wrap, Kind); 2] = [(Seen::Class, Kind::Class), (Seen::OtherClass, Kind::OtherClass)];
    for (at, (wrap, shelf)) in shelves.into_iter().enumerate() {
        let Some(class) = classes.get(at) else {
            // Nobody has listened yet, so there is room.
            let _ = sender.try_send(Seen::NotNeeded(shelf));
            continue;
        };
        let kind = GroupVersionKind::gvk(&class.group, &class.version, &class.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &class.plural);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let name = Resource { group: class.group.clone(), plural: class.plural.clone() };
        tasks.spawn(follow(api, name, sender.clone(), wrap, shelf, drop_record));
    }
    receiver
}

/// Nobody here asks who owns which field, and it is half of an object.
fn drop_record<K: kube::Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}

fn follow_typed<K>(
    client: &Client,
    sender: &mpsc::Sender<Seen>,
    wrap: fn(Event<K>) -> Seen,
    kind: Kind,
    slim: fn(&mut K),
) -> impl Future<Output = ()> + Send + 'static
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let resource = Resource { group: K::group(&()).into_owned(), plural: K::plural(&()).into_owned() };
    follow(Api::all(client.clone()), resource, sender.clone(), wrap, kind, slim)
}

async fn follow<K>(
    api: Api<K>,
    resource: Resource,
    sender: mpsc::Sender<Seen>,
    wrap: fn(Event<K>) -> Seen,
    kind: Kind,
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
                        told.push(Seen::WatchRecovered(kind));
                    }
                }
                told.push(wrap(event));
            }
            Err(error) => {
                pause = pauses.next();
                if let Some((verb, why)) = failure(&error) {
                    failing = true;
                    let resource = resource.clone();
                    told.push(Seen::WatchFailed(WatchFailure { kind, resource, verb, why }));
                }
            }
        }
        for seen in told {
            if sender.send(seen).await.is_err() {
                return;
            }
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
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
