//! Machine types computed from formulae.
//!
//! [`Parameters::default`] is the provider's standard list: 144 types, 8 offerings each. Everything about it is a
//! number in that one table; other tables give other clouds, for tests and benchmarks that need more zones, odd
//! machine shapes, uneven prices or GPUs.

use std::collections::BTreeSet;

use joiner_api::instance_type::{InstanceType, Offering, ResourceList};
use joiner_api::names::{ON_DEMAND, SPOT};
use joiner_api::quantity::Quantity;

use crate::entry::{self, Entry};
use crate::labels;

const GIB: i64 = 1 << 30;
/// CPUs, GPUs and GiB per CPU stay below this, so that no amount of memory overflows.
const COUNT_MAX: u32 = 1 << 16;
/// No machine costs a billion an hour; the bound keeps every product of prices finite.
const PRICE_MAX: f64 = 1e9;

/// A ratio of memory to CPU, and the letter that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFactor {
    /// First part of the type names.
    pub family: String,
    /// Memory per CPU in GiB.
    pub gib_per_cpu: u32,
}

impl MemoryFactor {
    /// The factor with its customary letter: `c` for 2, `s` for 4, `m` for 8, `e` for any other.
    pub fn new(gib_per_cpu: u32) -> Self {
        let family = match gib_per_cpu {
            2 => "c",
            4 => "s",
            8 => "m",
            _ => "e",
        };
        MemoryFactor { family: family.to_owned(), gib_per_cpu }
    }
}

/// A GPU machine, made for every operating system and architecture.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuRow {
    /// First part of the type name; the whole is `<family>-<cpu>x-<count>gpu-<arch>-<os>`.
    pub family: String,
    /// Number of CPUs.
    pub cpu: u32,
    /// Memory in GiB.
    pub memory_gib: u32,
    /// The resource name, e.g. `nvidia.com/gpu`.
    pub resource: String,
    /// Number of GPUs.
    pub count: u32,
    /// What each GPU adds to the hourly price.
    pub price_per_gpu: f64,
}

/// Everything a computed list depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// CPU counts, in the order of the list.
    pub cpus: Vec<u32>,
    /// Ratios of memory to CPU.
    pub memory_factors: Vec<MemoryFactor>,
    /// Operating systems; each gets types of its own.
    pub operating_systems: Vec<String>,
    /// Architectures; each gets types of its own.
    pub architectures: Vec<String>,
    /// Zones in which every type can be had.
    pub zones: Vec<String>,
    /// Price of a CPU per hour.
    pub price_per_cpu: f64,
    /// Price of a gigabyte (10⁹ bytes) of memory per hour.
    pub price_per_gb: f64,
    /// Spot price as a share of the on-demand price.
    pub spot_factor: f64,
    /// How much dearer each zone is than the one before it, as a share of the first zone's price.
    pub zone_skew: f64,
    /// Pods per CPU.
    pub pods_per_cpu: u32,
    /// Upper bound of pods.
    pub pods_max: u32,
    /// Ephemeral storage of every type in GiB.
    pub ephemeral_storage_gib: u32,
    /// GPU machines, listed after all others.
    pub gpu_rows: Vec<GpuRow>,
}

impl Default for Parameters {
    fn default() -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Parameters {
            cpus: vec![1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256],
            memory_factors: [2, 4, 8].map(MemoryFactor::new).to_vec(),
            operating_systems: texts(&["linux", "windows"]),
            architectures: texts(&["amd64", "arm64"]),
            zones: texts(&["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"]),
            price_per_cpu: 0.025,
            price_per_gb: 0.001,
            spot_factor: 0.7,
            zone_skew: 0.0,
            pods_per_cpu: 16,
            pods_max: 1024,
            ephemeral_storage_gib: 20,
            gpu_rows: Vec::new(),
        }
    }
}

