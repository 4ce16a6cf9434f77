//! What is decided on beside the snapshot: who may be disrupted, what it costs, what budgets allow.

use std::fmt;
use std::sync::Arc;

use crate::model::ids::PodIdx;
use crate::model::{ResVec, Snapshot};

/// A cluster whose nodes may be taken away.
#[derive(Debug)]
pub struct Fleet {
    /// Nodes with everything that runs on them. Its pods are those that wait, then those that would need another node if theirs went: these are
    /// on their nodes and have a class besides.
    pub snapshot: Snapshot,
    /// How many of the pods wait.
    pub waiting: usize,
    /// By node.
    pub nodes: Vec<NodeFacts>,
    /// By pool.
    pub pools: Vec<PoolFacts>,
}

/// What is known of a node.
#[derive(Debug, Clone, Default)]
pub struct NodeFacts {
    /// Its pods that need another node when it goes.
    pub residents: Vec<Resident>,
    /// Why it may not be disrupted; none: it is a candidate.
    pub blocks: Vec<Block>,
    /// What it counts against its pool's limits.
    pub counts: ResVec,
    /// Whether pods of other nodes may move to it: not while it is quiet for less than its pool's `consolidateAfter`, or starting.
    pub receives: bool,
}

/// A pod that needs another node when its own goes.
#[derive(Debug, Clone, Copy)]
pub struct Resident {
    /// The pod.
    pub pod: PodIdx,
    /// See [`super::eviction_cost`].
    pub eviction_cost: f64,
}

/// What a pool's `consolidationPolicy` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Empty nodes only.
    WhenEmpty,
    /// Whatever saves.
    #[default]
    WhenEmptyOrUnderutilized,
    /// What saves enough for what it disrupts.
    Balanced,
}

/// What is known of a pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolFacts {
    /// Its policy.
    pub policy: Policy,
    /// How many empty nodes its budgets let go now; `None`: any number.
    pub empty_allowed: Option<u32>,
    /// How many underutilized ones.
    pub underutilized_allowed: Option<u32>,
    /// What all its nodes cost, nano-dollars per hour, candidates or not.
    pub price_nano_usd: i64,
    /// The disruption cost of all its nodes.
    pub disruption: f64,
}

/// Why a node may not be disrupted, whatever it would save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// It is not of a pool of ours.
    NotManaged,
    /// It has not been ready for pods yet.
    NotInitialized,
    /// It is being deleted, or replaced.
    Leaving,
    /// Pods are expected on it.
    Nominated,
    /// An annotation of the node.
    NodeProtected,
    /// Nobody knows what it costs.
    UnknownPrice,
    /// The cluster is run from it.
    ControlPlane,
    /// Its pool keeps a fixed number of nodes.
    StaticPool,
    /// Its pool's budgets let no node go.
    PoolBudget {
        /// The pool.
        pool: Arc<str>,
    },
    /// Its pool gives up nodes only when they are empty.
    OnlyWhenEmpty,
    /// Its pool never consolidates.
    Never,
    /// Pods have come or gone too lately.
    NotYet {
        /// Seconds since the epoch.
        until: i64,
    },
    /// An annotation of a pod.
    PodProtected {
        /// The pod.
        pod: Arc<str>,
        /// Seconds since the epoch; `None`: for ever.
        until: Option<i64>,
    },
    /// Nobody would make the pod again.
    BarePod {
        /// The pod.
        pod: Arc<str>,
    },
    /// A volume of the pod cannot be reached from elsewhere.
    LocalVolume {
        /// The pod.
        pod: Arc<str>,
        /// Its volume claim.
        claim: Arc<str>,
    },
    /// A PodDisruptionBudget allows no disruption.
    DisruptionBudget {
        /// The pod.
        pod: Arc<str>,
        /// The budget.
        budget: Arc<str>,
    },
    /// Several budgets select the pod: Kubernetes evicts no such pod.
    SeveralBudgets {
        /// The pod.
        pod: Arc<str>,
        /// The budgets.
        budgets: Vec<Arc<str>>,
    },
}

