//! The outcome in the shape of a plan, so that the checker can read both schedulers' answers alike.

use serde_json::{Value, json};

use super::Outcome;
use super::requirement::stable_labels;
use crate::world::World;

/// Renders the outcome as a `Plan` of `joiner.sh/v1alpha1`: existing nodes that take pods first, then new ones.
pub fn outcome_to_plan(world: &World, outcome: &Outcome) -> Value {
    let mut nodes = Vec::new();
    let mut placed = 0;
    for (name, pods) in &outcome.existing {
        let labels =
            world.nodes.iter().find(|node| node.name == *name).map(|node| stable_labels(&node.labels));
        let label = |key: &str| labels.as_ref().and_then(|labels| labels.get(key).cloned());
        placed += pods.len();
        nodes.push(json!({
            "name": name,
            "nodePool": label("karpenter.sh/nodepool"),
            "instanceType": label("node.kubernetes.io/instance-type"),
            "zone": label("topology.kubernetes.io/zone"),
            "capacityType": label("karpenter.sh/capacity-type"),
            "pricePerHour": null,
            "pods": pods,
            "existing": true,
            "instanceTypeOptions": [],
        }));
    }
    let mut price_per_hour = 0.0;
    for (number, machine) in outcome.machines.iter().enumerate() {
        let (instance_type, zone, capacity_type, price) = &machine.cheapest;
        placed += machine.pods.len();
        price_per_hour += price;
        nodes.push(json!({
            "name": new_name(world, &machine.pool, number),
            "nodePool": machine.pool,
            "instanceType": instance_type,
            "zone": zone,
            "capacityType": capacity_type,
            "pricePerHour": price,
            "pods": machine.pods,
            "existing": false,
            "instanceTypeOptions": machine.type_names,
        }));
    }
    let unschedulable: Vec<Value> = outcome
        .refused
        .iter()
        .map(|(pod, reason)| {
            json!({"pod": pod, "reasons": [{"nodePool": null, "code": "Unschedulable", "message": reason}]})
        })
        .collect();
    json!({
        "apiVersion": "joiner.sh/v1alpha1",
        "kind": "Plan",
        "nodes": nodes,
        "totals": {
            "newNodes": outcome.machines.len(),
            "pricePerHour": price_per_hour,
            "lowerBoundPerHour": null,
            "pods": placed + outcome.refused.len(),
            "unschedulable": unschedulable.len(),
        },
        "unschedulable": unschedulable,
    })
}

/// A name for a new machine that no existing node has.
fn new_name(world: &World, pool: &str, number: usize) -> String {
    let mut name = format!("{pool}-{:05}", number + 1);
    while world.nodes.iter().any(|node| node.name == name) {
        name.push_str("-new");
    }
    name
}
