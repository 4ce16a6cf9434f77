//! The plan: what to launch, what goes where, what was refused.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::bound::{self, Demand, Offer};
use crate::decide::GivenUpPreferences;
use crate::explain::Reason;
use crate::model::ids::*;
use crate::model::resources::add_into;
use crate::model::{Catalogue, FixedState, GroupSpec, Operator, PodClass, ResVec, Snapshot, fixed_state};
use crate::offer_set::{self, OfferSet};
use crate::pack::scratch::{Machine, Scratch};
use crate::pack::upstream::Outcome;

/// The most instance types a machine may list.
pub const MAX_TYPES: usize = 600;

/// A decision.
#[derive(Debug)]
pub struct Plan {
    /// Machines to launch, in the order in which they were opened.
    pub machines: Vec<PlannedMachine>,
    /// Machines that pools of a fixed size lack, with the pods that go there, in node order: bought whatever pods there are.
    pub kept: Vec<(NodeIdx, Vec<PodIdx>)>,
    /// Existing nodes that receive pods, in node order.
    pub on_nodes: Vec<(NodeIdx, Vec<PodIdx>)>,
    /// Pods without a place, by name.
    pub refused: Vec<Refused>,
    /// Pods placed.
    pub placed: usize,
    /// Cheapest price of all machines together, nano-dollars per hour.
    pub price_nano_usd: i64,
    /// Placements tried.
    pub work: u64,
    /// What the original's strategy would have bought, if another one was asked for.
    pub original: Option<Bill>,
    /// Preferences that were given up because keeping them would have cost too much.
    pub given_up: Option<GivenUpPreferences>,
}

/// What machines cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bill {
    /// Cheapest price of all together, nano-dollars per hour.
    pub price_nano_usd: i64,
    /// How many there are.
    pub machines: usize,
}

impl Bill {
    /// Price and charges, nano-dollars per hour.
    pub fn cost(self, charge: f64) -> f64 {
        self.price_nano_usd as f64 + charge * self.machines as f64
    }
}

/// A machine to launch: it becomes a claim, or one more replica of a group.
#[derive(Debug)]
pub struct PlannedMachine {
    /// The pool.
    pub pool: PoolIdx,
    /// Its number within the pool, from 1.
    pub number: usize,
    /// The cheapest offering that holds it.
    pub offering: OfferingIdx,
    /// Types that hold it, cheapest first.
    pub types: Arc<[TypeIdx]>,
    /// Requirements to launch with.
    pub requirements: Arc<[WrittenRequirement]>,
    /// Its pods.
    pub pods: Vec<PodIdx>,
    /// Requests of its pods.
    pub requests: ResVec,
    /// Requests of the daemons that come with the cheapest offering.
    pub daemons: ResVec,
    /// minValues were lowered for it.
    pub min_values_relaxed: bool,
    /// Reservations it launches into.
    pub reservations: Vec<ReservationIdx>,
    /// How many more types would do, were it not for the limits of its pool.
    pub withheld: usize,
}

/// A requirement as it is written to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRequirement {
    /// Label key.
    pub key: String,
    /// Operator.
    pub operator: Operator,
    /// Values, sorted.
    pub values: Vec<String>,
    /// minValues.
    pub min_values: Option<u32>,
}

/// A pod without a place.
#[derive(Debug)]
pub struct Refused {
    /// The pod.
    pub pod: PodIdx,
    /// Per pool (and for existing nodes) why not.
    pub reasons: Arc<[Reason]>,
}

/// The types of a set of offerings, cheapest first: machines alike share a list.
type TypesMemo = HashMap<(CatalogueIdx, OfferSet), Arc<[TypeIdx]>, FixedState>;

