//! Rule book §5, "Topology": spread, affinity and anti-affinity.
//!
//! There are no group objects: each time a pod is looked at, its rules are worked out afresh from every pod that stands
//! somewhere. What the rule book calls the identity of a group is simply the question being asked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::machine_types::Choice;
use super::nano;
use super::pods::{HOSTNAME, Rung, any_term_matches, is_tolerated, listed, pod_id};
use super::requirement::{Requirement, Requirements, Side, add, stable_key};
use super::state::{OpenMachine, Run, State};
use super::suitors::{KeptAway, Suitor};
use crate::world::{AffinityTerm, Labels, Node, Pod, Selector, Spread, Taint, World};

/// Where a pod stands.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    Node(&'a Node),
    Machine(&'a OpenMachine<'a>),
}

/// A pod and where it stands.
#[derive(Debug, Clone, Copy)]
struct Standing<'a> {
    pod: &'a Pod,
    place: Place<'a>,
}

/// One demand of topology on one pod.
#[derive(Debug)]
pub(super) struct Rule {
    pub key: String,
    demand: Demand,
    /// A future machine is pinned on the key because of it.
    pins: bool,
    /// Value → pods counted there (for `Inverse`: owners of the terms).
    counts: BTreeMap<String, i64>,
    /// For `Selected`: who wants it.
    suitor: Option<Suitor>,
    /// For required `AntiAffinity`: where each pod of the run that it selects could go, and where the owners of such terms are.
    kept_away: Option<KeptAway>,
}

#[derive(Debug)]
enum Demand {
    Spread {
        matches_itself: bool,
        min: i64,
        max_skew: i64,
    },
    Affinity {
        every_value: bool,
    },
    AntiAffinity,
    Inverse,
    /// The pod is selected by an affinity or anti-affinity group of the run: nothing is forbidden, but the machine is
    /// pinned so that the pod counts in one value, preferably an occupied one.
    Selected,
}

impl Rule {
    fn count(&self, value: &str) -> i64 {
        self.counts.get(value).copied().unwrap_or(0)
    }

    /// Whether the pod may stand at this value of the key.
    pub fn allows(&self, value: &str) -> bool {
        let count = self.count(value);
        match self.demand {
            Demand::Spread { matches_itself, min, max_skew } => {
                count + i64::from(matches_itself) - min <= max_skew
            }
            Demand::Affinity { every_value } => every_value || count > 0,
            Demand::AntiAffinity | Demand::Inverse => count == 0,
            Demand::Selected => true,
        }
    }

    /// Whether the rule forbids nothing at all.
    fn is_silent(&self) -> bool {
        matches!(self.demand, Demand::Selected)
    }

    /// Whether the pod may stand where the key is missing.
    pub fn allows_missing(&self) -> bool {
        !matches!(self.demand, Demand::Spread { .. } | Demand::Affinity { .. })
    }
}

/// The value of a key for a machine on the hostname axis: no node can be called that.
pub(super) fn own_hostname(machine_number: usize) -> String {
    format!("(machine {machine_number})")
}

/// All rules for a pod, own spread constraints first and in their order.
pub(super) fn rules(run: &Run<'_>, state: &State<'_>, rung: &Rung<'_>) -> Vec<Rule> {
    let standing = everyone(run, state);
    let pod = &rung.pod;
    let mut rules: Vec<Rule> =
        pod.spread.iter().map(|spread| spread_rule(run, &standing, rung, spread)).collect();

    rules.extend(affinity_rules(run, &standing, pod, &pod.affinity.iter().collect::<Vec<_>>()));
    for (_, term) in &pod.preferred_affinity {
        rules.extend(affinity_rules(run, &standing, pod, &[term]));
    }
    let required = pod.anti_affinity.iter().map(|term| (true, term));
    let preferred = pod.preferred_anti_affinity.iter().map(|(_, term)| (false, term));
    for (required, term) in required.chain(preferred) {
        rules.push(Rule {
            key: stable_key(&term.key).to_owned(),
            demand: Demand::AntiAffinity,
            pins: true,
            counts: selected_counts(run, &standing, pod, &[term], &term.key),
            suitor: None,
            kept_away: required.then(|| kept_away(run, &standing, pod, term)),
        });
    }
    rules.extend(inverse_rules(run, &standing, pod));
    rules.extend(selected_rules(run, &standing, pod));
    rules
}

