//! Kubelets of KWOK nodes, played by joiner on any API server, a real one too.
//!
//! What a kubelet does is decided by the simulated cluster's own kubelets ([`joiner_sim::kubelet`]): pure steps over a cache. Here that cache is fed by two watches, and
//! what the steps want written goes through the fenced client, one write per object at a time. Only nodes annotated `kwok.x-k8s.io/node: fake` are played, and of
//! these only those whose lease in `kube-node-lease` is ours ([`leases`]): that is how KWOK controllers agree among themselves, too, so no node is played twice.
//!
//! Cost: two watches; per node one status and a lease that is renewed as kubelets do; per pod one status and one deletion. Pods that run on are not kept.

mod leases;
mod observed;
mod others;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, select};
use futures::{FutureExt, StreamExt};
use joiner_controllers::{Epoch, Fence};
use joiner_provider::{Clock, Monotonic};
use joiner_sim::controller::Controller;
use joiner_sim::kubelet::{Kubelets, Lifecycle, Managed, annotations};
use joiner_sim::object::{Fields, Key, Kind};
use joiner_sim::write::{PatchKind, Write};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use serde_json::Value;

use self::leases::{Leases, Seen, Taken};
use self::observed::Observed;
pub use self::others::refuse_if_played;

/// As what we write.
const MANAGER: &str = "joiner-kubelet";
/// Writes that are under way at the same time.
const AT_ONCE: usize = 32;
/// A write that met a newer object is tried again after so long.
const AFTER_CONFLICT: Duration = Duration::from_millis(100);
/// So is one that failed for another reason.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Whether we lead is asked at least this often.
const LEAD_CHECK: Duration = Duration::from_secs(1);

/// The kubelets of all KWOK nodes of a cluster.
pub struct SimulatedKubelets {
    client: Client,
    fence: Fence,
    clock: Arc<dyn Clock>,
    kubelets: Kubelets,
    observed: Observed,
    leases: Leases,
    /// The time of lead in which we act; nothing while we only observe.
    epoch: Option<Epoch>,
    due: BTreeSet<(Monotonic, Key)>,
    due_at: BTreeMap<Key, Monotonic>,
    /// Objects of which a write is under way.
    busy: BTreeSet<Key>,
    calls: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// What came of a call.
enum Done {
    /// The objects as they are after the writes of a key.
    Written(Key, Vec<(Kind, Value)>, Result<(), kube::Error>),
    Leases(Epoch, Result<BTreeMap<String, Seen>, kube::Error>),
    Taken(Epoch, Arc<str>, Result<Taken, kube::Error>),
}

impl SimulatedKubelets {
    /// Kubelets that write through a client behind a fence. They do everything at once, as KWOK does with its fast stages; annotations of pods and nodes tune them.
    pub fn new(client: Client, fence: Fence, clock: Arc<dyn Clock>, seed: u64) -> Self {
        let lifecycle = Lifecycle { managed: Managed::Annotated, ..Lifecycle::default() };
        Self {
            leases: Leases::new(client.clone(), clock.clone()),
            client,
            fence,
            clock,
            kubelets: Kubelets::new(lifecycle, seed),
            observed: Observed::default(),
            epoch: None,
            due: BTreeSet::new(),
            due_at: BTreeMap::new(),
            busy: BTreeSet::new(),
            calls: FuturesUnordered::new(),
        }
    }

    /// Plays until it is dropped.
    pub async fn run(mut self) {
        let nodes = observed::follow(&self.client, &self.clock, Kind::Node);
        let pods = observed::follow(&self.client, &self.clock, Kind::Pod);
        let mut told = select(nodes, pods);
        loop {
            self.follow_fence();
            self.work();
            let wait =
                self.next_due().map_or(LEAD_CHECK, |due| due.since(self.clock.monotonic()).min(LEAD_CHECK));
            tokio::select! {
                biased;
                Some(done) = self.calls.next(), if !self.calls.is_empty() => self.finished(done),
                Some(told) = told.next() => {
                    let mut keys = Vec::new();
                    self.observed.take(told, &mut self.kubelets, &mut keys);
                    self.all_due(keys);
                }
                () = self.clock.sleep(wait) => {}
            }
        }
    }

    /// Begins anew when a time of lead begins: whoever led before may have left anything half done.
    fn follow_fence(&mut self) {
        let epoch = self.fence.epoch();
        let epoch = epoch.may_write().then_some(epoch);
        if self.epoch == epoch {
            return;
        }
        self.epoch = epoch;
        self.leases.forget();
        self.due.clear();
        self.due_at.clear();
        if let Some(epoch) = epoch {
            let listed = self.leases.list();
            self.calls.push(async move { Done::Leases(epoch, listed.await) }.boxed());
        }
    }

    /// The next moment at which there is something to do, if there is room for it.
    fn next_due(&self) -> Option<Monotonic> {
        if self.epoch.is_none() || !self.leases.are_known() || self.calls.len() >= AT_ONCE {
            return None;
        }
        let key = self.due.first().map(|(due, _)| *due);
        [key, self.leases.next_due()].into_iter().flatten().min()
    }

    fn work(&mut self) {
        let Some(epoch) = self.epoch else { return };
        let now = self.clock.monotonic();
        while self.next_due().is_some_and(|due| due <= now) {
            // Leases first: a node whose lease lapses is taken for lost.
            if let Some(node) = self.leases.pop_due(now) {
                self.take_lease(epoch, &node);
            } else if let Some((_, key)) = self.due.pop_first() {
                self.due_at.remove(&key);
                self.play(epoch, &key);
            }
        }
    }

