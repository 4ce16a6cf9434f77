//! Pods refused for a limit that had room.
//!
//! A limit may keep a pod out only if no choice of types for the machines of the pool helps: those of the plan with the pods they have, one of them or one more
//! with the refused pod. It is asked in the plainest way. For every machine, every type that holds it is tried on the plan as it is; then all choices of what
//! machines may become at most are gone through, and the first that stays within the limits is handed to the checker as a plan. What the checker accepts could have been planned.
//!
//! Meant for small clusters. Nothing is said of pods with preferences or volumes: other rules than limits may refuse these.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::seats::{CAPACITY_TYPE, ZONE, offered};
use super::{Looked, Policy, Violation, check_with};
use crate::world::{Pool, Resources, World};

/// Rules that a plan which was only meddled with breaks, though all that it places has its place.
const OF_FORM: [&str; 8] = [
    "totals",
    "lower-bound",
    "pod-forgotten",
    "options-missing",
    "option-order",
    "not-cheapest",
    "format",
    "reason-missing",
];

/// Pods that a plan refuses for a limit, though its machines could be chosen so that there is room. Says how many pods and places were looked at.
pub fn check_refusals(world: &World, plan: &Value, policy: Policy) -> (Vec<Violation>, Looked) {
    let mut violations = Vec::new();
    let mut looked = Looked::default();
    for entry in plan["unschedulable"].as_array().into_iter().flatten() {
        let Some(name) = entry["pod"].as_str() else { continue };
        let of_pod = |pod: &&crate::world::Pod| format!("{}/{}", pod.namespace, pod.name) == name;
        let Some(pod) = world.pods.iter().find(of_pod) else { continue };
        let prefers = !pod.preferred_terms.is_empty()
            || !pod.preferred_affinity.is_empty()
            || !pod.preferred_anti_affinity.is_empty()
            || pod.spread.iter().any(|spread| !spread.hard);
        if prefers || !pod.volumes.is_empty() || pod.refused.is_some() {
            continue;
        }
        looked.pods += 1;
        let limited = |pool: &&Pool| pool.replicas.is_none() && !pool.limits.is_empty();
        for pool in world.pools.iter().filter(limited) {
            let Some(place) = Question { world, policy, plan, pool, pod: name }.place(&mut looked) else {
                continue;
            };
            let message = format!("is refused for a limit, but would have a place {place}");
            violations.push(Violation::new("limit-has-room", message).pod(name));
            break;
        }
    }
    (violations, looked)
}

/// Whether a pool has a place for a pod beside the machines of a plan.
struct Question<'a> {
    world: &'a World,
    policy: Policy,
    plan: &'a Value,
    pool: &'a Pool,
    pod: &'a str,
}

/// One type that a machine could be, as it stands in a plan.
#[derive(Clone)]
struct Candidate {
    name: String,
    capacity: Resources,
    zone: String,
    capacity_type: String,
    price: f64,
}

/// What a machine may become: a list of types, and the most of each resource among them.
struct Row {
    types: Vec<Candidate>,
    most: Vec<i128>,
}

