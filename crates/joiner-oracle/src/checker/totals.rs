//! The numbers at the end of a plan.

use super::Violation;
use super::plan::Plan;
use super::seats::close;

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
