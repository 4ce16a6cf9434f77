//! Buying machines one after the other, each time the one whose pods are worth most per dollar; and learning from the result
//! what pods are really worth.
//!
//! At first a pod is worth its largest share of the machine where that share costs least. A round that buys by these worths ends with
//! machines that cost more than their pods are worth: the pods that were hard to place were valued too low. Each
//! pod's worth then moves towards what was paid for it, and the next round looks after the dear ones earlier.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bins::Bins;
use super::budget::Budget;
use super::filling::{Fill, Filler, Stock};
use super::settle;
use super::task::Task;
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
        for shape in &bin.shapes {
            let lanes = bins.sizes[*shape as usize].iter().zip(&bin.room).filter(|(want, _)| **want > 0);
            let share = lanes.map(|(want, room)| *want as f64 / *room as f64).fold(0.0, f64::max);
            let known = &mut worth[*shape as usize];
            *known = known.min(share * (bin.price as f64 + charge));
        }
    }
    // A pod that asks for nothing, or may use a free machine, still has to go somewhere.
    let least =
        worth.iter().copied().filter(|worth| *worth > 0.0 && worth.is_finite()).fold(f64::INFINITY, f64::min);
    let least = if least.is_finite() { least * 1e-3 } else { 1.0 };
    worth.into_iter().map(|worth| if worth.is_finite() { worth.max(least) } else { least }).collect()
}

/// Buys until nothing is in stock; `None` if something is left that no bin within the limits takes.
pub(super) fn buy(
    filler: &mut Filler,
    scratch: &mut Scratch,
    stock: &mut Stock,
    budget: &mut Budget,
    candidates: impl Iterator<Item = usize>,
) -> Option<Vec<Bought>> {
    let mut bought = Vec::new();
    // Worth per dollar only falls as the stock does: an outdated figure is a ceiling.
    let mut heap: BinaryHeap<(u64, Reverse<usize>)> = BinaryHeap::new();
    for bin in candidates {
        let fill = filler.best(scratch, bin, stock);
        if !fill.takes.is_empty() {
            heap.push((per_dollar(filler, bin, &fill), Reverse(bin)));
        }
    }
    while stock.items > 0 {
        let (_, Reverse(bin)) = heap.pop()?;
        let most = budget.allows(&filler.bins.bins[bin]);
        if most == 0 {
            continue;
        }
        let mut fill = filler.best(scratch, bin, stock);
        settle::keep_min_values(filler, scratch, bin, &mut fill);
        if fill.takes.is_empty() {
            continue;
        }
        let now = per_dollar(filler, bin, &fill);
        if heap.peek().is_some_and(|(next, _)| now < *next) {
            heap.push((now, Reverse(bin)));
            continue;
        }
        let times = stock.times(&fill).min(most);
        stock.take(filler.task, &fill, times);
        budget.spend(&filler.bins.bins[bin], times);
        bought.extend((0..times).map(|_| Bought { bin, fill: fill.clone() }));
        heap.push((now, Reverse(bin)));
    }
    Some(bought)
}

/// Moves worths towards what was paid.
pub(super) fn learn(filler: &mut Filler, bought: &[Bought]) {
    let mut paid = vec![0.0; filler.worth.len()];
    let mut items = vec![0.0; filler.worth.len()];
    for one in bought {
        let kinds = || one.fill.takes.iter().map(|(kind, n)| (filler.shape_of(*kind), f64::from(*n)));
        let worth: f64 = kinds().map(|(shape, n)| filler.worth[shape] * n).sum();
        let rate = filler.cost(one.bin) / worth;
        for (shape, n) in kinds() {
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

/// Positive numbers compare as their bits do.
fn per_dollar(filler: &Filler, bin: usize, fill: &Fill) -> u64 {
    let cost = filler.cost(bin);
    let rate = if cost > 0.0 { fill.worth / cost } else { f64::MAX };
    rate.max(0.0).to_bits()
}

/// What machines cost at a charge per node.
pub(super) fn cost(bins: &Bins, bought: &[Bought], charge: f64) -> f64 {
    bought.iter().map(|bought| bins.bins[bought.bin].price as f64 + charge).sum()
}
