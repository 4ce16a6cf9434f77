//! What machines count as against the limits of their pool.
//!
//! A machine that may still become several types counts with the largest of them: whatever the provider picks, the limit holds. So a limit binds on what machines
//! *may* become, and what they may become can be trimmed to make room. How far is decided by the [`Caps`] of a machine: the most of each limited resource that
//! it is counted as. Types with more are withheld from it.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::decide::MinValuesPolicy;
use crate::model::ResVec;
use crate::model::ids::*;
use crate::model::resources::lane_of;
use crate::offer_set;
use crate::pack::scratch::{Machine, Scratch};

/// An amount of every resource that a pool limits, in the order of its limits; nodes are counted apart.
pub(crate) type Caps = SmallVec<[i64; 3]>;

/// How many sets of types are looked at to find the least a machine can count as.
const LEAST_TRIES: usize = 4_000;

/// What a machine can be counted as.
#[derive(Debug)]
pub(crate) struct Menu {
    /// Its cheapest type, and as many more of the cheapest as minValues want.
    pub bought: Caps,
    /// All below which nothing is left that will do; those that leave the cheapest offerings first.
    pub least: Vec<Caps>,
    /// The least of each resource, over all of these.
    pub floor: Caps,
}

/// Whether caps stay within others.
pub(crate) fn within(caps: &[i64], most: &[i64]) -> bool {
    caps.iter().zip(most).all(|(caps, most)| caps <= most)
}

/// `a + b − c`, resource by resource.
pub(crate) fn shift(a: &[i64], b: &[i64], c: &[i64]) -> Caps {
    let both = a.iter().zip(b).map(|(a, b)| a.saturating_add(*b));
    both.zip(c).map(|(sum, c)| sum.saturating_sub(*c)).collect()
}

