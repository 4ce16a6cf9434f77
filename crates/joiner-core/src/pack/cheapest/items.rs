//! The pods of a run's machines one by one, each with what it asks for and the zone it was counted in.

use std::rc::Rc;

use smallvec::SmallVec;

use super::roving::Rule;
use super::task::{Access, Task, Weights, settled_value};
use crate::model::ids::*;
use crate::model::resources::add_into;
use crate::model::{GroupSpec, Port, ResVec};
use crate::pack::place::{HostRule, Want};
use crate::pack::scratch::{Machine, Scratch};
use crate::pack::upstream::Outcome;

/// One set of pods that stays together, before kinds are told apart.
#[derive(Clone)]
pub(super) struct Item {
    pub pods: SmallVec<[PodIdx; 1]>,
    pub access: Access,
    pub requests: ResVec,
    pub counted: Vec<(u32, u32)>,
    pub caps: Vec<(u32, u32)>,
    pub ports: Vec<Port>,
    /// Where it might be as well.
    pub range: Option<Range>,
}

/// The zones one item may choose from.
#[derive(Clone)]
pub(super) struct Range {
    pub class: ClassIdx,
    /// What it asks for whatever the zone.
    pub ask: ReqId,
    pub key: KeyId,
    pub values: Rc<[ValueId]>,
    pub rules: Vec<u32>,
}

impl Task {
    /// The items on a machine of the run; `None` if the machine is to stay as it is.
    pub(super) fn items_of(
        &mut self,
        scratch: &mut Scratch,
        outcome: &Outcome,
        at: usize,
    ) -> Option<Vec<Item>> {
        if !scratch.machines[at].reservations.is_empty() {
            return None;
        }
        let machine = scratch.machines[at].clone();
        let mut items = Vec::with_capacity(machine.pods.len());
        // Per pod the groups by host that it wants company of.
        let mut company: Vec<(usize, GroupIdx)> = Vec::new();
        for pod in &machine.pods {
            let (_, rung) = outcome.placed[pod.at()]?;
            let mut wanted = Vec::new();
            let item = self.item(scratch, &machine, *pod, rung, &mut wanted)?;
            company.extend(wanted.into_iter().map(|group| (items.len(), group)));
            items.push(item);
        }
        Some(if company.is_empty() { items } else { self.together(scratch, items, &company) })
    }

    fn item(
        &mut self,
        scratch: &mut Scratch,
        machine: &Machine,
        pod: PodIdx,
        rung_at: usize,
        company: &mut Vec<GroupIdx>,
    ) -> Option<Item> {
        let snapshot = scratch.snapshot;
        let class_idx = snapshot.pods[pod.at()].class;
        let class = &snapshot.classes[class_idx.at()];
        let rung = &class.rungs[rung_at];
        let want = scratch.want(class_idx, rung_at);
        let selected = scratch.groups.selected(snapshot, &scratch.algebra, class.identity);
        let mut keys: SmallVec<[KeyId; 4]> = SmallVec::from_slice(&selected.pin_keys);
        let own = rung.groups.iter().map(|group| snapshot.group(*group).key());
        for key in own.filter(|key| Some(*key) != snapshot.hostname) {
            // Where the machine's value is open, the rule is kept by who shares the machine: they stay together.
            scratch.algebra.single(machine.requirements, key)?;
            keys.push(key);
        }
        for group in selected.counted.iter().filter(|group| self.in_force.binds[group.at()]) {
            let spec = snapshot.group(*group);
            if Some(spec.key()) == snapshot.hostname {
                continue;
            }
            if let GroupSpec::Spread { filter, .. } = spec
                && !rung.groups.contains(group)
                && (filter.asks.is_some() || filter.tolerations.is_some())
                && scratch.algebra.single(machine.requirements, spec.key()).is_some()
            {
                // A stranger that is counted only on some machines of its zone: another machine might not count.
                return None;
            }
            keys.push(spec.key());
        }
        let mut ask = rung.ask;
        let mut settled: SmallVec<[(KeyId, Option<ValueId>); 1]> = SmallVec::new();
        for key in keys {
            if let Some(value) = scratch.algebra.single(machine.requirements, key) {
                ask = scratch.algebra.pin(ask, key, value);
            }
            if !scratch.algebra.vocabulary.is_well_known(key) {
                settled.push((key, settled_value(scratch, machine.pool, key)?));
            }
        }
        settled.sort_unstable();
        settled.dedup();
        let mut asks: SmallVec<[ReqId; 2]> = SmallVec::from_slice(&[ask]);
        if !class.volume_alternatives.is_empty() {
            let reached = class.volume_alternatives.iter().copied();
            let reached = reached
                .into_iter()
                .find(|a| scratch.algebra.meet(machine.requirements, *a) == Some(machine.requirements))?;
            asks.push(reached);
        }
        let mut requests = class.requests.clone();
        if !self.drivers.is_empty() {
            requests.resize(self.resource_lanes + self.drivers.len(), 0);
            for volume in &class.volumes {
                if let Ok(driver) = self.drivers.binary_search(&volume.driver) {
                    requests[self.resource_lanes + driver] += 1;
                }
            }
        }
        let mut caps: Vec<(u32, u32)> = Vec::new();
        for rule in want.host_rules() {
            match rule {
                HostRule::AtMost { group, most } => caps.push((group.0, most)),
                HostRule::Company { group } => company.push(group),
            }
        }
        let range = self.range(scratch, class_idx, rung_at, &want);
        let by_host = selected.counted.iter().filter(|group| scratch.groups.by_host(snapshot, **group));
        let counted = by_host.map(|group| (group.0, 1)).collect();
        Some(Item {
            pods: SmallVec::from_slice(&[pod]),
            access: Access {
                asks,
                tolerations: SmallVec::from_slice(&[(class.tolerations, rung.spare_preferred)]),
                weight: match self.weights {
                    Weights::Kept => Some(snapshot.pools[machine.pool.at()].weight),
                    Weights::Free => None,
                },
                settled,
            },
            requests,
            counted,
            caps,
            ports: class.ports.clone(),
            range,
        })
    }

