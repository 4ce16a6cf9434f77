//! Where every pod sits, in terms of topology, and the three families of rules about it.
//!
//! Zone, capacity type, type, pool and host of a new node are in the plan. Other labels may be open (a pool requirement `rack In
//! [r1, r2]`), and a plan does not say what was chosen; then every assignment of values is tried and the plan passes if one passes.
//! Beyond [`ASSIGNMENTS`] the pods on such nodes are not judged for that key, and count wherever that helps others.

use std::collections::{BTreeMap, BTreeSet};

use super::predicates::{selects, term_selects};
use super::roster::full_name;
use super::seats::{Facts, HOSTNAME, Kind, Seat};
use super::surface::{Ask, Candidate, Surface};
use super::{Policy, Violation, affinity, spread};
use crate::world::{AffinityTerm, Expr, Node, Pod, Spread, Taint, World};

/// How many assignments of open labels are tried.
const ASSIGNMENTS: usize = 256;

/// A node pods can sit on: a real one or a new one.
pub(super) struct Place<'w> {
    pub name: &'w str,
    pub real: Option<&'w Node>,
    pub surface: Surface<'w>,
    pub taints: &'w [Taint],
}

/// A pod on its node.
pub(super) struct Sitting<'w> {
    pub pod: &'w Pod,
    pub name: String,
    pub place: usize,
    /// Put there by the plan.
    pub new: bool,
}

/// The value of a topology key on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Domain {
    Is(String),
    Missing,
    /// Open, and there were too many assignments to try.
    Unknown,
}

/// Topology key → domain of each place.
pub(super) type Map = BTreeMap<String, Vec<Domain>>;

pub(super) fn check(
    world: &World,
    facts: &Facts,
    seats: &[Seat<'_>],
    policy: Policy,
    violations: &mut Vec<Violation>,
) {
    let (places, sittings) = seat_everyone(world, facts, seats);
    let keys = keys_in_use(&sittings);
    let concerned = concerned_places(world, &sittings);
    let (map, open) = draw_map(world, &places, &keys, seats, &concerned);
    let mut spreads = spread::Judge::new(world, facts, &places, &sittings, policy);
    let mut judge = |map: &Map| {
        let mut found = affinity::check(world, &sittings, map);
        found.extend(spreads.check(map));
        found
    };
    let combinations = open
        .iter()
        .map(|(_, _, c)| c.len())
        .try_fold(1usize, |product, n| product.checked_mul(n).filter(|product| *product <= ASSIGNMENTS));
    let Some(combinations) = combinations else {
        violations.extend(judge(&map));
        return;
    };
    let mut least: Option<Vec<Violation>> = None;
    for mut number in 0..combinations {
        let mut assigned = map.clone();
        for (key, place, choices) in &open {
            let choice = &choices[number % choices.len()];
            number /= choices.len();
            if let Some(domains) = assigned.get_mut(key) {
                domains[*place] = choice.clone().map_or(Domain::Missing, Domain::Is);
            }
        }
        let found = judge(&assigned);
        let better = least.as_ref().is_none_or(|best| found.len() < best.len());
        if better {
            let perfect = found.is_empty();
            least = Some(found);
            if perfect {
                break;
            }
        }
    }
    violations.extend(least.unwrap_or_default());
}

fn seat_everyone<'w>(
    world: &'w World,
    facts: &'w Facts,
    seats: &[Seat<'w>],
) -> (Vec<Place<'w>>, Vec<Sitting<'w>>) {
    let mut places: Vec<Place<'w>> = Vec::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for (node, labels) in world.nodes.iter().zip(&facts.node_labels) {
        by_name.insert(&node.name, places.len());
        let surface = Surface::real(labels);
        places.push(Place { name: &node.name, real: Some(node), surface, taints: &node.taints });
    }
    let mut sittings = Vec::new();
    for pod in world.pods.iter().filter(|pod| !pod.terminating) {
        let place = pod.node_name.as_deref().and_then(|node| by_name.get(node));
        if let Some(place) = place {
            sittings.push(Sitting { pod, name: full_name(pod), place: *place, new: false });
        }
    }
    for seat in seats {
        let place = match seat.kind {
            Kind::Real(node) => by_name.get(node.name.as_str()).copied().unwrap_or(0),
            Kind::New { .. } => {
                places.push(Place {
                    name: &seat.plan.name,
                    real: None,
                    surface: seat.surface.clone(),
                    taints: seat.taints(world),
                });
                places.len() - 1
            }
        };
        // Nobody binds a virtual pod, so its topology is nobody's concern.
        for (name, pod) in seat.pods.iter().filter(|(_, pod)| !pod.filler) {
            sittings.push(Sitting { pod, name: (*name).to_owned(), place, new: true });
        }
    }
    (places, sittings)
}

