//! Trying a set of nodes: take them, place their pods, read the bill.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::balanced::{self, Share};
use super::price::{CapacityType, Choice, cheaper_than, worst_launch_price};
use super::search::Options;
use super::verdict::Why;
use super::{Fleet, Policy, rescheduling_cost};
use crate::decide::MinValuesPolicy;
use crate::model::ids::*;
use crate::offer_set::{self, OfferSet};
use crate::pack::cheapest;
use crate::pack::prepared::Prepared;
use crate::pack::scratch::{Machine, NodeOrder, Scratch, Spot};
use crate::pack::upstream::Outcome;
use crate::plan;

/// Fewer nodes than this are not packed a second time for a cheaper division where there are many pods: those of few nodes go onto one machine or
/// two.
const DIVIDED_FROM: usize = 4;
/// So many pods are many.
const MANY_PODS: usize = 2_000;
/// A spot machine is replaced by another only if that many types would do: otherwise it soon ends where it is called back from.
const SPOT_TYPES: usize = 15;

/// A pod, where it went, and in which step of its ladder.
type Placed = (PodIdx, (Spot, usize));

/// What trials share: never changed by them.
#[derive(Debug)]
pub(super) struct Setting<'s> {
    pub fleet: &'s Fleet,
    pub prepared: &'s Prepared,
    pub options: &'s Options,
    /// By pod: its turn in the queue.
    pub turn: Vec<u32>,
    /// Nano-dollars per hour and node beyond its price.
    pub charge: f64,
    /// By node, for the order in which nodes are tried: what is to stay comes first.
    pub ranks: Vec<u32>,
}

/// What was decided already and every trial begins with.
#[derive(Debug, Clone, Default)]
pub(super) struct Base {
    pub taken: Vec<NodeIdx>,
    pub put: Vec<(PodIdx, NodeIdx)>,
}

impl Base {
    /// What was decided on top of it: pods that were put somewhere before may be elsewhere now.
    pub fn move_on(&mut self, further: &Base) {
        let again: BTreeSet<PodIdx> = further.put.iter().map(|(pod, _)| *pod).collect();
        self.put.retain(|(pod, _)| !again.contains(pod));
        self.put.extend(&further.put);
        self.taken.extend(&further.taken);
    }
}

/// A scratch to try on.
pub(super) struct Bench<'s> {
    pub setting: &'s Setting<'s>,
    pub scratch: Scratch<'s>,
}

/// What taking a set brings.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trial {
    /// Machines to launch.
    pub machines: usize,
    /// Pods that move.
    pub pods: usize,
    /// What the machines cost, nano-dollars per hour.
    pub price_nano_usd: i64,
    /// What is saved of the price.
    pub saving_nano_usd: i64,
    /// What is saved with the charge per node.
    pub worth_it: f64,
}

/// Why a set is not taken, and the price of its machines if it came to that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Refusal {
    pub why: Why,
    pub price_nano_usd: Option<i64>,
}

impl From<Why> for Refusal {
    fn from(why: Why) -> Self {
        Self { why, price_nano_usd: None }
    }
}

impl<'s> Bench<'s> {
    /// A scratch in which a base is given.
    pub fn new(setting: &'s Setting<'s>, base: &Base) -> Self {
        let mut scratch = Scratch::new(&setting.fleet.snapshot, setting.prepared, &setting.options.decide);
        for (at, facts) in setting.fleet.nodes.iter().enumerate() {
            if !facts.receives {
                scratch.close_node(NodeIdx::new(at), true);
            }
        }
        scratch.order_nodes(NodeOrder::Ranked(setting.ranks.clone().into()));
        for node in &base.taken {
            scratch.take_node(*node, &setting.fleet.nodes[node.at()].counts);
        }
        for (pod, node) in &base.put {
            scratch.put_on_node(*pod, *node);
        }
        Self { setting, scratch }
    }

    /// What taking a set would bring; nothing of it stays.
    pub fn attempt(&mut self, nodes: &[NodeIdx]) -> Result<Trial, Refusal> {
        let mark = self.scratch.mark();
        let trial = self.apply(nodes);
        self.scratch.rollback(mark);
        trial
    }

    /// Takes a set and places its pods, on nodes or new machines. What is refused has to be rolled back.
    pub fn apply(&mut self, nodes: &[NodeIdx]) -> Result<Trial, Refusal> {
        let setting = self.setting;
        let mut pods = self.take(nodes);
        pods.sort_unstable_by_key(|pod| setting.turn[pod.at()]);
        let placed = self.place(&pods)?;
        let machines = self.scratch.machines.len();
        let few = setting.fleet.snapshot.pods.len() <= MANY_PODS;
        if machines > 0 && (machines > 1 || nodes.len() >= DIVIDED_FROM || few) {
            let mut outcome = Outcome {
                placed: vec![None; setting.fleet.snapshot.pods.len()],
                failed: Vec::new(),
                held_back: false,
            };
            for (pod, spot) in &placed {
                outcome.placed[pod.at()] = Some(*spot);
            }
            cheapest::improve(&mut self.scratch, &mut outcome, &pods);
        }
        self.judge(nodes, pods.len())
    }