    fn take_lease(&mut self, epoch: Epoch, node: &Arc<str>) {
        let Some(object) = self.observed.cache.find(Kind::Node, "", node) else {
            self.leases.drop_node(node);
            return;
        };
        if object.annotation(annotations::KUBELET) == Some("stopped") {
            // It reports no more: its lease runs out.
            return self.leases.rest(node);
        }
        let (call, node) = (self.leases.take(node, object.uid()), node.clone());
        self.calls.push(async move { Done::Taken(epoch, node, call.await) }.boxed());
    }

    fn play(&mut self, epoch: Epoch, key: &Key) {
        if self.busy.contains(key) {
            // Comes again with the answer.
            return;
        }
        let Some(object) = self.observed.cache.get(key) else { return };
        let node: Arc<str> = match key.kind {
            Kind::Node => key.name.clone(),
            _ => object.text(&["spec", "nodeName"]).into(),
        };
        if self.observed.cache.find(Kind::Node, "", &node).is_none() {
            return;
        }
        match self.leases.is_ours(&node) {
            Some(true) => {}
            // Everything on it comes again with the lease.
            Some(false) => return,
            None => return self.take_lease(epoch, &node),
        }
        let version = object.text(&["metadata", "resourceVersion"]).to_owned();
        let outcome = self.kubelets.reconcile(key, &self.observed.cache, self.clock.now());
        if let Some(again) = outcome.again_at {
            let wait = Duration::try_from(again.duration_since(self.clock.now())).unwrap_or_default();
            self.is_due(key.clone(), wait);
        }
        if outcome.writes.is_empty() {
            return;
        }
        self.busy.insert(key.clone());
        let (client, key) = (self.client.clone(), key.clone());
        self.calls.push(
            async move {
                let mut written = Vec::new();
                let result = write_all(&client, outcome.writes, version, &mut written).await;
                Done::Written(key, written, result)
            }
            .boxed(),
        );
    }

    fn finished(&mut self, done: Done) {
        match done {
            Done::Written(key, written, result) => {
                self.busy.remove(&key);
                let mut keys = vec![key.clone()];
                for (kind, object) in written {
                    self.observed.written(kind, object, &mut self.kubelets, &mut keys);
                }
                match result {
                    Ok(()) => self.all_due(keys),
                    Err(kube::Error::Api(status)) if status.is_conflict() => self.is_due(key, AFTER_CONFLICT),
                    // The watch tells that it is gone.
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    Err(error) => {
                        if self.fence.epoch().may_write() {
                            tracing::warn!(object = %key, %error, "a simulated kubelet cannot write; it tries again");
                        }
                        self.is_due(key, AFTER_FAILURE);
                    }
                }
            }
            Done::Leases(epoch, _) if self.epoch != Some(epoch) => {}
            Done::Leases(_, Ok(seen)) => {
                self.leases.know(seen);
                self.all_due(self.observed.all());
            }
            Done::Leases(epoch, Err(error)) => {
                tracing::warn!(%error, "the leases of nodes cannot be listed, and without them no kubelet is played; tried again");
                let (listed, clock) = (self.leases.list(), self.clock.clone());
                let call = async move {
                    clock.sleep(AFTER_FAILURE).await;
                    Done::Leases(epoch, listed.await)
                };
                self.calls.push(call.boxed());
            }
            Done::Taken(epoch, ..) if self.epoch != Some(epoch) => {}
            Done::Taken(_, node, taken) => {
                if self.leases.taken(&node, taken) {
                    self.all_due(self.observed.of_node(&node));
                }
            }
        }
    }

    fn all_due(&mut self, keys: Vec<Key>) {
        for key in keys {
            self.is_due(key, Duration::ZERO);
        }
    }

    /// A key is looked at after so long, or earlier if that was asked for already.
    fn is_due(&mut self, key: Key, after: Duration) {
        if self.epoch.is_none() {
            return;
        }
        let due = self.clock.monotonic() + after;
        match self.due_at.get(&key) {
            Some(earlier) if *earlier <= due => {}
            earlier => {
                if let Some(later) = earlier {
                    self.due.remove(&(*later, key.clone()));
                }
                self.due.insert((due, key.clone()));
                self.due_at.insert(key, due);
            }
        }
    }
}

/// Carries out the writes of one key in their order, each on the state that the one before has left.
async fn write_all(
    client: &Client,
    writes: Vec<Write>,
    mut version: String,
    written: &mut Vec<(Kind, Value)>,
) -> Result<(), kube::Error> {
    for write in writes {
        match write {
            Write::Patch { key, subresource, how: PatchKind::Merge, mut patch } => {
                let api = api(client, &key);
                patch["metadata"]["resourceVersion"] = version.clone().into();
                let (patch, parameters) = (
                    Patch::Merge(patch),
                    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() },
                );
                let object = match subresource {
                    Some(part) => api.patch_subresource(part, &key.name, &parameters, &patch).await?,
                    None => api.patch(&key.name, &parameters, &patch).await?,
                };
                version = object.metadata.resource_version.clone().unwrap_or_default();
                written.push((key.kind, observed::value(object)));
            }
            Write::Delete { key, uid, grace, .. } => {
                let parameters = DeleteParams {
                    grace_period_seconds: grace.and_then(|grace| u32::try_from(grace).ok()),
                    preconditions: Some(Preconditions { uid, resource_version: None }),
                    ..DeleteParams::default()
                };
                api(client, &key).delete(&key.name, &parameters).await?;
            }
            // Kubelets write nothing else.
            other => tracing::error!(write = ?other, "a simulated kubelet wants what it cannot do"),
        }
    }
    Ok(())
}

fn api(client: &Client, key: &Key) -> Api<DynamicObject> {
    let resource = observed::resource(key.kind);
    match key.kind.namespaced() {
        true => Api::namespaced_with(client.clone(), &key.namespace, &resource),
        false => Api::all_with(client.clone(), &resource),
    }
}
