//! The working state of a run, with an undo log.
//!
//! Everything a strategy changes is here: free room on nodes, machines opened, topology counts, limits and reservations. Between
//! [`Scratch::mark`] and [`Scratch::rollback`] every change leaves an entry that takes it back, so a "what if" costs what it changes,
//! not what the cluster holds. Without a mark nothing is logged.

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::algebra::Algebra;
use crate::decide::{GivenUp, Options};
use crate::model::ids::*;
use crate::model::names::{CPU, MEMORY};
use crate::model::resources::{add_into, lane_of, max_into, sub_into};
use crate::model::{FixedState, Pool, Port, ResVec, Snapshot, fixed_state};
use crate::offer_set::{self, OfferSet};
use crate::pack::caps::Caps;
use crate::pack::ceilings::Ceiling;
use crate::pack::finder::{Dropped, Finders};
use crate::pack::groups::{Groups, Host, asks_of_nodes};
use crate::pack::opened::Watch;
use crate::pack::place::Wants;
use crate::pack::prepared::Prepared;
use crate::pack::sharing::Sharing;
use crate::pack::template::{OfferTable, Template};

/// A machine opened in this run: the unit that is decided on. It becomes a claim, or one more replica of a group.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The pool it comes from.
    pub pool: PoolIdx,
    /// What its pods have narrowed it to.
    pub requirements: ReqId,
    /// Offerings that still can be it.
    pub offers: OfferSet,
    /// Requests of its pods.
    pub requests: ResVec,
    /// Its pods, in the order of arrival.
    pub pods: Vec<PodIdx>,
    /// Where it stands among the opened ones: fewest pods first, then the latest grown, then the oldest.
    pub order: (u32, i64),
    /// Host ports of its pods.
    pub ports: Vec<Port>,
    /// Volumes of its pods.
    pub volumes: SmallVec<[(VolumeIdx, Box<str>); 1]>,
    /// What it holds of its pool's limits: the largest of its types, lane by lane.
    pub holds: ResVec,
    /// It has narrowed since `holds` was worked out.
    pub holds_stale: bool,
    /// Reservations it holds a unit of.
    pub reservations: SmallVec<[ReservationIdx; 1]>,
    /// minValues were lowered for it.
    pub min_values_relaxed: bool,
    /// What it could be before it was trimmed for the sake of its pool's limits, if it was.
    pub wide: Option<OfferSet>,
    /// How many types its pool's limits withhold from it in the end.
    pub withheld: usize,
}

/// Where a pod went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// Onto a node that is there.
    Node(NodeIdx),
    /// Onto a machine of this run, opened for it or before.
    Machine(MachineIdx),
}

/// A point to come back to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    log: usize,
    clock: i64,
    version: u64,
}

enum Undo {
    NodeRoom {
        node: NodeIdx,
        old: ResVec,
        touched: Touched,
    },
    NodeTaken {
        node: NodeIdx,
        touched: Touched,
    },
    /// A node was taken out of a finder's heap because of what the entry at a position of the log says.
    Dropped {
        dropped: Dropped,
        because: usize,
    },
    NodePod {
        node: NodeIdx,
        ports: usize,
        volumes: usize,
    },
    MachineOpened,
    MachineGrown {
        machine: MachineIdx,
        old: Box<Machine>,
    },
    MachineHolds {
        machine: MachineIdx,
        old: ResVec,
        stale: bool,
    },
    /// All machines were divided anew.
    Machines {
        old: Vec<Machine>,
    },
    Count {
        group: GroupIdx,
        value: ValueId,
        by: i32,
    },
    HostCount {
        group: GroupIdx,
        host: Host,
        by: i32,
    },
    Owner {
        group: GroupIdx,
        value: ValueId,
        by: i32,
    },
    OwnerHost {
        group: GroupIdx,
        host: Host,
        by: i32,
    },
    OwnerAnywhere {
        group: GroupIdx,
        by: i32,
    },
    Limit {
        pool: PoolIdx,
        at: usize,
        old: i64,
    },
    Reservation {
        reservation: ReservationIdx,
        old: u32,
    },
}

impl Undo {
    fn is_of_machines(&self) -> bool {
        matches!(self, Self::MachineOpened | Self::MachineGrown { .. } | Self::Machines { .. })
    }
}

