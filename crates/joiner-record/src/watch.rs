//! Kinds of objects that cannot be observed: which, why, and what is disabled by it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A kind of objects, as rules of RBAC name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// `nodepools`.
    pub plural: String,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

/// What the server was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WatchVerb {
    /// All objects.
    List,
    /// Their changes.
    Watch,
}

impl WatchVerb {
    /// As rules of RBAC write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
        }
    }
}

/// A kind that cannot be observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WatchTrouble {
    /// The kind.
    pub resource: Resource,
    /// What did not work.
    pub verb: WatchVerb,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub trouble: Trouble,
    /// What does not work without it.
    pub disables: Disabled,
}

impl WatchTrouble {
    /// Whether nothing is decided meanwhile: for want of the objects, or because what is known of them grows old.
    pub fn blocks(&self) -> bool {
        self.disables == Disabled::Decisions && !matches!(self.trouble, Trouble::Failing { .. })
    }
}

/// Why a kind cannot be observed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Trouble {
    /// The server does not let us.
    Forbidden,
    /// The server has no such kind.
    NotServed,
    /// Anything that may pass.
    Failing {
        /// How often it has failed in a row.
        failures: u64,
        /// The last error.
        message: String,
    },
}

/// What does not work without a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Disabled {
    /// Everything.
    Decisions,
    /// Pools of that kind of node class.
    PoolsOfClass,
    /// Prices and capacity from NodeOverlays.
    Overlays,
    /// Room for daemons on new machines.
    DaemonOverhead,
    /// Knowing which pods budgets keep where they are.
    HeldPods,
    /// Namespace selectors of pod affinity.
    NamespaceSelectors,
    /// Pods with volumes.
    Volumes,
    /// Storage classes' zones.
    StorageClasses,
    /// Pods with priority classes.
    Priorities,
    /// Limits of volumes per node.
    VolumeLimits,
    /// Waiting for volumes to leave a node that goes.
    Detachment,
}
