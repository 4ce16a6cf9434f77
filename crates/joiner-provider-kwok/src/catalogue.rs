//! A list that is ready for use, and its three sources.

use joiner_api::instance_type::{InstanceType, TypeRequirement};
use joiner_api::names::{AWS_GROUP, KWOK_WELL_KNOWN_LABELS, domain_of};
use joiner_provider_aws::class::Class;
use joiner_provider_aws::prices::Prices;
use joiner_provider_aws::resources::Settings;
use joiner_provider_aws::world::Region;

use crate::entry;
use crate::file::{self, Availability};
use crate::hypothetical::{self, ParameterError, Parameters};
use crate::labels;
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

    /// The machine types of an AWS region, as a class gets them.
    pub fn aws(region: &Region, class: &Class, settings: Settings, prices: &Prices) -> Self {
        let types = joiner_provider_aws::catalogue::types(region, class, settings, prices);
        Self { types, well_known: joiner_provider_aws::catalogue::well_known_labels(), notes: Vec::new() }
    }

    /// The same types with the labels that machines of this provider have besides, for its own pools.
    #[must_use]
    pub fn with_kwok_labels(mut self) -> Self {
        for of in &mut self.types {
            of.requirements.extend(labels::kwok_requirements(&of.name, &of.capacity));
        }
        self.well_known.extend(KWOK_WELL_KNOWN_LABELS.map(str::to_owned));
        self.well_known.sort_unstable();
        self.well_known.dedup();
        self
    }

    /// Lets its machines say that they lack labels of other providers, wherever they say nothing of them: beside those, silence would mean any value.
    pub fn deny(&mut self, keys: &[&str]) {
        for of in &mut self.types {
            for key in keys {
                if of.requirement(key).is_none() {
                    of.requirements.push(TypeRequirement::absent(key));
                }
            }
        }
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
