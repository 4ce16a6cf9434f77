//! The input of the price floor made small without changing its value: pods that cannot be placed or cost nothing
//! go, equal demands merge, offerings that another one beats per dollar in every respect go, groups of which a machine holds only so many become
//! lanes, lanes that another one implies go.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Demand, Offer};
use crate::offer_set;

const NANO: f64 = 1e-9;

/// Counts elementary steps against the budget.
pub(super) struct Work {
    pub(super) left: u64,
}

impl Work {
    /// Whether `steps` are left.
    pub(super) fn can_spend(&self, steps: usize) -> Option<()> {
        (steps as u64 <= self.left).then_some(())
    }

    /// Takes `steps` from the budget, or says that it is used up.
    pub(super) fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(steps as u64)?;
        Some(())
    }
}

/// A demand after reduction: lanes it takes nothing of are gone, groups that keep apart are lanes of their own.
pub(super) struct Class {
    /// How many pods.
    pub(super) count: f64,
    /// Lanes one pod takes something of, and how much, ascending.
    pub(super) lanes: Vec<(usize, f64)>,
    /// Machines that hold such a pod, ascending.
    pub(super) offers: Rc<[u32]>,
}

impl Class {
    /// Machines that hold such a pod, ascending.
    pub(super) fn machines(&self) -> impl Iterator<Item = usize> {
        self.offers.iter().map(|machine| *machine as usize)
    }
}

/// An offering after reduction. `rate[l]` is the price of one unit of lane `l` if that lane bore the whole price.
pub(super) struct Machine {
    /// Its number in the input.
    pub(super) offer: usize,
    /// Dollars per hour and unit of each lane.
    pub(super) rate: Vec<f64>,
    /// Classes it can hold, ascending. With hundreds of both, these lists are the largest thing in the model.
    classes: Vec<u32>,
    /// Lanes that can be full before any other one is, ascending: only these limit what the machine holds.
    pub(super) lanes: Vec<usize>,
}

impl Machine {
    /// Classes it can hold, ascending.
    pub(super) fn classes(&self) -> impl ExactSizeIterator<Item = usize> {
        self.classes.iter().map(|class| *class as usize)
    }
}

/// The reduced problem. Its optimum equals that of the input.
pub(super) struct Model {
    /// All lanes: resources first, then groups that keep apart.
    pub(super) lanes: usize,
    /// Those groups, ascending.
    groups: Vec<u32>,
    pub(super) classes: Vec<Class>,
    pub(super) machines: Vec<Machine>,
}

