//! What a limit of a heavier pool may mean: who goes to a lighter one, and who does not.
//!
//! The rule compares two plans: that of the rule book, which says where a pod goes first, and another one for the same world. A pod may be on a lighter
//! pool than the rule book gives it only if the heavier ones are used up for it: it fits onto none of their machines, and none of them could launch
//! one more for it. Both are asked in the plainest way: the pod is moved there, and the plan judged by all other rules.
//!
//! Nothing is said where other rules than weights may decide: where pods have preferences or topology keys beside zone and host, of pods with volumes or
//! several required terms, of pools with `minValues` or a `PreferNoSchedule` taint, of reservations. Where pods have rules by zone, a pod
//! is asked about its own zone only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::seats::{CAPACITY_TYPE, HOSTNAME, ZONE, offered};
use super::{Policy, Violation, check_with};
use crate::world::{Pod, Pool, Resources, World};

/// Rules about how a plan is written, not about what fits: a plan that was only meddled with breaks them.
const OF_FORM: [&str; 8] = [
    "totals",
    "lower-bound",
    "node-empty",
    "options-missing",
    "option-unknown",
    "option-unfit",
    "option-order",
    "not-cheapest",
];

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looked {
    /// Pods on a lighter pool than the rule book's.
    pub pods: usize,
    /// Places they were tried at.
    pub places: usize,
}

/// Pods that `plan` has on a lighter pool than `rule_book` has them, though a heavier one could take them.
pub fn check_weights(
    world: &World,
    plan: &Value,
    rule_book: &Value,
    policy: Policy,
) -> (Vec<Violation>, Looked) {
    let mut violations = Vec::new();
    let mut looked = Looked::default();
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for pod in &world.pods {
        let soft = pod.spread.iter().any(|spread| !spread.hard);
        let prefers = !pod.preferred_terms.is_empty()
            || !pod.preferred_affinity.is_empty()
            || !pod.preferred_anti_affinity.is_empty();
        if pod.node_name.is_none() && (soft || prefers) {
            return (violations, looked);
        }
        keys.extend(pod.spread.iter().map(|spread| spread.key.as_str()));
        keys.extend(pod.affinity.iter().chain(&pod.anti_affinity).map(|term| term.key.as_str()));
    }
    let by_zone = keys.remove(ZONE);
    keys.remove(HOSTNAME);
    if !keys.is_empty() {
        return (violations, looked);
    }
    let before = weights_of(world, rule_book);
    let pods: BTreeMap<String, &Pod> =
        world.pods.iter().map(|pod| (format!("{}/{}", pod.namespace, pod.name), pod)).collect();
    for (name, (weight, zone)) in &weights_of(world, plan) {
        let Some(pod) = pods.get(name) else { continue };
        let several = pod.required_terms.as_ref().is_some_and(|terms| terms.len() > 1);
        if several || !pod.volumes.is_empty() || before.get(name).is_none_or(|(was, _)| was <= weight) {
            continue;
        }
        looked.pods += 1;
        let zone = by_zone.then_some(zone.as_str());
        for probe in probes(world, plan, name, pod, *weight, zone) {
            looked.places += 1;
            let broken = check_with(world, &probe.plan, policy);
            if broken.iter().all(|violation| OF_FORM.contains(&violation.rule)) {
                let message =
                    format!("is on a pool of weight {weight}, but would have a place {}", probe.place);
                violations.push(Violation::new("weights", message).pod(name));
                break;
            }
        }
    }
    (violations, looked)
}

/// Pods on machines that are opened for them, with the weight of the pool and the zone.
fn weights_of(world: &World, plan: &Value) -> BTreeMap<String, (i32, String)> {
    let mut found = BTreeMap::new();
    for node in plan["nodes"].as_array().into_iter().flatten() {
        let Some(pool) = opened_by(world, node) else { continue };
        for pod in node["pods"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let zone = node["zone"].as_str().unwrap_or_default();
            found.insert(pod.to_owned(), (pool.weight, zone.to_owned()));
        }
    }
    found
}

