//! Serving pods that a limit refused, beside machines that are planned already.
//!
//! The plan is divided over machines, and some pods are left that limits kept out. Each limit is now shared out exactly: a machine may become any type that
//! holds its pods, and counts as little as it must. A pod is refused only if no choice of types for all machines of the pool, its own included, stays within the
//! limits. Only when all pods are through does every machine get what is left of the limit back in types to choose from.

use std::rc::Rc;

use hashbrown::HashMap;

use crate::decide::MinValuesPolicy;
use crate::model::ids::*;
use crate::model::{FixedState, ResVec, fixed_state};
use crate::offer_set;
use crate::pack::caps::{self, Caps, Menu};
use crate::pack::cheapest::interchangeable;
use crate::pack::prepared::Prepared;
use crate::pack::scratch::{Growth, Machine, Scratch};
use crate::pack::upstream::{self, Outcome};

/// Steps that choosing types may take for all pods together.
const STEPS: u64 = 20_000_000;
/// Steps of one attempt, by the words of its set of offerings.
const STEPS_PER_WORD: u64 = 8;

/// What machines of a pool with these requirements and offerings can be counted as.
type Menus = HashMap<(PoolIdx, ReqId, Vec<u64>), Rc<Menu>, FixedState>;

/// How limits are shared while pods are served beside what is planned.
#[derive(Debug)]
pub(crate) struct Sharing {
    steps: u64,
    known: Menus,
    /// Per machine, once it was asked for.
    menus: Vec<Option<Rc<Menu>>>,
    /// Per pool, at a version: by how much its machines could count for less.
    slack: Vec<Option<(u64, Caps)>>,
    /// What was found for the attempt that was accepted last.
    found: Option<Share>,
}

/// What a machine would count as, and which others would have to count as something else.
#[derive(Debug)]
struct Share {
    own: Caps,
    others: Vec<(MachineIdx, Caps)>,
}

/// Tries to place the pods that are left within limits shared out exactly. Says whether it placed one.
pub(crate) fn serve(
    scratch: &mut Scratch,
    prepared: &Prepared,
    outcome: &mut Outcome,
    order: &[PodIdx],
) -> bool {
    scratch.renew(prepared);
    let before = scratch.machines.clone();
    scratch.begin_sharing();
    let mut any = false;
    for order in [order, &upstream::fill_order(scratch.snapshot)] {
        any |= upstream::run_again(scratch, outcome, order);
    }
    if any {
        scratch.end_sharing();
    } else {
        scratch.machines = before;
        scratch.sharing = None;
    }
    any
}

