//! Sets of nodes whose pods are cheaper on other machines.
//!
//! Candidates stand in the order of what they overpay. Tried are the first 1, 2, 4, … of them, and, beside these, the whole order cut into
//! sets of 1, 2, 4 and 8. Each trial starts from the same base, so the order in which they run does not matter: they are shared out over
//! threads, and the results are read by their number. Of the small sets disjoint ones are brought together, those that save most per pod
//! first, and tried as one; the best of all is taken.

use rayon::prelude::*;

use super::trial::{Base, Bench, Refusal, Setting, Trial};
use crate::model::ids::NodeIdx;

/// The sizes into which the whole order is cut.
const WINDOWS: [usize; 4] = [1, 2, 4, 8];

/// Nodes to try together.
pub(super) type Set = Vec<NodeIdx>;

/// Every set of a few candidates, for clusters so small that all can be tried: the largest number of nodes first.
pub(super) fn all_subsets(candidates: &[NodeIdx]) -> Vec<Set> {
    let pick = |mask: u32| {
        let members = candidates.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0);
        members.map(|(_, node)| *node).collect()
    };
    (1..1u32 << candidates.len()).map(pick).collect()
}

/// The sets worth trying, the most promising first. `order` is by what nodes overpay.
pub(super) fn sets(order: &[NodeIdx]) -> Vec<Set> {
    let mut sets: Vec<Set> = Vec::new();
    for size in WINDOWS {
        if size == 1 || size < order.len() {
            sets.extend(order.chunks(size).filter(|set| set.len() == size).map(<[NodeIdx]>::to_vec));
        }
    }
    let mut size = 2 * WINDOWS[WINDOWS.len() - 1];
    while size < order.len() {
        sets.push(order[..size].to_vec());
        size *= 2;
    }
    if order.len() > 1 {
        sets.push(order.to_vec());
    }
    sets
}

/// Tries every set. The result at a position does not depend on how many threads there are.
pub(super) fn attempt_all(setting: &Setting, base: &Base, sets: &[Set]) -> Vec<Result<Trial, Refusal>> {
    let threads = rayon::current_num_threads().clamp(1, sets.len().max(1));
    // Large sets come last: dealt out like cards, every thread gets its share of them.
    let dealt: Vec<Vec<usize>> =
        (0..threads).map(|first| (first..sets.len()).step_by(threads).collect()).collect();
    let done: Vec<Vec<(usize, Result<Trial, Refusal>)>> = dealt
        .into_par_iter()
        .map(|own| {
            let mut bench = Bench::new(setting, base);
            own.into_iter().map(|at| (at, bench.attempt(&sets[at]))).collect()
        })
        .collect();
    let mut results: Vec<Option<Result<Trial, Refusal>>> = vec![None; sets.len()];
    for (at, result) in done.into_iter().flatten() {
        results[at] = Some(result);
    }
    results.into_iter().flatten().collect()
}

/// The good small sets that have no node in common, those that save most per pod first, as one set.
pub(super) fn brought_together(sets: &[Set], trials: &[Result<Trial, Refusal>], nodes: usize) -> Set {
    let most = WINDOWS[WINDOWS.len() - 1];
    let mut good: Vec<(f64, usize)> = trials
        .iter()
        .enumerate()
        .filter(|(at, _)| sets[*at].len() <= most)
        .filter_map(|(at, trial)| {
            let trial = trial.as_ref().ok()?;
            Some((trial.worth_it / trial.pods.max(1) as f64, at))
        })
        .collect();
    good.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut used = vec![false; nodes];
    let mut all = Set::new();
    for (_, at) in good {
        if sets[at].iter().all(|node| !used[node.at()]) {
            sets[at].iter().for_each(|node| used[node.at()] = true);
            all.extend(&sets[at]);
        }
    }
    all
}
