//! Trying one pod: existing nodes, open machines, a new machine; rung by rung.

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::algebra::MachineValue;
use crate::decide::{MinValuesPolicy, ReservedMode};
use crate::model::ids::*;
use crate::model::resources::{fits, lane_of, sum};
use crate::model::{FixedState, GroupSpec, PodClass, ResVec, Rung, Snapshot, fixed_state};
use crate::offer_set::{self, OfferSet};
use crate::pack::finder::{Entry, Finder, FinderKey, MISSING, OPEN, Signature};
use crate::pack::groups::{Host, Selected, World, sorted_by_name, values_of};
use crate::pack::scratch::{Growth, Scratch, Spot};
use crate::pack::template::{Naming, offering_requirement};

/// What is remembered per class between attempts.
#[derive(Debug)]
pub(crate) struct Wants {
    by_class: Vec<Vec<Option<std::rc::Rc<Want>>>>,
    /// The version of the state at which all rungs of a class failed.
    failed_at: Vec<Option<u64>>,
    fresh: HashMap<(PoolIdx, ReqId, u32), Option<Fresh>, FixedState>,
    /// What machines opened for one kind of pod and pinned hold of their pool's limits.
    pinned: HashMap<(PoolIdx, ReqId, u32), Fresh, FixedState>,
    any_limits_or_reservations: bool,
}

/// The offerings of a machine opened for one kind of pod.
#[derive(Debug, Clone)]
struct Fresh {
    offers: OfferSet,
    largest: ResVec,
}

/// What a class wants on one rung, prepared for asking.
#[derive(Debug)]
pub(crate) struct Want {
    pub(crate) class: ClassIdx,
    pub(crate) rung: usize,
    finder: u32,
    own: Vec<Own>,
    selected: std::rc::Rc<Selected>,
    keys: Vec<WantKey>,
    /// A machine opened for other pods accepts no pod that a machine of its own would not.
    steady: bool,
}

#[derive(Debug)]
struct WantKey {
    key: KeyId,
    /// A place without the key is refused.
    must_exist: bool,
    /// Values new machines could have, by name.
    values: std::rc::Rc<[ValueId]>,
    /// Every offering names its values of the key; otherwise only a look at a machine's offerings tells.
    always_named: bool,
}

#[derive(Debug)]
struct Own {
    group: GroupIdx,
    key: KeyId,
    by_host: bool,
    counts_itself: bool,
    /// For affinity: the groups of the same terms, one per key. Nobody is there only if nobody is in any of them.
    siblings: SmallVec<[GroupIdx; 1]>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Spread { max_skew: i64, min_domains: i64, domains: std::rc::Rc<[ValueId]> },
    Affinity,
    AntiAffinity,
}

/// What holds for one attempt: the minimum of each own spread.
struct Query {
    minima: SmallVec<[i64; 4]>,
}

enum HostVerdict {
    Ok,
    NotNow,
    Never,
}

enum Verdict {
    Accepts(Growth),
    NotNow,
    Never,
}

/// What became of an attempt once requirements and room had been found to match.
enum Settled {
    Accepts(Growth),
    /// No valid value leaves an offering.
    NoOffering,
    /// An offering is left, but minValues or volume limits object.
    Refused,
    /// An offering is left, but the reservations are taken.
    Reserved,
}

/// Why no rung helped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nothing accepts the pod.
    Refused,
    /// It waits for reserved capacity; nothing weaker may be tried.
    Reserved,
}

impl Wants {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        Self {
            by_class: snapshot.classes.iter().map(|class| vec![None; class.rungs.len()]).collect(),
            failed_at: vec![None; snapshot.classes.len()],
            fresh: HashMap::with_hasher(fixed_state()),
            pinned: HashMap::with_hasher(fixed_state()),
            any_limits_or_reservations: !snapshot.reservations.is_empty()
                || snapshot.pools.iter().any(|pool| !pool.limits.is_empty()),
        }
    }

    pub(crate) fn forget_failures(&mut self) {
        self.failed_at.fill(None);
    }
}

