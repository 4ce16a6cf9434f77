//! Pools of different weight of which the heavier have limits.
//!
//! A heavier pool is used first, and a lighter one when the heavier is used up: for its price no lighter pool is used. But *which* pods a limit
//! leaves room for is nobody's rule. The first pass gives it to those that come first and fills machines of whatever type is largest; other
//! machines may hold more within the same limit, or hold what is dearest elsewhere. So where limits bind, pods are bought for level by level: a pool
//! of one weight until nothing more of what is left fits into it, then the next.
//!
//! The result is *closed*: no pod on a lighter pool's machine would fit onto a machine of a heavier pool it may use, and none of these pools
//! could open another for it within its limits. Whatever changes the result later has to leave it so.

use super::bins::{Bin, holds};
use super::budget::Budget;
use super::buying::Bought;
use super::filling::{Fill, Filler};
use super::settle;
use crate::offer_set;
use crate::pack::scratch::Scratch;

/// How far a round moves the value of a limit towards what it was worth in the last one.
const LEARNING: f64 = 0.5;
/// A limit that has to be used up can make machines cheaper by this share at most.
const LARGEST_BONUS: f64 = 0.8;

/// What the limits of pools are worth: nano-dollars per hour for the whole of them.
#[derive(Debug, Clone, Default)]
pub(super) struct LimitValues {
    /// Per pool.
    of_pool: Vec<f64>,
    /// Per bin: the share that one takes of its pool's limits.
    shares: Vec<f64>,
}

impl LimitValues {
    /// Worth nothing at first.
    pub fn new(filler: &Filler, scratch: &Scratch, budget: &Budget) -> Self {
        let share = |bin: &Bin| {
            let lanes = bin.counts_as.iter().zip(budget.limits_of(bin.pool));
            lanes.filter(|(_, left)| **left > 0).map(|(one, left)| *one as f64 / *left as f64).sum()
        };
        Self {
            of_pool: vec![0.0; scratch.snapshot.pools.len()],
            shares: filler.bins.bins.iter().map(share).collect(),
        }
    }

    /// Looks at what was bought: a limit that left somebody out is worth what its machines saved, one that did not is worth nothing.
    pub fn learn(&mut self, filler: &Filler, bought: &[Bought]) {
        let bins = filler.bins;
        let lowest = lowest_weights(filler, bought.iter());
        for (pool, value) in self.of_pool.iter_mut().enumerate() {
            let (mut saved, mut share, mut left_out) = (0.0, 0.0, false);
            for one in bought.iter().filter(|one| bins.bins[one.bin].pool.at() == pool) {
                let bin = &bins.bins[one.bin];
                let worth = |(kind, n): &(u32, u32)| filler.worth[filler.shape_of(*kind)] * f64::from(*n);
                saved += one.fill.takes.iter().map(worth).sum::<f64>() - bin.price as f64 - filler.charge;
                share += self.shares[one.bin];
                left_out |= lowest
                    .iter()
                    .enumerate()
                    .any(|(kind, low)| *low < bin.weight && bin.takes(filler.shape_of(kind as u32) as u32));
            }
            let target = if left_out && share > 0.0 { saved / share } else { 0.0 };
            *value += LEARNING * (target - *value);
        }
    }

    /// What machines cost more for the room they take of limits; less, if a limit is better soon used up.
    pub fn tolls(&self, filler: &Filler) -> Vec<f64> {
        let bins = filler.bins.bins.iter().zip(&self.shares);
        let toll = |(bin, share): (&Bin, &f64)| {
            let least = -LARGEST_BONUS * (bin.price as f64 + filler.charge);
            (self.of_pool[bin.pool.at()] * share).max(least)
        };
        bins.map(toll).collect()
    }
}

/// Per kind: the weight of the lightest pool it was bought for.
fn lowest_weights<'b>(filler: &Filler, bought: impl Iterator<Item = &'b Bought>) -> Vec<i32> {
    let mut lowest = vec![i32::MAX; filler.task.kinds.len()];
    for one in bought {
        let weight = filler.bins.bins[one.bin].weight;
        for (kind, _) in &one.fill.takes {
            let known = &mut lowest[*kind as usize];
            *known = weight.min(*known);
        }
    }
    lowest
}

