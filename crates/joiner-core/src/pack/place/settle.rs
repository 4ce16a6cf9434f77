//! The last questions about a machine, old or new: topology values, volume limits, minValues, reservations.

use smallvec::SmallVec;

use super::{Attempt, Settled, WantKey};
use crate::algebra::MachineValue;
use crate::decide::{MinValuesPolicy, ReservedMode};
use crate::model::ids::*;
use crate::offer_set;
use crate::pack::groups::{sorted_by_name, values_of};
use crate::pack::scratch::Growth;
use crate::pack::scratch::Scratch;
use crate::pack::template::{Naming, offering_requirement};

impl Scratch<'_> {
    /// Pins the topology keys from the `at`-th on, value by value, until offerings are left that nothing objects to. `start` are the offerings before any key was
    /// pinned.
    pub(super) fn pin_and_finish(
        &mut self,
        attempt: &Attempt,
        met: ReqId,
        start: &[u64],
        set: &[u64],
        at: usize,
    ) -> Settled {
        let Some(key) = attempt.want.keys.get(at) else { return self.finish(attempt, met, set) };
        let catalogue = self.snapshot.pools[attempt.pool.at()].catalogue;
        let naming = match key.always_named {
            true => &Naming::Every,
            false => self.offers.naming(self.snapshot, &self.algebra, catalogue, key.key),
        };
        let named = match naming {
            Naming::Every => true,
            Naming::Some(those) => offer_set::intersects(start, those),
            Naming::None => false,
        };
        let some_name = matches!(naming, Naming::Some(_));
        let (fixed, can_be_named, may_be_absent) = match self.algebra.machine_value(met, key.key) {
            MachineValue::Missing => (None, false, true),
            MachineValue::Open => (None, named, true),
            MachineValue::Defined(requirement) if requirement.complement => {
                (None, named, requirement.may_be_absent)
            }
            MachineValue::Defined(requirement) => {
                (requirement.single(), !requirement.values.is_empty(), requirement.may_be_absent)
            }
        };
        if !can_be_named {
            // The machine will lack the label, or have a value that nobody can name: then no count can be trusted.
            let content = if may_be_absent {
                !key.must_exist
            } else {
                !attempt.want.own.iter().any(|own| !own.by_host && own.key == key.key)
                    && !attempt.want.selected.inverse.iter().any(|group| {
                        self.snapshot.group(*group).key() == key.key
                            && self.groups.state(*group).owners_total > 0
                    })
            };
            if !content {
                return Settled::NoOffering;
            }
            // Pinned to lacking it: a later pod must not give the label to those who were told there is none.
            let met = if may_be_absent { self.algebra.pin_missing(met, key.key) } else { met };
            return self.pin_and_finish(attempt, met, start, set, at + 1);
        }
        if let Some(value) = fixed {
            return if self.value_ok(attempt.want, attempt.query, key.key, value) {
                self.pin_and_finish(attempt, met, start, set, at + 1)
            } else {
                Settled::NoOffering
            };
        }
        let values = if some_name {
            // What only some offerings name is worth trying only if one of these can still be had.
            let mut values = Vec::new();
            values_of(self.snapshot, &self.algebra, catalogue, start, met, key.key, &mut values);
            sorted_by_name(values, self.algebra.names(), key.key)
        } else {
            key.values.clone()
        };
        let mut refused = false;
        for value in self.choices(attempt, at, met, set, &values) {
            let pinned = self.algebra.pin(met, key.key, value);
            let allowed = self.offers.of(self.snapshot, &self.algebra, catalogue, pinned);
            let mut narrowed = set.to_vec();
            offer_set::and_into(&mut narrowed, &allowed);
            if offer_set::is_empty(&narrowed) {
                continue;
            }
            match self.pin_and_finish(attempt, pinned, start, &narrowed, at + 1) {
                Settled::NoOffering => {}
                Settled::Refused => refused = true,
                settled => return settled,
            }
        }
        if refused { Settled::Refused } else { Settled::NoOffering }
    }

    /// Which of a pool's minValues no value that the topology of a pod allows would leave, with what it leaves at best and what it must;
    /// `None` where some value would do, or none is allowed.
    pub(crate) fn min_values_if_pinned(
        &mut self,
        class: ClassIdx,
        rung: usize,
        pool: PoolIdx,
        met: ReqId,
        set: &[u64],
    ) -> Option<(KeyId, u32, u32)> {
        let want = self.want(class, rung);
        let query = self.query(&want);
        let catalogue = self.snapshot.pools[pool.at()].catalogue;
        for WantKey { key, .. } in &want.keys {
            let mut values = Vec::new();
            values_of(self.snapshot, &self.algebra, catalogue, set, met, *key, &mut values);
            values.retain(|value| self.value_ok(&want, &query, *key, *value));
            let mut missed: Option<(KeyId, u32, u32)> = None;
            let mut some_do = values.is_empty();
            for value in values {
                let pinned = self.algebra.pin(met, *key, value);
                let mut narrowed = set.to_vec();
                let allowed = self.offers.of(self.snapshot, &self.algebra, catalogue, pinned);
                offer_set::and_into(&mut narrowed, &allowed);
                let short = self.templates[pool.at()].min_values.iter().find_map(|wanted| {
                    let (have, need) = self.distinct_values(pool, pinned, &narrowed, *wanted);
                    (have < need).then_some((*wanted, have, need))
                });
                match short {
                    None => some_do = true,
                    Some(short) if missed.is_none_or(|(_, have, _)| short.1 > have) => missed = Some(short),
                    Some(_) => {}
                }
            }
            if !some_do && missed.is_some() {
                return missed;
            }
        }
        None
    }

    /// The last questions: volume limits of types, minValues, reservations.
    pub(super) fn finish(&mut self, attempt: &Attempt, met: ReqId, set: &[u64]) -> Settled {
        let class = &self.snapshot.classes[attempt.want.class.at()];
        let template = &self.templates[attempt.pool.at()];
        let row = attempt.machine.map(|m| &self.machines[m.at()]);
        let mut set = std::borrow::Cow::Borrowed(set);
        if template.has_volume_limits && !class.volumes.is_empty() {
            self.remove_volume_overload(attempt, set.to_mut());
            if offer_set::is_empty(&set) {
                return Settled::Refused;
            }
        }
        let mut met = met;
        let mut min_values_relaxed = row.is_some_and(|row| row.min_values_relaxed);
        for key in template.min_values.clone() {
            let (have, need) = self.distinct_values(attempt.pool, met, &set, key);
            if have < need {
                let may_lower = (attempt.machine.is_none() || self.sharing.is_some())
                    && self.options.min_values == MinValuesPolicy::BestEffort;
                if !may_lower {
                    return Settled::Refused;
                }
                met = self.algebra.with_min_values(met, key, have);
                min_values_relaxed = true;
            }
        }
        let Some(reservations) = self.reservations_for(attempt, &set) else { return Settled::Reserved };
        if self.options.reserved == ReservedMode::Fallback
            && self.templates[attempt.pool.at()].has_reserved
            && self.drop_unheld(attempt.pool, &reservations, set.to_mut())
        {
            return Settled::Refused;
        }
        if attempt.limits
            && self.sharing.is_some()
            && !self.snapshot.pools[attempt.pool.at()].limits.is_empty()
            && !self.can_share(attempt.pool, attempt.machine, met, (&set, &reservations))
        {
            return Settled::NoOffering;
        }
        let row = attempt.machine.map(|m| &self.machines[m.at()]);
        let offers = match row {
            Some(row) if *row.offers == *set => row.offers.clone(),
            _ => set.as_ref().into(),
        };
        Settled::Accepts(Growth { requirements: met, offers, reservations, min_values_relaxed })
    }

    pub(super) fn remove_volume_overload(&self, attempt: &Attempt, set: &mut [u64]) {
        let class = &self.snapshot.classes[attempt.want.class.at()];
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[attempt.pool.at()].catalogue.at()];
        let mut volumes: Vec<(VolumeIdx, &str)> = match attempt.machine {
            Some(machine) => self.machines[machine.at()].volumes.iter().map(|(v, d)| (*v, &**d)).collect(),
            None => Vec::new(),
        };
        for volume in &class.volumes {
            if !volumes.iter().any(|(have, _)| *have == volume.volume) {
                volumes.push((volume.volume, &volume.driver));
            }
        }
        let members: Vec<usize> = offer_set::iter(set).collect();
        for at in members {
            let limits = &catalogue.types[catalogue.offerings[at].instance_type.at()].volume_limits;
            let over = limits.iter().any(|(driver, limit)| {
                volumes.iter().filter(|(_, d)| *d == &**driver).count() > *limit as usize
            });
            if over {
                set[at / 64] &= !(1 << (at % 64));
            }
        }
    }

    /// How many values of a key a set of offerings can give within the machine's requirement, and how many it must.
    pub(crate) fn distinct_values(&self, pool: PoolIdx, met: ReqId, set: &[u64], key: KeyId) -> (u32, u32) {
        let Some(rq) = self.algebra.get(met, key) else { return (0, 0) };
        let requirement = self.algebra.requirement(rq);
        let need = requirement.min_values.unwrap_or(0);
        let catalogue = self.snapshot.pools[pool.at()].catalogue;
        let names = self.algebra.names();
        let mut seen = vec![false; names.value_count(key)];
        let mut last = None;
        for at in offer_set::iter(set) {
            let own =
                offering_requirement(self.snapshot, &self.algebra, catalogue, OfferingIdx::new(at), key);
            if own == last {
                continue;
            }
            last = own;
            let Some(own) = own.map(|own| self.algebra.requirement(own)).filter(|own| !own.complement) else {
                continue;
            };
            for value in &own.values {
                if requirement.allows(names, key, *value) {
                    seen[value.at()] = true;
                }
            }
        }
        (seen.iter().filter(|s| **s).count() as u32, need)
    }

    /// Takes out offerings of reservations that could not be held; true if nothing is left.
    pub(super) fn drop_unheld(&self, pool: PoolIdx, held: &[ReservationIdx], set: &mut [u64]) -> bool {
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[pool.at()].catalogue.at()];
        let members: Vec<usize> = offer_set::iter(set).collect();
        for at in members {
            let reservation = catalogue.offerings[at].reservation;
            if reservation
                .is_some_and(|r| !self.snapshot.reservations[r.at()].commitment && !held.contains(&r))
            {
                set[at / 64] &= !(1 << (at % 64));
            }
        }
        offer_set::is_empty(set)
    }

    /// Reservations to hold; `None` if the pod must wait for one.
    pub(super) fn reservations_for(
        &self,
        attempt: &Attempt,
        set: &[u64],
    ) -> Option<SmallVec<[ReservationIdx; 1]>> {
        let mut hold: SmallVec<[ReservationIdx; 1]> = SmallVec::new();
        if !self.templates[attempt.pool.at()].has_reserved {
            return Some(hold);
        }
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[attempt.pool.at()].catalogue.at()];
        let held: &[ReservationIdx] = attempt.machine.map_or(&[], |m| &self.machines[m.at()].reservations);
        let mut could = false;
        for at in offer_set::iter(set) {
            if let Some(reservation) = catalogue.offerings[at].reservation
                && !self.snapshot.reservations[reservation.at()].commitment
            {
                could = true;
                let free = self.reservations[reservation.at()] > 0 || held.contains(&reservation);
                if free && !hold.contains(&reservation) {
                    hold.push(reservation);
                }
            }
        }
        let waits = match attempt.machine {
            None => could && hold.is_empty(),
            Some(_) => hold.is_empty() && (could || !held.is_empty()),
        };
        if waits && self.options.reserved == ReservedMode::Strict {
            return None;
        }
        Some(hold)
    }
}
