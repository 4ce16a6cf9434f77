//! Nodes whose pods find room on others: one after the other, then all together as kube-scheduler would have it.

use super::search::Options;
use super::trial::{Base, Bench};
use super::verdict::Why;
use crate::model::ResVec;
use crate::model::ids::*;
use crate::model::resources::{fits, max_into};
use crate::pack::place::Preferences;
use crate::pack::scratch::NodeOrder;

/// The largest room is looked up again after so many deletes: it only shrinks.
const RENEWED_AFTER: usize = 128;

/// What came of trying to delete candidates.
#[derive(Debug, Default)]
pub(super) struct Deletes {
    /// The nodes that go, and where their pods are expected.
    pub base: Base,
    /// Why others do not.
    pub refused: Vec<(NodeIdx, Why)>,
    /// The first candidate that was not asked, if the work did not suffice.
    pub stopped_at: Option<usize>,
}

impl Bench<'_> {
    /// Deletes as many of the candidates, in their order, as have room elsewhere, and of these keeps what holds in kube-scheduler's order.
    pub fn delete_all(
        &mut self,
        candidates: &[NodeIdx],
        left: &mut [Option<u32>],
        options: &Options,
    ) -> Deletes {
        let mut deletes = Deletes::default();
        let before = self.scratch.mark();
        let found = self.deletable(candidates, left, options, &mut deletes);
        self.scratch.rollback(before);
        self.scratch.order_nodes(NodeOrder::Emptiest);
        self.keep_what_holds(&found, left, &mut deletes);
        self.scratch.order_nodes(NodeOrder::Ranked(self.setting.ranks.clone().into()));
        deletes
    }

    /// Whether a set can go in kube-scheduler's order; otherwise a pod that finds no place. Uses the bench up.
    pub fn hold_in_order(mut self, nodes: &[NodeIdx]) -> Result<(), PodIdx> {
        self.scratch.order_nodes(NodeOrder::Emptiest);
        let mut deletes = Deletes::default();
        let mut left = vec![None; self.setting.fleet.pools.len()];
        self.keep_what_holds(nodes, &mut left, &mut deletes);
        match deletes.refused.first() {
            Some((_, Why::OnlyInBestOrder { pod })) => Err(*pod),
            _ => Ok(()),
        }
    }

    /// The candidates that can go, each after those before it.
    fn deletable(
        &mut self,
        candidates: &[NodeIdx],
        left: &mut [Option<u32>],
        options: &Options,
        deletes: &mut Deletes,
    ) -> Vec<NodeIdx> {
        let setting = self.setting;
        let mut found = Vec::new();
        let mut largest = self.largest_room();
        let until = self.scratch.work.saturating_add(options.work);
        for (at, node) in candidates.iter().enumerate() {
            if self.scratch.work > until {
                deletes.stopped_at = Some(at);
                deletes.refused.extend(candidates[at..].iter().map(|node| (*node, Why::NotReached)));
                break;
            }
            let pool = setting.fleet.snapshot.nodes[node.at()].pool;
            let budget = pool.map(|pool| &mut left[pool.at()]);
            if matches!(budget, Some(Some(0))) {
                deletes.refused.push((*node, Why::Budget));
                continue;
            }
            let residents = &setting.fleet.nodes[node.at()].residents;
            let requests = |pod: PodIdx| {
                &setting.fleet.snapshot.classes[setting.fleet.snapshot.pods[pod.at()].class.at()].requests
            };
            let too_large =
                residents.iter().map(|resident| resident.pod).find(|pod| !fits(requests(*pod), &largest));
            let refusal = match too_large {
                Some(pod) => Some(pod),
                None => {
                    let mark = self.scratch.mark();
                    let mut pods = self.take(&[*node]);
                    pods.sort_unstable_by_key(|pod| setting.turn[pod.at()]);
                    let without = self.place_on_nodes(&pods, Preferences::Kept).err();
                    match without {
                        Some(_) => self.scratch.rollback(mark),
                        None => self.scratch.keep(mark),
                    }
                    without
                }
            };
            match refusal {
                Some(pod) => deletes.refused.push((*node, Why::NotCheaper { pod })),
                None => {
                    found.push(*node);
                    if let Some(Some(budget)) = budget {
                        *budget -= 1;
                    }
                    if found.len() % RENEWED_AFTER == 0 {
                        largest = self.largest_room();
                    }
                }
            }
        }
        found
    }

    /// Goes through the same deletes once more: all their nodes are closed at once, as their taints will close them, and every pod goes where
    /// kube-scheduler would put it, whoever comes after it. A node whose pods do not all find a place stays.
    fn keep_what_holds(&mut self, found: &[NodeIdx], left: &mut [Option<u32>], deletes: &mut Deletes) {
        let setting = self.setting;
        for node in found {
            self.scratch.close_node(*node, true);
        }
        let mut reopened = Vec::new();
        for node in found {
            let mark = self.scratch.mark();
            let pods = self.take(&[*node]);
            match self.place_on_nodes(&pods, Preferences::Ignored) {
                Ok(put) => {
                    self.scratch.keep(mark);
                    deletes.base.taken.push(*node);
                    deletes.base.put.extend(put);
                }
                Err(pod) => {
                    self.scratch.rollback(mark);
                    deletes.refused.push((*node, Why::OnlyInBestOrder { pod }));
                    reopened.push(*node);
                    let pool = setting.fleet.snapshot.nodes[node.at()].pool;
                    if let Some(Some(budget)) = pool.map(|pool| &mut left[pool.at()]) {
                        *budget += 1;
                    }
                }
            }
        }
        for node in reopened {
            self.scratch.close_node(node, !setting.fleet.nodes[node.at()].receives);
        }
    }

    /// Places pods on nodes, in their order; otherwise the first that finds no place.
    fn place_on_nodes(
        &mut self,
        pods: &[PodIdx],
        preferences: Preferences,
    ) -> Result<Vec<(PodIdx, NodeIdx)>, PodIdx> {
        let mut put = Vec::with_capacity(pods.len());
        let mut waiting = pods.to_vec();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for pod in &waiting {
                match self.scratch.place_on_node(*pod, preferences) {
                    Some((node, _)) => put.push((*pod, node)),
                    None if self.waits_for_company(*pod) => later.push(*pod),
                    None => return Err(*pod),
                }
            }
            if later.len() == before {
                return Err(later[0]);
            }
            waiting = later;
        }
        Ok(put)
    }

    /// Whether a pod that finds no place may find one once others are placed.
    fn waits_for_company(&self, pod: PodIdx) -> bool {
        let snapshot = &self.setting.fleet.snapshot;
        let class = &snapshot.classes[snapshot.pods[pod.at()].class.at()];
        class.rungs.last().is_some_and(|rung| !rung.groups.is_empty())
    }

    /// Lane by lane the most that some node has left.
    fn largest_room(&self) -> ResVec {
        let mut largest = ResVec::new();
        for (at, room) in self.scratch.room.iter().enumerate() {
            if !self.scratch.taken[at] && self.setting.fleet.nodes[at].receives {
                max_into(&mut largest, room);
            }
        }
        largest
    }
}
