//! The cause of a refusal as data: names and numbers, no sentence. [`words`](super::words) says it to people.
//!
//! Amounts are whole numbers: thousandths of a core for `cpu`, bytes for memory, storage and huge pages, pieces for everything else.

use super::Reject;

/// The one thing that decided, with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum Cause {
    /// The pod itself can't be looked at.
    Pod {
        /// What is wrong with it.
        message: String,
    },
    /// There is no pool at all.
    NoPool,
    /// The pool may not launch.
    PoolNotReady {
        /// What it says of itself.
        message: String,
    },
    /// The kind of the pool's node class is not served here.
    ClassNotServed {
        /// The kind.
        kind: String,
        /// Its group.
        group: String,
    },
    /// A taint of the pool is not tolerated.
    Taint {
        /// As `key=value:Effect`.
        taint: String,
    },
    /// The pod's own requirements on a label leave no value.
    OwnContradiction {
        /// The label.
        key: String,
    },
    /// The pool's machines have no such label.
    UndefinedLabel {
        /// The requirement.
        asked: String,
        /// A label of nearly the same name.
        nearest: Option<String>,
    },
    /// The pool has other values of a label.
    PoolDisagrees {
        /// The pod's requirement.
        asked: String,
        /// The pool's.
        pool_has: String,
        /// A value of nearly the same name.
        nearest: Option<String>,
    },
    /// Requirements of pod and pool contradict each other taken together.
    Contradiction,
    /// The pool reaches none of the places where the pod's volumes are.
    VolumesUnreachable,
    /// No offering is where the pod's volumes are.
    VolumesWithoutOffering,
    /// No instance type attaches so many volumes.
    TooManyVolumes {
        /// Their driver.
        driver: String,
        /// Volumes the pod brings.
        wanted: u64,
        /// The most that a type attaches.
        most: u64,
    },
    /// The pool's requirements match no instance type.
    NoInstanceType {
        /// The requirement, if one alone leaves none.
        alone: Option<String>,
        /// A value of nearly the same name.
        nearest: Option<String>,
    },
    /// The pod's offerings can't be had now.
    OfferingsUnavailable,
    /// No type of the pool holds the pool's daemons.
    DaemonsTooLarge,
    /// Nothing of what the pool asks for can be had now.
    PoolUnavailable {
        /// The pool's requirement, if one alone leaves nothing.
        asked: Option<String>,
        /// Its label.
        key: Option<String>,
        /// Values that can be had.
        available: Listed,
    },
    /// No offering has what the pod asks of a label.
    NoOffering {
        /// The label.
        key: String,
        /// The requirement.
        asked: String,
        /// The values asked for, if these are what is missing.
        values: Vec<String>,
        /// Values that offerings have.
        offered: Listed,
        /// A value of nearly the same name.
        nearest: Option<String>,
    },
    /// No offering has everything the pod asks for.
    NoOfferingTogether {
        /// The requirements.
        asked: Vec<String>,
    },
    /// No type has as much of a resource.
    Resources {
        /// What is short, by resource.
        short: Vec<Shortage>,
        /// The CPU request is so large that its unit is likely wrong.
        unit_doubtful: bool,
    },
    /// Each amount is there, but no type has all of them.
    ResourcesTogether {
        /// What is asked for.
        wanted: Vec<Amount>,
    },
    /// Daemons take the pod's host ports.
    HostPort {
        /// As `port/protocol`.
        ports: Vec<String>,
    },
    /// The pool has as many nodes as it may.
    NodeLimit {
        /// The limit.
        #[cfg_attr(feature = "serde", serde(default))]
        limit: i64,
        /// Nodes that are there or on their way.
        #[cfg_attr(feature = "serde", serde(default))]
        used: i64,
        /// Nodes of this plan.
        #[cfg_attr(feature = "serde", serde(default))]
        planned: i64,
    },
    /// A limit of the pool is reached.
    Limit {
        /// Those that leave too little; all of them if only all together do.
        limits: Vec<LimitReached>,
        /// The label whose minValues cannot be had of what the limits leave.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        min_values: Option<String>,
    },
    /// Too few distinct values are left.
    MinValues {
        /// The label.
        key: String,
        /// Values left.
        left: u64,
        /// Values wanted.
        needed: u64,
    },
    /// Reserved capacity is used up for now.
    Reserved,
    /// Spread, affinity or anti-affinity forbids every place.
    Topology {
        /// The pod's rules.
        rules: Vec<TopologyRule>,
        /// Whether required anti-affinity of other pods forbids it too.
        others_refuse: bool,
    },
    /// The nodes that are there, by what ruled them out.
    Existing {
        /// Cordoned or leaving.
        cordoned: u64,
        /// With a taint that is not tolerated.
        tainted: u64,
        /// Without the labels asked for.
        unlabelled: u64,
        /// Without room.
        full: u64,
        /// Ruled out by topology, ports or volumes.
        ruled_out: u64,
    },
}

