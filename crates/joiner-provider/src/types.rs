//! The machine types of a node class.

#![allow(missing_docs, reason = "fields and variants that explain themselves have no comment")]

use std::collections::BTreeMap;

use joiner_api::instance_type::{InstanceType, Offering};

use crate::OfferingKey;

/// The machine types of a node class at one moment, unavailable offerings included.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TypeSet {
    /// Grows with every change.
    pub generation: u64,
    pub types: Vec<InstanceType>,
    /// Label keys that become well-known with them, sorted.
    pub well_known: Vec<String>,
}

impl TypeSet {
    /// A type and its offering by the offering's key.
    pub fn find(&self, key: &OfferingKey) -> Option<(&InstanceType, &Offering)> {
        let instance_type = self.types.iter().find(|of| of.name == key.instance_type)?;
        let is_meant = |offering: &&Offering| {
            offering.zone() == key.zone.as_deref()
                && offering.capacity_type() == key.capacity_type.as_deref()
                && offering.reservation.as_ref().map(|of| of.id.as_str()) == key.reservation.as_deref()
        };
        Some((instance_type, instance_type.offerings.iter().find(is_meant)?))
    }

    /// The price of a machine by its labels, if an offering has one. What an offering leaves open any label satisfies; where several
    /// offerings remain, the cheapest counts.
    pub fn price_by_labels(&self, labels: &BTreeMap<String, String>) -> Option<f64> {
        let machine = OfferingKey::of_labels(labels)?;
        let instance_type = self.types.iter().find(|of| of.name == machine.instance_type)?;
        let is_meant = |offering: &&Offering| {
            offering.zone().is_none_or(|of| Some(of) == machine.zone.as_deref())
                && offering.capacity_type().is_none_or(|of| Some(of) == machine.capacity_type.as_deref())
        };
        let prices = instance_type.offerings.iter().filter(is_meant).map(|offering| offering.price);
        prices.filter(|price| price.is_finite()).min_by(f64::total_cmp)
    }
}
