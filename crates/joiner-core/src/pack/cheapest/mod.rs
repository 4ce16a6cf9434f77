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
use filling::{Filler, Stock, WAYS, Way};
use mending::Goal;
use task::{Task, Weights};
use weights::LimitValues;

pub(crate) use charge::charge_of;

/// More nodes than this multiple of the original's are too many, unless the charge per node was given.
const MOST_NODES: f64 = 2.5;
/// The most rounds of buying until there are few enough.
const ROUNDS_FOR_FEWER: usize = 24;

/// How many steps of the linear program are worth a step of buying.
const SHADOW_STEPS: u64 = 4;
/// By what share limits make dearer what they count, at first; doubled with every round that they leave something over.
const FIRST_TOLL: f64 = 0.125;
/// The most such rounds.
const MOST_FAILURES: u32 = 6;
/// A first round that takes more than one part in so many leaves time for a few more only.
const FEW_ROUNDS: u64 = 40;
/// Rounds of buying without success after which nothing more is expected.
const PATIENCE: usize = 16;
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
            many < known_many || (many == known_many && cost < known_cost)
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

/// What a round of buying came to.
struct Round {
    bought: Vec<Bought>,
    left: Budget,
    worth: Vec<f64>,
    toll: Vec<f64>,
    way: Way,
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
    let mut rounds = Rounds { all: &all, budget: &budget, goal, best: None };
    let buying = (work as f64 * BUYING) as u64;
    if let Some(shadow) = shadow {
        filler.worth = shadow;
        // Where there is time for a few rounds only, a second start would take it from the first one's learning.
        if rounds.buy(scratch, filler, buying / 2) == Pace::Many {
            filler.worth = alone;
        }
    }
    if rounds.best.is_none() || filler.work < buying {
        rounds.buy(scratch, filler, buying);
    }
    let Round { mut bought, mut left, worth, toll, way } = rounds.best?;
    (filler.worth, filler.toll, filler.measures) = (worth, toll, way);
    mending::mend(filler, scratch, &mut bought, &mut left, &goal, work);
    Some(bought)
}

/// How many rounds of buying the work is enough for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// To try every way.
    Many,
    /// To try one, and to learn.
    Few,
}

/// Rounds of buying, and the best of them.
struct Rounds<'r> {
    all: &'r Stock,
    budget: &'r Budget,
    goal: Goal,
    best: Option<Round>,
}

impl Rounds<'_> {
    /// Buys again and again, each time wiser, until the work done reaches `until`.
    ///
    /// Where there is time, every way to fill machines is tried before anything is learnt; then mostly the best of them is used.
    fn buy(&mut self, scratch: &mut Scratch, filler: &mut Filler, until: u64) -> Pace {
        let started = filler.work;
        let mut pace = Pace::Many;
        let mut in_vain = 0;
        // Fewer are asked for where the last round bought too many.
        let mut most = self.goal.most;
        let mut best_way = (None, 0);
        let mut failures = 0u32;
        let by_level = !filler.bins.levels.is_empty();
        let mut values = LimitValues::new(filler, scratch, self.budget);
        let everything: Vec<usize> = (0..filler.bins.bins.len()).collect();
        for round in 0.. {
            let spent = in_vain >= PATIENCE || filler.work >= until;
            let overspent = filler.work - started >= until || round >= ROUNDS_FOR_FEWER;
            let few_enough = self.best.as_ref().is_some_and(|best| best.bought.len() <= self.goal.most);
            if round > 0 && spent && (few_enough || overspent) {
                break;
            }
            in_vain += 1;
            let way = match pace {
                Pace::Few => 0,
                Pace::Many if round < WAYS.len() => round,
                Pace::Many if round % 4 == 0 => round / 4 % WAYS.len(),
                Pace::Many => best_way.1,
            };
            filler.measures = WAYS[way];
            let (worth, mut left) = (filler.worth.clone(), self.budget.clone());
            let mut stock = self.all.clone();
            let bought = buying::buy(filler, scratch, &mut stock, &mut left, &everything, most);
            let Some(bought) = bought else {
                // Limits leave something over: what they count has to be dearer.
                failures += 1;
                if failures > MOST_FAILURES {
                    break;
                }
                if by_level {
                    // What has no other place comes first.
                    for (worth, n) in filler.worth.iter_mut().zip(&stock.shapes) {
                        *worth *= if *n > 0 { 2.0 } else { 1.0 };
                    }
                } else {
                    filler.toll = buying::tolls(filler.bins, FIRST_TOLL * f64::from(1 << failures));
                }
                continue;
            };
            if round == 0
                && (filler.work - started).saturating_mul(FEW_ROUNDS) > until.saturating_sub(started)
            {
                pace = Pace::Few;
            }
            if pace == Pace::Few || round + 1 >= WAYS.len() {
                buying::learn(filler, &bought);
            }
            let toll = filler.toll.clone();
            if by_level {
                values.learn(filler, &bought);
                filler.toll = values.tolls(filler);
            }
            most = most.saturating_sub(bought.len().saturating_sub(self.goal.most)).max(1);
            let rank = self.rank(filler, &bought);
            if best_way.0.is_none_or(|known| rank < known) {
                best_way = (Some(rank), way);
            }
            let better = self.best.as_ref().is_none_or(|known| {
                let (over, cost) = self.rank(filler, &known.bought);
                rank.0 < over || (rank.0 == over && mending::cheaper(rank.1, cost))
            });
            if better {
                self.best = Some(Round { bought, left, worth, toll, way: WAYS[way] });
                in_vain = 0;
            }
        }
        pace
    }

    /// What machines are compared by: how many are too many, then what they cost.
    fn rank(&self, filler: &Filler, bought: &[Bought]) -> (usize, f64) {
        (bought.len().saturating_sub(self.goal.most), buying::cost(filler.bins, bought, self.goal.charge))
    }
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
