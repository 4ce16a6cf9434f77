//! What the loop knows, handed to whoever asks: shared objects and a few numbers, made in no time, so that the work of showing them is done elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::names::NODEPOOL_LABEL;
use joiner_api::{NodeClaim, NodePool};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use tokio::sync::{mpsc, oneshot};

use crate::engine::Engine;
use crate::pods::CachedPod;
use crate::steps::emptiness;

/// Questions that may wait.
const ROOM: usize = 16;

/// A question, as where to send the answer.
pub(crate) type Asked = oneshot::Sender<View>;

/// Asks the loop.
#[derive(Debug, Clone)]
pub struct Inspector(mpsc::Sender<Asked>);

impl Inspector {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Asked>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self(sender), receiver)
    }

    /// What the loop knows now; nothing if it has ended, or is asked too much.
    pub async fn view(&self) -> Option<View> {
        let (sender, answer) = oneshot::channel();
        self.0.try_send(sender).ok()?;
        answer.await.ok()
    }
}

/// What the loop knows.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// When.
    pub now: Timestamp,
    /// Whether everything needed is observed.
    pub synced: bool,
    /// For how long it has not been.
    pub unsynced: Duration,
    /// All pods.
    pub pods: Vec<Arc<CachedPod>>,
    /// All nodes, and whether they are ours.
    pub nodes: Vec<(Arc<Node>, bool)>,
    /// Claims of our node classes.
    pub claims: Vec<Arc<NodeClaim>>,
    /// Pools of our node classes.
    pub pools: Vec<PoolView>,
    /// Label keys that name node classes.
    pub class_labels: Vec<String>,
    /// Label keys that providers make well-known.
    pub well_known: Vec<String>,
    /// Pods that the scheduler found no place for.
    pub pending: Vec<Pending>,
    /// Of those, pods that no machine helps.
    pub refused: usize,
    /// Nodes that may go because they are empty.
    pub eligible: usize,
    /// The number of the last decision on pods, how many pods wait for its answer, and since when.
    pub deciding: (u64, usize, Duration),
    /// Keys that wait, by their controller.
    pub queue: BTreeMap<&'static str, usize>,
}

/// A pool with what is reckoned of it.
#[derive(Debug, Clone)]
pub struct PoolView {
    /// The pool.
    pub pool: Arc<NodePool>,
    /// What its machines cost, in dollars per hour.
    pub usd_per_hour: f64,
    /// How many of its nodes may go at once for being empty.
    pub allowed: u64,
    /// How many of its nodes are going or not ready.
    pub used: u64,
}

/// A pod that waits.
#[derive(Debug, Clone)]
pub struct Pending {
    /// The pod.
    pub pod: Arc<CachedPod>,
    /// For how long it has been seen waiting.
    pub waited: Duration,
    /// Whether it has been decided on.
    pub decided: bool,
}

impl Engine {
    pub(crate) fn view(&mut self) -> View {
        self.roster.refresh(&self.cache, &self.registry);
        let now = self.clock.monotonic();
        let synced = self.started && !self.watches.blocks();
        let unsynced = self.measured.unsynced_for(synced, now);
        let claims: Vec<Arc<NodeClaim>> =
            self.cache.claims.values().filter(|claim| self.is_ours(claim)).cloned().collect();
        let mut costs: BTreeMap<&str, f64> = BTreeMap::new();
        for claim in &claims {
            if let Some(pool) = claim.labels().get(NODEPOOL_LABEL) {
                *costs.entry(pool).or_default() += self.registry.price(claim).unwrap_or(0.0);
            }
        }
        let ours = |pool: &&Arc<NodePool>| self.registry.serves(&pool.spec.template.spec.node_class_ref);
        let pools = self.cache.pools.values().filter(ours).map(|pool| {
            let name = pool.name_any();
            let count = self.roster.count(&name, &self.leaving);
            let (allowed, _) = emptiness::allowance(pool, count.standing, 0, self.clock.now());
            let usd_per_hour = costs.get(name.as_str()).copied().unwrap_or(0.0);
            PoolView { pool: pool.clone(), usd_per_hour, allowed, used: count.used }
        });
        let pending = self.provisionable.iter().filter_map(|key| {
            let pod = self.cache.pods.get(key)?.clone();
            let seen = self.measured.pods.get(&*pod.uid);
            let (waited, decided) =
                seen.map_or((Duration::ZERO, false), |of| (now.since(of.seen), of.decided));
            Some(Pending { pod, waited, decided })
        });
        let nodes = self.cache.nodes.values();
        let kinds = || self.registry.kinds();
        let classes = self.cache.pools.values().map(|pool| &pool.spec.template.spec.node_class_ref);
        let mut well_known: Vec<String> =
            classes.flat_map(|class| self.registry.types(class).well_known.clone()).collect();
        well_known.sort();
        well_known.dedup();
        View {
            now: self.clock.now(),
            synced,
            unsynced,
            pods: self.cache.pods.values().cloned().collect(),
            nodes: nodes.map(|node| (node.clone(), self.registry.kind_of_node(node).is_some())).collect(),
            pools: pools.collect(),
            class_labels: kinds().map(|(kind, _)| kind.label()).collect(),
            well_known,
            pending: pending.collect(),
            refused: self.refused.len(),
            eligible: self.empty_since.len(),
            deciding: self.measured.deciding(now),
            queue: self.queue.by_controller(),
            claims,
        }
    }
}
