//! New nodes as purchases: what the pool allows, which other types could do, whether the cheapest comes first, and `minValues`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::predicates::{clash, selects};
use super::seats::{CAPACITY_TYPE, Facts, HOSTNAME, Kind, Seat, ZONE, close, daemons_on, offered};
use super::surface::{Ask, all_together};
use super::{Policy, Violation, placement};
use crate::world::{Expr, InstanceType, Offering, Pod, Port, Resources, Selector, World};

pub(super) fn check(
    world: &World,
    facts: &Facts,
    seats: &[Seat<'_>],
    policy: Policy,
    violations: &mut Vec<Violation>,
) {
    let mut market = Market { world, facts, suitable: BTreeMap::new(), overhead: BTreeMap::new() };
    let any_terms = world.pods.iter().any(has_terms);
    let counted = Counted::new(world);
    for seat in seats {
        let Kind::New { pool, instance_type, offering } = seat.kind else { continue };
        if seat.plan.kept {
            continue;
        }
        let node = &seat.plan.name;
        if let Some(key) = seat.surface.contradiction() {
            let message = format!("pool `{}` does not allow this on `{key}`", world.pools[pool].name);
            violations.push(Violation::new("pool-requirements", message).node(node));
        }
        let candidates = options(&mut market, seat, pool, violations);
        let held = any_terms || seat.pods.iter().any(|(_, pod)| counted.includes(pod));
        order(seat, instance_type, offering, &candidates, held, violations);
        // A machine that holds a reservation keeps only the offerings of it; `minValues` was met before that.
        if !policy.best_effort_min_values && offering.reservation.is_none() {
            min_values(&market, seat, pool, &candidates, violations);
        }
    }
}

/// A type among the options with the offerings of it that would do.
struct Choice<'w> {
    instance_type: &'w InstanceType,
    offerings: Vec<&'w Offering>,
}

/// Type and offering, by their place in the catalogue.
type Pairs = Rc<Vec<(usize, usize)>>;

/// What can be bought, remembered across nodes: many nodes ask for the same.
struct Market<'w> {
    world: &'w World,
    facts: &'w Facts,
    /// Pool and asks → (type, offering) pairs, in catalogue order.
    suitable: BTreeMap<(usize, String), Pairs>,
    /// Pool, type, offering → what daemons take there.
    overhead: BTreeMap<(usize, usize, usize), (Resources, Vec<Port>)>,
}

impl<'w> Market<'w> {
    /// Available offerings the pool allows and whose labels can suit all asks at once.
    fn suitable(&mut self, pool: usize, asks: &[Ask]) -> Pairs {
        let key = (pool, format!("{asks:?}"));
        if let Some(known) = self.suitable.get(&key) {
            return Rc::clone(known);
        }
        let mut pairs = Vec::new();
        let types = self.world.types_of(&self.world.pools[pool].name);
        for (t, instance_type) in types.iter().enumerate() {
            for (o, offering) in instance_type.offerings.iter().enumerate() {
                let surface = self.facts.bought(self.world, pool, instance_type, offering);
                // A search given up counts as suitable here; the node itself reports it.
                if offering.available
                    && surface.contradiction().is_none()
                    && all_together(&surface, asks) != Some(false)
                {
                    pairs.push((t, o));
                }
            }
        }
        let pairs = Rc::new(pairs);
        self.suitable.insert(key, Rc::clone(&pairs));
        pairs
    }

    fn hosts(&mut self, pool: usize, t: usize, o: usize, used: &Resources, ports: &[Port]) -> bool {
        let (world, facts) = (self.world, self.facts);
        let instance_type = &world.types_of(&world.pools[pool].name)[t];
        let (overhead, taken) = self.overhead.entry((pool, t, o)).or_insert_with(|| {
            let surface = facts.bought(world, pool, instance_type, &instance_type.offerings[o]);
            let daemons = daemons_on(world, &surface, &world.pools[pool].taints);
            let ports = daemons.iter().flat_map(|daemon| daemon.ports.clone()).collect();
            (placement::total(daemons), ports)
        });
        let mut sum = used.clone();
        for (name, amount) in overhead.iter() {
            *sum.entry(name.clone()).or_insert(0) += amount;
        }
        placement::exceeded(&sum, &instance_type.allocatable).is_none()
            && !ports.iter().any(|ours| taken.iter().any(|theirs| clash(ours, theirs)))
    }
}

