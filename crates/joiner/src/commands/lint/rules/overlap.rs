//! Pools between which only their names decide.

use joiner_core::model::{Effect, Taint};

use crate::commands::lint::finding::Hit;
use crate::commands::lint::shelf::Shelf;
use crate::commands::lint::subject::{PoolView, Subject};

/// Pools of equal weight that could launch the same node for the same pod: one finding per group, on its first pool.
pub fn equal_weights(subject: &Subject) -> Vec<Hit> {
    let pools: Vec<&PoolView> = subject.pools.iter().filter(|pool| pool.is_dynamic()).collect();
    let mut told = vec![false; pools.len()];
    let mut hits = Vec::new();
    for at in 0..pools.len() {
        if told[at] {
            continue;
        }
        let mut group = vec![pools[at]];
        for other in at + 1..pools.len() {
            if !told[other] && overlap(pools[at], pools[other], &subject.shelf) {
                told[other] = true;
                group.push(pools[other]);
            }
        }
        let [first, rest @ ..] = group.as_slice() else { continue };
        let Some(winner) = group.iter().map(|pool| pool.name).max().filter(|_| !rest.is_empty()) else {
            continue;
        };
        let others: Vec<String> = rest.iter().map(|pool| format!("`{}`", pool.name)).collect();
        hits.push(Hit::new(
            first.object,
            if first.pool.spec.weight.is_some() { "spec.weight" } else { "spec" },
            format!(
                "has the same weight and taints as {} and shares instance types with it: pods that may use either go to `{winner}`, the last by name",
                others.join(", ")
            ),
            "give the pool that is to be tried first a higher `weight`",
        ));
    }
    hits
}

fn overlap(a: &PoolView, b: &PoolView, shelf: &Shelf) -> bool {
    let weight = |pool: &PoolView| pool.pool.spec.weight.unwrap_or(0);
    let shared = || a.offers.iter().zip(&b.offers).any(|(in_a, in_b)| *in_a && *in_b);
    a.name != b.name && weight(a) == weight(b) && hard(a) == hard(b) && !told_apart(a, b, shelf) && shared()
}

/// Whether a label of their own tells pods which of the two to choose.
fn told_apart(a: &PoolView, b: &PoolView, shelf: &Shelf) -> bool {
    a.all_clauses().filter(|clause| !shelf.is_well_known(clause.key)).any(|clause| {
        let (in_a, in_b) = (a.template.get(&clause.key), b.template.get(&clause.key));
        in_a.zip(in_b).is_some_and(|(in_a, in_b)| in_a.intersect(in_b, &shelf.names, clause.key).is_empty())
    })
}

fn hard<'p>(pool: &'p PoolView) -> Vec<&'p Taint> {
    let mut taints: Vec<&Taint> =
        pool.taints.iter().filter(|t| t.effect != Effect::PreferNoSchedule).collect();
    taints.sort();
    taints
}