    /// Takes nodes. Returns all pods that need another place.
    pub fn take(&mut self, nodes: &[NodeIdx]) -> Vec<PodIdx> {
        let mut pods = Vec::new();
        for node in nodes {
            let facts = &self.setting.fleet.nodes[node.at()];
            pods.extend(self.scratch.take_node(*node, &facts.counts));
            pods.extend(facts.residents.iter().map(|resident| resident.pod));
        }
        pods
    }

    /// Places pods in turns until none is left: the company that one waits for may come after it.
    fn place(&mut self, pods: &[PodIdx]) -> Result<Vec<Placed>, Refusal> {
        let mut placed = Vec::with_capacity(pods.len());
        let mut waiting = pods.to_vec();
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain(|pod| match self.scratch.place(*pod) {
                Ok(spot) => {
                    placed.push((*pod, spot));
                    false
                }
                Err(_) => true,
            });
            if waiting.len() == before {
                return Err(Why::NoPlace { pod: waiting[0] }.into());
            }
        }
        Ok(placed)
    }

    /// Whether what a set has come to is worth doing.
    fn judge(&mut self, nodes: &[NodeIdx], pods: usize) -> Result<Trial, Refusal> {
        let old = self.price(nodes);
        let machines = self.scratch.machines.len();
        let price = plan::machines_nano_usd(&self.scratch, &self.scratch.machines);
        let refuse = |why: Why| Refusal { why, price_nano_usd: Some(price) };
        let first = self.scratch.machines.first().and_then(|machine| machine.pods.first()).copied();
        let saving = old.saturating_sub(price);
        let worth_it = saving as f64 + self.setting.charge * (nodes.len() as f64 - machines as f64);
        if let Some(pod) = first {
            let least = self.setting.options.least_saving_nano_usd.max(1);
            if saving < least || worth_it <= 0.0 || self.cheaper_lists(old).is_none() {
                return Err(refuse(Why::NotCheaper { pod }));
            }
            if !self.scratch.newly_opened().is_empty() {
                return Err(refuse(Why::OpensDomain));
            }
            if self.is_spot_for_spot(nodes) {
                return Err(refuse(Why::SpotToSpot));
            }
        }
        if let Some(score) = self.disapproval(nodes, saving) {
            return Err(refuse(Why::NotBalanced { score }));
        }
        Ok(Trial { machines, pods, price_nano_usd: price, saving_nano_usd: saving, worth_it })
    }

    /// What nodes cost, nano-dollars per hour.
    pub fn price(&self, nodes: &[NodeIdx]) -> i64 {
        let snapshot = &self.setting.fleet.snapshot;
        nodes
            .iter()
            .map(|node| snapshot.nodes[node.at()].price_nano_usd.unwrap_or(0))
            .fold(0, i64::saturating_add)
    }

    /// The score that is too low, if the policy `Balanced` of a pool turns a set down.
    fn disapproval(&self, nodes: &[NodeIdx], saving: i64) -> Option<f64> {
        let fleet = self.setting.fleet;
        let mut pools: SmallVec<[PoolIdx; 4]> =
            nodes.iter().filter_map(|node| fleet.snapshot.nodes[node.at()].pool).collect();
        pools.sort_unstable();
        pools.dedup();
        if !pools.iter().any(|pool| fleet.pools[pool.at()].policy == Policy::Balanced) {
            return None;
        }
        let share = |pool: &PoolIdx| {
            let facts = &fleet.pools[pool.at()];
            let own = nodes.iter().filter(|node| fleet.snapshot.nodes[node.at()].pool == Some(*pool));
            let own: Vec<NodeIdx> = own.copied().collect();
            Share {
                balanced: facts.policy == Policy::Balanced,
                price: self.price(&own) as f64,
                disruption: own.iter().map(|node| cost_of(fleet, *node)).sum(),
                pool_price: facts.price_nano_usd as f64,
                pool_disruption: facts.disruption,
            }
        };
        let shares: Vec<Share> = pools.iter().map(share).collect();
        let approval = balanced::approves(&shares, saving as f64);
        let lowest = approval.scores.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        (!approval.approved).then_some(lowest)
    }

    /// Whether spot machines would make room for others, against the options.
    fn is_spot_for_spot(&self, nodes: &[NodeIdx]) -> bool {
        let fleet = self.setting.fleet;
        let is_spot =
            |node: &NodeIdx| fleet.snapshot.nodes[node.at()].shown.capacity_type.as_deref() == Some("spot");
        if !nodes.iter().all(is_spot) {
            return false;
        }
        let launches_spot = |machine: &Machine| {
            let cheapest = offer_set::first(&machine.offers);
            cheapest.is_some_and(|at| self.sold(machine.pool, at).capacity_type == CapacityType::Spot)
        };
        if !self.scratch.machines.iter().any(launches_spot) {
            return false;
        }
        let types = |machine: &Machine| self.worst_by_type(machine).len();
        let enough =
            nodes.len() > 1 || self.scratch.machines.iter().all(|machine| types(machine) >= SPOT_TYPES);
        !self.setting.options.spot_to_spot || !enough
    }

    fn sold(&self, pool: PoolIdx, offering: usize) -> Choice {
        let snapshot = &self.setting.fleet.snapshot;
        let row = &snapshot.catalogues[snapshot.pools[pool.at()].catalogue.at()].offerings[offering];
        let names = &snapshot.vocabulary.names;
        let is_spot = names
            .known_key("karpenter.sh/capacity-type")
            .zip(row.capacity_type)
            .is_some_and(|(key, value)| names.value_text(key, value) == "spot");
        let reserved = row.reservation.is_some_and(|r| !snapshot.reservations[r.at()].commitment);
        let capacity_type = match (reserved, is_spot) {
            (true, _) => CapacityType::Reserved,
            (false, true) => CapacityType::Spot,
            (false, false) => CapacityType::OnDemand,
        };
        Choice { capacity_type, price_nano_usd: row.price_nano_usd }
    }

    /// What launching each type of a machine's list costs at worst.
    fn worst_by_type(&self, machine: &Machine) -> Vec<(TypeIdx, i64)> {
        let snapshot = &self.setting.fleet.snapshot;
        let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
        let held = |at: &usize| {
            machine.reservations.is_empty()
                || catalogue.offerings[*at].reservation.is_some_and(|r| machine.reservations.contains(&r))
        };
        let rows = offer_set::iter(&machine.offers).filter(held);
        let mut sold: Vec<(TypeIdx, Choice)> =
            rows.map(|at| (catalogue.offerings[at].instance_type, self.sold(machine.pool, at))).collect();
        sold.sort_by_key(|(of, _)| *of);
        let types = sold.chunk_by(|a, b| a.0 == b.0);
        types
            .filter_map(|rows| Some((rows[0].0, worst_launch_price(rows.iter().map(|(_, choice)| *choice))?)))
            .collect()
    }

    /// For every machine what its list comes down to so that all together cost less than the nodes they replace, whichever types are launched.
    /// `None` if that cannot be had, or leaves too few values where a pool asks for several.
    fn cheaper_lists(&self, old: i64) -> Option<Vec<OfferSet>> {
        let worsts: Vec<Vec<(TypeIdx, i64)>> =
            self.scratch.machines.iter().map(|machine| self.worst_by_type(machine)).collect();
        let least: Vec<i64> =
            worsts.iter().map(|types| types.iter().map(|(_, worst)| *worst).min()).collect::<Option<_>>()?;
        let all = least.iter().copied().fold(0, i64::saturating_add);
        let spare = old.saturating_sub(all);
        if spare <= 0 {
            return None;
        }
        let share = |least: i64| (i128::from(spare) * i128::from(least) / i128::from(all.max(1))) as i64;
        let machines = self.scratch.machines.iter().zip(&worsts).zip(least);
        let lists = machines.map(|((machine, types), least)| {
            // Strictly below its part of what is replaced, but never without its cheapest type.
            let bound = least.saturating_add(share(least).max(1));
            let rated: Vec<(TypeIdx, Option<i64>)> =
                types.iter().map(|(of, worst)| (*of, Some(*worst))).collect();
            self.only_types(machine, &cheaper_than(&rated, bound))
        });
        lists.collect()
    }

    /// A machine's list without the types that are not among the given; `None` if that leaves too few values.
    fn only_types(&self, machine: &Machine, types: &[TypeIdx]) -> Option<OfferSet> {
        let snapshot = &self.setting.fleet.snapshot;
        let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
        let mut offers = machine.offers.to_vec();
        for offering in offer_set::iter(&machine.offers) {
            if types.binary_search(&catalogue.offerings[offering].instance_type).is_err() {
                offers[offering / 64] &= !(1 << (offering % 64));
            }
        }
        let strict = self.setting.options.decide.min_values == MinValuesPolicy::Strict;
        let enough = !strict
            || self.scratch.templates[machine.pool.at()].min_values.iter().all(|key| {
                let (have, need) =
                    self.scratch.distinct_values(machine.pool, machine.requirements, &offers, *key);
                have >= need
            });
        enough.then(|| offers.into())
    }

    /// Takes types from the machines' lists that would cost more than what they replace.
    pub fn keep_cheaper(&mut self, nodes: &[NodeIdx]) {
        let lists = self.cheaper_lists(self.price(nodes));
        for (at, offers) in lists.into_iter().flatten().enumerate() {
            self.scratch.change_machine(MachineIdx::new(at), |machine| machine.offers = offers);
        }
    }
}

/// A node's disruption cost.
pub(super) fn cost_of(fleet: &Fleet, node: NodeIdx) -> f64 {
    rescheduling_cost(fleet.nodes[node.at()].residents.iter().map(|resident| resident.eviction_cost))
}
