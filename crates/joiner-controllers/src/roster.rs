//! What the screen and the removal of empty nodes ask of every machine, kept machine by machine: a change costs the work for one, not for all.

use std::collections::{BTreeMap, BTreeSet};

use joiner_api::NodeClaim;
use joiner_api::names::{self, NODEPOOL_LABEL, conditions};
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::Registry;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::cache::ClusterCache;
use crate::pods;
use crate::steps::emptiness;
use crate::steps::lifecycle::is_true;
use crate::steps::nodepools::{self, Capacity, Totals as PoolTotals};

/// All machines.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    rows: BTreeMap<String, Row>,
    /// Claims whose rows are out of date.
    stale: BTreeSet<String>,
    /// Claims whose nodes may be empty.
    idle: BTreeSet<String>,
    /// Claims whose nodes keep pods away because they were to go.
    marked: BTreeSet<String>,
    /// Machines that are up and hold nothing but daemons, by pool: they go when their pools have waited long enough.
    empty: BTreeMap<String, usize>,
    pools: BTreeMap<String, Count>,
    /// What the machines of each pool have.
    capacity: BTreeMap<String, PoolTotals>,
    /// Generations of the types that prices come from.
    generations: BTreeMap<NodeClassReference, u64>,
    /// Machines by phase.
    phases: BTreeMap<Phase, usize>,
    /// What all of them cost, in billionths of a dollar per hour: sums of whole numbers stay true however often a row comes and goes.
    cost: i64,
}

/// The machines of a pool that count for its budgets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    /// With a node that was ready for pods once.
    pub standing: u64,
    /// Of those, going or not ready.
    pub used: u64,
}

/// All machines in a few numbers.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Totals {
    pub nodes: usize,
    pub starting: usize,
    pub leaving: usize,
    pub dollars_per_hour: f64,
}

#[derive(Debug)]
struct Row {
    /// Nothing for machines of others.
    phase: Option<Phase>,
    /// In billionths of a dollar per hour.
    cost: i64,
    /// The pool, if the machine has exactly one node.
    pool: Option<String>,
    standing: bool,
    used: bool,
    /// What it has, by pool, unless it is going.
    capacity: Option<(String, Capacity)>,
    empty: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Starting,
    Up,
    Leaving,
}

impl Roster {
    /// Something about a claim, its node or the node's pods has changed.
    pub(crate) fn touch(&mut self, claim: String) {
        self.stale.insert(claim);
    }

    /// Brings the rows of all machines that have changed up to date.
    pub(crate) fn refresh(&mut self, cache: &ClusterCache, registry: &Registry) {
        let classes = self.generations.iter_mut();
        let dearer: Vec<bool> = classes
            .map(|(class, known)| std::mem::replace(known, registry.types(class).generation) != *known)
            .collect();
        if dearer.contains(&true) {
            self.stale.extend(self.rows.keys().cloned());
        }
        if self.stale.is_empty() {
            return;
        }
        for name in std::mem::take(&mut self.stale) {
            self.forget(&name);
            if let Some(claim) = cache.claims.get(&name) {
                self.enter(name, claim, cache, registry);
            }
        }
    }

    fn forget(&mut self, name: &str) {
        let Some(row) = self.rows.remove(name) else { return };
        self.idle.remove(name);
        self.marked.remove(name);
        if let Some(count) = row.phase.and_then(|phase| self.phases.get_mut(&phase)) {
            *count -= 1;
        }
        self.cost -= row.cost;
        if let Some((pool, capacity)) = &row.capacity
            && let Some(totals) = self.capacity.get_mut(pool)
        {
            totals.remove(capacity);
            if totals.machines == 0 {
                self.capacity.remove(pool);
            }
        }
        if let Some(count) = row.pool.as_ref().filter(|_| row.empty).and_then(|pool| self.empty.get_mut(pool))
        {
            *count -= 1;
        }
        if let Some(count) = row.pool.and_then(|pool| self.pools.get_mut(&pool)) {
            count.standing -= u64::from(row.standing);
            count.used -= u64::from(row.used);
        }
    }

