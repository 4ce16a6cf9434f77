//! Topology: who is counted where.
//!
//! A group counts the pods its matcher selects per value of its key (per host for the hostname key). Required anti-affinity works both
//! ways, so its groups also count their *owners*: a pod that is selected stays out of the owners' values. All groups are set up
//! from bound pods once per run; after that placing a pod adds to the groups that select it.

use hashbrown::HashMap;

use crate::algebra::{Algebra, MachineValue};
use crate::decide::MinValuesPolicy;
use crate::model::ids::{GroupIdx, IdentityIdx, KeyId, NodeIdx, ReqId, TaintsId, ValueId};
use crate::model::{FixedState, GroupSpec, Matcher, Snapshot, fixed_state, taint};
use crate::pack::suitors::Owners;
use crate::pack::template::{OfferTable, Template, offering_requirement};
use crate::{model, offer_set};

/// A machine as a topology value: existing nodes first, then machines opened in this run.
pub type Host = u32;

/// The counters of one group.
#[derive(Debug, Default)]
pub struct GroupState {
    /// Pods per value.
    pub counts: Vec<u32>,
    /// Pods per host, for the hostname key.
    pub hosts: HashMap<Host, u32, FixedState>,
    /// All pods counted.
    pub total: u32,
    /// Owners (of required anti-affinity) per value.
    pub owners: Vec<u32>,
    /// Owners per host.
    pub owner_hosts: HashMap<Host, u32, FixedState>,
    /// All owners, also those whose machine has no (single) value.
    pub owners_total: u32,
    /// Values of nodes that the group looks at: real ones, and some that the plan opens.
    node_values: Vec<ValueId>,
}

/// Groups that concern pods of one identity.
#[derive(Debug, Default, Clone)]
pub struct Selected {
    /// All groups that count such pods.
    pub counted: Vec<GroupIdx>,
    /// Required anti-affinity groups that select them.
    pub inverse: Vec<GroupIdx>,
    /// Keys (not hostname) of required affinity and anti-affinity that selects them: a future machine is pinned for these.
    pub pin_keys: Vec<KeyId>,
    /// Required affinity and anti-affinity groups of pending pods that select them, hostname left out.
    pub peers: Vec<GroupIdx>,
}

/// Values by group or key, strict ask, tolerations, and whether PreferNoSchedule is spared.
type ValuesMemo<K> = HashMap<(K, ReqId, u32, bool), std::rc::Rc<[ValueId]>, FixedState>;

/// All groups of a run.
#[derive(Debug)]
pub struct Groups {
    states: Vec<GroupState>,
    in_use: Vec<bool>,
    pub(crate) owners: Owners,
    min_values: MinValuesPolicy,
    required_anti: Vec<bool>,
    /// Some bound pod owns it as required anti-affinity.
    owned_by_bound: Vec<bool>,
    /// Required affinity or anti-affinity of a pending pod.
    required_pending: Vec<bool>,
    hostname: Option<KeyId>,
    by_identity: Vec<Option<std::rc::Rc<Selected>>>,
    index: SelectorIndex,
    domains: ValuesMemo<GroupIdx>,
    future_values: ValuesMemo<KeyId>,
    filter_verdicts: HashMap<(GroupIdx, ReqId, TaintsId), bool, FixedState>,
    /// Some spread in use has a node filter that asks about labels.
    pub any_filter_asks: bool,
    /// Keys, hostname left out, that some group in use is about; sorted.
    pub keys: Vec<KeyId>,
}

/// Finds the groups that may select an identity without asking all of them.
#[derive(Debug, Default)]
struct SelectorIndex {
    by_label: HashMap<(KeyId, ValueId), Vec<GroupIdx>, FixedState>,
    others: Vec<GroupIdx>,
}