impl Model {
    pub(super) fn build(demands: &[Demand], offers: &[Offer<'_>], work: &mut Work) -> Option<Model> {
        let merged = merge_equal(demands, offers, work)?;
        let base_lanes = merged.keys().map(|shape| shape.requests.len()).max().unwrap_or(0);
        let mut groups: Vec<u32> =
            merged.keys().flat_map(|shape| shape.apart.iter().map(|(group, _)| *group)).collect();
        groups.sort_unstable();
        groups.dedup();
        let lanes = base_lanes + groups.len();

        let mut served = Served::new(offers.len(), merged.len());
        let mut needs: Vec<Vec<(usize, f64)>> = Vec::with_capacity(merged.len());
        for (class, shape) in merged.keys().enumerate() {
            for &offer in shape.offers.iter() {
                offer_set::insert(served.row_mut(offer as usize), class);
            }
            needs.push(amounts(&shape.requests, &shape.apart, base_lanes, &groups));
        }
        let rates = |offer: usize| -> Vec<f64> {
            let Offer { price_nano_usd, allocatable } = &offers[offer];
            let price = *price_nano_usd as f64 * NANO;
            let per_unit = |lane: usize| match allocatable.get(lane) {
                Some(&amount) if amount > 0 => price / amount as f64,
                _ => f64::INFINITY,
            };
            (0..lanes).map(|lane| if lane < base_lanes { per_unit(lane) } else { price }).collect()
        };
        let kept = undominated(&served, &needs, offers, rates, lanes, work)?;

        // With fewer machines, more classes are alike.
        let mut usable: Vec<Vec<u32>> = vec![Vec::new(); needs.len()];
        for (machine, (offer, _)) in kept.iter().enumerate() {
            let row = served.row(*offer);
            work.spend(members(row))?;
            offer_set::iter(row).for_each(|class| usable[class].push(machine as u32));
        }
        drop(served);
        let counts = merged.values().map(|count| *count as f64);
        let classes = merge_alike(needs, usable, counts);

        let mut machines: Vec<Machine> = kept
            .into_iter()
            .map(|(offer, rate)| Machine { offer, rate, classes: Vec::new(), lanes: Vec::new() })
            .collect();
        let mut held = vec![0; machines.len()];
        classes.iter().flat_map(Class::machines).for_each(|machine| held[machine] += 1);
        machines.iter_mut().zip(held).for_each(|(machine, held)| machine.classes.reserve_exact(held));
        for (index, class) in classes.iter().enumerate() {
            class.machines().for_each(|machine| machines[machine].classes.push(index as u32));
        }
        for machine in &mut machines {
            work.spend(machine.classes.len() * lanes * 2)?;
            machine.lanes = limiting_lanes(machine, &classes, lanes);
        }
        Some(Model { lanes, groups, classes, machines })
    }

    /// Lanes one pod of a demand takes something of, and how much.
    pub(super) fn needs(&self, demand: &Demand) -> Vec<(usize, f64)> {
        amounts(&demand.requests, &demand.apart, self.lanes - self.groups.len(), &self.groups)
    }

    /// What one pod of the class is worth at a machine whose price is divided over its lanes by `division`.
    pub(super) fn worth(&self, class: usize, machine: usize, division: &[f64]) -> f64 {
        let rate = &self.machines[machine].rate;
        self.classes[class].lanes.iter().map(|&(lane, request)| division[lane] * rate[lane] * request).sum()
    }

    /// The most one pod can be worth at a machine: its price times the largest share the pod takes of a lane.
    pub(super) fn most_worth(&self, class: usize, machine: usize) -> f64 {
        let rate = &self.machines[machine].rate;
        self.classes[class].lanes.iter().map(|&(lane, request)| rate[lane] * request).fold(0.0, f64::max)
    }
}

/// What one pod takes of resource lanes and of the lanes of groups after them.
fn amounts(requests: &[i64], apart: &[(u32, u32)], base_lanes: usize, groups: &[u32]) -> Vec<(usize, f64)> {
    let resources = requests.iter().enumerate().take(base_lanes).filter(|(_, request)| **request > 0);
    let apart = apart.iter().filter_map(|(group, most)| {
        let lane = base_lanes + groups.binary_search(group).ok()?;
        Some((lane, 1.0 / f64::from((*most).max(1))))
    });
    resources.map(|(lane, request)| (lane, *request as f64)).chain(apart).collect()
}

/// What makes two demands the same but for their number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Shape<'a> {
    requests: Vec<i64>,
    apart: Vec<(u32, u32)>,
    /// Long lists, mostly as they were handed in.
    offers: Cow<'a, [u32]>,
}

/// Which classes each offering can hold: a row of bits per offering, because with thousands of offerings and hundreds of
/// classes lists of numbers would be the largest thing in memory.
struct Served {
    words: usize,
    bits: Vec<u64>,
}

impl Served {
    fn new(offers: usize, classes: usize) -> Self {
        let words = offer_set::words(classes);
        Served { words, bits: vec![0; words * offers] }
    }

    fn row(&self, offer: usize) -> &[u64] {
        &self.bits[offer * self.words..][..self.words]
    }

    fn row_mut(&mut self, offer: usize) -> &mut [u64] {
        &mut self.bits[offer * self.words..][..self.words]
    }
}

/// How many bits of a row are set.
fn members(row: &[u64]) -> usize {
    row.iter().map(|word| word.count_ones() as usize).sum()
}

/// A demand as it was handed in, but for its number: requests, groups that keep apart, offerings.
type Written<'a> = (&'a [i64], &'a [(u32, u32)], &'a [u32]);

/// What a pod takes of each lane relative to the first, bit by bit.
type Mixture = Vec<(usize, u64)>;

