//! What can be decided.

use std::collections::BTreeMap;

use joiner_core::explain::Listed;
use serde::{Deserialize, Serialize};

use crate::decision::{Reason, Subject, Verb, is_zero};
use crate::watch::{Resource, WatchTrouble};

/// What was decided. The objects it is about are the decision's subjects, in the order told here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// Machines are bought. Subjects: their claims, and the node groups that grow.
    Provisioned {
        /// The first of them.
        machines: Vec<Machine>,
        /// How many there are by instance type.
        types: BTreeMap<String, u64>,
        /// Pods they are for.
        pods: u64,
        /// Their price.
        usd_per_hour: f64,
    },
    /// Pods are expected on places that are there. Subjects: the pods.
    Nominated {
        /// The first of them, with their places.
        nominations: Vec<Nomination>,
        /// How many pods.
        pods: u64,
    },
    /// Pods have no place, all for the same reasons. Subjects: the pods.
    Refused {
        /// One per pool, and one for the existing nodes.
        reasons: Vec<Reason>,
        /// How many pods.
        pods: u64,
    },
    /// A machine was launched. Subject: its claim.
    Launched {
        /// Type, if the provider says.
        instance_type: Option<String>,
        /// Zone, if the provider says.
        zone: Option<String>,
        /// Capacity type, if the provider says.
        capacity_type: Option<String>,
    },
    /// A claim is given up. Subject: the claim.
    GaveUp {
        /// Why.
        why: GaveUp,
    },
    /// A node without pods goes. Subjects: its node, its claim or, out of a group, its machine.
    Emptied {
        /// What it costs.
        usd_per_hour: f64,
    },
    /// A claim has reached its age. Subject: the claim.
    Expired {
        /// The age.
        expire_after: String,
    },
    /// A machine is gone. Subject: its claim.
    Terminated,
    /// Something that lost its other half is cleared away. Subject: it.
    Collected {
        /// What it is.
        orphan: Orphan,
    },
    /// A list of machines lacks so many at once that it is not believed. Subject: its provider.
    ListDoubted {
        /// Machines that it lacks.
        missing: u64,
        /// Machines that are known.
        known: u64,
    },
    /// Something could not be done. Subject: the object of the command.
    Failed {
        /// What was tried.
        verb: Verb,
        /// Why not.
        message: String,
        /// When it is tried again.
        retry_after_seconds: u64,
    },
    /// Budgets of a pool keep empty nodes. Subject: the pool.
    DisruptionBlocked,
    /// A pod was asked to leave. Subject: the pod.
    Evicted {
        /// Why its node goes, as the claim says it.
        reason: String,
    },
    /// A kind of objects cannot be observed. No subject.
    WatchTrouble(WatchTrouble),
    /// It can be observed again. No subject.
    WatchRecovered {
        /// The kind.
        resource: Resource,
        /// How long it could not.
        after_seconds: u64,
    },
}

impl Verdict {
    /// Its kind as programs write it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Provisioned { .. } => "provisioned",
            Self::Nominated { .. } => "nominated",
            Self::Refused { .. } => "refused",
            Self::Launched { .. } => "launched",
            Self::GaveUp { .. } => "gaveUp",
            Self::Emptied { .. } => "emptied",
            Self::Expired { .. } => "expired",
            Self::Terminated => "terminated",
            Self::Collected { .. } => "collected",
            Self::ListDoubted { .. } => "listDoubted",
            Self::Failed { .. } => "failed",
            Self::DisruptionBlocked => "disruptionBlocked",
            Self::Evicted { .. } => "evicted",
            Self::WatchTrouble(_) => "watchTrouble",
            Self::WatchRecovered { .. } => "watchRecovered",
        }
    }

    /// Whether commands made together with it carry it out; the others only tell.
    pub fn is_carried_out(&self) -> bool {
        match self {
            Self::Provisioned { .. }
            | Self::Launched { .. }
            | Self::GaveUp { .. }
            | Self::Emptied { .. }
            | Self::Expired { .. }
            | Self::Terminated
            | Self::Collected { .. } => true,
            Self::Nominated { .. }
            | Self::Refused { .. }
            | Self::ListDoubted { .. }
            | Self::Failed { .. }
            | Self::DisruptionBlocked
            | Self::Evicted { .. }
            | Self::WatchTrouble(_)
            | Self::WatchRecovered { .. } => false,
        }
    }
}

/// A machine that is bought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Its claim, unless it comes from a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// Its pool, unless it comes from a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// The node group that grows by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_group: Option<String>,
    /// The cheapest type that holds its pods.
    pub instance_type: String,
    /// Zone of that offering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Capacity type of that offering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    /// The price of that offering.
    pub usd_per_hour: f64,
    /// Other types that would do, all of them dearer or equal.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_types: u64,
    /// Its pods, `namespace/name`.
    pub pods: Listed,
}

/// A pod and the place it is expected on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nomination {
    /// `namespace/name`.
    pub pod: String,
    /// A Node, a NodeClaim whose node has not come yet, or a Machine that is still to come to its group.
    pub place: Subject,
}

/// Why a claim is given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GaveUp {
    /// None of its offerings can be had.
    NoCapacity {
        /// What the provider says.
        message: String,
    },
    /// Its node class cannot be used.
    ClassNotReady {
        /// What is wrong with it.
        message: String,
    },
    /// No machine was launched in time.
    NotLaunched {
        /// The time it had.
        within_seconds: u64,
        /// What its condition says.
        message: String,
    },
    /// No node came in time.
    NotRegistered {
        /// The time it had.
        within_seconds: u64,
        /// What its condition says.
        message: String,
    },
}

/// What lost its other half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Orphan {
    /// A machine without a claim.
    Machine,
    /// A claim without a machine.
    Claim,
}