/// Everyone who counts: bound pods that are not terminating, on known nodes, and pods placed in this run.
fn everyone<'a>(run: &'a Run<'_>, state: &'a State<'_>) -> Vec<Standing<'a>> {
    let mut standing = Vec::new();
    for node in &run.world.nodes {
        let bound = run.bound_to(node).filter(|pod| !pod.terminating);
        let pods = bound.chain(state.placed_on(node));
        standing.extend(pods.map(|pod| Standing { pod, place: Place::Node(node) }));
    }
    for machine in &state.machines {
        standing.extend(machine.pods.iter().map(|pod| Standing { pod, place: Place::Machine(machine) }));
    }
    standing
}

/// The value of a key at a place. A future machine has one once its requirement leaves a single value.
fn value_at(run: &Run<'_>, place: Place<'_>, key: &str) -> Option<String> {
    match place {
        Place::Node(node) => node_value(run, node, key),
        Place::Machine(machine) if key == HOSTNAME => Some(own_hostname(machine.number)),
        Place::Machine(machine) => {
            machine.requirements.get(key).and_then(Requirement::single_value).map(str::to_owned)
        }
    }
}

/// A real node's value of a key; hostname falls back to the node's name.
pub(super) fn node_value(run: &Run<'_>, node: &Node, key: &str) -> Option<String> {
    match run.node_labels.get(&node.name).and_then(|labels| labels.get(key)) {
        Some(value) => Some(value.clone()),
        None if key == HOSTNAME => Some(node.name.clone()),
        None => None,
    }
}

// --- Spread ---------------------------------------------------------------------------------------------------------

fn spread_rule(run: &Run<'_>, standing: &[Standing<'_>], rung: &Rung<'_>, spread: &Spread) -> Rule {
    let key = stable_key(&spread.key).to_owned();
    let owner = rung.original;
    let counted = |other: &&Standing<'_>| {
        other.pod.namespace == owner.namespace
            && selects(spread.selector.as_ref(), &other.pod.labels)
            && passes_filter(run, owner, spread, other.place)
    };
    let counts = count_by_value(run, standing.iter().filter(counted), &key);
    let min = if key == HOSTNAME {
        0
    } else {
        let domains = domains(run, rung, spread, &key);
        let too_few = spread.min_domains.is_some_and(|wanted| (domains.len() as i64) < i64::from(wanted));
        let lowest = domains.iter().map(|value| counts.get(value).copied().unwrap_or(0)).min();
        if too_few { 0 } else { lowest.unwrap_or(0) }
    };
    Rule {
        key,
        demand: Demand::Spread {
            matches_itself: selects(spread.selector.as_ref(), &owner.labels),
            min,
            max_skew: i64::from(spread.max_skew),
        },
        pins: true,
        counts,
        suitor: None,
        kept_away: None,
    }
}

/// "*Node filter* of a spread", by the pod as written.
fn passes_filter(run: &Run<'_>, owner: &Pod, spread: &Spread, place: Place<'_>) -> bool {
    match place {
        Place::Node(node) => {
            admits(Side::RealNode, owner, spread, &run.node_requirements(node), &node.taints)
        }
        Place::Machine(machine) => {
            let taints = run.template(&machine.pool).map(|template| template.pool.taints.as_slice());
            filter_admits(run, owner, spread, &machine.requirements, taints.unwrap_or_default())
        }
    }
}

/// The same for a future machine of these requirements and taints.
pub(super) fn filter_admits(
    run: &Run<'_>,
    owner: &Pod,
    spread: &Spread,
    requirements: &Requirements,
    taints: &[Taint],
) -> bool {
    admits(run.template_side(), owner, spread, requirements, taints)
}

fn admits(side: Side<'_>, owner: &Pod, spread: &Spread, offered: &Requirements, taints: &[Taint]) -> bool {
    let affinity_ok =
        !spread.honor_affinity || any_term_matches(owner, |asked| side.compatible(offered, asked));
    let hard = |taint: &&Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
    let taints_ok = !spread.honor_taints
        || taints.iter().filter(hard).all(|taint| is_tolerated(taint, &owner.tolerations));
    affinity_ok && taints_ok
}