/// Turns the state at the end of a run into a plan.
pub(crate) fn assemble(
    scratch: &mut Scratch,
    outcome: Outcome,
    refused: Vec<Refused>,
    original: Option<Bill>,
) -> Plan {
    let snapshot = scratch.snapshot;
    let mut numbers = vec![0usize; snapshot.pools.len()];
    let mut types_of: TypesMemo = HashMap::with_hasher(fixed_state());
    let mut written: HashMap<ReqId, Arc<[WrittenRequirement]>, FixedState> =
        HashMap::with_hasher(fixed_state());
    let mut machines = Vec::with_capacity(scratch.machines.len());
    let mut price_nano_usd = kept_nano_usd(snapshot);
    let commitments = snapshot.reservations.iter().any(|r| r.commitment);
    let mut units = scratch.reservations.clone();
    for machine in std::mem::take(&mut scratch.machines) {
        let pool = &snapshot.pools[machine.pool.at()];
        let catalogue = &snapshot.catalogues[pool.catalogue.at()];
        let Some(Launch { offers, cheapest, reservations }) =
            launch(scratch, &machine, &mut units, commitments)
        else {
            continue;
        };
        let types = types_of
            .entry((pool.catalogue, offers.clone()))
            .or_insert_with(|| {
                let mut seen = vec![false; catalogue.types.len()];
                let mut list = Vec::new();
                for at in offer_set::iter(&offers) {
                    let instance_type = catalogue.offerings[at].instance_type;
                    if !std::mem::replace(&mut seen[instance_type.at()], true) && list.len() < MAX_TYPES {
                        list.push(instance_type);
                    }
                }
                list.into()
            })
            .clone();
        let requirements = written
            .entry(machine.requirements)
            .or_insert_with(|| write_requirements(scratch, machine.requirements))
            .clone();
        numbers[machine.pool.at()] += 1;
        price_nano_usd = price_nano_usd.saturating_add(catalogue.offerings[cheapest].price_nano_usd);
        machines.push(PlannedMachine {
            pool: machine.pool,
            number: numbers[machine.pool.at()],
            offering: OfferingIdx::new(cheapest),
            types,
            requirements,
            pods: machine.pods,
            requests: machine.requests,
            daemons: scratch.templates[machine.pool.at()].overhead[cheapest].clone(),
            min_values_relaxed: machine.min_values_relaxed,
            reservations,
            withheld: machine.withheld,
        });
    }
    let bought = |at: usize| snapshot.nodes[at].bought.is_some();
    let taken = &scratch.taken;
    let (kept, on_nodes) = scratch
        .on_node
        .iter_mut()
        .enumerate()
        .filter(|(at, load)| !taken[*at] && (!load.pods.is_empty() || bought(*at)))
        .map(|(at, load)| (NodeIdx::new(at), std::mem::take(&mut load.pods)))
        .partition(|(node, _)| bought(node.at()));
    Plan {
        machines,
        kept,
        on_nodes,
        placed: outcome.placed.iter().flatten().count(),
        refused,
        price_nano_usd,
        work: scratch.work,
        original,
        given_up: None,
    }
}

/// What a machine is launched as.
struct Launch {
    offers: OfferSet,
    cheapest: usize,
    reservations: Vec<ReservationIdx>,
}

/// The offerings a machine is launched with and the cheapest of them. Units of commitments go to machines in their order.
fn launch(scratch: &Scratch, machine: &Machine, units: &mut [u32], commitments: bool) -> Option<Launch> {
    let catalogue = &scratch.snapshot.catalogues[scratch.snapshot.pools[machine.pool.at()].catalogue.at()];
    let mut offers = machine.offers.clone();
    let mut reservations = machine.reservations.to_vec();
    if !reservations.is_empty() {
        // What holds a reservation launches into it.
        let mut reserved = offers.to_vec();
        for at in offer_set::iter(&offers) {
            let held = catalogue.offerings[at].reservation.is_some_and(|r| reservations.contains(&r));
            if !held {
                reserved[at / 64] &= !(1 << (at % 64));
            }
        }
        offers = reserved.into();
    } else if commitments {
        offers = without_spent(&offers, catalogue, units);
    }
    let cheapest = offer_set::first(&offers)?;
    if let Some(commitment) = catalogue.offerings[cheapest].reservation.filter(|_| reservations.is_empty()) {
        units[commitment.at()] = units[commitment.at()].saturating_sub(1);
        reservations.push(commitment);
    }
    Some(Launch { offers, cheapest, reservations })
}

/// The units of reservations that are left once these machines are launched.
pub(crate) fn units_after(scratch: &Scratch, machines: &[Machine]) -> Vec<u32> {
    let commitments = scratch.snapshot.reservations.iter().any(|r| r.commitment);
    let mut units = scratch.reservations.clone();
    for machine in machines {
        launch(scratch, machine, &mut units, commitments);
    }
    units
}

