//! The choice: catalogues for what was surveyed, under what was asked for.

use std::collections::{BTreeMap, BTreeSet};

use joiner_api::instance_type::InstanceType;
use joiner_api::names::{AWS_INSTANCE_FAMILY_LABEL, INSTANCE_TYPE_LABEL};
use joiner_core::model::{Names, Operator, Requirement};
use joiner_provider_aws::class::Class;
use joiner_provider_aws::price_file::known_regions;
use joiner_provider_aws::prices::{Prices, SPOT_FACTOR};
use joiner_provider_aws::resources::Settings;
use joiner_provider_aws::world::{Region, RegionPrices, world};
use joiner_provider_kwok::Catalogue;

use super::prices;
use super::survey::PoolFacts;
use super::{AwsArgs, CatalogueArgs, Catalogues, Survey};
use crate::cli::Catalog;
use crate::commands::instance_types;
use crate::report::InputError;

/// The region where nothing names one.
const USUAL_REGION: &str = "us-east-1";
/// When the shipped price lists were made.
const LIST_DATE: &str = "July 2026";

/// Catalogues for all pools that were surveyed.
pub fn choose(arguments: &CatalogueArgs, survey: &Survey) -> Result<Catalogues, InputError> {
    let mut chosen = match (&arguments.instance_types, arguments.catalog) {
        (Some(path), _) => Catalogues::from(instance_types::load(path)?),
        (None, Some(Catalog::Kwok)) => Catalogues::from(Catalogue::hypothetical()),
        (None, named) => by_class(&arguments.aws, survey, named == Some(Catalog::Aws))?,
    };
    chosen.tell_apart();
    let of_lists: Vec<String> = chosen.all().flat_map(|of| of.notes.clone()).collect();
    chosen.notes.extend(of_lists);
    let unknown = unknown_keys(&chosen, survey);
    chosen.notes.extend(unknown);
    Ok(chosen)
}

/// The machines of the region that was asked for, else of the usual one, with the usual settings, and what to know of them.
pub fn of_region(arguments: &AwsArgs) -> Result<(Catalogue, Vec<String>), InputError> {
    let market = Market::new(arguments)?;
    let (region, why) = match market.asked {
        Some(region) => (region, "as --region says"),
        None => (usual()?, "no region is named: --region for another"),
    };
    let mut notes = market.notes.clone();
    notes.push(market.words(region, why));
    Ok((market.catalogue(region, &Class::named("default")), notes))
}

pub(super) fn usual() -> Result<&'static Region, InputError> {
    known("", USUAL_REGION)
}

fn known(flag: &str, name: &str) -> Result<&'static Region, InputError> {
    world().region(name).ok_or_else(|| InputError {
        path: Some(flag.to_owned()),
        value: Some(name.to_owned()),
        message: "nobody knows this region".to_owned(),
        remedy: Some(known_regions(name)),
        ..InputError::default()
    })
}

/// What holds for all machines of AWS.
pub(super) struct Market {
    settings: Settings,
    prices: Prices,
    pub asked: Option<&'static Region>,
    has_files: bool,
    notes: Vec<String>,
}

impl Market {
    pub fn new(arguments: &AwsArgs) -> Result<Self, InputError> {
        let (prices, notes) = prices::read(arguments)?;
        Ok(Self {
            settings: Settings {
                reserved_enis: arguments.reserved_enis,
                vm_memory_overhead: arguments.vm_memory_overhead_percent,
            },
            prices,
            asked: arguments.region.as_deref().map(|name| known("--region", name)).transpose()?,
            has_files: !arguments.prices.is_empty(),
            notes,
        })
    }

    pub fn catalogue(&self, region: &Region, class: &Class) -> Catalogue {
        Catalogue::aws(region, class, self.settings, &self.prices)
    }

    /// Where machines and prices of a region are from.
    fn words(&self, region: &Region, why: &str) -> String {
        let spot = format!("spot prices are estimates ({SPOT_FACTOR} of that)");
        let prices = match region.prices {
            RegionPrices::List(_) => format!("on-demand prices are AWS's list of {LIST_DATE}, {spot}"),
            RegionPrices::Times(1.0) => {
                format!("on-demand prices are estimates (the list of {USUAL_REGION}), {spot}")
            }
            RegionPrices::Times(factor) => {
                format!("on-demand prices are estimates ({factor} times the list of {USUAL_REGION}), {spot}")
            }
        };
        let others =
            if self.has_files { ", where --prices has none" } else { "; --prices FILE for better ones" };
        format!("AWS machines are those of {} ({why}); {prices}{others}", region.name)
    }
}

/// What makes two pools launch the same machines.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key<'s> {
    region: &'static str,
    class: &'s str,
    kubelet: Option<String>,
}

