//! The cheapest packing: the original's result, divided over machines anew.
//!
//! [`task`] cuts the question out of a finished run, [`bins`] lists the machines worth considering, [`filling`] says what goes onto one,
//! [`buying`] buys machine after machine by worth per dollar and learns what pods are worth, [`weights`] knows what limits of heavier pools
//! are worth, [`mending`] takes some back and tries again,
//! [`exact`] solves what is small enough, [`settle`] turns the result into machines of the run. What is not cheaper than the
//! original's result is dropped, so the plan is never dearer, and never refuses a pod that the original places.

mod bins;
mod budget;
mod buying;
mod charge;
mod exact;
mod filling;
mod mending;
mod rounds;
mod settle;
mod task;
mod weights;

use crate::model::ids::{MachineIdx, PodIdx, PoolIdx};
use crate::pack::scratch::{Machine, Scratch, Spot};
use crate::pack::upstream::Outcome;
use crate::plan;
use bins::Bins;
use budget::Budget;
use buying::Bought;
use filling::{Filler, Stock};
use mending::Goal;
use rounds::{Pace, Round, Rounds};
use task::{Task, Weights};

pub(crate) use charge::charge_of;

/// More nodes than this multiple of the original's are too many, unless the charge per node was given.
const MOST_NODES: f64 = 2.5;

/// How many steps of the linear program are worth a step of buying.
const SHADOW_STEPS: u64 = 4;
/// The share of the work that goes into rounds of buying; the rest is for mending.
const BUYING: f64 = 0.6;

