//! A decision and its parts.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use joiner_core::explain::{Cause, Reject};
use joiner_core::model::Snapshot;
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// Objects, commands and reasons that a decision names; of more it says how many.
pub const MOST_NAMED: usize = 64;

/// Something that was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Its name.
    pub id: DecisionId,
    /// When.
    pub time: Timestamp,
    /// The generation of the snapshot that it was made from.
    pub snapshot: u64,
    /// What was decided.
    pub verdict: Verdict,
    /// The objects it is about.
    pub subjects: Vec<Subject>,
    /// How many objects more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_subjects: u64,
    /// What all machines cost before it and will cost after it, if it changes that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceChange>,
    /// What could have been decided too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// What carries it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// How many commands more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_commands: u64,
    /// Nobody carries it out: it is what would be done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Names a decision: the second in which the process began to decide, and a number that counts up from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DecisionId {
    /// Seconds since 1970.
    pub run: i64,
    /// Its number within the run.
    pub number: u64,
}

const RUN: &str = "%Y%m%dT%H%M%S";

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = Timestamp::from_second(self.run).unwrap_or_default();
        write!(f, "{}-{}", run.strftime(RUN), self.number)
    }
}

impl From<DecisionId> for String {
    fn from(id: DecisionId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for DecisionId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for DecisionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("decision id `{text}`: not of the form `20260105T080000-17`");
        let (run, number) = text.split_once('-').ok_or_else(fault)?;
        let run = jiff::civil::DateTime::strptime(RUN, run).map_err(|_| fault())?;
        let run = run.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| fault())?.timestamp().as_second();
        Ok(Self { run, number: number.parse().map_err(|_| fault())? })
    }
}

/// An object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// As Kubernetes calls it: `Pod`, `NodeClaim`; `Machine` for one of the provider's.
    pub kind: String,
    /// Namespace, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// Uid, if it exists already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl Subject {
    /// An object without a namespace.
    pub fn new(kind: &str, name: impl Into<String>, uid: Option<String>) -> Self {
        Self { kind: kind.to_owned(), namespace: None, name: name.into(), uid }
    }

    /// An object in a namespace.
    pub fn within(
        kind: &str,
        namespace: impl Into<String>,
        name: impl Into<String>,
        uid: Option<String>,
    ) -> Self {
        Self { namespace: Some(namespace.into()), ..Self::new(kind, name, uid) }
    }

    /// The name, with the namespace in front where there is one.
    pub fn key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// What all machines cost, in dollars per hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PriceChange {
    /// Before the decision.
    pub before_usd_per_hour: f64,
    /// When it is carried out.
    pub after_usd_per_hour: f64,
}

/// Why a pool, or everything that is no pool, did not take pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The pool; nothing for reasons that concern no pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// The kind of the reason.
    pub code: Reject,
    /// What decided, with its numbers.
    pub cause: Cause,
}

impl Reason {
    /// A reason.
    pub fn new(node_pool: Option<String>, cause: Cause) -> Self {
        Self { node_pool, code: cause.code(), cause }
    }

    /// The planner's reason, with names in place of the snapshot's numbers.
    pub fn of(snapshot: &Snapshot, reason: &joiner_core::explain::Reason) -> Self {
        let pool = reason.pool.map(|pool| snapshot.pools[pool.at()].name.to_string());
        Self::new(pool, reason.cause.clone())
    }
}

/// Something that was not decided though it could have been.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Alternative {
    /// The machines that Karpenter's strategy would have bought for the same pods: dearer, or no cheaper.
    OriginalPacking {
        /// How many.
        machines: u64,
        /// Their price.
        usd_per_hour: f64,
    },
    /// Machines that keep all preferences of pods: too dear.
    PreferencesKept {
        /// Pods with preferences.
        pods: u64,
        /// How many machines.
        machines: u64,
        /// Their price.
        usd_per_hour: f64,
        /// So much more than without, charges per node included; nothing if without them nothing is paid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dearer_by_share: Option<f64>,
    },
}

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// Created.
    Create,
    /// Changed.
    Update,
    /// Its status changed.
    UpdateStatus,
    /// Deleted.
    Delete,
    /// A node's pods are listed once more.
    ListPods,
    /// A pod is asked to leave.
    Evict,
    /// A machine is ended.
    Terminate,
    /// A node group gets another target.
    Resize,
    /// A launch that is pending is given up.
    CancelLaunch,
    /// The provider is asked whether there still is a machine.
    FindMachine,
    /// An event is written.
    WriteEvent,
    /// The record of decisions is written.
    WriteRecord,
    /// A machine is launched.
    Launch,
    /// A provider's machines are listed.
    List,
    /// Machines that another process launched are handed over to their provider.
    Adopt,
    /// An object is brought into agreement with what is wanted of it.
    Reconcile,
}

/// A command of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// What is done.
    pub verb: Verb,
    /// To what.
    pub object: Subject,
    /// What came of it, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Completed>,
}

/// What came of a command, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Completed {
    /// When.
    pub time: Timestamp,
    /// What.
    pub outcome: Outcome,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Outcome {
    /// It was carried out.
    Done,
    /// Somebody else changed the object first.
    Conflict,
    /// The object is gone.
    Gone,
    /// Not now: a budget, a server that asks for patience, too much to do, or somebody else who leads.
    Postponed {
        /// What it said.
        message: String,
    },
    /// Pods came to the node.
    NotEmpty,
    /// It failed.
    Failed {
        /// Why.
        message: String,
    },
    /// A command before it failed.
    NotTried,
}