impl Groups {
    /// Counts bound pods for every group some pending pod or bound anti-affinity names.
    pub fn new(snapshot: &Snapshot, algebra: &mut Algebra, min_values: MinValuesPolicy) -> Self {
        let len = snapshot.groups.len();
        let mut in_use = vec![false; len];
        let mut required_anti = vec![false; len];
        let mut required_pending = vec![false; len];
        let mut owned_by_bound = vec![false; len];
        for class in &snapshot.classes {
            for rung in &class.rungs {
                for group in &rung.groups {
                    in_use[group.at()] = true;
                }
            }
            for group in &class.anti_affinity {
                in_use[group.at()] = true;
                required_anti[group.at()] = true;
                // What a buffer asks for must not change where real pods go.
                required_pending[group.at()] |= !class.filler;
            }
            // On the last rung every preference is given up: what affinity is left is required.
            for group in class.rungs.last().into_iter().flat_map(|rung| &rung.groups) {
                required_pending[group.at()] |=
                    !class.filler && matches!(snapshot.group(*group), GroupSpec::Affinity { .. });
            }
        }
        for (group, _) in snapshot.bound_anti_affinity() {
            in_use[group.at()] = true;
            required_anti[group.at()] = true;
            owned_by_bound[group.at()] = true;
        }
        let mut groups = Self {
            states: (0..len).map(|_| GroupState::default()).collect(),
            index: SelectorIndex::new(snapshot, algebra, &in_use),
            in_use,
            owners: Owners::new(snapshot),
            min_values,
            required_anti,
            owned_by_bound,
            required_pending,
            hostname: snapshot.hostname,
            by_identity: vec![None; snapshot.identities.len()],
            domains: HashMap::with_hasher(fixed_state()),
            future_values: HashMap::with_hasher(fixed_state()),
            filter_verdicts: HashMap::with_hasher(fixed_state()),
            any_filter_asks: false,
            keys: Vec::new(),
        };
        groups.any_filter_asks =
            (0..len).any(|at| groups.in_use[at] && asks_of_nodes(snapshot, GroupIdx::new(at)));
        groups.keys = (0..len)
            .filter(|at| groups.in_use[*at])
            .map(|at| snapshot.group(GroupIdx::new(at)).key())
            .filter(|key| Some(*key) != snapshot.hostname)
            .collect();
        groups.keys.sort_unstable();
        groups.keys.dedup();
        groups.count_bound(snapshot, algebra);
        groups
    }

    /// Counts these values among the domains of their spreads, for every pod.
    pub(crate) fn count_over(&mut self, opened: &[(GroupIdx, ValueId)]) {
        for (group, value) in opened {
            let values = &mut self.states[group.at()].node_values;
            if !values.contains(value) {
                values.push(*value);
            }
        }
    }

    fn count_bound(&mut self, snapshot: &Snapshot, algebra: &mut Algebra) {
        if !self.in_use.contains(&true) {
            return;
        }
        for at in 0..snapshot.identities.len() {
            let identity = IdentityIdx::new(at);
            let bound = snapshot.bound_of(identity);
            if bound.is_empty() {
                continue;
            }
            let selected = self.selected(snapshot, algebra, identity);
            for group in &selected.counted {
                for (node, count) in bound {
                    if self.looks_at_node(snapshot, algebra, *group, *node) {
                        self.add_on_node(snapshot, algebra, *group, *node, *count);
                    }
                }
            }
        }
        for (group, node) in snapshot.bound_anti_affinity() {
            self.add_owner_on_node(snapshot, algebra, group, node);
        }
        // Spread domains of real nodes: by distinct label sets, of which there are few.
        let mut shapes: Vec<(ReqId, TaintsId, NodeIdx)> = Vec::new();
        let mut seen: HashMap<(ReqId, TaintsId), (), FixedState> = HashMap::with_hasher(fixed_state());
        for (at, node) in snapshot.nodes.iter().enumerate() {
            if seen.insert((node.labels, node.taints), ()).is_none() {
                shapes.push((node.labels, node.taints, NodeIdx::new(at)));
            }
        }
        for at in 0..self.states.len() {
            if !self.in_use[at] {
                continue;
            }
            let group = GroupIdx::new(at);
            let key = snapshot.group(group).key();
            if !matches!(snapshot.group(group), GroupSpec::Spread { .. }) || Some(key) == self.hostname {
                continue;
            }
            let mut values: Vec<ValueId> = Vec::new();
            for (labels, _, node) in &shapes {
                if let Some(value) = algebra.single(*labels, key)
                    && !values.contains(&value)
                    && self.looks_at_node(snapshot, algebra, group, *node)
                {
                    values.push(value);
                }
            }
            self.states[at].node_values = values;
        }
    }

    /// Spreads that some pod owns, by other keys than the host name.
    pub(crate) fn spreads_in_use(&self, snapshot: &Snapshot) -> Vec<GroupIdx> {
        let all = (0..self.in_use.len()).filter(|at| self.in_use[*at]).map(GroupIdx::new);
        let is_spread = |group: &GroupIdx| matches!(snapshot.group(*group), GroupSpec::Spread { .. });
        all.filter(|group| is_spread(group) && !self.by_host(snapshot, *group)).collect()
    }