/// What a run's machines and those that pools of a fixed size lack cost together.
pub(crate) fn bill(scratch: &Scratch, machines: &[Machine]) -> Bill {
    let snapshot = scratch.snapshot;
    let price_nano_usd = kept_nano_usd(snapshot).saturating_add(machines_nano_usd(scratch, machines));
    let kept = snapshot.nodes.iter().filter(|node| node.bought.is_some()).count();
    Bill { price_nano_usd, machines: machines.len() + kept }
}

/// The cheapest price of machines together, nano-dollars per hour.
pub(crate) fn machines_nano_usd(scratch: &Scratch, machines: &[Machine]) -> i64 {
    let snapshot = scratch.snapshot;
    let commitments = snapshot.reservations.iter().any(|r| r.commitment);
    let mut units = scratch.reservations.clone();
    let mut price_nano_usd = 0i64;
    for machine in machines {
        let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
        if let Some(launch) = launch(scratch, machine, &mut units, commitments) {
            let price = catalogue.offerings[launch.cheapest].price_nano_usd;
            price_nano_usd = price_nano_usd.saturating_add(price);
        }
    }
    price_nano_usd
}

/// A set without the offerings of commitments whose units are all given away.
fn without_spent(offers: &OfferSet, catalogue: &Catalogue, left: &[u32]) -> OfferSet {
    let spent = |at: &usize| catalogue.offerings[*at].reservation.is_some_and(|r| left[r.at()] == 0);
    if !offer_set::iter(offers).any(|at| spent(&at)) {
        return offers.clone();
    }
    let mut kept = offers.to_vec();
    for at in offer_set::iter(offers).filter(spent) {
        kept[at / 64] &= !(1 << (at % 64));
    }
    kept.into()
}

fn write_requirements(scratch: &Scratch, set: ReqId) -> Arc<[WrittenRequirement]> {
    let names = scratch.algebra.names();
    let mut out = Vec::new();
    for (key, rq) in scratch.algebra.items(set) {
        let requirement = scratch.algebra.requirement(*rq);
        for (operator, values) in requirement.expressions(names, *key) {
            out.push(WrittenRequirement {
                key: names.key_text(*key).to_owned(),
                operator,
                values,
                min_values: requirement.min_values,
            });
        }
    }
    out.sort_by(|a, b| (&a.key, a.operator).cmp(&(&b.key, b.operator)));
    out.into()
}

/// The price no packing of the pods on new machines can beat: pods may be split over every offering they may use. Machines that pools
/// of a fixed size lack are bought in every plan and come on top.
///
/// Commitments are few units of a low price. As if there were no end of them is one bound; what all machines cost at list price, less
/// the most that the units can save, is another. The higher one counts.
pub(crate) fn lower_bound(scratch: &mut Scratch, plan: &Plan, work: u64) -> Option<f64> {
    let snapshot = scratch.snapshot;
    let kept = kept_nano_usd(snapshot) as f64 / 1e9;
    let endless = bound_with(scratch, plan, work, true)?;
    let saving = most_saved(snapshot);
    if saving <= 0.0 {
        return Some(kept + endless);
    }
    let listed = bound_with(scratch, plan, work, false)?;
    Some(kept + endless.max(listed - saving))
}

/// The price of the machines that pools of a fixed size lack.
fn kept_nano_usd(snapshot: &Snapshot) -> i64 {
    let bought = snapshot.nodes.iter().filter_map(|node| node.bought.as_ref());
    bought.map(|bought| bought.price_nano_usd).fold(0, i64::saturating_add)
}

/// The most that the units of all commitments can save, in dollars per hour.
fn most_saved(snapshot: &Snapshot) -> f64 {
    let mut per_unit = vec![0i64; snapshot.reservations.len()];
    if !snapshot.reservations.iter().any(|row| row.commitment) {
        return 0.0;
    }
    for catalogue in &snapshot.catalogues {
        // Offerings come by rising price: the first without a commitment is the list price.
        let mut listed: HashMap<(TypeIdx, ReqId), i64, FixedState> = HashMap::with_hasher(fixed_state());
        for offering in catalogue.offerings.iter().filter(|offering| offering.reservation.is_none()) {
            let terms = (offering.instance_type, offering.requirements);
            listed.entry(terms).or_insert(offering.price_nano_usd);
        }
        for offering in &catalogue.offerings {
            if let Some(commitment) =
                offering.reservation.filter(|r| snapshot.reservations[r.at()].commitment)
            {
                let terms = (offering.instance_type, offering.requirements);
                let price = listed.get(&terms).copied().unwrap_or(0);
                let saved = price.saturating_sub(offering.price_nano_usd);
                per_unit[commitment.at()] = per_unit[commitment.at()].max(saved);
            }
        }
    }
    let all = snapshot.reservations.iter().zip(per_unit);
    all.map(|(row, saved)| f64::from(row.capacity) * saved as f64 / 1e9).sum()
}

