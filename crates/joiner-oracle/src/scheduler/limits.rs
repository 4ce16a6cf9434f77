//! Rule book §6, "Limits": what a pool may still buy.

use super::machine_types::Choice;
use super::pods::NODEPOOL;
use super::state::{Run, State, Template};
use crate::world::Resources;

/// Limits less the capacity of the pool's nodes and of its machines opened in this run.
pub(super) fn remaining(run: &Run<'_>, state: &State<'_>, template: &Template<'_>) -> Resources {
    let mut left = template.pool.limits.clone();
    let mut spend = |capacity: &Resources| {
        for (resource, amount) in &mut left {
            *amount -= if resource == "nodes" { 1 } else { capacity.get(resource).copied().unwrap_or(0) };
        }
    };
    for node in &run.world.nodes {
        let of_pool = run.node_labels.get(&node.name).and_then(|labels| labels.get(NODEPOOL));
        // A node that is leaving no longer counts.
        if of_pool == Some(&template.pool.name) && !node.leaving {
            spend(&node.capacity);
        }
    }
    for machine in state.machines.iter().filter(|machine| machine.pool == template.pool.name) {
        spend(&largest(&machine.choices));
    }
    left
}

/// "An opened machine holds the largest capacity per resource over its remaining types".
fn largest(choices: &[&Choice<'_>]) -> Resources {
    let mut largest = Resources::new();
    for choice in choices {
        for (resource, amount) in &choice.ty.capacity {
            let entry = largest.entry(resource.clone()).or_insert(0);
            *entry = (*entry).max(*amount);
        }
    }
    largest
}

/// Whether a type's capacity stays within what is left (a type without the resource has 0).
pub(super) fn within(choice: &Choice<'_>, left: &Resources) -> bool {
    left.iter()
        .filter(|(resource, _)| *resource != "nodes")
        .all(|(resource, amount)| choice.ty.capacity.get(resource).copied().unwrap_or(0) <= *amount)
}

/// Whether the pool may open one more node.
pub(super) fn may_open(left: &Resources) -> bool {
    left.get("nodes").is_none_or(|nodes| *nodes >= 1)
}