/// The first of many names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]
pub struct Listed {
    /// In order.
    pub shown: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

/// An amount of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]
pub struct Amount {
    /// Its name.
    pub resource: String,
    /// How much.
    pub amount: i64,
}

/// A resource of which no type has enough.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]
pub struct Shortage {
    /// Its name.
    pub resource: String,
    /// How much the pod asks for.
    pub asked: i64,
    /// The most that a type has room for.
    pub largest: i64,
}

/// A limit of a pool that leaves too little.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]
pub struct LimitReached {
    /// The resource.
    pub resource: String,
    /// The limit.
    pub limit: i64,
    /// What nodes that are there or on their way use.
    #[cfg_attr(feature = "serde", serde(default))]
    pub used: i64,
    /// What nodes of this plan use.
    #[cfg_attr(feature = "serde", serde(default))]
    pub planned: i64,
    /// What it leaves.
    pub left: i64,
    /// What the smallest type that holds the pod has; with minValues, what a node must be able to have.
    pub smallest: i64,
}

/// A topology rule of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")
)]
pub enum TopologyRule {
    /// Spread.
    Spread {
        /// Over the values of this label.
        key: String,
        /// The largest difference allowed.
        max_skew: i32,
        /// The fewest values that must count.
        min_domains: Option<i32>,
        /// Pods per value.
        counts: Counts,
    },
    /// Affinity.
    Affinity {
        /// On the values of this label.
        key: String,
    },
    /// Anti-affinity.
    AntiAffinity {
        /// On the values of this label.
        key: String,
        /// Pods per value.
        counts: Counts,
    },
}

/// Pods per value of a label, fewest first; of many values those in the middle are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]
pub struct Counts {
    /// Values with the fewest pods.
    pub fewest: Vec<(String, u32)>,
    /// How many values are left out.
    pub more: u64,
    /// Values with the most pods.
    pub most: Vec<(String, u32)>,
}

impl Cause {
    /// The kind of refusal that this is.
    pub fn code(&self) -> Reject {
        match self {
            Self::Pod { .. } => Reject::Pod,
            Self::NoPool => Reject::NoPool,
            Self::PoolNotReady { .. } | Self::ClassNotServed { .. } => Reject::PoolNotReady,
            Self::Taint { .. } => Reject::Taint,
            Self::UndefinedLabel { .. } => Reject::UndefinedLabel,
            Self::OwnContradiction { .. }
            | Self::PoolDisagrees { .. }
            | Self::Contradiction
            | Self::NoOffering { .. }
            | Self::NoOfferingTogether { .. } => Reject::Requirement,
            Self::VolumesUnreachable | Self::VolumesWithoutOffering | Self::TooManyVolumes { .. } => {
                Reject::Volume
            }
            Self::NoInstanceType { .. } => Reject::NoInstanceType,
            Self::Resources { .. } | Self::ResourcesTogether { .. } => Reject::Resources,
            Self::OfferingsUnavailable | Self::DaemonsTooLarge | Self::PoolUnavailable { .. } => {
                Reject::Offering
            }
            Self::HostPort { .. } => Reject::HostPort,
            Self::NodeLimit { .. } | Self::Limit { .. } => Reject::Limit,
            Self::MinValues { .. } => Reject::MinValues,
            Self::Reserved => Reject::Reserved,
            Self::Topology { .. } => Reject::Topology,
            Self::Existing { .. } => Reject::Existing,
        }
    }
}
