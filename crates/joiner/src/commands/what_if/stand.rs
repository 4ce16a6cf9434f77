//! All nodes of a side, those that stand and new ones, with what they hold, cost and waste: two tables to be held side by side.

use std::collections::BTreeMap;

use joiner_core::model::names::{CPU, MEMORY};
use joiner_core::model::resources::{add_into, lane_of, sub_into};
use joiner_core::model::{NodeIdx, ResVec, Snapshot};
use joiner_core::plan::Plan;
use joiner_core::waste;

use super::compare::Side;
use crate::show::{self, Table};

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    is_new: bool,
    /// Pool, type, zone, capacity type.
    kind: [Option<String>; 4],
    pods: usize,
    used: [i64; 2],
    room: [i64; 2],
    price: Option<f64>,
    waste: f64,
}

/// All nodes: those that are there, then new ones.
pub fn rows(side: &Side) -> Vec<Row> {
    let (snapshot, plan) = (&side.snapshot, &side.decided);
    let running: BTreeMap<NodeIdx, usize> =
        side.standing.nodes(snapshot).into_iter().map(|row| (row.node, row.pods)).collect();
    let placed: BTreeMap<NodeIdx, &[_]> =
        plan.on_nodes.iter().chain(&plan.kept).map(|(node, pods)| (*node, pods.as_slice())).collect();
    let mut rows = Vec::with_capacity(snapshot.nodes.len() + plan.machines.len());
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let at = NodeIdx::new(at);
        let new = placed.get(&at).copied().unwrap_or_default();
        let mut used = node.shown.allocatable.clone();
        sub_into(&mut used, &node.available);
        for pod in new {
            add_into(&mut used, &snapshot.classes[snapshot.pods[pod.at()].class.at()].requests);
        }
        let text = |value: &Option<Box<str>>| value.as_deref().map(str::to_owned);
        let shown = &node.shown;
        rows.push(row(
            snapshot,
            &used,
            &shown.allocatable,
            shown.price,
            Row {
                is_new: node.bought.is_some(),
                kind: [&shown.pool, &shown.instance_type, &shown.zone, &shown.capacity_type].map(text),
                pods: running.get(&at).copied().unwrap_or(0) + new.len(),
                ..EMPTY
            },
        ));
    }
    // New machines come first in a plan's document.
    for (machine, node) in plan.machines.iter().zip(&side.plan.nodes) {
        let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
        let offering = &catalogue.offerings[machine.offering.at()];
        let kind = [&node.node_pool, &node.instance_type, &node.zone, &node.capacity_type].map(Clone::clone);
        let new = Row { is_new: true, kind, pods: machine.pods.len(), ..EMPTY };
        rows.push(row(snapshot, &Plan::used(machine), &offering.allocatable, Some(offering.price), new));
    }
    rows
}

const EMPTY: Row = Row {
    is_new: false,
    kind: [const { None }; 4],
    pods: 0,
    used: [0; 2],
    room: [0; 2],
    price: None,
    waste: 0.0,
};

fn row(snapshot: &Snapshot, used: &ResVec, room: &ResVec, price: Option<f64>, rest: Row) -> Row {
    let lanes = |amounts: &ResVec| [CPU, MEMORY].map(|lane| lane_of(amounts, lane));
    let share = waste::share(&snapshot.vocabulary.names, used, room);
    let waste = price.unwrap_or(0.0) * share;
    Row { used: lanes(used), room: lanes(room), price, waste, ..rest }
}

/// What all nodes of known price waste together.
pub fn waste(rows: &[Row]) -> f64 {
    rows.iter().map(|row| row.waste).sum()
}

/// One line per group of nodes alike.
pub fn table(rows: &[Row]) -> Table {
    /// New or not, what they are, and whether the price is unknown.
    type Alike<'r> = (bool, &'r [Option<String>; 4], bool);
    let mut groups: BTreeMap<Alike, (usize, Row)> = BTreeMap::new();
    for row in rows {
        let key = (row.is_new, &row.kind, row.price.is_none());
        let (count, sum) = groups.entry(key).or_insert((0, Row { price: row.price.map(|_| 0.0), ..EMPTY }));
        *count += 1;
        sum.pods += row.pods;
        sum.waste += row.waste;
        if let (Some(sum), Some(price)) = (&mut sum.price, row.price) {
            *sum += price;
        }
        for lane in 0..2 {
            sum.used[lane] += row.used[lane];
            sum.room[lane] += row.room[lane];
        }
    }
    let headings = ["NODES", "POOL", "TYPE", "ZONE", "CAPACITY", "PODS", "CPU", "MEMORY", "$/H", "WASTE"];
    let mut table = Table::new(&headings).right(&[5, 6, 7, 8, 9]);
    for ((is_new, kind, _), (count, sum)) in groups {
        let mut line = vec![format!("{} {count}", if is_new { "+" } else { "=" })];
        line.extend(kind.iter().map(|text| text.clone().unwrap_or_else(|| "-".to_owned())));
        line.push(sum.pods.to_string());
        line.push(format!("{}/{}", show::cores(sum.used[0]), show::cores(sum.room[0])));
        line.push(format!("{}/{}", show::bytes(sum.used[1]), show::bytes(sum.room[1])));
        line.push(sum.price.map_or("-".to_owned(), show::money));
        line.push(sum.price.map_or("-".to_owned(), |_| show::money(sum.waste)));
        table.push(line);
    }
    table
}
