//! Taking a few machines back and buying anew for their pods, wherever that is cheaper.
//!
//! The machines that cost most beyond the worth of their pods are looked at most often. Which others are taken back
//! with them is drawn from a fixed sequence: the same task is mended the same way every time.

use super::budget::Budget;
use super::buying::{self, Bought};
use super::filling::{Filler, Stock, WAYS};
use super::roving;
use super::weights;
use crate::pack::scratch::Scratch;

/// Bins whose best fill is worth less than this share of what they cost are not looked at again.
const WORTH_A_LOOK: f64 = 0.8;
/// The most machines taken back at once.
const MOST_AT_ONCE: u64 = 7;
/// What a round costs besides filling machines.
const ROUND: u64 = 400;
/// Rounds without success after which nothing more is expected.
const PATIENCE: u32 = 1_000;
/// By how much a change may make the whole dearer at first, as a share of what a machine costs on average.
const LENIENCE: f64 = 0.05;

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    /// What a machine costs beyond its price, nano-dollars per hour.
    pub charge: f64,
    /// The most machines, if that can be.
    pub most: usize,
}

/// Mends until the work is used up, or nothing more comes of it.
///
/// A change for the worse is taken too if it is small, smaller and smaller as the work goes on: otherwise the first result that no few machines
/// can better would be the last. The best of all is what stays.
pub(super) fn mend(
    filler: &mut Filler,
    scratch: &mut Scratch,
    bought: &mut Vec<Bought>,
    budget: &mut Budget,
    goal: &Goal,
    until: u64,
) {
    let best_way = filler.measures;
    let good = good_bins(filler, scratch);
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15 ^ (scratch.options.seed << 1));
    let mut round = 0u64;
    let mut in_vain = 0;
    let mut wasted = waste(filler, bought);
    let mut rules = filler.task.rules.clone();
    let started = filler.work;
    let mut cost = buying::cost(filler.bins, bought, goal.charge);
    let mut best = Best { cost, bought: bought.clone(), budget: budget.clone() };
    while filler.work < until && in_vain < PATIENCE && bought.len() > 1 {
        round += 1;
        in_vain += 1;
        filler.work += ROUND + filler.task.kinds.len() as u64 / 8;
        filler.measures = if draw.below(2) == 0 { best_way } else { WAYS[draw.below(3) as usize] };
        let chosen = choose(filler, bought, &wasted, &mut draw, round);
        let mut stock = Stock::none(filler.task);
        let mut paid = 0.0;
        let mut left = budget.clone();
        for at in &chosen {
            let one = &bought[*at];
            stock.put_back(filler.task, &one.fill);
            let bin = &filler.bins.bins[one.bin];
            paid += bin.price as f64 + goal.charge;
            left.give_back(bin);
        }
        let mut moved = None;
        if !filler.task.rovers.is_empty() && draw.below(2) == 0 {
            filler.work += 16 * (filler.task.rovers.len() + rules.len()) as u64;
            let mut new = rules.clone();
            if roving::rove(filler.task, &mut stock, &mut new, &mut draw) {
                moved = Some(new);
            }
        }
        // As many as there were, if that many are too many already.
        let most = chosen.len().max(goal.most.saturating_sub(bought.len() - chosen.len()));
        // Buying looks one machine ahead: with some bins out of reach it finds other pairs.
        let affordable = good.iter().copied().filter(|bin| (filler.bins.bins[*bin].price as f64) < paid);
        let affordable: Vec<usize> = affordable.filter(|_| draw.below(3) > 0).collect();
        let new = buying::buy(filler, scratch, &mut stock, &mut left, &affordable, most);
        let Some(new) = new else { continue };
        let to_go = until.saturating_sub(filler.work) as f64 / (until - started).max(1) as f64;
        let allowed = LENIENCE * to_go * cost / bought.len() as f64;
        let beyond = buying::cost(filler.bins, &new, goal.charge) - paid;
        if beyond < allowed
            && new.len() <= most
            && weights::closed(filler, scratch, &changed(bought, &chosen, &new), &left)
        {
            for at in chosen.iter().rev() {
                bought.swap_remove(*at);
            }
            bought.extend(new);
            *budget = left;
            if let Some(new) = moved {
                rules = new;
            }
            cost += beyond;
            wasted = waste(filler, bought);
            filler.work += 4 * bought.len() as u64;
            if cheaper(cost, best.cost) {
                best = Best { cost, bought: bought.clone(), budget: budget.clone() };
                in_vain = 0;
            }
        }
    }
    (*bought, *budget) = (best.bought, best.budget);
}