/// The last entry of the log about a node, as of an epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Touched {
    epoch: u32,
    at: usize,
}

/// The order in which nodes are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeOrder {
    /// As they stand in the snapshot.
    Listed,
    /// By a rank of each, the lowest first.
    Ranked(std::rc::Rc<[u32]>),
    /// The emptiest first, as kube-scheduler places pods by default.
    Emptiest,
}

/// The state.
pub struct Scratch<'s> {
    /// What is decided on.
    pub snapshot: &'s Snapshot,
    /// How.
    pub options: &'s Options,
    /// Requirement sets.
    pub algebra: Algebra<'s>,
    /// Offerings by requirement.
    pub offers: OfferTable,
    /// One per pool.
    pub templates: &'s [Template],
    /// Topology counts.
    pub groups: Groups,
    /// Free room per node, expected daemons taken off.
    pub room: Vec<ResVec>,
    /// Host ports that the daemons expected on each node take, whether they are there yet or not.
    pub daemon_ports: &'s [std::sync::Arc<[Port]>],
    /// Pods placed on each node in this run, ports and volumes they took.
    pub on_node: Vec<NodeLoad>,
    /// Nodes that are given up: nothing is placed there, and nothing of theirs counts.
    pub taken: Vec<bool>,
    /// Nodes on which nothing is placed for now, though they stay.
    closed: Vec<bool>,
    /// The order in which nodes are tried.
    node_order: NodeOrder,
    /// Where the log says that a node changed, if it does.
    touched: Vec<Touched>,
    /// Grows whenever the log is cleared: what was touched before that is not in it.
    epoch: u32,
    /// Machines opened.
    pub machines: Vec<Machine>,
    /// What is left per pool and limit.
    pub limits: Vec<Vec<i64>>,
    /// Units left per reservation.
    pub reservations: Vec<u32>,
    /// Grows with every placement: a failure is worth repeating only after a change.
    pub version: u64,
    /// Placements tried: the work a run is charged with.
    pub work: u64,
    /// Whose pods are placed without regard to what they only prefer.
    pub given_up: GivenUp,
    /// Limits are shared out exactly, beside machines that are planned.
    pub(crate) sharing: Option<Sharing>,
    /// Per pool: how large a type a new machine may become at most, if that is held down.
    pub(crate) ceilings: Vec<Option<Ceiling>>,
    /// At a version: what the machines of every pool count as, for those who explain.
    pub(super) planned: Option<(u64, Vec<Caps>)>,
    pub(crate) wants: Wants,
    pub(crate) finders: Finders,
    pub(crate) watch: Watch,
    /// Machines per value of the keys that topology groups look at.
    pinned: HashMap<(KeyId, ValueId), i32, FixedState>,
    clock: i64,
    marks: usize,
    log: Vec<Undo>,
}

/// What this run put on a node.
#[derive(Debug, Default, Clone)]
pub struct NodeLoad {
    /// Pods, in the order of arrival.
    pub pods: Vec<PodIdx>,
    /// Host ports they take.
    pub ports: Vec<Port>,
    /// Volumes they attach that were not there before.
    pub volumes: Vec<(VolumeIdx, Box<str>)>,
}

impl<'s> Scratch<'s> {
    /// A fresh state over a snapshot.
    pub fn new(snapshot: &'s Snapshot, prepared: &'s Prepared, options: &'s Options) -> Self {
        Self::with_opened(snapshot, prepared, options, &[])
    }

    /// The same where some values count as domains of spreads because machines open them.
    pub(crate) fn with_opened(
        snapshot: &'s Snapshot,
        prepared: &'s Prepared,
        options: &'s Options,
        opened: &[(GroupIdx, ValueId)],
    ) -> Self {
        let mut algebra = Algebra::new(&snapshot.vocabulary);
        let mut groups = Groups::new(snapshot, &mut algebra, options.min_values);
        groups.count_over(opened);
        let mut offers = OfferTable::default();
        let mut watch = Watch::new(snapshot, &mut algebra, &mut offers, &prepared.templates, &mut groups);
        watch.opened = opened.to_vec();
        Self {
            options,
            offers,
            watch,
            templates: &prepared.templates,
            groups,
            room: prepared.room.clone(),
            daemon_ports: &prepared.daemon_ports,
            on_node: vec![NodeLoad::default(); snapshot.nodes.len()],
            taken: vec![false; snapshot.nodes.len()],
            closed: vec![false; snapshot.nodes.len()],
            node_order: NodeOrder::Listed,
            touched: vec![Touched::default(); snapshot.nodes.len()],
            epoch: 1,
            machines: Vec::new(),
            limits: limits_of(snapshot),
            reservations: snapshot.reservations.iter().map(|r| r.capacity).collect(),
            version: 0,
            work: 0,
            given_up: GivenUp::default(),
            sharing: None,
            ceilings: vec![None; snapshot.pools.len()],
            planned: None,
            wants: Wants::new(snapshot),
            finders: Finders::default(),
            pinned: HashMap::with_hasher(fixed_state()),
            clock: 0,
            marks: 0,
            log: Vec::new(),
            algebra,
            snapshot,
        }
    }

