//! Offerings by name, and the one order in which they are tried.

#![allow(missing_docs, reason = "fields and variants that explain themselves have no comment")]

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use joiner_api::NodeClaim;
use joiner_api::instance_type::{InstanceType, Offering, Operator, ResourceList};
use joiner_api::names::{CAPACITY_TYPE_LABEL, INSTANCE_TYPE_LABEL, ZONE_LABEL};
use joiner_api::quantity::Quantity;
use joiner_api::requirement::NodeRequirement;

use crate::{Error, TypeSet, Unavailable};

/// An offering by what makes it one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    pub instance_type: String,
    /// The zone, if the offering names one.
    pub zone: Option<String>,
    /// The capacity type, if the offering names one.
    pub capacity_type: Option<String>,
    /// The reservation it draws on.
    pub reservation: Option<String>,
}

impl OfferingKey {
    /// The key of a type's offering.
    pub fn of(instance_type: &InstanceType, offering: &Offering) -> Self {
        Self {
            instance_type: instance_type.name.clone(),
            zone: offering.zone().map(str::to_owned),
            capacity_type: offering.capacity_type().map(str::to_owned),
            reservation: offering.reservation.as_ref().map(|reservation| reservation.id.clone()),
        }
    }

    /// Draws on a reservation.
    pub fn is_reserved(&self) -> bool {
        self.reservation.is_some() || self.capacity_type.as_deref() == Some("reserved")
    }

    /// What the labels of a machine say it was bought as. They do not tell reservations.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Option<Self> {
        Some(Self {
            instance_type: labels.get(INSTANCE_TYPE_LABEL)?.clone(),
            zone: labels.get(ZONE_LABEL).cloned(),
            capacity_type: labels.get(CAPACITY_TYPE_LABEL).cloned(),
            reservation: None,
        })
    }
}

/// An offering in a list that is tried from the front.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedOffering {
    pub key: OfferingKey,
    /// Dollars per hour.
    pub price: f64,
}

impl RankedOffering {
    /// Cheapest first; equal prices by type, zone, capacity type and reservation. What has no sensible price comes last.
    pub fn compare(&self, other: &Self) -> Ordering {
        let price = |of: &Self| if of.price >= 0.0 { of.price } else { f64::INFINITY };
        price(self).total_cmp(&price(other)).then_with(|| self.key.cmp(&other.key))
    }
}

/// What a claim may be launched as, best first: offerings that its requirements allow, of types that hold what it requests, less what is
/// unavailable. Equal claims give equal lists, so a new process goes on where the last one stopped.
///
/// # Errors
/// The claim names only types that are not in the set ([`Error::Invalid`]), or nothing it allows can be had now ([`Error::NoCapacity`]).
pub fn offerings_of_claim(
    claim: &NodeClaim,
    types: &TypeSet,
    unavailable: &Unavailable,
) -> Result<Vec<RankedOffering>, Error> {
    let requirements = &claim.spec.requirements;
    let named = requirements.iter().find(|requirement| {
        requirement.stable_key() == INSTANCE_TYPE_LABEL && requirement.parsed_operator() == Some(Operator::In)
    });
    // Lists of sixty names are asked for hundreds of types, for each of a thousand claims.
    let names: Option<BTreeSet<&str>> = named.map(|named| named.values.iter().map(String::as_str).collect());
    let is_named = |of: &InstanceType| names.as_ref().is_none_or(|names| names.contains(&*of.name));
    if let Some(named) = named
        && let Some(first) = named.values.first()
        && !types.types.iter().any(&is_named)
    {
        return Err(Error::Invalid {
            reason: "InstanceTypeUnknown".to_owned(),
            message: format!(
                "the claim names only instance types that are not offered, such as `{first}`; \
                 `joiner instance-types list` shows those of the simulated cluster"
            ),
        });
    }
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let requests: Vec<(&str, Quantity)> = requests
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.as_str(), Quantity::parse(&amount.0).ok()?)))
        .collect();
    let (mut found, mut missing) = (Vec::new(), 0);
    for instance_type in types.types.iter().filter(|of| is_named(of) && allows_type(requirements, of)) {
        let fits = holds(&instance_type.allocatable(), &requests);
        for offering in instance_type.offerings.iter().filter(|offering| allows(requirements, offering)) {
            let fits = match offering.capacity_override.is_empty() {
                true => fits,
                false => holds(&instance_type.allocatable_for(offering), &requests),
            };
            if !fits {
                continue;
            }
            let key = OfferingKey::of(instance_type, offering);
            let sold_out = offering.reservation.as_ref().is_some_and(|reservation| reservation.capacity == 0);
            if !offering.available || sold_out || unavailable.contains(&key) {
                missing += 1;
            } else {
                found.push(RankedOffering { key, price: offering.price });
            }
        }
    }
    if found.is_empty() {
        let message = match missing {
            0 => "no instance type holds what the claim requests where it allows one".to_owned(),
            count => format!("all {count} offerings that the claim allows are out of stock"),
        };
        return Err(Error::NoCapacity { scopes: Vec::new(), retry_after: None, message });
    }
    found.sort_by(RankedOffering::compare);
    Ok(found)
}

/// Whether requirements allow machines of a type: each label the type fixes must be able to satisfy them.
fn allows_type(requirements: &[NodeRequirement], instance_type: &InstanceType) -> bool {
    requirements.iter().all(|requirement| match instance_type.requirement(requirement.stable_key()) {
        Some(fixed) if fixed.operator == Operator::In => {
            fixed.values.iter().any(|value| satisfies(requirement, value))
        }
        Some(fixed) if fixed.operator == Operator::DoesNotExist => {
            matches!(requirement.parsed_operator(), Some(Operator::NotIn | Operator::DoesNotExist))
        }
        _ => true,
    })
}

/// Whether requirements allow an offering: each label the offering fixes must satisfy them.
fn allows(requirements: &[NodeRequirement], offering: &Offering) -> bool {
    requirements.iter().all(|requirement| match offering.single_value(requirement.stable_key()) {
        Some(value) => satisfies(requirement, value),
        None => true,
    })
}

fn satisfies(requirement: &NodeRequirement, value: &str) -> bool {
    let named = requirement.values.iter().any(|of| of == value);
    let number = || Some((value.parse::<i64>().ok()?, requirement.values.first()?.parse::<i64>().ok()?));
    match requirement.parsed_operator() {
        Some(Operator::In) => named,
        Some(Operator::NotIn) => !named,
        Some(Operator::Exists) => true,
        Some(Operator::DoesNotExist) | None => false,
        Some(Operator::Gt) => number().is_some_and(|(label, bound)| label > bound),
        Some(Operator::Lt) => number().is_some_and(|(label, bound)| label < bound),
        Some(Operator::Gte) => number().is_some_and(|(label, bound)| label >= bound),
        Some(Operator::Lte) => number().is_some_and(|(label, bound)| label <= bound),
    }
}

fn holds(allocatable: &ResourceList, requests: &[(&str, Quantity)]) -> bool {
    requests.iter().all(|(name, amount)| allocatable.get(*name).copied().unwrap_or(Quantity::ZERO) >= *amount)
}
