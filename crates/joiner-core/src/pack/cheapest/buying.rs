//! Buying machines one after the other, each time the one whose pods are worth most per dollar; and learning from the result
//! what pods are really worth.
//!
//! At first a pod is worth its largest share of the machine where that share costs least. A round that buys by these worths ends with
//! machines that cost more than their pods are worth: the pods that were hard to place were valued too low. Each
//! pod's worth then moves towards what was paid for it, and the next round looks after the dear ones earlier.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;

use super::bins::{Bin, Bins};
use super::budget::Budget;
use super::filling::{Fill, Filler, Stock};
use super::settle;
use super::task::{Shape, Task};
use crate::bound::{self, Demand, Offer};
use crate::model::ids::PoolIdx;
use crate::model::{FixedState, fixed_state};
use crate::pack::scratch::Scratch;

/// How far a round moves worths towards what was paid.
const LEARNING: f64 = 0.5;

/// A machine to buy and what goes onto it.
#[derive(Debug, Clone)]
pub(super) struct Bought {
    pub bin: usize,
    pub fill: Fill,
}

/// What pods are worth before anything was bought, by shape.
pub(super) fn first_worths(task: &Task, bins: &Bins, charge: f64) -> Vec<f64> {
    let mut worth = vec![f64::INFINITY; task.shapes.len()];
    // Commitments are few: what they cost says nothing about the rest.
    for bin in bins.bins.iter().filter(|bin| bin.units.is_none()) {
        let valued = bin.shapes.iter().filter(|shape| bin.weight <= bins.valued_at[**shape as usize]);
        for shape in valued {
            let lanes = bins.sizes[*shape as usize].iter().zip(&bin.room).filter(|(want, _)| **want > 0);
            let share = lanes.map(|(want, room)| *want as f64 / *room as f64).fold(0.0, f64::max);
            let known = &mut worth[*shape as usize];
            *known = known.min(share * (bin.price as f64 + charge));
        }
    }
    with_least(worth)
}

/// A pod that asks for nothing, or may use a free machine, still has to go somewhere: nothing is worth nothing.
fn with_least(worth: Vec<f64>) -> Vec<f64> {
    let least =
        worth.iter().copied().filter(|worth| *worth > 0.0 && worth.is_finite()).fold(f64::INFINITY, f64::min);
    let least = if least.is_finite() { least * 1e-3 } else { 1.0 };
    worth.into_iter().map(|worth| if worth.is_finite() { worth.max(least) } else { least }).collect()
}

/// What pods are worth by the shadow prices of the linear program behind the lower bound, by shape; `None` if that takes too long.
pub(super) fn shadow_worths(task: &Task, bins: &Bins, charge: f64, work: u64) -> Option<Vec<f64>> {
    let mut usable: Vec<Vec<u32>> = vec![Vec::new(); task.shapes.len()];
    let mut offers = Vec::new();
    for bin in bins.bins.iter().filter(|bin| bin.units.is_none()) {
        let valued = bin.shapes.iter().filter(|shape| bin.weight <= bins.valued_at[**shape as usize]);
        for shape in valued {
            usable[*shape as usize].push(offers.len() as u32);
        }
        let price_nano_usd = bin.price.saturating_add(charge as i64);
        offers.push(Offer { price_nano_usd, allocatable: Cow::Borrowed(&bin.room[..]) });
    }
    let shapes = task.shapes.iter().zip(bins.sizes.iter().map(AsRef::as_ref)).zip(usable);
    let demand = |((shape, size), usable): ((&Shape, &[i64]), Vec<u32>)| Demand {
        count: u64::from(shape.count),
        requests: size.to_vec(),
        offers: usable.into(),
        apart: shape.exclusive.iter().map(|group| (*group, 1)).collect(),
    };
    let demands: Vec<Demand> = shapes.map(demand).collect();
    let worths = bound::worths(&demands, &offers, work)?;
    Some(with_least(worths.into_iter().map(|dollars| dollars * 1e9).collect()))
}