    /// Back to the state in which nothing is placed; what is known of requirements and offerings stays.
    pub(super) fn reset(&mut self, prepared: &Prepared) {
        self.groups = Groups::new(self.snapshot, &mut self.algebra, self.options.min_values);
        self.groups.count_over(&self.watch.opened);
        self.room = prepared.room.clone();
        self.on_node = vec![NodeLoad::default(); self.snapshot.nodes.len()];
        self.taken.fill(false);
        self.machines.clear();
        self.limits = limits_of(self.snapshot);
        self.reservations = self.snapshot.reservations.iter().map(|r| r.capacity).collect();
        self.pinned.clear();
        self.finders.forget_all();
        self.wants.forget_failures();
        self.version += 1;
    }

    /// Adds a machine with all its pods, which were placed before.
    pub(super) fn stand(&mut self, machine: Machine) {
        let at = MachineIdx::new(self.machines.len());
        let (requirements, pods) = (machine.requirements, machine.pods.clone());
        for reservation in &machine.reservations {
            self.set_reservation(*reservation, self.reservations[reservation.at()].saturating_sub(1));
        }
        self.clock += 1;
        self.machines.push(machine);
        self.note(|| Undo::MachineOpened);
        self.count_pins(None, requirements, 1);
        for pod in pods {
            self.count_on_machine(pod, at);
        }
        self.version += 1;
    }

    /// Changes a machine in what concerns nobody else.
    pub(crate) fn change_machine(&mut self, machine: MachineIdx, change: impl FnOnce(&mut Machine)) {
        if self.marks > 0 {
            let old = Box::new(self.machines[machine.at()].clone());
            self.log.push(Undo::MachineGrown { machine, old });
        }
        change(&mut self.machines[machine.at()]);
    }

    /// The topology value of an existing node.
    pub fn node_host(node: NodeIdx) -> Host {
        node.0
    }

    /// The topology value of a machine.
    pub fn machine_host(&self, machine: MachineIdx) -> Host {
        self.snapshot.nodes.len() as u32 + machine.0
    }

    /// Starts logging.
    pub fn mark(&mut self) -> Mark {
        self.marks += 1;
        Mark { log: self.log.len(), clock: self.clock, version: self.version }
    }

    /// Takes everything back that happened since the mark.
    pub fn rollback(&mut self, mark: Mark) {
        let mut machines_changed = false;
        let mut still_dropped = Vec::new();
        while self.log.len() > mark.log {
            match self.log.pop() {
                // Not for anything that is taken back now.
                Some(entry @ Undo::Dropped { because, .. }) if because < mark.log => {
                    still_dropped.push(entry)
                }
                Some(entry) => {
                    machines_changed |= entry.is_of_machines();
                    self.take_back(entry);
                }
                None => break,
            }
        }
        self.log.append(&mut still_dropped);
        self.clock = mark.clock;
        // Not `mark.version`: verdicts remembered in between must not be mistaken for current ones.
        self.version = self.version.max(mark.version) + 1;
        self.marks = self.marks.saturating_sub(1);
        // What finders dropped because of what was taken back is in them again. Machines are few: they are listed again.
        if machines_changed {
            self.finders.forget_machines();
        }
        self.wants.forget_failures();
    }

    /// Keeps everything since the mark.
    pub fn keep(&mut self, _mark: Mark) {
        self.marks = self.marks.saturating_sub(1);
        if self.marks == 0 {
            self.log.clear();
            self.epoch += 1;
        }
    }