    /// The groups that concern an identity.
    pub fn selected(
        &mut self,
        snapshot: &Snapshot,
        algebra: &Algebra,
        identity: IdentityIdx,
    ) -> std::rc::Rc<Selected> {
        if let Some(known) = &self.by_identity[identity.at()] {
            return known.clone();
        }
        let mut out = Selected::default();
        for group in self.index.candidates(algebra, snapshot, identity) {
            let spec = snapshot.group(group);
            if !matches(snapshot, algebra, spec.matcher(), identity) {
                continue;
            }
            out.counted.push(group);
            if self.required_anti[group.at()] {
                out.inverse.push(group);
            }
            if Some(spec.key()) != self.hostname {
                if self.required_pending[group.at()] {
                    out.peers.push(group);
                }
                if self.required_pending[group.at()] || self.owned_by_bound[group.at()] {
                    out.pin_keys.push(spec.key());
                }
            }
        }
        out.pin_keys.sort_unstable();
        out.pin_keys.dedup();
        let out = std::rc::Rc::new(out);
        self.by_identity[identity.at()] = Some(out.clone());
        out
    }

    /// A group's counters.
    #[inline]
    pub fn state(&self, group: GroupIdx) -> &GroupState {
        &self.states[group.at()]
    }

    /// Whether the group's key is the hostname.
    pub fn by_host(&self, snapshot: &Snapshot, group: GroupIdx) -> bool {
        Some(snapshot.group(group).key()) == self.hostname
    }

    /// Pods of a group at a value.
    #[inline]
    pub fn count(&self, group: GroupIdx, value: ValueId) -> u32 {
        self.states[group.at()].counts.get(value.at()).copied().unwrap_or(0)
    }

    /// Pods of a group on a host.
    #[inline]
    pub fn host_count(&self, group: GroupIdx, host: Host) -> u32 {
        self.states[group.at()].hosts.get(&host).copied().unwrap_or(0)
    }

    /// Owners of a group at a value.
    #[inline]
    pub fn owner_count(&self, group: GroupIdx, value: ValueId) -> u32 {
        self.states[group.at()].owners.get(value.at()).copied().unwrap_or(0)
    }

    /// Owners of a group on a host.
    #[inline]
    pub fn owner_host_count(&self, group: GroupIdx, host: Host) -> u32 {
        self.states[group.at()].owner_hosts.get(&host).copied().unwrap_or(0)
    }

    /// Adds pods (or takes them back) at a value.
    pub fn add(&mut self, group: GroupIdx, value: ValueId, by: i32) {
        let state = &mut self.states[group.at()];
        bump(&mut state.counts, value, by);
        state.total = state.total.saturating_add_signed(by);
    }

    /// Adds pods (or takes them back) on a host.
    pub fn add_host(&mut self, group: GroupIdx, host: Host, by: i32) {
        let state = &mut self.states[group.at()];
        bump_host(&mut state.hosts, host, by);
        state.total = state.total.saturating_add_signed(by);
    }

    /// Adds owners (or takes them back) at a value.
    pub fn add_owner(&mut self, group: GroupIdx, value: ValueId, by: i32) {
        bump(&mut self.states[group.at()].owners, value, by);
    }

    /// Adds owners (or takes them back) on a host.
    pub fn add_owner_host(&mut self, group: GroupIdx, host: Host, by: i32) {
        bump_host(&mut self.states[group.at()].owner_hosts, host, by);
    }

    /// One owner more (or less), wherever it is.
    pub fn add_owner_anywhere(&mut self, group: GroupIdx, by: i32) {
        let state = &mut self.states[group.at()];
        state.owners_total = state.owners_total.saturating_add_signed(by);
    }

    fn add_on_node(
        &mut self,
        snapshot: &Snapshot,
        algebra: &Algebra,
        group: GroupIdx,
        node: NodeIdx,
        count: u32,
    ) {
        if self.by_host(snapshot, group) {
            self.add_host(group, node.0, count as i32);
        } else if let Some(value) =
            algebra.single(snapshot.nodes[node.at()].labels, snapshot.group(group).key())
        {
            self.add(group, value, count as i32);
        }
    }

    fn add_owner_on_node(&mut self, snapshot: &Snapshot, algebra: &Algebra, group: GroupIdx, node: NodeIdx) {
        self.add_owner_anywhere(group, 1);
        if self.by_host(snapshot, group) {
            self.add_owner_host(group, node.0, 1);
        } else if let Some(value) =
            algebra.single(snapshot.nodes[node.at()].labels, snapshot.group(group).key())
        {
            self.add_owner(group, value, 1);
        }
    }