impl<'s> Scratch<'s> {
    /// Places a pod on the first place that accepts it, giving up preferences one by one.
    pub fn place(&mut self, pod: PodIdx) -> Result<(Spot, usize), Failure> {
        let class_idx = self.snapshot.pods[pod.at()].class;
        let class = &self.snapshot.classes[class_idx.at()];
        if class.refused.is_some() || self.wants.failed_at[class_idx.at()] == Some(self.version) {
            return Err(Failure::Refused);
        }
        if self.wants.failed_at[class_idx.at()] == Some(u64::MAX) {
            return Err(Failure::Refused);
        }
        let first = if self.give_up_preferences { class.first_without_preferences() } else { 0 };
        for rung in first..class.rungs.len() {
            let want = self.want(class_idx, rung);
            let query = self.query(&want);
            if !self.snapshot.nodes.is_empty()
                && let Some(node) = self.find_node(&want, &query)
            {
                self.put_on_node(pod, node);
                return Ok((Spot::Node(node), rung));
            }
            if let Some((machine, growth)) = self.find_machine(&want, &query) {
                self.grow(pod, machine, growth);
                return Ok((Spot::Machine(machine), rung));
            }
            match self.open_machine(pod, &want, &query) {
                Ok(Some(machine)) => return Ok((Spot::Machine(machine), rung)),
                Ok(None) => {}
                Err(failure) => return Err(failure),
            }
        }
        let lasting = !self.wants.any_limits_or_reservations
            && class.volumes.is_empty()
            && (0..class.rungs.len()).all(|rung| !self.want(class_idx, rung).may_loosen());
        self.wants.failed_at[class_idx.at()] = Some(if lasting { u64::MAX } else { self.version });
        Err(Failure::Refused)
    }

    /// Lets go of what is remembered for a class whose pods are all done.
    pub fn finish_class(&mut self, class: ClassIdx) {
        for want in self.wants.by_class[class.at()].iter_mut().filter_map(Option::take) {
            self.finders.release(want.finder);
        }
    }

    pub(crate) fn want(&mut self, class_idx: ClassIdx, rung_at: usize) -> std::rc::Rc<Want> {
        if let Some(known) = &self.wants.by_class[class_idx.at()][rung_at] {
            return known.clone();
        }
        let want = std::rc::Rc::new(self.prepare(class_idx, rung_at));
        self.wants.by_class[class_idx.at()][rung_at] = Some(want.clone());
        want
    }

