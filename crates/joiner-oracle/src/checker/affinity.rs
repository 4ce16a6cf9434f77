//! Required pod affinity and anti-affinity.
//!
//! Anti-affinity needs no order: whoever comes second is stopped, be it by its own term or by the other's. Affinity does: the
//! pods of a group can only lean on pods that are already there, except that the first of all may lean on itself. An order is searched
//! that lets every pod of the plan bind.

use std::collections::BTreeMap;

use super::Violation;
use super::predicates::term_selects;
use super::topology::{Domain, Map, Sitting};
use crate::world::{AffinityTerm, World};

/// How many states the search for an order may visit.
const STATES: u32 = 500;

pub(super) fn check(world: &World, sittings: &[Sitting<'_>], map: &Map) -> Vec<Violation> {
    let mut violations = Vec::new();
    anti_affinity(world, sittings, map, &mut violations);
    affinity(world, sittings, map, &mut violations);
    violations
}

fn domain_of<'m>(map: &'m Map, key: &str, place: usize) -> Option<&'m Domain> {
    map.get(key).and_then(|domains| domains.get(place))
}

fn anti_affinity(world: &World, sittings: &[Sitting<'_>], map: &Map, violations: &mut Vec<Violation>) {
    // Equal terms of pods in one namespace are looked at together.
    let mut terms: BTreeMap<String, (&AffinityTerm, &str, Vec<usize>)> = BTreeMap::new();
    for (index, sitting) in sittings.iter().enumerate() {
        for term in &sitting.pod.anti_affinity {
            let identity = format!("{:?}", (&sitting.pod.namespace, term));
            let entry = terms.entry(identity).or_insert_with(|| (term, &sitting.pod.namespace, Vec::new()));
            entry.2.push(index);
        }
    }
    for (term, home, owners) in terms.values() {
        let mut owners_in: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for owner in owners {
            if let Some(Domain::Is(domain)) = domain_of(map, &term.key, sittings[*owner].place) {
                owners_in.entry(domain).or_default().push(*owner);
            }
        }
        for (index, sitting) in sittings.iter().enumerate() {
            let Some(Domain::Is(domain)) = domain_of(map, &term.key, sitting.place) else { continue };
            let Some(owners) = owners_in.get(domain.as_str()) else { continue };
            let other =
                owners.iter().find(|owner| **owner != index && (sitting.new || sittings[**owner].new));
            if let Some(other) = other
                && term_selects(term, home, sitting.pod, world)
            {
                // The pod the plan placed is the one to blame.
                let (guilty, other) =
                    if sitting.new { (sitting, &sittings[*other]) } else { (&sittings[*other], sitting) };
                let message =
                    format!("`{}` and this pod keep each other out of `{}` `{domain}`", other.name, term.key);
                violations.push(Violation::new("anti-affinity", message).pod(&guilty.name));
            }
        }
    }
}

/// Pods with the same required terms.
struct Group {
    keys: Vec<String>,
    /// Per sitting: whether it satisfies every term.
    matching: Vec<bool>,
}

/// Who is there already, as far as groups care.
#[derive(Clone)]
struct State {
    bound: Vec<bool>,
    /// Per group: pods per key and domain.
    counts: Vec<BTreeMap<(usize, String), u32>>,
    left: usize,
}

fn affinity(world: &World, sittings: &[Sitting<'_>], map: &Map, violations: &mut Vec<Violation>) {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of: Vec<Option<usize>> = Vec::new();
    for sitting in sittings {
        let terms = &sitting.pod.affinity;
        let open = terms
            .iter()
            .any(|term| matches!(domain_of(map, &term.key, sitting.place), None | Some(Domain::Unknown)));
        if terms.is_empty() || !sitting.new || open {
            group_of.push(None);
            continue;
        }
        let home = &sitting.pod.namespace;
        let number = *numbers.entry(format!("{:?}", (home, terms))).or_insert_with(|| {
            groups.push(Group {
                keys: terms.iter().map(|term| term.key.clone()).collect(),
                matching: sittings
                    .iter()
                    .map(|other| terms.iter().all(|term| term_selects(term, home, other.pod, world)))
                    .collect(),
            });
            groups.len() - 1
        });
        group_of.push(Some(number));
    }
    // A group that may be leant on in places nobody knows is not judged.
    let unknown = |group: &Group| {
        group.keys.iter().any(|key| {
            let somewhere =
                |index: usize| domain_of(map, key, sittings[index].place) == Some(&Domain::Unknown);
            (0..sittings.len()).any(|index| group.matching[index] && somewhere(index))
        })
    };
    let unjudged: Vec<bool> = groups.iter().map(unknown).collect();
    for group in &mut group_of {
        *group = group.filter(|number| !unjudged[*number]);
    }
    if group_of.iter().all(Option::is_none) {
        return;
    }
    let order = Order { sittings, map, groups: &groups, group_of: &group_of };
    let mut state =
        State { bound: vec![false; sittings.len()], counts: vec![BTreeMap::new(); groups.len()], left: 0 };
    for (index, sitting) in sittings.iter().enumerate() {
        state.left += 1;
        if !sitting.new {
            order.bind(index, &mut state);
        }
    }
    let mut best: Option<State> = None;
    let mut states = 0;
    order.search(state, &mut best, &mut states);
    let Some(best) = best.filter(|best| best.left > 0) else { return };
    if states >= STATES {
        let message = "too many orders in which pods with affinity could bind";
        violations.push(Violation::new("undecided", message));
        return;
    }
    for (index, sitting) in sittings.iter().enumerate().filter(|(index, _)| !best.bound[*index]) {
        let keys = group_of[index].map(|group| groups[group].keys.join("`, `")).unwrap_or_default();
        let message = format!("nothing to lean on in its domain of `{keys}`, whatever the order");
        violations.push(Violation::new("pod-affinity", message).pod(&sitting.name));
    }
}

/// Group → the domains of its waiting members, if they agree.
type Waiting<'m> = BTreeMap<usize, Option<Vec<Option<&'m Domain>>>>;

struct Order<'a, 'w> {
    sittings: &'a [Sitting<'w>],
    map: &'a Map,
    groups: &'a [Group],
    group_of: &'a [Option<usize>],
}

impl Order<'_, '_> {
    fn bind(&self, index: usize, state: &mut State) {
        state.bound[index] = true;
        state.left -= 1;
        for (number, group) in self.groups.iter().enumerate().filter(|(_, group)| group.matching[index]) {
            for (term, key) in group.keys.iter().enumerate() {
                if let Some(Domain::Is(domain)) = domain_of(self.map, key, self.sittings[index].place) {
                    *state.counts[number].entry((term, domain.clone())).or_insert(0) += 1;
                }
            }
        }
    }

    /// Whether the pod could bind now.
    fn can_bind(&self, index: usize, state: &State) -> bool {
        let Some(number) = self.group_of[index] else { return true };
        let group = &self.groups[number];
        let counts = &state.counts[number];
        let first_of_all = counts.is_empty() && group.matching[index];
        group.keys.iter().enumerate().all(|(term, key)| {
            match domain_of(self.map, key, self.sittings[index].place) {
                Some(Domain::Is(domain)) => first_of_all || counts.contains_key(&(term, domain.clone())),
                _ => false,
            }
        })
    }

    /// The domains a group's members ask about, on one place.
    fn domains(&self, group: usize, index: usize) -> Vec<Option<&Domain>> {
        let place = self.sittings[index].place;
        self.groups[group].keys.iter().map(|key| domain_of(self.map, key, place)).collect()
    }

    /// Groups with members waiting, and the domains they wait in if those are the same for all.
    fn waiting(&self, state: &State) -> Waiting<'_> {
        let mut waiting = Waiting::new();
        for index in (0..self.sittings.len()).filter(|index| !state.bound[*index]) {
            let Some(group) = self.group_of[index] else { continue };
            let domains = self.domains(group, index);
            waiting
                .entry(group)
                .and_modify(|common| {
                    if common.as_ref() != Some(&domains) {
                        *common = None;
                    }
                })
                .or_insert(Some(domains));
        }
        waiting
    }

    /// Groups nobody matches yet, that this pod would match, and that still have members waiting elsewhere: binding it ends their
    /// chance to be the first of all. (Members waiting in the same domains would only be helped.)
    fn closes(&self, index: usize, state: &State, waiting: &Waiting<'_>) -> Vec<usize> {
        waiting
            .iter()
            .filter(|(group, common)| {
                state.counts[**group].is_empty()
                    && self.groups[**group].matching[index]
                    && common.as_ref() != Some(&self.domains(**group, index))
            })
            .map(|(group, _)| *group)
            .collect()
    }

    fn search(&self, mut state: State, best: &mut Option<State>, states: &mut u32) {
        *states += 1;
        // Binding a pod that closes no group can only help.
        loop {
            let waiting = self.waiting(&state);
            let mut moved = false;
            for index in 0..self.sittings.len() {
                if !state.bound[index]
                    && self.can_bind(index, &state)
                    && self.closes(index, &state, &waiting).is_empty()
                {
                    self.bind(index, &mut state);
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        if best.as_ref().is_none_or(|best| state.left < best.left) {
            *best = Some(state.clone());
        }
        if state.left == 0 {
            return;
        }
        // The rest is a choice: who comes first. Pods that look alike to the groups they close are one choice.
        let waiting = self.waiting(&state);
        let mut choices: BTreeMap<String, usize> = BTreeMap::new();
        for index in (0..self.sittings.len()).filter(|index| !state.bound[*index]) {
            if !self.can_bind(index, &state) {
                continue;
            }
            let closed = self.closes(index, &state, &waiting);
            let domains: Vec<_> = closed.iter().map(|group| self.domains(*group, index)).collect();
            choices.entry(format!("{:?}", (&closed, domains))).or_insert(index);
        }
        for index in choices.into_values() {
            if *states >= STATES || best.as_ref().is_some_and(|best| best.left == 0) {
                return;
            }
            let mut next = state.clone();
            self.bind(index, &mut next);
            self.search(next, best, states);
        }
    }
}
