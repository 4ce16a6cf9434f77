//! How many pods of which kind are on which node: the numbers behind spread, affinity and anti-affinity.
//!
//! A [`Counter`] counts, per node, the pods that a selector selects, or the pods that carry a certain term. A pod that comes or goes
//! touches only the counters it concerns, known per identity (namespace and labels) and per class. Whoever sums counters up per
//! value of a topology key keeps a [`Tally`], which reads a counter's log and adds up what is new; a scan over all nodes happens only
//! when nodes themselves change.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use joiner_core::model::{FixedState, Names, fixed_state};

use super::nodes::{Column, MISSING, NodeId};
use super::terms::{Labels, MoreNamespaces, PodSelector, PodTerm};

/// A counter's place.
pub(crate) type CounterId = u32;
/// An identity's place.
pub(crate) type IdentityId = u32;

/// A log longer than this is thrown away, and tallies that have not read it start again.
const LONGEST_LOG: usize = 16_384;

/// Which pods a counter counts: those that all selectors select.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Counted {
    pub all: Vec<PodSelector>,
    /// Pods that are being deleted are left out.
    pub live_only: bool,
}

/// How a pod that is there bears on pods that its term selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bearing {
    /// Keeps them away.
    RequiredAnti,
    /// Draws them near, or keeps them off (negative), with this weight.
    Weight(i64),
}

/// A term that pods on nodes carry.
#[derive(Debug)]
pub(crate) struct Carried {
    pub term: PodTerm,
    pub bearing: Bearing,
    pub counter: CounterId,
}

/// Pods per node.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    per_node: Vec<i32>,
    /// Pods that are being deleted are left out.
    live_only: bool,
    log: Vec<(NodeId, i32)>,
    epoch: u32,
}

impl Counter {
    fn add(&mut self, node: NodeId, by: i32) {
        if by == 0 {
            return;
        }
        let at = node as usize;
        if self.per_node.len() <= at {
            self.per_node.resize(at + 1, 0);
        }
        self.per_node[at] += by;
        if self.log.len() >= LONGEST_LOG {
            self.log.clear();
            self.epoch += 1;
        }
        self.log.push((node, by));
    }

    /// Pods on a node.
    #[inline]
    pub(crate) fn on(&self, node: NodeId) -> i64 {
        self.per_node.get(node as usize).copied().map_or(0, i64::from)
    }
}

/// Namespace and labels of pods.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    pub namespace: u32,
    pub labels: Labels,
    /// Per node: pods that are not being deleted, and all.
    on: BTreeMap<NodeId, [i32; 2]>,
    counters: Vec<CounterId>,
}

/// All counters.
#[derive(Debug)]
pub(crate) struct PodCounts {
    pub identities: Vec<Identity>,
    identity_ids: HashMap<(u32, Labels), IdentityId, FixedState>,
    pub counters: Vec<Counter>,
    counted: Vec<(Counted, CounterId)>,
    counter_ids: HashMap<Counted, CounterId, FixedState>,
    /// Terms that pods carry, in the order of their appearance.
    pub carried: Vec<Carried>,
    carried_ids: HashMap<(PodTerm, Bearing), CounterId, FixedState>,
    namespace_ids: HashMap<Box<str>, u32, FixedState>,
    namespace_names: Vec<Box<str>>,
    namespace_labels: Vec<Labels>,
    /// Grows when labels of a namespace change.
    pub namespaces_epoch: u64,
}

impl Default for PodCounts {
    fn default() -> Self {
        Self {
            identities: Vec::new(),
            identity_ids: HashMap::with_hasher(fixed_state()),
            counters: Vec::new(),
            counted: Vec::new(),
            counter_ids: HashMap::with_hasher(fixed_state()),
            carried: Vec::new(),
            carried_ids: HashMap::with_hasher(fixed_state()),
            namespace_ids: HashMap::with_hasher(fixed_state()),
            namespace_names: Vec::new(),
            namespace_labels: Vec::new(),
            namespaces_epoch: 1,
        }
    }
}

impl PodCounts {
    /// The number of a namespace.
    pub(crate) fn namespace(&mut self, name: &str) -> u32 {
        if let Some(id) = self.namespace_ids.get(name) {
            return *id;
        }
        let id = self.namespace_labels.len() as u32;
        self.namespace_labels.push(Labels::new());
        self.namespace_names.push(name.into());
        self.namespace_ids.insert(name.into(), id);
        id
    }