impl Question<'_> {
    fn place(&self, looked: &mut Looked) -> Option<String> {
        let nodes = self.plan["nodes"].as_array()?;
        let own: Vec<usize> = (0..nodes.len())
            .filter(|at| {
                let node = &nodes[*at];
                node["existing"] != true
                    && node["static"] != true
                    && node["nodePool"] == self.pool.name.as_str()
            })
            .collect();
        // What others could be does not depend on where the pod goes.
        let alone: Vec<Vec<Row>> = own.iter().map(|at| self.rows(self.plan, *at)).collect();
        for position in 0..=own.len() {
            let mut plan = self.plan.clone();
            if let Some(list) = plan["unschedulable"].as_array_mut() {
                list.retain(|entry| entry["pod"] != self.pod);
            }
            let target = own.get(position).copied().unwrap_or(nodes.len());
            let list = plan["nodes"].as_array_mut()?;
            match list.get_mut(target) {
                Some(node) => node["pods"].as_array_mut()?.push(json!(self.pod)),
                None => list.push(json!({
                    "name": "one-more", "nodePool": self.pool.name, "pods": [self.pod], "existing": false, "static": false,
                })),
            }
            looked.places += 1;
            let with_pod = self.rows(&plan, target);
            let mut machines: Vec<(usize, &[Row])> = own
                .iter()
                .zip(&alone)
                .filter(|(at, _)| **at != target)
                .map(|(at, rows)| (*at, &rows[..]))
                .collect();
            machines.push((target, &with_pod));
            let nodes_left = self
                .pool
                .limits
                .get("nodes")
                .is_none_or(|most| machines.len() as i128 + self.standing("nodes") <= *most);
            if nodes_left && self.choose(&plan, &machines, &mut Vec::new()) {
                return Some(match own.get(position) {
                    Some(at) => format!("on node `{}`", nodes[*at]["name"].as_str().unwrap_or("")),
                    None => format!("on a new node of pool `{}`", self.pool.name),
                });
            }
        }
        None
    }

    /// Limits but that of nodes, in order.
    fn limits(&self) -> impl Iterator<Item = (&String, &i128)> {
        self.pool.limits.iter().filter(|(resource, _)| *resource != "nodes")
    }

    /// What nodes of the pool that stand have of a resource.
    fn standing(&self, resource: &str) -> i128 {
        let of_pool = |node: &&crate::world::Node| {
            !node.leaving && node.labels.get(super::seats::POOL) == Some(&self.pool.name)
        };
        let one = |node: &crate::world::Node| match resource {
            "nodes" => 1,
            _ => node.capacity.get(resource).copied().unwrap_or(0),
        };
        self.world.nodes.iter().filter(of_pool).map(one).sum()
    }

    /// Every choice of what one node of a plan may become, least first; those that contain another with less are left out.
    fn rows(&self, plan: &Value, at: usize) -> Vec<Row> {
        let types = self.candidates(plan, at);
        let resources: Vec<&String> = self.limits().map(|(resource, _)| resource).collect();
        let amounts = |candidate: &Candidate| -> Vec<i128> {
            resources.iter().map(|resource| candidate.capacity.get(*resource).copied().unwrap_or(0)).collect()
        };
        // Every bound is that of some type in some resource.
        let mut bounds: Vec<Vec<i128>> = vec![Vec::new()];
        for at in 0..resources.len() {
            let steps: BTreeSet<i128> = types.iter().map(|candidate| amounts(candidate)[at]).collect();
            let longer = |bound: &Vec<i128>| {
                let bound = bound.clone();
                steps.clone().into_iter().map(move |step| [bound.clone(), vec![step]].concat())
            };
            bounds = bounds.iter().flat_map(longer).collect();
        }
        let below = |a: &[i128], b: &[i128]| a.iter().zip(b).all(|(a, b)| a <= b);
        bounds.sort();
        let mut rows: Vec<Row> = Vec::new();
        for most in bounds {
            let inside: Vec<Candidate> =
                types.iter().filter(|candidate| below(&amounts(candidate), &most)).cloned().collect();
            if inside.is_empty() || rows.iter().any(|known| below(&known.most, &most)) {
                continue;
            }
            let tried = with_node(plan, at, &inside);
            let enough = !check_with(self.world, &tried, self.policy).iter().any(|v| v.rule == "min-values");
            if enough {
                rows.push(Row { types: inside, most });
            }
        }
        rows
    }

    /// The types that one node of a plan could be, by price.
    fn candidates(&self, plan: &Value, at: usize) -> Vec<Candidate> {
        let node = &plan["nodes"][at];
        let mut found: Vec<Candidate> = Vec::new();
        for instance_type in self.world.types_of(&self.pool.name) {
            let mut offerings: Vec<_> = instance_type
                .offerings
                .iter()
                .filter(|offering| offering.available && offering.reservation.is_none())
                .map(|offering| Candidate {
                    name: instance_type.name.clone(),
                    capacity: instance_type.capacity.clone(),
                    zone: offered(offering, ZONE).unwrap_or_default().to_owned(),
                    capacity_type: offered(offering, CAPACITY_TYPE).unwrap_or_default().to_owned(),
                    price: offering.price,
                })
                .collect();
            // As it is planned, if possible.
            offerings
                .sort_by_key(|one| (node["zone"] != one.zone, node["capacityType"] != one.capacity_type));
            let fits = |one: &&Candidate| {
                let tried = with_node(plan, at, std::slice::from_ref(*one));
                let broken = check_with(self.world, &tried, self.policy);
                broken.iter().all(|violation| {
                    OF_FORM.contains(&violation.rule)
                        || ["limits", "limits-options", "min-values"].contains(&violation.rule)
                        || violation.node.as_ref().is_some_and(|other| node["name"] != other.as_str())
                })
            };
            found.extend(offerings.iter().find(fits).cloned());
        }
        found.sort_by(|a, b| a.price.total_cmp(&b.price).then(a.name.cmp(&b.name)));
        found
    }

    /// Goes through all choices of rows, and hands those that stay within the limits to the checker.
    fn choose(&self, plan: &Value, machines: &[(usize, &[Row])], chosen: &mut Vec<usize>) -> bool {
        let within = self.limits().enumerate().all(|(resource, (name, most))| {
            let taken = chosen.iter().zip(machines).map(|(row, (_, rows))| rows[*row].most[resource]);
            // Whoever is not chosen yet takes the least it can.
            let rest = machines[chosen.len()..].iter().map(|(_, rows)| {
                rows.iter().map(|row| row.most[resource]).min().unwrap_or(i128::from(i64::MAX))
            });
            self.standing(name) + taken.sum::<i128>() + rest.sum::<i128>() <= *most
        });
        if !within {
            return false;
        }
        let Some((_, rows)) = machines.get(chosen.len()) else {
            let mut plan = plan.clone();
            for (row, (at, rows)) in chosen.iter().zip(machines) {
                plan = with_node(&plan, *at, &rows[*row].types);
            }
            let broken = check_with(self.world, &plan, self.policy);
            return broken.iter().all(|violation| OF_FORM.contains(&violation.rule));
        };
        (0..rows.len()).any(|row| {
            chosen.push(row);
            let found = self.choose(plan, machines, chosen);
            chosen.pop();
            found
        })
    }
}

/// A plan in which one node is the first of some types and may be any of them.
fn with_node(plan: &Value, at: usize, types: &[Candidate]) -> Value {
    let mut plan = plan.clone();
    if let Some(first) = types.first() {
        let node = &mut plan["nodes"][at];
        node["instanceType"] = json!(first.name);
        node["zone"] = json!(first.zone);
        node["capacityType"] = json!(first.capacity_type);
        node["pricePerHour"] = json!(first.price);
        node["instanceTypeOptions"] = types.iter().map(|one| one.name.clone()).collect();
    }
    plan
}
