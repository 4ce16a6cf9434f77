//! The last decisions, bounded in number and in size.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::decision::{Completed, Decision, DecisionId};
use crate::verdict::Verdict;

/// What a decision takes besides its texts and lists.
const BASE_BYTES: usize = 256;
/// What an element of a list takes besides its texts.
const ELEMENT_BYTES: usize = 64;

/// The last decisions, oldest first.
#[derive(Debug)]
pub struct Ring {
    entries: VecDeque<(Arc<Decision>, usize)>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
    total: u64,
    changes: u64,
}

impl Ring {
    /// Keeps so many decisions, and of those no more than about so many bytes, but always the last one.
    pub fn new(most: usize, most_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, most: most.max(1), most_bytes, total: 0, changes: 0 }
    }

    /// Adds one; the oldest go if there is no room.
    pub fn push(&mut self, decision: Decision) {
        let bytes = weight(&decision);
        self.total += 1;
        self.changes += 1;
        self.bytes += bytes;
        self.entries.push_back((Arc::new(decision), bytes));
        while self.entries.len() > 1 && (self.entries.len() > self.most || self.bytes > self.most_bytes) {
            if let Some((_, bytes)) = self.entries.pop_front() {
                self.bytes -= bytes;
            }
        }
    }

    /// Notes what came of a command. False if the decision is no longer here, or never had such a command.
    pub fn complete(&mut self, id: DecisionId, command: usize, completed: Completed) -> bool {
        // Ids are pushed in rising order.
        let Ok(at) = self.entries.binary_search_by(|(decision, _)| decision.id.cmp(&id)) else {
            return false;
        };
        let (decision, _) = &mut self.entries[at];
        let Some(command) = Arc::make_mut(decision).commands.get_mut(command) else { return false };
        command.completed = Some(completed);
        self.changes += 1;
        true
    }

    /// A decision by its id.
    pub fn get(&self, id: DecisionId) -> Option<&Arc<Decision>> {
        let at = self.entries.binary_search_by(|(decision, _)| decision.id.cmp(&id)).ok()?;
        Some(&self.entries[at].0)
    }

    /// All that are here, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<Decision>> {
        self.entries.iter().rev().map(|(decision, _)| decision)
    }

    /// The last so many, oldest first.
    pub fn tail(&self, count: usize) -> Vec<Arc<Decision>> {
        let skipped = self.entries.len().saturating_sub(count);
        self.entries.iter().skip(skipped).map(|(decision, _)| decision.clone()).collect()
    }

    /// How many are here.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// About how many bytes those here take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many there have been.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Counts decisions and outcomes: who has seen this number has seen everything.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// About how many bytes a decision takes. Lists are bounded, so elements are counted and not weighed.
fn weight(decision: &Decision) -> usize {
    let elements = decision.subjects.len() * 2
        + decision.commands.len() * 3
        + match &decision.verdict {
            Verdict::Provisioned { machines, types, .. } => {
                machines.iter().map(|machine| 4 + machine.pods.shown.len()).sum::<usize>() + types.len()
            }
            Verdict::Nominated { nominations, .. } => nominations.len() * 3,
            Verdict::Refused { reasons, .. } => reasons.len() * 4,
            Verdict::Failed { message, .. } => message.len() / ELEMENT_BYTES,
            _ => 2,
        };
    BASE_BYTES + elements * ELEMENT_BYTES
}