impl Block {
    /// The kind, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotManaged => "NotManaged",
            Self::NotInitialized => "NotInitialized",
            Self::Leaving => "Leaving",
            Self::Nominated => "Nominated",
            Self::NodeProtected => "NodeDoNotDisrupt",
            Self::UnknownPrice => "UnknownPrice",
            Self::ControlPlane => "ControlPlane",
            Self::StaticPool => "StaticPool",
            Self::PoolBudget { .. } => "PoolBudget",
            Self::OnlyWhenEmpty => "OnlyWhenEmpty",
            Self::Never => "ConsolidateNever",
            Self::NotYet { .. } => "ConsolidateAfter",
            Self::PodProtected { .. } => "DoNotDisrupt",
            Self::BarePod { .. } => "BarePod",
            Self::LocalVolume { .. } => "LocalVolume",
            Self::DisruptionBudget { .. } => "DisruptionBudget",
            Self::SeveralBudgets { .. } => "SeveralBudgets",
        }
    }

    /// The pod that is to blame, if one is.
    pub fn pod(&self) -> Option<&str> {
        match self {
            Self::PodProtected { pod, .. }
            | Self::BarePod { pod }
            | Self::LocalVolume { pod, .. }
            | Self::DisruptionBudget { pod, .. }
            | Self::SeveralBudgets { pod, .. } => Some(pod),
            _ => None,
        }
    }

    /// Whether it keeps an empty node, too.
    pub fn holds_empty(&self) -> bool {
        !matches!(self, Self::OnlyWhenEmpty)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotManaged => f.write_str("it belongs to no NodePool"),
            Self::NotInitialized => f.write_str("it has not been ready for pods yet"),
            Self::Leaving => f.write_str("it is being deleted or replaced already"),
            Self::Nominated => f.write_str("pods are expected on it"),
            Self::NodeProtected => {
                f.write_str("annotation `karpenter.sh/do-not-disrupt` of the node keeps it")
            }
            Self::UnknownPrice => f.write_str("its price is not known"),
            Self::ControlPlane => f.write_str("the cluster is run from it"),
            Self::StaticPool => f.write_str("its NodePool keeps a fixed number of nodes"),
            Self::PoolBudget { pool } => write!(f, "a budget of NodePool `{pool}` lets no node go"),
            Self::OnlyWhenEmpty => f.write_str("its NodePool's policy is WhenEmpty, and pods run on it"),
            Self::Never => f.write_str("its NodePool says `consolidateAfter: Never`"),
            Self::NotYet { .. } => {
                f.write_str("pods have come or gone too lately for its NodePool's `consolidateAfter`")
            }
            Self::PodProtected { pod, until: None } => {
                write!(f, "annotation `karpenter.sh/do-not-disrupt` keeps pod `{pod}` there")
            }
            Self::PodProtected { pod, until: Some(_) } => {
                write!(f, "annotation `karpenter.sh/do-not-disrupt` keeps pod `{pod}` there for a while")
            }
            Self::BarePod { pod } => {
                write!(f, "pod `{pod}` has no controller, so nobody would make it again")
            }
            Self::LocalVolume { pod, claim } => {
                write!(f, "the volume of claim `{claim}` of pod `{pod}` is on this node")
            }
            Self::DisruptionBudget { pod, budget } => {
                write!(f, "PodDisruptionBudget `{budget}` allows no disruption of pod `{pod}`")
            }
            Self::SeveralBudgets { pod, budgets } => {
                let names: Vec<String> = budgets.iter().map(|budget| format!("`{budget}`")).collect();
                let names = names.join(", ");
                write!(f, "PodDisruptionBudgets {names} all select pod `{pod}`: such a pod is not evicted")
            }
        }
    }
}
