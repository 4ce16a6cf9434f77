//! From a division of pods to machines: what each requires, and every offering that can be it.

use smallvec::SmallVec;

use super::buying::Bought;
use super::filling::{Fill, Filler};
use crate::decide::MinValuesPolicy;
use crate::model::ids::*;
use crate::model::resources::{add_into, lane_of};
use crate::model::{Port, ResVec};
use crate::offer_set;
use crate::pack::caps::{self, Caps};
use crate::pack::scratch::{Machine, Scratch};

/// A machine's requirements and all offerings that hold what goes onto it.
pub(super) struct Standing {
    requirements: ReqId,
    requests: ResVec,
    pub set: Vec<u64>,
}

impl Standing {
    /// Whether the offerings have as many values as the pool wants, or need not have.
    pub fn has_min_values(&self, scratch: &Scratch, pool: PoolIdx) -> bool {
        scratch.options.min_values == MinValuesPolicy::BestEffort
            || scratch.templates[pool.at()].min_values.iter().all(|key| {
                let (have, need) = scratch.distinct_values(pool, self.requirements, &self.set, *key);
                have >= need
            })
    }
}

/// What a machine of a pool is with a fill on it; `None` if there is no such machine. Of offerings that draw from something finite
/// only those of the given commitment count.
pub(super) fn standing(
    filler: &mut Filler,
    scratch: &mut Scratch,
    pool: PoolIdx,
    fill: &Fill,
    committed: Option<ReservationIdx>,
) -> Option<Standing> {
    let task = filler.task;
    let mut requirements = scratch.templates[pool.at()].requirements;
    let mut requests = ResVec::new();
    let mut ports: Vec<Port> = Vec::new();
    for (kind, n) in &fill.takes {
        let kind = &task.kinds[*kind as usize];
        let shape = &task.shapes[kind.shape as usize];
        filler.bins.allowed[shape.access as usize][pool.at()].as_ref()?;
        requirements = filler.narrow(scratch, requirements, shape.access)?;
        let times = |amount: &i64| amount.saturating_mul(i64::from(*n));
        add_into(&mut requests, &shape.requests.iter().map(times).collect::<ResVec>());
        ports.extend(kind.ports.iter().cloned());
    }
    let templates = scratch.templates;
    let template = &templates[pool.at()];
    let catalogue = scratch.snapshot.pools[pool.at()].catalogue;
    let mut set = template.base.to_vec();
    let matching = scratch.offers.of(scratch.snapshot, &scratch.algebra, catalogue, requirements);
    offer_set::and_into(&mut set, &matching);
    scratch.keep_closed(pool, requirements, &mut set);
    let resources = &requests[..requests.len().min(task.resource_lanes)];
    template.keep_fitting(&mut set, resources);
    template.remove_port_clashes(&mut set, &ports);
    let offerings = &scratch.snapshot.catalogues[catalogue.at()];
    if template.has_reserved || requests.len() > task.resource_lanes {
        for at in offer_set::iter(&set.clone()) {
            let limits = &offerings.types[offerings.offerings[at].instance_type.at()].volume_limits;
            let over = task.drivers.iter().enumerate().any(|(driver, name)| {
                let want = lane_of(&requests, task.resource_lanes + driver);
                limits.iter().any(|(limited, most)| limited == name && want > i64::from(*most))
            });
            let reservation = offerings.offerings[at].reservation;
            if over || (reservation.is_some() && reservation != committed) {
                set[at / 64] &= !(1 << (at % 64));
            }
        }
    }
    requests.truncate(task.resource_lanes);
    (!offer_set::is_empty(&set)).then_some(Standing { requirements, requests, set })
}

/// Takes pods off a fill until the offerings that hold the rest have as many values as the pool wants.
pub(super) fn keep_min_values(filler: &mut Filler, scratch: &mut Scratch, bin: usize, fill: &mut Fill) {
    let pool = filler.bins.bins[bin].pool;
    if scratch.templates[pool.at()].min_values.is_empty()
        || scratch.options.min_values == MinValuesPolicy::BestEffort
    {
        return;
    }
    while !fill.takes.is_empty() {
        let units = filler.bins.bins[bin].units;
        let met = standing(filler, scratch, pool, fill, units)
            .is_some_and(|standing| standing.has_min_values(scratch, pool));
        if met {
            return;
        }
        if let Some((kind, n)) = fill.takes.last_mut() {
            fill.worth -= filler.worth[filler.task.kinds[*kind as usize].shape as usize];
            *n -= 1;
            if *n == 0 {
                fill.takes.pop();
            }
        }
    }
}