/// Replaces the machines of a run by cheaper ones where there are any. Says whether it did.
pub(crate) fn improve(scratch: &mut Scratch, outcome: &mut Outcome, order: &[PodIdx]) -> bool {
    let charge = charge_of(scratch.snapshot, scratch.options);
    let most = match scratch.options.node_charge_nano_usd {
        Some(_) => usize::MAX,
        None => (scratch.machines.len() as f64 * MOST_NODES) as usize,
    };
    let goal = Goal { charge, most };
    let snapshot = scratch.snapshot;
    let limited = |pool: PoolIdx| !snapshot.pools[pool.at()].limits.is_empty();
    let task = Task::new(scratch, outcome, order, Weights::Kept, &|_| false);
    let mut machines = repack(scratch, &task, goal);
    if let Some(others) = with_other_pods(scratch, outcome, order, goal) {
        let rank = |machines: &[Machine]| (machines.len() > most, plan::bill(scratch, machines).cost(charge));
        let better = machines.as_deref().is_none_or(|known| {
            let ((many, cost), (known_many, known_cost)) = (rank(&others), rank(known));
            (!many && known_many) || (many == known_many && cost < known_cost)
        });
        if better {
            machines = Some(others);
        }
    }
    if machines.is_none() {
        // What the first pass squeezed into a limit may not fit any other way: then that pool keeps its machines.
        let task = Task::new(scratch, outcome, order, Weights::Kept, &limited);
        machines = repack(scratch, &task, goal);
    }
    let Some(machines) = machines else { return false };
    let (old, new) = (plan::bill(scratch, &scratch.machines), plan::bill(scratch, &machines));
    if new.price_nano_usd > old.price_nano_usd
        || new.cost(charge) >= old.cost(charge)
        || machines.len() > most
    {
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

/// The same where limits of heavier pools decide who goes to a lighter one: with other pods within these limits. `None` if there is no such
/// choice, or nothing comes of it.
fn with_other_pods(
    scratch: &mut Scratch,
    outcome: &Outcome,
    order: &[PodIdx],
    goal: Goal,
) -> Option<Vec<Machine>> {
    let snapshot = scratch.snapshot;
    let weight = |machine: &Machine| snapshot.pools[machine.pool.at()].weight;
    let lightest = snapshot.pools.iter().map(|pool| pool.weight).min()?;
    let binding = scratch
        .machines
        .iter()
        .any(|machine| weight(machine) > lightest && !snapshot.pools[machine.pool.at()].limits.is_empty());
    // Virtual pods never take the place of real ones.
    let filled = scratch.machines.iter().flat_map(|machine| &machine.pods);
    let filled = filled.into_iter().any(|pod| snapshot.classes[snapshot.pods[pod.at()].class.at()].filler);
    if !binding || filled {
        return None;
    }
    let task = Task::new(scratch, outcome, order, Weights::Free, &|_| false);
    // Pods that stay where they are might have to make room, or to move up.
    if task.frozen.is_empty() { repack(scratch, &task, goal) } else { None }
}

/// All machines of the run, divided anew; `None` if that can't be done within the limits.
fn repack(scratch: &mut Scratch, task: &Task, goal: Goal) -> Option<Vec<Machine>> {
    if task.kinds.is_empty() {
        return None;
    }
    let bins = Bins::new(scratch, task);
    if task.weights == Weights::Free && !bins.have_a_choice() {
        return None;
    }
    let worths = buying::first_worths(task, &bins, goal.charge);
    let mut filler = Filler::new(task, &bins, goal.charge, worths);
    let frozen: Vec<Machine> = task.frozen.iter().map(|at| scratch.machines[*at].clone()).collect();
    let goal = Goal { most: goal.most.saturating_sub(frozen.len()), ..goal };
    let budget = Budget::beside(scratch, &frozen);
    let solved = match task.weights {
        Weights::Kept => exact::best(&mut filler, scratch, goal.most),
        Weights::Free => None,
    };
    let bought = match solved {
        Some(bought) if budget.covers(bought.iter().map(|one| &bins.bins[one.bin])) => bought,
        _ => search(scratch, task, &mut filler, budget, goal)?,
    };
    let machines = settle::settle(&mut filler, scratch, &bought, &frozen)?;
    scratch.work += filler.work;
    Some(frozen.into_iter().chain(machines).collect())
}

/// Rounds of buying, then mending, until the work is used up or nothing more comes of it. Buying starts from what pods are worth to the
/// linear program, and again from what they would cost alone: which of the two leads further can't be said beforehand.
fn search(
    scratch: &mut Scratch,
    task: &Task,
    filler: &mut Filler,
    budget: Budget,
    goal: Goal,
) -> Option<Vec<Bought>> {
    let all = Stock::all(task);
    let work = scratch.options.packing_work.of(all.items);
    let alone = filler.worth.clone();
    let shadow = buying::shadow_worths(task, filler.bins, goal.charge, work.saturating_mul(SHADOW_STEPS));
    let mut rounds = Rounds::new(filler, scratch, &all, &budget, goal);
    let buying = (work as f64 * BUYING) as u64;
    let mut pace = None;
    if let Some(shadow) = shadow {
        filler.worth = shadow;
        // Where there is time for a few rounds only, a second start would take it from the first one's learning.
        pace = Some(rounds.buy(scratch, filler, buying / 2));
        if pace == Some(Pace::Many) {
            filler.worth = alone;
        }
    }
    if rounds.best.is_none() || filler.work < buying {
        rounds.buy(scratch, filler, buying);
    }
    let bought_by = filler.work;
    if pace == Some(Pace::Many) {
        rounds.buy_fewer(scratch, filler, work);
    }
    // What that took is not taken from mending.
    let until = work + (filler.work - bought_by);
    let Round { mut bought, mut left, worth, toll, charge, way } = rounds.best?;
    (filler.worth, filler.toll, filler.charge, filler.measures) = (worth, toll, charge, way);
    mending::mend(filler, scratch, &mut bought, &mut left, &goal, until);
    if task.weights == Weights::Free && !weights::settle_for_cheapest(filler, scratch, &mut bought, &mut left)
    {
        return None;
    }
    Some(bought)
}

/// Holds machines that stayed as the original's strategy made them to the same lists of types as the others. What holds a reservation
/// launches into it.
pub(crate) fn shorten_lists(scratch: &mut Scratch) {
    for at in 0..scratch.machines.len() {
        if scratch.machines[at].reservations.is_empty() {
            let machine = &scratch.machines[at];
            let kept = settle::interchangeable(scratch, machine, &machine.offers);
            scratch.machines[at].offers = kept.into();
        }
    }
}
