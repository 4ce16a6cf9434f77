//! Rule book §12, "Pools of a fixed size": the machines they lack, as nodes that are on their way.

use std::collections::BTreeMap;

use super::nano;
use super::pods::{CAPACITY_TYPE, NODEPOOL};
use super::requirement::{both, conjunction, overlap};
use super::state::template;
use crate::world::{InstanceType, Labels, Node, Offering, Pool, World};

const ZONE: &str = "topology.kubernetes.io/zone";

/// What decides between offerings: price, type, zone, capacity type.
type Rank = (i128, String, String, String);

/// A machine that its pool keeps whatever pods there are, and that is still to be bought.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its name within the plan.
    pub name: String,
    /// The pool that lacks it.
    pub pool: String,
    /// Type, zone, capacity type and price it is bought at.
    pub bought: (String, String, String, f64),
}

/// The world with the missing machines in it as nodes, reservations they draw on made smaller, and what they are.
pub(super) fn complete(world: &World) -> (World, Vec<Kept>) {
    let mut whole = world.clone();
    let mut kept = Vec::new();
    let mut pools: Vec<&Pool> = world.pools.iter().filter(|pool| pool.replicas.is_some()).collect();
    pools.sort_by(|a, b| b.name.cmp(&a.name));
    for pool in pools {
        let mut number = 0;
        for _ in 0..missing(world, pool) {
            let Some((ty, offering)) = cheapest(&whole, pool) else { break };
            loop {
                number += 1;
                let name = format!("{}-{number}", pool.name);
                if !whole.nodes.iter().any(|node| node.name == name) {
                    let node = node(pool, &ty, &offering, &name);
                    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
                    kept.push(Kept {
                        name,
                        pool: pool.name.clone(),
                        bought: (ty.name.clone(), label(ZONE), label(CAPACITY_TYPE), offering.price),
                    });
                    whole.nodes.push(node);
                    break;
                }
            }
            if let Some((id, _)) = &offering.reservation {
                draw_unit(&mut whole, id);
            }
        }
    }
    (whole, kept)
}

/// How many machines a pool lacks, within its limit of nodes.
pub(crate) fn missing(world: &World, pool: &Pool) -> i128 {
    let of_pool = |node: &&Node| node.labels.get(NODEPOOL) == Some(&pool.name);
    let count = |wanted: &dyn Fn(&Node) -> bool| {
        world.nodes.iter().filter(of_pool).filter(|node| wanted(node)).count() as i128
    };
    let active = count(&|node| !node.leaving);
    let replaced = count(&|node| node.leaving && !node.deleting);
    let wanted = i128::from(pool.replicas.unwrap_or(0));
    if active + replaced >= wanted {
        return 0;
    }
    let room = pool.limits.get("nodes").map_or(i128::MAX, |limit| (limit - count(&|_| true)).max(0));
    (wanted - active).min(room)
}

/// The cheapest offering that can be had and matches the template; ties by type, zone, capacity type.
fn cheapest(world: &World, pool: &Pool) -> Option<(InstanceType, Offering)> {
    let template = template(pool);
    if template.requirements.values().any(super::requirement::Requirement::is_empty) {
        return None;
    }
    let mut best: Option<(Rank, InstanceType, Offering)> = None;
    for ty in world.types_of(&pool.name) {
        for offering in &ty.offerings {
            let can_be_had = offering.available
                && offering.reservation.as_ref().is_none_or(|(id, _)| units(world, id) > 0);
            let fits = overlap(&conjunction(&ty.requirements), &template.requirements)
                && overlap(&conjunction(&offering.requirements), &template.requirements);
            let value = |key: &str| {
                let own = conjunction(&offering.requirements);
                own.get(key).and_then(|own| own.single_value().map(str::to_owned)).unwrap_or_default()
            };
            let key = (nano(offering.price), ty.name.clone(), value(ZONE), value(CAPACITY_TYPE));
            if can_be_had && fits && best.as_ref().is_none_or(|(have, ..)| key < *have) {
                best = Some((key, ty.clone(), offering.clone()));
            }
        }
    }
    best.map(|(_, ty, offering)| (ty, offering))
}

/// Units left of a reservation: the smallest number any offering names.
pub(super) fn units(world: &World, id: &str) -> u32 {
    let pools = world.pool_types.values().flatten();
    let offerings = world.types.iter().chain(pools).flat_map(|ty| &ty.offerings);
    let named = offerings.filter_map(|offering| offering.reservation.as_ref());
    named.filter(|(other, _)| other == id).map(|(_, units)| *units).min().unwrap_or(0)
}

fn draw_unit(world: &mut World, id: &str) {
    let left = units(world, id).saturating_sub(1);
    let pools = world.pool_types.values_mut().flatten();
    for offering in world.types.iter_mut().chain(pools).flat_map(|ty| &mut ty.offerings) {
        if let Some((_, units)) = offering.reservation.as_mut().filter(|(other, _)| other == id) {
            *units = left;
        }
    }
}

/// The node a machine will be: where template, type and offering together list values of a label, the first by name.
fn node(pool: &Pool, ty: &InstanceType, offering: &Offering, name: &str) -> Node {
    let of_machine = both(&conjunction(&ty.requirements), &conjunction(&offering.requirements));
    let all = both(&template(pool).requirements, &of_machine);
    let mut labels: Labels = all
        .iter()
        .filter_map(|(key, requirement)| Some((key.clone(), requirement.listed_values()?.first()?.clone())))
        .collect();
    for key in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
        labels.insert(key.to_owned(), "true".to_owned());
    }
    Node {
        name: name.to_owned(),
        labels,
        taints: pool.taints.clone(),
        capacity: ty.capacity.clone(),
        allocatable: ty.allocatable.clone(),
        cordoned: false,
        leaving: false,
        deleting: false,
        initialised: false,
        volume_limits: BTreeMap::new(),
    }
}