    fn prepare(&mut self, class_idx: ClassIdx, rung_at: usize) -> Want {
        let snapshot = self.snapshot;
        let class: &PodClass = &snapshot.classes[class_idx.at()];
        let rung: &Rung = &class.rungs[rung_at];
        let selected = self.groups.selected(snapshot, &self.algebra, class.identity);
        let mut own = Vec::new();
        let mut keys: Vec<(KeyId, bool)> = selected.pin_keys.iter().map(|key| (*key, false)).collect();
        let mut world = World {
            snapshot,
            algebra: &mut self.algebra,
            offers: &mut self.offers,
            templates: self.templates,
        };
        for group in &rung.groups {
            let spec = snapshot.group(*group);
            let (key, by_host) = (spec.key(), Some(spec.key()) == snapshot.hostname);
            let kind = match spec {
                GroupSpec::Spread { max_skew, min_domains, .. } => Kind::Spread {
                    max_skew: i64::from(*max_skew),
                    min_domains: i64::from(min_domains.unwrap_or(1)),
                    domains: if by_host {
                        std::rc::Rc::from([])
                    } else {
                        self.groups.spread_domains(
                            &mut world,
                            *group,
                            rung.strict,
                            class.tolerations,
                            rung.spare_preferred,
                        )
                    },
                },
                GroupSpec::Affinity { .. } => Kind::Affinity,
                GroupSpec::AntiAffinity { .. } => Kind::AntiAffinity,
            };
            if !by_host {
                let must_exist = !matches!(kind, Kind::AntiAffinity);
                match keys.iter_mut().find(|(have, _)| *have == key) {
                    Some((_, exists)) => *exists |= must_exist,
                    None => keys.push((key, must_exist)),
                }
            }
            let counts_itself = selected.counted.contains(group);
            // Required terms count together, preferred ones each for itself. On the last rung only required ones are left.
            let required = class.rungs.last().map_or(&[][..], |rung| &rung.groups);
            let siblings = match spec {
                GroupSpec::Affinity { .. } if required.contains(group) => required
                    .iter()
                    .filter(|other| matches!(snapshot.group(**other), GroupSpec::Affinity { .. }))
                    .copied()
                    .collect(),
                GroupSpec::Affinity { .. } => SmallVec::from_slice(&[*group]),
                _ => SmallVec::new(),
            };
            own.push(Own { group: *group, key, by_host, counts_itself, siblings, kind });
        }
        let names = world.algebra.names();
        keys.sort_by(|(a, _), (b, _)| names.key_text(*a).cmp(names.key_text(*b)));
        let keys: Vec<WantKey> = keys
            .into_iter()
            .map(|(key, must_exist)| WantKey {
                key,
                must_exist,
                values: self.groups.future_values(
                    &mut world,
                    key,
                    rung.strict,
                    class.tolerations,
                    rung.spare_preferred,
                ),
                always_named: (0..snapshot.catalogues.len()).all(|at| {
                    let catalogue = CatalogueIdx::new(at);
                    matches!(world.offers.naming(snapshot, world.algebra, catalogue, key), Naming::Every)
                }),
            })
            .collect();
        let steady = keys.is_empty()
            || (keys.iter().all(|key| key.always_named)
                && self.templates.iter().all(|template| template.min_values.is_empty()));
        let mut host_groups: Vec<(GroupIdx, bool)> = own
            .iter()
            .filter(|own| own.by_host && !matches!(own.kind, Kind::Affinity))
            .map(|own| (own.group, own.counts_itself))
            .collect();
        host_groups.sort_unstable();
        let inverse_hosts =
            selected.inverse.iter().filter(|g| self.groups.by_host(snapshot, **g)).copied().collect();
        let finder = self.finders.adopt(FinderKey {
            ask: rung.ask,
            requests: class.requests.clone(),
            tolerations: class.tolerations,
            spare_preferred: rung.spare_preferred,
            ports: class.ports.clone(),
            alternatives: class.volume_alternatives.clone(),
            host_groups,
            inverse_hosts,
            keys: keys.iter().map(|k| k.key).collect(),
        });
        Want { class: class_idx, rung: rung_at, finder, own, selected, keys, steady }
    }

    fn query(&self, want: &Want) -> Query {
        let minima = want
            .own
            .iter()
            .map(|own| match &own.kind {
                Kind::Spread { min_domains, domains, .. } if !own.by_host => {
                    if (domains.len() as i64) < *min_domains {
                        0
                    } else {
                        domains.iter().map(|v| i64::from(self.groups.count(own.group, *v))).min().unwrap_or(0)
                    }
                }
                _ => 0,
            })
            .collect();
        Query { minima }
    }

    /// Whether a value of a key is valid for the pod now.
    fn value_ok(&self, want: &Want, query: &Query, key: KeyId, value: ValueId) -> bool {
        for (own, minimum) in want.own.iter().zip(&query.minima) {
            if own.by_host || own.key != key {
                continue;
            }
            let count = self.groups.count(own.group, value);
            let ok = match &own.kind {
                Kind::Spread { max_skew, .. } => {
                    i64::from(count) + i64::from(own.counts_itself) - minimum <= *max_skew
                }
                Kind::Affinity => count > 0 || self.may_be_first(own),
                Kind::AntiAffinity => count == 0,
            };
            if !ok {
                return false;
            }
        }
        want.selected.inverse.iter().all(|group| {
            self.snapshot.group(*group).key() != key || self.groups.owner_count(*group, value) == 0
        })
    }

    /// A pod that matches its own affinity may go anywhere while no pod matches.
    fn may_be_first(&self, own: &Own) -> bool {
        own.counts_itself && own.siblings.iter().all(|group| self.groups.state(*group).total == 0)
    }

