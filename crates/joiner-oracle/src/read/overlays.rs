//! NodeOverlays, applied to the types as each pool sees them (rule book §10).
//!
//! Everything is asked pairwise: an overlay is left out if it shares a slot (the price of an offering, a resource of a type, in one pool) with an
//! accepted one of its weight; a slot belongs to the first accepted overlay that has it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::catalogue::allocatable;
use super::expressions::node_expressions;
use super::field::{at, list, required, text, whole32};
use super::quantity::resources;
use crate::scheduler::requirement::{Requirement, Requirements, add, conjunction, from_selector};
use crate::world::{InstanceType, Pool, Resources, World};

struct Overlay {
    name: String,
    weight: i32,
    asks: Requirements,
    price: Option<String>,
    adjustment: Option<String>,
    capacity: Resources,
    slots: BTreeSet<Slot>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    /// Pool, type, number of the offering.
    Price(String, String, usize),
    /// Pool, type, resource.
    Amount(String, String, String),
}

/// Reads overlays, settles which are in force, and fills in what each pool sees.
pub(super) fn apply(objects: &[&Value], world: &mut World) -> Result<(), String> {
    let mut overlays = Vec::new();
    for object in objects {
        let name = required(object, &["metadata", "name"])?.to_owned();
        overlays.push(read(object, &name).map_err(|why| format!("NodeOverlay `{name}`: {why}"))?);
    }
    overlays.sort_by(|a, b| b.weight.cmp(&a.weight).then(b.name.cmp(&a.name)));
    let mut accepted: Vec<Overlay> = Vec::new();
    for mut overlay in overlays {
        for pool in &world.pools {
            for ty in &world.types {
                let picked = (0..ty.offerings.len()).filter(|o| picks(&overlay.asks, pool, ty, *o));
                let picked: Vec<usize> = picked.collect();
                if picked.is_empty() {
                    continue;
                }
                let (pool, ty) = (pool.name.clone(), ty.name.clone());
                if overlay.price.is_some() || overlay.adjustment.is_some() {
                    overlay.slots.extend(picked.iter().map(|o| Slot::Price(pool.clone(), ty.clone(), *o)));
                }
                let amounts = overlay.capacity.keys();
                overlay
                    .slots
                    .extend(amounts.map(|name| Slot::Amount(pool.clone(), ty.clone(), name.clone())));
            }
        }
        let clashes =
            |other: &Overlay| other.weight == overlay.weight && !other.slots.is_disjoint(&overlay.slots);
        if accepted.iter().any(clashes) {
            world.overlays_left_out.push(overlay.name);
        } else {
            accepted.push(overlay);
        }
    }
    for pool in &world.pools {
        let mut types = world.types.clone();
        for ty in &mut types {
            for (number, offering) in ty.offerings.iter_mut().enumerate() {
                let slot = Slot::Price(pool.name.clone(), ty.name.clone(), number);
                if let Some(winner) = accepted.iter().find(|overlay| overlay.slots.contains(&slot)) {
                    offering.price = changed(winner, offering.price)?;
                }
            }
            let named: BTreeSet<&String> =
                accepted.iter().flat_map(|overlay| overlay.capacity.keys()).collect();
            for resource in named {
                let slot = Slot::Amount(pool.name.clone(), ty.name.clone(), resource.clone());
                if let Some(winner) = accepted.iter().find(|overlay| overlay.slots.contains(&slot)) {
                    ty.capacity.insert(resource.clone(), winner.capacity[resource]);
                    ty.allocatable = allocatable(&ty.capacity);
                }
            }
        }
        world.pool_types.insert(pool.name.clone(), types);
    }
    Ok(())
}

fn read(object: &Value, name: &str) -> Result<Overlay, String> {
    Ok(Overlay {
        name: name.to_owned(),
        weight: whole32(object, &["spec", "weight"])?.unwrap_or(0),
        asks: conjunction(&node_expressions(list(object, &["spec", "requirements"])?)?),
        price: text(object, &["spec", "price"]).map(str::to_owned),
        adjustment: text(object, &["spec", "priceAdjustment"]).map(str::to_owned),
        capacity: resources(at(object, &["spec", "capacity"]))?,
        slots: BTreeSet::new(),
    })
}

/// Whether the overlay picks an offering: every key it asks about must be known (of the type, the pool's labels or the offering) or allowed
/// to be missing, and go together with what is known.
fn picks(asks: &Requirements, pool: &Pool, ty: &InstanceType, offering: usize) -> bool {
    let mut known = conjunction(&ty.requirements);
    let mut labels = pool.labels.clone();
    labels.insert("karpenter.sh/nodepool".to_owned(), pool.name.clone());
    for (key, requirement) in &from_selector(&labels) {
        add(&mut known, key, requirement);
    }
    let offered = conjunction(&ty.offerings[offering].requirements);
    asks.iter().all(|(key, asked)| {
        let together = |side: Option<&Requirement>| side.is_none_or(|side| !side.and(asked).is_empty());
        let defined = known.contains_key(key) || offered.contains_key(key);
        (defined || asked.may_be_missing) && together(known.get(key)) && together(offered.get(key))
    })
}

fn changed(overlay: &Overlay, price: f64) -> Result<f64, String> {
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("`{text}` is not a number"));
    if let Some(price) = &overlay.price {
        return number(price);
    }
    let adjustment = overlay.adjustment.as_deref().unwrap_or("+0");
    let changed = match adjustment.split_once('%') {
        Some((percent, _)) => price * (1.0 + number(percent)? / 100.0),
        None => price + number(adjustment)?,
    };
    Ok(if changed > 0.0 { changed } else { 0.0 })
}