/// Whether a type attaches the volumes of the node's pods: distinct claims per driver.
fn attaches(instance_type: &InstanceType, seat: &Seat<'_>) -> bool {
    let mut claims: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for volume in seat.pods.iter().flat_map(|(_, pod)| &pod.volumes) {
        if let Some(driver) = &volume.driver {
            claims.entry(driver).or_default().insert(&volume.claim);
        }
    }
    claims.into_iter().all(|(driver, claims)| {
        instance_type.volume_limits.get(driver).is_none_or(|limit| claims.len() <= *limit as usize)
    })
}

/// Topology keys on which a pod of the node owns a hard rule: the machine cannot move along them.
fn pinned(seat: &Seat<'_>) -> Vec<Ask> {
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for (_, pod) in &seat.pods {
        keys.extend(pod.spread.iter().filter(|spread| spread.hard).map(|spread| spread.key.as_str()));
        keys.extend(pod.affinity.iter().chain(&pod.anti_affinity).map(|term| term.key.as_str()));
    }
    keys.remove(HOSTNAME);
    keys.into_iter()
        .filter_map(|key| match seat.surface.listed(key, &[]).as_slice() {
            [value] => Some(Ask(vec![vec![Expr {
                key: key.to_owned(),
                operator: "In".to_owned(),
                values: vec![value.clone()],
                min_values: None,
            }]])),
            _ => None,
        })
        .collect()
}

fn options<'w>(
    market: &mut Market<'w>,
    seat: &Seat<'_>,
    pool: usize,
    violations: &mut Vec<Violation>,
) -> Vec<Choice<'w>> {
    let node = &seat.plan.name;
    if seat.plan.options.is_empty() {
        let message = "a new node lists no instance types";
        violations.push(Violation::new("options-missing", message).node(node));
        return Vec::new();
    }
    let mut asks = seat.asks();
    asks.extend(pinned(seat));
    let suitable = market.suitable(pool, &asks);
    let used = placement::total(seat.pods.iter().map(|(_, pod)| *pod));
    let ports: Vec<Port> = seat.pods.iter().flat_map(|(_, pod)| pod.ports.clone()).collect();
    let mut result = Vec::new();
    let types = market.world.types_of(&market.world.pools[pool].name);
    let mut seen = BTreeSet::new();
    for name in &seat.plan.options {
        let Some(t) = types.iter().position(|t| t.name == *name) else {
            let message = format!("instance type `{name}` does not exist");
            violations.push(Violation::new("option-unknown", message).node(node));
            continue;
        };
        if !seen.insert(t) {
            let message = format!("instance type `{name}` is listed twice");
            violations.push(Violation::new("option-unknown", message).node(node));
        }
        let start = suitable.partition_point(|(other, _)| *other < t);
        let mut offerings = Vec::new();
        for (_, o) in suitable[start..].iter().take_while(|(other, _)| *other == t) {
            if market.hosts(pool, t, *o, &used, &ports) && attaches(&types[t], seat) {
                offerings.push(&types[t].offerings[*o]);
            }
        }
        if offerings.is_empty() {
            let message = format!("instance type `{name}` could not host these pods");
            violations.push(Violation::new("option-unfit", message).node(node));
        }
        result.push(Choice { instance_type: &types[t], offerings });
    }
    result
}