/// "*Domains* of a spread for one pod": values on real nodes passing the filter, and on machines that passes before opened, and every value it could
/// get on a new machine.
pub(super) fn domains(run: &Run<'_>, rung: &Rung<'_>, spread: &Spread, key: &str) -> BTreeSet<String> {
    let mut domains: BTreeSet<String> = run
        .world
        .nodes
        .iter()
        .filter(|node| passes_filter(run, rung.original, spread, Place::Node(node)))
        .filter_map(|node| node_value(run, node, key))
        .collect();
    for machine in &run.opened {
        let taints = run.template(&machine.pool).map(|template| template.pool.taints.as_slice());
        if filter_admits(run, rung.original, spread, &machine.requirements, taints.unwrap_or_default()) {
            domains.extend(machine.values.get(key).into_iter().flatten().cloned());
        }
    }
    domains.extend(future_values(run, rung, key));
    domains
}

/// Every value of a key that the pod could get on a new machine.
pub(super) fn future_values(run: &Run<'_>, rung: &Rung<'_>, key: &str) -> BTreeSet<String> {
    let mut domains = BTreeSet::new();
    let Some(strict) = rung.strict_ask() else { return domains };
    for template in &run.templates {
        let contradictory = template.requirements.values().any(Requirement::is_empty);
        if contradictory || !rung.tolerates(&template.pool.taints) {
            continue;
        }
        // Whose machines must be able to have several values can't be pinned to one.
        if run.options.strict_min_values && template.min_values.get(key).is_some_and(|least| *least > 1) {
            continue;
        }
        let Ok(requirements) = run.template_side().narrow(&template.requirements, &strict) else { continue };
        let offered = &run.choices[&template.pool.name];
        for choice in offered.iter().filter(|choice| choice.intersects(&requirements)) {
            domains.extend(match choice.values_within(&requirements, key) {
                Some(values) => values.into_iter().collect(),
                None => listed(requirements.get(key)),
            });
        }
    }
    domains
}

// --- Affinity and anti-affinity -------------------------------------------------------------------------------------

/// A pod's required terms together: a pod counts only if it matches all of them; one rule per distinct key.
fn affinity_rules(run: &Run<'_>, standing: &[Standing<'_>], pod: &Pod, terms: &[&AffinityTerm]) -> Vec<Rule> {
    let keys: BTreeSet<&str> = terms.iter().map(|term| stable_key(&term.key)).collect();
    let counts: Vec<(&str, BTreeMap<String, i64>)> =
        keys.into_iter().map(|key| (key, selected_counts(run, standing, pod, terms, key))).collect();
    let nobody = counts.iter().all(|(_, counts)| counts.is_empty());
    let every_value = nobody && terms.iter().all(|term| term_selects(run.world, pod, term, pod));
    counts
        .into_iter()
        .map(|(key, counts)| Rule {
            key: key.to_owned(),
            demand: Demand::Affinity { every_value },
            pins: true,
            counts,
            suitor: None,
            kept_away: None,
        })
        .collect()
}

/// Required anti-affinity terms of pods that stand somewhere and select this pod: where their owners are.
fn inverse_rules(run: &Run<'_>, standing: &[Standing<'_>], pod: &Pod) -> Vec<Rule> {
    let mut rules = Vec::new();
    for owner in standing {
        for term in
            owner.pod.anti_affinity.iter().filter(|term| term_selects(run.world, owner.pod, term, pod))
        {
            let key = stable_key(&term.key).to_owned();
            let counts = count_by_value(run, std::iter::once(owner), &key);
            // A virtual pod keeps others away, but nobody is pinned for its sake.
            let pins = !owner.pod.filler;
            rules.push(Rule { key, demand: Demand::Inverse, pins, counts, suitor: None, kept_away: None });
        }
    }
    rules
}

/// Affinity and anti-affinity groups of the run's pods that select this pod.
fn selected_rules(run: &Run<'_>, standing: &[Standing<'_>], pod: &Pod) -> Vec<Rule> {
    let mut rules = Vec::new();
    for owner in &run.packed {
        let all: Vec<&AffinityTerm> = owner.affinity.iter().collect();
        let mut groups: Vec<(bool, Vec<&AffinityTerm>)> =
            owner.anti_affinity.iter().map(|term| (false, vec![term])).collect();
        if !all.is_empty() {
            groups.push((true, all));
        }
        for (together, terms) in groups {
            if !terms.iter().all(|term| term_selects(run.world, owner, term, pod)) {
                continue;
            }
            let keys: BTreeSet<&str> = terms.iter().map(|term| stable_key(&term.key)).collect();
            for key in keys.into_iter().filter(|key| *key != HOSTNAME) {
                rules.push(Rule {
                    key: key.to_owned(),
                    demand: Demand::Selected,
                    pins: true,
                    counts: selected_counts(run, standing, owner, &terms, key),
                    suitor: Some(Suitor {
                        owner: pod_id(owner),
                        together,
                        reach: run.reach[&(pod_id(owner), key.to_owned())].clone(),
                    }),
                    kept_away: None,
                });
            }
        }
    }
    rules
}