impl Scratch<'_> {
    /// Puts everything where its machines and nodes are: those that were divided anew have left the counts behind.
    fn renew(&mut self, prepared: &Prepared) {
        let loads = std::mem::take(&mut self.on_node);
        let machines = std::mem::take(&mut self.machines);
        self.reset(prepared);
        for (at, load) in loads.iter().enumerate() {
            for pod in &load.pods {
                self.put_on_node(*pod, NodeIdx::new(at));
            }
        }
        for (at, machine) in machines.into_iter().enumerate() {
            let order = (machine.pods.len() as u32, at as i64);
            self.stand(Machine { order, ..machine });
        }
    }

    /// Lets every machine of a pool with limits become what it can, counted as what it is now.
    fn begin_sharing(&mut self) {
        for at in 0..self.machines.len() {
            let machine = self.machines[at].clone();
            let pool = machine.pool;
            if self.snapshot.pools[pool.at()].limits.is_empty() {
                continue;
            }
            let caps = self.planned_caps(&machine);
            let wide = self.could_be(&machine);
            let row = &mut self.machines[at];
            (row.offers, row.wide, row.holds_stale) = (wide.into(), None, false);
            let holds = self.by_lane(pool, &caps);
            self.take_from_limits(pool, &holds, true);
            self.machines[at].holds = holds;
        }
        let mut sharing = Sharing {
            steps: STEPS,
            known: HashMap::with_hasher(fixed_state()),
            menus: vec![None; self.machines.len()],
            slack: vec![None; self.templates.len()],
            found: None,
        };
        self.drop_hopeless(&mut sharing);
        self.sharing = Some(sharing);
        self.version += 1;
    }

    /// Takes from machines what they could not become even if all others counted as little as they can: most pods are then refused by their room.
    fn drop_hopeless(&mut self, sharing: &mut Sharing) {
        for at in 0..self.machines.len() {
            let pool = self.machines[at].pool;
            if !self.limits_resources(pool) {
                continue;
            }
            let own = self.menu_of(sharing, MachineIdx::new(at)).floor.clone();
            let nothing = self.as_caps(pool, &[]);
            let others = caps::shift(&self.slack(sharing, pool), &self.left_of_limits(pool), &nothing);
            let set =
                self.within_caps(pool, &self.machines[at].offers, &caps::shift(&others, &own, &nothing));
            // What it counts as now is among it.
            self.machines[at].offers = set.into();
        }
    }

    /// Every offering that holds a machine; of those that draw from something finite only what it draws from now.
    fn could_be(&mut self, machine: &Machine) -> Vec<u64> {
        let base = self.templates[machine.pool.at()].base.clone();
        let mut set = self.still_holding(machine, &base);
        let offerings =
            &self.snapshot.catalogues[self.snapshot.pools[machine.pool.at()].catalogue.at()].offerings;
        let drawn: Vec<ReservationIdx> =
            offer_set::iter(&machine.offers).filter_map(|at| offerings[at].reservation).collect();
        for at in offer_set::iter(&set.clone()) {
            if offerings[at].reservation.is_some_and(|r| !drawn.contains(&r)) {
                set[at / 64] &= !(1 << (at % 64));
            }
        }
        // What it is now it may stay, but not open a domain that it does not open yet.
        self.keep_closed(machine.pool, machine.requirements, &mut set);
        set.iter_mut().zip(machine.offers.iter()).for_each(|(set, own)| *set |= *own);
        set
    }

    /// Whether there is a choice of types within the limits with this machine as it would be.
    pub(super) fn can_share(
        &mut self,
        pool: PoolIdx,
        machine: Option<MachineIdx>,
        met: ReqId,
        growth: (&[u64], &[ReservationIdx]),
    ) -> bool {
        let Some(mut sharing) = self.sharing.take() else { return true };
        let (set, reservations) = growth;
        let offerings = &self.snapshot.catalogues[self.snapshot.pools[pool.at()].catalogue.at()].offerings;
        let mut launchable = set.to_vec();
        if !reservations.is_empty() {
            for at in offer_set::iter(set) {
                if !offerings[at].reservation.is_some_and(|r| reservations.contains(&r)) {
                    launchable[at / 64] &= !(1 << (at % 64));
                }
            }
        }
        let steps = STEPS_PER_WORD * launchable.len() as u64;
        sharing.found = match sharing.steps.checked_sub(steps) {
            Some(left) => {
                sharing.steps = left;
                self.share(&mut sharing, pool, machine, met, &launchable)
            }
            None => None,
        };
        let found = sharing.found.is_some();
        self.sharing = Some(sharing);
        found
    }

    fn share(
        &mut self,
        sharing: &mut Sharing,
        pool: PoolIdx,
        machine: Option<MachineIdx>,
        met: ReqId,
        set: &[u64],
    ) -> Option<Share> {
        let nothing = self.as_caps(pool, &[]);
        let held =
            machine.map_or_else(|| nothing.clone(), |m| self.as_caps(pool, &self.machines[m.at()].holds));
        let left = caps::shift(&self.left_of_limits(pool), &held, &nothing);
        let bought = self.bought_caps(pool, met, set);
        if caps::within(&bought, &left) {
            return Some(Share { own: bought, others: Vec::new() });
        }
        // What others could count for less, at most.
        let mut slack = self.slack(sharing, pool);
        if let Some(machine) = machine {
            let own = self.menu_of(sharing, machine).floor.clone();
            slack = caps::shift(&slack, &own, &held);
        }
        let most = caps::shift(&left, &slack, &nothing);
        if !caps::within(&self.least_possible(pool, set), &most) {
            return None;
        }
        let menu = self.known_menu(sharing, pool, met, set.to_vec());
        if let Some(own) = menu.least.iter().find(|own| caps::within(own, &left)) {
            return Some(Share { own: own.clone(), others: Vec::new() });
        }
        if !menu.least.iter().any(|own| caps::within(own, &most)) {
            return None;
        }
        let others: Vec<MachineIdx> = (0..self.machines.len())
            .map(MachineIdx::new)
            .filter(|m| self.machines[m.at()].pool == pool && Some(*m) != machine)
            .collect();
        let menus: Vec<Rc<Menu>> = others.iter().map(|m| self.menu_of(sharing, *m)).collect();
        let holds: Vec<Caps> =
            others.iter().map(|m| self.as_caps(pool, &self.machines[m.at()].holds)).collect();
        let total = holds.iter().fold(left, |total, holds| caps::shift(&total, holds, &nothing));
        let lists: Vec<&[Caps]> = menus.iter().chain([&menu]).map(|menu| &menu.least[..]).collect();
        let choices = caps::choose(&lists, &total, &mut sharing.steps)?;
        let chosen: Vec<Caps> =
            lists.iter().zip(choices).map(|(list, choice)| list[choice].clone()).collect();
        let (own, chosen) = chosen.split_last()?;
        // Whoever can become its cheapest type after all does.
        let mut spare =
            chosen.iter().chain([own]).fold(total, |spare, caps| caps::shift(&spare, &nothing, caps));
        let mut widen = |chosen: &Caps, menu: &Menu| {
            let after = caps::shift(&spare, chosen, &menu.bought);
            if !caps::within(&nothing, &after) {
                return chosen.clone();
            }
            spare = after;
            menu.bought.clone()
        };
        let chosen: Vec<Caps> = chosen.iter().zip(&menus).map(|(caps, menu)| widen(caps, menu)).collect();
        let own = widen(own, &menu);
        let changed = others.into_iter().zip(chosen).zip(holds);
        let others = changed.filter(|((_, caps), holds)| caps != holds).map(|(pair, _)| pair).collect();
        Some(Share { own, others })
    }

    /// The least of each limited resource over a set: no machine of these counts as less.
    fn least_possible(&self, pool: PoolIdx, set: &[u64]) -> Caps {
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[pool.at()].catalogue.at()];
        let rows = offer_set::iter(set).map(|at| {
            self.as_caps(pool, &catalogue.types[catalogue.offerings[at].instance_type.at()].capacity)
        });
        rows.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| *a.min(b)).collect()).unwrap_or_default()
    }

    fn known_menu(&self, sharing: &mut Sharing, pool: PoolIdx, met: ReqId, set: Vec<u64>) -> Rc<Menu> {
        let menu = sharing.known.entry((pool, met, set));
        menu.or_insert_with_key(|(_, _, set)| self.menu(pool, met, set)).clone()
    }

    fn menu_of(&self, sharing: &mut Sharing, machine: MachineIdx) -> Rc<Menu> {
        if let Some(Some(known)) = sharing.menus.get(machine.at()) {
            return known.clone();
        }
        let row = &self.machines[machine.at()];
        let set = self.launchable(row, &row.offers);
        let menu = self.known_menu(sharing, row.pool, row.requirements, set);
        if sharing.menus.len() <= machine.at() {
            sharing.menus.resize(machine.at() + 1, None);
        }
        sharing.menus[machine.at()] = Some(menu.clone());
        menu
    }

    fn slack(&self, sharing: &mut Sharing, pool: PoolIdx) -> Caps {
        if let Some((version, slack)) = &sharing.slack[pool.at()]
            && *version == self.version
        {
            return slack.clone();
        }
        let mut slack = self.as_caps(pool, &[]);
        for at in (0..self.machines.len()).filter(|at| self.machines[*at].pool == pool) {
            let holds = self.as_caps(pool, &self.machines[at].holds);
            slack = caps::shift(&slack, &holds, &self.menu_of(sharing, MachineIdx::new(at)).floor);
        }
        sharing.slack[pool.at()] = Some((self.version, slack.clone()));
        slack
    }

    /// Makes other machines of a pool count as what was found, and says what a machine that was just accepted counts as.
    pub(super) fn claim_share(&mut self, pool: PoolIdx, growth: &Growth) -> ResVec {
        let found = self.sharing.as_mut().and_then(|sharing| sharing.found.take());
        let Some(Share { own, others }) = found else { return self.largest_capacity(pool, &growth.offers) };
        for (machine, caps) in others {
            self.count_as(machine, &caps);
        }
        self.by_lane(pool, &own)
    }

    /// Lets a machine hold something else of its pool's limits.
    fn count_as(&mut self, machine: MachineIdx, caps: &[i64]) {
        let pool = self.machines[machine.at()].pool;
        self.set_holds(machine, self.by_lane(pool, caps));
    }

    /// A machine is another one than its menu says.
    pub(super) fn forget_menu(&mut self, machine: MachineIdx) {
        if let Some(menu) = self.sharing.as_mut().and_then(|sharing| sharing.menus.get_mut(machine.at())) {
            *menu = None;
        }
    }

    /// Trims machines to what they were counted as, and hands out what is left.
    fn end_sharing(&mut self) {
        self.sharing = None;
        for at in 0..self.machines.len() {
            let mut machine = self.machines[at].clone();
            let pool = machine.pool;
            if self.snapshot.pools[pool.at()].limits.is_empty() {
                continue;
            }
            let nothing = self.as_caps(pool, &[]);
            let holds = self.as_caps(pool, &machine.holds);
            let most = caps::shift(&holds, &self.left_of_limits(pool), &nothing);
            let wide = self.launchable(&machine, &machine.offers);
            let kept = interchangeable(self, &machine, &self.within_caps(pool, &wide, &most));
            machine.withheld = self.withheld(pool, &interchangeable(self, &machine, &wide), &kept);
            if self.options.min_values == MinValuesPolicy::BestEffort {
                self.lower_min_values(&mut machine, &kept);
            }
            machine.offers = kept.into();
            let largest = self.largest_capacity(pool, &machine.offers);
            self.change_machine(MachineIdx::new(at), |row| *row = machine);
            self.set_holds(MachineIdx::new(at), largest);
        }
        self.version += 1;
    }
}