fn order(
    seat: &Seat<'_>,
    instance_type: &InstanceType,
    chosen: &Offering,
    candidates: &[Choice<'_>],
    held: bool,
    violations: &mut Vec<Violation>,
) {
    let node = &seat.plan.name;
    if seat.plan.options.first().is_some_and(|first| *first != instance_type.name) {
        let message = format!("`{}` is chosen but not the first option", instance_type.name);
        violations.push(Violation::new("option-order", message).node(node));
    }
    let dearer = |other: &Offering| other.price < chosen.price && !close(other.price, chosen.price);
    let reserved =
        candidates.iter().flat_map(|option| &option.offerings).any(|offering| offering.reservation.is_some());
    if reserved || chosen.reservation.is_some() {
        // Reserved units are shared out over the whole plan: which offerings a machine was left with does not show.
        return;
    }
    // A preference, a topology choice or an OR-term may have taken offerings away that would do; so may the spread of others, which a pod
    // helps where it is. Without any, all are left.
    let plain = !held && seat.pods.iter().all(|(_, pod)| is_plain(pod));
    if plain {
        let cheapest = |option: &Choice<'_>| {
            option.offerings.iter().map(|offering| offering.price).fold(f64::INFINITY, f64::min)
        };
        for pair in candidates.windows(2) {
            let (first, second) = (cheapest(&pair[0]), cheapest(&pair[1]));
            if first > second && !close(first, second) {
                let message = format!(
                    "`{}` from {first} comes before `{}` from {second}",
                    pair[0].instance_type.name, pair[1].instance_type.name
                );
                violations.push(Violation::new("option-order", message).node(node));
            }
        }
    }
    let comparable = |offering: &&&Offering| {
        let plain_keys = offering.requirements.iter().all(|e| e.key == ZONE || e.key == CAPACITY_TYPE);
        let same_place =
            [ZONE, CAPACITY_TYPE].iter().all(|key| offered(offering, key) == offered(chosen, key));
        plain || (plain_keys && same_place)
    };
    for option in candidates {
        if let Some(better) = option.offerings.iter().filter(comparable).find(|offering| dearer(offering)) {
            let message = format!(
                "`{}` would do for {} instead of {}",
                option.instance_type.name, better.price, chosen.price
            );
            violations.push(Violation::new("not-cheapest", message).node(node));
            return;
        }
    }
}

/// The spread constraints by anything but the host.
struct Counted<'w>(Vec<(&'w str, Option<&'w Selector>)>);

impl<'w> Counted<'w> {
    fn new(world: &'w World) -> Self {
        let mut all: Vec<(&str, Option<&Selector>)> = Vec::new();
        for pod in &world.pods {
            for spread in pod.spread.iter().filter(|spread| spread.key != HOSTNAME) {
                let one = (pod.namespace.as_str(), spread.selector.as_ref());
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        Self(all)
    }

    fn includes(&self, pod: &Pod) -> bool {
        let mut all = self.0.iter();
        all.any(|(namespace, selector)| pod.namespace == *namespace && selects(*selector, &pod.labels))
    }
}

fn has_terms(pod: &Pod) -> bool {
    !(pod.affinity.is_empty()
        && pod.anti_affinity.is_empty()
        && pod.preferred_affinity.is_empty()
        && pod.preferred_anti_affinity.is_empty())
}

fn is_plain(pod: &Pod) -> bool {
    pod.preferred_terms.is_empty()
        && pod.spread.is_empty()
        && pod.required_terms.as_ref().is_none_or(|terms| terms.len() == 1)
        && pod.volumes.iter().all(|volume| volume.alternatives.len() <= 1)
}

/// Distinct values left for each key with `minValues`. An upper bound: narrowing by preferences does not show in a plan.
fn min_values(
    market: &Market<'_>,
    seat: &Seat<'_>,
    pool: usize,
    candidates: &[Choice<'_>],
    violations: &mut Vec<Violation>,
) {
    let asks: Vec<Ask> = seat.asks().into_iter().chain(pinned(seat)).filter(|ask| ask.0.len() == 1).collect();
    let fixed: Vec<&Expr> = asks.iter().flat_map(|ask| &ask.0[0]).collect();
    for demand in &market.world.pools[pool].requirements {
        let Some(wanted) = demand.min_values else { continue };
        let mut values = BTreeSet::new();
        for option in candidates {
            for offering in &option.offerings {
                let surface = market.facts.bought(market.world, pool, option.instance_type, offering);
                values.extend(surface.listed(&demand.key, &fixed));
            }
        }
        let bounded = !values.is_empty() || demand.operator == "In";
        if bounded && values.len() < usize::try_from(wanted).unwrap_or(usize::MAX) {
            let message =
                format!("{} values of `{}` are left, the pool wants {wanted}", values.len(), demand.key);
            violations.push(Violation::new("min-values", message).node(&seat.plan.name));
        }
    }
}
