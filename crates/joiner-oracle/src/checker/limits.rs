//! Rules over all nodes of a pool or of a reservation.

use std::collections::BTreeMap;

use super::Violation;
use super::seats::{CAPACITY_TYPE, Kind, POOL, Seat, ZONE, offered};
use crate::world::{Resources, World};

pub(super) fn check(world: &World, seats: &[Seat<'_>], violations: &mut Vec<Violation>) {
    for (index, pool) in world.pools.iter().enumerate() {
        let new: Vec<&Seat<'_>> = seats
            .iter()
            .filter(|seat| matches!(seat.kind, Kind::New { pool, .. } if pool == index))
            .collect();
        if new.is_empty() || pool.limits.is_empty() {
            // Use above a limit that was lowered is nobody's fault as long as nothing is added.
            continue;
        }
        let mut used = Resources::new();
        let standing = world.nodes.iter().filter(|node| node.labels.get(POOL) == Some(&pool.name));
        for node in standing.filter(|node| !node.leaving) {
            grow(&mut used, &node.capacity);
        }
        let mut at_most = used.clone();
        for seat in new {
            if let Kind::New { instance_type, .. } = seat.kind {
                grow(&mut used, &instance_type.capacity);
                // Any of the options may be launched, so the largest of each resource must fit.
                let mut largest = instance_type.capacity.clone();
                let types = world.types_of(&pool.name).iter();
                let options = types.filter(|t| seat.plan.options.contains(&t.name));
                for (name, amount) in options.flat_map(|option| &option.capacity) {
                    let most = largest.entry(name.clone()).or_insert(0);
                    *most = (*most).max(*amount);
                }
                grow(&mut at_most, &largest);
            }
        }
        for (rule, sum, what) in [
            ("limits", &used, "with the chosen types"),
            ("limits-options", &at_most, "with the largest of the options"),
        ] {
            for (name, limit) in &pool.limits {
                let sum = sum.get(name).copied().unwrap_or(0);
                if sum > *limit {
                    let message = format!(
                        "pool `{}` would have {sum} of `{name}` {what}, the limit is {limit}",
                        pool.name
                    );
                    violations.push(Violation::new(rule, message));
                }
            }
        }
    }
    reservations(seats, violations);
}

fn grow(sum: &mut Resources, capacity: &Resources) {
    for (name, amount) in capacity.iter().filter(|(name, _)| *name != "nodes") {
        *sum.entry(name.clone()).or_insert(0) += amount;
    }
    *sum.entry("nodes".to_owned()).or_insert(0) += 1;
}

/// Every node bought from a reservation needs a unit of its own. Which reservation a node uses is not in the plan, so any assignment
/// of nodes to reservations of the same type, zone and price will do.
fn reservations(seats: &[Seat<'_>], violations: &mut Vec<Violation>) {
    let mut units: BTreeMap<&str, u32> = BTreeMap::new();
    let mut wanted: Vec<(&str, Vec<&str>)> = Vec::new();
    for seat in seats {
        let Kind::New { instance_type, offering, .. } = seat.kind else { continue };
        if offering.reservation.is_none() {
            continue;
        }
        let mut ids = Vec::new();
        for other in instance_type.offerings.iter().filter(|other| {
            other.available
                && [ZONE, CAPACITY_TYPE].iter().all(|key| offered(other, key) == offered(offering, key))
        }) {
            if let Some((id, left)) = &other.reservation {
                ids.push(id.as_str());
                units.entry(id).and_modify(|known| *known = (*known).min(*left)).or_insert(*left);
            }
        }
        wanted.push((&seat.plan.name, ids));
    }
    let mut holders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for node in 0..wanted.len() {
        if !assign(node, &wanted, &units, &mut holders, &mut Vec::new()) {
            let message = "no unit of a reservation is left for this node";
            violations.push(Violation::new("reservations", message).node(wanted[node].0));
        }
    }
}

/// Gives a node a unit, moving earlier nodes to other reservations where that helps.
fn assign<'w>(
    node: usize,
    wanted: &[(&'w str, Vec<&'w str>)],
    units: &BTreeMap<&'w str, u32>,
    holders: &mut BTreeMap<&'w str, Vec<usize>>,
    tried: &mut Vec<&'w str>,
) -> bool {
    for id in &wanted[node].1 {
        if tried.contains(id) {
            continue;
        }
        tried.push(id);
        let current = holders.entry(id).or_default().clone();
        let free = current.len() < usize::try_from(units.get(id).copied().unwrap_or(0)).unwrap_or(usize::MAX);
        if free {
            holders.entry(id).or_default().push(node);
            return true;
        }
        for holder in current {
            if assign(holder, wanted, units, holders, tried) {
                let seats = holders.entry(id).or_default();
                seats.retain(|other| *other != holder);
                seats.push(node);
                return true;
            }
        }
    }
    false
}
