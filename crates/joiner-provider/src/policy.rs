//! What a provider says about machines besides launching and ending them: drift, repair, registration, interruptions, prices.

#![allow(missing_docs, reason = "fields and variants that explain themselves have no comment")]

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::{Instance, OfferingKey, TypeSet};

/// What a claim is compared with to find drift.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The node class as stored, if there is one.
    pub class: Option<&'a Value>,
    pub types: &'a TypeSet,
    /// The machine, where it was asked for.
    pub instance: Option<&'a Instance>,
}

/// A machine is no longer what its claim's class asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The reason of the claim's condition.
    pub reason: &'static str,
    pub message: String,
}

/// A condition of a Node that is not waited out for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairPolicy {
    pub condition_type: String,
    /// The status that is bad: `True`, `False` or `Unknown`.
    pub status: String,
    /// How long it is tolerated.
    pub toleration: Duration,
}

/// By what a Node is recognised as that of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchBy {
    ProviderId,
    /// The Node is named as the claim: where ids are not known before the Node joins.
    NodeName,
}

/// How Nodes join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistrationPolicy {
    pub match_by: MatchBy,
    /// Nodes are to come with the taint `karpenter.sh/unregistered`: a Node without it is remarked on, since pods may have come before us.
    pub needs_unregistered_taint: bool,
    /// Taints of the claim are put on the Node by us, not by its bootstrap.
    pub sync_taints: bool,
}

impl Default for RegistrationPolicy {
    fn default() -> Self {
        Self { match_by: MatchBy::ProviderId, needs_unregistered_taint: true, sync_taints: true }
    }
}

/// A point in a machine's life at which a provider may have something to do first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookPoint {
    /// The Node has joined and is about to count as registered.
    Registered,
    /// The Node is about to count as ready for pods.
    Initialized,
    /// The Node is drained, the machine about to be ended.
    BeforeTermination,
}

impl HookPoint {
    /// All points.
    pub const ALL: [Self; 3] = [Self::Registered, Self::Initialized, Self::BeforeTermination];
}

/// Whether life goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookAnswer {
    Done,
    /// Not yet; ask again after so long.
    Wait(Duration),
}

/// What happens to a machine without our doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptionKind {
    /// Taken back by the cloud soon.
    Reclaimed,
    /// More likely than before to be taken back.
    RebalanceRecommended,
    Maintenance,
    Impaired,
    Stopping,
    Terminated,
}

/// A word from the cloud about a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    pub provider_id: String,
    pub kind: InterruptionKind,
    /// When it happens, where the cloud says.
    pub at: Option<Timestamp>,
    /// What ran out with it: a reclaimed spot machine says its offering is scarce.
    pub offering: Option<OfferingKey>,
    pub message: String,
}

/// What an offering costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    pub per_hour: f64,
    /// As ISO 4217 has it.
    pub currency: &'static str,
    /// When the cloud said so, where that is known.
    pub as_of: Option<Timestamp>,
    /// Computed by us because the cloud names none.
    pub is_estimated: bool,
}
