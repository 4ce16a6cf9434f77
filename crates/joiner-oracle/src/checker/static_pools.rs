//! Machines that pools of a fixed size lack: as many as are missing, and the cheapest.

use super::Violation;
use super::seats::{Kind, POOL, Seat, close};
use crate::scheduler::requirement::{conjunction, from_selector, overlap};
use crate::world::{Pool, World};

pub(super) fn check(world: &World, seats: &[Seat<'_>], violations: &mut Vec<Violation>) {
    for (index, pool) in world.pools.iter().enumerate() {
        let new: Vec<&Seat<'_>> = seats
            .iter()
            .filter(|seat| matches!(seat.kind, Kind::New { pool, .. } if pool == index))
            .collect();
        for seat in new.iter().filter(|seat| seat.plan.kept != pool.replicas.is_some()) {
            let message = format!("pool `{}` and the node differ on whether it is static", pool.name);
            violations.push(Violation::new("static-stray", message).node(&seat.plan.name));
        }
        let Some(wanted) = pool.replicas else { continue };
        let nodes = || world.nodes.iter().filter(|node| node.labels.get(POOL) == Some(&pool.name));
        let active = nodes().filter(|node| !node.leaving).count() as i128;
        let standing = nodes().filter(|node| !node.deleting).count() as i128;
        let mut missing = if standing < i128::from(wanted) { i128::from(wanted) - active } else { 0 };
        if let Some(limit) = pool.limits.get("nodes") {
            missing = missing.min((limit - nodes().count() as i128).max(0));
        }
        let cheapest = list_price(world, pool);
        let offered = cheapest.is_some();
        // Without an offering outside reservations there may be too few units.
        if new.len() as i128 > missing || (offered && (new.len() as i128) < missing) {
            let message =
                format!("pool `{}` lacks {missing} machines, the plan buys {}", pool.name, new.len());
            violations.push(Violation::new("static-count", message));
        }
        for seat in new {
            if let (Kind::New { offering, .. }, Some(cheapest)) = (&seat.kind, cheapest)
                && offering.price > cheapest
                && !close(offering.price, cheapest)
            {
                let message = format!("bought at {}, there is an offering at {cheapest}", offering.price);
                violations.push(Violation::new("static-cheapest", message).node(&seat.plan.name));
            }
        }
    }
}

/// The lowest price, reservations aside, of what the pool's template allows.
fn list_price(world: &World, pool: &Pool) -> Option<f64> {
    let mut template = conjunction(&pool.requirements);
    for (key, requirement) in &from_selector(&pool.labels) {
        crate::scheduler::requirement::add(&mut template, key, requirement);
    }
    if template.values().any(crate::scheduler::requirement::Requirement::is_empty) {
        return None;
    }
    let types =
        world.types_of(&pool.name).iter().filter(|ty| overlap(&conjunction(&ty.requirements), &template));
    types
        .flat_map(|ty| &ty.offerings)
        .filter(|offering| offering.available && offering.reservation.is_none())
        .filter(|offering| overlap(&conjunction(&offering.requirements), &template))
        .map(|offering| offering.price)
        .min_by(f64::total_cmp)
}