/// The best machines so far.
struct Best {
    cost: f64,
    bought: Vec<Bought>,
    budget: Budget,
}

/// The machines as they would be.
fn changed<'b>(bought: &'b [Bought], without: &[usize], with: &'b [Bought]) -> Vec<&'b Bought> {
    let kept = bought.iter().enumerate().filter(|(at, _)| without.binary_search(at).is_err());
    kept.map(|(_, one)| one).chain(with).collect()
}

/// Cheaper by more than rounding.
pub(super) fn cheaper(new: f64, old: f64) -> bool {
    new < old * (1.0 - 1e-9)
}

/// Machines by what they cost beyond the worth of their pods, most first.
fn waste(filler: &Filler, bought: &[Bought]) -> Vec<usize> {
    let beyond = |one: &Bought| {
        let worth: f64 =
            one.fill.takes.iter().map(|(kind, n)| filler.worth[filler.shape_of(*kind)] * f64::from(*n)).sum();
        filler.cost(one.bin) - worth
    };
    let mut order: Vec<(f64, usize)> = bought.iter().enumerate().map(|(at, one)| (beyond(one), at)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    order.into_iter().map(|(_, at)| at).collect()
}

/// A wasteful machine and some others, ascending: mostly such as could take some of its pods, or the other way round, for pods of
/// machines that have nothing in common can't be divided anew.
fn choose(
    filler: &mut Filler,
    bought: &[Bought],
    wasted: &[usize],
    draw: &mut Draw,
    round: u64,
) -> Vec<usize> {
    let all = wasted.len() as u64;
    let first = wasted[draw.below(all.min(1 + round / 2)) as usize];
    let mut chosen = vec![first];
    let size = (2 + draw.below(MOST_AT_ONCE - 1)).min(all) as usize;
    let related: Vec<usize> = wasted
        .iter()
        .copied()
        .filter(|at| *at != first && (suits(filler, bought, *at, first) || suits(filler, bought, first, *at)))
        .collect();
    filler.work += 8 * all;
    while chosen.len() < size {
        let from: &[usize] =
            if chosen.len() <= related.len() && draw.below(8) > 0 { &related } else { wasted };
        let all = from.len() as u64;
        let reach = if draw.below(2) == 0 { (all / 4).max(1) } else { all };
        let mut at = draw.below(reach);
        let mut looked = 0;
        while chosen.contains(&from[at as usize]) && looked < all {
            at = (at + 1) % all;
            looked += 1;
        }
        if looked == all {
            break;
        }
        chosen.push(from[at as usize]);
    }
    chosen.sort_unstable();
    chosen
}

/// Whether some pod of one machine may go onto another of the second one's kind.
fn suits(filler: &Filler, bought: &[Bought], pods_of: usize, onto: usize) -> bool {
    let bin = &filler.bins.bins[bought[onto].bin];
    bought[pods_of].fill.takes.iter().any(|(kind, _)| bin.takes(filler.shape_of(*kind) as u32))
}

/// Bins that are a good buy for some pods, were they all still there.
fn good_bins(filler: &mut Filler, scratch: &mut Scratch) -> Vec<usize> {
    let all = Stock::all(filler.task);
    (0..filler.bins.bins.len())
        .filter(|bin| {
            let fill = filler.best(scratch, *bin, &all);
            fill.worth >= filler.cost(*bin) * WORTH_A_LOOK
        })
        .collect()
}

/// A fixed sequence of numbers (xorshift).
pub(super) struct Draw(u64);

impl Draw {
    /// A number from zero up to, and without, the end.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }
}