    fn host_verdict(&self, want: &Want, host: Host) -> HostVerdict {
        let mut verdict = HostVerdict::Ok;
        for own in want.own.iter().filter(|own| own.by_host) {
            let count = self.groups.host_count(own.group, host);
            match &own.kind {
                Kind::Spread { max_skew, .. } => {
                    if i64::from(count) + i64::from(own.counts_itself) > *max_skew {
                        return HostVerdict::Never;
                    }
                }
                Kind::AntiAffinity => {
                    if count > 0 {
                        return HostVerdict::Never;
                    }
                }
                Kind::Affinity => {
                    if count == 0 && !self.may_be_first(own) {
                        verdict = HostVerdict::NotNow;
                    }
                }
            }
        }
        for group in &want.selected.inverse {
            if self.groups.owner_host_count(*group, host) > 0 {
                return HostVerdict::Never;
            }
        }
        verdict
    }

    /// Values of a key to try on a future machine, best first: those it lists, else the given ones.
    fn choices(&self, want: &Want, query: &Query, at: usize, met: ReqId, values: &[ValueId]) -> Vec<ValueId> {
        let WantKey { key, .. } = &want.keys[at];
        let names = self.algebra.names();
        let mut out: Vec<ValueId> = match self.algebra.machine_value(met, *key) {
            MachineValue::Defined(requirement) if !requirement.complement => {
                let mut listed = requirement.values.to_vec();
                listed.sort_unstable_by(|a, b| names.value_text(*key, *a).cmp(names.value_text(*key, *b)));
                listed
            }
            MachineValue::Defined(requirement) => {
                values.iter().copied().filter(|v| requirement.allows(names, *key, *v)).collect()
            }
            MachineValue::Open | MachineValue::Missing => values.to_vec(),
        };
        out.retain(|v| self.value_ok(want, query, *key, *v));
        if out.len() > 1 {
            // Stable: names decide last.
            out.sort_by_cached_key(|value| {
                let spread: SmallVec<[u32; 2]> = want
                    .own
                    .iter()
                    .filter(|own| own.key == *key && matches!(own.kind, Kind::Spread { .. }))
                    .map(|own| self.groups.count(own.group, *value))
                    .collect();
                let empty = !want.selected.peers.iter().any(|group| {
                    self.snapshot.group(*group).key() == *key && self.groups.count(*group, *value) > 0
                });
                (spread, empty, self.pinned_machines(*key, *value))
            });
        }
        out
    }

    // ---- existing nodes ----

    fn find_node(&mut self, want: &Want, query: &Query) -> Option<NodeIdx> {
        let mut finder = self.finders.take(want.finder);
        let heaps = finder.nodes.get_or_insert_with(|| self.list_nodes(want));
        let mut later: SmallVec<[(usize, Entry); 8]> = SmallVec::new();
        let acceptable: SmallVec<[bool; 8]> =
            heaps.subs.iter().map(|(signature, _)| self.node_signature_ok(want, query, signature)).collect();
        let mut found = None;
        while let Some(sub) = heaps.best(&acceptable) {
            let Some(entry) = heaps.subs[sub].1.pop() else { break };
            self.work += 1;
            let node = NodeIdx(entry.place);
            match self.node_verdict(want, node) {
                HostVerdict::Never => {}
                HostVerdict::NotNow => later.push((sub, entry)),
                HostVerdict::Ok => {
                    later.push((sub, entry));
                    found = Some(node);
                    break;
                }
            }
        }
        for (sub, entry) in later {
            heaps.subs[sub].1.push(entry);
        }
        self.finders.give_back(want.finder, finder);
        found
    }

