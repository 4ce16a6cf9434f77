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

/// The cheapest machines for all items, `most` at most; `None` if there are too many items, they need more machines, or commitments make
/// machines differ.
pub(super) fn best(filler: &mut Filler, scratch: &mut Scratch, most: usize) -> Option<Vec<Bought>> {
    let items: Vec<u32> = filler
        .task
        .kinds
        .iter()
        .enumerate()
        .flat_map(|(kind, row)| std::iter::repeat_n(kind as u32, row.count as usize))
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
    let costs: Vec<f64> =
        machine.iter().map(|bin| bin.map_or(f64::INFINITY, |bin| filler.cost(bin))).collect();
    let parts = divide(&costs, most)?;
    let bought = parts.into_iter().map(|part| {
        let bin = machine[part]?;
        Some(Bought { bin, fill: fill_of(filler, &items, part) })
    });
    bought.collect()
}

/// The cheapest division of all items into at most so many sets, by the cost of every set.
fn divide(costs: &[f64], most: usize) -> Option<Vec<usize>> {
    let mut nothing = vec![Part { cost: f64::INFINITY, set: 0 }; costs.len()];
    nothing[0].cost = 0.0;
    // Without regard to their number first: that is one step in place of one per set.
    let mut free = nothing.clone();
    for whole in 1..costs.len() {
        free[whole] = cheapest_part(costs, whole, |rest| free[rest].cost);
    }
    let unlimited = trace(costs.len() - 1, |_, left| free[left]);
    if unlimited.as_ref().is_some_and(|parts| parts.len() <= most) {
        return unlimited;
    }
    let mut layers = vec![nothing];
    for at in 1..=most.min(costs.len().ilog2() as usize) {
        let fewer = &layers[at - 1];
        let mut layer = fewer.clone();
        for (whole, part) in layer.iter_mut().enumerate().skip(1) {
            *part = cheapest_part(costs, whole, |rest| fewer[rest].cost);
        }
        layers.push(layer);
    }
    let last = layers.len() - 1;
    trace(costs.len() - 1, |taken, left| layers[last - taken.min(last)][left])
}

/// A first set of a division, and what the whole division costs.
#[derive(Debug, Clone, Copy)]
struct Part {
    cost: f64,
    set: usize,
}

/// The best set with the first item of a whole, the rest costing what is said.
fn cheapest_part(costs: &[f64], whole: usize, rest_costs: impl Fn(usize) -> f64) -> Part {
    let first = whole & whole.wrapping_neg();
    let rest = whole ^ first;
    let mut best = Part { cost: f64::INFINITY, set: 0 };
    // Every part of the rest, together with the first item, is a machine.
    let mut part = rest;
    loop {
        let cost = costs[part | first] + rest_costs(rest ^ part);
        if cost < best.cost {
            best = Part { cost, set: part | first };
        }
        if part == 0 {
            return best;
        }
        part = (part - 1) & rest;
    }
}

/// The sets of a division, from the first set of everything that can be left; `None` if something can't be divided.
fn trace(all: usize, first: impl Fn(usize, usize) -> Part) -> Option<Vec<usize>> {
    let mut parts = Vec::new();
    let mut left = all;
    while left != 0 {
        let part = first(parts.len(), left);
        if !part.cost.is_finite() {
            return None;
        }
        parts.push(part.set);
        left ^= part.set;
    }
    Some(parts)
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
            && best.is_none_or(|best| filler.cost(found) < filler.cost(best))
        {
            best = Some(found);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_keeps_to_the_number_of_machines() {
        // Three items: apart 1 each, in pairs 3, all together 10; any two machines beat one.
        let costs = [f64::INFINITY, 1.0, 1.0, 3.0, 1.0, 3.0, 3.0, 10.0];
        let parts = |most| divide(&costs, most).map(|parts| parts.len());
        assert_eq!(
            (parts(9), parts(3), parts(2), parts(1), parts(0)),
            (Some(3), Some(3), Some(2), Some(1), None)
        );
    }

    #[test]
    fn what_fits_nowhere_is_not_divided() {
        let costs = [f64::INFINITY, 1.0, f64::INFINITY, f64::INFINITY];
        assert_eq!(divide(&costs, 5), None);
    }
}
