//! Domains that a run itself opens.
//!
//! kube-scheduler counts every node that passes a spread's node filter, also one that the pods can't use: a tainted machine bought for one
//! workload is a domain without a pod for another that spreads, and holds it to that. So a new machine does without offerings that would
//! open such a domain as long as others are left; where none is, the whole run is repeated with that domain counted from the beginning.
//!
//! Mostly there is nothing to watch, because pods can reach every value that some machine may have: then all of this costs a look.

use hashbrown::HashMap;

use crate::algebra::{Algebra, MachineValue};
use crate::model::ids::*;
use crate::model::{FixedState, GroupSpec, PodClass, Snapshot, fixed_state};
use crate::offer_set::{self, OfferSet};
use crate::pack::groups::{Groups, World, collect_values, values_of};
use crate::pack::scratch::{Machine, Scratch};
use crate::pack::template::{OfferTable, Template, offering_requirement};

/// Values that count as domains of spreads because earlier passes opened them; sorted.
pub(crate) type Opened = Vec<(GroupIdx, ValueId)>;

/// What machines of a run had better not open.
#[derive(Debug)]
pub(crate) struct Watch {
    /// What counts as domains in this pass.
    pub(crate) opened: Opened,
    spreads: Vec<Watched>,
    masks: HashMap<(PoolIdx, ReqId), Option<OfferSet>, FixedState>,
}

/// A hard spread of pods that wait, and the values beyond its domains that machines can have.
#[derive(Debug)]
struct Watched {
    group: GroupIdx,
    key: KeyId,
    /// Ascending.
    foreign: Vec<ValueId>,
}

impl Watch {
    /// Looks at every hard spread and what pools could launch.
    pub(crate) fn new<'s>(
        snapshot: &'s Snapshot,
        algebra: &mut Algebra<'s>,
        offers: &mut OfferTable,
        templates: &[Template],
        groups: &mut Groups,
    ) -> Self {
        let mut watch =
            Self { opened: Opened::new(), spreads: Vec::new(), masks: HashMap::with_hasher(fixed_state()) };
        let mut everywhere: HashMap<KeyId, Vec<ValueId>, FixedState> = HashMap::with_hasher(fixed_state());
        let mut at_group: HashMap<GroupIdx, usize, FixedState> = HashMap::with_hasher(fixed_state());
        let mut world = World { snapshot, algebra, offers, templates };
        for class in snapshot.classes.iter().filter(|class| !class.filler && class.refused.is_none()) {
            for group in hard_spreads(snapshot, class) {
                let key = snapshot.group(group).key();
                let all = everywhere.entry(key).or_insert_with(|| every_value(&mut world, key));
                if all.is_empty() {
                    continue;
                }
                for rung in &class.rungs {
                    let domains = groups.spread_domains(
                        &mut world,
                        group,
                        rung.strict,
                        class.tolerations,
                        rung.spare_preferred,
                    );
                    for value in all.iter().filter(|value| !domains.contains(value)) {
                        let at = *at_group.entry(group).or_insert_with(|| {
                            watch.spreads.push(Watched { group, key, foreign: Vec::new() });
                            watch.spreads.len() - 1
                        });
                        let foreign = &mut watch.spreads[at].foreign;
                        if let Err(to) = foreign.binary_search(value) {
                            foreign.insert(to, *value);
                        }
                    }
                }
            }
        }
        watch
    }
}

/// Spreads by other keys than the host name that hold whatever a class gives up.
fn hard_spreads<'c>(snapshot: &'c Snapshot, class: &'c PodClass) -> impl Iterator<Item = GroupIdx> + 'c {
    let kept = class.rungs.last().into_iter().flat_map(|rung| &rung.groups).copied();
    kept.filter(|group| {
        let spec = snapshot.group(*group);
        matches!(spec, GroupSpec::Spread { .. }) && Some(spec.key()) != snapshot.hostname
    })
}

/// Every value of a key that a machine of some pool could have: those it lists by itself, and those that a pod brings along where the pool leaves the
/// key open, if only because it would like one of them.
fn every_value(world: &mut World, key: KeyId) -> Vec<ValueId> {
    let mut values = Vec::new();
    let ready = |at: usize| world.snapshot.pools[at].not_ready.is_none();
    let templates: Vec<&Template> = world
        .templates
        .iter()
        .enumerate()
        .filter(|(at, _)| ready(*at))
        .map(|(_, template)| template)
        .collect();
    for template in &templates {
        let met = template.requirements;
        collect_values(world.snapshot, world.algebra, world.offers, template, met, key, &mut values);
    }
    for ask in asks_about(world.snapshot, world.algebra, key) {
        let brings = |algebra: &Algebra, values: &[ValueId]| {
            algebra
                .get(ask, key)
                .is_some_and(|rq| algebra.requirement(rq).values.iter().any(|value| !values.contains(value)))
        };
        for template in &templates {
            if !brings(world.algebra, &values) {
                break;
            }
            if let Some(met) = world.algebra.meet(template.requirements, ask) {
                collect_values(world.snapshot, world.algebra, world.offers, template, met, key, &mut values);
            }
        }
    }
    values
}