    /// Takes in labels of a namespace.
    pub(crate) fn set_namespace(&mut self, names: &Names, name: &str, labels: Labels) {
        let id = self.namespace(name) as usize;
        if self.namespace_labels[id] == labels {
            return;
        }
        self.namespace_labels[id] = labels;
        self.namespaces_epoch += 1;
        for at in 0..self.counted.len() {
            if self.counted[at].0.all.iter().any(|pods| pods.more != MoreNamespaces::None) {
                self.recount(names, at);
            }
        }
    }

    /// The name of a namespace.
    pub(crate) fn namespace_name(&self, namespace: u32) -> &str {
        &self.namespace_names[namespace as usize]
    }

    /// The labels of a namespace.
    pub(crate) fn labels_of(&self, namespace: u32) -> &Labels {
        &self.namespace_labels[namespace as usize]
    }

    /// The identity of a namespace and labels, made on first use.
    pub(crate) fn identity(&mut self, names: &Names, namespace: u32, labels: Labels) -> IdentityId {
        if let Some(id) = self.identity_ids.get(&(namespace, labels.clone())) {
            return *id;
        }
        let id = self.identities.len() as IdentityId;
        let mut identity = Identity { namespace, labels: labels.clone(), ..Identity::default() };
        for (counted, counter) in &self.counted {
            if self.counts(names, counted, &identity) {
                identity.counters.push(*counter);
            }
        }
        self.identities.push(identity);
        self.identity_ids.insert((namespace, labels), id);
        id
    }

    /// Whether a selector selects pods of an identity.
    pub(crate) fn selects(&self, names: &Names, pods: &PodSelector, identity: IdentityId) -> bool {
        let identity = &self.identities[identity as usize];
        self.selects_identity(names, pods, identity)
    }

    fn selects_identity(&self, names: &Names, pods: &PodSelector, identity: &Identity) -> bool {
        pods.matches(names, identity.namespace, self.labels_of(identity.namespace), &identity.labels)
    }

    fn counts(&self, names: &Names, counted: &Counted, identity: &Identity) -> bool {
        !counted.all.is_empty() && counted.all.iter().all(|pods| self.selects_identity(names, pods, identity))
    }

    /// The counter of some pods, made on first use.
    pub(crate) fn counter(&mut self, names: &Names, counted: Counted) -> CounterId {
        if let Some(id) = self.counter_ids.get(&counted) {
            return *id;
        }
        let id = self.counters.len() as CounterId;
        self.counters.push(Counter::default());
        self.counter_ids.insert(counted.clone(), id);
        self.counted.push((counted, id));
        self.recount(names, self.counted.len() - 1);
        id
    }

    /// The counter of some pods, if there is one.
    pub(crate) fn known_counter(&self, counted: &Counted) -> Option<CounterId> {
        self.counter_ids.get(counted).copied()
    }

    fn recount(&mut self, names: &Names, at: usize) {
        let (counted, id) = self.counted[at].clone();
        let epoch = self.counters[id as usize].epoch + 1;
        let mut fresh = Counter { epoch, live_only: counted.live_only, ..Counter::default() };
        for place in 0..self.identities.len() {
            let selected = self.counts(names, &counted, &self.identities[place]);
            let identity = &mut self.identities[place];
            identity.counters.retain(|other| *other != id);
            if selected {
                identity.counters.push(id);
                for (node, [live, all]) in &identity.on {
                    fresh.add(*node, if counted.live_only { *live } else { *all });
                }
            }
        }
        fresh.log.clear();
        self.counters[id as usize] = fresh;
    }

    /// The counter of a term that pods carry, made on first use.
    pub(crate) fn carry(&mut self, term: &PodTerm, bearing: Bearing) -> CounterId {
        let key = (term.clone(), bearing);
        if let Some(id) = self.carried_ids.get(&key) {
            return *id;
        }
        let counter = self.counters.len() as CounterId;
        self.counters.push(Counter::default());
        self.carried.push(Carried { term: term.clone(), bearing, counter });
        self.carried_ids.insert(key, counter);
        counter
    }

    /// A pod comes (1) or goes (-1), live or being deleted.
    pub(crate) fn place(
        &mut self,
        identity: IdentityId,
        carried: &[CounterId],
        node: NodeId,
        live: bool,
        by: i32,
    ) {
        let identity = &mut self.identities[identity as usize];
        let on = identity.on.entry(node).or_default();
        on[0] += if live { by } else { 0 };
        on[1] += by;
        if *on == [0, 0] {
            identity.on.remove(&node);
        }
        for counter in &identity.counters {
            let counter = &mut self.counters[*counter as usize];
            if live || !counter.live_only {
                counter.add(node, by);
            }
        }
        for counter in carried {
            self.counters[*counter as usize].add(node, by);
        }
    }