/// Why no list can be computed from some parameters.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParameterError {
    /// A list without which there are no types or no offerings.
    #[error("`{0}` is empty: give at least one value")]
    Empty(&'static str),
    /// A count that no machine can have.
    #[error("`{parameter}` holds {value}: every value must be between 1 and {COUNT_MAX}")]
    Count {
        /// The parameter.
        parameter: &'static str,
        /// The count.
        value: u32,
    },
    /// A price or share that no price can be computed from.
    #[error("`{parameter}` is `{value}`: give a number between 0 and {PRICE_MAX}")]
    Number {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: f64,
    },
    /// A word that cannot stand in a type name or label.
    #[error(
        "`{value}` of `{parameter}` cannot be a label value: use letters, digits, `-`, `_`, `.`, alphanumeric at both ends"
    )]
    Word {
        /// The parameter.
        parameter: &'static str,
        /// The word.
        value: String,
    },
    /// The same zone twice.
    #[error("zone `{0}` is named twice")]
    DuplicateZone(String),
    /// The same type twice.
    #[error("two types would be called `{0}`: name the memory factors and GPU rows by different families")]
    DuplicateName(String),
}

/// Computes a list.
///
/// Order: CPU count, memory factor, operating system, architecture, the last varying fastest; then the GPU rows.
/// Per zone the spot offering comes before the on-demand one.
pub fn generate(parameters: &Parameters) -> Result<Vec<InstanceType>, ParameterError> {
    check(parameters)?;
    let mut entries = Vec::new();
    for &cpu in &parameters.cpus {
        for factor in &parameters.memory_factors {
            let shape = Shape {
                stem: format!("{}-{cpu}x", factor.family),
                cpu,
                memory_bytes: i64::from(cpu) * i64::from(factor.gib_per_cpu) * GIB,
                gpu: None,
            };
            shape.add_entries(parameters, &mut entries);
        }
    }
    for row in &parameters.gpu_rows {
        let shape = Shape {
            stem: format!("{}-{}x-{}gpu", row.family, row.cpu, row.count),
            cpu: row.cpu,
            memory_bytes: i64::from(row.memory_gib) * GIB,
            gpu: Some(row),
        };
        shape.add_entries(parameters, &mut entries);
    }
    let mut names = BTreeSet::new();
    for entry in &entries {
        if !labels::is_label_value(&entry.name) {
            return Err(ParameterError::Word { parameter: "type names", value: entry.name.clone() });
        }
        if !names.insert(entry.name.as_str()) {
            return Err(ParameterError::DuplicateName(entry.name.clone()));
        }
    }
    Ok(entry::instance_types(entries))
}

/// A machine shape, before operating system and architecture.
struct Shape<'a> {
    stem: String,
    cpu: u32,
    memory_bytes: i64,
    gpu: Option<&'a GpuRow>,
}