    /// Where a pod might be as well; `None` if it has to stay in its zone, or has none.
    fn range(
        &mut self,
        scratch: &Scratch,
        class_idx: ClassIdx,
        rung_at: usize,
        want: &Want,
    ) -> Option<Range> {
        let class = &scratch.snapshot.classes[class_idx.at()];
        let (key, values) = want.only_spread_by()?;
        if values.len() < 2 || class.filler || !class.volume_alternatives.is_empty() {
            return None;
        }
        let mut rules = Vec::new();
        for own in want.own_spreads() {
            if self.in_force.strangers[own.group.at()] {
                return None;
            }
            let group = own.group;
            let rule = Rule::new(own, |value| scratch.groups.count(group, value));
            if !rule.holds() {
                return None;
            }
            rules.push(rule);
        }
        let rules = rules.into_iter().map(|rule| match self.rules.iter().position(|known| *known == rule) {
            Some(at) => at as u32,
            None => {
                self.rules.push(rule);
                self.rules.len() as u32 - 1
            }
        });
        let rules = rules.collect();
        Some(Range { class: class_idx, ask: class.rungs[rung_at].ask, key, values, rules })
    }

    /// Joins pods that want each other's company on a host.
    fn together(&self, scratch: &Scratch, items: Vec<Item>, company: &[(usize, GroupIdx)]) -> Vec<Item> {
        let mut root: Vec<usize> = (0..items.len()).collect();
        fn find(root: &mut [usize], mut at: usize) -> usize {
            while root[at] != at {
                root[at] = root[root[at]];
                at = root[at];
            }
            at
        }
        for (owner, group) in company {
            let counts = |item: &Item| item.counted.iter().any(|(counted, _)| *counted == group.0);
            let wanted = items.iter().enumerate().filter(|(_, item)| counts(item)).map(|(at, _)| at);
            // A group that wants its own company is on one host, all of it. For the company of others one of them will do, the same for all.
            let enough = if counts(&items[*owner]) { usize::MAX } else { 1 };
            for other in wanted.take(enough) {
                let (a, b) = (find(&mut root, *owner), find(&mut root, other));
                root[a.max(b)] = a.min(b);
            }
        }
        let mut joined: Vec<Option<Item>> = (0..items.len()).map(|_| None).collect();
        for (at, item) in items.into_iter().enumerate() {
            let at = find(&mut root, at);
            match &mut joined[at] {
                None => joined[at] = Some(item),
                Some(first) => first.join(item),
            }
        }
        debug_assert!(scratch.snapshot.hostname.is_some());
        joined.into_iter().flatten().collect()
    }
}

impl Item {
    fn join(&mut self, other: Item) {
        self.pods.extend(other.pods);
        for ask in other.access.asks {
            if !self.access.asks.contains(&ask) {
                self.access.asks.push(ask);
            }
        }
        for key in other.access.settled {
            if !self.access.settled.contains(&key) {
                self.access.settled.push(key);
            }
        }
        for tolerations in other.access.tolerations {
            if !self.access.tolerations.contains(&tolerations) {
                self.access.tolerations.push(tolerations);
            }
        }
        add_into(&mut self.requests, &other.requests);
        for (group, n) in other.counted {
            match self.counted.iter_mut().find(|(have, _)| *have == group) {
                Some((_, have)) => *have += n,
                None => self.counted.push((group, n)),
            }
        }
        self.caps.extend(other.caps);
        self.ports.extend(other.ports);
        self.range = None;
    }
}
