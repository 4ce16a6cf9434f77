//! A cluster on the screen.
//!
//! [`Board`] is told of every change to a node or pod and keeps what a screen shows of them, so that a frame costs the nodes it
//! shows and never a look at all pods. [`Picture`] is one moment of it together with what only others know: the bill, the
//! decisions, the time. [`screen`] draws a picture into a terminal, at what somebody
//! [looks](look) at; [`lines`] tells it to a reader who has none, [`report`] to a program.

mod board;
mod columns;
pub mod lines;
pub mod look;
pub mod report;
pub mod screen;

pub use board::{Board, NodeRow, NodeState, PodCounts, Waiting};

use jiff::Timestamp;

/// One decision, as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// When, by the cluster's clock.
    pub at: Timestamp,
    /// What, in one sentence.
    pub what: String,
}

/// One moment of a cluster.
#[derive(Debug, Clone)]
pub struct Picture {
    /// The cluster's time.
    pub now: Timestamp,
    /// How fast it passes: `real time`, `60x`, `as fast as it can`.
    pub pace: String,
    /// Nodes, by pool and name.
    pub nodes: Vec<NodeRow>,
    /// Pods by what they are doing.
    pub pods: PodCounts,
    /// Pods that wait, and why.
    pub waiting: Vec<Waiting>,
    /// By what share the last plan was dearer than any packing must be, if that was worked out.
    pub gap: Option<f64>,
    /// The latest decisions, oldest first.
    pub decisions: Vec<Decision>,
    /// What joiner cannot do, and why.
    pub warnings: Vec<String>,
    /// What is happening in a scripted run.
    pub caption: Option<String>,
    /// The file that lets kubectl in, if anybody is let in.
    pub kubeconfig: Option<String>,
}

impl Picture {
    /// What all nodes of known price cost.
    pub fn price_per_hour(&self) -> f64 {
        self.nodes.iter().filter_map(|node| node.price_per_hour).sum()
    }

    /// How many nodes have a price that nobody knows.
    pub fn nodes_without_price(&self) -> usize {
        self.nodes.iter().filter(|node| node.price_per_hour.is_none()).count()
    }

    /// The shares of CPU and memory that pods have asked for, of what nodes have.
    pub fn requested(&self) -> (f64, f64) {
        let sum = |of: fn(&NodeRow) -> i64| self.nodes.iter().map(of).sum::<i64>() as f64;
        let share = |used: f64, all: f64| if all > 0.0 { used / all } else { 0.0 };
        (
            share(sum(|node| node.cpu_used_milli), sum(|node| node.cpu_milli)),
            share(sum(|node| node.memory_used_bytes), sum(|node| node.memory_bytes)),
        )
    }
}

/// Hours in a month, as bills count them.
pub const HOURS_PER_MONTH: f64 = 730.0;