/// Demands that need something and can be placed, equal ones merged, with only the offerings that hold one pod.
///
/// A demand that takes nothing, or may use a free offering, costs nothing and is left out.
fn merge_equal<'a>(
    demands: &'a [Demand],
    offers: &[Offer<'_>],
    work: &mut Work,
) -> Option<BTreeMap<Shape<'a>, u64>> {
    // First as they are, because to look at every offering of every demand is the larger part of the work.
    let mut written: BTreeMap<Written<'_>, u64> = BTreeMap::new();
    for demand in demands.iter().filter(|demand| demand.count > 0) {
        work.spend(demand.offers.len() + demand.requests.len())?;
        let count = written.entry((&demand.requests, &demand.apart, &demand.offers)).or_default();
        *count = count.saturating_add(demand.count);
    }
    let mut merged: BTreeMap<Shape<'a>, u64> = BTreeMap::new();
    for ((requests, apart, allowed), number) in written {
        work.spend(allowed.len() * requests.len().max(1))?;
        let holds = |offer: &u32| holds_one(requests, offers.get(*offer as usize));
        let usable = if allowed.is_sorted_by(|a, b| a < b) && allowed.iter().all(holds) {
            Cow::Borrowed(allowed)
        } else {
            let mut usable: Vec<u32> = allowed.iter().copied().filter(holds).collect();
            usable.sort_unstable();
            usable.dedup();
            Cow::Owned(usable)
        };
        let free = usable.iter().any(|&offer| offers[offer as usize].price_nano_usd <= 0);
        let idle = apart.is_empty() && requests.iter().all(|request| *request <= 0);
        if usable.is_empty() || free || idle {
            continue;
        }
        let mut apart = apart.to_vec();
        apart.sort_unstable();
        // The strictest of a group comes first.
        apart.dedup_by_key(|(group, _)| *group);
        let mut requests = requests.to_vec();
        while requests.last().is_some_and(|request| *request <= 0) {
            requests.pop();
        }
        let count = merged.entry(Shape { requests, apart, offers: usable }).or_default();
        *count = count.saturating_add(number);
    }
    Some(merged)
}

/// Whether one pod fits an empty machine. A request of zero needs nothing.
fn holds_one(requests: &[i64], offer: Option<&Offer<'_>>) -> bool {
    offer.is_some_and(|offer| {
        requests.iter().enumerate().all(|(lane, &request)| {
            request <= 0 || request <= offer.allocatable.get(lane).copied().unwrap_or(0)
        })
    })
}

/// The offerings worth considering and their rates: those that serve someone and for which no other serves at least
/// the same demands and costs no more per unit of any lane those use. Instead of such an offering, a fraction or a
/// multiple of the other at the same price holds the same pods.
fn undominated(
    served: &Served,
    needs: &[Vec<(usize, f64)>],
    offers: &[Offer<'_>],
    rates: impl Fn(usize) -> Vec<f64>,
    lanes: usize,
    work: &mut Work,
) -> Option<Vec<(usize, Vec<f64>)>> {
    let mut largest = vec![0.0f64; lanes];
    needs.iter().flatten().for_each(|&(lane, request)| largest[lane] = largest[lane].max(request));

    struct Candidate {
        offer: usize,
        rate: Vec<f64>,
        /// How many demands it serves.
        serves: usize,
        /// Lanes the demands it serves take something of.
        used: Rc<[usize]>,
        /// A sum of the rates, each weighed alike for all candidates.
        dear: f64,
    }
    // Most are the same machine in another zone or on other terms: of those that serve the same demands, the cheapest will do.
    let mut cheapest: BTreeMap<(&[u64], &[i64]), usize> = BTreeMap::new();
    for (at, offer) in offers.iter().enumerate() {
        let row = served.row(at);
        work.spend(2 * served.words)?;
        if row.iter().any(|word| *word != 0) {
            let known = cheapest.entry((row, &offer.allocatable)).or_insert(at);
            if offer.price_nano_usd < offers[*known].price_nano_usd {
                *known = at;
            }
        }
    }
    let mut used_by: BTreeMap<&[u64], Rc<[usize]>> = BTreeMap::new();
    let mut candidates: Vec<Candidate> = Vec::with_capacity(cheapest.len());
    for ((row, _), offer) in cheapest {
        let serves = members(row);
        work.spend(serves + lanes)?;
        let used = used_by.entry(row).or_insert_with(|| {
            let mut used: Vec<usize> =
                offer_set::iter(row).flat_map(|class| needs[class].iter().map(|(lane, _)| *lane)).collect();
            used.sort_unstable();
            used.dedup();
            used.into()
        });
        let rate = rates(offer);
        let dear = used.iter().map(|&lane| rate[lane] * largest[lane]).sum();
        candidates.push(Candidate { offer, rate, serves, used: used.clone(), dear });
    }
    // What beats an offering serves more, or serves the same and is cheaper in sum: it comes first.
    candidates.sort_by(|a, b| {
        let by_service = b.serves.cmp(&a.serves);
        by_service.then(a.dear.total_cmp(&b.dear)).then(a.offer.cmp(&b.offer))
    });
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let set = served.row(candidate.offer);
        work.spend(4 * kept.len() + served.words)?;
        let dominated = kept.iter().any(|other| {
            candidate.used.iter().all(|&lane| other.rate[lane] <= candidate.rate[lane])
                && set.iter().zip(served.row(other.offer)).all(|(mine, theirs)| mine & !theirs == 0)
        });
        if !dominated {
            kept.push(candidate);
        }
    }
    Some(kept.into_iter().map(|candidate| (candidate.offer, candidate.rate)).collect())
}

