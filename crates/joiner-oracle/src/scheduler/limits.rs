//! Rule book §6, "Limits": what a pool may still buy, and what happens between passes.

use std::collections::BTreeMap;

use super::machine_types::{self, Choice};
use super::pods::NODEPOOL;
use super::state::{OpenMachine, Run, State, Template};
use super::{nano, reservations, volumes};
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

/// Between passes: every machine counts as what it is bought as.
pub(super) fn buy(run: &Run<'_>, state: &mut State<'_>) {
    for machine in &mut state.machines {
        let Some(template) = run.template(&machine.pool) else { continue };
        if template.pool.limits.keys().all(|resource| resource == "nodes") {
            continue;
        }
        let before = machine.choices.clone();
        reservations::narrow_to_held(machine);
        let most = bought_as(template, machine);
        machine.choices.retain(|choice| within(choice, &most));
        let left = &machine.choices;
        machine.held.retain(|id| {
            left.iter().any(|choice| choice.offering.reservation.as_ref().is_some_and(|(own, _)| own == id))
        });
        if machine.choices.len() < before.len() {
            machine.wide.get_or_insert(before);
        }
    }
}

/// The most of each limited resource over the machine's types from the cheapest on (ties by name), as many as it takes until those that have no more than this
/// have minValues.
fn bought_as(template: &Template<'_>, machine: &OpenMachine<'_>) -> Resources {
    let mut prices: BTreeMap<&str, i128> = BTreeMap::new();
    for choice in &machine.choices {
        let price = prices.entry(&choice.ty.name).or_insert(i128::MAX);
        *price = (*price).min(nano(choice.offering.price));
    }
    let mut names: Vec<(i128, &str)> = prices.into_iter().map(|(name, price)| (price, name)).collect();
    names.sort_unstable();
    let mut most: Resources = template.pool.limits.keys().map(|resource| (resource.clone(), 0)).collect();
    for (_, name) in names {
        for choice in machine.choices.iter().filter(|choice| choice.ty.name == name) {
            for (resource, most) in &mut most {
                *most = (*most).max(choice.ty.capacity.get(resource).copied().unwrap_or(0));
            }
        }
        let inside: Vec<&Choice<'_>> =
            machine.choices.iter().copied().filter(|choice| within(choice, &most)).collect();
        let enough = machine.min_values.iter().all(|(key, number)| {
            machine_types::distinct_values(&machine.requirements, &inside, key) >= *number
        });
        if enough {
            break;
        }
    }
    most
}

/// At the end: trimmed machines take back what still fits, in the order of their opening.
pub(super) fn give_back<'r>(run: &'r Run<'r>, state: &mut State<'r>) {
    for number in 0..state.machines.len() {
        let Some(at) = state.machines.iter().position(|machine| machine.number == number) else { continue };
        let machine = state.machines[at].clone();
        let (Some(template), Some(wide)) = (run.template(&machine.pool), &machine.wide) else { continue };
        let mut most = largest(&machine.choices);
        for (resource, left) in remaining(run, state, template) {
            *most.entry(resource).or_insert(0) += left;
        }
        most.retain(|resource, _| template.pool.limits.contains_key(resource));
        let mut back = machine_types::remaining(run, template, &machine.requirements, wide, &machine.pods);
        back.retain(|choice| {
            let of_reservation = |(id, _): &(String, u32)| machine.held.contains(id);
            let held = choice.offering.reservation.as_ref().is_some_and(of_reservation);
            (machine.held.is_empty() || held)
                && volumes::attaches(choice.ty, &machine.pods)
                && within(choice, &most)
                && !machine.choices.iter().any(|own| std::ptr::eq(*own, *choice))
        });
        state.machines[at].choices.extend(back);
    }
}