/// Turns bought machines into machines of the run. `None` if one can't be what it was bought as.
pub(super) fn settle(
    filler: &mut Filler,
    scratch: &mut Scratch,
    bought: &[Bought],
    frozen: &[Machine],
) -> Option<Vec<Machine>> {
    let task = filler.task;
    let mut next = vec![0usize; task.sets.len()];
    let mut machines: Vec<Machine> = Vec::with_capacity(bought.len());
    let mut fitted: Vec<Vec<u64>> = Vec::with_capacity(bought.len());
    for one in bought {
        let pool = filler.bins.bins[one.bin].pool;
        let Standing { mut requirements, requests, set } =
            standing(filler, scratch, pool, &one.fill, filler.bins.bins[one.bin].units)?;
        let mut min_values_relaxed = false;
        for key in scratch.templates[pool.at()].min_values.clone() {
            let (have, need) = scratch.distinct_values(pool, requirements, &set, key);
            if have < need {
                if scratch.options.min_values == MinValuesPolicy::Strict {
                    return None;
                }
                requirements = scratch.algebra.with_min_values(requirements, key, have);
                min_values_relaxed = true;
            }
        }
        let mut pods: Vec<PodIdx> = Vec::new();
        let mut ports = Vec::new();
        for (kind, n) in &one.fill.takes {
            let row = &task.kinds[*kind as usize];
            let from = next[row.set as usize];
            next[row.set as usize] += *n as usize;
            pods.extend(task.sets[row.set as usize][from..from + *n as usize].iter().flatten());
            ports.extend(row.ports.iter().cloned());
        }
        let mut volumes = SmallVec::new();
        for pod in &pods {
            for volume in &scratch.snapshot.classes[scratch.snapshot.pods[pod.at()].class.at()].volumes {
                if !volumes.iter().any(|(have, _)| *have == volume.volume) {
                    volumes.push((volume.volume, volume.driver.clone()));
                }
            }
        }
        fitted.push(set);
        machines.push(Machine {
            pool,
            requirements,
            offers: [].into(),
            requests,
            order: (pods.len() as u32, 0),
            pods,
            ports,
            volumes,
            holds: ResVec::new(),
            holds_stale: false,
            reservations: SmallVec::new(),
            min_values_relaxed,
            wide: None,
            withheld: 0,
        });
    }
    for (machine, set) in machines.iter_mut().zip(&fitted) {
        machine.offers = interchangeable(scratch, machine, set).into();
    }
    for at in 0..scratch.snapshot.pools.len() {
        let pool = PoolIdx::new(at);
        if !within_limits(scratch, pool, frozen.iter().chain(&machines)) {
            keep_to_limits(filler, scratch, bought, &fitted, &mut machines, pool, frozen)?;
        }
    }
    Some(machines)
}

/// Whether a pool keeps its limits, whatever type its machines turn out to be.
fn within_limits<'m>(scratch: &Scratch, pool: PoolIdx, machines: impl Iterator<Item = &'m Machine>) -> bool {
    let row = &scratch.snapshot.pools[pool.at()];
    if row.limits.is_empty() {
        return true;
    }
    let mut left: Vec<i64> = row.limits.iter().map(|limit| limit.most.saturating_sub(limit.used)).collect();
    for machine in machines.filter(|machine| machine.pool == pool) {
        let largest = scratch.largest_capacity(pool, &machine.offers);
        for (left, limit) in left.iter_mut().zip(&row.limits) {
            *left = left.saturating_sub(limit.lane.map_or(1, |lane| lane_of(&largest, lane)));
        }
    }
    left.iter().all(|left| *left >= 0)
}

