//! The input of the price floor made small without changing its value: pods that cannot be placed or cost nothing
//! go, equal demands merge, offerings that another one beats in every respect go, exclusive groups become lanes.

use std::collections::BTreeMap;

use super::{Demand, Offer};

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

/// A demand after reduction: lanes it takes nothing of are gone, exclusive groups are lanes of their own.
pub(super) struct Class {
    /// How many pods.
    pub(super) count: f64,
    /// Lanes one pod takes something of, and how much.
    pub(super) lanes: Vec<(usize, f64)>,
    /// Machines that hold such a pod, ascending.
    pub(super) offers: Vec<usize>,
}

/// An offering after reduction. `rate[l]` is the price of one unit of lane `l` if that lane bore the whole price.
pub(super) struct Machine {
    /// Dollars per hour.
    pub(super) price: f64,
    /// Dollars per hour and unit of each lane.
    pub(super) rate: Vec<f64>,
    /// Classes it can hold, ascending.
    pub(super) classes: Vec<usize>,
}

/// The reduced problem. Its optimum equals that of the input.
pub(super) struct Model {
    /// Resource lanes; the exclusive groups follow.
    pub(super) base_lanes: usize,
    /// All lanes.
    pub(super) lanes: usize,
    pub(super) classes: Vec<Class>,
    /// By rising price.
    pub(super) machines: Vec<Machine>,
}

impl Model {
    pub(super) fn build(demands: &[Demand], offers: &[Offer], work: &mut Work) -> Option<Model> {
        let base_lanes = demands.iter().map(|demand| demand.requests.len()).max().unwrap_or(0);
        let merged = merge_equal(demands, offers, work)?;
        let merged: Vec<(&Shape, u64)> = merged.iter().map(|(shape, count)| (shape, *count)).collect();

        let mut served: Vec<Vec<usize>> = vec![Vec::new(); offers.len()];
        for (class, (shape, _)) in merged.iter().enumerate() {
            for &offer in &shape.offers {
                served[offer as usize].push(class);
            }
        }
        let kept = undominated(offers, &served, base_lanes, merged.len(), work)?;

        let mut groups: Vec<u32> =
            merged.iter().flat_map(|(shape, _)| shape.exclusive.iter().copied()).collect();
        groups.sort_unstable();
        groups.dedup();
        let lanes = base_lanes + groups.len();

        let mut classes: Vec<Class> = merged
            .iter()
            .map(|(shape, count)| {
                let base = shape.requests.iter().enumerate().filter(|(_, request)| **request > 0);
                let mut lanes: Vec<(usize, f64)> =
                    base.map(|(lane, request)| (lane, *request as f64)).collect();
                for group in &shape.exclusive {
                    let position = groups.partition_point(|known| known < group);
                    lanes.push((base_lanes + position, 1.0));
                }
                Class { count: *count as f64, lanes, offers: Vec::new() }
            })
            .collect();
        let mut machines = Vec::with_capacity(kept.len());
        for &index in &kept {
            let price = offers[index].price_nano_usd as f64 * NANO;
            let per_unit = |lane: usize| match offers[index].allocatable.get(lane) {
                Some(&amount) if amount > 0 => price / amount as f64,
                _ => 0.0,
            };
            let mut rate: Vec<f64> = (0..base_lanes).map(per_unit).collect();
            rate.resize(lanes, price);
            for &class in &served[index] {
                classes[class].offers.push(machines.len());
            }
            machines.push(Machine { price, rate, classes: served[index].clone() });
        }
        work.spend(
            machines.len() * lanes + machines.iter().map(|machine| machine.classes.len()).sum::<usize>(),
        )?;
        Some(Model { base_lanes, lanes, classes, machines })
    }

    /// The floor that the scarcest single lane proves: what all pods take of it, each at its cheapest machine.
    pub(super) fn single_lane_floor(&self, work: &mut Work) -> Option<f64> {
        let mut floors = vec![0.0; self.lanes];
        for Class { count, lanes, offers } in &self.classes {
            work.spend(offers.len() * lanes.len())?;
            for &(lane, request) in lanes {
                let rates = offers.iter().map(|&machine| self.machines[machine].rate[lane]);
                floors[lane] += count * request * rates.fold(f64::INFINITY, f64::min);
            }
        }
        Some(floors.into_iter().fold(0.0, f64::max))
    }

