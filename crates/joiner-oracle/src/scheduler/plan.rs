//! The outcome in the shape of a plan, so that the checker can read both schedulers' answers alike.

use serde_json::{Value, json};

use super::Outcome;
use super::requirement::stable_labels;
use crate::world::World;

/// Renders the outcome as a `Plan` of `joiner.sh/v1alpha1`: existing nodes that take pods first, then new ones.
pub fn outcome_to_plan(world: &World, outcome: &Outcome) -> Value {
    let mut nodes = Vec::new();
    let mut placed = 0;
    let (mut on_existing, mut on_new) = (Vec::new(), Vec::new());
    let is_kept = |name: &str| outcome.kept.iter().any(|kept| kept.name == name);
    for (name, pods) in outcome.existing.iter().filter(|(name, _)| !is_kept(name)) {
        let labels =
            world.nodes.iter().find(|node| node.name == *name).map(|node| stable_labels(&node.labels));
        let label = |key: &str| labels.as_ref().and_then(|labels| labels.get(key).cloned());
        let (pods, virtual_pods) = apart(pods);
        placed += pods.len();
        on_existing.extend(virtual_pods.clone());
        nodes.push(json!({
            "name": name,
            "nodePool": label("karpenter.sh/nodepool"),
            "instanceType": label("node.kubernetes.io/instance-type"),
            "zone": label("topology.kubernetes.io/zone"),
            "capacityType": label("karpenter.sh/capacity-type"),
            "pricePerHour": null,
            "pods": pods,
            "bufferPods": virtual_pods,
            "existing": true,
            "static": false,
            "instanceTypeOptions": [],
        }));
    }
    let mut price_per_hour = 0.0;
    for kept in &outcome.kept {
        let (pods, virtual_pods) = apart(outcome.existing.get(&kept.name).map_or(&[], Vec::as_slice));
        let (instance_type, zone, capacity_type, price) = &kept.bought;
        placed += pods.len();
        on_new.extend(virtual_pods.clone());
        price_per_hour += price;
        nodes.push(json!({
            "name": kept.name,
            "nodePool": kept.pool,
            "instanceType": instance_type,
            "zone": zone,
            "capacityType": capacity_type,
            "pricePerHour": price,
            "pods": pods,
            "bufferPods": virtual_pods,
            "existing": false,
            "static": true,
            "instanceTypeOptions": [instance_type],
        }));
    }
    for (number, machine) in outcome.machines.iter().enumerate() {
        let (instance_type, zone, capacity_type, price) = &machine.cheapest;
        let (pods, virtual_pods) = apart(&machine.pods);
        placed += pods.len();
        on_new.extend(virtual_pods.clone());
        price_per_hour += price;
        nodes.push(json!({
            "name": new_name(world, &machine.pool, number),
            "nodePool": machine.pool,
            "instanceType": instance_type,
            "zone": zone,
            "capacityType": capacity_type,
            "pricePerHour": price,
            "pods": pods,
            "bufferPods": virtual_pods,
            "existing": false,
            "static": false,
            "instanceTypeOptions": machine.type_names,
        }));
    }
    let unschedulable: Vec<Value> = outcome
        .refused
        .iter()
        .filter(|(pod, _)| !pod.contains("/buffer:"))
        .map(|(pod, reason)| {
            json!({"pod": pod, "reasons": [{"nodePool": null, "code": "Unschedulable", "message": reason}]})
        })
        .collect();
    let buffers: Vec<Value> = world
        .buffers
        .iter()
        .map(|buffer| {
            let (namespace, name) = buffer.name.split_once('/').unwrap_or(("", &buffer.name));
            let mine = |pod: &&String| {
                let prefix = format!("{namespace}/buffer:{name}-");
                pod.strip_prefix(&prefix).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
            };
            let old = on_existing.iter().filter(mine).count();
            let new = on_new.iter().filter(mine).count();
            json!({
                "buffer": buffer.name,
                "replicas": buffer.pods,
                "onExistingNodes": old,
                "onNewNodes": new,
                "unplaced": buffer.pods - old - new,
            })
        })
        .collect();
    json!({
        "apiVersion": "joiner.sh/v1alpha1",
        "kind": "Plan",
        "nodes": nodes,
        "buffers": buffers,
        "totals": {
            "newNodes": outcome.machines.len() + outcome.kept.len(),
            "pricePerHour": price_per_hour,
            "lowerBoundPerHour": null,
            "pods": placed + unschedulable.len(),
            "unschedulable": unschedulable.len(),
        },
        "unschedulable": unschedulable,
    })
}

/// Real pods and virtual ones.
fn apart(pods: &[String]) -> (Vec<String>, Vec<String>) {
    pods.iter().cloned().partition(|pod| !pod.contains("/buffer:"))
}

/// A name for a new machine that no existing node has.
fn new_name(world: &World, pool: &str, number: usize) -> String {
    let mut name = format!("{pool}-{:05}", number + 1);
    while world.nodes.iter().any(|node| node.name == name) {
        name.push_str("-new");
    }
    name
}
