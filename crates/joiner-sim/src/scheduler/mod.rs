//! A scheduler as kube-scheduler 1.35 is by default: the same filters, scores, queue, preemption and words.
//!
//! # How it works
//!
//! As a [`Participant`] it is told of every change of the cluster and keeps a lowered view of it: labels, amounts and terms as small integers,
//! pods alike in classes, room per node and counts per selector that follow pod by pod. A step is one attempt: the next
//! pod of the queue is held against the nodes, and the answer is a list of writes. Nothing here does I/O, asks a clock or rolls dice.
//! Where kube-scheduler lets chance or a race decide (nodes of equal score, equally good nodes to preempt on, where the search begins), the first in node
//! order wins.
//!
//! # What it shares with the planner
//!
//! The rules of one pod on one node are the core's ([`joiner_core::filter`]), and specs are read by `joiner-state`: what joiner plans, this scheduler
//! binds. What cannot be shared is how the numbers come about: a planner narrows a snapshot and remembers refusals, which never
//! turn into a yes within a run; here nodes are fixed, pods leave, and scores need counts of pods that only *prefer* each other.
//!
//! # What is left out
//!
//! Dynamic resource allocation, in-tree disks that only one pod may have, storage capacity objects, resizes in place, extenders and
//! plugins beside the default ones.

mod attempt;
mod class;
mod intake;
mod nodes;
mod pod_counts;
mod pods;
mod preempt;
mod queue;
mod reasons;
mod score;
mod terms;
mod view;
mod volumes;
mod workloads;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use jiff::Timestamp;
use joiner_core::model::{FixedState, Names, fixed_state};

use crate::controller::Participant;
use crate::event::Event;
use crate::object::Key;
use crate::write::Write;
use class::ClassId;
use nodes::{NodeId, Nodes, PodId};
use pod_counts::PodCounts;
use pods::Pods;
use preempt::Budgets;
use queue::Queue;
use view::ClassState;
use volumes::Volumes;
use workloads::Workloads;

/// States of classes that are kept at most; those not used for the longest time go first.
const MOST_STATES: usize = 2048;

/// Who speaks in entries for people.
const COMPONENT: &str = "default-scheduler";

/// How a scheduler is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// It looks after pods that name it.
    pub name: String,
    /// How many of a hundred nodes must accept a pod before scores decide. Nothing: fewer the more nodes there are, as kube-scheduler does;
    /// 100: all, so that the best node is found for certain.
    pub percentage_of_nodes_to_score: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { name: "default-scheduler".to_owned(), percentage_of_nodes_to_score: None }
    }
}

/// What the last step did, for those who want to know more than the writes tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The pod.
    pub pod: Key,
    /// What came of it.
    pub verdict: Verdict,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It goes to a node.
    Bound {
        /// The node.
        node: String,
        /// All nodes with the same score, that node first.
        equals: Vec<String>,
    },
    /// No node accepts it.
    Refused {
        /// `Unschedulable` or `SchedulerError`.
        reason: &'static str,
        /// The sentence.
        message: String,
        /// Nodes on which pods make room, each with these pods; the first is the one that was chosen.
        nominations: Vec<(String, Vec<Key>)>,
    },
}

/// The scheduler.
#[derive(Debug)]
pub struct Scheduler {
    settings: Settings,
    names: Names,
    nodes: Nodes,
    pods: Pods,
    counts: PodCounts,
    volumes: Volumes,
    workloads: Workloads,
    budgets: Budgets,
    queue: Queue,
    states: HashMap<ClassId, Box<ClassState>, FixedState>,
    /// Pods whose volumes are being bound, with the time at which that has taken too long.
    awaiting_volumes: BTreeMap<PodId, Timestamp>,
    inbox: Vec<Event>,
    /// Entries for people about what has come true since the last step.
    notes: Vec<Write>,
    next_start: usize,
    attempts: u64,
    /// The time of the last step.
    now: Timestamp,
    /// The names of equally good nodes are left out of it: there may be hundreds, and few ask.
    last: Option<Attempt>,
    last_equals: Vec<NodeId>,
}

impl Scheduler {
    /// A scheduler that has seen nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            names: Names::default(),
            nodes: Nodes::default(),
            pods: Pods::default(),
            counts: PodCounts::default(),
            volumes: Volumes::default(),
            workloads: Workloads::default(),
            budgets: Budgets::default(),
            queue: Queue::default(),
            states: HashMap::with_hasher(fixed_state()),
            awaiting_volumes: BTreeMap::new(),
            inbox: Vec::new(),
            notes: Vec::new(),
            next_start: 0,
            attempts: 0,
            now: Timestamp::UNIX_EPOCH,
            last: None,
            last_equals: Vec::new(),
        }
    }

    /// Whether a step would find something to do.
    pub fn is_ready(&self) -> bool {
        !self.inbox.is_empty() || !self.notes.is_empty() || self.queue.is_ready()
    }

    /// What the last step did.
    pub fn last(&self) -> Option<Attempt> {
        let mut last = self.last.clone()?;
        if let Verdict::Bound { equals, .. } = &mut last.verdict {
            *equals = self
                .last_equals
                .iter()
                .map(|node| self.nodes.rows[*node as usize].name.to_string())
                .collect();
        }
        Some(last)
    }

    /// How many pods it knows, finished ones left out.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }
}

impl Participant for Scheduler {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    /// What a change means is worked out at the next step, which knows the time.
    fn observe(&mut self, event: &Event) {
        self.inbox.push(event.clone());
    }

    fn step(&mut self, now: Timestamp) -> Vec<Write> {
        self.last = None;
        self.now = now;
        for event in std::mem::take(&mut self.inbox) {
            self.take_in(&event, now);
        }
        let mut writes = std::mem::take(&mut self.notes);
        writes.extend(self.bind_awaiting(now));
        while writes.is_empty()
            && let Some(pod) = self.queue.pop(now)
        {
            // An attempt that ends as the one before it changes nothing: the next pod, please.
            writes = self.attempt(pod, now);
        }
        writes
    }

    fn refused(&mut self, write: &Write, _code: u16, _message: &str) {
        let Write::Bind { pod, .. } = write else { return };
        if let Some(id) = self.pods.find(pod) {
            self.give_up(id, self.now);
        }
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        if self.is_ready() {
            return Some(Timestamp::MIN);
        }
        let volumes = self.awaiting_volumes.values().min().copied();
        match (self.queue.wakes_at(), volumes) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
