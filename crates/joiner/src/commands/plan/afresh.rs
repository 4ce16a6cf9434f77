//! What stands, and what the same pods would cost on machines bought anew.
//!
//! All nodes are given up but those that stay by their nature, and their pods are decided on as if they waited. A pod that finds no place then keeps its
//! node, with everything on it, and the rest is decided again. The strategy that decides for the plan decides here, by the same prices.

use std::collections::{BTreeMap, BTreeSet};

use joiner_core::decide::{self, Options};
use joiner_core::model::Snapshot;
use joiner_core::plan::Plan;
use joiner_record::plan::{AfreshDocument, StandingDocument, StaysDocument, reasons, to_nano};
use joiner_state::{Standing, StandingNode, Stays};

/// How often pods that found no place may keep their nodes before the question is given up: limits can turn away others each time.
const MOST_ROUNDS: usize = 6;

/// What stands; nothing without nodes. With `packed_afresh` also what the same pods would cost.
pub fn standing(
    standing: &mut Standing,
    snapshot: &Snapshot,
    options: &Options,
    packed_afresh: bool,
) -> Option<StandingDocument> {
    let nodes = standing.nodes(snapshot);
    let mut document = StandingDocument::new(snapshot, &nodes)?;
    if packed_afresh {
        document.packed_afresh = packed(standing, snapshot, &nodes, options);
    }
    Some(document)
}

fn packed(
    standing: &mut Standing,
    snapshot: &Snapshot,
    nodes: &[StandingNode],
    options: &Options,
) -> Option<AfreshDocument> {
    let name = |row: &StandingNode| snapshot.nodes[row.node.at()].name.to_string();
    let by_nature = nodes.iter().filter_map(|row| {
        let name = name(row);
        let why = StaysDocument::of_node(&name, row.stays?);
        Some((name, why))
    });
    let mut stays: BTreeMap<String, StaysDocument> = by_nature.collect();
    let quick = quick(options);
    for round in 0..MOST_ROUNDS {
        if nodes.iter().all(|row| stays.contains_key(&name(row))) {
            return None;
        }
        let names: BTreeSet<String> = stays.keys().cloned().collect();
        let fresh = standing.afresh(&names, snapshot);
        let plan = decide::decide(&fresh, if round == 0 { options } else { &quick });
        if plan.refused.is_empty() {
            let plan = if round == 0 { plan } else { decide::decide(&fresh, options) };
            return Some(document(&fresh, &plan, options, stays_of_known_price(stays, nodes, snapshot)));
        }
        for refused in &plan.refused {
            let pod = &*fresh.pods[refused.pod.at()].name;
            let Some(node) = standing.node_of(pod) else { continue };
            let why = || StaysDocument::of_refused(node, pod, &reasons(&fresh, &refused.reasons));
            stays.entry(node.to_owned()).or_insert_with(why);
        }
    }
    None
}

/// The same with little work: who is turned away does not depend on how much is tried for a cheaper plan.
pub fn quick(options: &Options) -> Options {
    const SHARE: f64 = 0.05;
    Options { packing_work: options.packing_work.times(SHARE), ..options.clone() }
}

fn stays_of_known_price(
    mut stays: BTreeMap<String, StaysDocument>,
    nodes: &[StandingNode],
    snapshot: &Snapshot,
) -> Vec<StaysDocument> {
    for row in nodes.iter().filter(|row| row.stays == Some(Stays::UnknownPrice)) {
        stays.remove(&*snapshot.nodes[row.node.at()].name);
    }
    stays.into_values().collect()
}

fn document(fresh: &Snapshot, plan: &Plan, options: &Options, stays: Vec<StaysDocument>) -> AfreshDocument {
    let kept: f64 = fresh.nodes.iter().filter_map(|node| node.shown.price).sum();
    let price = plan.price_nano_usd as f64 / 1e9;
    let bound = if options.bound_work > 0 { decide::lower_bound(fresh, options, plan) } else { None };
    AfreshDocument {
        nodes: stays.len() + plan.machines.len(),
        price_per_hour: to_nano(kept + price),
        // Prices are rounded to nano-dollars, so the bound of an optimal plan may lie a hair above its price.
        lower_bound_per_hour: bound.map(|bound| to_nano(kept + bound.min(price))),
        pods: fresh.pods.len(),
        stays,
    }
}
