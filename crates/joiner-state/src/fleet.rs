//! A cluster whose nodes may be taken away: the snapshot of what stands, with a class for every pod that would need another node.
//!
//! It is lowered apart from the snapshot that plans are made on: there the rules of pods that run bind nobody but those they select, and what only
//! they name is not asked of anybody. Here each of them may have to be placed.

use std::collections::BTreeMap;

use joiner_api::nodepool::ConsolidationPolicy;
use joiner_core::disrupt::{
    Block, Fleet, NodeFacts, Policy, PoolFacts, Resident, eviction_cost, rescheduling_cost,
};
use joiner_core::model::{PodIdx, ResVec};

use crate::cluster::Standing as PodStanding;
use crate::lower::{Frame, Lowering};
use crate::pods::Pending;
use crate::standing::{Standing, Stays};
use crate::topology::keys_named;

/// What a pool says for `consolidateAfter` to keep its nodes for good.
const NEVER: &str = "Never";

impl Standing {
    /// The cluster with its nodes as candidates. `holds` is what keeps nodes beside what follows from nodes and pools: by name.
    pub fn fleet(&self, holds: &BTreeMap<String, Vec<Block>>) -> Fleet {
        let cluster = &self.cluster;
        let mut lowering = Lowering::new(cluster, Frame::default());
        lowering.lower_pools_and_types();
        let mut resolved = lowering.resolve_nodes(|_| true);
        lowering.use_up_commitments(&mut resolved);
        lowering.find_preferred_taints(&resolved);
        lowering.lower_what_pods_need();
        // Every pod on a node may have to be placed: what its selectors name counts as if it waited.
        lowering.select_also(keys_named(cluster, |usage| usage.counted > 0));
        lowering.deduce_default_spread();
        let mut pending = Pending::default();
        let rows = cluster.pods.iter().filter(|(_, pod)| pod.counted().0 == PodStanding::Pending);
        rows.for_each(|(row, pod)| lowering.lower_pending(row, pod, &mut pending));
        let waiting = pending.pods.len();
        let mut facts = Vec::with_capacity(resolved.len());
        for node in &resolved {
            let first = pending.pods.len();
            for row in self.movable(&node.name) {
                if let Some(pod) = cluster.pods.get(row) {
                    lowering.lower_pending(row, pod, &mut pending);
                }
            }
            let residents = (first..pending.pods.len()).map(|at| Resident {
                pod: PodIdx::new(at),
                eviction_cost: eviction_cost(0.0, pending.classes[pending.pods[at].class.at()].priority),
            });
            let has_joined = cluster.machines.nodes.contains_key(&node.name);
            let mut blocks = Vec::new();
            match &node.pool {
                Some(pool) if lowering.frame.pool_index.contains_key(&**pool) => {
                    blocks.extend(self.blocks_of_pool(pool, first == pending.pods.len()));
                }
                _ => blocks.push(Block::NotManaged),
            }
            if !node.initialised || !has_joined {
                blocks.push(Block::NotInitialized);
            }
            if node.leaving || node.deleting {
                blocks.push(Block::Leaving);
            }
            blocks.extend(holds.get(&node.name).into_iter().flatten().cloned());
            facts.push(NodeFacts {
                residents: residents.collect(),
                blocks,
                counts: node.counts.as_ref().map_or_else(ResVec::new, |(_, amounts)| amounts.clone()),
                receives: node.accepts_pods && node.initialised && has_joined,
            });
        }
        let names: Vec<String> = resolved.iter().map(|node| node.name.clone()).collect();
        let nodes = lowering.lower_nodes(resolved);
        for ((name, node), facts) in names.iter().zip(&nodes).zip(&mut facts) {
            match self.stays(name, node.price_nano_usd.is_some()) {
                Some(Stays::UnknownPrice) => facts.blocks.push(Block::UnknownPrice),
                Some(Stays::ControlPlane) => facts.blocks.push(Block::ControlPlane),
                Some(Stays::Static) => facts.blocks.push(Block::StaticPool),
                None => {}
            }
        }
        let snapshot = lowering.frame.snapshot.with(nodes, pending.classes, pending.pods);
        let mut pools = vec![PoolFacts::default(); snapshot.pools.len()];
        for (pool, facts) in snapshot.pools.iter().zip(&mut pools) {
            facts.policy = self.policy(&pool.name);
        }
        for (node, facts) in snapshot.nodes.iter().zip(&facts) {
            if let Some(pool) = node.pool {
                let row = &mut pools[pool.at()];
                row.price_nano_usd = row.price_nano_usd.saturating_add(node.price_nano_usd.unwrap_or(0));
                row.disruption += rescheduling_cost(facts.residents.iter().map(|of| of.eviction_cost));
            }
        }
        Fleet { snapshot, waiting, nodes: facts, pools }
    }

    fn policy(&self, pool: &str) -> Policy {
        let policy = self.cluster.pools.get(pool).and_then(|pool| pool.spec.disruption.policy());
        match policy {
            Some(ConsolidationPolicy::WhenEmptyOrUnderutilized) => Policy::WhenEmptyOrUnderutilized,
            Some(ConsolidationPolicy::Balanced) => Policy::Balanced,
            // Who says something that nobody knows does not want more than that.
            Some(ConsolidationPolicy::WhenEmpty) | None => Policy::WhenEmpty,
        }
    }

    fn blocks_of_pool(&self, pool: &str, is_empty: bool) -> Vec<Block> {
        let mut blocks = Vec::new();
        let after =
            self.cluster.pools.get(pool).map(|pool| pool.spec.disruption.effective_consolidate_after());
        if after == Some(NEVER) {
            blocks.push(Block::Never);
        }
        if self.policy(pool) == Policy::WhenEmpty && !is_empty {
            blocks.push(Block::OnlyWhenEmpty);
        }
        blocks
    }
}
