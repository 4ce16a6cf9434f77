//! What comes of a search, as values: nothing in them needs the scratch any more.

use crate::model::ids::{NodeIdx, PodIdx};
use crate::plan::{Bill, Plan};

use super::search::Cursor;

/// What comes of a search.
#[derive(Debug)]
pub struct Consolidation {
    /// What to do, in order.
    pub commands: Vec<Command>,
    /// By node.
    pub verdicts: Vec<Verdict>,
    /// Where every pod that moves goes, and the machines to launch for them: a plan for the snapshot without the nodes of the commands.
    pub plan: Plan,
    /// What the nodes cost that have a known price, before.
    pub before: Bill,
    /// And after.
    pub after: Bill,
    /// Where to go on, if the work did not suffice.
    pub cursor: Option<Cursor>,
    /// Placements tried.
    pub work: u64,
}

/// Why nodes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing worth anything runs on them.
    Empty,
    /// Their pods find room on other nodes.
    Delete,
    /// Their pods are cheaper elsewhere, machines to launch included.
    Replace,
}

/// Nodes that go together.
#[derive(Debug, Clone)]
pub struct Command {
    /// Why.
    pub kind: Kind,
    /// The nodes.
    pub nodes: Vec<NodeIdx>,
    /// Machines to launch before, as positions in the plan.
    pub machines: Vec<usize>,
    /// The pods that move.
    pub moves: Vec<Move>,
    /// Nano-dollars per hour that the nodes cost beyond the machines.
    pub saving_nano_usd: i64,
}

/// A pod that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The pod.
    pub pod: PodIdx,
    /// Its node.
    pub from: NodeIdx,
    /// Where there is room for it.
    pub to: Place,
}

/// Where a pod can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A node that stays.
    Node(NodeIdx),
    /// A machine of the plan, by position.
    Machine(usize),
    /// Nowhere: a pod worth nothing on an empty node.
    Nowhere,
}

/// What became of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It may not be disrupted: its facts say why.
    Blocked,
    /// It goes, by the command at this position.
    Goes(usize),
    /// It could go and stays.
    Stays {
        /// What it costs, nano-dollars per hour.
        price_nano_usd: i64,
        /// What its pods are worth, nano-dollars per hour, where that could be worked out.
        worth_nano_usd: Option<i64>,
        /// The cheapest machines that would hold what finds no room elsewhere, if that was tried.
        replacement_nano_usd: Option<i64>,
        /// Why.
        why: Why,
    },
}

/// Why a node that could go stays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// This pod finds no room elsewhere, and a new machine would not be cheaper.
    NotCheaper {
        /// The first such pod.
        pod: PodIdx,
    },
    /// This pod finds no place at all, not on a new machine either.
    NoPlace {
        /// The pod.
        pod: PodIdx,
    },
    /// There is room only if kube-scheduler places pods better than it does.
    OnlyInBestOrder {
        /// The first pod that might not find a place.
        pod: PodIdx,
    },
    /// A new machine would become a domain of spreads whose pods cannot go there.
    OpensDomain,
    /// A spot machine would be replaced by another.
    SpotToSpot,
    /// Its pool's policy asks for more in return for the disruption.
    NotBalanced {
        /// The score; a half is asked for.
        score: f64,
    },
    /// Budgets let others go first.
    Budget,
    /// Others go: what they leave does not let this one go as well, or not for less.
    OthersGo,
    /// Its facts forbid it by now.
    Blocked,
    /// The work did not suffice to ask.
    NotReached,
}
