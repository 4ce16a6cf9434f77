//! A handful of pods: the best division of all.
//!
//! For every subset the cheapest machine that takes it is found, then the cheapest way to cut the whole into subsets. Twelve pods have
//! four thousand subsets and half a million cuts.

use super::buying::Bought;
use super::filling::{Fill, Filler};
use super::settle;
use crate::model::ids::PoolIdx;
use crate::offer_set;
use crate::pack::scratch::Scratch;

/// More items than this are not for here.
pub(super) const MOST_ITEMS: usize = 12;

/// The cheapest machines for all items; `None` if there are too many, some fit nowhere, or commitments make machines differ.
pub(super) fn best(filler: &mut Filler, scratch: &mut Scratch) -> Option<Vec<Bought>> {
    let items: Vec<u32> = filler
        .task
        .kinds
        .iter()
        .enumerate()
        .flat_map(|(kind, row)| std::iter::repeat_n(kind as u32, row.members.len()))
        .take(MOST_ITEMS + 1)
        .collect();
    let committed = filler.bins.bins.iter().any(|bin| bin.units.is_some());
    if items.len() > MOST_ITEMS || committed {
        return None;
    }
    let all = (1usize << items.len()) - 1;
    let mut machine: Vec<Option<usize>> = vec![None; all + 1];
    for subset in 1..=all {
        // What does not fit without one of its pods does not fit with it.
        let smaller = subset & (subset - 1);
        if smaller != 0 && machine[smaller].is_none() {
            continue;
        }
        let fill = fill_of(filler, &items, subset);
        machine[subset] = cheapest_bin(filler, scratch, &fill);
    }
    let cost = |bin: Option<usize>| bin.map_or(f64::INFINITY, |bin| filler.bins.bins[bin].cost);
    let mut least = vec![(f64::INFINITY, 0usize); all + 1];
    least[0].0 = 0.0;
    for whole in 1..=all {
        let first = whole & whole.wrapping_neg();
        let rest = whole ^ first;
        // Every part of the rest, together with the first item, is a machine.
        let mut part = rest;
        loop {
            let with_first = part | first;
            let sum = cost(machine[with_first]) + least[whole ^ with_first].0;
            if sum < least[whole].0 {
                least[whole] = (sum, with_first);
            }
            if part == 0 {
                break;
            }
            part = (part - 1) & rest;
        }
    }
    let mut bought = Vec::new();
    let mut left = all;
    while left != 0 {
        let (cost, part) = least[left];
        if !cost.is_finite() {
            return None;
        }
        bought.push(Bought { bin: machine[part]?, fill: fill_of(filler, &items, part) });
        left ^= part;
    }
    Some(bought)
}

fn fill_of(filler: &Filler, items: &[u32], subset: usize) -> Fill {
    let mut fill = Fill::default();
    for (at, kind) in items.iter().enumerate().filter(|(at, _)| subset & (1 << at) != 0) {
        debug_assert!(at < items.len());
        fill.worth += filler.worth[filler.shape_of(*kind)];
        match fill.takes.last_mut() {
            Some((last, n)) if last == kind => *n += 1,
            _ => fill.takes.push((*kind, 1)),
        }
    }
    fill
}

fn cheapest_bin(filler: &mut Filler, scratch: &mut Scratch, fill: &Fill) -> Option<usize> {
    if !filler.get_along(fill) {
        return None;
    }
    let mut best: Option<usize> = None;
    for at in 0..scratch.snapshot.pools.len() {
        let pool = PoolIdx::new(at);
        let Some(standing) = settle::standing(filler, scratch, pool, fill, None) else { continue };
        if !standing.has_min_values(scratch, pool) {
            continue;
        }
        // A bin that is not listed costs no less than one that is and that holds the same.
        let found = filler
            .bins
            .bins
            .iter()
            .position(|bin| bin.pool == pool && offer_set::contains(&standing.set, bin.offering));
        if let Some(found) = found
            && best.is_none_or(|best| filler.bins.bins[found].cost < filler.bins.bins[best].cost)
        {
            best = Some(found);
        }
    }
    best
}
