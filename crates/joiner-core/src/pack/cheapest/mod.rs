//! The cheapest packing: the original's result, divided over machines anew.
//!
//! [`task`] cuts the question out of a finished run, [`bins`] lists the machines worth considering, [`filling`] says what goes onto one,
//! [`buying`] buys machine after machine by worth per dollar and learns what pods are worth, [`mending`] takes some back and tries again,
//! [`exact`] solves what is small enough, [`settle`] turns the result into machines of the run. What is not cheaper than the
//! original's result is dropped, so the plan is never dearer, and never refuses a pod that the original places.

mod bins;
mod budget;
mod buying;
mod charge;
mod exact;
mod filling;
mod mending;
mod settle;
mod task;

use crate::model::ids::{MachineIdx, PodIdx};
use crate::pack::scratch::{Machine, Scratch, Spot};
use crate::pack::upstream::Outcome;
use crate::plan;
use bins::Bins;
use budget::Budget;
use buying::Bought;
use filling::{Filler, Stock};
use task::Task;

pub(crate) use charge::charge_of;

/// More nodes than this multiple of the original's are too many, unless the charge per node was given.
const MOST_NODES: f64 = 2.5;
/// How often the charge is raised when there are too many nodes, and by how much.
const RAISES: usize = 3;
const RAISE: f64 = 4.0;

/// Rounds of buying without success after which nothing more is expected.
const PATIENCE: usize = 16;
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
    let old = plan::bill(scratch, &scratch.machines);
    if !given {
        // A first look is enough to see where the number of nodes is going.
        for _ in 0..RAISES {
            let Some(looked) = repack(scratch, &task, charge, 0.0) else { break };
            if looked.len() as f64 <= old.machines as f64 * MOST_NODES {
                break;
            }
            charge *= RAISE;
        }
    }
    let Some(machines) = repack(scratch, &task, charge, 1.0) else { return false };
    let new = plan::bill(scratch, &machines);
    if new.price_nano_usd > old.price_nano_usd || new.cost(charge) >= old.cost(charge) {
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
    true
}

/// All machines of the run, divided anew at a charge per node, with a share of the work; `None` if that can't be done within the
/// limits.
fn repack(scratch: &mut Scratch, task: &Task, charge: f64, effort: f64) -> Option<Vec<Machine>> {
    let bins = Bins::new(scratch, task, charge);
    let mut filler = Filler::new(task, &bins, buying::first_worths(task, &bins));
    let frozen: Vec<Machine> = task.frozen.iter().map(|at| scratch.machines[*at].clone()).collect();
    let budget = Budget::beside(scratch, &frozen);
    let bought = match exact::best(&mut filler, scratch) {
        Some(bought) if budget.covers(bought.iter().map(|one| &bins.bins[one.bin])) => bought,
        _ => search(scratch, task, &mut filler, budget, effort)?,
    };
    let machines = settle::settle(&mut filler, scratch, &bought, &frozen)?;
    scratch.work += filler.work;
    Some(frozen.into_iter().chain(machines).collect())
}

/// Rounds of buying, then mending, until the work is used up or nothing more comes of it.
fn search(
    scratch: &mut Scratch,
    task: &Task,
    filler: &mut Filler,
    budget: Budget,
    effort: f64,
) -> Option<Vec<Bought>> {
    let all = Stock::all(task);
    let work = scratch.options.packing_work.times(effort).of(all.items);
    let mut best: Option<(Vec<Bought>, Budget, Vec<f64>)> = None;
    let mut in_vain = 0;
    for round in 0.. {
        if round > 0 && (in_vain >= PATIENCE || filler.work as f64 >= work as f64 * BUYING) {
            break;
        }
        in_vain += 1;
        filler.measures = if round % 2 == 0 { filling::THOROUGH } else { filling::QUICK };
        let (worth, mut left) = (filler.worth.clone(), budget.clone());
        let candidates = 0..filler.bins.bins.len();
        let Some(bought) = buying::buy(filler, scratch, &mut all.clone(), &mut left, candidates) else {
            // The limits leave something over; with other worths they hardly will not.
            break;
        };
        buying::learn(filler, &bought);
        let cost = |bought: &[Bought]| buying::cost(filler.bins, bought);
        if best.as_ref().is_none_or(|(known, _, _)| mending::cheaper(cost(&bought), cost(known))) {
            best = Some((bought, left, worth));
            in_vain = 0;
        }
    }
    let (mut bought, mut left, worth) = best?;
    (filler.worth, filler.measures) = (worth, filling::THOROUGH);
    mending::mend(filler, scratch, &mut bought, &mut left, work);
    Some(bought)
}
