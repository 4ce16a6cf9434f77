//! Two plans beside each other: what `-o json` and `-o yaml` print. Documented in `docs/reference/what-if-json.md`.

use std::collections::BTreeMap;

use joiner_core::model::Snapshot;
use joiner_core::plan::Plan;
use joiner_record::plan::{StaysDocument, to_nano};
use joiner_state::Standing;
use serde::Serialize;

use super::repack::Repacked;
use crate::commands::plan::{AfreshDocument, PlanDocument, PlanNode, ReasonDocument};

/// Hours in a month, as cloud bills count them.
const HOURS_PER_MONTH: f64 = 730.0;

/// A cluster and the plan for it.
pub struct Side {
    /// The cluster.
    pub snapshot: Snapshot,
    /// The plan.
    pub plan: PlanDocument,
    /// The same as it was decided.
    pub decided: Plan,
    /// What stands.
    pub standing: Standing,
}

/// The comparison.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIf {
    /// `joiner.sh/v1alpha1`.
    pub api_version: &'static str,
    /// `WhatIf`.
    pub kind: &'static str,
    /// What was changed, one sentence each.
    pub changes: Vec<String>,
    /// Sums without the changes.
    pub before: Totals,
    /// Sums with them.
    pub after: Totals,
    /// Nodes by instance type and capacity type.
    pub nodes_by_type: Vec<TypeRow>,
    /// Pods that go to another node that is there, or to a new one of another kind.
    pub pods_moved: Vec<Moved>,
    /// Pods that are refused with the changes and were not without.
    pub newly_refused: Vec<NewlyRefused>,
    /// Pods that were refused without the changes and have a place with them.
    pub newly_placed: Vec<NewlyPlaced>,
    /// What `--repack` did; null without it.
    pub repack: Option<Repack>,
}

/// What was given up, and what stands in the way of more.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repack {
    /// Nodes given up, by name.
    pub given_up: Vec<String>,
    /// Why the others stay: one entry per pod that holds its node, or for the node itself.
    pub stays: Vec<StaysDocument>,
    /// What of the price before is paid for capacity nobody requested.
    pub waste_per_hour_before: f64,
    /// And of the price after.
    pub waste_per_hour_after: f64,
    /// What the pods of today would cost if nothing stood in the way, as in a plan; null if it was not worked out.
    pub packed_afresh: Option<AfreshDocument>,
}

/// Sums over the nodes that are there and the new ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// All nodes.
    pub nodes: usize,
    /// Of these to be launched.
    pub new_nodes: usize,
    /// Price of all nodes whose price is known.
    pub price_per_hour: f64,
    /// The same for 730 hours.
    pub price_per_month: f64,
    /// Pods to be placed.
    pub pods: usize,
    /// Of these without a place.
    pub unschedulable: usize,
}

/// Nodes of one type.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeRow {
    /// The type; null if it is not known.
    pub instance_type: Option<String>,
    /// The capacity type; null if it is not known.
    pub capacity_type: Option<String>,
    /// Nodes without the changes.
    pub before: usize,
    /// Nodes with them.
    pub after: usize,
    /// Their price without the changes.
    pub price_per_hour_before: f64,
    /// Their price with them.
    pub price_per_hour_after: f64,
}

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The node; null for new ones, whose names differ from plan to plan.
    pub node: Option<String>,
    /// Its pool.
    pub node_pool: Option<String>,
    /// Its type.
    pub instance_type: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Its capacity type.
    pub capacity_type: Option<String>,
}

/// A pod with another place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    /// `namespace/name`.
    pub pod: String,
    /// Where it was.
    pub from: Place,
    /// Where it is.
    pub to: Place,
}

/// A pod that lost its place, or that came with the changes and has none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewlyRefused {
    /// `namespace/name`.
    pub pod: String,
    /// Whether it had a place; otherwise it came with the changes.
    pub was_placed: bool,
    /// Why, as in a plan.
    pub reasons: Vec<ReasonDocument>,
}

/// A pod that found a place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewlyPlaced {
    /// `namespace/name`.
    pub pod: String,
    /// Where it is.
    pub to: Place,
}

impl Place {
    fn of(node: &PlanNode) -> Self {
        Self {
            node: node.existing.then(|| node.name.clone()),
            node_pool: node.node_pool.clone(),
            instance_type: node.instance_type.clone(),
            zone: node.zone.clone(),
            capacity_type: node.capacity_type.clone(),
        }
    }
}

