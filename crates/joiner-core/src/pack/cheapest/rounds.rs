//! Rounds of buying, each wiser than the last, and the best of them.

use super::bins::Bins;
use super::budget::Budget;
use super::buying::{self, Bought};
use super::filling::{Filler, Stock, THOROUGH, WAYS, Way};
use super::mending::{self, Goal};
use super::weights::LimitValues;
use crate::decide::PackingWork;
use crate::pack::scratch::Scratch;

/// The most rounds of buying until there are few enough.
const ROUNDS_FOR_FEWER: usize = 24;
/// By what share limits make dearer what they count, at first; doubled with every round that they leave something over.
const FIRST_TOLL: f64 = 0.125;
/// The most such rounds.
const MOST_FAILURES: u32 = 6;
/// A first round that takes more than one part in so many leaves time for a few more only.
const FEW_ROUNDS: u64 = 40;
/// Rounds of buying without success after which nothing more is expected.
const PATIENCE: usize = 16;
/// Charges per machine that are tried until there are few enough.
const PROBES: usize = 10;
/// The share of the work that goes into rounds with such a charge.
const FEWER: f64 = 0.2;

/// What a round of buying came to.
#[derive(Clone)]
pub(super) struct Round {
    pub bought: Vec<Bought>,
    pub left: Budget,
    pub worth: Vec<f64>,
    pub toll: Vec<f64>,
    /// Per machine, beyond its price.
    pub charge: f64,
    pub way: Way,
    pub exchanging: bool,
}

/// How many rounds of buying the work is enough for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// To try every way.
    Many,
    /// To try one, and to learn.
    Few,
}

/// Rounds of buying, and the best of them.
pub(super) struct Rounds<'r> {
    bins: &'r Bins,
    all: &'r Stock,
    budget: &'r Budget,
    goal: Goal,
    /// The best since the last start.
    pub best: Option<Round>,
    /// The best of earlier starts, the cheapest first.
    pub aside: Vec<Round>,
    values: LimitValues,
    everything: Vec<usize>,
}

impl<'r> Rounds<'r> {
    /// None yet.
    pub fn new(
        filler: &Filler<'r>,
        scratch: &Scratch,
        all: &'r Stock,
        budget: &'r Budget,
        goal: Goal,
    ) -> Self {
        let values = LimitValues::new(filler, scratch, budget);
        let everything = (0..filler.bins.bins.len()).collect();
        Self { bins: filler.bins, all, budget, goal, best: None, aside: Vec::new(), values, everything }
    }