impl Scratch<'_> {
    /// Whether a pool limits anything but the number of nodes.
    pub(crate) fn limits_resources(&self, pool: PoolIdx) -> bool {
        self.snapshot.pools[pool.at()].limits.iter().any(|limit| limit.lane.is_some())
    }

    /// Amounts by lane as caps of a pool.
    pub(crate) fn as_caps(&self, pool: PoolIdx, amounts: &[i64]) -> Caps {
        let limits = self.snapshot.pools[pool.at()].limits.iter();
        limits.filter_map(|limit| limit.lane).map(|lane| lane_of(amounts, lane)).collect()
    }

    /// Caps of a pool as amounts by lane.
    pub(crate) fn by_lane(&self, pool: PoolIdx, caps: &[i64]) -> ResVec {
        let lanes = self.snapshot.pools[pool.at()].limits.iter().filter_map(|limit| limit.lane);
        let mut out = ResVec::new();
        for (lane, cap) in lanes.zip(caps) {
            if out.len() <= lane {
                out.resize(lane + 1, 0);
            }
            out[lane] = *cap;
        }
        out
    }

    /// What is left of a pool's limits beside what its machines hold.
    pub(crate) fn left_of_limits(&self, pool: PoolIdx) -> Caps {
        let limits = self.snapshot.pools[pool.at()].limits.iter().zip(&self.limits[pool.at()]);
        limits.filter(|(limit, _)| limit.lane.is_some()).map(|(_, left)| *left).collect()
    }

    fn caps_of_offering(&self, pool: PoolIdx, offering: usize) -> Caps {
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[pool.at()].catalogue.at()];
        self.as_caps(pool, &catalogue.types[catalogue.offerings[offering].instance_type.at()].capacity)
    }

    /// A set without the types that count as more.
    pub(crate) fn within_caps(&self, pool: PoolIdx, set: &[u64], caps: &[i64]) -> Vec<u64> {
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[pool.at()].catalogue.at()];
        let mut kept = set.to_vec();
        let mut last = None;
        for at in offer_set::iter(set) {
            let instance_type = catalogue.offerings[at].instance_type;
            let fits = match last {
                Some((known, fits)) if known == instance_type => fits,
                _ => within(&self.caps_of_offering(pool, at), caps),
            };
            last = Some((instance_type, fits));
            if !fits {
                kept[at / 64] &= !(1 << (at % 64));
            }
        }
        kept
    }

    /// Whether a set has as many values as the pool wants of a machine.
    pub(crate) fn has_min_values(&self, pool: PoolIdx, met: ReqId, set: &[u64]) -> bool {
        self.templates[pool.at()].min_values.iter().all(|key| {
            let (have, need) = self.distinct_values(pool, met, set, *key);
            have >= need
        })
    }

    /// Whether minValues keep types on a machine.
    fn min_values_bind(&self, pool: PoolIdx) -> bool {
        !self.templates[pool.at()].min_values.is_empty() && self.options.min_values == MinValuesPolicy::Strict
    }

    /// What a machine counts as that becomes the type of one of its offerings: with that, and as many more of the cheapest as minValues want.
    pub(crate) fn caps_with(&self, pool: PoolIdx, met: ReqId, set: &[u64], offering: usize) -> Caps {
        let mut caps = self.caps_of_offering(pool, offering);
        if self.templates[pool.at()].min_values.is_empty() {
            return caps;
        }
        let enough = |caps: &Caps| self.has_min_values(pool, met, &self.within_caps(pool, set, caps));
        if enough(&caps) {
            return caps;
        }
        for at in offer_set::iter(set) {
            let more = self.caps_of_offering(pool, at);
            if !within(&more, &caps) {
                caps.iter_mut().zip(&more).for_each(|(cap, more)| *cap = (*cap).max(*more));
                if enough(&caps) {
                    break;
                }
            }
        }
        caps
    }

    /// The same for its cheapest type: what it counts as once it is bought.
    pub(crate) fn bought_caps(&self, pool: PoolIdx, met: ReqId, set: &[u64]) -> Caps {
        match offer_set::first(set) {
            Some(cheapest) => self.caps_with(pool, met, set, cheapest),
            None => self.as_caps(pool, &[]),
        }
    }

    /// What a machine counts as in the plan.
    pub(crate) fn planned_caps(&self, machine: &Machine) -> Caps {
        self.bought_caps(machine.pool, machine.requirements, &self.launchable(machine, &machine.offers))
    }

    /// The same for all machines of a pool together.
    pub(crate) fn planned_in(&mut self, pool: PoolIdx) -> Caps {
        let known =
            self.planned.as_ref().filter(|(version, all)| *version == self.version && all.len() > pool.at());
        if let Some((_, all)) = known {
            return all[pool.at()].clone();
        }
        let nothing = |pool: usize| self.as_caps(PoolIdx::new(pool), &[]);
        let mut all: Vec<Caps> = (0..self.templates.len()).map(nothing).collect();
        for machine in self.machines.iter().filter(|machine| self.limits_resources(machine.pool)) {
            let sum = &mut all[machine.pool.at()];
            let caps = self.planned_caps(machine);
            sum.iter_mut().zip(caps).for_each(|(sum, cap)| *sum = sum.saturating_add(cap));
        }
        let of_pool = all[pool.at()].clone();
        self.planned = Some((self.version, all));
        of_pool
    }

    /// What of a set a machine can be launched as: what holds reservations launches into them.
    pub(crate) fn launchable(&self, machine: &Machine, set: &[u64]) -> Vec<u64> {
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[machine.pool.at()].catalogue.at()];
        let mut kept = set.to_vec();
        if !machine.reservations.is_empty() {
            for at in offer_set::iter(set) {
                let held =
                    catalogue.offerings[at].reservation.is_some_and(|r| machine.reservations.contains(&r));
                if !held {
                    kept[at / 64] &= !(1 << (at % 64));
                }
            }
        }
        kept
    }

    /// What of a set holds a machine as it is now: its pods, their ports and volumes, its requirements.
    pub(crate) fn still_holding(&mut self, machine: &Machine, set: &[u64]) -> Vec<u64> {
        let template = &self.templates[machine.pool.at()];
        let catalogue = &self.snapshot.catalogues[template.catalogue.at()];
        let mut kept = set.to_vec();
        let matching = self.offers.of(self.snapshot, &self.algebra, template.catalogue, machine.requirements);
        offer_set::and_into(&mut kept, &matching);
        template.keep_fitting(&mut kept, &machine.requests);
        template.remove_port_clashes(&mut kept, &machine.ports);
        if template.has_volume_limits && !machine.volumes.is_empty() {
            for at in offer_set::iter(&kept.clone()) {
                let limits = &catalogue.types[catalogue.offerings[at].instance_type.at()].volume_limits;
                let attached = |driver: &str| machine.volumes.iter().filter(|(_, d)| **d == *driver).count();
                if limits.iter().any(|(driver, most)| attached(driver) > *most as usize) {
                    kept[at / 64] &= !(1 << (at % 64));
                }
            }
        }
        self.launchable(machine, &kept)
    }

    /// What a machine of these offerings can be counted as.
    pub(crate) fn menu(&self, pool: PoolIdx, met: ReqId, set: &[u64]) -> Rc<Menu> {
        let bought = self.bought_caps(pool, met, set);
        let mut rows: Vec<Caps> = offer_set::iter(set).map(|at| self.caps_of_offering(pool, at)).collect();
        rows.sort_unstable();
        rows.dedup();
        let binding = self.min_values_bind(pool);
        let enough =
            |caps: &[i64]| !binding || self.has_min_values(pool, met, &self.within_caps(pool, set, caps));
        let mut search = Least { rows: &rows, enough: &enough, tries: LEAST_TRIES, found: Vec::new() };
        search.look(&mut Caps::new(), bought.len());
        let mut found = search.found;
        found.push(bought.clone());
        let mut least = undominated(found);
        least.sort_by_cached_key(|caps| offer_set::first(&self.within_caps(pool, set, caps)));
        let mut floor = bought.clone();
        for caps in &least {
            floor.iter_mut().zip(caps).for_each(|(floor, cap)| *floor = (*floor).min(*cap));
        }
        Rc::new(Menu { bought, least, floor })
    }

    /// How many types of a set are not among those that a machine keeps of it.
    pub(crate) fn withheld(&self, pool: PoolIdx, set: &[u64], kept: &[u64]) -> usize {
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[pool.at()].catalogue.at()];
        let mut seen = vec![false; catalogue.types.len()];
        for at in offer_set::iter(kept) {
            seen[catalogue.offerings[at].instance_type.at()] = true;
        }
        offer_set::iter(set)
            .filter(|at| !std::mem::replace(&mut seen[catalogue.offerings[*at].instance_type.at()], true))
            .count()
    }

    /// With policy BestEffort a limit is one more reason why a machine has fewer values.
    pub(crate) fn lower_min_values(&mut self, machine: &mut Machine, kept: &[u64]) {
        for key in self.templates[machine.pool.at()].min_values.clone() {
            let (have, need) = self.distinct_values(machine.pool, machine.requirements, kept, key);
            if have < need {
                machine.requirements = self.algebra.with_min_values(machine.requirements, key, have);
                machine.min_values_relaxed = true;
            }
        }
    }
}

