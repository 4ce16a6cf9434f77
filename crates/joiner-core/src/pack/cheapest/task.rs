//! The question a cheapest packing answers, cut out of a finished run of the original's strategy.
//!
//! That run has decided everything that concerns more than one machine: which pods go onto nodes that are there, which preferences
//! are given up, and which zone (or other topology value) a pod goes to where that matters to spread, affinity or anti-affinity.
//! These answers are kept: pods are pinned to the values they were counted at, so every count stays as it was. What remains is to
//! divide the pods of new machines over machines anew, and there only rules *within* a machine matter: room, requirements that must
//! hold together, host ports, volumes, and how many pods of a group may share a host.
//!
//! Pods alike in all of this are one [`Kind`]; kinds alike in size and in the machines they may use are one [`Shape`].

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::algebra::MachineValue;
use crate::model::ids::*;
use crate::model::resources::{add_into, lane_of};
use crate::model::{FixedState, GroupSpec, Port, ResVec, fixed_state};
use crate::pack::place::HostRule;
use crate::pack::scratch::{Machine, Scratch};
use crate::pack::upstream::Outcome;

/// Which machines pods may use, apart from their size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Access {
    /// Asks that all must be met.
    pub asks: SmallVec<[ReqId; 2]>,
    /// Taints must be tolerated by all of these; the flag says that PreferNoSchedule does not count.
    pub tolerations: SmallVec<[(TolerationsId, bool); 1]>,
    /// Only pools of this weight; `None`: see [`Weights::Free`].
    pub weight: Option<i32>,
    /// Only pools whose machines all have this value of a label of one's own, or all lack it: labels by which pods keep together or
    /// apart.
    pub settled: SmallVec<[(KeyId, Option<ValueId>); 1]>,
}

/// How much of the first pass' choice of pools is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weights {
    /// Every pod comes to a pool of the weight it had.
    Kept,
    /// Heavier pools are used as far as their limits go, for whichever pods.
    Free,
}

/// Pods (or sets of pods that must stay together) alike in everything that matters here.
#[derive(Debug)]
pub(super) struct Kind {
    pub shape: u32,
    /// How many of each host-level group one of them adds to a host.
    pub counted: Vec<(u32, u32)>,
    /// How many of a group may be on the host where one of them is.
    pub caps: Vec<(u32, u32)>,
    pub ports: Vec<Port>,
    /// The pods, in queue order; each entry stays together.
    pub members: Vec<SmallVec<[PodIdx; 1]>>,
}

/// Kinds of one size that may use the same machines.
#[derive(Debug)]
pub(super) struct Shape {
    pub access: u32,
    pub requests: Box<[i64]>,
    /// Groups of which it shares a machine with nobody.
    pub exclusive: Vec<u32>,
    pub kinds: Vec<u32>,
    pub count: u32,
}

/// The pods to divide anew.
#[derive(Debug)]
pub(super) struct Task {
    pub accesses: Vec<Access>,
    pub shapes: Vec<Shape>,
    pub kinds: Vec<Kind>,
    /// Volume drivers that some type limits: lanes after those of resources.
    pub drivers: Vec<Box<str>>,
    /// Resource lanes before those of drivers.
    pub resource_lanes: usize,
    /// Machines of the run that stay as they are.
    pub frozen: Vec<usize>,
    pub weights: Weights,
}

/// One set of pods that stays together, before kinds are told apart.
struct Item {
    pods: SmallVec<[PodIdx; 1]>,
    access: Access,
    requests: ResVec,
    counted: Vec<(u32, u32)>,
    caps: Vec<(u32, u32)>,
    ports: Vec<Port>,
}

/// What makes a kind, its shape apart: counts, caps, ports.
type KindKey = (u32, Vec<(u32, u32)>, Vec<(u32, u32)>, Vec<Port>);