fn bound_with(scratch: &mut Scratch, plan: &Plan, work: u64, commitments: bool) -> Option<f64> {
    let pods = plan.machines.iter().flat_map(|machine| &machine.pods).copied();
    let Question { offers, demands, .. } = question(scratch, pods, commitments, 0);
    if demands.is_empty() {
        return Some(0.0);
    }
    bound::lower_bound(&demands, &offers, work)
}

/// What some pods are worth by class, in dollars per hour: the least that one of a class costs at prices, with a charge for each node, divided so that all are worth most.
/// `None` for classes without pods; nothing at all if working it out exceeds the work.
pub(crate) fn worths(
    scratch: &mut Scratch,
    pods: impl Iterator<Item = PodIdx>,
    charge_nano_usd: i64,
    work: u64,
) -> Option<Vec<Option<f64>>> {
    let Question { offers, demands, of_class } = question(scratch, pods, true, charge_nano_usd);
    let worths = bound::worths(&demands, &offers, work)?;
    Some(of_class.into_iter().map(|demand| demand.map(|demand| worths[demand])).collect())
}

/// What a bound is asked.
struct Question<'a> {
    offers: Vec<Offer<'a>>,
    demands: Vec<Demand>,
    /// By class: its demand.
    of_class: Vec<Option<usize>>,
}

fn question<'s>(
    scratch: &mut Scratch<'s>,
    pods: impl Iterator<Item = PodIdx>,
    commitments: bool,
    charge_nano_usd: i64,
) -> Question<'s> {
    let snapshot = scratch.snapshot;
    let mut counts = vec![0u64; snapshot.classes.len()];
    // The first pod of each class by name: what classes are told apart by, whatever the order in which they came.
    let mut first: Vec<Option<&str>> = vec![None; snapshot.classes.len()];
    for pod in pods {
        let pod = &snapshot.pods[pod.at()];
        let known = &mut first[pod.class.at()];
        counts[pod.class.at()] += 1;
        *known = Some(known.map_or(&*pod.name, |known| known.min(&pod.name)));
    }
    // Offerings of all pools in one list.
    let mut offers = Vec::new();
    let mut barred = Vec::new();
    let mut starts = Vec::with_capacity(snapshot.pools.len());
    for (at, pool) in snapshot.pools.iter().enumerate() {
        starts.push(offers.len());
        let catalogue = &snapshot.catalogues[pool.catalogue.at()];
        let templates = scratch.templates;
        for (offering, room) in catalogue.offerings.iter().zip(&templates[at].room) {
            offers.push(Offer {
                price_nano_usd: offering.price_nano_usd.saturating_add(charge_nano_usd),
                allocatable: Cow::Borrowed(&room[..]),
            });
            let reservation = offering.reservation;
            barred
                .push(!commitments && reservation.is_some_and(|r| snapshot.reservations[r.at()].commitment));
        }
    }
    let mut demands: Vec<Demand> = Vec::new();
    let mut of_class = vec![None; snapshot.classes.len()];
    let mut firsts: Vec<&str> = Vec::new();
    let mut lists: BTreeSet<Rc<[u32]>> = BTreeSet::new();
    for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let class = &snapshot.classes[at];
        let mut usable: Vec<u32> = Vec::new();
        for (pool_at, pool) in snapshot.pools.iter().enumerate() {
            let mut set = offer_set::empty(scratch.templates[pool_at].base.len());
            // Any rung could have been the one; the bound must hold for all of them.
            for rung in &class.rungs {
                if pool.not_ready.is_some()
                    || !scratch.algebra.tolerates(pool.taints, class.tolerations, rung.spare_preferred)
                {
                    continue;
                }
                let Some(met) = scratch.algebra.meet(scratch.templates[pool_at].requirements, rung.strict)
                else {
                    continue;
                };
                let alternatives: Vec<ReqId> = if class.volume_alternatives.is_empty() {
                    vec![met]
                } else {
                    let all = class.volume_alternatives.iter();
                    all.filter_map(|alternative| scratch.algebra.meet(met, *alternative)).collect()
                };
                for met in alternatives {
                    let allowed = scratch.offers.of(snapshot, &scratch.algebra, pool.catalogue, met);
                    for (a, b) in set.iter_mut().zip(allowed.iter()) {
                        *a |= *b;
                    }
                }
            }
            offer_set::and_into(&mut set, &scratch.templates[pool_at].base);
            scratch.templates[pool_at].keep_fitting(&mut set, &class.requests);
            let all = offer_set::iter(&set).map(|offer| starts[pool_at] + offer);
            usable.extend(all.filter(|offer| !barred[*offer]).map(|offer| offer as u32));
        }
        let apart = kept_apart(scratch, class);
        let offers = match lists.get(&usable[..]) {
            Some(known) => Rc::clone(known),
            None => {
                let new: Rc<[u32]> = usable.into();
                lists.insert(Rc::clone(&new));
                new
            }
        };
        // Many classes differ only in what a bound does not see.
        let alike = demands.iter().position(|demand| {
            demand.requests[..] == class.requests[..]
                && demand.apart == apart
                && Rc::ptr_eq(&demand.offers, &offers)
        });
        let name = first[at].unwrap_or_default();
        of_class[at] = Some(alike.unwrap_or(demands.len()));
        match alike {
            Some(known) => {
                demands[known].count += count;
                firsts[known] = name.min(firsts[known]);
            }
            None => {
                demands.push(Demand { count: *count, requests: class.requests.to_vec(), offers, apart });
                firsts.push(name);
            }
        }
    }
    renumber_groups(&mut demands, &firsts);
    Question { offers, demands, of_class }
}