/// Looks for the least caps within which enough types are left: for every amount of the first resources the least of the last one.
struct Least<'a> {
    rows: &'a [Caps],
    enough: &'a dyn Fn(&[i64]) -> bool,
    tries: usize,
    found: Vec<Caps>,
}

impl Least<'_> {
    fn look(&mut self, bounds: &mut Caps, resources: usize) {
        let at = bounds.len();
        if at == resources {
            if (self.enough)(bounds) {
                self.found.push(bounds.clone());
            }
            return;
        }
        let inside = self.rows.iter().filter(|row| within(&row[..at], bounds));
        let mut amounts: Vec<i64> = inside.map(|row| row[at]).collect();
        amounts.sort_unstable();
        amounts.dedup();
        if at + 1 < resources {
            for amount in amounts {
                bounds.push(amount);
                self.look(bounds, resources);
                bounds.pop();
            }
            return;
        }
        let (mut low, mut high) = (0, amounts.len());
        while low < high {
            if self.tries == 0 {
                return;
            }
            self.tries -= 1;
            let middle = low.midpoint(high);
            bounds.push(amounts[middle]);
            if (self.enough)(bounds) {
                high = middle;
            } else {
                low = middle + 1;
            }
            bounds.pop();
        }
        if let Some(amount) = amounts.get(low) {
            bounds.push(*amount);
            let mut caps = Caps::from_elem(i64::MIN, resources);
            for row in self.rows.iter().filter(|row| within(row, bounds)) {
                caps.iter_mut().zip(row).for_each(|(cap, row)| *cap = (*cap).max(*row));
            }
            self.found.push(caps);
            bounds.pop();
        }
    }
}

/// Caps without those that others stay within.
fn undominated(mut all: Vec<Caps>) -> Vec<Caps> {
    all.sort_unstable();
    all.dedup();
    let mut kept: Vec<Caps> = Vec::new();
    for caps in all {
        if !kept.iter().any(|known| within(known, &caps)) {
            kept.push(caps);
        }
    }
    kept
}