/// Whom a required anti-affinity term of a pod keeps away.
fn kept_away(run: &Run<'_>, standing: &[Standing<'_>], pod: &Pod, term: &AffinityTerm) -> KeptAway {
    let key = stable_key(&term.key);
    if key == HOSTNAME {
        return KeptAway::default();
    }
    let is_same = |owner: &Pod, other: &AffinityTerm| {
        stable_key(&other.key) == key
            && other.selector == term.selector
            && run.packed.iter().chain(&standing.iter().map(|standing| standing.pod).collect::<Vec<_>>()).all(
                |third| {
                    covers_namespace(run.world, owner, other, &third.namespace)
                        == covers_namespace(run.world, pod, term, &third.namespace)
                },
            )
    };
    let owns = |standing: &&Standing<'_>| {
        standing.pod.anti_affinity.iter().any(|other| is_same(standing.pod, other))
    };
    let selected = run.packed.iter().filter(|other| term_selects(run.world, pod, term, other));
    let reach = |other: &&Pod| run.reach[&(pod_id(other), key.to_owned())].clone();
    KeptAway {
        targets: selected.map(reach).collect(),
        owners: count_by_value(run, standing.iter().filter(owns), key),
    }
}

/// How many pods that match all the terms stand at each value of the key.
fn selected_counts(
    run: &Run<'_>,
    standing: &[Standing<'_>],
    owner: &Pod,
    terms: &[&AffinityTerm],
    key: &str,
) -> BTreeMap<String, i64> {
    let counted =
        |other: &&Standing<'_>| terms.iter().all(|term| term_selects(run.world, owner, term, other.pod));
    count_by_value(run, standing.iter().filter(counted), stable_key(key))
}

fn count_by_value<'a>(
    run: &Run<'_>,
    standing: impl Iterator<Item = &'a Standing<'a>>,
    key: &str,
) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for value in standing.filter_map(|standing| value_at(run, standing.place, key)) {
        *counts.entry(value).or_insert(0) += 1;
    }
    counts
}

/// Whether a term of `owner` selects `other`, namespaces included.
fn term_selects(world: &World, owner: &Pod, term: &AffinityTerm, other: &Pod) -> bool {
    selects(term.selector.as_ref(), &other.labels) && covers_namespace(world, owner, term, &other.namespace)
}

