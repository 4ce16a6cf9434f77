//! Rule book §4, "Instance types of a machine": which offerings stay with a machine, minValues, and what daemons take.

use std::collections::{BTreeMap, BTreeSet};

use super::nano;
use super::pods::{any_term_matches, is_tolerated};
use super::requirement::{Requirement, Requirements, Side, both, conjunction, from_selector, overlap};
use super::state::{OpenMachine, Run, Template};
use crate::world::{InstanceType, Labels, Offering, Pod, Port, Resources, Taint, World};

const ZONE: &str = "topology.kubernetes.io/zone";

/// One available offering of one type.
#[derive(Debug)]
pub(super) struct Choice<'w> {
    pub ty: &'w InstanceType,
    pub type_requirements: Requirements,
    pub offering: &'w Offering,
    pub offering_requirements: Requirements,
}

impl Choice<'_> {
    /// What type and offering say about a key; `None` if neither defines it.
    pub fn defines(&self, key: &str) -> Option<Requirement> {
        match (self.type_requirements.get(key), self.offering_requirements.get(key)) {
            (Some(of_type), Some(of_offering)) => Some(of_type.and(of_offering)),
            (Some(one), None) | (None, Some(one)) => Some(one.clone()),
            (None, None) => None,
        }
    }

    /// The listed values of a key that this offering can give within the machine's requirements.
    pub fn values_within(&self, requirements: &Requirements, key: &str) -> Option<BTreeSet<String>> {
        let defined = self.defines(key)?;
        let within = match requirements.get(key) {
            Some(requirement) => defined.and(requirement),
            None => defined,
        };
        Some(within.listed_values().cloned().unwrap_or_default())
    }

    /// "The type's requirements and the offering's requirements each intersect the machine's".
    pub fn intersects(&self, requirements: &Requirements) -> bool {
        overlap(&self.type_requirements, requirements) && overlap(&self.offering_requirements, requirements)
    }

    /// Zone and capacity type within the machine's requirements (the first by name, should there be several).
    fn first_value(&self, requirements: &Requirements, key: &str) -> String {
        self.values_within(requirements, key).and_then(|values| values.first().cloned()).unwrap_or_default()
    }
}

/// The offerings that stay with a machine of these requirements and pods.
pub(super) fn remaining<'r>(
    run: &Run<'_>,
    template: &Template<'_>,
    requirements: &Requirements,
    candidates: &[&'r Choice<'r>],
    pods: &[&Pod],
) -> Vec<&'r Choice<'r>> {
    let requests = sum(pods.iter().map(|pod| &pod.requests));
    let ports: Vec<&Port> = pods.iter().flat_map(|pod| &pod.ports).collect();
    candidates
        .iter()
        .filter(|choice| choice.intersects(requirements))
        .filter(|choice| {
            let load = &run.daemon_loads[&(template.pool.name.clone(), choice.ty.name.clone())];
            fits(&sum([&requests, &load.requests]), &choice.ty.allocatable)
                && !ports.iter().any(|port| load.ports.iter().any(|taken| clash(port, taken)))
        })
        .copied()
        .collect()
}