fn by_class(arguments: &AwsArgs, survey: &Survey, aws_for_all: bool) -> Result<Catalogues, InputError> {
    let of_aws: Vec<(&String, &PoolFacts)> = survey.pools.iter().filter(|(_, pool)| pool.of_aws).collect();
    let others = of_aws.len() < survey.pools.len();
    let mut chosen = Catalogues::default();
    if others && !aws_for_all {
        chosen.everybody = Some(Catalogue::hypothetical());
    }
    let only_nodes = survey.has_aws_nodes && of_aws.is_empty();
    if of_aws.is_empty() && !aws_for_all && !only_nodes {
        // Nobody asks for machines; who only reads nodes still wants to know some.
        chosen.everybody.get_or_insert_with(Catalogue::hypothetical);
        return Ok(chosen);
    }
    let market = Market::new(arguments)?;
    chosen.notes.extend(market.notes.iter().cloned());
    let mut regions: BTreeMap<&'static str, String> = BTreeMap::new();
    let mut pools: BTreeMap<Key, BTreeSet<String>> = BTreeMap::new();
    for (name, pool) in &of_aws {
        let (region, why) = region_of(name, pool, survey, &market, &mut chosen.notes)?;
        regions.entry(&region.name).or_insert(why);
        // With a region that was asked for, zones elsewhere are a matter of what fits.
        if let Some(trouble) = pool.trouble.as_ref().filter(|_| market.asked.is_none()) {
            return Err(trouble.clone());
        }
        if let Some(trouble) = survey.classes.get(&pool.class).and_then(|class| class.trouble.as_ref()) {
            return Err(trouble.clone());
        }
        let kubelet = pool.kubelet.as_ref().map(ToString::to_string);
        let key = Key { region: &region.name, class: &pool.class, kubelet };
        pools.entry(key).or_default().insert((*name).clone());
    }
    class_notes(&of_aws, survey, &mut chosen.notes);
    for (key, names) in pools {
        let region = known("", key.region)?;
        let plain = Class::named(key.class);
        let mut class = survey.classes.get(key.class).map_or(&plain, |of| &of.read.class).clone();
        let kubelet = names.first().and_then(|name| survey.pools.get(name)?.kubelet.as_ref());
        if let Some(kubelet) = kubelet {
            class = class.with_kubelet(kubelet, "").class;
        }
        let catalogue = market.catalogue(region, &class);
        for name in &names {
            let Some(pool) = survey.pools.get(name) else { continue };
            left_for_pods(survey, pool, &catalogue)?;
            chosen.notes.extend(without_price(name, pool, &catalogue));
        }
        chosen.of_pools.push((names, catalogue));
    }
    let elsewhere = || match survey.regions.iter().next() {
        Some((region, who)) => Ok((known("", region)?, format!("where {who} are"))),
        None => Ok((usual()?, "no zone is named: --region for another".to_owned())),
    };
    let all_without_pools = aws_for_all && of_aws.is_empty();
    if all_without_pools || others && aws_for_all || only_nodes {
        let (region, why) = match market.asked {
            Some(region) => (region, "as --region says".to_owned()),
            None => elsewhere()?,
        };
        regions.entry(&region.name).or_insert(why);
        let catalogue = market.catalogue(region, &Class::named("default"));
        if aws_for_all {
            chosen.everybody = Some(catalogue.with_kwok_labels());
        } else {
            chosen.of_pools.push((BTreeSet::new(), catalogue));
        }
    }
    let words = regions.iter().filter_map(|(name, why)| Some(market.words(world().region(name)?, why)));
    chosen.notes.extend(words);
    Ok(chosen)
}

/// The region of a pool, and why.
fn region_of(
    name: &str,
    pool: &PoolFacts,
    survey: &Survey,
    market: &Market,
    notes: &mut Vec<String>,
) -> Result<(&'static Region, String), InputError> {
    if let Some(region) = market.asked {
        return Ok((region, "as --region says".to_owned()));
    }
    if let Some(region) = &pool.region {
        return Ok((known("", region)?, "where pools have their zones".to_owned()));
    }
    let subnets = survey.classes.get(&pool.class).and_then(|class| class.read.class.subnets.as_ref());
    let subnet = subnets
        .into_iter()
        .flatten()
        .find_map(|zone| world().region(joiner_provider_aws::world::region_of_zone(&zone.name)?));
    if let Some(region) = subnet {
        return Ok((region, "where classes have their subnets".to_owned()));
    }
    let mut named: BTreeMap<&str, &str> =
        survey.regions.iter().map(|(region, who)| (region.as_str(), who.as_str())).collect();
    for region in
        survey.pools.values().filter(|pool| pool.trouble.is_none()).filter_map(|of| of.region.as_deref())
    {
        named.insert(region, "other pools");
    }
    let Some((region, who)) = named.iter().next() else {
        return Ok((usual()?, "no zone is named: --region for another".to_owned()));
    };
    if named.len() > 1 {
        let all: Vec<&str> = named.keys().copied().collect();
        notes.push(format!(
            "NodePool `{name}` names no zone, and others name several regions ({}): it gets machines of {region}; --region for another",
            all.join(", ")
        ));
    }
    Ok((known("", region)?, format!("where {who} are")))
}

