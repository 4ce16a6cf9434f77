//! Watches of all kinds that matter, brought into one bounded channel.
//!
//! One task per kind follows a `watcher`, which lists, watches, and lists again when it was away for too long. What it tells goes into the
//! channel in order; a full channel makes the task wait, nothing is dropped. A kind that the server does not have counts as empty and is asked for
//! again from time to time.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use joiner_provider::NodeClassKind;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::pods;
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
    // A list replaces what its shelf holds, so each kind of class has one of its own; there are two.
    let shelves: [(Wrap, Kind); 2] = [(Seen::Class, Kind::Class), (Seen::OtherClass, Kind::OtherClass)];
    for (at, (wrap, shelf)) in shelves.into_iter().enumerate() {
        let Some(class) = classes.get(at) else {
            // Nobody has listened yet, so there is room.
            let _ = sender.try_send(Seen::NotServed(shelf));
            continue;
        };
        let kind = GroupVersionKind::gvk(&class.group, &class.version, &class.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &class.plural);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        tasks.spawn(follow(api, sender.clone(), wrap, shelf, drop_record));
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