    fn enter(&mut self, name: String, claim: &NodeClaim, cache: &ClusterCache, registry: &Registry) {
        let class = &claim.spec.node_class_ref;
        let ours = registry.serves(class);
        if ours && !self.generations.contains_key(class) {
            self.generations.insert(class.clone(), registry.types(class).generation);
        }
        let going = claim.metadata.deletion_timestamp.is_some();
        let phase = match (going, is_true(claim, conditions::INITIALIZED)) {
            (true, _) => Phase::Leaving,
            (false, true) => Phase::Up,
            (false, false) => Phase::Starting,
        };
        let mut row = Row {
            phase: ours.then_some(phase),
            cost: billionths(registry.price(claim).unwrap_or(0.0)),
            pool: None,
            standing: false,
            used: false,
            capacity: None,
            empty: false,
        };
        let (nodes, pool) = (cache.nodes_of(claim), claim.labels().get(NODEPOOL_LABEL));
        if let Some(pool) = pool.filter(|_| !going)
            && let Some(capacity) = nodepools::capacity_of(claim, &nodes)
        {
            self.capacity.entry(pool.clone()).or_default().add(&capacity);
            row.capacity = Some((pool.clone(), capacity));
        }
        if let ([node], Some(pool)) = (&nodes[..], pool) {
            row.pool = Some(pool.clone());
            row.standing =
                emptiness::is_initialised(node) && !is_true(claim, conditions::INSTANCE_TERMINATING);
            let deleting = going || node.metadata.deletion_timestamp.is_some();
            row.used = row.standing && (deleting || !emptiness::is_ready(node));
            let count = self.pools.entry(pool.clone()).or_default();
            count.standing += u64::from(row.standing);
            count.used += u64::from(row.used);
            row.empty = row.standing && !deleting && holds_nothing(node, cache);
            if row.empty {
                *self.empty.entry(pool.clone()).or_default() += 1;
            }
            if may_be_empty(claim, node, cache) {
                self.idle.insert(name.clone());
            }
            if is_marked(node) {
                self.marked.insert(name.clone());
            }
        }
        if let Some(phase) = row.phase {
            *self.phases.entry(phase).or_default() += 1;
        }
        self.cost += row.cost;
        self.rows.insert(name, row);
    }

    /// All machines in a few numbers.
    pub(crate) fn totals(&self) -> Totals {
        let count = |phase| self.phases.get(&phase).copied().unwrap_or(0);
        Totals {
            nodes: count(Phase::Up),
            starting: count(Phase::Starting),
            leaving: count(Phase::Leaving),
            dollars_per_hour: self.cost as f64 / 1e9,
        }
    }

    /// The machines of a pool that count for its budgets; those named in `leaving` are as good as going.
    pub(crate) fn count(&self, pool: &str, leaving: &BTreeSet<String>) -> Count {
        let mut count = self.pools.get(pool).copied().unwrap_or_default();
        let rows = leaving.iter().filter_map(|name| self.rows.get(name));
        let more = rows.filter(|row| row.pool.as_deref() == Some(pool) && row.standing && !row.used);
        count.used += more.count() as u64;
        count
    }

    /// What the machines of a pool have that are not going.
    pub(crate) fn capacity_of(&self, pool: &str) -> &PoolTotals {
        self.capacity.get(pool).unwrap_or(PoolTotals::NOTHING)
    }

    /// Pools with machines that hold nothing but daemons.
    pub(crate) fn pools_with_empty(&self) -> impl Iterator<Item = &String> {
        self.empty.iter().filter(|(_, count)| **count > 0).map(|(pool, _)| pool)
    }

    /// Claims about whose nodes something may be to be done: empty ones, and those marked for going.
    pub(crate) fn to_examine(&self) -> impl Iterator<Item = &String> {
        self.idle.iter().chain(&self.marked)
    }
}

/// Dollars in billionths; prices have far fewer digits.
fn billionths(dollars: f64) -> i64 {
    (dollars * 1e9).round() as i64
}

fn holds_nothing(node: &Node, cache: &ClusterCache) -> bool {
    !cache.pods_on(&node.name_any()).any(|pod| pods::is_reschedulable(pod))
}

fn may_be_empty(claim: &NodeClaim, node: &Node, cache: &ClusterCache) -> bool {
    is_true(claim, conditions::CONSOLIDATABLE) && holds_nothing(node, cache)
}

/// Whether a node keeps pods away because it was to go.
pub(crate) fn is_marked(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == names::DISRUPTED_TAINT)
}