/// "*minValues*": how many distinct values of the key the remaining offerings can give within the machine's requirement.
pub(super) fn distinct_values(requirements: &Requirements, choices: &[&Choice<'_>], key: &str) -> u32 {
    let values: BTreeSet<String> =
        choices.iter().filter_map(|choice| choice.values_within(requirements, key)).flatten().collect();
    u32::try_from(values.len()).unwrap_or(u32::MAX)
}

/// Whether minValues hold; with `lower` (BestEffort, opening) the numbers are lowered to what is there instead.
pub(super) fn enforce_min_values(
    requirements: &Requirements,
    choices: &[&Choice<'_>],
    wanted: &BTreeMap<String, u32>,
    lower: bool,
) -> Result<BTreeMap<String, u32>, String> {
    let mut numbers = BTreeMap::new();
    for (key, number) in wanted {
        let there = distinct_values(requirements, choices, key);
        if there < *number && !lower {
            return Err(format!("minValues {number} of `{key}` is not met: {there} left"));
        }
        numbers.insert(key.clone(), there.min(*number));
    }
    Ok(numbers)
}

/// "*Daemons*": what the DaemonSets that count on a type or node take.
#[derive(Debug, Clone, Default)]
pub(super) struct DaemonLoad {
    pub requests: Resources,
    pub ports: Vec<Port>,
}

/// The daemons of a template's machine of this type.
pub(super) fn daemon_load(world: &World, template: &Template<'_>, ty: &InstanceType) -> DaemonLoad {
    let side = Side::Template { well_known: &world.well_known };
    let registered = from_selector(&Labels::from([
        ("karpenter.sh/registered".to_owned(), "true".to_owned()),
        ("karpenter.sh/initialized".to_owned(), "true".to_owned()),
    ]));
    let offered = both(&template.requirements, &registered);
    let type_requirements = conjunction(&ty.requirements);
    load_of(world, &template.pool.taints, |asked| {
        side.compatible(&offered, asked) && overlap(asked, &type_requirements)
    })
}

/// The daemons expected where `matches` says a nodeSelector with one required term fits.
pub(super) fn load_of(
    world: &World,
    taints: &[Taint],
    matches: impl Fn(&Requirements) -> bool,
) -> DaemonLoad {
    let tolerates = |daemon: &Pod| {
        taints
            .iter()
            .all(|taint| taint.effect == "PreferNoSchedule" || is_tolerated(taint, &daemon.tolerations))
    };
    let counting: Vec<&Pod> = world
        .daemons
        .iter()
        .filter(|daemon| tolerates(daemon) && any_term_matches(daemon, &matches))
        .collect();
    DaemonLoad {
        requests: sum(counting.iter().map(|daemon| &daemon.requests)),
        ports: counting.iter().flat_map(|daemon| daemon.ports.clone()).collect(),
    }
}

/// The cheapest of the remaining offerings, as the plan shows it: type, zone, capacity type, price.
pub(super) fn cheapest(machine: &OpenMachine<'_>) -> (String, String, String, f64) {
    let shown = |choice: &&Choice<'_>| {
        (
            choice.ty.name.clone(),
            choice.first_value(&machine.requirements, ZONE),
            choice.first_value(&machine.requirements, super::pods::CAPACITY_TYPE),
            choice.offering.price,
        )
    };
    machine
        .choices
        .iter()
        .map(shown)
        .min_by(|a, b| nano(a.3).cmp(&nano(b.3)).then_with(|| (&a.0, &a.1, &a.2).cmp(&(&b.0, &b.1, &b.2))))
        .unwrap_or_default()
}

/// The remaining types by their cheapest remaining offering, ties by name, at most 600.
pub(super) fn type_names(machine: &OpenMachine<'_>) -> Vec<String> {
    let mut prices: BTreeMap<&str, i128> = BTreeMap::new();
    for choice in &machine.choices {
        let price = prices.entry(&choice.ty.name).or_insert(i128::MAX);
        *price = (*price).min(nano(choice.offering.price));
    }
    let mut names: Vec<(&str, i128)> = prices.into_iter().collect();
    names.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.cmp(b.0)));
    names.into_iter().take(600).map(|(name, _)| name.to_owned()).collect()
}

/// The sum, resource by resource.
pub(super) fn sum<'a>(lists: impl IntoIterator<Item = &'a Resources>) -> Resources {
    let mut total = Resources::new();
    for list in lists {
        for (resource, amount) in list {
            *total.entry(resource.clone()).or_insert(0) += amount;
        }
    }
    total
}

/// Whether the requests fit: a request of zero needs nothing, and where anything is negative nothing fits.
pub(super) fn fits(requests: &Resources, available: &Resources) -> bool {
    available.values().all(|amount| *amount >= 0)
        && requests.iter().all(|(resource, amount)| {
            *amount <= 0 || *amount <= available.get(resource).copied().unwrap_or(0)
        })
}

/// Whether two host ports exclude each other.
pub(super) fn clash(one: &Port, other: &Port) -> bool {
    let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
    one.port == other.port
        && one.protocol == other.protocol
        && (any(&one.host_ip) || any(&other.host_ip) || one.host_ip == other.host_ip)
}