fn opened_by<'w>(world: &'w World, node: &Value) -> Option<&'w Pool> {
    if node["existing"] == true || node["static"] == true {
        return None;
    }
    world.pools.iter().find(|pool| node["nodePool"] == pool.name.as_str())
}

/// A plan with the pod elsewhere.
struct Probe {
    plan: Value,
    place: String,
}

fn probes(world: &World, plan: &Value, name: &str, pod: &Pod, weight: i32, zone: Option<&str>) -> Vec<Probe> {
    let asked = |pool: &Pool| {
        pool.weight > weight
            && pool.replicas.is_none()
            && pool.requirements.iter().all(|requirement| requirement.min_values.is_none())
            && pool.taints.iter().all(|taint| taint.effect != "PreferNoSchedule")
    };
    let mut without = plan.clone();
    for node in without["nodes"].as_array_mut().into_iter().flatten() {
        if let Some(pods) = node["pods"].as_array_mut() {
            pods.retain(|listed| listed != name);
        }
    }
    let mut found = Vec::new();
    for (at, node) in plan["nodes"].as_array().into_iter().flatten().enumerate() {
        let fits = opened_by(world, node).is_some_and(asked) && zone.is_none_or(|zone| node["zone"] == zone);
        if fits && node["capacityType"] != "reserved" {
            let mut plan = without.clone();
            if let Some(pods) = plan["nodes"][at]["pods"].as_array_mut() {
                pods.push(json!(name));
            }
            found.push(Probe { plan, place: format!("on node `{}`", node["name"].as_str().unwrap_or("")) });
        }
    }
    for pool in world.pools.iter().filter(|pool| asked(pool)) {
        let left = left_of(world, pool, plan);
        for instance_type in world.types_of(&pool.name) {
            let large = |name: &String| {
                instance_type.allocatable.get(name).copied().unwrap_or(0)
                    >= pod.requests.get(name).copied().unwrap_or(0)
            };
            let within = |(name, left): (&String, &i128)| {
                instance_type.capacity.get(name).copied().unwrap_or(0) <= *left
            };
            if !pod.requests.keys().all(large) || !left.iter().all(within) {
                continue;
            }
            for offering in &instance_type.offerings {
                let of = |key: &str| offered(offering, key).unwrap_or_default();
                if !offering.available
                    || offering.reservation.is_some()
                    || zone.is_some_and(|zone| zone != of(ZONE))
                {
                    continue;
                }
                let mut plan = without.clone();
                let node = json!({
                    "name": "one-more", "nodePool": pool.name, "instanceType": instance_type.name, "zone": of(ZONE),
                    "capacityType": of(CAPACITY_TYPE), "pricePerHour": offering.price, "pods": [name],
                    "existing": false, "static": false, "instanceTypeOptions": [instance_type.name],
                });
                if let Some(nodes) = plan["nodes"].as_array_mut() {
                    nodes.push(node);
                }
                let place = format!("on a new `{}` of pool `{}`", instance_type.name, pool.name);
                found.push(Probe { plan, place });
            }
        }
    }
    found
}

/// What a plan leaves of a pool's limits, machines counted with the types they were planned as.
fn left_of(world: &World, pool: &Pool, plan: &Value) -> Resources {
    let mut left = pool.limits.clone();
    for node in plan["nodes"].as_array().into_iter().flatten() {
        if opened_by(world, node).is_some_and(|other| other.name == pool.name) {
            let types = world.types_of(&pool.name).iter();
            for instance_type in types.filter(|known| node["instanceType"] == known.name.as_str()) {
                for (name, left) in &mut left {
                    *left -= instance_type.capacity.get(name).copied().unwrap_or(0);
                }
            }
        }
    }
    left.remove("nodes");
    left
}
