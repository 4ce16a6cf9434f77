//! Which instance types pools are judged by.
//!
//! The shipped AWS list is that of one region. Pools of another region name other zones, and there is nothing wrong with
//! them: the list is then moved to the zones they name. Types and prices differ little from region to region.

use std::collections::BTreeSet;

use joiner_api::instance_type::{InstanceType, TypeRequirement};
use joiner_api::names::{AWS_GROUP, ZONE_LABEL};
use joiner_manifest::Object;
use joiner_provider_aws::shipped::{REGION, ZONES};
use joiner_provider_kwok::Catalogue;

use super::LintArgs;
use super::input::Input;
use crate::cli::Catalog;
use crate::commands::instance_types;

/// A catalogue, and where it is from.
#[derive(Debug)]
pub struct Chosen {
    /// The types.
    pub catalogue: Catalogue,
    /// It is the shipped AWS list: there may be types and zones it does not know.
    pub is_shipped_aws: bool,
    /// What the user should know about it.
    pub notes: Vec<String>,
}

/// The catalogue that was named, or the one that fits the pools.
pub fn choose(arguments: &LintArgs, input: &Input) -> anyhow::Result<Chosen> {
    if let Some(path) = &arguments.instance_types {
        let catalogue = instance_types::load(path)?;
        return Ok(Chosen { catalogue, is_shipped_aws: false, notes: Vec::new() });
    }
    let wants_aws = input.objects.iter().any(|loaded| match &loaded.object {
        Object::NodePool(pool) => pool.spec.template.spec.node_class_ref.group == AWS_GROUP,
        _ => false,
    });
    match arguments.catalog {
        Some(Catalog::Kwok) => {}
        None if !wants_aws => {}
        Some(Catalog::Aws) | None => return Ok(shipped_aws(input)),
    }
    Ok(Chosen { catalogue: Catalogue::hypothetical(), is_shipped_aws: false, notes: Vec::new() })
}

fn shipped_aws(input: &Input) -> Chosen {
    let mut catalogue = Catalogue::aws();
    let named = zones_named(input);
    let foreign: BTreeSet<&str> = named.iter().copied().filter(|zone| region(zone) != Some(REGION)).collect();
    if foreign.is_empty() {
        return Chosen { catalogue, is_shipped_aws: true, notes: Vec::new() };
    }
    let at_home = named.len() > foreign.len();
    let zones: Vec<&str> =
        if at_home { ZONES.into_iter().chain(foreign).collect() } else { foreign.into_iter().collect() };
    for instance_type in &mut catalogue.types {
        move_to(instance_type, &zones);
    }
    let note = format!(
        "zones outside {REGION} are judged by the instance types of {REGION}; give your own list with --instance-types"
    );
    Chosen { catalogue, is_shipped_aws: true, notes: vec![note] }
}

/// Zones of AWS that pools name.
fn zones_named(input: &Input) -> BTreeSet<&str> {
    let pools = input.objects.iter().filter_map(|loaded| match &loaded.object {
        Object::NodePool(pool) => Some(&pool.spec.template.spec.requirements),
        _ => None,
    });
    let zones = pools.flatten().filter(|requirement| requirement.stable_key() == ZONE_LABEL);
    zones
        .flat_map(|requirement| &requirement.values)
        .map(String::as_str)
        .filter(|zone| region(zone).is_some())
        .collect()
}

/// The region of an AWS zone such as `eu-central-1b`.
fn region(zone: &str) -> Option<&str> {
    let region = zone.strip_suffix(|letter: char| letter.is_ascii_lowercase())?;
    let number = region.rsplit('-').next()?;
    let is_number = number.len() == 1 && number.bytes().all(|byte| byte.is_ascii_digit());
    let has_parts =
        region.split('-').count() >= 3 && region.split('-').next().is_some_and(|part| part.len() == 2);
    (is_number && has_parts).then_some(region)
}

/// Offers a type in these zones on the terms of its first one.
fn move_to(instance_type: &mut InstanceType, zones: &[&str]) {
    let in_first: Vec<_> = instance_type
        .offerings
        .iter()
        .filter(|offering| offering.zone() == Some(ZONES[0]))
        .cloned()
        .collect();
    let set_zones = |requirements: &mut [TypeRequirement], values: &[&str]| {
        for requirement in requirements.iter_mut().filter(|requirement| requirement.key == ZONE_LABEL) {
            *requirement = TypeRequirement::one_of(ZONE_LABEL, values.iter().copied());
        }
    };
    let everywhere = zones.iter().flat_map(|zone| {
        in_first.iter().cloned().map(move |mut offering| {
            let mut requirements = offering.requirements.to_vec();
            set_zones(&mut requirements, &[zone]);
            offering.requirements = requirements.into();
            offering
        })
    });
    instance_type.offerings = everywhere.collect();
    set_zones(&mut instance_type.requirements, zones);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_of_zones() {
        for (zone, expected) in [
            ("us-west-2a", Some("us-west-2")),
            ("eu-central-1b", Some("eu-central-1")),
            ("us-gov-west-1a", Some("us-gov-west-1")),
            ("test-zone-a", None),
            ("us-west-2", None),
            ("a", None),
        ] {
            assert_eq!(region(zone), expected, "{zone}");
        }
    }

    #[test]
    fn a_type_moves_with_its_terms() {
        let mut catalogue = Catalogue::aws();
        move_to(&mut catalogue.types[0], &["eu-central-1a", "eu-central-1b", "eu-central-1c"]);
        let moved = &catalogue.types[0];
        assert_eq!(moved.offerings.len(), 6);
        assert_eq!(moved.zones().len(), 3);
        assert_eq!(moved.requirement(ZONE_LABEL).map(|zones| zones.values.len()), Some(3));
    }
}