    /// From now on a log entry speaks of a node. Returns what was known of it before.
    fn touch(&mut self, node: NodeIdx) -> Touched {
        let now = Touched { epoch: self.epoch, at: self.log.len() };
        std::mem::replace(&mut self.touched[node.at()], now)
    }

    /// Whether the log can bring back an earlier state of a node.
    pub(super) fn is_touched(&self, node: NodeIdx) -> bool {
        self.marks > 0 && self.touched[node.at()].epoch == self.epoch
    }

    /// A finder has dropped a node for good: for as long as the node stays as it is.
    pub(super) fn note_drop(&mut self, dropped: Dropped) {
        let node = NodeIdx(dropped.entry.place);
        if self.is_touched(node) {
            self.log.push(Undo::Dropped { dropped, because: self.touched[node.at()].at });
        }
    }

    /// From now on nothing is placed on a node, or it is again. Not part of what is rolled back.
    pub(crate) fn close_node(&mut self, node: NodeIdx, closed: bool) {
        if std::mem::replace(&mut self.closed[node.at()], closed) && !closed {
            self.finders.forget_all();
        }
    }

    /// Whether nothing may be placed on a node.
    pub(super) fn is_closed(&self, node: NodeIdx) -> bool {
        self.closed[node.at()] || self.taken[node.at()]
    }

    /// From now on nodes are tried in another order.
    pub(crate) fn order_nodes(&mut self, order: NodeOrder) {
        if self.node_order != order {
            self.node_order = order;
            self.finders.forget_all();
        }
    }

    /// Where a node stands among those that are tried.
    pub(super) fn node_rank(&self, node: NodeIdx) -> (u32, i64) {
        let at = i64::from(node.0);
        match &self.node_order {
            NodeOrder::Listed => (0, at),
            NodeOrder::Ranked(ranks) => (ranks[node.at()], at),
            NodeOrder::Emptiest => (self.fullness(node), at),
        }
    }

    /// Whether nodes change their rank as pods come.
    pub(super) fn ranks_change(&self) -> bool {
        self.node_order == NodeOrder::Emptiest
    }

    /// How full a node is, in millionths: the mean of its CPUs and its memory, as kube-scheduler scores nodes by default.
    fn fullness(&self, node: NodeIdx) -> u32 {
        const WHOLE: i64 = 1_000_000;
        let all = &self.snapshot.nodes[node.at()].shown.allocatable;
        let share = |lane: usize| {
            let (all, left) = (lane_of(all, lane), lane_of(&self.room[node.at()], lane));
            if all <= 0 {
                WHOLE
            } else {
                WHOLE - (left.clamp(0, all) as i128 * WHOLE as i128 / all as i128) as i64
            }
        };
        ((share(CPU) + share(MEMORY)) / 2) as u32
    }

    /// Gives a node up: its pods no longer count anywhere, nothing is placed on it, and what it holds of its pool's limits (`counts`) and of a
    /// reservation can be had again. Returns the pods that this run had put there; those that were bound to it are for the caller to place.
    pub fn take_node(&mut self, node: NodeIdx, counts: &ResVec) -> Vec<PodIdx> {
        debug_assert!(!self.taken[node.at()], "a node is taken once");
        let snapshot = self.snapshot;
        let row = &snapshot.nodes[node.at()];
        self.taken[node.at()] = true;
        if self.marks > 0 {
            let touched = self.touch(node);
            self.log.push(Undo::NodeTaken { node, touched });
        }
        for (identity, pods) in &row.pods {
            self.uncount_on_node(*identity, node, i32::try_from(*pods).unwrap_or(i32::MAX));
        }
        for group in &row.anti_affinity {
            self.count_owner_anywhere(*group, -1);
            self.count_owner(*group, Self::node_host(node), row.labels, -1);
        }
        let pods = self.on_node[node.at()].pods.clone();
        for pod in &pods {
            let class = &snapshot.classes[snapshot.pods[pod.at()].class.at()];
            self.uncount_on_node(class.identity, node, 1);
            for group in &class.anti_affinity {
                self.count_owner_anywhere(*group, -1);
                self.count_owner(*group, Self::node_host(node), row.labels, -1);
            }
        }
        if let Some(pool) = row.pool {
            self.return_to_limits(pool, counts);
        }
        let drawn = row.offering.and_then(|(catalogue, offering)| {
            snapshot.catalogues[catalogue.at()].offerings[offering.at()].reservation
        });
        if let Some(reservation) = drawn {
            self.set_reservation(reservation, self.reservations[reservation.at()].saturating_add(1));
        }
        self.version += 1;
        pods
    }

