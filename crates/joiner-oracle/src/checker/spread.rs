//! Hard topology spread.
//!
//! kube-scheduler judges a pod when it binds, so a plan is right if *some* order of binding is. Where all selected pods of the plan own
//! the same constraint that order is known: fill the emptiest domain first. It works exactly if, in the end, no domain that
//! received a pod is more than `maxSkew` above the emptiest eligible one (and 0 counts as the emptiest when there are fewer domains than `minDomains`).
//!
//! Otherwise (pods selected without owning the constraint, or owning a different one) a weaker condition that every valid plan meets is checked:
//! the pods of strangers are taken to bind after the owners where they would hurt and before them where they help.
//! A pod with several required terms is judged by the term most favourable to it.
//!
//! Domains are those of the rule book: values on nodes that pass the constraint's node filter, real ones and those that the plan opens for whatever
//! pods, and values the pod could get on a new machine. For the host name a fresh, empty host counts whenever some pool could open one.

use std::collections::{BTreeMap, BTreeSet};

use super::predicates::{covers, selects, untolerated};
use super::seats::{Facts, HOSTNAME};
use super::surface::Ask;
use super::topology::{Domain, Map, Place, Sitting};
use super::{Policy, Violation};
use crate::world::{Expr, Spread, Taint, Toleration, World};

/// Pods that own an equal constraint and may use the same nodes.
struct Class<'w> {
    namespace: &'w str,
    spread: &'w Spread,
    ask: Ask,
    /// Any of them; the fields used are equal for all.
    first: usize,
    owners: Vec<usize>,
}

/// What new machines could bring to pods with the same ask.
struct Potential {
    /// Values of the key on machines of pools without taints that the pods mind.
    values: BTreeSet<String>,
    /// Values of the key on machines of any pool the pods may use.
    values_minding_nothing: BTreeSet<String>,
    /// Whether there can be a new machine at all.
    can_open: bool,
}

/// Judges assignments of domains; what does not depend on them is worked out once.
pub(super) struct Judge<'j, 'w> {
    world: &'w World,
    facts: &'w Facts,
    policy: Policy,
    places: &'j [Place<'w>],
    sittings: &'j [Sitting<'w>],
    classes: Vec<Class<'w>>,
    /// Per class: the places its node filter admits.
    eligible: Vec<Vec<bool>>,
    /// Per class: the sittings its selector picks.
    selected: Vec<Vec<usize>>,
    /// Per class and alternative of its ask: what new machines could bring.
    potential: Vec<Vec<Potential>>,
}

