//! Machine types as a provider offers them: what a machine is (requirements, capacity, overhead) and on which terms
//! it can be had (offerings: zone, capacity type, price, availability).
//!
//! Everything here is plain data with public fields: a provider fills it in, the planner lowers it to its own
//! compact form. No invariant is kept by these types; the loaders that build them check what they read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::names::{CAPACITY_TYPE_LABEL, ZONE_LABEL};
use crate::quantity::Quantity;
pub use crate::requirement::Operator;

/// Amounts by resource name, e.g. `cpu`, `memory`, `nvidia.com/gpu`.
pub type ResourceList = BTreeMap<String, Quantity>;

const MEMORY: &str = "memory";
const HUGE_PAGES_PREFIX: &str = "hugepages-";

/// One condition on a label of the machines of a type or of an offering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRequirement {
    /// The label key.
    pub key: String,
    /// How the values constrain the label.
    pub operator: Operator,
    /// The values the operator speaks of; empty for `Exists` and `DoesNotExist`.
    pub values: Vec<String>,
}

impl TypeRequirement {
    /// `key In (values…)`, the common case.
    pub fn one_of<V: Into<String>>(key: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        TypeRequirement {
            key: key.into(),
            operator: Operator::In,
            values: values.into_iter().map(Into::into).collect(),
        }
    }

    /// Machines lack the label.
    pub fn absent(key: &str) -> Self {
        TypeRequirement { key: key.to_owned(), operator: Operator::DoesNotExist, values: Vec::new() }
    }

    /// The label value this requirement fixes, if it fixes exactly one.
    pub fn single_value(&self) -> Option<&str> {
        match (self.operator, self.values.as_slice()) {
            (Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

/// What the machine keeps for itself; the three parts add up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overhead {
    /// Kept for the kubelet and the container runtime.
    pub kube_reserved: ResourceList,
    /// Kept for the operating system.
    pub system_reserved: ResourceList,
    /// Left free so that the kubelet does not start to evict.
    pub eviction_threshold: ResourceList,
}

/// A share of prepaid capacity that an offering draws on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The provider's name of the reservation.
    pub id: String,
    /// Machines that may still be started from it.
    pub capacity: u32,
}

/// How well a price is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriceSource {
    /// It stands in the list of types or in an object, and is taken as it is.
    #[default]
    Stated,
    /// It is the provider's list price.
    List,
    /// It is an estimate.
    Estimate,
    /// It stands in a file of prices.
    File,
}

/// One set of terms on which a type can be had.
#[derive(Debug, Clone, PartialEq)]
pub struct Offering {
    /// Labels fixed by taking this offering; at least zone and capacity type, one value each. Shared, because thousands of offerings
    /// have the same few.
    pub requirements: Arc<[TypeRequirement]>,
    /// Price per hour.
    pub price: f64,
    /// Whether the provider believes it can be had now.
    pub available: bool,
    /// The reservation it draws on, for capacity type `reserved`.
    pub reservation: Option<Reservation>,
    /// Amounts that differ from the type's capacity under this offering.
    pub capacity_override: ResourceList,
    /// Where the price is from.
    pub price_source: PriceSource,
}

impl Offering {
    /// An offering of one zone and capacity type that can be had.
    pub fn in_zone(zone: &str, capacity_type: &str, price: f64) -> Self {
        Offering {
            requirements: [
                TypeRequirement::one_of(CAPACITY_TYPE_LABEL, [capacity_type]),
                TypeRequirement::one_of(ZONE_LABEL, [zone]),
            ]
            .into(),
            price,
            available: true,
            reservation: None,
            capacity_override: ResourceList::new(),
            price_source: PriceSource::default(),
        }
    }

    /// The single value the offering fixes for a label, if it does.
    pub fn single_value(&self, key: &str) -> Option<&str> {
        self.requirements.iter().find(|requirement| requirement.key == key)?.single_value()
    }

    /// The zone, if the offering names exactly one.
    pub fn zone(&self) -> Option<&str> {
        self.single_value(ZONE_LABEL)
    }

    /// `spot`, `on-demand` or `reserved`, if the offering names exactly one.
    pub fn capacity_type(&self) -> Option<&str> {
        self.single_value(CAPACITY_TYPE_LABEL)
    }
}

/// A kind of machine and the terms on which it can be had.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceType {
    /// The type's name, the value of `node.kubernetes.io/instance-type`.
    pub name: String,
    /// Labels of its machines; a key with several values is settled by the offering or the launch.
    pub requirements: Vec<TypeRequirement>,
    /// The terms on which it can be had, unavailable ones too.
    pub offerings: Vec<Offering>,
    /// The whole machine.
    pub capacity: ResourceList,
    /// What pods do not get of it; mostly the same for all types of a list.
    pub overhead: Arc<Overhead>,
    /// Volumes that can be attached, by CSI driver; a driver not named is not limited.
    pub volume_limits: BTreeMap<String, u32>,
}

impl InstanceType {
    /// What pods may use: capacity less the three overheads, memory also less all huge pages, never below zero.
    pub fn allocatable(&self) -> ResourceList {
        allocatable(&self.capacity, &self.overhead)
    }

    /// The capacity under one offering, its overrides applied.
    pub fn capacity_for(&self, offering: &Offering) -> ResourceList {
        let mut capacity = self.capacity.clone();
        capacity.extend(offering.capacity_override.iter().map(|(name, amount)| (name.clone(), *amount)));
        capacity
    }

    /// What pods may use under one offering, its overrides applied.
    pub fn allocatable_for(&self, offering: &Offering) -> ResourceList {
        if offering.capacity_override.is_empty() {
            return self.allocatable();
        }
        allocatable(&self.capacity_for(offering), &self.overhead)
    }