    fn uncount_on_node(&mut self, identity: IdentityIdx, node: NodeIdx, pods: i32) {
        let snapshot = self.snapshot;
        let selected = self.groups.selected(snapshot, &self.algebra, identity);
        for group in &selected.counted {
            if self.groups.looks_at_node(snapshot, &mut self.algebra, *group, node) {
                self.count(*group, Self::node_host(node), snapshot.nodes[node.at()].labels, -pods);
            }
        }
    }

    /// Other machines for the same pods, for a strategy that counts nothing more afterwards.
    pub(super) fn divide_anew(&mut self, machines: Vec<Machine>) {
        let old = std::mem::replace(&mut self.machines, machines);
        self.note(|| Undo::Machines { old });
    }

    fn note(&mut self, entry: impl FnOnce() -> Undo) {
        if self.marks > 0 {
            self.log.push(entry());
        }
    }

    fn take_back(&mut self, entry: Undo) {
        match entry {
            Undo::NodeRoom { node, old, touched } => {
                self.room[node.at()] = old;
                self.touched[node.at()] = touched;
            }
            Undo::NodeTaken { node, touched } => {
                self.taken[node.at()] = false;
                self.touched[node.at()] = touched;
            }
            Undo::Dropped { dropped, .. } => self.finders.put_back(dropped),
            Undo::Machines { old } => self.machines = old,
            Undo::NodePod { node, ports, volumes } => {
                let load = &mut self.on_node[node.at()];
                load.pods.pop();
                load.ports.truncate(ports);
                load.volumes.truncate(volumes);
            }
            Undo::MachineOpened => {
                if let Some(machine) = self.machines.pop() {
                    self.count_pins(None, machine.requirements, -1);
                }
            }
            Undo::MachineGrown { machine, old } => {
                let grown = std::mem::replace(&mut self.machines[machine.at()], *old);
                let before = self.machines[machine.at()].requirements;
                self.count_pins(Some(before), grown.requirements, -1);
            }
            Undo::MachineHolds { machine, old, stale } => {
                let machine = &mut self.machines[machine.at()];
                (machine.holds, machine.holds_stale) = (old, stale);
            }
            Undo::Count { group, value, by } => self.groups.add(group, value, -by),
            Undo::HostCount { group, host, by } => self.groups.add_host(group, host, -by),
            Undo::Owner { group, value, by } => self.groups.add_owner(group, value, -by),
            Undo::OwnerHost { group, host, by } => self.groups.add_owner_host(group, host, -by),
            Undo::OwnerAnywhere { group, by } => self.groups.add_owner_anywhere(group, -by),
            Undo::Limit { pool, at, old } => self.limits[pool.at()][at] = old,
            Undo::Reservation { reservation, old } => self.reservations[reservation.at()] = old,
        }
    }

    /// Puts a pod on an existing node that was found to accept it.
    pub fn put_on_node(&mut self, pod: PodIdx, node: NodeIdx) {
        let class = &self.snapshot.classes[self.snapshot.pods[pod.at()].class.at()];
        if self.marks > 0 {
            let load = &self.on_node[node.at()];
            let (ports, volumes) = (load.ports.len(), load.volumes.len());
            let touched = self.touch(node);
            self.log.push(Undo::NodeRoom { node, old: self.room[node.at()].clone(), touched });
            self.log.push(Undo::NodePod { node, ports, volumes });
        }
        sub_into(&mut self.room[node.at()], &class.requests);
        let load = &mut self.on_node[node.at()];
        load.pods.push(pod);
        load.ports.extend(class.ports.iter().cloned());
        for volume in &class.volumes {
            let known = self.snapshot.nodes[node.at()].volumes.iter().any(|(_, v)| *v == volume.volume)
                || load.volumes.iter().any(|(v, _)| *v == volume.volume);
            if !known {
                load.volumes.push((volume.volume, volume.driver.clone()));
            }
        }
        self.count_on_node(pod, node);
        self.version += 1;
    }

