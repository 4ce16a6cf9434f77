//! What the watches have told of nodes and pods, as far as kubelets have something to do about it.
//!
//! An answer to a write of ours is taken in at once, and what a watch tells later of an older state is not believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use joiner_api::names::KWOK_NODE_MARK;
use joiner_provider::Clock;
use joiner_sim::cache::Cache;
use joiner_sim::controller::Controller;
use joiner_sim::event::Change;
use joiner_sim::kubelet::{Kubelets, is_settled};
use joiner_sim::object::{Fields, Key, Kind, Object};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;

/// How long a watch that failed waits before the next try.
const RETRY: Duration = Duration::from_secs(1);

/// Something a watch has told.
pub(super) enum Told {
    /// All objects of a kind come now.
    Begin(Kind),
    Listed(Kind, Value),
    /// Those were all.
    End(Kind),
    Now(Kind, Value),
    Gone(Kind, Value),
}

/// Nodes that are played, and pods that want something.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) cache: Cache,
    /// Nodes of other hands.
    others: BTreeSet<String>,
    /// What we wrote ourselves, by version: what is older is not news.
    written: BTreeMap<Key, u64>,
    /// What a list that comes in has named so far.
    coming: BTreeMap<Kind, BTreeSet<Key>>,
}

/// Follows all objects of a kind; of pods those that have a node.
pub(super) fn follow(client: &Client, clock: &Arc<dyn Clock>, kind: Kind) -> BoxStream<'static, Told> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
    let config = match kind {
        Kind::Pod => watcher::Config::default().fields("spec.nodeName!="),
        _ => watcher::Config::default(),
    };
    let clock = clock.clone();
    let events = watcher(api, config).filter_map(move |event| {
        let clock = clock.clone();
        async move {
            Some(match event {
                Ok(Event::Init) => Told::Begin(kind),
                Ok(Event::InitApply(object)) => Told::Listed(kind, value(object)),
                Ok(Event::InitDone) => Told::End(kind),
                Ok(Event::Apply(object)) => Told::Now(kind, value(object)),
                Ok(Event::Delete(object)) => Told::Gone(kind, value(object)),
                Err(error) => {
                    tracing::debug!(kind = kind.name(), %error, "a watch of the simulated kubelets failed");
                    clock.sleep(RETRY).await;
                    return None;
                }
            })
        }
    });
    events.boxed()
}

impl Observed {
    /// Takes in what a watch has told; `keys` gets what is to be looked at because of it.
    pub(super) fn take(&mut self, told: Told, kubelets: &mut Kubelets, keys: &mut Vec<Key>) {
        match told {
            Told::Begin(kind) => drop(self.coming.insert(kind, BTreeSet::new())),
            Told::Listed(kind, object) => {
                let key = Key::of(kind, &object);
                self.coming.entry(kind).or_default().insert(key);
                self.now(kind, object, kubelets, keys);
            }
            Told::End(kind) => {
                let named = self.coming.remove(&kind).unwrap_or_default();
                let gone = self.cache.all(kind).filter(|(key, _)| !named.contains(key));
                let gone: Vec<(Key, Object)> =
                    gone.map(|(key, object)| (key.clone(), object.clone())).collect();
                self.written.retain(|key, _| key.kind != kind || named.contains(key));
                for (key, object) in gone {
                    self.change(Change::Deleted, key, object, kubelets, keys);
                }
            }
            Told::Now(kind, object) => self.now(kind, object, kubelets, keys),
            Told::Gone(kind, object) => {
                let key = Key::of(kind, &object);
                self.written.remove(&key);
                self.others.remove(&*key.name);
                self.change(Change::Deleted, key, object.into(), kubelets, keys);
            }
        }
    }

    /// Takes in the answer to a write of ours.
    pub(super) fn written(
        &mut self,
        kind: Kind,
        object: Value,
        kubelets: &mut Kubelets,
        keys: &mut Vec<Key>,
    ) {
        let (key, version) = (Key::of(kind, &object), version(&object));
        self.now(kind, object, kubelets, keys);
        self.written.insert(key, version);
    }

    /// Everything there is.
    pub(super) fn all(&self) -> Vec<Key> {
        [Kind::Node, Kind::Pod]
            .iter()
            .flat_map(|kind| self.cache.all(*kind))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// A node and its pods.
    pub(super) fn of_node(&self, node: &str) -> Vec<Key> {
        let pods = self.cache.pods_on(node).map(|(key, _)| key.clone());
        [Key::new(Kind::Node, "", node)].into_iter().chain(pods).collect()
    }

    fn now(&mut self, kind: Kind, object: Value, kubelets: &mut Kubelets, keys: &mut Vec<Key>) {
        let key = Key::of(kind, &object);
        if let Some(written) = self.written.get(&key) {
            if version(&object) < *written {
                return;
            }
            self.written.remove(&key);
        }
        for address in addresses(kind, &object) {
            kubelets.address_is_taken(address);
        }
        let object = Object::from(object);
        let is_kept = match kind {
            Kind::Node => {
                let is_fake = object.annotation(KWOK_NODE_MARK) == Some("fake");
                match is_fake {
                    true => drop(self.others.remove(&*key.name)),
                    false => drop(self.others.insert(key.name.to_string())),
                }
                is_fake
            }
            _ => !is_settled(&object) && !self.others.contains(object.text(&["spec", "nodeName"])),
        };
        let change = if is_kept { Change::Modified } else { Change::Deleted };
        self.change(change, key, object, kubelets, keys);
    }

    fn change(
        &mut self,
        change: Change,
        key: Key,
        object: Object,
        kubelets: &mut Kubelets,
        keys: &mut Vec<Key>,
    ) {
        let revision = version(&object);
        if let Some(event) = self.cache.take(change, key, object, revision) {
            kubelets.interested(&event, &self.cache, keys);
        }
    }
}

fn version(object: &Value) -> u64 {
    object.text(&["metadata", "resourceVersion"]).parse().unwrap_or(0)
}

fn addresses(kind: Kind, object: &Value) -> Vec<&str> {
    match kind {
        Kind::Pod => vec![object.text(&["status", "podIP"])],
        _ => object.items(&["status", "addresses"]).iter().map(|of| of.text(&["address"])).collect(),
    }
}

/// An object without the record of who owns its fields.
pub(super) fn value(object: DynamicObject) -> Value {
    let DynamicObject { mut metadata, mut data, .. } = object;
    metadata.managed_fields = None;
    // Metadata has only names and texts, which can be written.
    data["metadata"] = serde_json::to_value(metadata).unwrap_or_default();
    data
}

/// How the API calls a kind.
pub(super) fn resource(kind: Kind) -> ApiResource {
    let named = GroupVersionKind::gvk(kind.group(), kind.version(), kind.name());
    ApiResource::from_gvk_with_plural(&named, kind.plural())
}