impl WhatIf {
    /// Compares; `freed` are pods that ran on nodes which the changes take away.
    pub fn new(changes: Vec<String>, freed: &[(String, String)], before: Side, after: Side) -> Self {
        let (mut was, is) = (places(&before.plan), places(&after.plan));
        for (pod, node) in freed {
            was.extend(place_of(&before.snapshot, node).map(|place| (pod.as_str(), place)));
        }
        let refused_before: std::collections::BTreeSet<&str> =
            before.plan.unschedulable.iter().map(|refused| refused.pod.as_str()).collect();
        let mut pods_moved = Vec::new();
        let mut newly_placed = Vec::new();
        for (pod, to) in &is {
            match was.get(pod) {
                Some(from) if from != to => {
                    pods_moved.push(Moved { pod: (*pod).to_owned(), from: from.clone(), to: to.clone() });
                }
                None if refused_before.contains(pod) => {
                    newly_placed.push(NewlyPlaced { pod: (*pod).to_owned(), to: to.clone() });
                }
                _ => {}
            }
        }
        let newly_refused = after
            .plan
            .unschedulable
            .iter()
            .filter(|refused| !refused_before.contains(refused.pod.as_str()))
            .map(|refused| NewlyRefused {
                pod: refused.pod.clone(),
                was_placed: was.contains_key(refused.pod.as_str()),
                reasons: refused.reasons.clone(),
            })
            .collect();
        Self {
            api_version: "joiner.sh/v1alpha1",
            kind: "WhatIf",
            changes,
            before: totals(&before),
            after: totals(&after),
            nodes_by_type: by_type(&before, &after),
            pods_moved,
            newly_refused,
            newly_placed,
            repack: None,
        }
    }

    /// The comparison with what `--repack` did.
    pub fn with_repacked(
        mut self,
        repacked: Option<(Repacked, Option<AfreshDocument>)>,
        waste_before: f64,
        waste_after: f64,
    ) -> Self {
        self.repack = repacked.map(|(repacked, packed_afresh)| Repack {
            given_up: repacked.given_up,
            stays: repacked.stays,
            waste_per_hour_before: to_nano(waste_before),
            waste_per_hour_after: to_nano(waste_after),
            packed_afresh,
        });
        self
    }
}

fn places(plan: &PlanDocument) -> BTreeMap<&str, Place> {
    let mut places = BTreeMap::new();
    for node in &plan.nodes {
        let place = Place::of(node);
        places.extend(node.pods.iter().map(|pod| (pod.as_str(), place.clone())));
    }
    places
}

/// A node that is there, as a place.
fn place_of(snapshot: &Snapshot, name: &str) -> Option<Place> {
    let node = snapshot.nodes.iter().find(|node| *node.name == *name)?;
    let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    Some(Place {
        node: Some(name.to_owned()),
        node_pool: owned(&node.shown.pool),
        instance_type: owned(&node.shown.instance_type),
        zone: owned(&node.shown.zone),
        capacity_type: owned(&node.shown.capacity_type),
    })
}

type TypeKey = (Option<String>, Option<String>);

/// Every node of a side: type, capacity type and price; those that are there first.
fn nodes(side: &Side) -> impl Iterator<Item = (TypeKey, Option<f64>)> {
    let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let there = side.snapshot.nodes.iter().map(move |node| {
        ((owned(&node.shown.instance_type), owned(&node.shown.capacity_type)), node.shown.price)
    });
    let new = side.plan.nodes.iter().filter(|node| !node.existing);
    there.chain(
        new.map(|node| ((node.instance_type.clone(), node.capacity_type.clone()), node.price_per_hour)),
    )
}

fn totals(side: &Side) -> Totals {
    let price: f64 = nodes(side).filter_map(|(_, price)| price).sum();
    Totals {
        nodes: nodes(side).count(),
        new_nodes: side.plan.totals.new_nodes,
        price_per_hour: to_nano(price),
        price_per_month: to_nano(price * HOURS_PER_MONTH),
        pods: side.plan.totals.pods,
        unschedulable: side.plan.totals.unschedulable,
    }
}

fn by_type(before: &Side, after: &Side) -> Vec<TypeRow> {
    let mut rows: BTreeMap<TypeKey, (usize, usize, f64, f64)> = BTreeMap::new();
    for (key, price) in nodes(before) {
        let row = rows.entry(key).or_default();
        row.0 += 1;
        row.2 += price.unwrap_or(0.0);
    }
    for (key, price) in nodes(after) {
        let row = rows.entry(key).or_default();
        row.1 += 1;
        row.3 += price.unwrap_or(0.0);
    }
    rows.into_iter()
        .map(|((instance_type, capacity_type), (before, after, was, is))| TypeRow {
            instance_type,
            capacity_type,
            before,
            after,
            price_per_hour_before: to_nano(was),
            price_per_hour_after: to_nano(is),
        })
        .collect()
}