/// Buys until nothing is in stock; `None` if something is left that no bin within the limits takes.
///
/// Every machine is the one whose pods are worth most per dollar, unless at that rate there would be more than `most` in the end: then
/// it is a larger one, that which saves machines at the least cost. So a few are larger than they would be, and the rest are what they
/// would be anyway.
///
/// Where pools of several weights are open to the same pods, the heaviest are bought until nothing more fits into their limits.
pub(super) fn buy(
    filler: &mut Filler,
    scratch: &mut Scratch,
    stock: &mut Stock,
    budget: &mut Budget,
    candidates: &[usize],
    most: usize,
) -> Option<Vec<Bought>> {
    let mut bought = Vec::new();
    if filler.bins.levels.is_empty() {
        buy_among(filler, scratch, stock, budget, candidates.iter().copied(), most, &mut bought);
    }
    for level in &filler.bins.levels {
        let bins = candidates.iter().copied().filter(|bin| filler.bins.bins[*bin].weight == *level);
        let bins: Vec<usize> = bins.collect();
        buy_among(filler, scratch, stock, budget, bins.into_iter(), most, &mut bought);
    }
    (stock.items == 0).then_some(bought)
}

/// Buys until nothing is in stock that one of the bins takes.
fn buy_among(
    filler: &mut Filler,
    scratch: &mut Scratch,
    stock: &mut Stock,
    budget: &mut Budget,
    candidates: impl Iterator<Item = usize>,
    most: usize,
    bought: &mut Vec<Bought>,
) {
    let mut shelf = Shelf::stocked(filler, scratch, stock, candidates);
    // Worth per dollar only falls as the stock does: an outdated figure is a ceiling.
    let mut heap: BinaryHeap<(u64, Reverse<usize>)> = BinaryHeap::new();
    heap.extend(shelf.worth.iter().map(|(bin, worth)| (per_dollar(filler, *bin, *worth), Reverse(*bin))));
    let mut to_come: f64 =
        stock.shapes.iter().zip(&filler.worth).map(|(n, worth)| f64::from(*n) * worth).sum();
    while stock.items > 0 {
        let Some((_, Reverse(bin))) = heap.pop() else { return };
        let Some(fill) = shelf.look(filler, scratch, stock, budget, bin) else { continue };
        let now = per_dollar(filler, bin, fill.worth);
        heap.push((now, Reverse(bin)));
        if heap.peek().is_some_and(|(next, _)| now < *next) {
            continue;
        }
        let usual = Usual { worth: fill.worth, cost: filler.cost(bin) };
        let excess = bought.len() as f64 + to_come / fill.worth - most as f64;
        let larger = match excess > 0.0 {
            true => shelf.larger(filler, scratch, stock, budget, usual, excess),
            false => None,
        };
        let (bin, fill, times) = match larger {
            Some((bin, fill)) => (bin, fill, 1),
            None => {
                let times = stock.times(&fill).min(budget.allows(&filler.bins.bins[bin]));
                (bin, fill, times)
            }
        };
        stock.take(filler.task, &fill, times);
        budget.spend(&filler.bins.bins[bin], times);
        to_come -= fill.worth * f64::from(times);
        bought.extend((0..times).map(|_| Bought { bin, fill: fill.clone() }));
    }
}

/// The bins on offer with what their best fill was worth when it was last looked at: now it is that at most.
struct Shelf {
    worth: Vec<(usize, f64)>,
}

impl Shelf {
    fn stocked(
        filler: &mut Filler,
        scratch: &mut Scratch,
        stock: &Stock,
        bins: impl Iterator<Item = usize>,
    ) -> Self {
        let worth = bins.map(|bin| (bin, filler.best(scratch, bin, stock).worth));
        Self { worth: worth.filter(|(_, worth)| *worth > 0.0).collect() }
    }

    /// The best fill of a bin as the stock is now; `None` if nothing goes there any more.
    fn look(
        &mut self,
        filler: &mut Filler,
        scratch: &mut Scratch,
        stock: &Stock,
        budget: &Budget,
        bin: usize,
    ) -> Option<Fill> {
        let mut fill = Fill::default();
        if budget.allows(&filler.bins.bins[bin]) > 0 {
            fill = filler.best(scratch, bin, stock);
            settle::keep_min_values(filler, scratch, bin, &mut fill);
        }
        if let Ok(at) = self.worth.binary_search_by_key(&bin, |(bin, _)| *bin) {
            self.worth[at].1 = fill.worth;
        }
        (!fill.takes.is_empty()).then_some(fill)
    }