/// What pods ask of a key, each once, where they list values.
fn asks_about(snapshot: &Snapshot, algebra: &Algebra, key: KeyId) -> Vec<ReqId> {
    let classes = snapshot.classes.iter().filter(|class| !class.filler && class.refused.is_none());
    let asks = classes.flat_map(|class| class.rungs.iter().map(|rung| rung.ask));
    let lists = |ask: &ReqId| {
        algebra.get(*ask, key).is_some_and(|rq| {
            let requirement = algebra.requirement(rq);
            !requirement.complement && !requirement.values.is_empty()
        })
    };
    let mut asks: Vec<ReqId> = asks.filter(lists).collect();
    asks.sort_unstable();
    asks.dedup();
    asks
}

impl Scratch<'_> {
    /// The offerings with which a machine of these requirements would open a domain for pods that can't go there; `None` if there is none.
    fn opening(&mut self, pool: PoolIdx, met: ReqId) -> Option<OfferSet> {
        if self.watch.spreads.is_empty() {
            return None;
        }
        if let Some(known) = self.watch.masks.get(&(pool, met)) {
            return known.clone();
        }
        let snapshot = self.snapshot;
        let (taints, catalogue) = (snapshot.pools[pool.at()].taints, snapshot.pools[pool.at()].catalogue);
        let template = &self.templates[pool.at()];
        let mut mask = offer_set::empty(template.offered.len());
        for at in 0..self.watch.spreads.len() {
            let group = self.watch.spreads[at].group;
            if !self.groups.looks_at_machine(snapshot, &mut self.algebra, group, met, taints) {
                continue;
            }
            let Watched { key, foreign, .. } = &self.watch.spreads[at];
            let allowed = self.algebra.machine_value(met, *key);
            for offering in offer_set::iter(&template.offered) {
                let own = offering_requirement(
                    snapshot,
                    &self.algebra,
                    catalogue,
                    OfferingIdx::new(offering),
                    *key,
                );
                let given = match (own, allowed) {
                    (Some(own), _) => self.algebra.requirement(own),
                    (None, MachineValue::Defined(own)) => own,
                    (None, MachineValue::Open | MachineValue::Missing) => continue,
                };
                let may_be = |value: &ValueId| match allowed {
                    MachineValue::Defined(own) => own.allows(self.algebra.names(), *key, *value),
                    MachineValue::Open | MachineValue::Missing => true,
                };
                if !given.complement
                    && given.values.iter().any(|v| foreign.binary_search(v).is_ok() && may_be(v))
                {
                    offer_set::insert(&mut mask, offering);
                }
            }
        }
        let mask = (!offer_set::is_empty(&mask)).then(|| OfferSet::from(mask));
        self.watch.masks.insert((pool, met), mask.clone());
        mask
    }

    /// Takes out the offerings with which a machine would open a domain for pods that can't go there.
    pub(crate) fn keep_closed(&mut self, pool: PoolIdx, met: ReqId, set: &mut [u64]) {
        if let Some(mask) = self.opening(pool, met) {
            offer_set::remove_all(set, &mask);
        }
    }

    /// The offerings to try for a new machine, one set after the other: those that open no domain, then all unless it is to open `none`: for a virtual
    /// pod, because real pods go where they would go without buffers, and when all passes are over.
    pub(crate) fn least_opening(
        &mut self,
        pool: PoolIdx,
        met: ReqId,
        set: OfferSet,
        none: bool,
    ) -> [Option<OfferSet>; 2] {
        let Some(mask) = self.opening(pool, met).filter(|mask| offer_set::intersects(mask, &set)) else {
            return [Some(set), None];
        };
        let mut closed = set.to_vec();
        offer_set::remove_all(&mut closed, &mask);
        let closed = (!offer_set::is_empty(&closed)).then(|| OfferSet::from(closed));
        [closed, (!none).then_some(set)]
    }

    /// If machines of this run open domains for pods that can't go there, and these do not count yet: every value that a machine may have, for every
    /// spread whose node filter it passes.
    pub(crate) fn newly_opened(&mut self) -> Opened {
        let any = (0..self.watch.spreads.len()).any(|at| {
            let Watched { group, key, .. } = self.watch.spreads[at];
            let values = self.values_opened(group, key);
            let foreign = &self.watch.spreads[at].foreign;
            values.iter().any(|value| foreign.binary_search(value).is_ok())
        });
        let mut opened = Opened::new();
        if any {
            for group in self.groups.spreads_in_use(self.snapshot) {
                let values = self.values_opened(group, self.snapshot.group(group).key());
                opened.extend(values.into_iter().map(|value| (group, value)));
            }
        }
        opened
    }

    /// The values of a key that machines of this run may have, as far as they pass a spread's node filter.
    fn values_opened(&mut self, group: GroupIdx, key: KeyId) -> Vec<ValueId> {
        let snapshot = self.snapshot;
        let mut values = Vec::new();
        for at in 0..self.machines.len() {
            let Machine { pool, requirements, .. } = self.machines[at];
            let row = &snapshot.pools[pool.at()];
            if self.groups.looks_at_machine(snapshot, &mut self.algebra, group, requirements, row.taints) {
                // What was trimmed may come back.
                let Machine { offers, wide, .. } = &self.machines[at];
                let offers = wide.as_ref().unwrap_or(offers);
                values_of(snapshot, &self.algebra, row.catalogue, offers, requirements, key, &mut values);
            }
        }
        values
    }
}