/// Narrows machines to types that, taken together, stay within the limits: each counts as the type it was bought as, with as many more as minValues
/// want, and what is left over goes to the first machines that can use it. `None` if there is no such choice.
fn keep_to_limits(
    filler: &Filler,
    scratch: &mut Scratch,
    bought: &[Bought],
    fitted: &[Vec<u64>],
    machines: &mut [Machine],
    pool: PoolIdx,
    frozen: &[Machine],
) -> Option<()> {
    /// How many steps looking for a choice may take.
    const STEPS: u64 = 2_000_000;
    let row = &scratch.snapshot.pools[pool.at()];
    let nothing = scratch.as_caps(pool, &[]);
    let of_pool: Vec<usize> = (0..machines.len()).filter(|at| machines[*at].pool == pool).collect();
    let kept = || frozen.iter().filter(|machine| machine.pool == pool);
    let nodes = (of_pool.len() + kept().count()) as i64;
    if row.limits.iter().any(|limit| limit.lane.is_none() && limit.most.saturating_sub(limit.used) < nodes) {
        return None;
    }
    let mut spare: Caps = row
        .limits
        .iter()
        .filter(|limit| limit.lane.is_some())
        .map(|limit| limit.most.saturating_sub(limit.used))
        .collect();
    for machine in kept() {
        let largest = scratch.largest_capacity(pool, &machine.offers);
        spare = caps::shift(&spare, &nothing, &scratch.as_caps(pool, &largest));
    }
    let wanted: Vec<Caps> = of_pool
        .iter()
        .map(|at| {
            let own = filler.bins.bins[bought[*at].bin].offering;
            scratch.caps_with(pool, machines[*at].requirements, &fitted[*at], own)
        })
        .collect();
    let mut counted = wanted.clone();
    let less = |spare: &Caps, taken: &[Caps]| {
        taken.iter().fold(spare.clone(), |spare, caps| caps::shift(&spare, &nothing, caps))
    };
    if !caps::within(&nothing, &less(&spare, &counted)) {
        let menus: Vec<_> =
            of_pool.iter().map(|at| scratch.menu(pool, machines[*at].requirements, &fitted[*at])).collect();
        let lists: Vec<&[Caps]> = menus.iter().map(|menu| &menu.least[..]).collect();
        let choices = caps::choose(&lists, &spare, &mut { STEPS })?;
        counted = lists.iter().zip(choices).map(|(list, choice)| list[choice].clone()).collect();
        let mut left = less(&spare, &counted);
        for (counted, wanted) in counted.iter_mut().zip(wanted) {
            let after = caps::shift(&left, counted, &wanted);
            if caps::within(&nothing, &after) {
                (left, *counted) = (after, wanted);
            }
        }
    }
    let mut spare = less(&spare, &counted);
    for (at, counted) in of_pool.into_iter().zip(counted) {
        let set = scratch.within_caps(pool, &fitted[at], &caps::shift(&counted, &spare, &nothing));
        let kept = interchangeable(scratch, &machines[at], &set);
        let largest = scratch.as_caps(pool, &scratch.largest_capacity(pool, &kept));
        spare = caps::shift(&spare, &counted, &largest);
        if offer_set::is_empty(&kept) {
            return None;
        }
        if !scratch.has_min_values(pool, machines[at].requirements, &kept) {
            if scratch.options.min_values == MinValuesPolicy::Strict {
                return None;
            }
            scratch.lower_min_values(&mut machines[at], &kept);
        }
        let all = interchangeable(scratch, &machines[at], &fitted[at]);
        machines[at].withheld = scratch.withheld(pool, &all, &kept);
        machines[at].offers = kept.into();
    }
    Some(())
}

/// The offerings a machine keeps: the cheapest types up to the number a provider can use, none dearer than allowed, but always as
/// many as minValues want.
pub(crate) fn interchangeable(scratch: &Scratch, machine: &Machine, set: &[u64]) -> Vec<u64> {
    let pool = &scratch.snapshot.pools[machine.pool.at()];
    let catalogue = &scratch.snapshot.catalogues[pool.catalogue.at()];
    let Some(cheapest) = offer_set::first(set) else { return set.to_vec() };
    let price = catalogue.offerings[cheapest].price_nano_usd;
    let dearest = (price as f64 * (1.0 + scratch.options.type_premium)) as i64;
    let keys = &scratch.templates[machine.pool.at()].min_values;
    let mut kept = offer_set::empty(set.len());
    let mut types: Vec<TypeIdx> = Vec::new();
    for at in offer_set::iter(set) {
        let offering = &catalogue.offerings[at];
        let known = types.contains(&offering.instance_type);
        let allowed = offering.price_nano_usd <= dearest.max(price);
        if !allowed || (!known && types.len() >= scratch.options.max_types) {
            let enough = keys.iter().all(|key| {
                let (have, need) = scratch.distinct_values(machine.pool, machine.requirements, &kept, *key);
                have >= need
            });
            if !allowed && enough {
                break;
            }
            if enough {
                continue;
            }
        }
        if !known {
            types.push(offering.instance_type);
        }
        offer_set::insert(&mut kept, at);
    }
    kept
}
