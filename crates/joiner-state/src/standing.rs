//! What stands, and the same pods waiting for machines: what a cluster costs today can only be judged beside what it would cost packed afresh.
//!
//! [`Cluster::finish_and_keep`] gives the snapshot that plans are made on, and a [`Standing`], which makes others of the same cluster: there nodes are given
//! up, and the pods that ran on them wait. Daemons come with every machine and mirror pods go with their node; neither waits. Nodes that stay
//! keep all their pods and take no more, so that both sides pay the same for them. Pods that waited already are left out: they are the plan's
//! matter, not that of what stands.

use std::collections::{BTreeMap, BTreeSet};

use joiner_api::names::{CONTROL_PLANE_LABEL, MASTER_LABEL};
use joiner_core::model::{NodeIdx, Snapshot};

use crate::cluster::Cluster;
use crate::costs::is_commitment;
use crate::lower::{Frame, Lowered, Lowering};
use crate::nodes::ResolvedNode;
use crate::pod_table::{Intent, NONE, PodRecord};
use crate::pods::Pending;

/// A cluster that was lowered once, and can be lowered with nodes given up.
#[derive(Debug)]
pub struct Standing {
    pub(crate) cluster: Cluster,
}

/// A node that has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandingNode {
    /// In the snapshot that plans are made on.
    pub node: NodeIdx,
    /// Its pods, without daemons, mirror pods and those that are going.
    pub pods: usize,
    /// Why it is not given up whatever is packed afresh.
    pub stays: Option<Stays>,
}

/// Why a node is not given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stays {
    /// Nobody knows what it costs.
    UnknownPrice,
    /// The cluster is run from it.
    ControlPlane,
    /// Its pool keeps a fixed number of nodes.
    Static,
}

impl Cluster {
    /// Lowers everything taken in, and keeps it to be packed afresh.
    pub fn finish_and_keep(mut self) -> (Lowered, Standing) {
        let lowered = self.lower_once();
        (lowered, Standing { cluster: self })
    }
}

impl Standing {
    /// The nodes that stand, by position in a snapshot of the cluster as it is.
    pub fn nodes(&self, snapshot: &Snapshot) -> Vec<StandingNode> {
        let joined = |name: &str| self.cluster.machines.nodes.contains_key(name);
        let rows = snapshot.nodes.iter().enumerate();
        rows.filter(|(_, node)| node.bought.is_none() && joined(&node.name))
            .map(|(at, node)| StandingNode {
                node: NodeIdx::new(at),
                pods: self.movable(&node.name).count(),
                stays: self.stays(&node.name, node.shown.price.is_some()),
            })
            .collect()
    }

    pub(crate) fn stays(&self, name: &str, has_price: bool) -> Option<Stays> {
        let node = self.cluster.machines.nodes.get(name)?;
        let claim = self.cluster.machines.claim_of(name);
        let pool = node.pool().or_else(|| claim?.pool()).and_then(|pool| self.cluster.pools.get(pool));
        let marks = [CONTROL_PLANE_LABEL, MASTER_LABEL];
        let is_marked = marks.iter().any(|mark| node.labels.contains_key(*mark))
            || node.taints.iter().any(|taint| marks.contains(&&*taint.key));
        match () {
            () if !has_price => Some(Stays::UnknownPrice),
            () if is_marked => Some(Stays::ControlPlane),
            () if pool.is_some_and(|pool| pool.spec.replicas.is_some()) => Some(Stays::Static),
            () => None,
        }
    }

    /// Rows of the pods of a node that need another one when it is given up.
    pub(crate) fn movable(&self, node: &str) -> impl Iterator<Item = u32> {
        let cluster = &self.cluster;
        let id = cluster.node_names.find(node.as_bytes());
        let rows = id.into_iter().flat_map(|id| cluster.on_node[id as usize].iter().copied());
        rows.filter(|row| cluster.pods.get(*row).is_some_and(PodRecord::needs_a_node))
    }

    /// The node of a pod, by namespace and name.
    pub fn node_of(&self, pod: &str) -> Option<&str> {
        let pod = self.cluster.pods.get(self.cluster.pods.find(pod)?)?;
        (pod.node != NONE).then(|| self.cluster.node_names.text(pod.node))
    }

    /// The cluster with every node given up but those that stay, by name. `before` is the snapshot of the cluster as it is.
    pub fn afresh(&mut self, stay: &BTreeSet<String>, before: &Snapshot) -> Snapshot {
        self.set_intents(|cluster, pod| {
            let goes = |node: &str| cluster.machines.nodes.contains_key(node) && !stay.contains(node);
            match pod.node {
                NONE => Intent::LeftOut,
                node if pod.needs_a_node() && goes(cluster.node_names.text(node)) => Intent::Moving,
                _ => Intent::AsSeen,
            }
        });
        let snapshot = self.lower_without(stay, before);
        // What is asked next is asked of the cluster as it is.
        self.set_intents(|_, _| Intent::AsSeen);
        snapshot
    }

    fn lower_without(&self, stay: &BTreeSet<String>, before: &Snapshot) -> Snapshot {
        let cluster = &self.cluster;
        let is_left = |node: &ResolvedNode| {
            cluster.machines.nodes.contains_key(&node.name) && stay.contains(&node.name)
        };
        let mut lowering = Lowering::new(cluster, Frame::default());
        lowering.lower_pools_and_types();
        let mut resolved = lowering.resolve_nodes(is_left);
        lowering.give_back_reservations(before, stay);
        lowering.use_up_commitments(&mut resolved);
        resolved.iter_mut().for_each(|node| node.accepts_pods = false);
        lowering.find_preferred_taints(&resolved);
        lowering.lower_what_pods_need();
        lowering.deduce_default_spread();
        let mut pending = Pending::default();
        for (row, pod) in cluster.pods.iter().filter(|(_, pod)| pod.intent == Intent::Moving) {
            lowering.lower_pending(row, pod, &mut pending);
        }
        let nodes = lowering.lower_nodes(resolved);
        lowering.frame.snapshot.with(nodes, pending.classes, pending.pods)
    }

    fn set_intents(&mut self, intent: impl Fn(&Cluster, &PodRecord) -> Intent) {
        let cluster = &mut self.cluster;
        let wanted = cluster.pods.iter().map(|(row, pod)| (row, intent(cluster, pod), pod.intent));
        let changes: Vec<(u32, Intent)> =
            wanted.filter(|(_, new, old)| new != old).map(|(row, new, _)| (row, new)).collect();
        for (row, intent) in changes {
            cluster.leave(row);
            if let Some(pod) = cluster.pods.get_mut(row) {
                pod.intent = intent;
            }
            cluster.enter(row);
        }
    }
}

impl Lowering<'_> {
    /// Units of a provider's reservations that nodes held which are given up can be had again.
    fn give_back_reservations(&mut self, before: &Snapshot, stay: &BTreeSet<String>) {
        let mut held: BTreeMap<&str, u32> = BTreeMap::new();
        for node in before.nodes.iter().filter(|node| !stay.contains(&*node.name)) {
            let Some((catalogue, offering)) = node.offering else { continue };
            let drawn = before.catalogues[catalogue.at()].offerings[offering.at()].reservation;
            if let Some(reservation) = drawn {
                *held.entry(&before.reservations[reservation.at()].id).or_default() += 1;
            }
        }
        for row in &mut self.frame.snapshot.reservations {
            if let Some(units) = held.get(&*row.id).filter(|_| !is_commitment(&row.id)) {
                row.capacity = row.capacity.saturating_add(*units);
            }
        }
    }
}
