//! Pass after pass, as the loop of the original goes on: when limits refuse pods, machines are bought, and what they have not become is there for others.
//!
//! Within a pass a machine counts with the largest type it can become. Launched, it counts with what it was bought as; then the loop plans again for the pods that
//! are left. Here both happen in one plan, so its machines must not become more than they were counted as: they are *trimmed*. What turns out not
//! to be needed they take back at the end.

use std::rc::Rc;

use hashbrown::HashMap;

use crate::model::ids::*;
use crate::model::{FixedState, fixed_state};
use crate::offer_set::{self, OfferSet};
use crate::pack::caps::{self, Caps};
use crate::pack::scratch::Scratch;

impl Scratch<'_> {
    /// Trims every machine of a pool with limits to what it is bought as. Says whether that leaves more to others.
    pub(crate) fn buy(&mut self) -> bool {
        let mut known: HashMap<(PoolIdx, ReqId, Vec<u64>), Rc<Caps>, FixedState> =
            HashMap::with_hasher(fixed_state());
        let units = self.reservations.clone();
        let before = self.limits.clone();
        for at in 0..self.machines.len() {
            let machine = &self.machines[at];
            let pool = machine.pool;
            if !self.limits_resources(pool) {
                continue;
            }
            let set = self.launchable(machine, &machine.offers);
            let caps = known
                .entry((pool, machine.requirements, set))
                .or_insert_with_key(|(_, met, set)| Rc::new(self.bought_caps(pool, *met, set)))
                .clone();
            let kept: OfferSet =
                self.within_caps(pool, &self.launchable(machine, &machine.offers), &caps).into();
            if kept != machine.offers {
                self.trim(MachineIdx::new(at), kept);
            }
        }
        self.refresh_all_holds();
        if self.limits == before && self.reservations == units {
            return false;
        }
        self.version += 1;
        true
    }

    fn trim(&mut self, machine: MachineIdx, kept: OfferSet) {
        let catalogue = &self.snapshot.catalogues
            [self.snapshot.pools[self.machines[machine.at()].pool.at()].catalogue.at()];
        let held = self.machines[machine.at()].reservations.iter().copied();
        let still = |reservation: &ReservationIdx| {
            offer_set::iter(&kept).any(|at| catalogue.offerings[at].reservation == Some(*reservation))
        };
        let held = held.filter(still).collect();
        self.change_machine(machine, |row| {
            let wide = std::mem::replace(&mut row.offers, kept);
            row.wide.get_or_insert(wide);
            row.holds_stale = true;
        });
        self.hold_reservations(machine, held);
    }

    fn refresh_all_holds(&mut self) {
        for at in 0..self.templates.len() {
            if !self.snapshot.pools[at].limits.is_empty() {
                self.refresh_holds(PoolIdx::new(at));
            }
        }
    }

    /// Gives machines what was withheld from them back, in the order of their opening, as far as limits leave room for it.
    pub(crate) fn give_back(&mut self) {
        if self.machines.iter().all(|machine| machine.wide.is_none()) {
            return;
        }
        self.refresh_all_holds();
        for at in 0..self.machines.len() {
            let machine = self.machines[at].clone();
            let (pool, Some(wide)) = (machine.pool, &machine.wide) else { continue };
            let wide = self.still_holding(&machine, wide);
            let nothing = self.as_caps(pool, &[]);
            let holds = self.as_caps(pool, &machine.holds);
            let most = caps::shift(&holds, &self.left_of_limits(pool), &nothing);
            let mut set = self.within_caps(pool, &wide, &most);
            set.iter_mut().zip(machine.offers.iter()).for_each(|(set, own)| *set |= *own);
            let withheld = self.withheld(pool, &wide, &set);
            let largest = self.largest_capacity(pool, &set);
            let machine = MachineIdx::new(at);
            self.change_machine(machine, |row| (row.offers, row.withheld) = (set.into(), withheld));
            self.set_holds(machine, largest);
        }
    }
}