/// One of each list, so that together they stay within a total; `None` if there is no such choice, or if it is not found in so many steps. Partial
/// sums that another one stays within are dropped on the way, which loses nothing.
pub(crate) fn choose(lists: &[&[Caps]], total: &[i64], steps: &mut u64) -> Option<Vec<usize>> {
    struct Partial {
        sum: Caps,
        from: usize,
        choice: usize,
    }
    let nothing = Caps::from_elem(0, total.len());
    let mut rest = vec![nothing.clone(); lists.len() + 1];
    for (at, list) in lists.iter().enumerate().rev() {
        let least = |resource: usize| list.iter().map(|caps| caps[resource]).min();
        let floor: Option<Caps> = (0..total.len()).map(least).collect();
        rest[at] = shift(&rest[at + 1], &floor?, &nothing);
    }
    if !within(&rest[0], total) {
        return None;
    }
    let mut layers = vec![vec![Partial { sum: nothing.clone(), from: 0, choice: 0 }]];
    for (at, list) in lists.iter().enumerate() {
        let before = &layers[at];
        let mut next: Vec<Partial> = Vec::new();
        *steps = steps.checked_sub((before.len() * list.len()) as u64)?;
        for (from, partial) in before.iter().enumerate() {
            for (choice, caps) in list.iter().enumerate() {
                let sum = shift(&partial.sum, caps, &nothing);
                if within(&shift(&sum, &rest[at + 1], &nothing), total) {
                    next.push(Partial { sum, from, choice });
                }
            }
        }
        next.sort_by(|a, b| a.sum.cmp(&b.sum));
        let mut kept: Vec<Partial> = Vec::new();
        for partial in next {
            // In rising order of two amounts the last one kept has the least of the second.
            let known = if total.len() <= 2 { &kept[kept.len().saturating_sub(1)..] } else { &kept[..] };
            *steps = steps.checked_sub(known.len() as u64)?;
            if !known.iter().any(|known| within(&known.sum, &partial.sum)) {
                kept.push(partial);
            }
        }
        layers.push(kept);
    }
    let mut choices = vec![0; lists.len()];
    let mut at = 0;
    for layer in (1..layers.len()).rev() {
        let partial = layers[layer].get(at)?;
        choices[layer - 1] = partial.choice;
        at = partial.from;
    }
    (!layers.last()?.is_empty()).then_some(choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(amounts: &[i64]) -> Caps {
        Caps::from_slice(amounts)
    }

    #[test]
    fn finds_the_only_choice_that_stays_within_both_limits() {
        // Much of one or much of the other: taking the smallest of one resource everywhere takes too much of the other.
        let one = [caps(&[8, 2]), caps(&[2, 8])];
        let lists: Vec<&[Caps]> = vec![&one; 4];
        let found = choose(&lists, &[20, 20], &mut 1_000).expect("two of each");
        assert_eq!(found.iter().filter(|choice| **choice == 0).count(), 2);
        assert_eq!(choose(&lists, &[19, 20], &mut 1_000), None);
        assert_eq!(choose(&lists, &[20, 20], &mut 3), None, "out of steps");
    }

    #[test]
    fn with_three_resources_every_sum_that_matters_is_kept() {
        let one = [caps(&[4, 1, 1]), caps(&[1, 4, 1]), caps(&[1, 1, 4])];
        let lists: Vec<&[Caps]> = vec![&one; 3];
        assert!(choose(&lists, &[6, 6, 6], &mut 10_000).is_some());
        assert_eq!(choose(&lists, &[6, 6, 5], &mut 10_000), None);
    }

    #[test]
    fn nothing_to_choose_is_a_choice() {
        assert_eq!(choose(&[], &[1], &mut 10), Some(Vec::new()));
        assert_eq!(choose(&[], &[-1], &mut 10), None, "a limit that is exceeded already");
        let none: [Caps; 0] = [];
        assert_eq!(choose(&[&none], &[5], &mut 10), None);
    }

    #[test]
    fn least_caps_are_found_for_every_amount_of_the_first_resource() {
        let rows = [caps(&[2, 16]), caps(&[4, 8]), caps(&[8, 8]), caps(&[8, 4])];
        let any = |_: &[i64]| true;
        let mut search = Least { rows: &rows, enough: &any, tries: 100, found: Vec::new() };
        search.look(&mut Caps::new(), 2);
        assert_eq!(undominated(search.found), vec![caps(&[2, 16]), caps(&[4, 8]), caps(&[8, 4])]);
        // Two of them: what is least grows.
        let two = |bounds: &[i64]| rows.iter().filter(|row| within(row, bounds)).count() >= 2;
        let mut search = Least { rows: &rows, enough: &two, tries: 100, found: Vec::new() };
        search.look(&mut Caps::new(), 2);
        assert_eq!(undominated(search.found), vec![caps(&[4, 16]), caps(&[8, 8])]);
    }
}