    /// A bin that holds more than the usual one and so saves `excess` machines, or a part of them, where that costs least; `None` if
    /// none holds more.
    fn larger(
        &mut self,
        filler: &mut Filler,
        scratch: &mut Scratch,
        stock: &Stock,
        budget: &Budget,
        usual: Usual,
        excess: f64,
    ) -> Option<(usize, Fill)> {
        let dollar = usual.cost / usual.worth;
        // What it costs to be rid of the excess with such machines: one at least.
        let price_of_less = |filler: &Filler, bin: usize, worth: f64| {
            let saved = worth / usual.worth - 1.0;
            let beyond = (filler.cost(bin) - worth * dollar).max(usual.cost * 1e-6);
            if saved > 1e-9 { beyond * (excess / saved).max(1.0) } else { f64::INFINITY }
        };
        loop {
            filler.work += self.worth.len() as u64 / 4;
            let mut best = (f64::INFINITY, 0);
            for (bin, worth) in &self.worth {
                let price = price_of_less(filler, *bin, *worth);
                if price < best.0 {
                    best = (price, *bin);
                }
            }
            let (price, bin) = best;
            if price == f64::INFINITY {
                return None;
            }
            if let Some(fill) = self.look(filler, scratch, stock, budget, bin)
                && price_of_less(filler, bin, fill.worth) <= price
            {
                return Some((bin, fill));
            }
        }
    }
}

/// The machine that is worth most per dollar.
#[derive(Clone, Copy)]
struct Usual {
    worth: f64,
    cost: f64,
}

/// Moves worths towards what was paid.
pub(super) fn learn(filler: &mut Filler, bought: &[Bought]) {
    let mut paid = vec![0.0; filler.worth.len()];
    let mut items = vec![0.0; filler.worth.len()];
    for one in bought {
        let kinds = || one.fill.takes.iter().map(|(kind, n)| (filler.shape_of(*kind), f64::from(*n)));
        let worth: f64 = kinds().map(|(shape, n)| filler.worth[shape] * n).sum();
        let rate = filler.cost(one.bin) / worth;
        let weight = filler.bins.bins[one.bin].weight;
        for (shape, n) in kinds().filter(|(shape, _)| weight <= filler.bins.valued_at[*shape]) {
            paid[shape] += filler.worth[shape] * rate * n;
            items[shape] += n;
        }
    }
    for (worth, (paid, items)) in filler.worth.iter_mut().zip(paid.iter().zip(&items)) {
        let learnt = *worth + LEARNING * (paid / items - *worth);
        if learnt.is_finite() && learnt > 0.0 {
            *worth = learnt;
        }
    }
}

/// What bins of pools with limits cost more when what the limits count costs `factor` times as much again as where it is cheapest.
pub(super) fn tolls(bins: &Bins, factor: f64) -> Vec<f64> {
    let mut least: HashMap<(PoolIdx, usize), f64, FixedState> = HashMap::with_hasher(fixed_state());
    let counted = |bin: &Bin| -> Vec<(usize, f64)> {
        let amounts = bin.counts_as.iter().enumerate().filter(|(_, amount)| **amount > 0);
        amounts.map(|(limit, amount)| (limit, *amount as f64)).collect()
    };
    for bin in &bins.bins {
        for (limit, amount) in counted(bin) {
            let known = least.entry((bin.pool, limit)).or_insert(f64::INFINITY);
            *known = known.min(bin.price as f64 / amount);
        }
    }
    let toll = |bin: &Bin| {
        counted(bin).into_iter().map(|(limit, amount)| factor * amount * least[&(bin.pool, limit)]).sum()
    };
    bins.bins.iter().map(toll).collect()
}

/// Positive numbers compare as their bits do.
fn per_dollar(filler: &Filler, bin: usize, worth: f64) -> u64 {
    let cost = filler.cost(bin);
    let rate = if cost > 0.0 { worth / cost } else { f64::MAX };
    rate.max(0.0).to_bits()
}

/// What machines cost at a charge per node.
pub(super) fn cost(bins: &Bins, bought: &[Bought], charge: f64) -> f64 {
    bought.iter().map(|bought| bins.bins[bought.bin].price as f64 + charge).sum()
}
