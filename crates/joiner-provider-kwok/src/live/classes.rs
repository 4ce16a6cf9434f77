//! Types of AWS classes: what a class says counts, and where the pools of the class have their zones.
//!
//! Classes and pools are watched from the first question on; a class that changes gets another list, which is pushed to whoever plans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::select;
use joiner_api::names::{AWS_GROUP, GROUP, kinds};
use joiner_provider::{Clock, TypeFeed, TypePublisher};
use kube::api::{Api, DynamicObject, GroupVersionKind};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::Catalogue;

/// How long a watch that failed waits before the next try.
const RETRY: Duration = Duration::from_secs(1);

/// The types of a class, by its name, the class as it is now, if it is there, and the pools that refer to it.
pub type TypesOfClass = Arc<dyn Fn(&str, Option<&Value>, &[Value]) -> Catalogue + Send + Sync>;

/// The AWS classes that somebody asked for.
pub(crate) struct AwsClasses {
    shared: Arc<Shared>,
    client: Client,
    clock: Arc<dyn Clock>,
    follower: Mutex<Option<AbortHandle>>,
}

struct Shared {
    make: TypesOfClass,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// What counts of classes and pools, by kind and name.
    objects: BTreeMap<(&'static str, String), Value>,
    published: BTreeMap<String, TypePublisher>,
}

impl AwsClasses {
    pub(crate) fn new(client: Client, clock: Arc<dyn Clock>, make: TypesOfClass) -> Self {
        let shared = Arc::new(Shared { make, known: Mutex::default() });
        Self { shared, client, clock, follower: Mutex::default() }
    }

    /// The types of a class, from now on.
    pub(crate) fn feed(&self, class: &str) -> TypeFeed {
        self.follow();
        let mut known = self.shared.known.lock();
        if let Some(publisher) = known.published.get(class) {
            return publisher.feed();
        }
        let Catalogue { types, well_known, .. } = self.shared.made(&known, class);
        let publisher = TypePublisher::new(types, well_known);
        let feed = publisher.feed();
        known.published.insert(class.to_owned(), publisher);
        feed
    }

    /// Begins the watches, if they have not begun.
    fn follow(&self) {
        let mut follower = self.follower.lock();
        if follower.is_some() {
            return;
        }
        let api = |group: &str, kind: &str, plural: &str| -> Api<DynamicObject> {
            let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural);
            Api::all_with(self.client.clone(), &kind)
        };
        let classes =
            watcher(api(AWS_GROUP, kinds::EC2_NODE_CLASS, "ec2nodeclasses"), watcher::Config::default());
        let pools = watcher(api(GROUP, kinds::NODE_POOL, "nodepools"), watcher::Config::default());
        let classes = classes.map(|event| (kinds::EC2_NODE_CLASS, event));
        let pools = pools.map(|event| (kinds::NODE_POOL, event));
        let mut events = select(classes.boxed(), pools.boxed());
        let (shared, clock) = (self.shared.clone(), self.clock.clone());
        let task = tokio::spawn(async move {
            while let Some((kind, event)) = events.next().await {
                match event {
                    Ok(event) => shared.take(kind, event),
                    Err(_) => clock.sleep(RETRY).await,
                }
            }
        });
        *follower = Some(task.abort_handle());
    }
}

impl Drop for AwsClasses {
    fn drop(&mut self) {
        if let Some(follower) = self.follower.lock().take() {
            follower.abort();
        }
    }
}

impl Shared {
    fn take(&self, kind: &'static str, event: Event<DynamicObject>) {
        let (name, now) = match event {
            Event::Apply(object) | Event::InitApply(object) => {
                (object.name_any(), Some(what_counts(kind, &object)))
            }
            Event::Delete(object) => (object.name_any(), None),
            Event::Init | Event::InitDone => return,
        };
        let mut known = self.known.lock();
        let key = (kind, name);
        let before = match now.clone() {
            Some(now) => known.objects.insert(key.clone(), now),
            None => known.objects.remove(&key),
        };
        // Pools tell of their machines all the time, which changes nothing here.
        if before == now {
            return;
        }
        let of_pool = |pool: &Option<Value>| pool.as_ref().map(class_of).map(str::to_owned);
        let concerned = match kind {
            kinds::NODE_POOL => [of_pool(&before), of_pool(&now)],
            _ => [Some(key.1), None],
        };
        for class in concerned.into_iter().flatten() {
            if known.published.contains_key(&class) {
                let Catalogue { types, well_known, .. } = self.made(&known, &class);
                if let Some(publisher) = known.published.get(&class) {
                    publisher.publish(types, well_known);
                }
            }
        }
    }

    fn made(&self, known: &Known, class: &str) -> Catalogue {
        let object = known.objects.get(&(kinds::EC2_NODE_CLASS, class.to_owned()));
        let pools: Vec<Value> = known
            .objects
            .iter()
            .filter(|((kind, _), pool)| *kind == kinds::NODE_POOL && class_of(pool) == class)
            .map(|(_, pool)| pool.clone())
            .collect();
        (self.make)(class, object, &pools)
    }
}

/// The AWS class of a pool.
fn class_of(pool: &Value) -> &str {
    let class = &pool["spec"]["template"]["spec"]["nodeClassRef"];
    class["name"].as_str().filter(|_| class["group"] == AWS_GROUP).unwrap_or_default()
}

/// What may change the types of a class.
fn what_counts(kind: &str, object: &DynamicObject) -> Value {
    let data = &object.data;
    let spec = match kind {
        kinds::NODE_POOL => json!({"template": data["spec"]["template"]}),
        _ => data["spec"].clone(),
    };
    let status = match kind {
        kinds::NODE_POOL => Value::Null,
        _ => {
            json!({"subnets": data["status"]["subnets"], "capacityReservations": data["status"]["capacityReservations"]})
        }
    };
    json!({"kind": kind, "metadata": {"name": object.name_any()}, "spec": spec, "status": status})
}