    fn count_on_node(&mut self, pod: PodIdx, node: NodeIdx) {
        let snapshot = self.snapshot;
        let class = &snapshot.classes[snapshot.pods[pod.at()].class.at()];
        let labels = snapshot.nodes[node.at()].labels;
        let selected = self.groups.selected(snapshot, &self.algebra, class.identity);
        for group in &selected.counted {
            if self.groups.looks_at_node(snapshot, &mut self.algebra, *group, node) {
                self.count(*group, Self::node_host(node), labels, 1);
            }
        }
        for group in &class.anti_affinity {
            self.count_owner_anywhere(*group, 1);
            self.count_owner(*group, Self::node_host(node), labels, 1);
        }
    }

    fn count(&mut self, group: GroupIdx, host: Host, requirements: ReqId, by: i32) {
        if self.groups.by_host(self.snapshot, group) {
            self.groups.add_host(group, host, by);
            self.note(|| Undo::HostCount { group, host, by });
        } else if let Some(value) = self.algebra.single(requirements, self.snapshot.group(group).key()) {
            self.groups.add(group, value, by);
            self.note(|| Undo::Count { group, value, by });
        }
    }

    fn count_owner_anywhere(&mut self, group: GroupIdx, by: i32) {
        self.groups.add_owner_anywhere(group, by);
        self.note(|| Undo::OwnerAnywhere { group, by });
    }

    fn count_owner(&mut self, group: GroupIdx, host: Host, requirements: ReqId, by: i32) {
        if self.groups.by_host(self.snapshot, group) {
            self.groups.add_owner_host(group, host, by);
            self.note(|| Undo::OwnerHost { group, host, by });
        } else if let Some(value) = self.algebra.single(requirements, self.snapshot.group(group).key()) {
            self.groups.add_owner(group, value, by);
            self.note(|| Undo::Owner { group, value, by });
        }
    }

    /// Opens a machine for its first pod.
    pub fn open(&mut self, pod: PodIdx, growth: Growth, pool: PoolIdx, holds: Option<ResVec>) -> MachineIdx {
        let class = &self.snapshot.classes[self.snapshot.pods[pod.at()].class.at()];
        let at = MachineIdx::new(self.machines.len());
        self.clock += 1;
        self.machines.push(Machine {
            pool,
            requirements: growth.requirements,
            offers: growth.offers,
            requests: class.requests.clone(),
            pods: vec![pod],
            order: (1, self.clock),
            ports: class.ports.clone(),
            volumes: class.volumes.iter().map(|v| (v.volume, v.driver.clone())).collect(),
            holds: ResVec::new(),
            holds_stale: false,
            reservations: SmallVec::new(),
            min_values_relaxed: growth.min_values_relaxed,
            wide: None,
            withheld: 0,
        });
        self.note(|| Undo::MachineOpened);
        self.count_pins(None, self.machines[at.at()].requirements, 1);
        if let Some(holds) = holds {
            self.take_from_limits(pool, &holds, true);
            self.machines[at.at()].holds = holds;
        }
        self.hold_reservations(at, growth.reservations);
        self.count_on_machine(pod, at);
        self.version += 1;
        at
    }

    /// Puts a pod on an open machine that was found to accept it.
    pub fn grow(&mut self, pod: PodIdx, machine: MachineIdx, growth: Growth) {
        let class = &self.snapshot.classes[self.snapshot.pods[pod.at()].class.at()];
        if self.marks > 0 {
            let old = Box::new(self.machines[machine.at()].clone());
            self.log.push(Undo::MachineGrown { machine, old });
        }
        let pool = self.machines[machine.at()].pool;
        if self.sharing.is_some() && !self.snapshot.pools[pool.at()].limits.is_empty() {
            let holds = self.claim_share(pool, &growth);
            self.set_holds(machine, holds);
            self.forget_menu(machine);
        }
        self.clock += 1;
        let clock = self.clock;
        let row = &mut self.machines[machine.at()];
        let before = row.requirements;
        row.holds_stale |= row.offers != growth.offers;
        row.requirements = growth.requirements;
        row.offers = growth.offers;
        add_into(&mut row.requests, &class.requests);
        row.order = (row.order.0 + 1, -clock);
        row.ports.extend(class.ports.iter().cloned());
        for volume in &class.volumes {
            if !row.volumes.iter().any(|(v, _)| *v == volume.volume) {
                row.volumes.push((volume.volume, volume.driver.clone()));
            }
        }
        let others = row.pods.len();
        row.pods.push(pod);
        self.hold_reservations(machine, growth.reservations);
        if before != growth.requirements {
            self.count_pins(Some(before), growth.requirements, 1);
            self.forget_filtered_out(machine, before, others);
            self.count_newly_pinned(machine, before, others);
        }
        self.count_on_machine(pod, machine);
        self.version += 1;
    }

