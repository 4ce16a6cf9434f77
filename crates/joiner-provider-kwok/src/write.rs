//! Printing a list in the file format, so that what was computed can be edited, kept and loaded again.

use std::collections::BTreeMap;

use joiner_api::instance_type::{InstanceType, Offering, TypeRequirement};
use joiner_api::names::{ARCH_LABEL, OS_LABEL};
use joiner_api::quantity::Quantity;
use serde::Serialize;

/// The two spellings of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON array, indented; other readers of the format take it too.
    Json,
    /// The same list in YAML.
    Yaml,
}

/// Why a list cannot be printed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// JSON has no word for it, and no list may hold it.
    #[error("type `{type_name}`: price `{price}` is not a finite number")]
    Price {
        /// The type.
        type_name: String,
        /// The price.
        price: String,
    },
    /// The serialiser gave up.
    #[error("list cannot be printed: {0}")]
    Serialiser(String),
}

/// Prints a list. Derived labels and overhead are left out: loading derives them again.
pub fn write(types: &[InstanceType], format: Format) -> Result<String, WriteError> {
    let offerings = || types.iter().flat_map(|t| t.offerings.iter().map(move |offering| (t, offering)));
    if let Some((of, offering)) = offerings().find(|(_, offering)| !offering.price.is_finite()) {
        return Err(WriteError::Price { type_name: of.name.clone(), price: offering.price.to_string() });
    }
    let entries: Vec<WrittenType<'_>> = types.iter().map(WrittenType::new).collect();
    match format {
        Format::Json => serde_json::to_string_pretty(&entries)
            .map(|text| text + "\n")
            .map_err(|error| WriteError::Serialiser(error.to_string())),
        Format::Yaml => {
            serde_saphyr::to_string(&entries).map_err(|error| WriteError::Serialiser(error.to_string()))
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WrittenType<'a> {
    name: &'a str,
    architecture: &'a str,
    operating_systems: &'a [String],
    resources: BTreeMap<&'a str, String>,
    offerings: Vec<WrittenOffering<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    volume_limits: &'a BTreeMap<String, u32>,
}

#[derive(Serialize)]
struct WrittenOffering<'a> {
    #[serde(rename = "Price")]
    price: f64,
    #[serde(rename = "Available")]
    available: bool,
    #[serde(rename = "ReservationCapacity", skip_serializing_if = "Option::is_none")]
    reservation_capacity: Option<u32>,
    #[serde(rename = "Requirements")]
    requirements: Vec<WrittenRequirement<'a>>,
    #[serde(rename = "capacityOverride", skip_serializing_if = "BTreeMap::is_empty")]
    capacity_override: BTreeMap<&'a str, String>,
}

#[derive(Serialize)]
struct WrittenRequirement<'a> {
    key: &'a str,
    operator: &'static str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    values: &'a [String],
}

impl<'a> WrittenType<'a> {
    fn new(of: &'a InstanceType) -> Self {
        let values = |key: &str| of.requirement(key).map_or(&[][..], |requirement| &requirement.values[..]);
        WrittenType {
            name: &of.name,
            architecture: values(ARCH_LABEL).first().map_or("", String::as_str),
            operating_systems: values(OS_LABEL),
            resources: texts(&of.capacity),
            offerings: of.offerings.iter().map(WrittenOffering::new).collect(),
            volume_limits: &of.volume_limits,
        }
    }
}

impl<'a> WrittenOffering<'a> {
    fn new(of: &'a Offering) -> Self {
        WrittenOffering {
            price: of.price,
            available: of.available,
            reservation_capacity: of.reservation.as_ref().map(|reservation| reservation.capacity),
            requirements: of.requirements.iter().map(WrittenRequirement::new).collect(),
            capacity_override: texts(&of.capacity_override),
        }
    }
}

impl<'a> WrittenRequirement<'a> {
    fn new(of: &'a TypeRequirement) -> Self {
        WrittenRequirement { key: &of.key, operator: of.operator.as_str(), values: &of.values }
    }
}

fn texts(resources: &BTreeMap<String, Quantity>) -> BTreeMap<&str, String> {
    resources.iter().map(|(name, amount)| (name.as_str(), amount.to_string())).collect()
}