fn keys_in_use(sittings: &[Sitting<'_>]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for sitting in sittings {
        if sitting.new {
            keys.extend(sitting.pod.spread.iter().filter(|s| s.hard).map(|s| s.key.clone()));
            keys.extend(sitting.pod.affinity.iter().map(|term| term.key.clone()));
        }
        keys.extend(sitting.pod.anti_affinity.iter().map(|term| term.key.clone()));
    }
    keys
}

/// Topology key → places with a pod some rule on that key is about. What an open label turns out to be elsewhere does not matter.
fn concerned_places(world: &World, sittings: &[Sitting<'_>]) -> BTreeMap<String, BTreeSet<usize>> {
    let mut concerned: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let mut spreads: BTreeMap<String, (&Spread, &str)> = BTreeMap::new();
    let mut terms: BTreeMap<String, (&AffinityTerm, &str)> = BTreeMap::new();
    for sitting in sittings {
        let home = sitting.pod.namespace.as_str();
        for spread in sitting.pod.spread.iter().filter(|spread| spread.hard && sitting.new) {
            concerned.entry(spread.key.clone()).or_default().insert(sitting.place);
            spreads.entry(format!("{home} {spread:?}")).or_insert((spread, home));
        }
        for term in sitting.pod.affinity.iter().chain(&sitting.pod.anti_affinity) {
            concerned.entry(term.key.clone()).or_default().insert(sitting.place);
            terms.entry(format!("{home} {term:?}")).or_insert((term, home));
        }
    }
    for sitting in sittings.iter().filter(|sitting| sitting.new) {
        let by_spread = spreads.values().filter(|(spread, home)| {
            sitting.pod.namespace == *home && selects(spread.selector.as_ref(), &sitting.pod.labels)
        });
        let by_term = terms.values().filter(|(term, home)| term_selects(term, home, sitting.pod, world));
        for key in by_spread.map(|(spread, _)| &spread.key).chain(by_term.map(|(term, _)| &term.key)) {
            concerned.entry(key.clone()).or_default().insert(sitting.place);
        }
    }
    concerned
}

type OpenLabel = (String, usize, Vec<Candidate>);

fn draw_map(
    world: &World,
    places: &[Place<'_>],
    keys: &BTreeSet<String>,
    seats: &[Seat<'_>],
    concerned: &BTreeMap<String, BTreeSet<usize>>,
) -> (Map, Vec<OpenLabel>) {
    let asks_of: BTreeMap<&str, Vec<Expr>> = seats
        .iter()
        .map(|seat| {
            // Where only one alternative is left for a pod, it says something about the labels of the node.
            let possible = |ask: Ask| -> Vec<Vec<Expr>> {
                let admitted = |term: &Vec<Expr>| seat.surface.admits(&term.iter().collect::<Vec<_>>());
                ask.0.into_iter().filter(admitted).collect()
            };
            let only = seat.asks().into_iter().map(possible).filter(|terms| terms.len() == 1);
            (seat.plan.name.as_str(), only.flatten().flatten().collect())
        })
        .collect();
    let mut map = Map::new();
    let mut open = Vec::new();
    for key in keys {
        let hints = mentioned(world, key);
        let mut domains = Vec::new();
        for (index, place) in places.iter().enumerate() {
            domains.push(if let Some(node) = place.real {
                match node.labels.get(key) {
                    Some(value) => Domain::Is(value.clone()),
                    None if key == HOSTNAME => Domain::Is(node.name.clone()),
                    None => Domain::Missing,
                }
            } else if key == HOSTNAME {
                Domain::Is(place.name.to_owned())
            } else {
                let asked = asks_of.get(place.name).map(Vec::as_slice).unwrap_or_default();
                let extra: Vec<&Expr> = asked.iter().filter(|expr| expr.key == *key).collect();
                let mut hints = hints.clone();
                hints.push(format!("only-on-{}", place.name));
                let mut choices = place.surface.choices(key, &extra, &hints);
                if choices.is_empty() {
                    // The pods contradict the node, which is reported elsewhere; topology goes by the node.
                    choices = place.surface.choices(key, &[], &hints);
                }
                match choices.as_slice() {
                    [Some(only)] => Domain::Is(only.clone()),
                    [] | [None] => Domain::Missing,
                    several => {
                        if concerned.get(key).is_some_and(|places| places.contains(&index)) {
                            open.push((key.clone(), index, several.to_vec()));
                        }
                        Domain::Unknown
                    }
                }
            });
        }
        map.insert(key.clone(), domains);
    }
    (map, open)
}

/// Values of a key that anybody names.
fn mentioned(world: &World, key: &str) -> Vec<String> {
    let on_nodes = world.nodes.iter().filter_map(|node| node.labels.get(key));
    let in_pods = world.pods.iter().flat_map(|pod| {
        let terms = pod.required_terms.iter().flatten().flatten();
        let listed = terms.filter(|expr| expr.key == key).flat_map(|expr| &expr.values);
        pod.node_selector.get(key).into_iter().chain(listed)
    });
    let all: BTreeSet<&String> = on_nodes.chain(in_pods).collect();
    all.into_iter().cloned().collect()
}