    /// How many machines of this run have come down to a value of a key.
    pub(crate) fn pinned_machines(&self, key: KeyId, value: ValueId) -> i32 {
        self.pinned.get(&(key, value)).copied().unwrap_or(0)
    }

    /// A machine narrowed: counts it at the values it has come down to.
    fn count_pins(&mut self, before: Option<ReqId>, after: ReqId, by: i32) {
        for key in &self.groups.keys {
            if before.is_none_or(|before| self.algebra.single(before, *key).is_none())
                && let Some(value) = self.algebra.single(after, *key)
            {
                *self.pinned.entry((*key, value)).or_insert(0) += by;
            }
        }
    }

    /// A machine that narrows may drop out of a spread's node filter: its pods no longer count there.
    fn forget_filtered_out(&mut self, machine: MachineIdx, before: ReqId, others: usize) {
        if !self.groups.any_filter_asks {
            return;
        }
        let snapshot = self.snapshot;
        let row = &self.machines[machine.at()];
        let (after, taints) = (row.requirements, snapshot.pools[row.pool.at()].taints);
        let host = self.machine_host(machine);
        for earlier in 0..others {
            let pod = self.machines[machine.at()].pods[earlier];
            let identity = snapshot.classes[snapshot.pods[pod.at()].class.at()].identity;
            let selected = self.groups.selected(snapshot, &self.algebra, identity);
            for group in selected.counted.iter().filter(|group| asks_of_nodes(snapshot, **group)) {
                if self.groups.looks_at_machine(snapshot, &mut self.algebra, *group, before, taints)
                    && !self.groups.looks_at_machine(snapshot, &mut self.algebra, *group, after, taints)
                {
                    self.count(*group, host, before, -1);
                }
            }
        }
    }

    /// Pods that were on a machine before it narrowed to one value of a key are counted there now.
    fn count_newly_pinned(&mut self, machine: MachineIdx, before: ReqId, others: usize) {
        let after = self.machines[machine.at()].requirements;
        for at in 0..self.groups.keys.len() {
            let key = self.groups.keys[at];
            if self.algebra.get(before, key) == self.algebra.get(after, key)
                || self.algebra.single(before, key).is_some()
                || self.algebra.single(after, key).is_none()
            {
                continue;
            }
            for earlier in 0..others {
                let pod = self.machines[machine.at()].pods[earlier];
                self.count_on_machine_key(pod, machine, Some(key));
            }
        }
    }

    fn count_on_machine(&mut self, pod: PodIdx, machine: MachineIdx) {
        self.count_on_machine_key(pod, machine, None);
    }

    fn count_on_machine_key(&mut self, pod: PodIdx, machine: MachineIdx, only: Option<KeyId>) {
        let snapshot = self.snapshot;
        let class = &snapshot.classes[snapshot.pods[pod.at()].class.at()];
        let selected = self.groups.selected(snapshot, &self.algebra, class.identity);
        let row = &self.machines[machine.at()];
        let (requirements, taints) = (row.requirements, snapshot.pools[row.pool.at()].taints);
        let host = self.machine_host(machine);
        let wanted = |group: &GroupIdx| only.is_none_or(|key| snapshot.group(*group).key() == key);
        for group in selected.counted.iter().filter(|g| wanted(g)) {
            if self.groups.looks_at_machine(snapshot, &mut self.algebra, *group, requirements, taints) {
                self.count(*group, host, requirements, 1);
            }
        }
        for group in class.anti_affinity.iter().filter(|g| wanted(g)) {
            if only.is_none() {
                self.count_owner_anywhere(*group, 1);
            }
            self.count_owner(*group, host, requirements, 1);
        }
    }

    pub(super) fn hold_reservations(&mut self, machine: MachineIdx, wanted: SmallVec<[ReservationIdx; 1]>) {
        let held = std::mem::take(&mut self.machines[machine.at()].reservations);
        for reservation in held.iter().filter(|r| !wanted.contains(r)) {
            self.set_reservation(*reservation, self.reservations[reservation.at()] + 1);
        }
        for reservation in wanted.iter().filter(|r| !held.contains(r)) {
            self.set_reservation(*reservation, self.reservations[reservation.at()].saturating_sub(1));
        }
        self.machines[machine.at()].reservations = wanted;
    }

