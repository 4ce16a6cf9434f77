//! The cheapest packing: the original's result, divided over machines anew.
//!
//! [`task`] cuts the question out of a finished run, from its pods ([`items`]) that some rules bind ([`in_force`]) and that are told apart
//! ([`sorting`]); [`bins`] lists the machines worth considering, [`filling`] says what goes onto one and [`exchanging`] betters that,
//! [`buying`] buys machine after machine by worth per dollar and learns what pods are worth, [`rounds`] keeps the best of many, [`weights`]
//! knows what limits of heavier pools are worth, [`mending`] takes some back and tries again, [`roving`] lets pods change their zone meanwhile,
//! [`exact`] solves what is small enough, [`settle`] turns the result into machines of the run. What is not cheaper than the
//! original's result is dropped, so the plan is never dearer, and never refuses a pod that the original places.

mod bins;
mod budget;
mod buying;
mod charge;
mod exact;
mod exchanging;
mod filling;
mod in_force;
mod items;
mod mending;
mod rounds;
mod roving;
mod settle;
mod sorting;
mod task;
mod weights;

use crate::decide::PackingWork;
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
pub(crate) use settle::interchangeable;

/// More nodes than this multiple of the original's are too many, unless the charge per node was given.
const MOST_NODES: f64 = 2.5;

/// How many steps of the linear program are worth a step of buying.
const SHADOW_STEPS: u64 = 4;
/// The share of the work that goes into rounds of buying; the rest is for mending.
const BUYING: f64 = 0.6;
/// How many results of buying are mended.
const MENDED: usize = 3;

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
    scratch.divide_anew(machines);
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

/// Rounds of buying, then mending, until the work is used up or nothing more comes of it.
///
/// Where there is time, buying starts several times: from what pods are worth to the linear program, from what they would cost alone, with
/// another charge per node, with and without exchanges. Which of these leads furthest can't be said beforehand, not even after buying: the
/// best few are mended, each for itself.
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
    let program = scratch.options.packing_work.plain(all.items).saturating_mul(SHADOW_STEPS);
    let mut rounds = Rounds::new(filler, scratch, &all, &budget, goal);
    let shadow = buying::shadow_worths(task, filler.bins, goal.charge, program);
    filler.worth = shadow.as_ref().unwrap_or(&alone).clone();
    let third = (work as f64 * BUYING / 3.0) as u64;
    let pace = rounds.buy(scratch, filler, third, 3 * third);
    // Where pods differ much a round takes long: as long as they are not many there is time for more rounds all the same.
    let slow = pace == Pace::Few && all.items <= PackingWork::MANY / 2;
    let work = if slow { scratch.options.packing_work.at_most(all.items) } else { work };
    let share = |of: f64| (work as f64 * of) as u64;
    let other = other_charge(scratch, goal);
    if pace == Pace::Few {
        // Many starts would take their time from learning. With time for a second one, at another charge, the better of both goes on.
        if slow {
            let learnt = filler.worth.clone();
            let at_other =
                shadow.as_ref().and_then(|_| buying::shadow_worths(task, filler.bins, other, program));
            rounds.set_aside();
            (filler.worth, filler.charge) = (at_other.unwrap_or(learnt), other);
            let until = filler.work + share(BUYING / 3.0);
            rounds.buy(scratch, filler, until, share(BUYING));
            rounds.set_aside();
            if let Some(first) = rounds.aside.first().cloned() {
                (filler.worth, filler.charge) = (first.worth.clone(), first.charge);
                rounds.best = Some(first);
            }
        }
        if filler.work < share(BUYING) {
            rounds.buy(scratch, filler, share(BUYING), share(BUYING));
        }
        filler.charge = goal.charge;
    } else {
        // A program that was too large with one charge is so with another.
        let at_other = shadow.as_ref().and_then(|_| buying::shadow_worths(task, filler.bins, other, program));
        let learnt = rounds.best.as_ref().map(|best| best.worth.clone());
        for (worth, charge, exchanging) in [
            (if shadow.is_some() { Some(alone.clone()) } else { learnt }, goal.charge, shadow.is_none()),
            (at_other, other, false),
            (shadow.clone(), goal.charge, true),
            (Some(alone), other, true),
        ] {
            let Some(worth) = worth else { continue };
            rounds.set_aside();
            (filler.worth, filler.charge, filler.exchanging) = (worth, charge, exchanging);
            let until = filler.work + share(BUYING / 6.0);
            rounds.buy(scratch, filler, until, until);
        }
        (filler.charge, filler.exchanging) = (goal.charge, false);
        rounds.set_aside();
        rounds.best = rounds.aside.first().cloned();
        rounds.buy_fewer(scratch, filler, work, shadow.map(|_| program / SHADOW_STEPS));
        rounds.set_aside();
    }
    rounds.set_aside();
    rounds.aside.truncate(MENDED);
    let each = share(1.0 - BUYING) / rounds.aside.len().max(1) as u64;
    let mut best: Option<(Vec<Bought>, Budget)> = None;
    for round in std::mem::take(&mut rounds.aside) {
        let Round { mut bought, mut left, worth, toll, charge, way, exchanging } = round;
        (filler.worth, filler.toll, filler.charge, filler.measures) = (worth, toll, charge, way);
        filler.exchanging = exchanging;
        let until = filler.work + each;
        mending::mend(filler, scratch, &mut bought, &mut left, &goal, until);
        if task.weights == Weights::Free
            && !weights::settle_for_cheapest(filler, scratch, &mut bought, &mut left)
        {
            continue;
        }
        if best.as_ref().is_none_or(|(known, _)| rounds.better(filler, &bought, known)) {
            best = Some((bought, left));
        }
    }
    best.map(|(bought, _)| bought)
}

/// A charge to try beside the one that is asked for: pods that share larger machines leave less over, and those on smaller ones fit them better.
fn other_charge(scratch: &Scratch, goal: Goal) -> f64 {
    let usual = charge::by_catalogue(scratch.snapshot);
    if goal.charge < usual { usual } else { 0.0 }
}

/// Holds machines that stayed as the original's strategy made them to the same lists of types as the others. What holds a reservation
/// launches into it.
pub(crate) fn shorten_lists(scratch: &mut Scratch) {
    for at in 0..scratch.machines.len() {
        if scratch.machines[at].reservations.is_empty() {
            let machine = &scratch.machines[at];
            let kept = interchangeable(scratch, machine, &machine.offers);
            scratch.machines[at].offers = kept.into();
        }
    }
}
