//! A list that is ready for use, and its three sources.

use joiner_api::instance_type::InstanceType;
use joiner_api::names::{AWS_GROUP, KWOK_WELL_KNOWN_LABELS, domain_of};

use joiner_provider_aws::shipped;

use crate::entry::{self, Entry};
use crate::file::{self, Availability};
use crate::hypothetical::{self, ParameterError, Parameters};
use crate::problem::LoadError;

/// Machine types, the label keys they make well-known, and remarks about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    /// The types, in the order of their source.
    pub types: Vec<InstanceType>,
    /// Label keys that become well-known with this list, sorted; those of the core are not repeated unless an
    /// offering names them.
    pub well_known: Vec<String>,
    /// Remarks for the list's author.
    pub notes: Vec<String>,
}

impl Catalogue {
    /// The standard list of computed types.
    pub fn hypothetical() -> Self {
        Self::generated(&Parameters::default()).expect("the default parameters are checked by a test")
    }

    /// A list computed from other parameters.
    pub fn generated(parameters: &Parameters) -> Result<Self, ParameterError> {
        Ok(Self::new(hypothetical::generate(parameters)?, Vec::new()))
    }

    /// Machines of AWS us-west-2 ([`joiner_provider_aws::shipped`]), with what every machine of this provider has besides.
    pub fn aws() -> Self {
        let entries = shipped::machines().into_iter().map(|machine| Entry {
            name: machine.name,
            architecture: machine.architecture,
            operating_systems: vec!["linux".to_owned()],
            resources: machine.resources,
            offerings: machine.offerings,
            volume_limits: Default::default(),
        });
        Self::new(entry::instance_types(entries.collect()), Vec::new())
    }

    /// A list from the text of a file; `file_name` picks the format by its end and names the file in messages.
    pub fn from_text(file_name: &str, text: &str) -> Result<Self, LoadError> {
        Self::from_text_with(file_name, text, Availability::default())
    }

    /// The same with a choice of what `Available: false` means.
    pub fn from_text_with(
        file_name: &str,
        text: &str,
        availability: Availability,
    ) -> Result<Self, LoadError> {
        let loaded = file::load(file_name, text, availability)?;
        Ok(Self::new(entry::instance_types(loaded.entries), loaded.notes))
    }

    fn new(types: Vec<InstanceType>, notes: Vec<String>) -> Self {
        let well_known = well_known_labels(&types);
        Catalogue { types, well_known, notes }
    }
}

/// The label keys a list makes well-known, sorted: all that offerings name, the KWOK provider's four, and the AWS
/// labels if the list has them.
pub fn well_known_labels(types: &[InstanceType]) -> Vec<String> {
    let mut keys: Vec<&str> = KWOK_WELL_KNOWN_LABELS.to_vec();
    // All types of a list have the same AWS keys, or none has any.
    let of_aws = types.first().into_iter().flat_map(|of| &of.requirements);
    keys.extend(of_aws.map(|requirement| requirement.key.as_str()).filter(|key| domain_of(key) == AWS_GROUP));
    // Thousands of offerings share two or three keys, so looking back at the few seen is all it takes.
    let of_types = keys.len();
    for requirement in
        types.iter().flat_map(|of| &of.offerings).flat_map(|offering| offering.requirements.iter())
    {
        if !keys[of_types..].contains(&requirement.key.as_str()) {
            keys.push(&requirement.key);
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(str::to_owned).collect()
}
