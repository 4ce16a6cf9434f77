//! The question a cheapest packing answers, cut out of a finished run of the original's strategy.
//!
//! That run has decided everything that concerns more than one machine: which pods go onto nodes that are there, which preferences
//! are given up, and which zone (or other topology value) a pod goes to where that matters to spread, affinity or anti-affinity.
//! These answers are kept: pods are pinned to the values they were counted at, so every count stays as it was ([`super::roving`] says who may
//! move all the same). What remains is to divide the pods of new machines over machines anew, and there only rules *within* a machine matter: room, requirements that must
//! hold together, host ports, volumes, and how many pods of a group may share a host.
//!
//! Pods alike in all of this are one [`Kind`]; kinds alike in size and in the machines they may use are one [`Shape`].

use smallvec::SmallVec;

use super::in_force::InForce;
use super::items::Item;
use super::roving::{Rover, Rule};
use crate::algebra::MachineValue;
use crate::model::Port;
use crate::model::ids::*;
use crate::model::resources::lane_of;
use crate::pack::scratch::Scratch;
use crate::pack::upstream::Outcome;

/// With more items than this every zone is as good as the other: there are enough to fill machines anywhere.
const MOST_ROVING: usize = 2_500;

/// Which machines pods may use, apart from their size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Access {
    /// Asks that all must be met.
    pub asks: SmallVec<[ReqId; 2]>,
    /// Taints must be tolerated by all of these; the flag says that PreferNoSchedule does not count.
    pub tolerations: SmallVec<[(TolerationsId, bool); 1]>,
    /// Only pools of this weight; `None`: see [`Weights::Free`].
    pub weight: Option<i32>,
    /// Only pools whose machines all have this value of a label of one's own, or all lack it: labels by which pods keep together or
    /// apart.
    pub settled: SmallVec<[(KeyId, Option<ValueId>); 1]>,
}

/// How much of the first pass' choice of pools is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    /// Every pod comes to a pool of the weight it had.
    Kept,
    /// Heavier pools are used as far as their limits go, for whichever pods.
    Free,
}

/// Pods (or sets of pods that must stay together) alike in everything that matters here.
#[derive(Debug)]
pub(super) struct Kind {
    pub shape: u32,
    /// How many of each host-level group one of them adds to a host.
    pub counted: Vec<(u32, u32)>,
    /// How many of a group may be on the host where one of them is.
    pub caps: Vec<(u32, u32)>,
    pub ports: Vec<Port>,
    /// How many the first pass made of it.
    pub count: u32,
    /// Where its pods come from, see [`Task::sets`].
    pub set: u32,
}

/// Kinds of one size that may use the same machines.
#[derive(Debug)]
pub(super) struct Shape {
    pub access: u32,
    pub requests: Box<[i64]>,
    /// Groups of which it shares a machine with nobody.
    pub exclusive: Vec<u32>,
    pub kinds: Vec<u32>,
    pub count: u32,
}

/// The pods to divide anew.
#[derive(Debug)]
pub(super) struct Task {
    pub accesses: Vec<Access>,
    pub shapes: Vec<Shape>,
    pub kinds: Vec<Kind>,
    /// The pods of kinds, in queue order; each entry stays together. Kinds between which pods may move have one set.
    pub sets: Vec<Vec<SmallVec<[PodIdx; 1]>>>,
    /// Pods that may change their zone.
    pub rovers: Vec<Rover>,
    /// What holds them back, with the numbers of the first pass.
    pub rules: Vec<Rule>,
    /// Volume drivers that some type limits: lanes after those of resources.
    pub drivers: Vec<Box<str>>,
    /// Resource lanes before those of drivers.
    pub resource_lanes: usize,
    /// Machines of the run that stay as they are.
    pub frozen: Vec<usize>,
    pub weights: Weights,
    /// Which rules bind the pods.
    pub in_force: InForce,
}

impl Task {
    /// Cuts the question out of a run. Machines of the pools that are `kept` stay as they are.
    pub fn new(
        scratch: &mut Scratch,
        outcome: &Outcome,
        order: &[PodIdx],
        weights: Weights,
        kept: &dyn Fn(PoolIdx) -> bool,
    ) -> Self {
        let mut drivers: Vec<Box<str>> = scratch
            .snapshot
            .catalogues
            .iter()
            .flat_map(|catalogue| &catalogue.types)
            .flat_map(|instance_type| instance_type.volume_limits.iter().map(|(driver, _)| driver.clone()))
            .collect();
        drivers.sort_unstable();
        drivers.dedup();
        let mut task = Self {
            accesses: Vec::new(),
            shapes: Vec::new(),
            kinds: Vec::new(),
            sets: Vec::new(),
            rovers: Vec::new(),
            rules: Vec::new(),
            drivers,
            resource_lanes: scratch.algebra.names().lane_count(),
            frozen: Vec::new(),
            weights,
            in_force: InForce::new(scratch, outcome),
        };
        let mut turn = vec![u32::MAX; scratch.snapshot.pods.len()];
        for (at, pod) in order.iter().enumerate() {
            turn[pod.at()] = at as u32;
        }
        let mut items: Vec<Item> = Vec::new();
        for at in 0..scratch.machines.len() {
            let found = match kept(scratch.machines[at].pool) {
                true => None,
                false => task.items_of(scratch, outcome, at),
            };
            match found {
                Some(found) => items.extend(found),
                None => task.frozen.push(at),
            }
        }
        items.sort_by_key(|item| item.pods.iter().map(|pod| turn[pod.at()]).min());
        if items.len() > MOST_ROVING {
            items.iter_mut().for_each(|item| item.range = None);
        }
        task.sort_into_kinds(scratch, items);
        task
    }

    /// All lanes.
    pub fn lanes(&self) -> usize {
        self.resource_lanes + self.drivers.len()
    }

    /// What one item of a kind takes of a lane.
    pub fn request(&self, shape: u32, lane: usize) -> i64 {
        lane_of(&self.shapes[shape as usize].requests, lane)
    }
}

/// The value of a label that all machines of a pool have, or that they lack it; `None` where machines of the pool may differ.
pub(super) fn settled_value(scratch: &Scratch, pool: PoolIdx, key: KeyId) -> Option<Option<ValueId>> {
    let template = scratch.templates[pool.at()].requirements;
    match scratch.algebra.machine_value(template, key) {
        MachineValue::Missing => Some(None),
        MachineValue::Open => None,
        MachineValue::Defined(requirement) => requirement.single().map(Some),
    }
}