    /// Buys again and again, each time wiser, until the work done reaches `until`.
    ///
    /// Where there is time, every way to fill machines is tried before anything is learnt; then mostly the best of them is used.
    /// Pace is judged by what could be spent in all.
    pub fn buy(&mut self, scratch: &mut Scratch, filler: &mut Filler, until: u64, in_all: u64) -> Pace {
        let started = filler.work;
        let mut pace = Pace::Many;
        let mut in_vain = 0;
        // Fewer are asked for where the last round bought too many. How many there will be is foreseen badly: a round that needs not care
        // buys better, so where there is time the first one shows whether the number matters.
        let mut most = if self.all.items <= PackingWork::MANY / 2 { usize::MAX } else { self.goal.most };
        let mut best_way = (None, 0);
        let mut failures = 0u32;
        let by_level = !filler.bins.levels.is_empty();
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
            let bought = buying::buy(filler, scratch, &mut stock, &mut left, &self.everything, most);
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
                && (filler.work - started).saturating_mul(FEW_ROUNDS) > in_all.saturating_sub(started) / 2
            {
                pace = Pace::Few;
            }
            if pace == Pace::Few || round + 1 >= WAYS.len() {
                buying::learn(filler, &bought);
            }
            let toll = filler.toll.clone();
            if by_level {
                self.values.learn(filler, &bought);
                filler.toll = self.values.tolls(filler);
            }
            let beyond = bought.len().saturating_sub(self.goal.most);
            if beyond > 0 {
                most = most.min(self.goal.most + beyond).saturating_sub(beyond).max(1);
            }
            let rank = self.rank(filler, &bought);
            if best_way.0.is_none_or(|known| rank < known) {
                best_way = (Some(rank), way);
            }
            let (charge, exchanging) = (filler.charge, filler.exchanging);
            if self.keep(filler, Round { bought, left, worth, toll, charge, way: WAYS[way], exchanging }) {
                in_vain = 0;
            }
        }
        pace
    }

    /// Keeps a round that is better than the best so far. Says whether it is.
    fn keep(&mut self, filler: &Filler, round: Round) -> bool {
        let better = self.best.as_ref().is_none_or(|known| self.better(filler, &round.bought, &known.bought));
        if better {
            self.best = Some(round);
        }
        better
    }

    /// Puts the best so far aside for a new start.
    pub fn set_aside(&mut self) {
        let Some(round) = self.best.take() else { return };
        let bins = self.bins;
        let rank = |round: &Round| rank(bins, &self.goal, &round.bought);
        let (over, cost) = rank(&round);
        let known = |known: &Round| {
            let (known_over, known_cost) = rank(known);
            known_over == over && !mending::cheaper(cost, known_cost) && !mending::cheaper(known_cost, cost)
        };
        if !self.aside.iter().any(known) {
            self.aside.push(round);
            self.aside.sort_by(|a, b| {
                let ((a_over, a_cost), (b_over, b_cost)) = (rank(a), rank(b));
                a_over.cmp(&b_over).then(a_cost.total_cmp(&b_cost))
            });
        }
    }

    /// Whether machines are better than others.
    pub fn better(&self, filler: &Filler, new: &[Bought], old: &[Bought]) -> bool {
        let ((over, cost), (old_over, old_cost)) = (self.rank(filler, new), self.rank(filler, old));
        over < old_over || (over == old_over && mending::cheaper(cost, old_cost))
    }

    /// Where there would be too many machines: looks for the charge per machine at which there are just few enough, and buys by that. Making
    /// some machines larger as they are bought reaches the number too, but pods are then valued as if size cost nothing. `program` is the work that
    /// each linear program may cost, if there is to be one.
    pub fn buy_fewer(&mut self, scratch: &mut Scratch, filler: &mut Filler, work: u64, program: Option<u64>) {
        let worths_at = |filler: &Filler| {
            program.and_then(|steps| buying::shadow_worths(filler.task, filler.bins, filler.charge, steps))
        };
        let usual = filler.charge;
        let (mut too_little, mut enough) = (0.0, None);
        let mut surcharge = 0.0;
        for _ in 0..PROBES {
            filler.charge = usual + surcharge;
            if let Some(worth) = worths_at(filler) {
                filler.worth = worth;
            }
            filler.measures = THOROUGH;
            let mut left = self.budget.clone();
            let bought =
                buying::buy(filler, scratch, &mut self.all.clone(), &mut left, &self.everything, usize::MAX);
            let Some(bought) = bought else { break };
            let few = bought.len() <= self.goal.most;
            if few && surcharge == 0.0 {
                // The number is no matter.
                break;
            }
            let mean = buying::cost(filler.bins, &bought, usual) / bought.len().max(1) as f64;
            match few {
                true => enough = Some(surcharge),
                false => too_little = surcharge,
            }
            if few {
                let (worth, toll, charge) = (filler.worth.clone(), filler.toll.clone(), filler.charge);
                let exchanging = filler.exchanging;
                self.keep(filler, Round { bought, left, worth, toll, charge, way: THOROUGH, exchanging });
            }
            surcharge = match enough {
                Some(enough) => (too_little + enough) / 2.0,
                None if surcharge == 0.0 => mean / 8.0,
                None => 2.0 * surcharge,
            };
        }
        if let Some(enough) = enough {
            for (times, surcharge) in [(1, enough), (2, (too_little + enough) / 2.0)] {
                filler.charge = usual + surcharge;
                if let Some(worth) = worths_at(filler) {
                    filler.worth = worth;
                }
                let until = filler.work + (work as f64 * FEWER) as u64 * times / 2;
                self.buy(scratch, filler, until, until);
            }
        }
        filler.charge = usual;
    }

    /// What machines are compared by: how many are too many, then what they cost.
    fn rank(&self, filler: &Filler, bought: &[Bought]) -> (usize, f64) {
        rank(filler.bins, &self.goal, bought)
    }
}

/// How many machines are too many, then what all cost.
fn rank(bins: &Bins, goal: &Goal, bought: &[Bought]) -> (usize, f64) {
    (bought.len().saturating_sub(goal.most), buying::cost(bins, bought, goal.charge))
}
