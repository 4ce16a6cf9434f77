//! The state in a few numbers, for screens.

use std::collections::BTreeMap;
use std::sync::Arc;

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