    fn set_reservation(&mut self, reservation: ReservationIdx, left: u32) {
        let old = self.reservations[reservation.at()];
        self.note(|| Undo::Reservation { reservation, old });
        self.reservations[reservation.at()] = left;
    }

    /// The largest capacity per lane over the types of a set.
    pub fn largest_capacity(&self, pool: PoolIdx, set: &[u64]) -> ResVec {
        let catalogue = &self.snapshot.catalogues[self.snapshot.pools[pool.at()].catalogue.at()];
        let mut out = ResVec::new();
        let mut last = None;
        for at in offer_set::iter(set) {
            let instance_type = catalogue.offerings[at].instance_type;
            if last != Some(instance_type) {
                max_into(&mut out, &catalogue.types[instance_type.at()].capacity);
                last = Some(instance_type);
            }
        }
        out
    }

    /// Gives back what narrowed machines of a pool no longer need; true if there was anything to look at.
    pub fn refresh_holds(&mut self, pool: PoolIdx) -> bool {
        let mut any = false;
        if self.sharing.is_some() {
            // What machines hold is chosen, not measured.
            return any;
        }
        for at in 0..self.machines.len() {
            if self.machines[at].pool != pool || !self.machines[at].holds_stale {
                continue;
            }
            any = true;
            let offers = self.machines[at].offers.clone();
            self.set_holds(MachineIdx::new(at), self.largest_capacity(pool, &offers));
        }
        any
    }

    /// A machine holds something else of its pool's limits from now on.
    pub(super) fn set_holds(&mut self, machine: MachineIdx, now: ResVec) {
        let row = &mut self.machines[machine.at()];
        let (pool, stale) = (row.pool, std::mem::replace(&mut row.holds_stale, false));
        let old = std::mem::replace(&mut row.holds, now);
        for (index, limit) in self.snapshot.pools[pool.at()].limits.iter().enumerate() {
            if let Some(lane) = limit.lane {
                let now = lane_of(&self.machines[machine.at()].holds, lane);
                let back = lane_of(&old, lane).saturating_sub(now);
                self.set_limit(pool, index, self.limits[pool.at()][index].saturating_add(back));
            }
        }
        self.note(|| Undo::MachineHolds { machine, old, stale });
    }

    pub(super) fn take_from_limits(&mut self, pool: PoolIdx, holds: &ResVec, node: bool) {
        for (index, limit) in self.snapshot.pools[pool.at()].limits.iter().enumerate() {
            let by = match limit.lane {
                Some(lane) => lane_of(holds, lane),
                None => i64::from(node),
            };
            self.set_limit(pool, index, self.limits[pool.at()][index].saturating_sub(by));
        }
    }

    fn return_to_limits(&mut self, pool: PoolIdx, counts: &ResVec) {
        for (index, limit) in self.snapshot.pools[pool.at()].limits.iter().enumerate() {
            let by = limit.lane.map_or(1, |lane| lane_of(counts, lane));
            self.set_limit(pool, index, self.limits[pool.at()][index].saturating_add(by));
        }
    }

    fn set_limit(&mut self, pool: PoolIdx, at: usize, left: i64) {
        let old = self.limits[pool.at()][at];
        self.note(|| Undo::Limit { pool, at, old });
        self.limits[pool.at()][at] = left;
    }
}

/// What the nodes that are there leave of every pool's limits.
fn limits_of(snapshot: &Snapshot) -> Vec<Vec<i64>> {
    let of_pool =
        |pool: &Pool| pool.limits.iter().map(|limit| limit.most.saturating_sub(limit.used)).collect();
    snapshot.pools.iter().map(of_pool).collect()
}

/// What a machine becomes with one more pod.
#[derive(Debug)]
pub struct Growth {
    /// Narrowed requirements.
    pub requirements: ReqId,
    /// Offerings left.
    pub offers: OfferSet,
    /// Reservations to hold.
    pub reservations: SmallVec<[ReservationIdx; 1]>,
    /// minValues were lowered.
    pub min_values_relaxed: bool,
}