    /// All nodes that pass what never changes: labels, taints, and the room they have now.
    fn list_nodes(&mut self, want: &Want) -> crate::pack::finder::Heaps {
        let snapshot = self.snapshot;
        let class = &snapshot.classes[want.class.at()];
        let rung = &class.rungs[want.rung];
        let mut heaps = crate::pack::finder::Heaps::default();
        for (at, node) in snapshot.nodes.iter().enumerate() {
            if !node.accepts_pods
                || !fits(&class.requests, &self.room[at])
                || self.room[at].iter().any(|left| *left < 0)
                || !self.algebra.tolerates(node.taints, class.tolerations, rung.spare_preferred)
                || !self.node_labels_ok(node.labels, node.hostname, rung.ask)
                || !self.reaches_volumes(class, NodeIdx::new(at))
            {
                continue;
            }
            let signature: Signature = want
                .keys
                .iter()
                .map(|k| self.algebra.single(node.labels, k.key).map_or(MISSING, |value| value.0))
                .collect();
            heaps.push(&signature, Entry { order: (0, at as i64), place: at as u32 });
        }
        heaps
    }

    fn node_labels_ok(&mut self, labels: ReqId, hostname: Option<ValueId>, ask: ReqId) -> bool {
        // The hostname is kept out of label sets, so that nodes alike share one.
        let Some(key) = self.snapshot.hostname else { return self.algebra.node_accepts(labels, ask) };
        if self.algebra.get(ask, key).is_none() {
            return self.algebra.node_accepts(labels, ask);
        }
        let labels = match hostname {
            Some(value) => self.algebra.pin(labels, key, value),
            None => labels,
        };
        self.algebra.labels_refusal(labels, ask).is_none()
    }

    fn reaches_volumes(&mut self, class: &PodClass, node: NodeIdx) -> bool {
        class.volume_alternatives.is_empty()
            || class.volume_alternatives.iter().any(|alternative| {
                let row = &self.snapshot.nodes[node.at()];
                self.node_labels_ok(row.labels, row.hostname, *alternative)
            })
    }

    fn node_signature_ok(&self, want: &Want, query: &Query, signature: &Signature) -> bool {
        want.keys.iter().zip(signature).all(|(key, value)| match *value {
            MISSING => !key.must_exist,
            value => self.value_ok(want, query, key.key, ValueId(value)),
        })
    }

    fn node_verdict(&self, want: &Want, node: NodeIdx) -> HostVerdict {
        let class = &self.snapshot.classes[want.class.at()];
        let (row, load) = (&self.snapshot.nodes[node.at()], &self.on_node[node.at()]);
        if !fits(&class.requests, &self.room[node.at()])
            || class.ports.iter().any(|port| {
                row.ports
                    .iter()
                    .chain(&load.ports)
                    .chain(&*self.daemon_ports[node.at()])
                    .any(|other| port.clashes(other))
            })
        {
            return HostVerdict::Never;
        }
        match self.host_verdict(want, Self::node_host(node)) {
            HostVerdict::Ok if !self.node_attaches(class, node) => HostVerdict::NotNow,
            verdict => verdict,
        }
    }

    /// Whether a node can attach a pod's volumes on top of those it has.
    pub(crate) fn node_attaches(&self, class: &PodClass, node: NodeIdx) -> bool {
        let (row, load) = (&self.snapshot.nodes[node.at()], &self.on_node[node.at()]);
        row.volume_limits.iter().all(|(driver, limit)| {
            let mut used: Vec<VolumeIdx> = row
                .volumes
                .iter()
                .filter(|(d, _)| d == driver)
                .map(|(_, v)| *v)
                .chain(load.volumes.iter().filter(|(_, d)| d == driver).map(|(v, _)| *v))
                .collect();
            let before = used.len();
            for volume in class.volumes.iter().filter(|v| v.driver == *driver) {
                if !used.contains(&volume.volume) {
                    used.push(volume.volume);
                }
            }
            used.len() == before || used.len() <= *limit as usize
        })
    }

    // ---- open machines ----

