//! The whole world of one decision.

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
    pub catalogues: Vec<Catalogue>,
    /// All reservations offerings refer to.
    pub reservations: Vec<Reservation>,
    /// In the order in which they are tried: weight descending, then name descending.
    pub pools: Vec<Pool>,
    /// In the order in which they are tried: initialised first, then by name.
    pub nodes: Vec<Node>,
    /// One per DaemonSet.
    pub daemons: Vec<Daemon>,
    /// What selectors can see, of bound and pending pods.
    pub identities: Interner<Identity>,
    /// Topology groups of all classes and of bound pods' anti-affinity.
    pub groups: Interner<GroupSpec>,
    /// Required anti-affinity of bound pods: the group, and the node its owner is on.
    pub bound_anti_affinity: Vec<(GroupIdx, NodeIdx)>,
    /// Pods alike.
    pub classes: Vec<PodClass>,
    /// Pending pods, in any order.
    pub pods: Vec<Pod>,
    /// Per identity the nodes with bound pods of it (filled by [`Snapshot::finish`]).
    pub(crate) bound: Vec<Vec<(NodeIdx, u32)>>,
    /// Some pool or node has a PreferNoSchedule taint.
    pub has_preferred_taints: bool,
}

impl Snapshot {
    /// Builds what decisions look up; call once after filling the tables.
    pub fn finish(mut self) -> Self {
        let mut bound = vec![Vec::new(); self.identities.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            for (identity, count) in &node.pods {
                bound[identity.at()].push((NodeIdx::new(at), *count));
            }
        }
        self.bound = bound;
        self
    }

    /// The nodes with bound pods of an identity.
    pub fn bound_of(&self, identity: IdentityIdx) -> &[(NodeIdx, u32)] {
        self.bound.get(identity.at()).map_or(&[], Vec::as_slice)
    }

    /// A group's definition.
    pub fn group(&self, group: GroupIdx) -> &GroupSpec {
        self.groups.get(group.0)
    }
}