impl Plan {
    /// Requests and daemons of a machine together.
    pub fn used(machine: &PlannedMachine) -> ResVec {
        let mut used = machine.requests.clone();
        add_into(&mut used, &machine.daemons);
        used
    }
}

/// Gives groups numbers by the demands they are about: the solver goes by them, and they came in the order of the input.
fn renumber_groups(demands: &mut [Demand], firsts: &[&str]) {
    let mut said: BTreeMap<u32, Vec<(&str, u32)>> = BTreeMap::new();
    for (demand, first) in demands.iter().zip(firsts) {
        for (group, most) in &demand.apart {
            said.entry(*group).or_default().push((first, *most));
        }
    }
    let mut order: Vec<(Vec<(&str, u32)>, u32)> = said
        .into_iter()
        .map(|(group, mut about)| {
            about.sort_unstable();
            (about, group)
        })
        .collect();
    order.sort_unstable();
    let ranks: BTreeMap<u32, u32> =
        order.iter().enumerate().map(|(rank, (_, group))| (*group, rank as u32)).collect();
    for demand in demands {
        for (group, _) in &mut demand.apart {
            *group = ranks[&*group];
        }
        demand.apart.sort_unstable();
    }
}

/// The groups of which a machine holds only so many pods of this class, whatever is given up: those that it both keeps to and counts in.
/// The last such pod on a host sees all the others.
fn kept_apart(scratch: &mut Scratch, class: &PodClass) -> Vec<(u32, u32)> {
    let snapshot = scratch.snapshot;
    let selected = scratch.groups.selected(snapshot, &scratch.algebra, class.identity);
    let mut apart = Vec::new();
    for group in &selected.counted {
        if !scratch.groups.by_host(snapshot, *group) {
            continue;
        }
        let most = match snapshot.group(*group) {
            GroupSpec::AntiAffinity { .. } if class.anti_affinity.contains(group) => 1,
            GroupSpec::Spread { max_skew, .. }
                if class.rungs.iter().all(|rung| rung.groups.contains(group)) =>
            {
                u32::try_from(*max_skew).unwrap_or(1).max(1)
            }
            _ => continue,
        };
        apart.push((group.0, most));
    }
    apart
}