    fn find_machine(&mut self, want: &Want, query: &Query) -> Option<(MachineIdx, Growth)> {
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

    fn see_new_machines(&mut self, want: &Want, finder: &mut Finder) {
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
    fn start_from_master(&mut self, want: &Want, finder: &mut Finder) {
        const CHANGES_PER_MACHINE: u64 = 32;
        let keys: Vec<KeyId> = want.keys.iter().map(|k| k.key).collect();
        let mut master = std::mem::take(self.finders.master(&keys));
        let changes = self.version - master.version;
        if master.machines == 0 || changes > self.machines.len() as u64 / CHANGES_PER_MACHINE {
            master.heaps = crate::pack::finder::Heaps::default();
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

    fn machine_signature(&self, want: &Want, machine: MachineIdx) -> Signature {
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
    fn correct_tops(&mut self, want: &Want, finder: &mut Finder) {
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

    fn machine_signature_ok(&self, want: &Want, query: &Query, signature: &Signature) -> bool {
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

    fn machine_verdict(&mut self, want: &Want, query: &Query, machine: MachineIdx) -> Verdict {
        let snapshot = self.snapshot;
        let class = &snapshot.classes[want.class.at()];
        let rung = &class.rungs[want.rung];
        let row = &self.machines[machine.at()];
        let pool = row.pool;
        if !self.algebra.tolerates(snapshot.pools[pool.at()].taints, class.tolerations, rung.spare_preferred)
            || class.ports.iter().any(|port| row.ports.iter().any(|other| port.clashes(other)))
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
        let attempt = Attempt { want, query, pool, machine: Some(machine) };
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

    /// Pins the topology keys from the `at`-th on, value by value, until offerings are left. `start` are the offerings before any key was
    /// pinned.
    fn pin_and_finish(
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
        for value in self.choices(attempt.want, attempt.query, at, met, &values) {
            let pinned = self.algebra.pin(met, key.key, value);
            let allowed = self.offers.of(self.snapshot, &self.algebra, catalogue, pinned);
            let mut narrowed = set.to_vec();
            offer_set::and_into(&mut narrowed, &allowed);
            if offer_set::is_empty(&narrowed) {
                continue;
            }
            match self.pin_and_finish(attempt, pinned, start, &narrowed, at + 1) {
                Settled::NoOffering => {}
                settled => return settled,
            }
        }
        Settled::NoOffering
    }

    /// The last questions: volume limits of types, minValues, reservations.
    fn finish(&mut self, attempt: &Attempt, met: ReqId, set: &[u64]) -> Settled {
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
                let may_lower =
                    attempt.machine.is_none() && self.options.min_values == MinValuesPolicy::BestEffort;
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
        let row = attempt.machine.map(|m| &self.machines[m.at()]);
        let offers = match row {
            Some(row) if *row.offers == *set => row.offers.clone(),
            _ => set.as_ref().into(),
        };
        Settled::Accepts(Growth { requirements: met, offers, reservations, min_values_relaxed })
    }

    fn remove_volume_overload(&self, attempt: &Attempt, set: &mut [u64]) {
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
    fn drop_unheld(&self, pool: PoolIdx, held: &[ReservationIdx], set: &mut [u64]) -> bool {
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
    fn reservations_for(&self, attempt: &Attempt, set: &[u64]) -> Option<SmallVec<[ReservationIdx; 1]>> {
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

    // ---- new machines ----

    fn open_machine(
        &mut self,
        pod: PodIdx,
        want: &Want,
        query: &Query,
    ) -> Result<Option<MachineIdx>, Failure> {
        // A new host has no pods: only affinity by host can object.
        let new_host = self.machine_host(MachineIdx::new(self.machines.len()));
        if !matches!(self.host_verdict(want, new_host), HostVerdict::Ok) {
            return Ok(None);
        }
        for at in 0..self.templates.len() {
            let pool = PoolIdx::new(at);
            match self.try_pool(want, query, pool, true) {
                Settled::Accepts(growth) => {
                    let (growth, holds) = self.holds_of(want, pool, growth);
                    return Ok(Some(self.open(pod, growth, pool, holds)));
                }
                Settled::Reserved => return Err(Failure::Reserved),
                Settled::NoOffering | Settled::Refused => {}
            }
        }
        Ok(None)
    }

    /// What a new machine holds of its pool's limits. Machines alike share their offerings and are measured once.
    fn holds_of(&mut self, want: &Want, pool: PoolIdx, mut growth: Growth) -> (Growth, Option<ResVec>) {
        if self.snapshot.pools[pool.at()].limits.is_empty() {
            return (growth, None);
        }
        let memo = (pool, growth.requirements, want.finder);
        if let Some(known) = self.wants.pinned.get(&memo)
            && *known.offers == *growth.offers
        {
            growth.offers = known.offers.clone();
            return (growth, Some(known.largest.clone()));
        }
        let largest = self.largest_capacity(pool, &growth.offers);
        self.wants.pinned.insert(memo, Fresh { offers: growth.offers.clone(), largest: largest.clone() });
        (growth, Some(largest))
    }

    /// Whether a pool would launch a machine for a pod.
    fn try_pool(&mut self, want: &Want, query: &Query, pool: PoolIdx, with_limits: bool) -> Settled {
        let snapshot = self.snapshot;
        let class = &snapshot.classes[want.class.at()];
        let rung = &class.rungs[want.rung];
        let row = &snapshot.pools[pool.at()];
        if row.not_ready.is_some()
            || !self.algebra.tolerates(row.taints, class.tolerations, rung.spare_preferred)
            || (with_limits && self.no_node_left(pool))
        {
            return Settled::NoOffering;
        }
        let Some(met) = self.algebra.meet(self.templates[pool.at()].requirements, rung.ask) else {
            return Settled::NoOffering;
        };
        self.work += 1;
        let attempt = Attempt { want, query, pool, machine: None };
        for alternative in alternatives(class) {
            let Some(met) = alternative.map_or(Some(met), |a| self.algebra.meet(met, a)) else { continue };
            let Some((set, largest)) = self.fresh(&attempt, met) else { continue };
            let set = if with_limits { self.within_limits(pool, &set, &largest) } else { Some(set) };
            let Some(set) = set else { continue };
            match self.pin_and_finish(&attempt, met, &set, &set, 0) {
                Settled::NoOffering | Settled::Refused => {}
                settled => return settled,
            }
        }
        Settled::NoOffering
    }

    /// Whether some pool would launch a machine for pods of a class, were it not for its limits.
    pub fn limits_are_to_blame(&mut self, class: ClassIdx) -> bool {
        // A pod refused before packing has no rungs that say what it wants; no limit keeps it out.
        if self.snapshot.classes[class.at()].refused.is_some() {
            return false;
        }
        let pools: Vec<PoolIdx> = (0..self.templates.len())
            .map(PoolIdx::new)
            .filter(|p| !self.snapshot.pools[p.at()].limits.is_empty())
            .collect();
        let new_host = self.machine_host(MachineIdx::new(self.machines.len()));
        (0..self.snapshot.classes[class.at()].rungs.len()).any(|rung| {
            let want = self.want(class, rung);
            let query = self.query(&want);
            matches!(self.host_verdict(&want, new_host), HostVerdict::Ok)
                && pools.iter().any(|pool| {
                    !matches!(self.try_pool(&want, &query, *pool, true), Settled::Accepts(_))
                        && matches!(self.try_pool(&want, &query, *pool, false), Settled::Accepts(_))
                })
        })
    }

    /// Offerings for a machine with only this pod, before topology and limits.
    fn fresh(&mut self, attempt: &Attempt, met: ReqId) -> Option<(OfferSet, ResVec)> {
        let memo = (attempt.pool, met, attempt.want.finder);
        if !self.wants.fresh.contains_key(&memo) {
            let class = &self.snapshot.classes[attempt.want.class.at()];
            let template = &self.templates[attempt.pool.at()];
            let mut set = template.base.to_vec();
            let allowed = self.offers.of(self.snapshot, &self.algebra, template.catalogue, met);
            offer_set::and_into(&mut set, &allowed);
            template.keep_fitting(&mut set, &class.requests);
            template.remove_port_clashes(&mut set, &class.ports);
            let fresh = (!offer_set::is_empty(&set)).then(|| Fresh {
                largest: if self.snapshot.pools[attempt.pool.at()].limits.is_empty() {
                    ResVec::new()
                } else {
                    self.largest_capacity(attempt.pool, &set)
                },
                offers: set.into(),
            });
            self.wants.fresh.insert(memo, fresh);
        }
        self.wants.fresh[&memo].as_ref().map(|fresh| (fresh.offers.clone(), fresh.largest.clone()))
    }

    pub(crate) fn no_node_left(&self, pool: PoolIdx) -> bool {
        let limits = &self.snapshot.pools[pool.at()].limits;
        limits.iter().zip(&self.limits[pool.at()]).any(|(limit, left)| limit.lane.is_none() && *left < 1)
    }

    /// Drops types that exceed what the pool may still hold; `None` if none is left.
    fn within_limits(&mut self, pool: PoolIdx, set: &OfferSet, largest: &ResVec) -> Option<OfferSet> {
        let limits = &self.snapshot.pools[pool.at()].limits;
        if limits.is_empty() {
            return Some(set.clone());
        }
        let all_fit = |left: &[i64]| {
            limits.iter().zip(left).all(|(limit, left)| match limit.lane {
                Some(lane) => *left >= 0 && lane_of(largest, lane) <= *left,
                None => *left >= 1,
            })
        };
        if all_fit(&self.limits[pool.at()]) || (self.refresh_holds(pool) && all_fit(&self.limits[pool.at()]))
        {
            return Some(set.clone());
        }
        let kept = self.limited(pool, set);
        if offer_set::is_empty(&kept) { None } else { Some(kept.into()) }
    }

    /// A set without the types that exceed what the pool may still hold.
    pub(crate) fn limited(&self, pool: PoolIdx, set: &[u64]) -> Vec<u64> {
        let row = &self.snapshot.pools[pool.at()];
        let catalogue = &self.snapshot.catalogues[row.catalogue.at()];
        let mut kept = set.to_vec();
        for at in offer_set::iter(set) {
            let capacity = &catalogue.types[catalogue.offerings[at].instance_type.at()].capacity;
            let over = row.limits.iter().zip(&self.limits[pool.at()]).any(|(limit, left)| match limit.lane {
                Some(lane) => *left < 0 || lane_of(capacity, lane) > *left,
                None => *left < 1,
            });
            if over {
                kept[at / 64] &= !(1 << (at % 64));
            }
        }
        kept
    }
}

impl Want {
    /// Whether a refusal may turn into a yes without room growing: spread and affinity can, and what others open may help.
    fn may_loosen(&self) -> bool {
        !self.steady
            || self.own.iter().any(|own| match own.kind {
                Kind::Spread { .. } => !own.by_host,
                Kind::Affinity => true,
                Kind::AntiAffinity => false,
            })
    }
}

struct Attempt<'a> {
    want: &'a Want,
    query: &'a Query,
    pool: PoolIdx,
    machine: Option<MachineIdx>,
}

/// The volume alternatives of a class, or one that asks nothing.
fn alternatives(class: &PodClass) -> impl Iterator<Item = Option<ReqId>> + '_ {
    let none = class.volume_alternatives.is_empty().then_some(None);
    none.into_iter().chain(class.volume_alternatives.iter().copied().map(Some))
}

/// A rule among the pods of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostRule {
    /// Where the pod is, so many pods of a group may be at most, the pod itself included if it is of the group.
    AtMost {
        /// The group.
        group: GroupIdx,
        /// So many.
        most: u32,
    },
    /// Where the pod is there must be a pod of a group.
    Company {
        /// The group.
        group: GroupIdx,
    },
}

impl Want {
    /// What the pod's own constraints say about others on its host.
    pub(crate) fn host_rules(&self) -> impl Iterator<Item = HostRule> + '_ {
        self.own.iter().filter(|own| own.by_host).map(|own| match &own.kind {
            Kind::Spread { max_skew, .. } => {
                HostRule::AtMost { group: own.group, most: (*max_skew).clamp(0, i64::from(u32::MAX)) as u32 }
            }
            Kind::AntiAffinity => HostRule::AtMost { group: own.group, most: u32::from(own.counts_itself) },
            Kind::Affinity => HostRule::Company { group: own.group },
        })
    }
}
