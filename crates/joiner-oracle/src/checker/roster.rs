//! Who is where: every waiting pod must be accounted for exactly once.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::plan::Plan;
use crate::world::{Pod, World};

/// The waiting pods by `namespace/name`.
pub(super) type Roster<'w> = BTreeMap<String, &'w Pod>;

/// `namespace/name`.
pub(super) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// Calls the roll.
pub(super) fn call<'w>(world: &'w World, plan: &Plan, violations: &mut Vec<Violation>) -> Roster<'w> {
    let waiting: Roster<'w> = world
        .pods
        .iter()
        .filter(|pod| pod.node_name.is_none() && !pod.is_daemon)
        .map(|pod| (full_name(pod), pod))
        .collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for node in &plan.nodes {
        let real = node.pods.iter().map(|name| (name, false));
        for (name, of_buffer) in real.chain(node.virtual_pods.iter().map(|name| (name, true))) {
            if !seen.insert(name) {
                violations
                    .push(Violation::new("pod-twice", "the pod appears twice").pod(name).node(&node.name));
            }
            match waiting.get(name).filter(|pod| pod.filler == of_buffer) {
                None => violations.push(
                    Violation::new("pod-unknown", "no pod of this name waits for a node")
                        .pod(name)
                        .node(&node.name),
                ),
                Some(pod) => {
                    if let Some(why) = &pod.refused {
                        violations
                            .push(Violation::new("pod-refused", why.clone()).pod(name).node(&node.name));
                    }
                }
            }
        }
    }
    for entry in &plan.unplaced {
        if !seen.insert(&entry.pod) {
            violations.push(Violation::new("pod-twice", "the pod appears twice").pod(&entry.pod));
        }
        if waiting.get(&entry.pod).is_none_or(|pod| pod.filler) {
            let message = "no pod of this name waits for a node";
            violations.push(Violation::new("pod-unknown", message).pod(&entry.pod));
        }
        if entry.reasons == 0 {
            violations.push(Violation::new("reason-missing", "no reason is given").pod(&entry.pod));
        }
    }
    // A virtual pod without a place is only counted.
    for (name, _) in waiting.iter().filter(|(_, pod)| !pod.filler) {
        if !seen.contains(name.as_str()) {
            let message = "the pod is neither placed nor listed as unschedulable";
            violations.push(Violation::new("pod-forgotten", message).pod(name));
        }
    }
    waiting
}
