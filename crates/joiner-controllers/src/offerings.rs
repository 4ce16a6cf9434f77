//! Offerings between the providers, the health that is kept of them, and the plan.

use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::instance_type::InstanceType;
use joiner_api::names::{CAPACITY_TYPE_LABEL, ZONE_LABEL};
use joiner_api::nodepool::NodeClassReference;
use joiner_core::model::ids::ValueId;
use joiner_core::model::{Catalogue, Snapshot};
use joiner_provider::{
    Health, OfferingKey, RankedOffering, Registry, TypeSet, Unavailable, offerings_of_claim,
};

use crate::provision::Context;
use crate::settings::Settings;

/// Offerings of a planned machine that are kept until it is launched. Whoever needs more has a claim that tells all.
const KEPT: usize = 120;

/// Types with the offerings that had no capacity marked.
pub(crate) fn with_stock(set: &TypeSet, unavailable: &Unavailable) -> Vec<InstanceType> {
    let mut types = set.types.clone();
    if unavailable.is_empty() {
        return types;
    }
    for instance_type in &mut types {
        let keys: Vec<OfferingKey> =
            instance_type.offerings.iter().map(|offering| OfferingKey::of(instance_type, offering)).collect();
        for (offering, key) in instance_type.offerings.iter_mut().zip(keys) {
            offering.available &= !unavailable.contains(&key);
        }
    }
    types
}

/// What machines of a class cannot be launched as now.
pub(crate) fn unavailable(context: &Context, class: &NodeClassReference) -> Unavailable {
    let Context { registry, health, settings, now, .. } = *context;
    unavailable_now(registry, health, settings, class, now)
}

/// The same for whoever has no context.
pub(crate) fn unavailable_now(
    registry: &Registry,
    health: &Health,
    settings: &Settings,
    class: &NodeClassReference,
    now: Timestamp,
) -> Unavailable {
    let provider = registry.provider_of(class);
    let mut unavailable = provider.map(|of| health.unavailable(of.name(), class, now)).unwrap_or_default();
    if !settings.reserved_capacity {
        unavailable.leave_out_reserved();
    }
    unavailable
}

/// What a planned machine may be launched as, in the order and at the prices of the plan: overlays may have changed both.
pub(crate) fn of_plan(
    prices: &BTreeMap<OfferingKey, f64>,
    claim: &NodeClaim,
    overlaid: Option<&TypeSet>,
    context: &Context,
) -> Vec<RankedOffering> {
    let class = &claim.spec.node_class_ref;
    let unavailable = unavailable(context, class);
    let allowed = match overlaid {
        Some(types) => offerings_of_claim(claim, types, &unavailable),
        None => offerings_of_claim(claim, &context.registry.types(class), &unavailable),
    };
    let mut allowed = allowed.unwrap_or_default();
    for offering in &mut allowed {
        offering.price = prices.get(&offering.key).copied().unwrap_or(offering.price);
    }
    allowed.sort_by(RankedOffering::compare);
    allowed.truncate(KEPT);
    allowed
}

/// What each offering of a catalogue costs in the plan.
pub(crate) fn planned_prices(snapshot: &Snapshot, catalogue: &Catalogue) -> BTreeMap<OfferingKey, f64> {
    let names = &snapshot.vocabulary.names;
    let value = |label: &str, value: Option<ValueId>| {
        Some(names.value_text(names.known_key(label)?, value?).to_owned())
    };
    let mut prices = BTreeMap::new();
    // By rising price: of offerings under one key the cheapest counts.
    for offering in &catalogue.offerings {
        let key = OfferingKey {
            instance_type: catalogue.types[offering.instance_type.at()].name.to_string(),
            zone: value(ZONE_LABEL, offering.zone),
            capacity_type: value(CAPACITY_TYPE_LABEL, offering.capacity_type),
            reservation: offering.reservation.map(|at| snapshot.reservations[at.at()].id.to_string()),
        };
        prices.entry(key).or_insert(offering.price);
    }
    prices
}
