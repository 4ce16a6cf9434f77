//! Everything one decision depends on.
//!
//! The state hands out a snapshot after every few events, and each differs from the one before in a node or a pod. What is large or many
//! is therefore shared: a new snapshot copies pointers, not nodes.

use std::sync::{Arc, OnceLock};

use super::ids::{GroupIdx, IdentityIdx, KeyId, NodeIdx};
use super::intern::Interner;
use super::{Catalogue, Daemon, GroupSpec, Identity, Node, Pod, PodClass, Pool, Reservation, Vocabulary};

/// Everything a decision depends on; immutable once built.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Names, requirements, taints.
    pub vocabulary: Vocabulary,
    /// The hostname key.
    pub hostname: Option<KeyId>,
    /// One per node class in use, and one per set of prices and capacities that pools of a class see.
    pub catalogues: Vec<Arc<Catalogue>>,
    /// All reservations offerings refer to.
    pub reservations: Vec<Reservation>,
    /// In the order in which they are tried: weight descending, then name descending.
    pub pools: Vec<Pool>,
    /// In the order in which they are tried: initialised first, then by name.
    pub nodes: Vec<Arc<Node>>,
    /// One per DaemonSet.
    pub daemons: Vec<Daemon>,
    /// What selectors can see, of bound and pending pods.
    pub identities: Interner<Identity>,
    /// Topology groups of all classes and of bound pods' anti-affinity.
    pub groups: Interner<GroupSpec>,
    /// Pending pods alike; each has at least one pod.
    pub classes: Vec<Arc<PodClass>>,
    /// Pending pods, in any order.
    pub pods: Vec<Pod>,
    /// [`Snapshot::bound_of`], once somebody has asked.
    pub(crate) bound: OnceLock<BoundPods>,
    /// Some pool or node has a PreferNoSchedule taint.
    pub has_preferred_taints: bool,
}

impl Snapshot {
    /// The same pools, types and names with these nodes and pods.
    pub fn with(&self, nodes: Vec<Arc<Node>>, classes: Vec<Arc<PodClass>>, pods: Vec<Pod>) -> Self {
        Self {
            vocabulary: self.vocabulary.clone(),
            hostname: self.hostname,
            catalogues: self.catalogues.clone(),
            reservations: self.reservations.clone(),
            pools: self.pools.clone(),
            nodes,
            daemons: self.daemons.clone(),
            identities: self.identities.clone(),
            groups: self.groups.clone(),
            classes,
            pods,
            bound: OnceLock::new(),
            has_preferred_taints: self.has_preferred_taints,
        }
    }

    /// The nodes with bound pods of an identity, in order. Worked out when first asked for: who takes events in need not wait for it.
    pub fn bound_of(&self, identity: IdentityIdx) -> &[(NodeIdx, u32)] {
        self.bound.get_or_init(|| BoundPods::new(self)).of(identity)
    }

    /// Required anti-affinity of bound pods: the group, and the node its owner is on.
    pub fn bound_anti_affinity(&self) -> impl Iterator<Item = (GroupIdx, NodeIdx)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(at, node)| node.anti_affinity.iter().map(move |group| (*group, NodeIdx::new(at))))
    }

    /// A group's definition.
    pub fn group(&self, group: GroupIdx) -> &GroupSpec {
        self.groups.get(group.0)
    }
}

/// Per identity the nodes with bound pods of it, and how many: [`Node::pods`] the other way round, end to end in one list.
#[derive(Debug)]
pub(crate) struct BoundPods {
    /// Where each identity's part begins, and the end.
    begins: Vec<u32>,
    entries: Vec<(NodeIdx, u32)>,
}

impl BoundPods {
    fn new(snapshot: &Snapshot) -> Self {
        let mut begins = vec![0u32; snapshot.identities.len() + 1];
        for (identity, _) in snapshot.nodes.iter().flat_map(|node| &node.pods) {
            begins[identity.at() + 1] += 1;
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut next = begins.clone();
        let mut entries = vec![(NodeIdx(0), 0); begins.last().map_or(0, |end| *end as usize)];
        for (at, node) in snapshot.nodes.iter().enumerate() {
            for (identity, count) in &node.pods {
                let place = &mut next[identity.at()];
                entries[*place as usize] = (NodeIdx::new(at), *count);
                *place += 1;
            }
        }
        Self { begins, entries }
    }

    fn of(&self, identity: IdentityIdx) -> &[(NodeIdx, u32)] {
        let at = identity.at();
        &self.entries[self.begins[at] as usize..self.begins[at + 1] as usize]
    }
}
