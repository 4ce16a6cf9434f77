//! A bounded journal of what was decided and why, for screens and for people who ask.

use std::collections::VecDeque;

use jiff::Timestamp;

/// What kind of decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionKind {
    /// Machines were asked for.
    Provisioned,
    /// Pods have no place.
    Refused,
    /// A machine was launched.
    Launched,
    /// A claim was given up: no capacity, no registration, no class.
    GaveUp,
    /// A node was found empty and goes.
    Emptied,
    /// A claim has reached its age.
    Expired,
    /// A machine is gone.
    Terminated,
    /// Something that lost its other half was cleared away.
    Collected,
    /// Something could not be done.
    Failed,
}

/// One decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// When.
    pub time: Timestamp,
    /// What kind.
    pub kind: DecisionKind,
    /// One sentence.
    pub summary: String,
    /// The objects it is about, as `kind/name`.
    pub objects: Vec<String>,
    /// What it changes in dollars per hour.
    pub dollars_per_hour: f64,
}

/// The last decisions, oldest first.
#[derive(Debug)]
pub struct Journal {
    entries: VecDeque<Decision>,
    room: usize,
    /// How many there have been.
    pub total: u64,
}

impl Journal {
    /// An empty journal that keeps so many.
    pub fn new(room: usize) -> Self {
        Self { entries: VecDeque::new(), room, total: 0 }
    }

    /// Adds one; the oldest goes if there is no room.
    pub fn add(&mut self, decision: Decision) {
        self.total += 1;
        self.entries.push_back(decision);
        if self.entries.len() > self.room {
            self.entries.pop_front();
        }
    }

    /// The last so many, oldest first.
    pub fn tail(&self, count: usize) -> Vec<Decision> {
        self.entries.iter().skip(self.entries.len().saturating_sub(count)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_keeps_the_last() {
        let mut journal = Journal::new(2);
        for number in 0..3 {
            journal.add(Decision {
                time: Timestamp::UNIX_EPOCH,
                kind: DecisionKind::Refused,
                summary: number.to_string(),
                objects: Vec::new(),
                dollars_per_hour: 0.0,
            });
        }
        let summaries: Vec<String> = journal.tail(9).into_iter().map(|entry| entry.summary).collect();
        assert_eq!((summaries, journal.total), (vec!["1".to_owned(), "2".to_owned()], 3));
        assert_eq!(journal.tail(1)[0].summary, "2");
    }
}
