//! What a list says of one machine type, and how the full [`InstanceType`] follows from it.
//!
//! Formulae and files meet here, so labels and overhead are derived in one
//! place and a list means the same wherever it came from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_api::instance_type::{InstanceType, Offering, Overhead, ResourceList, TypeRequirement};
use joiner_api::names::{ARCH_LABEL, CAPACITY_TYPE_LABEL, INSTANCE_TYPE_LABEL, OS_LABEL, ZONE_LABEL};
use joiner_api::quantity::Quantity;
use joiner_provider_aws::labels::{self as aws_labels, AWS_LABELS, AwsName};

use crate::labels;

/// Pods per machine where a list does not say.
pub const DEFAULT_PODS: &str = "110";
/// CPU every machine keeps for the kubelet.
pub const KUBE_RESERVED_CPU: &str = "100m";
/// Memory every machine keeps for the kubelet.
pub const KUBE_RESERVED_MEMORY: &str = "10Mi";

/// One type as a list describes it, before labels and overhead are derived.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The type's name.
    pub name: String,
    /// Processor architecture, e.g. `amd64`.
    pub architecture: String,
    /// Operating systems its machines can run, one of which each machine gets.
    pub operating_systems: Vec<String>,
    /// The whole machine, `pods` included.
    pub resources: ResourceList,
    /// The terms on which it can be had.
    pub offerings: Vec<Offering>,
    /// Volumes its machines can attach, by CSI driver; a driver not named is not limited.
    pub volume_limits: BTreeMap<String, u32>,
}

/// Derives requirements and overhead for a whole list.
///
/// The list is taken together because one AWS-shaped name makes the AWS labels well-known for all: a type that has
/// no such label must then say so (`DoesNotExist`), or it would pass for a machine with any value.
pub fn instance_types(entries: Vec<Entry>) -> Vec<InstanceType> {
    let with_aws_labels = entries.iter().any(|entry| AwsName::parse(&entry.name).is_some());
    let overhead = Arc::new(overhead());
    let mut shared = SharedLists::default();
    entries
        .into_iter()
        .map(|mut entry| {
            shared.share(&mut entry.offerings);
            instance_type(entry, with_aws_labels, overhead.clone())
        })
        .collect()
}

fn instance_type(entry: Entry, with_aws_labels: bool, overhead: Arc<Overhead>) -> InstanceType {
    let mut requirements = Vec::with_capacity(9 + if with_aws_labels { AWS_LABELS.len() } else { 0 });
    requirements.push(TypeRequirement::one_of(INSTANCE_TYPE_LABEL, [entry.name.as_str()]));
    requirements.push(TypeRequirement::one_of(ARCH_LABEL, [entry.architecture]));
    requirements.push(TypeRequirement::one_of(OS_LABEL, entry.operating_systems));
    requirements.push(union_of(&entry.offerings, ZONE_LABEL));
    requirements.push(union_of(&entry.offerings, CAPACITY_TYPE_LABEL));
    requirements.extend(labels::kwok_requirements(&entry.name, &entry.resources));
    if with_aws_labels {
        requirements.extend(aws_labels::requirements(&entry.name, &entry.resources));
    }
    InstanceType {
        name: entry.name,
        requirements,
        offerings: entry.offerings,
        capacity: entry.resources,
        overhead,
        volume_limits: entry.volume_limits,
    }
}

/// The requirements of offerings seen so far: a list has thousands of offerings, but few combinations of zone and
/// capacity type.
#[derive(Default)]
pub(crate) struct SharedLists {
    seen: Vec<Arc<[TypeRequirement]>>,
}

impl SharedLists {
    /// Lists looked through for an equal one; past that looking costs more than it saves.
    const SEEN_MAX: usize = 64;

    /// Lets offerings with equal requirements hold the same list.
    pub(crate) fn share(&mut self, offerings: &mut [Offering]) {
        for offering in offerings {
            match self.seen.iter().find(|seen| **seen == offering.requirements) {
                Some(seen) => offering.requirements = seen.clone(),
                None if self.seen.len() < Self::SEEN_MAX => self.seen.push(offering.requirements.clone()),
                None => {}
            }
        }
    }
}

/// Every value some offering names for the key. Where none does, machines of the type lack the label.
fn union_of(offerings: &[Offering], key: &str) -> TypeRequirement {
    let values: BTreeSet<&str> = offerings
        .iter()
        .flat_map(|offering| offering.requirements.iter())
        .filter(|requirement| requirement.key == key)
        .flat_map(|requirement| requirement.values.iter().map(String::as_str))
        .collect();
    if values.is_empty() { TypeRequirement::absent(key) } else { TypeRequirement::one_of(key, values) }
}

fn overhead() -> Overhead {
    let kube_reserved = ResourceList::from([
        ("cpu".to_owned(), constant(KUBE_RESERVED_CPU)),
        ("memory".to_owned(), constant(KUBE_RESERVED_MEMORY)),
    ]);
    Overhead { kube_reserved, ..Overhead::default() }
}

/// Reads a quantity that is written in this crate's own source.
pub(crate) fn constant(text: &str) -> Quantity {
    Quantity::parse(text).expect("a quantity in our own source is well formed")
}
