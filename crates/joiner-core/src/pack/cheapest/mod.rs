//! The cheapest packing: the original's result, divided over machines anew.
//!
//! [`task`] cuts the question out of a finished run, [`bins`] lists the machines worth considering, [`filling`] says what goes onto one,
//! [`buying`] buys machine after machine by worth per dollar and learns what pods are worth, [`mending`] takes some back and tries again,
//! [`exact`] solves what is small enough, [`settle`] turns the result into machines of the run. What is not cheaper than the
//! original's result is dropped, so the plan is never dearer, and never refuses a pod that the original places.

mod bins;
mod buying;
mod charge;
mod exact;
mod filling;
mod mending;
mod settle;
mod task;

use crate::model::ids::{MachineIdx, PodIdx};
use crate::offer_set;
use crate::pack::scratch::{Machine, Scratch, Spot};
use crate::pack::upstream::Outcome;
use bins::Bins;
use buying::{Bought, LimitsLeft};
use filling::{Filler, Stock};
use task::Task;

pub(crate) use charge::charge_of;

/// More nodes than this multiple of the original's are too many, unless the charge per node was given.
const MOST_NODES: f64 = 2.5;
/// How often the charge is raised when there are too many nodes, and by how much.
const RAISES: usize = 3;
const RAISE: f64 = 4.0;

/// The share of the work that goes into rounds of buying; the rest is for mending.
const BUYING: f64 = 0.6;

/// Replaces the machines of a run by cheaper ones where there are any. Says whether it did.
pub(crate) fn improve(scratch: &mut Scratch, outcome: &mut Outcome, order: &[PodIdx]) -> bool {
    let task = Task::new(scratch, outcome, order);
    if task.kinds.is_empty() {
        return false;
    }
    let given = scratch.options.node_charge_nano_usd.is_some();
    let mut charge = charge_of(scratch.snapshot, scratch.options);
    let old = (price(scratch, &scratch.machines), scratch.machines.len());
    let most = if given { usize::MAX } else { (old.1 as f64 * MOST_NODES) as usize };
    for raise in 0..=RAISES {
        let Some(machines) = repack(scratch, &task, charge, most) else { return false };
        let new = (price(scratch, &machines), machines.len());
        if new.1 > most && raise < RAISES {
            charge *= RAISE;
            continue;
        }
        let cost = |(price, machines): (i64, usize)| price as f64 + charge * machines as f64;
        if new.0 > old.0 || cost(new) >= cost(old) {
            return false;
        }
        for (at, machine) in machines.iter().enumerate() {
            for pod in &machine.pods {
                if let Some((spot, _)) = &mut outcome.placed[pod.at()] {
                    *spot = Spot::Machine(MachineIdx::new(at));
                }
            }
        }
        scratch.machines = machines;
        return true;
    }
    false
}

/// All machines of the run, divided anew at a charge per node, a handful of pods over `most` machines at most; `None` if that can't be
/// done within the limits.
fn repack(scratch: &mut Scratch, task: &Task, charge: f64, most: usize) -> Option<Vec<Machine>> {
    let bins = Bins::new(scratch, task, charge);
    let mut filler = Filler::new(task, &bins, buying::first_worths(task, &bins));
    let frozen: Vec<Machine> = task.frozen.iter().map(|at| scratch.machines[*at].clone()).collect();
    let limits = limits_left(scratch, &frozen);
    let bought = match exact::best(&mut filler, scratch, most.saturating_sub(frozen.len())) {
        Some(bought) if keeps(&limits, &bins, &bought) => bought,
        _ => search(scratch, task, &mut filler, limits)?,
    };
    let machines = settle::settle(&mut filler, scratch, &bought, &frozen)?;
    scratch.work += filler.work;
    Some(frozen.into_iter().chain(machines).collect())
}

/// Rounds of buying, then mending, until the work is used up.
fn search(
    scratch: &mut Scratch,
    task: &Task,
    filler: &mut Filler,
    limits: LimitsLeft,
) -> Option<Vec<Bought>> {
    let all = Stock::all(task);
    let budget = scratch.options.packing_work.of(all.items);
    let mut best: Option<(Vec<Bought>, LimitsLeft, Vec<f64>)> = None;
    let mut failures = 0;
    while best.is_none() || filler.work < (budget as f64 * BUYING) as u64 {
        let mut left = limits.clone();
        let candidates = 0..filler.bins.bins.len();
        let worth = filler.worth.clone();
        let Some(bought) = buying::buy(filler, scratch, &mut all.clone(), &mut left, candidates) else {
            failures += 1;
            // With other worths the limits may be used better, but hardly after a few attempts.
            if failures > 2 || best.is_some() {
                break;
            }
            filler.worth.iter_mut().enumerate().for_each(|(at, worth)| *worth *= 1.0 + (at % 3) as f64 * 0.1);
            continue;
        };
        buying::learn(filler, &bought);
        let cost = |bought: &[Bought]| buying::cost(filler.bins, bought);
        if best.as_ref().is_none_or(|(known, _, _)| mending::cheaper(cost(&bought), cost(known))) {
            best = Some((bought, left, worth));
        }
    }
    let (mut bought, mut left, worth) = best?;
    filler.worth = worth;
    mending::mend(filler, scratch, &mut bought, &mut left, budget);
    Some(bought)
}

/// What is left of the limits for machines that are divided anew.
fn limits_left(scratch: &Scratch, frozen: &[Machine]) -> LimitsLeft {
    let pools = scratch.snapshot.pools.iter().enumerate();
    pools
        .map(|(at, pool)| {
            let held = frozen.iter().filter(|machine| machine.pool.at() == at);
            let held: Vec<_> =
                held.map(|machine| scratch.largest_capacity(machine.pool, &machine.offers)).collect();
            let limits = pool.limits.iter().map(|limit| {
                let left = limit.most.saturating_sub(limit.used);
                held.iter().fold(left, |left, capacity| {
                    let by = limit.lane.map_or(1, |lane| crate::model::resources::lane_of(capacity, lane));
                    left.saturating_sub(by)
                })
            });
            limits.collect()
        })
        .collect()
}

/// Whether machines keep the limits.
fn keeps(limits: &LimitsLeft, bins: &Bins, bought: &[Bought]) -> bool {
    let mut left = limits.clone();
    for one in bought {
        let bin = &bins.bins[one.bin];
        for (left, one) in left[bin.pool.at()].iter_mut().zip(&bin.counts_as) {
            *left = left.saturating_sub(*one);
        }
    }
    left.iter().flatten().all(|left| *left >= 0)
}

/// What machines cost at their cheapest, without charges.
pub(crate) fn price(scratch: &Scratch, machines: &[Machine]) -> i64 {
    let one = |machine: &Machine| {
        let catalogue =
            &scratch.snapshot.catalogues[scratch.snapshot.pools[machine.pool.at()].catalogue.at()];
        offer_set::first(&machine.offers).map_or(0, |at| catalogue.offerings[at].price_nano_usd)
    };
    machines.iter().fold(0i64, |sum, machine| sum.saturating_add(one(machine)))
}

/// Holds machines that stayed as the original's strategy made them to the same lists of types as the others. What holds a reservation launches into it.
pub(crate) fn shorten_lists(scratch: &mut Scratch) {
    for at in 0..scratch.machines.len() {
        if scratch.machines[at].reservations.is_empty() {
            let machine = &scratch.machines[at];
            let kept = settle::interchangeable(scratch, machine, &machine.offers);
            scratch.machines[at].offers = kept.into();
        }
    }
}
