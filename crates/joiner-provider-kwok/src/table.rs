//! What `joiner instance-types list` and `check` show, as values: rows and counts, no text.

use std::collections::BTreeMap;

use joiner_api::instance_type::{InstanceType, Offering, PriceSource};
use joiner_api::names::{ARCH_LABEL, ON_DEMAND, OS_LABEL, RESERVED, SPOT};
use joiner_api::quantity::Quantity;

use crate::catalogue::Catalogue;
use crate::file::Availability;
use crate::problem::{LoadError, Problem};

/// One type as a line of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeRow {
    /// The type's name.
    pub name: String,
    /// Processor architecture.
    pub architecture: String,
    /// Operating systems.
    pub operating_systems: Vec<String>,
    /// CPUs of the whole machine.
    pub cpu: Quantity,
    /// Memory of the whole machine.
    pub memory: Quantity,
    /// Pods it takes.
    pub pods: Quantity,
    /// Every other resource, e.g. GPUs and disk.
    pub other: BTreeMap<String, Quantity>,
    /// Zones of its offerings, sorted.
    pub zones: Vec<String>,
    /// Lowest available on-demand price per hour.
    pub on_demand: Option<f64>,
    /// Lowest available spot price per hour.
    pub spot: Option<f64>,
    /// Lowest available reserved price per hour.
    pub reserved: Option<f64>,
    /// How well these lowest prices are known, by capacity type; what the list states itself is left out.
    pub price_sources: BTreeMap<&'static str, PriceSource>,
    /// Number of offerings.
    pub offerings: usize,
    /// Number of offerings that can be had now.
    pub available: usize,
}

/// Which types to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only types of this architecture.
    pub architecture: Option<String>,
    /// Only types that can run this operating system.
    pub operating_system: Option<String>,
    /// Only types with an offering in this zone.
    pub zone: Option<String>,
    /// Only types with an offering of this capacity type.
    pub capacity_type: Option<String>,
    /// Only types whose name contains this text.
    pub name_contains: Option<String>,
}

impl Filter {
    /// Whether the type is to be shown. Zone and capacity type must meet in one offering.
    pub fn admits(&self, of: &InstanceType) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let has_value = |wanted: &Option<String>, key: &str| {
            wanted.as_ref().is_none_or(|wanted| values_of(of, key).contains(wanted))
        };
        has_value(&self.architecture, ARCH_LABEL)
            && has_value(&self.operating_system, OS_LABEL)
            && self.name_contains.as_deref().is_none_or(|part| of.name.contains(part))
            && of.offerings.iter().any(|offering| {
                is(&self.zone, offering.zone()) && is(&self.capacity_type, offering.capacity_type())
            })
    }
}

/// The rows of a catalogue, in its order.
pub fn rows(catalogue: &Catalogue, filter: &Filter) -> Vec<TypeRow> {
    catalogue.types.iter().filter(|of| filter.admits(of)).map(row).collect()
}

fn row(of: &InstanceType) -> TypeRow {
    const COLUMNS: [&str; 3] = ["cpu", "memory", "pods"];
    let [cpu, memory, pods] = COLUMNS.map(|name| of.capacity.get(name).copied().unwrap_or_default());
    let cheapest = |capacity_type: &str| {
        of.offerings
            .iter()
            .filter(|offering| offering.available && offering.capacity_type() == Some(capacity_type))
            .min_by(|a, b| a.price.total_cmp(&b.price))
    };
    let lowest = |capacity_type: &str| cheapest(capacity_type).map(|offering| offering.price);
    let source = |capacity_type| Some((capacity_type, cheapest(capacity_type)?.price_source));
    let sources = [ON_DEMAND, SPOT, RESERVED].into_iter().filter_map(source);
    let is_other = |(name, _): &(&String, &Quantity)| !COLUMNS.contains(&name.as_str());
    TypeRow {
        name: of.name.clone(),
        architecture: values_of(of, ARCH_LABEL).first().cloned().unwrap_or_default(),
        operating_systems: values_of(of, OS_LABEL).to_vec(),
        cpu,
        memory,
        pods,
        other: of.capacity.iter().filter(is_other).map(|(name, amount)| (name.clone(), *amount)).collect(),
        zones: of.zones().into_iter().map(str::to_owned).collect(),
        on_demand: lowest(ON_DEMAND),
        spot: lowest(SPOT),
        reserved: lowest(RESERVED),
        price_sources: sources.filter(|(_, source)| *source != PriceSource::Stated).collect(),
        offerings: of.offerings.len(),
        available: of.offerings.iter().filter(|offering| offering.available).count(),
    }
}

fn values_of<'a>(of: &'a InstanceType, key: &str) -> &'a [String] {
    of.requirement(key).map_or(&[], |requirement| &requirement.values)
}

/// What a check of a file found.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckReport {
    /// The file.
    pub file_name: String,
    /// What is wrong; empty means that the list loads.
    pub problems: Vec<Problem>,
    /// Remarks on things that load but may not mean what was meant.
    pub notes: Vec<String>,
    /// Number of types, 0 if the list does not load.
    pub types: usize,
    /// Number of offerings, 0 if the list does not load.
    pub offerings: usize,
    /// Lowest and highest price per hour.
    pub prices: Option<(f64, f64)>,
    /// Label keys the list makes well-known.
    pub well_known: Vec<String>,
}

impl CheckReport {
    /// Whether the list loads.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks the text of a file without using it.
pub fn check(file_name: &str, text: &str, availability: Availability) -> CheckReport {
    let catalogue = match Catalogue::from_text_with(file_name, text, availability) {
        Ok(catalogue) => catalogue,
        Err(LoadError { file_name, problems }) => {
            return CheckReport {
                file_name,
                problems,
                notes: Vec::new(),
                types: 0,
                offerings: 0,
                prices: None,
                well_known: Vec::new(),
            };
        }
    };
    let offerings = || catalogue.types.iter().flat_map(|of| &of.offerings);
    let price = |of: &Offering| of.price;
    CheckReport {
        file_name: file_name.to_owned(),
        problems: Vec::new(),
        types: catalogue.types.len(),
        offerings: offerings().count(),
        prices: offerings()
            .map(price)
            .min_by(f64::total_cmp)
            .zip(offerings().map(price).max_by(f64::total_cmp)),
        well_known: catalogue.well_known,
        notes: catalogue.notes,
    }
}
