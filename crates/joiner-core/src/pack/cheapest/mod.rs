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
use mending::Goal;
use task::Task;

pub(crate) use charge::charge_of;

/// More nodes than this multiple of the original's are too many, unless the charge per node was given.
const MOST_NODES: f64 = 2.5;
/// By how much the charge is raised at most and at least after a round that buys too many.
const RAISE: (f64, f64) = (1.15, 2.0);
/// The most rounds of buying until there are few enough.
const ROUNDS_FOR_FEWER: usize = 24;

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
    let charge = charge_of(scratch.snapshot, scratch.options);
    let most = match scratch.options.node_charge_nano_usd {
        Some(_) => usize::MAX,
        None => (scratch.machines.len() as f64 * MOST_NODES) as usize,
    };
    let Some(machines) = repack(scratch, &task, Goal { charge, most }) else { return false };
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

/// All machines of the run, divided anew; `None` if that can't be done within the limits.
fn repack(scratch: &mut Scratch, task: &Task, goal: Goal) -> Option<Vec<Machine>> {
    let bins = Bins::new(scratch, task);
    let worths = buying::first_worths(task, &bins, goal.charge);
    let mut filler = Filler::new(task, &bins, goal.charge, worths);
    let frozen: Vec<Machine> = task.frozen.iter().map(|at| scratch.machines[*at].clone()).collect();
    let goal = Goal { most: goal.most.saturating_sub(frozen.len()), ..goal };
    let budget = Budget::beside(scratch, &frozen);
    let bought = match exact::best(&mut filler, scratch, goal.most) {
        Some(bought) if budget.covers(bought.iter().map(|one| &bins.bins[one.bin])) => bought,
        _ => search(scratch, task, &mut filler, budget, goal)?,
    };
    let machines = settle::settle(&mut filler, scratch, &bought, &frozen)?;
    scratch.work += filler.work;
    Some(frozen.into_iter().chain(machines).collect())
}

/// What a round of buying came to.
struct Round {
    bought: Vec<Bought>,
    left: Budget,
    worth: Vec<f64>,
    charge: f64,
}

/// Rounds of buying, then mending, until the work is used up or nothing more comes of it. As long as a round buys too many machines the
/// charge that bins are compared by is raised; results are compared at the charge that was asked for.
fn search(
    scratch: &mut Scratch,
    task: &Task,
    filler: &mut Filler,
    budget: Budget,
    goal: Goal,
) -> Option<Vec<Bought>> {
    let all = Stock::all(task);
    let work = scratch.options.packing_work.of(all.items);
    let mut best: Option<Round> = None;
    let mut in_vain = 0;
    let few_enough =
        |round: &Option<Round>| round.as_ref().is_some_and(|best| best.bought.len() <= goal.most);
    for round in 0.. {
        let spent = in_vain >= PATIENCE || filler.work as f64 >= work as f64 * BUYING;
        let overspent = filler.work >= work.saturating_mul(2) || round >= ROUNDS_FOR_FEWER;
        if round > 0 && spent && (few_enough(&best) || overspent) {
            break;
        }
        in_vain += 1;
        filler.measures = if round % 2 == 0 { filling::THOROUGH } else { filling::QUICK };
        let (worth, charge, mut left) = (filler.worth.clone(), filler.charge, budget.clone());
        let candidates = 0..filler.bins.bins.len();
        let Some(bought) = buying::buy(filler, scratch, &mut all.clone(), &mut left, candidates) else {
            // The limits leave something over; with other worths they hardly will not.
            break;
        };
        buying::learn(filler, &bought);
        if bought.len() > goal.most {
            let excess = bought.len() as f64 / goal.most.max(1) as f64;
            filler.charge *= excess.clamp(RAISE.0, RAISE.1);
        }
        let rank = |bought: &[Bought]| {
            (bought.len().saturating_sub(goal.most), buying::cost(filler.bins, bought, goal.charge))
        };
        let better = best.as_ref().is_none_or(|known| {
            let ((over, cost), (known_over, known_cost)) = (rank(&bought), rank(&known.bought));
            over < known_over || (over == known_over && mending::cheaper(cost, known_cost))
        });
        if better {
            best = Some(Round { bought, left, worth, charge });
            in_vain = 0;
        }
    }
    let Round { mut bought, mut left, worth, charge } = best?;
    (filler.worth, filler.charge, filler.measures) = (worth, charge, filling::THOROUGH);
    mending::mend(filler, scratch, &mut bought, &mut left, &goal, work);
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