/// "Namespaces of a term": listed ∪ those matching the selector (`{}` = all); none given = the owner's own.
fn covers_namespace(world: &World, owner: &Pod, term: &AffinityTerm, namespace: &str) -> bool {
    if term.namespaces.is_empty() && term.namespace_selector.is_none() {
        return namespace == owner.namespace;
    }
    let listed = term.namespaces.iter().any(|name| name == namespace);
    let by_selector = term.namespace_selector.as_ref().is_some_and(|selector| {
        let only_name = Labels::from([("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())]);
        selects(Some(selector), world.namespaces.get(namespace).unwrap_or(&only_name))
    });
    listed || by_selector
}

/// Whether a label selector matches: nil nothing, empty everything.
pub(super) fn selects(selector: Option<&Selector>, labels: &Labels) -> bool {
    selector.is_some_and(|selector| {
        selector.expressions.iter().all(|expr| {
            let value = labels.get(&expr.key);
            match expr.operator.as_str() {
                "In" => value.is_some_and(|value| expr.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !expr.values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
    })
}

// --- Choosing a value on a future machine ---------------------------------------------------------------------------

/// Every way to pin a machine of these requirements with these offerings left, in the order in which they are tried:
/// each is the machine's requirements with one value for every key that has rules.
pub(super) fn pinnings(
    rules: &[Rule],
    requirements: &Requirements,
    choices: &[&Choice<'_>],
    opened: &[OpenMachine<'_>],
    can_be_had: &dyn Fn(&Choice<'_>) -> bool,
) -> Vec<Requirements> {
    let keys: BTreeSet<&str> = rules
        .iter()
        .filter(|rule| rule.pins)
        .map(|rule| rule.key.as_str())
        .filter(|key| *key != HOSTNAME)
        .collect();
    let mut pinned = vec![requirements.clone()];
    // Keys by name: every later key multiplies what is there, so that the last one varies fastest.
    for key in keys {
        pinned = pinned
            .iter()
            .flat_map(|so_far| {
                // The lowest price there, of what can be had.
                let price = |value: &str| {
                    let mut next = so_far.clone();
                    add(&mut next, key, &Requirement::exactly(value));
                    let left = choices.iter().filter(|choice| choice.intersects(&next) && can_be_had(choice));
                    left.map(|choice| nano(choice.offering.price)).min().unwrap_or(i128::MAX)
                };
                let values = values_in_order(rules, requirements, choices, opened, key, &price);
                values.into_iter().map(move |value| {
                    let mut next = so_far.clone();
                    match value {
                        Some(value) => add(&mut next, key, &Requirement::exactly(&value)),
                        // Pinned to lacking it, if it may.
                        None if requirements.get(key).is_none_or(|own| own.may_be_missing) => {
                            add(&mut next, key, &Requirement::missing());
                        }
                        None => {}
                    }
                    next
                })
            })
            .collect();
    }
    pinned
}

/// The valid values of one key, best first; a lone `None` where the machine has no value and every rule is content
/// with that.
fn values_in_order(
    rules: &[Rule],
    requirements: &Requirements,
    choices: &[&Choice<'_>],
    opened: &[OpenMachine<'_>],
    key: &str,
    price: &dyn Fn(&str) -> i128,
) -> Vec<Option<String>> {
    let of_key: Vec<&Rule> = rules.iter().filter(|rule| rule.key == key).collect();
    let offered: BTreeSet<String> = choices
        .iter()
        .flat_map(|choice| match choice.values_within(requirements, key) {
            Some(values) => values.into_iter().collect(),
            None => listed(requirements.get(key)),
        })
        .collect();
    if offered.is_empty() {
        // Either the machine will lack the label, or (a pool's `Exists`) it will have a value that nobody can name:
        // then no count can be trusted.
        let nameless = requirements.get(key).is_some_and(|requirement| !requirement.may_be_missing);
        let content = |rule: &&Rule| if nameless { rule.is_silent() } else { rule.allows_missing() };
        return if of_key.iter().all(content) { vec![None] } else { Vec::new() };
    }
    let mut valid: Vec<String> =
        offered.into_iter().filter(|value| of_key.iter().all(|rule| rule.allows(value))).collect();
    valid.sort_by_cached_key(|value| {
        let spread: Vec<i64> = of_key
            .iter()
            .filter(|rule| matches!(rule.demand, Demand::Spread { .. }))
            .map(|rule| rule.count(value))
            .collect();
        let occupied =
            of_key.iter().any(|rule| matches!(rule.demand, Demand::Selected) && rule.count(value) > 0);
        let suitors = || of_key.iter().filter_map(|rule| Some((*rule, rule.suitor.as_ref()?)));
        let waiting = suitors().filter(|(rule, suitor)| suitor.waits_for(value, |other| rule.count(other)));
        let unserved: BTreeSet<&str> = waiting.map(|(_, suitor)| suitor.owner.as_str()).collect();
        let losing = suitors().filter(|(rule, suitor)| suitor.loses(value, |other| rule.count(other)));
        let displaced: BTreeSet<&str> = losing.map(|(_, suitor)| suitor.owner.as_str()).collect();
        let is_there = |machine: &&OpenMachine<'_>| {
            machine.requirements.get(key).and_then(Requirement::single_value) == Some(value)
        };
        let machines = opened.iter().filter(is_there).count();
        let away = of_key.iter().filter_map(|rule| rule.kept_away.as_ref());
        let barred: usize = away.map(|away| away.barred(value)).sum();
        (
            spread,
            Reverse(unserved.len()),
            displaced.len(),
            barred,
            !occupied,
            price(value),
            machines,
            value.clone(),
        )
    });
    valid.into_iter().map(Some).collect()
}