/// Whether nothing on a lighter pool has a place on a heavier one. Where weights are kept as they were there is nothing to ask.
pub(super) fn closed(filler: &mut Filler, scratch: &mut Scratch, bought: &[&Bought], left: &Budget) -> bool {
    if filler.bins.levels.is_empty() {
        return true;
    }
    let lowest = lowest_weights(filler, bought.iter().copied());
    let lightest = lowest.iter().copied().min().unwrap_or(i32::MAX);
    let mut below: Vec<u32> =
        (0..lowest.len() as u32).filter(|kind| lowest[*kind as usize] < i32::MAX).collect();
    below.sort_by_key(|kind| lowest[*kind as usize]);
    let bins = filler.bins;
    for (at, bin) in bins.bins.iter().enumerate() {
        if bin.weight <= lightest || left.allows(bin) == 0 {
            continue;
        }
        filler.work += below.len() as u64;
        for kind in below.iter().take_while(|kind| lowest[**kind as usize] < bin.weight) {
            if bin.takes(filler.shape_of(*kind) as u32)
                && holds_together(filler, scratch, at, &Fill::default(), *kind)
            {
                return false;
            }
        }
    }
    for one in bought {
        let bin = &bins.bins[one.bin];
        if bin.weight <= lightest {
            continue;
        }
        let mut room = bin.room.to_vec();
        for (kind, n) in &one.fill.takes {
            let size = &bins.sizes[filler.shape_of(*kind)];
            room.iter_mut().zip(size).for_each(|(room, size)| *room -= size * i64::from(*n));
        }
        filler.work += below.len() as u64;
        for kind in below.iter().take_while(|kind| lowest[**kind as usize] < bin.weight) {
            let shape = filler.shape_of(*kind);
            if holds(&room, &bins.sizes[shape])
                && bin.takes(shape as u32)
                && holds_together(filler, scratch, one.bin, &one.fill, *kind)
            {
                return false;
            }
        }
    }
    true
}

/// Whether one more of a kind may share a machine with what is on it; that there is room is known.
fn holds_together(filler: &mut Filler, scratch: &mut Scratch, at: usize, fill: &Fill, kind: u32) -> bool {
    let mut fuller = fill.clone();
    match fuller.takes.iter_mut().find(|(have, _)| *have == kind) {
        Some((_, n)) => *n += 1,
        None => fuller.takes.push((kind, 1)),
    }
    if !filler.get_along(&fuller) {
        return false;
    }
    let bin = &filler.bins.bins[at];
    let standing = settle::standing(filler, scratch, bin.pool, &fuller, bin.units);
    standing.is_some_and(|standing| {
        offer_set::contains(&standing.set, bin.offering) && standing.has_min_values(scratch, bin.pool)
    })
}

/// Makes every machine what it will be in the plan: the cheapest that holds its pods and fits the limits. Says whether the result is closed.
pub(super) fn settle_for_cheapest(
    filler: &mut Filler,
    scratch: &mut Scratch,
    bought: &mut [Bought],
    left: &mut Budget,
) -> bool {
    let bins = filler.bins;
    for one in bought.iter_mut() {
        let bin = &bins.bins[one.bin];
        let Some(standing) = settle::standing(filler, scratch, bin.pool, &one.fill, bin.units) else {
            return false;
        };
        left.give_back(bin);
        let cheaper = bins.bins[..one.bin].iter().position(|other| {
            other.pool == bin.pool
                && other.units == bin.units
                && offer_set::contains(&standing.set, other.offering)
                && left.allows(other) > 0
        });
        one.bin = cheaper.unwrap_or(one.bin);
        left.spend(&bins.bins[one.bin], 1);
    }
    closed(filler, scratch, &bought.iter().collect::<Vec<_>>(), left)
}
