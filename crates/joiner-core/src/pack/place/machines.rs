//! Machines opened earlier in the run: of those that accept the pod, the one that comes first.

use smallvec::SmallVec;

use super::{Attempt, HostVerdict, Query, Settled, Verdict, Want, alternatives};
use crate::filter;
use crate::model::ids::*;
use crate::model::resources::sum;
use crate::offer_set;
use crate::pack::finder::{Entry, Finder, Heaps, MISSING, OPEN, Signature};
use crate::pack::scratch::Growth;
use crate::pack::scratch::Scratch;

impl Scratch<'_> {
    pub(super) fn find_machine(&mut self, want: &Want, query: &Query) -> Option<(MachineIdx, Growth)> {
        if self.machines.is_empty() {
            return None;
        }
        let mut finder = self.finders.take(want.finder);
        self.see_new_machines(want, &mut finder);
        let mut later: SmallVec<[Entry; 8]> = SmallVec::new();
        let mut found = None;
        let mut acceptable: SmallVec<[bool; 8]> = SmallVec::new();
        loop {
            self.correct_tops(want, &mut finder);
            for at in acceptable.len()..finder.machines.subs.len() {
                let ok = self.machine_signature_ok(want, query, &finder.machines.subs[at].0);
                acceptable.push(ok);
            }
            let Some(sub) = finder.machines.best(&acceptable) else { break };
            let Some(entry) = finder.machines.subs[sub].1.pop() else { break };
            self.work += 1;
            let machine = MachineIdx(entry.place);
            match self.machine_verdict(want, query, machine) {
                Verdict::Never => {}
                Verdict::NotNow => later.push(entry),
                Verdict::Accepts(growth) => {
                    later.push(entry);
                    found = Some((machine, growth));
                    break;
                }
            }
        }
        for entry in later {
            let signature = self.machine_signature(want, MachineIdx(entry.place));
            finder.machines.push(&signature, entry);
        }
        self.finders.give_back(want.finder, finder);
        found
    }

    pub(super) fn see_new_machines(&mut self, want: &Want, finder: &mut Finder) {
        /// Fewer machines are listed one by one.
        const MASTER_FROM: usize = 64;
        if finder.seen == 0 && self.machines.len() >= MASTER_FROM {
            self.start_from_master(want, finder);
        }
        for at in finder.seen..self.machines.len() {
            let machine = MachineIdx::new(at);
            if matches!(self.host_verdict(want, self.machine_host(machine)), HostVerdict::Never) {
                continue;
            }
            let signature = self.machine_signature(want, machine);
            finder.machines.push(&signature, Entry { order: self.machines[at].order, place: at as u32 });
        }
        finder.seen = self.machines.len();
    }

    /// Copies the list of all machines, which is made anew only after enough has changed: its entries may be a little out of
    /// date, like any other.
    pub(super) fn start_from_master(&mut self, want: &Want, finder: &mut Finder) {
        const CHANGES_PER_MACHINE: u64 = 32;
        let keys: Vec<KeyId> = want.keys.iter().map(|k| k.key).collect();
        let mut master = std::mem::take(self.finders.master(&keys));
        let changes = self.version - master.version;
        if master.machines == 0 || changes > self.machines.len() as u64 / CHANGES_PER_MACHINE {
            master.heaps = Heaps::default();
            for at in 0..self.machines.len() {
                let signature = self.machine_signature(want, MachineIdx::new(at));
                master.heaps.push(&signature, Entry { order: self.machines[at].order, place: at as u32 });
            }
            (master.machines, master.version) = (self.machines.len(), self.version);
        }
        finder.machines = master.heaps.clone();
        finder.seen = master.machines;
        *self.finders.master(&keys) = master;
    }

    pub(super) fn machine_signature(&self, want: &Want, machine: MachineIdx) -> Signature {
        let requirements = self.machines[machine.at()].requirements;
        want.keys
            .iter()
            .map(|k| match self.algebra.get(requirements, k.key) {
                Some(rq) => rq.0,
                None if self.algebra.vocabulary.is_well_known(k.key) => OPEN,
                None => MISSING,
            })
            .collect()
    }

    /// Entries of machines that grew or narrowed since are put where they belong, as far as they are on top.
    pub(super) fn correct_tops(&mut self, want: &Want, finder: &mut Finder) {
        let mut sub = 0;
        while sub < finder.machines.subs.len() {
            while let Some(top) = finder.machines.subs[sub].1.peek().copied() {
                let order = self.machines[top.place as usize].order;
                if order == top.order {
                    break;
                }
                finder.machines.subs[sub].1.pop();
                let signature = self.machine_signature(want, MachineIdx(top.place));
                finder.machines.push(&signature, Entry { order, place: top.place });
            }
            sub += 1;
        }
    }

    pub(super) fn machine_signature_ok(&self, want: &Want, query: &Query, signature: &Signature) -> bool {
        want.keys.iter().zip(signature).all(|(key, told)| match *told {
            MISSING => !key.must_exist,
            // Whether a value can be named is for the verdict to say.
            OPEN if !key.always_named => true,
            OPEN => key.values.iter().any(|v| self.value_ok(want, query, key.key, *v)),
            rq => {
                let requirement = self.algebra.requirement(RqId(rq));
                if !requirement.complement {
                    return requirement.may_be_absent
                        || requirement.values.iter().any(|v| self.value_ok(want, query, key.key, *v));
                }
                !key.always_named
                    || key.values.iter().any(|v| {
                        requirement.allows(self.algebra.names(), key.key, *v)
                            && self.value_ok(want, query, key.key, *v)
                    })
            }
        })
    }

    pub(super) fn machine_verdict(&mut self, want: &Want, query: &Query, machine: MachineIdx) -> Verdict {
        let snapshot = self.snapshot;
        let class = &snapshot.classes[want.class.at()];
        let rung = &class.rungs[want.rung];
        let row = &self.machines[machine.at()];
        let pool = row.pool;
        if !self.algebra.tolerates(snapshot.pools[pool.at()].taints, class.tolerations, rung.spare_preferred)
            || !filter::ports_free(&class.ports, row.ports.iter())
        {
            return Verdict::Never;
        }
        let not_now = match self.host_verdict(want, self.machine_host(machine)) {
            HostVerdict::Never => return Verdict::Never,
            HostVerdict::NotNow => true,
            HostVerdict::Ok => false,
        };
        let row = &self.machines[machine.at()];
        let template = &self.templates[pool.at()];
        let total = sum(&row.requests, &class.requests);
        let mut set: Vec<u64> = row.offers.to_vec();
        template.keep_fitting(&mut set, &total);
        if !class.ports.is_empty() {
            template.remove_port_clashes(&mut set, &class.ports);
        }
        if offer_set::is_empty(&set) {
            return Verdict::Never;
        }
        let before = row.requirements;
        let Some(met) = self.algebra.meet(before, rung.ask) else { return Verdict::Never };
        if not_now {
            return Verdict::NotNow;
        }
        let attempt = Attempt { want, query, pool, machine: Some(machine), limits: true };
        let mut possible = false;
        for alternative in alternatives(class) {
            let Some(met) = alternative.map_or(Some(met), |a| self.algebra.meet(met, a)) else { continue };
            let mut set = set.clone();
            if met != before {
                let allowed =
                    self.offers.of(snapshot, &self.algebra, snapshot.pools[pool.at()].catalogue, met);
                offer_set::and_into(&mut set, &allowed);
            }
            if offer_set::is_empty(&set) {
                continue;
            }
            possible = true;
            match self.pin_and_finish(&attempt, met, &set, &set, 0) {
                Settled::Accepts(growth) => return Verdict::Accepts(growth),
                Settled::Reserved => return Verdict::NotNow,
                Settled::NoOffering | Settled::Refused => {}
            }
        }
        if possible { Verdict::NotNow } else { Verdict::Never }
    }
}