    /// Whether a spread's node filter passes a real node (other groups look at every node).
    pub fn looks_at_node(
        &mut self,
        snapshot: &Snapshot,
        algebra: &mut Algebra,
        group: GroupIdx,
        node: NodeIdx,
    ) -> bool {
        let GroupSpec::Spread { filter, .. } = snapshot.group(group) else { return true };
        if filter.asks.is_none() && filter.tolerations.is_none() {
            return true;
        }
        let node = &snapshot.nodes[node.at()];
        if let Some(known) = self.filter_verdicts.get(&(group, node.labels, node.taints)) {
            return *known;
        }
        let asks_ok = filter
            .asks
            .as_ref()
            .is_none_or(|asks| asks.iter().any(|ask| algebra.node_accepts(node.labels, *ask)));
        let verdict = asks_ok && hard_taints_ok(algebra, filter, node.taints);
        self.filter_verdicts.insert((group, node.labels, node.taints), verdict);
        verdict
    }

    /// The same for a future machine, with its open keys counting as compatible.
    pub fn looks_at_machine(
        &mut self,
        snapshot: &Snapshot,
        algebra: &mut Algebra,
        group: GroupIdx,
        requirements: ReqId,
        taints: TaintsId,
    ) -> bool {
        let GroupSpec::Spread { filter, .. } = snapshot.group(group) else { return true };
        let asks_ok = filter
            .asks
            .as_ref()
            .is_none_or(|asks| asks.iter().any(|ask| algebra.meet(requirements, *ask).is_some()));
        asks_ok && hard_taints_ok(algebra, filter, taints)
    }

    /// The values a spread counts over for pods with these strict needs, sorted by name.
    pub fn spread_domains(
        &mut self,
        world: &mut World,
        group: GroupIdx,
        strict: ReqId,
        tolerations: model::TolerationsId,
        spare_preferred: bool,
    ) -> std::rc::Rc<[ValueId]> {
        let memo = (group, strict, tolerations.0, spare_preferred);
        if let Some(known) = self.domains.get(&memo) {
            return known.clone();
        }
        let key = world.snapshot.group(group).key();
        let mut values = self.states[group.at()].node_values.clone();
        let future = self.future_values(world, key, strict, tolerations, spare_preferred);
        values.extend(future.iter().copied().filter(|v| !self.states[group.at()].node_values.contains(v)));
        let values = sorted_by_name(values, world.algebra.names(), key);
        self.domains.insert(memo, values.clone());
        values
    }

    /// The values of a key that new machines for such a pod could have, sorted by name.
    pub fn future_values(
        &mut self,
        world: &mut World,
        key: KeyId,
        strict: ReqId,
        tolerations: model::TolerationsId,
        spare_preferred: bool,
    ) -> std::rc::Rc<[ValueId]> {
        let memo = (key, strict, tolerations.0, spare_preferred);
        if let Some(known) = self.future_values.get(&memo) {
            return known.clone();
        }
        let mut values = Vec::new();
        for (at, template) in world.templates.iter().enumerate() {
            let pool = &world.snapshot.pools[at];
            if pool.not_ready.is_some() || !world.algebra.tolerates(pool.taints, tolerations, spare_preferred)
            {
                continue;
            }
            // Whose machines must be able to have several values can't be pinned to one.
            let pool_rq = world.algebra.get(template.requirements, key);
            let must_have = pool_rq.and_then(|rq| world.algebra.requirement(rq).min_values);
            if self.min_values == MinValuesPolicy::Strict && must_have.is_some_and(|least| least > 1) {
                continue;
            }
            if let Some(met) = world.algebra.meet(template.requirements, strict) {
                collect_values(world.snapshot, world.algebra, world.offers, template, met, key, &mut values);
            }
        }
        let values = sorted_by_name(values, world.algebra.names(), key);
        self.future_values.insert(memo, values.clone());
        values
    }
}

pub(crate) fn sorted_by_name(
    mut values: Vec<ValueId>,
    names: &model::Names,
    key: KeyId,
) -> std::rc::Rc<[ValueId]> {
    values.sort_unstable_by(|a, b| names.value_text(key, *a).cmp(names.value_text(key, *b)));
    values.dedup();
    values.into()
}

/// What working out domains needs to see.
pub struct World<'a, 's> {
    /// The snapshot.
    pub snapshot: &'s Snapshot,
    /// Requirement sets.
    pub algebra: &'a mut Algebra<'s>,
    /// Offerings by requirement.
    pub offers: &'a mut OfferTable,
    /// One per pool.
    pub templates: &'a [Template],
}

/// Every value of a key that machines of a template narrowed to `met` could have.
pub fn collect_values(
    snapshot: &Snapshot,
    algebra: &Algebra,
    offers: &mut OfferTable,
    template: &Template,
    met: ReqId,
    key: KeyId,
    values: &mut Vec<ValueId>,
) {
    let mut set = offers.of(snapshot, algebra, template.catalogue, met).to_vec();
    offer_set::and_into(&mut set, &template.offered);
    values_of(snapshot, algebra, template.catalogue, &set, met, key, values);
}

