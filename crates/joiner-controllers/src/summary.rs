//! The state in a few numbers, for screens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_record::{Decision, Reason, WatchTrouble};

/// What a screen shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// When it was made.
    pub time: Option<Timestamp>,
    /// All kinds that are needed have been listed and are watched: decisions are being made.
    pub ready: bool,
    /// This process carries out what it decides; otherwise it only observes.
    pub leads: bool,
    /// Nodes that joiner made and that are there.
    pub nodes: usize,
    /// Machines asked for whose nodes are not ready for pods.
    pub starting: usize,
    /// Machines on their way out.
    pub leaving: usize,
    /// Pods that the scheduler found no place for.
    pub pending_pods: usize,
    /// Of those, pods that no machine would help.
    pub refused_pods: usize,
    /// Why, of the first of them, by `namespace/name`.
    pub refusals: BTreeMap<String, Arc<[Reason]>>,
    /// Of the first pods that wait for a place they were given: which, and what it lacks; by `namespace/name`.
    pub awaited: BTreeMap<String, Awaited>,
    /// Something is under way or about to be done: commands, a decision, machines that come or go, pods that a new decision may help.
    pub under_way: bool,
    /// Empty machines go within this time, unless something keeps them; zero if there are none.
    pub empty_go_within: Duration,
    /// What all machines cost.
    pub dollars_per_hour: f64,
    /// The last plan that bought something.
    pub last_plan: Option<LastPlan>,
    /// Kinds of objects that cannot be observed.
    pub watch_troubles: Vec<WatchTrouble>,
    /// The last decisions, oldest first.
    pub journal: Vec<Arc<Decision>>,
    /// How many decisions there have been.
    pub decisions: u64,
    /// Counts decisions and what came of them.
    pub journal_changes: u64,
}

/// Where a pod will go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awaited {
    /// The node, or the claim whose node is to come.
    pub place: String,
    /// What it lacks to take pods, if it lacks something.
    pub lacks: Option<String>,
}

/// A plan in numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastPlan {
    /// When.
    pub time: Timestamp,
    /// Machines bought.
    pub machines: usize,
    /// Pods decided on.
    pub pods: usize,
    /// Dollars per hour.
    pub price: f64,
    /// By what share it is dearer than any packing must be.
    pub gap: Option<f64>,
}