    /// The requirement on a label, if the type has one.
    pub fn requirement(&self, key: &str) -> Option<&TypeRequirement> {
        self.requirements.iter().find(|requirement| requirement.key == key)
    }

    /// Zones in which some offering, available or not, is to be had.
    pub fn zones(&self) -> BTreeSet<&str> {
        self.offerings.iter().filter_map(Offering::zone).collect()
    }

    /// Capacity types under which some offering, available or not, is to be had.
    pub fn capacity_types(&self) -> BTreeSet<&str> {
        self.offerings.iter().filter_map(Offering::capacity_type).collect()
    }

    /// The cheapest available offering; among equal prices the first listed.
    pub fn cheapest(&self) -> Option<&Offering> {
        self.offerings.iter().filter(|offering| offering.available).min_by(|a, b| a.price.total_cmp(&b.price))
    }
}

fn allocatable(capacity: &ResourceList, overhead: &Overhead) -> ResourceList {
    let mut left = capacity.clone();
    for reserved in [&overhead.kube_reserved, &overhead.system_reserved, &overhead.eviction_threshold] {
        for (name, amount) in reserved {
            // What the machine does not have cannot be kept back from it.
            if let Some(of) = left.get_mut(name) {
                *of -= *amount;
            }
        }
    }
    let huge_pages: Quantity = capacity
        .iter()
        .filter(|(name, _)| name.starts_with(HUGE_PAGES_PREFIX))
        .map(|(_, amount)| *amount)
        .sum();
    if let Some(memory) = left.get_mut(MEMORY) {
        *memory -= huge_pages;
    }
    for amount in left.values_mut() {
        if amount.signum() < 0 {
            *amount = Quantity::ZERO.with_format(amount.format());
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(pairs: &[(&str, &str)]) -> ResourceList {
        pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Quantity::parse(text).expect("test data")))
            .collect()
    }

    fn text(list: &ResourceList) -> Vec<String> {
        list.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    fn offering(zone: &str, capacity_type: &str, price: f64, available: bool) -> Offering {
        Offering {
            requirements: Arc::new([
                TypeRequirement::one_of(ZONE_LABEL, [zone]),
                TypeRequirement::one_of(CAPACITY_TYPE_LABEL, [capacity_type]),
            ]),
            price,
            available,
            reservation: None,
            capacity_override: ResourceList::new(),
            price_source: PriceSource::default(),
        }
    }

    fn machine() -> InstanceType {
        InstanceType {
            name: "m".to_owned(),
            requirements: vec![TypeRequirement::one_of(ZONE_LABEL, ["a", "b"])],
            offerings: vec![
                offering("b", "spot", 0.1, false),
                offering("a", "on-demand", 0.5, true),
                offering("b", "on-demand", 0.4, true),
                offering("c", "on-demand", 0.4, true),
            ],
            capacity: resources(&[("cpu", "2"), ("memory", "8Gi"), ("pods", "110")]),
            overhead: Arc::new(Overhead {
                kube_reserved: resources(&[("cpu", "100m"), ("memory", "10Mi"), ("example.com/absent", "1")]),
                system_reserved: resources(&[("cpu", "50m")]),
                eviction_threshold: resources(&[("memory", "100Mi")]),
            }),
            volume_limits: BTreeMap::new(),
        }
    }

    #[test]
    fn all_three_overheads_are_taken_off() {
        assert_eq!(text(&machine().allocatable()), ["cpu=1850m", "memory=8082Mi", "pods=110"]);
    }

    #[test]
    fn huge_pages_are_not_memory() {
        let mut machine = machine();
        machine.capacity.extend(resources(&[("hugepages-2Mi", "1Gi"), ("hugepages-1Gi", "2Gi")]));
        let expected = ["cpu=1850m", "hugepages-1Gi=2Gi", "hugepages-2Mi=1Gi", "memory=5010Mi", "pods=110"];
        assert_eq!(text(&machine.allocatable()), expected);
    }

    #[test]
    fn nothing_goes_below_zero() {
        let mut machine = machine();
        machine.capacity = resources(&[("cpu", "100m"), ("memory", "1Gi"), ("hugepages-2Mi", "4Gi")]);
        assert_eq!(text(&machine.allocatable()), ["cpu=0", "hugepages-2Mi=4Gi", "memory=0"]);
    }

    #[test]
    fn an_offering_overrides_capacity_by_resource() {
        let mut machine = machine();
        machine.offerings[0].capacity_override = resources(&[("cpu", "4"), ("example.com/gpu", "1")]);
        let first = &machine.offerings[0];
        let expected = ["cpu=3850m", "example.com/gpu=1", "memory=8082Mi", "pods=110"];
        assert_eq!(text(&machine.allocatable_for(first)), expected);
        assert_eq!(machine.allocatable_for(&machine.offerings[1]), machine.allocatable());
        assert_eq!(text(&machine.capacity_for(first))[..2], ["cpu=4", "example.com/gpu=1"]);
    }

    #[test]
    fn offerings_tell_zones_prices_and_capacity_types() {
        let machine = machine();
        assert_eq!(machine.zones(), BTreeSet::from(["a", "b", "c"]));
        assert_eq!(machine.capacity_types(), BTreeSet::from(["on-demand", "spot"]));
        let cheapest = machine.cheapest().expect("two offerings are available");
        assert_eq!((cheapest.zone(), cheapest.capacity_type()), (Some("b"), Some("on-demand")));
        assert_eq!(machine.requirement(ZONE_LABEL).and_then(TypeRequirement::single_value), None);
    }
}
