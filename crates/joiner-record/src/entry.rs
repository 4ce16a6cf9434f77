//! What is appended to a file of decisions, one JSON object per line.

use serde::{Deserialize, Serialize};

use crate::decision::{Completed, Decision, DecisionId};

/// A line.
#[allow(clippy::large_enum_variant, reason = "entries pass by one at a time")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Entry {
    /// Something was decided.
    Decided(Decision),
    /// Something came of a command of an earlier decision.
    Completed {
        /// The decision.
        id: DecisionId,
        /// The command's place in the decision's list, from 0.
        command: u64,
        /// What came of it.
        completed: Completed,
    },
    /// Lines are missing here: the file could not be written as fast as was decided.
    Lost {
        /// How many.
        count: u64,
    },
}