/// Classes that may use the same machines and ask for the same mixture are one, counted in pods of the first. Where
/// there is only one machine to use, mixtures do not matter and all of its pods together are one class.
fn merge_alike(
    needs: Vec<Vec<(usize, f64)>>,
    usable: Vec<Vec<u32>>,
    counts: impl Iterator<Item = f64>,
) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    let mut known: BTreeMap<(Rc<[u32]>, Mixture), usize> = BTreeMap::new();
    for ((lanes, offers), count) in needs.into_iter().zip(usable).zip(counts) {
        let offers: Rc<[u32]> = offers.into();
        let only_one = offers.len() == 1;
        let unit = if only_one { 1.0 } else { lanes.first().map_or(1.0, |(_, request)| *request) };
        let mixture: Mixture =
            lanes.iter().map(|&(lane, request)| (lane, (request / unit).to_bits())).collect();
        let key = if only_one { (offers.clone(), Vec::new()) } else { (offers.clone(), mixture) };
        let index = *known.entry(key).or_insert(classes.len());
        match classes.get_mut(index) {
            None if only_one => {
                let lanes = lanes.into_iter().map(|(lane, request)| (lane, request * count)).collect();
                classes.push(Class { count: 1.0, lanes, offers });
            }
            None => classes.push(Class { count, lanes, offers }),
            Some(class) if only_one => {
                let mut sums: BTreeMap<usize, f64> = class.lanes.iter().copied().collect();
                lanes.iter().for_each(|&(lane, request)| *sums.entry(lane).or_default() += request * count);
                class.lanes = sums.into_iter().collect();
            }
            Some(class) => {
                let first = class.lanes.first().map_or(1.0, |(_, request)| *request);
                class.count += count * unit / first;
            }
        }
    }
    classes
}

/// The lanes of a machine that no other lane implies: one of which every pod takes a smaller share than of another
/// is never full first.
fn limiting_lanes(machine: &Machine, classes: &[Class], lanes: usize) -> Vec<usize> {
    let mut shares: Vec<Vec<f64>> = vec![vec![0.0; machine.classes.len()]; lanes];
    for (position, class) in machine.classes().enumerate() {
        for &(lane, request) in &classes[class].lanes {
            shares[lane][position] = machine.rate[lane] * request;
        }
    }
    let mut kept: Vec<usize> =
        (0..lanes).filter(|&lane| shares[lane].iter().any(|share| *share > 0.0)).collect();
    for lane in kept.clone() {
        let implied_by = |other: usize| {
            other != lane && shares[lane].iter().zip(&shares[other]).all(|(mine, theirs)| mine <= theirs)
        };
        if kept.iter().any(|&other| implied_by(other)) {
            kept.retain(|known| *known != lane);
        }
    }
    kept
}