impl Shape<'_> {
    fn add_entries(&self, parameters: &Parameters, entries: &mut Vec<Entry>) {
        let (resources, offerings) = (self.resources(parameters), self.offerings(parameters));
        for os in &parameters.operating_systems {
            for arch in &parameters.architectures {
                entries.push(Entry {
                    name: format!("{}-{arch}-{os}", self.stem),
                    architecture: arch.clone(),
                    operating_systems: vec![os.clone()],
                    resources: resources.clone(),
                    offerings: offerings.clone(),
                    volume_limits: Default::default(),
                });
            }
        }
    }

    fn resources(&self, parameters: &Parameters) -> ResourceList {
        let pods = self.cpu.saturating_mul(parameters.pods_per_cpu).min(parameters.pods_max);
        let ephemeral_storage = i64::from(parameters.ephemeral_storage_gib) * GIB;
        let mut resources = ResourceList::from([
            ("cpu".to_owned(), Quantity::from_value(self.cpu.into())),
            ("memory".to_owned(), Quantity::from_bytes(self.memory_bytes)),
            ("pods".to_owned(), Quantity::from_value(pods.into())),
            ("ephemeral-storage".to_owned(), Quantity::from_bytes(ephemeral_storage)),
        ]);
        if let Some(row) = self.gpu {
            resources.insert(row.resource.clone(), Quantity::from_value(row.count.into()));
        }
        resources
    }

    fn offerings(&self, parameters: &Parameters) -> Vec<Offering> {
        let price = self.price(parameters);
        let mut offerings = Vec::with_capacity(2 * parameters.zones.len());
        for (index, zone) in parameters.zones.iter().enumerate() {
            let price = price * (1.0 + parameters.zone_skew * index as f64);
            offerings.push(Offering::in_zone(zone, SPOT, price * parameters.spot_factor));
            offerings.push(Offering::in_zone(zone, ON_DEMAND, price));
        }
        offerings
    }

    /// The grouping of the terms decides the last bit of a price; it is the one that published lists agree with.
    fn price(&self, parameters: &Parameters) -> f64 {
        let memory = parameters.price_per_gb * self.memory_bytes as f64 / 1e9;
        let gpus = self.gpu.map_or(0.0, |row| f64::from(row.count) * row.price_per_gpu);
        parameters.price_per_cpu * f64::from(self.cpu) + memory + gpus
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    let p = parameters;
    for (name, is_empty) in [
        ("cpus", p.cpus.is_empty() && p.gpu_rows.is_empty()),
        ("memory factors", p.memory_factors.is_empty() && p.gpu_rows.is_empty()),
        ("operating systems", p.operating_systems.is_empty()),
        ("architectures", p.architectures.is_empty()),
        ("zones", p.zones.is_empty()),
    ] {
        if is_empty {
            return Err(ParameterError::Empty(name));
        }
    }
    let shapes = (p.cpus.iter().map(|cpu| ("cpus", *cpu)))
        .chain(p.memory_factors.iter().map(|factor| ("memory factors", factor.gib_per_cpu)))
        .chain(
            p.gpu_rows.iter().flat_map(|row| [row.cpu, row.memory_gib, row.count]).map(|n| ("GPU rows", n)),
        );
    for (parameter, value) in shapes {
        if !(1..=COUNT_MAX).contains(&value) {
            return Err(ParameterError::Count { parameter, value });
        }
    }
    let numbers = [
        ("price per cpu", p.price_per_cpu),
        ("price per GB", p.price_per_gb),
        ("spot factor", p.spot_factor),
        ("zone skew", p.zone_skew),
    ];
    let gpu_prices = p.gpu_rows.iter().map(|row| ("price per GPU", row.price_per_gpu));
    for (parameter, value) in numbers.into_iter().chain(gpu_prices) {
        if !(0.0..=PRICE_MAX).contains(&value) {
            return Err(ParameterError::Number { parameter, value });
        }
    }
    let words = (p.operating_systems.iter().map(|word| ("operating systems", word)))
        .chain(p.architectures.iter().map(|word| ("architectures", word)))
        .chain(p.zones.iter().map(|word| ("zones", word)))
        .chain(p.memory_factors.iter().map(|factor| ("memory factors", &factor.family)))
        .chain(p.gpu_rows.iter().map(|row| ("GPU rows", &row.family)));
    for (parameter, word) in words {
        if word.is_empty() || !labels::is_label_value(word) {
            return Err(ParameterError::Word { parameter, value: word.clone() });
        }
    }
    if let Some(row) = p.gpu_rows.iter().find(|row| !labels::is_label_key(&row.resource)) {
        return Err(ParameterError::Word { parameter: "GPU rows", value: row.resource.clone() });
    }
    let mut seen = BTreeSet::new();
    match p.zones.iter().find(|zone| !seen.insert(zone.as_str())) {
        Some(zone) => Err(ParameterError::DuplicateZone(zone.clone())),
        None => Ok(()),
    }
}