/// Every value of a key that a set of offerings can give a machine of these requirements. An offering that does not speak of the key can
/// give what the machine itself lists.
pub fn values_of(
    snapshot: &Snapshot,
    algebra: &Algebra,
    catalogue: model::CatalogueIdx,
    set: &[u64],
    met: ReqId,
    key: KeyId,
    values: &mut Vec<ValueId>,
) {
    let names = algebra.names();
    let allowed = algebra.machine_value(met, key);
    let mut last = None;
    for at in offer_set::iter(set) {
        let rq = offering_requirement(snapshot, algebra, catalogue, model::OfferingIdx::new(at), key);
        if last == Some(rq) {
            continue;
        }
        last = Some(rq);
        let given = match (rq, allowed) {
            (Some(rq), _) => algebra.requirement(rq),
            (None, MachineValue::Defined(own)) => own,
            (None, MachineValue::Open | MachineValue::Missing) => continue,
        };
        if given.complement {
            continue;
        }
        for value in &given.values {
            let ok = match allowed {
                MachineValue::Defined(own) => own.allows(names, key, *value),
                MachineValue::Open | MachineValue::Missing => true,
            };
            if ok && !values.contains(value) {
                values.push(*value);
            }
        }
    }
}

/// Whether a group is a spread whose node filter asks about labels.
pub fn asks_of_nodes(snapshot: &Snapshot, group: GroupIdx) -> bool {
    matches!(snapshot.group(group), GroupSpec::Spread { filter, .. } if filter.asks.is_some())
}

fn hard_taints_ok(algebra: &Algebra, filter: &model::NodeFilter, taints: TaintsId) -> bool {
    filter.tolerations.is_none_or(|tolerations| {
        let (taints, tolerations) =
            (algebra.vocabulary.taints(taints), algebra.vocabulary.tolerations(tolerations));
        taint::untolerated(taints, tolerations, true).is_none()
    })
}

fn bump(counts: &mut Vec<u32>, value: ValueId, by: i32) {
    if counts.len() <= value.at() {
        counts.resize(value.at() + 1, 0);
    }
    counts[value.at()] = counts[value.at()].saturating_add_signed(by);
}

fn bump_host(hosts: &mut HashMap<Host, u32, FixedState>, host: Host, by: i32) {
    let count = hosts.entry(host).or_insert(0);
    *count = count.saturating_add_signed(by);
}

/// Whether a matcher selects pods of an identity.
pub fn matches(snapshot: &Snapshot, algebra: &Algebra, matcher: &Matcher, identity: IdentityIdx) -> bool {
    let identity = snapshot.identities.get(identity.0);
    !matcher.terms.is_empty()
        && matcher.terms.iter().all(|term| {
            term.namespaces.as_ref().is_none_or(|list| list.binary_search(&identity.namespace).is_ok())
                && term
                    .selector
                    .is_some_and(|selector| algebra.labels_refusal(identity.labels, selector).is_none())
        })
}

impl SelectorIndex {
    fn new(snapshot: &Snapshot, algebra: &Algebra, in_use: &[bool]) -> Self {
        let mut index = Self { by_label: HashMap::with_hasher(fixed_state()), others: Vec::new() };
        for at in (0..in_use.len()).filter(|at| in_use[*at]) {
            let group = GroupIdx::new(at);
            // A selector with a concrete value can only select pods that carry one of its values.
            let concrete = snapshot.group(group).matcher().terms.iter().find_map(|term| {
                algebra.items(term.selector?).iter().find_map(|(key, rq)| {
                    let requirement = algebra.requirement(*rq);
                    (!requirement.complement && !requirement.may_be_absent)
                        .then(|| (*key, requirement.values.clone()))
                })
            });
            match concrete {
                Some((key, values)) => {
                    for value in values {
                        index.by_label.entry((key, value)).or_default().push(group);
                    }
                }
                None => index.others.push(group),
            }
        }
        index
    }

    fn candidates(&self, algebra: &Algebra, snapshot: &Snapshot, identity: IdentityIdx) -> Vec<GroupIdx> {
        let mut out = self.others.clone();
        for (key, rq) in algebra.items(snapshot.identities.get(identity.0).labels) {
            if let Some(value) = algebra.requirement(*rq).single()
                && let Some(groups) = self.by_label.get(&(*key, value))
            {
                out.extend_from_slice(groups);
            }
        }
        out.sort_unstable();
        out.dedup();
        out
    }
}