impl<'j, 'w> Judge<'j, 'w> {
    pub(super) fn new(
        world: &'w World,
        facts: &'w Facts,
        places: &'j [Place<'w>],
        sittings: &'j [Sitting<'w>],
        policy: Policy,
    ) -> Judge<'j, 'w> {
        let mut classes: BTreeMap<String, Class<'w>> = BTreeMap::new();
        for (index, sitting) in sittings.iter().enumerate().filter(|(_, sitting)| sitting.new) {
            let pod = sitting.pod;
            for spread in pod.spread.iter().filter(|spread| spread.hard) {
                let identity =
                    (&pod.namespace, spread, &pod.node_selector, &pod.required_terms, &pod.tolerations);
                let class = classes.entry(format!("{identity:?}")).or_insert_with(|| Class {
                    namespace: &pod.namespace,
                    spread,
                    ask: Ask::of_pod(pod),
                    first: index,
                    owners: Vec::new(),
                });
                class.owners.push(index);
            }
        }
        let mut judge = Judge {
            world,
            facts,
            policy,
            places,
            sittings,
            classes: classes.into_values().collect(),
            eligible: Vec::new(),
            selected: Vec::new(),
            potential: Vec::new(),
        };
        for class in &judge.classes {
            let tolerations = &sittings[class.first].pod.tolerations;
            let admits = |place: &Place<'_>| {
                (!class.spread.honor_affinity || class.ask.fits(&place.surface))
                    && (!class.spread.honor_taints || untolerated(place.taints, tolerations).is_none())
            };
            judge.eligible.push(places.iter().map(admits).collect());
            let picked = sittings.iter().enumerate().filter(|(_, other)| {
                other.pod.namespace == class.namespace
                    && selects(class.spread.selector.as_ref(), &other.pod.labels)
            });
            judge.selected.push(picked.map(|(index, _)| index).collect());
        }
        judge.potential = judge
            .classes
            .iter()
            .map(|class| class.ask.0.iter().map(|term| judge.on_new_machines(class, term)).collect())
            .collect();
        judge
    }

    /// Values of the key that a pod with this ask could get on a new machine.
    fn on_new_machines(&self, class: &Class<'_>, term: &[Expr]) -> Potential {
        let term: Vec<&Expr> = term.iter().collect();
        let tolerations = &self.sittings[class.first].pod.tolerations;
        let mut potential =
            Potential { values: BTreeSet::new(), values_minding_nothing: BTreeSet::new(), can_open: false };
        for (index, pool) in self.world.pools.iter().enumerate() {
            if pool.replicas.is_some() {
                continue;
            }
            // Whose machines must be able to have several values is of no use to pods for which one is chosen.
            let must_have =
                |expr: &Expr| expr.key == class.spread.key && expr.min_values.is_some_and(|least| least > 1);
            if !self.policy.best_effort_min_values && pool.requirements.iter().any(must_have) {
                continue;
            }
            if untolerated(&pool.taints, tolerations).is_some()
                || !self.facts.template(self.world, index).admits(&term)
            {
                continue;
            }
            // While a pod still minds soft taints, a pool that has them offers it nothing.
            let mind = minds(tolerations, &pool.taints);
            for instance_type in self.world.types_of(&pool.name) {
                for offering in instance_type.offerings.iter().filter(|offering| offering.available) {
                    let surface = self.facts.bought(self.world, index, instance_type, offering);
                    if surface.contradiction().is_none() && surface.admits(&term) {
                        let values = surface.listed(&class.spread.key, &term);
                        potential.can_open = true;
                        potential.values_minding_nothing.extend(values.iter().cloned());
                        if !mind {
                            potential.values.extend(values);
                        }
                    }
                }
            }
        }
        potential
    }

    pub(super) fn check(&mut self, map: &Map) -> Vec<Violation> {
        let mut violations = Vec::new();
        for index in 0..self.classes.len() {
            self.check_class(index, map, &mut violations);
        }
        violations
    }

    fn check_class(&self, index: usize, map: &Map, violations: &mut Vec<Violation>) {
        let class = &self.classes[index];
        let Some(domains) = map.get(&class.spread.key) else { return };
        let owners: BTreeSet<usize> = class.owners.iter().copied().collect();

        // `few` counts who must have been there when the last owner came, `many` who can have been.
        let mut bound: BTreeMap<&str, i64> = BTreeMap::new();
        let mut few: BTreeMap<&str, i64> = BTreeMap::new();
        let mut many: BTreeMap<&str, i64> = BTreeMap::new();
        let mut anywhere = 0;
        for selected in &self.selected[index] {
            let sitting = &self.sittings[*selected];
            let domain = match &domains[sitting.place] {
                Domain::Is(domain) => domain,
                Domain::Missing => continue,
                Domain::Unknown => {
                    anywhere += 1;
                    continue;
                }
            };
            if sitting.new {
                *many.entry(domain).or_insert(0) += 1;
                if owners.contains(selected) {
                    *few.entry(domain).or_insert(0) += 1;
                }
            } else if self.eligible[index][sitting.place] {
                for counts in [&mut bound, &mut few, &mut many] {
                    *counts.entry(domain).or_insert(0) += 1;
                }
            }
        }
        let mut standing: BTreeSet<&str> = BTreeSet::new();
        // Any new node may stand before the pods bind, also one that they can't use.
        for (eligible, domain) in self.eligible[index].iter().zip(domains) {
            if let (true, Domain::Is(domain)) = (*eligible, domain) {
                standing.insert(domain);
            }
        }
        let minimum = |values: &BTreeSet<String>, can_open: bool| -> i64 {
            let universe: BTreeSet<&str> =
                standing.iter().copied().chain(values.iter().map(String::as_str)).collect();
            let enough = class
                .spread
                .min_domains
                .is_none_or(|wanted| i64::try_from(universe.len()).unwrap_or(i64::MAX) >= i64::from(wanted));
            let fresh_host = class.spread.key == HOSTNAME && can_open;
            if !enough || fresh_host {
                return 0;
            }
            let lowest = universe.iter().map(|domain| many.get(domain).copied().unwrap_or(0)).min();
            lowest.unwrap_or(0) + anywhere
        };
        let potential = &self.potential[index];
        let minima: Vec<i64> = potential.iter().map(|p| minimum(&p.values, p.can_open)).collect();
        let minima_minding_nothing: Vec<i64> =
            potential.iter().map(|p| minimum(&p.values_minding_nothing, p.can_open)).collect();

        for owner in &class.owners {
            let sitting = &self.sittings[*owner];
            let place = &self.places[sitting.place];
            let domain = match &domains[sitting.place] {
                Domain::Is(domain) => domain,
                Domain::Unknown => continue,
                Domain::Missing => {
                    let message = format!("the node has no label `{}`", class.spread.key);
                    violations.push(
                        Violation::new("spread-missing-key", message).pod(&sitting.name).node(place.name),
                    );
                    continue;
                }
            };
            let matches_itself = selects(class.spread.selector.as_ref(), &sitting.pod.labels);
            let counts = if matches_itself { &few } else { &bound };
            let count = counts.get(domain.as_str()).copied().unwrap_or(0);
            // Who sits on a new machine with a soft taint has stopped minding such taints.
            let gave_up = place.real.is_none() && minds(&sitting.pod.tolerations, place.taints);
            let minima = if gave_up { &minima_minding_nothing } else { &minima };
            let usable = class.ask.0.iter().zip(minima).filter(|(term, _)| {
                class.ask.0.len() == 1 || place.surface.admits(&term.iter().collect::<Vec<_>>())
            });
            // No usable term is a matter of node affinity, reported elsewhere.
            let Some(lowest) = usable.map(|(_, minimum)| *minimum).max() else { continue };
            if count - lowest > i64::from(class.spread.max_skew) {
                let message = format!(
                    "`{}` `{domain}` has {count} pods, the emptiest domain {lowest}: more than {} apart",
                    class.spread.key, class.spread.max_skew
                );
                violations.push(Violation::new("spread", message).pod(&sitting.name).node(place.name));
            }
        }
    }
}

/// Whether there is a taint, hard or soft, that no toleration covers.
fn minds(tolerations: &[Toleration], taints: &[Taint]) -> bool {
    taints.iter().any(|taint| !tolerations.iter().any(|toleration| covers(toleration, taint)))
}