    /// What one pod of the class is worth at a machine whose price is divided over its lanes by `division`.
    pub(super) fn worth(&self, class: usize, machine: usize, division: &[f64]) -> f64 {
        let rate = &self.machines[machine].rate;
        self.classes[class].lanes.iter().map(|&(lane, request)| division[lane] * rate[lane] * request).sum()
    }

    /// The most one pod can be worth at a machine: its price times the largest share the pod takes of a resource.
    pub(super) fn most_worth(&self, class: usize, machine: usize) -> f64 {
        let Machine { price, rate, .. } = &self.machines[machine];
        let resources = self.classes[class].lanes.iter().filter(|(lane, _)| *lane < self.base_lanes);
        let most = resources.map(|&(lane, request)| rate[lane] * request).fold(0.0, f64::max);
        if most > 0.0 { most } else { *price }
    }
}

/// What makes two demands the same but for their number.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    requests: Vec<i64>,
    exclusive: Vec<u32>,
    offers: Vec<u32>,
}

/// Demands that need something and can be placed, equal ones merged, with only the offerings that hold one pod.
///
/// A demand that takes nothing, or may use a free offering, costs nothing and is left out.
fn merge_equal(demands: &[Demand], offers: &[Offer], work: &mut Work) -> Option<BTreeMap<Shape, u64>> {
    let mut merged: BTreeMap<Shape, u64> = BTreeMap::new();
    for demand in demands.iter().filter(|demand| demand.count > 0) {
        work.spend(demand.offers.len() * demand.requests.len().max(1))?;
        let mut usable: Vec<u32> = demand
            .offers
            .iter()
            .copied()
            .filter(|&offer| holds_one(demand, offers.get(offer as usize)))
            .collect();
        usable.sort_unstable();
        usable.dedup();
        let free = usable.iter().any(|&offer| offers[offer as usize].price_nano_usd <= 0);
        let idle = demand.exclusive.is_empty() && demand.requests.iter().all(|request| *request <= 0);
        if usable.is_empty() || free || idle {
            continue;
        }
        let mut exclusive = demand.exclusive.clone();
        exclusive.sort_unstable();
        exclusive.dedup();
        let mut requests = demand.requests.clone();
        while requests.last().is_some_and(|request| *request <= 0) {
            requests.pop();
        }
        let count = merged.entry(Shape { requests, exclusive, offers: usable }).or_default();
        *count = count.saturating_add(demand.count);
    }
    Some(merged)
}

/// Whether one pod fits an empty machine. A request of zero needs nothing.
fn holds_one(demand: &Demand, offer: Option<&Offer>) -> bool {
    offer.is_some_and(|offer| {
        demand.requests.iter().enumerate().all(|(lane, &request)| {
            request <= 0 || request <= offer.allocatable.get(lane).copied().unwrap_or(0)
        })
    })
}

/// The offerings worth considering: those that serve someone and for which no other is at least as large, serves
/// at least the same demands and costs no more. In order of price.
fn undominated(
    offers: &[Offer],
    served: &[Vec<usize>],
    lanes: usize,
    class_count: usize,
    work: &mut Work,
) -> Option<Vec<usize>> {
    let words = class_count.div_ceil(64);
    let mut order: Vec<usize> = (0..offers.len()).filter(|&offer| !served[offer].is_empty()).collect();
    // A larger machine at the same price comes first, so that the smaller one meets it.
    let amount = |offer: usize, lane: usize| offers[offer].allocatable.get(lane).copied().unwrap_or(0);
    let size = |offer: usize| (0..lanes).map(|lane| amount(offer, lane) as f64).sum::<f64>();
    order.sort_by(|&a, &b| {
        let by_price = offers[a].price_nano_usd.cmp(&offers[b].price_nano_usd);
        by_price.then(size(b).total_cmp(&size(a))).then(served[b].len().cmp(&served[a].len())).then(a.cmp(&b))
    });
    let mut kept: Vec<(usize, Vec<u64>)> = Vec::new();
    for offer in order {
        let mut set = vec![0u64; words];
        for &class in &served[offer] {
            set[class / 64] |= 1 << (class % 64);
        }
        work.spend(kept.len() * lanes + words)?;
        let dominated = kept.iter().any(|(other, other_set)| {
            (0..lanes).all(|lane| amount(*other, lane) >= amount(offer, lane))
                && set.iter().zip(other_set).all(|(mine, theirs)| mine & !theirs == 0)
        });
        if !dominated {
            kept.push((offer, set));
        }
    }
    Some(kept.into_iter().map(|(offer, _)| offer).collect())
}