    /// How often a counter counts a pod of this identity that carries these terms: a pod may carry the same term twice.
    pub(crate) fn times(&self, counter: CounterId, identity: IdentityId, carried: &[CounterId]) -> i64 {
        let selected = self.identities[identity as usize].counters.contains(&counter);
        let carries = carried.iter().filter(|other| **other == counter).count();
        i64::from(selected) + carries as i64
    }
}

/// A counter summed up per value of a topology key, over the nodes that count.
#[derive(Debug)]
pub(crate) struct Tally {
    pub counter: Option<CounterId>,
    pub column: usize,
    /// Pods per value.
    pub by_value: Vec<i64>,
    /// Nodes that count, per value.
    pub domains: Vec<u32>,
    /// All pods counted.
    pub total: i64,
    /// Nodes that count; empty means all.
    included: Vec<bool>,
    read: (u32, usize),
    nodes_epoch: u64,
}

impl Tally {
    /// An empty tally: [`Tally::catch_up`] fills it. Without a counter nothing is ever counted.
    pub(crate) fn new(counter: Option<CounterId>, column: usize) -> Self {
        Self {
            counter,
            column,
            by_value: Vec::new(),
            domains: Vec::new(),
            total: 0,
            included: Vec::new(),
            read: (0, 0),
            nodes_epoch: 0,
        }
    }

    /// Adds what the counter has seen since last time. `included` says, where nodes changed, which ones count.
    pub(crate) fn catch_up(
        &mut self,
        counters: &[Counter],
        columns: &[Column],
        nodes_epoch: u64,
        included: impl FnMut(NodeId) -> bool,
    ) {
        let counter = self.counter.map(|counter| &counters[counter as usize]);
        let column = &columns[self.column];
        let current = self.nodes_epoch == nodes_epoch && counter.is_none_or(|c| c.epoch == self.read.0);
        if !current {
            self.start_again(counter, column, included);
            self.nodes_epoch = nodes_epoch;
            return;
        }
        let Some(counter) = counter else { return };
        for (node, by) in &counter.log[self.read.1..] {
            let at = *node as usize;
            if self.included.get(at) == Some(&true)
                && let Some(value) = column.values.get(at)
                && let Some(count) = self.by_value.get_mut(*value as usize)
            {
                *count += i64::from(*by);
                self.total += i64::from(*by);
            }
        }
        self.read.1 = counter.log.len();
    }

    fn start_again(
        &mut self,
        counter: Option<&Counter>,
        column: &Column,
        mut included: impl FnMut(NodeId) -> bool,
    ) {
        self.by_value.clear();
        self.domains.clear();
        self.included.clear();
        self.included.resize(column.values.len(), false);
        self.total = 0;
        for (at, value) in column.values.iter().enumerate() {
            if *value == MISSING || !included(at as NodeId) {
                continue;
            }
            self.included[at] = true;
            let place = *value as usize;
            if self.by_value.len() <= place {
                self.by_value.resize(place + 1, 0);
                self.domains.resize(place + 1, 0);
            }
            let count = counter.map_or(0, |counter| counter.on(at as NodeId));
            self.by_value[place] += count;
            self.domains[place] += 1;
            self.total += count;
        }
        self.read = counter.map_or((0, 0), |counter| (counter.epoch, counter.log.len()));
    }

    /// Pods at a value.
    #[inline]
    pub(crate) fn at(&self, value: u32) -> i64 {
        self.by_value.get(value as usize).copied().unwrap_or(0)
    }

    /// Whether a node counts.
    pub(crate) fn includes(&self, node: NodeId) -> bool {
        self.included.get(node as usize) == Some(&true)
    }

    /// The least count of a domain, where it is, and the least of the others; and how many domains there are.
    pub(crate) fn least(&self) -> Least {
        let mut out = Least { value: MISSING, count: i64::MAX, other: i64::MAX, domains: 0 };
        for (value, count) in self.by_value.iter().enumerate() {
            if self.domains[value] == 0 {
                continue;
            }
            out.domains += 1;
            if *count < out.count {
                out.other = out.count;
                (out.value, out.count) = (value as u32, *count);
            } else {
                out.other = out.other.min(*count);
            }
        }
        out
    }
}

/// The least count of a tally.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Least {
    pub value: u32,
    pub count: i64,
    pub other: i64,
    pub domains: usize,
}

impl Least {
    /// The least count if the count at `value` were `count`.
    pub(crate) fn with(&self, value: u32, count: i64) -> Option<i64> {
        if self.domains == 0 {
            return None;
        }
        let rest = if value == self.value { self.other } else { self.count };
        Some(rest.min(count))
    }

    /// The least count as it is.
    pub(crate) fn plain(&self) -> Option<i64> {
        (self.domains > 0).then_some(self.count)
    }
}
