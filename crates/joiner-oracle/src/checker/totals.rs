//! The numbers at the end of a plan.

use super::Violation;
use super::plan::Plan;
use super::seats::close;
use crate::world::World;

pub(super) fn check(plan: &Plan, violations: &mut Vec<Violation>) {
    let new: Vec<_> = plan.nodes.iter().filter(|node| !node.existing).collect();
    let placed: usize = plan.nodes.iter().map(|node| node.pods.len()).sum();
    let price: f64 = new.iter().filter_map(|node| node.price).sum();
    let counts = [
        ("newNodes", plan.totals.new_nodes, new.len()),
        ("unschedulable", plan.totals.unschedulable, plan.unplaced.len()),
        ("pods", plan.totals.pods, placed + plan.unplaced.len()),
    ];
    for (field, stated, counted) in counts {
        if stated.and_then(|n| usize::try_from(n).ok()) != Some(counted) {
            let message = format!("`totals.{field}` is {stated:?}, counted are {counted}");
            violations.push(Violation::new("totals", message));
        }
    }
    if !plan.totals.price.is_some_and(|stated| close(stated, price)) {
        let message = format!("`totals.pricePerHour` is {:?}, the new nodes cost {price}", plan.totals.price);
        violations.push(Violation::new("totals", message));
    }
    let used_existing = plan.nodes.iter().any(|node| node.existing && !node.pods.is_empty());
    if let Some(bound) = plan.totals.lower_bound
        && !used_existing
        && bound > price * (1.0 + 1e-6) + 1e-9
    {
        let message = format!("the lower bound {bound} is above the price {price}");
        violations.push(Violation::new("lower-bound", message));
    }
}

/// What the plan says of buffers must be what its nodes show.
pub(super) fn buffers(world: &World, plan: &Plan, violations: &mut Vec<Violation>) {
    let names: Vec<&str> = plan.buffers.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<&str> = world.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
    if names != expected {
        let message = format!("the plan lists the buffers {names:?}, there are {expected:?}");
        violations.push(Violation::new("buffers", message));
        return;
    }
    for (buffer, (name, stated)) in world.buffers.iter().zip(&plan.buffers) {
        let (namespace, short) = name.split_once('/').unwrap_or(("", name));
        let prefix = format!("{namespace}/buffer:{short}-");
        let mine = |pod: &&String| {
            pod.strip_prefix(&prefix).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let on = |existing: bool| {
            let nodes = plan.nodes.iter().filter(|node| node.existing == existing);
            nodes.flat_map(|node| &node.virtual_pods).filter(mine).count() as u64
        };
        let (all, old, new) = (buffer.pods as u64, on(true), on(false));
        let counted = [all, old, new, all.saturating_sub(old + new)];
        if *stated != counted {
            let message = format!("buffer `{name}` is stated as {stated:?}, counted are {counted:?}");
            violations.push(Violation::new("buffers", message));
        }
    }
}