impl Task {
    /// Cuts the question out of a run. Machines of the pools that are `kept` stay as they are.
    pub fn new(
        scratch: &mut Scratch,
        outcome: &Outcome,
        order: &[PodIdx],
        weights: Weights,
        kept: &dyn Fn(PoolIdx) -> bool,
    ) -> Self {
        let mut drivers: Vec<Box<str>> = scratch
            .snapshot
            .catalogues
            .iter()
            .flat_map(|catalogue| &catalogue.types)
            .flat_map(|instance_type| instance_type.volume_limits.iter().map(|(driver, _)| driver.clone()))
            .collect();
        drivers.sort_unstable();
        drivers.dedup();
        let mut task = Self {
            accesses: Vec::new(),
            shapes: Vec::new(),
            kinds: Vec::new(),
            drivers,
            resource_lanes: scratch.algebra.names().lane_count(),
            frozen: Vec::new(),
            weights,
        };
        let mut turn = vec![u32::MAX; scratch.snapshot.pods.len()];
        for (at, pod) in order.iter().enumerate() {
            turn[pod.at()] = at as u32;
        }
        let mut items: Vec<Item> = Vec::new();
        for at in 0..scratch.machines.len() {
            let found = match kept(scratch.machines[at].pool) {
                true => None,
                false => task.items_of(scratch, outcome, at),
            };
            match found {
                Some(found) => items.extend(found),
                None => task.frozen.push(at),
            }
        }
        items.sort_by_key(|item| item.pods.iter().map(|pod| turn[pod.at()]).min());
        task.sort_into_kinds(items);
        task
    }

    /// The items on a machine of the run; `None` if the machine is to stay as it is.
    fn items_of(&self, scratch: &mut Scratch, outcome: &Outcome, at: usize) -> Option<Vec<Item>> {
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
        &self,
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
        for group in &selected.counted {
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
        })
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

    fn sort_into_kinds(&mut self, mut items: Vec<Item>) {
        // Only groups that cap something matter.
        let mut capped: Vec<u32> =
            items.iter().flat_map(|item| item.caps.iter().map(|(group, _)| *group)).collect();
        capped.sort_unstable();
        capped.dedup();
        let mut accesses: HashMap<Access, u32, FixedState> = HashMap::with_hasher(fixed_state());
        let mut shapes: HashMap<(u32, ResVec, Vec<u32>), u32, FixedState> =
            HashMap::with_hasher(fixed_state());
        let mut kinds: HashMap<KindKey, u32, FixedState> = HashMap::with_hasher(fixed_state());
        for item in &mut items {
            item.counted.retain(|(group, _)| capped.binary_search(group).is_ok());
            item.counted.sort_unstable();
            item.caps.sort_unstable();
            // The smallest cap of a group comes first.
            item.caps.dedup_by_key(|(group, _)| *group);
        }
        for item in items {
            let access = *accesses.entry(item.access.clone()).or_insert_with(|| {
                self.accesses.push(item.access.clone());
                self.accesses.len() as u32 - 1
            });
            let cap_of = |group: u32| item.caps.iter().find(|(g, _)| *g == group).map(|(_, cap)| *cap);
            // A pod that shares its machine with none of its group is dearer to place than one of its size that does.
            let exclusive: Vec<u32> = item
                .counted
                .iter()
                .filter(|(group, n)| cap_of(*group).is_some_and(|cap| cap < 2 * n))
                .map(|(group, _)| *group)
                .collect();
            let key = (access, item.requests.clone(), exclusive.clone());
            let shape = *shapes.entry(key).or_insert_with(|| {
                let requests = item.requests.to_vec().into();
                self.shapes.push(Shape { access, requests, exclusive, kinds: Vec::new(), count: 0 });
                self.shapes.len() as u32 - 1
            });
            let key = (shape, item.counted.clone(), item.caps.clone(), item.ports.clone());
            let kind = *kinds.entry(key).or_insert_with(|| {
                self.kinds.push(Kind {
                    shape,
                    counted: item.counted.clone(),
                    caps: item.caps.clone(),
                    ports: item.ports.clone(),
                    members: Vec::new(),
                });
                let kind = self.kinds.len() as u32 - 1;
                self.shapes[shape as usize].kinds.push(kind);
                kind
            });
            self.kinds[kind as usize].members.push(item.pods);
            self.shapes[shape as usize].count += 1;
        }
    }

    /// All lanes.
    pub fn lanes(&self) -> usize {
        self.resource_lanes + self.drivers.len()
    }

    /// What one item of a kind takes of a lane.
    pub fn request(&self, shape: u32, lane: usize) -> i64 {
        lane_of(&self.shapes[shape as usize].requests, lane)
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
    }
}

/// The value of a label that all machines of a pool have, or that they lack it; `None` where machines of the pool may differ.
pub(super) fn settled_value(scratch: &Scratch, pool: PoolIdx, key: KeyId) -> Option<Option<ValueId>> {
    let template = scratch.templates[pool.at()].requirements;
    match scratch.algebra.machine_value(template, key) {
        MachineValue::Missing => Some(None),
        MachineValue::Open => None,
        MachineValue::Defined(requirement) => requirement.single().map(Some),
    }
}