fn class_notes(pools: &[(&String, &PoolFacts)], survey: &Survey, notes: &mut Vec<String>) {
    let classes: BTreeSet<&str> = pools.iter().map(|(_, pool)| pool.class.as_str()).collect();
    let missing: Vec<String> = classes
        .iter()
        .filter(|class| !survey.classes.contains_key(**class))
        .map(|class| format!("`{class}`"))
        .collect();
    if !missing.is_empty() {
        notes.push(format!(
            "EC2NodeClass {} is not in the input: machines run AL2023 with its usual settings",
            missing.join(", ")
        ));
    }
    for class in classes {
        let Some(facts) = survey.classes.get(class) else { continue };
        notes.extend(facts.read.notes.iter().map(|note| format!("EC2NodeClass `{class}`: {note}")));
        let unread = facts.read.class.reservations.iter().filter(|of| of.left.is_none()).count();
        if unread > 0 {
            notes.push(format!(
                "EC2NodeClass `{class}`: {} left out, for nothing says how many machines they have left",
                crate::show::plural(unread, "capacity reservation")
            ));
        }
    }
}

/// Refuses a class that keeps everything back of every machine its pool may use.
fn left_for_pods(survey: &Survey, pool: &PoolFacts, catalogue: &Catalogue) -> Result<(), InputError> {
    let Some(class) = survey.classes.get(&pool.class).filter(|class| !class.reserved.is_empty()) else {
        return Ok(());
    };
    let mut names = Names::default();
    let allowed: Vec<&InstanceType> =
        catalogue.types.iter().filter(|of| admits(pool, of, &mut names)).collect();
    for (resource, error) in &class.reserved {
        let is_empty = |of: &&InstanceType| of.allocatable().get(*resource).is_none_or(|left| left.is_zero());
        if !allowed.is_empty() && allowed.iter().all(is_empty) {
            return Err(error.clone());
        }
    }
    Ok(())
}

/// Whether the requirements of a pool allow the type, zones and capacity types aside.
fn admits(pool: &PoolFacts, of: &InstanceType, names: &mut Names) -> bool {
    pool.requirements.iter().all(|requirement| {
        let Some(said) = of.requirement(requirement.stable_key()) else { return true };
        let Some(operator) = Operator::parse(&requirement.operator) else { return true };
        let key = names.key(requirement.stable_key());
        let values: Vec<&str> = requirement.values.iter().map(String::as_str).collect();
        let wanted = Requirement::from_expression(names, key, operator, &values);
        let Some(of_type) = Operator::parse(said.operator.as_str()) else { return true };
        let values: Vec<&str> = said.values.iter().map(String::as_str).collect();
        let said = Requirement::from_expression(names, key, of_type, &values);
        !said.intersect(&wanted, names, key).is_empty()
    })
}

/// Types that a pool names and nobody knows a price of.
fn without_price(name: &str, pool: &PoolFacts, catalogue: &Catalogue) -> Option<String> {
    let named = pool.requirements.iter().filter(|of| {
        of.operator == "In" && [AWS_INSTANCE_FAMILY_LABEL, INSTANCE_TYPE_LABEL].contains(&of.stable_key())
    });
    let mut without: Vec<&str> = Vec::new();
    for requirement in named {
        for value in &requirement.values {
            let is_meant = |of: &&InstanceType| {
                of.requirement(requirement.stable_key()).and_then(|said| said.single_value()) == Some(value)
            };
            let mut of = catalogue.types.iter().filter(is_meant).peekable();
            let all = of.peek().is_some()
                && of.all(|of| of.offerings.iter().all(|offering| !offering.price.is_finite()));
            if all {
                without.push(value);
            }
        }
    }
    without.sort_unstable();
    without.dedup();
    (!without.is_empty()).then(|| {
        format!(
            "NodePool `{name}`: no price of {} is known, so nothing of it is launched; give some with --prices",
            without.join(", ")
        )
    })
}

/// Requirements on labels that the machines of a pool say nothing about.
fn unknown_keys(chosen: &Catalogues, survey: &Survey) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, pool) in &survey.pools {
        let Some(catalogue) = chosen.of_pool(name) else { continue };
        for key in pool.provider_keys() {
            let says = |of: &InstanceType| {
                of.requirement(key).is_some()
                    || of
                        .offerings
                        .iter()
                        .any(|offering| offering.requirements.iter().any(|said| said.key == key))
            };
            if !catalogue.types.first().is_some_and(says) {
                notes.push(format!(
                    "NodePool `{name}`: the instance types say nothing about `{key}`, so it is taken as met by all of them; \
                     give a list that has it with --instance-types, or narrow by another label"
                ));
            }
        }
    }
    notes
}
