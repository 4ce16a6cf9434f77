//! Machine types in a cluster that lives: classes and pools come and change, and what they say counts from then on.

use std::sync::Arc;

use joiner_api::NodePool;
use joiner_api::names::KWOK_WELL_KNOWN_LABELS;
use joiner_manifest::Object;
use joiner_provider_aws::class::Class;
use joiner_provider_aws::world::{Region, region_of_zone, world};
use joiner_provider_kwok::live::TypesOfClass;
use serde_json::Value;

use super::choose::{Market, usual};
use super::survey::regions_named;
use super::{AwsArgs, Survey};
use crate::report::InputError;

/// Kinds that tell about machines.
const TELLING: [&str; 6] =
    ["NodePool", "EC2NodeClass", "AWSNodeTemplate", "Node", "PersistentVolume", "StorageClass"];

impl Survey {
    /// What objects tell that stand in no file.
    pub fn of_values<'v>(values: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut survey = Self::default();
        for value in values {
            if !value["kind"].as_str().is_some_and(|kind| TELLING.contains(&kind)) {
                continue;
            }
            // What cannot be read is refused by the cluster.
            for (name, object) in
                joiner_manifest::read(value, false).map(|read| read.objects).unwrap_or_default()
            {
                survey.look_at(&name, &object);
            }
        }
        survey
    }

    fn look_at(&mut self, name: &str, object: &Object) {
        for (slot, problem) in self.add(name, object) {
            let error = InputError {
                object: Some(problem.object),
                path: Some(problem.path),
                value: Some(problem.value),
                message: problem.message,
                remedy: Some(problem.remedy),
                ..InputError::default()
            };
            self.blame(slot, error);
        }
    }
}

/// Types of AWS classes: by the class and its pools as they are now, else as they were surveyed at the start.
///
/// # Errors
/// A file of prices or the region cannot be used.
pub fn types_of_classes(arguments: &AwsArgs, survey: Survey) -> Result<TypesOfClass, InputError> {
    let market = Market::new(arguments)?;
    let usual = usual()?;
    Ok(Arc::new(move |name: &str, object: Option<&Value>, pools: &[Value]| {
        let class = match (object, survey.classes.get(name)) {
            (Some(object), _) => Class::read(object).class,
            (None, Some(facts)) => facts.read.class.clone(),
            (None, None) => Class::named(name),
        };
        let subnet =
            class.subnets.iter().flatten().find_map(|zone| world().region(region_of_zone(&zone.name)?));
        let of_survey = || {
            let own = survey.pools.values().filter(|pool| pool.of_aws && pool.class == name);
            let own = own.filter_map(|pool| pool.region.as_deref()).next();
            let others = survey.pools.values().filter_map(|pool| pool.region.as_deref());
            own.or_else(|| others.chain(survey.regions.keys().map(String::as_str)).min())
                .and_then(|region| world().region(region))
        };
        let region: &Region = market
            .asked
            .or_else(|| pools.iter().find_map(region_of_pool))
            .or(subnet)
            .or_else(of_survey)
            .unwrap_or(usual);
        let mut catalogue = market.catalogue(region, &class);
        catalogue.deny(&KWOK_WELL_KNOWN_LABELS);
        catalogue
    }))
}

fn region_of_pool(pool: &Value) -> Option<&'static Region> {
    let pool: NodePool = serde_json::from_value(pool.clone()).ok()?;
    regions_named(&pool).into_iter().find_map(|(_, region, _)| world().region(region))
}
