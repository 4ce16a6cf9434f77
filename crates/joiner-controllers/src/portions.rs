//! Much work is done in portions, so that the loop is never away from its events for long. What is counted is pieces of work and not time: a slow
//! machine does the same things in the same order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec::IntoIter;

use jiff::Timestamp;
use joiner_record::{Subject, Verb};

use crate::command::{Command, Done, Failure};
use crate::engine::Engine;
use crate::queue::Key;
use crate::record::Note;

/// Pieces of one kind that are done before the loop listens again: events taken in, keys reconciled, answers to commands, notes to write.
pub(crate) const PORTION: usize = 64;

/// The most pieces of work that were done without listening; clones tell of the same loop.
#[derive(Debug, Clone, Default)]
pub struct BusiestTurn(Arc<AtomicUsize>);

impl BusiestTurn {
    /// How many pieces of work they were.
    pub fn pieces(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn note(&self, pieces: usize) {
        self.0.fetch_max(pieces, Ordering::Relaxed);
    }
}

/// What is still to be done of work that was begun.
#[derive(Debug, Default)]
pub(crate) struct Portions {
    answers: VecDeque<Answers>,
    notes: VecDeque<(Note, Timestamp)>,
    /// Pieces done since the loop listened last.
    done: usize,
    pub(crate) busiest: BusiestTurn,
}

/// Answers to the commands of a step.
#[derive(Debug)]
pub(crate) struct Answers {
    key: Key,
    left: IntoIter<(Command, Result<Done, Failure>)>,
    /// What went wrong first.
    worst: Option<((Verb, Subject), Failure)>,
}

impl Answers {
    pub(crate) fn new(key: Key, results: Vec<(Command, Result<Done, Failure>)>) -> Self {
        Self { key, left: results.into_iter(), worst: None }
    }
}

impl Portions {
    /// Whether there is more to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.notes.is_empty()
    }

    pub(crate) fn add_answers(&mut self, answers: Answers) {
        self.answers.push_back(answers);
    }

    pub(crate) fn add_notes(&mut self, notes: Vec<Note>, now: Timestamp) {
        self.notes.extend(notes.into_iter().map(|note| (note, now)));
    }

    /// A piece of work is done.
    pub(crate) fn count(&mut self) {
        self.done += 1;
    }

    /// The loop listens again.
    pub(crate) fn rest(&mut self) {
        self.busiest.note(std::mem::take(&mut self.done));
    }
}

impl Engine {
    /// Goes on with work that was begun.
    pub(crate) fn go_on(&mut self, now: Timestamp) {
        for _ in 0..PORTION {
            let Some(mut answers) = self.portions.answers.pop_front() else { break };
            match answers.left.next() {
                Some((command, result)) => {
                    self.measure_command(&command, &result);
                    let failure = self.took(&answers.key, &command, result, now);
                    if let Some(failure) = failure {
                        answers.worst.get_or_insert((crate::decision::described(&command), failure));
                    }
                    self.portions.count();
                    self.portions.answers.push_front(answers);
                }
                None => {
                    let again = self.busy.remove(&answers.key) == Some(true);
                    self.requeue_after_step(&answers.key, answers.worst, again, now);
                }
            }
        }
        for _ in 0..PORTION {
            let Some((note, noted)) = self.portions.notes.pop_front() else { break };
            self.portions.count();
            if let Some((name, command)) = self.recorder.record(&note, noted) {
                self.spawn(Key::Event(name), Vec::new(), vec![command]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_turn_is_remembered() {
        let mut portions = Portions::default();
        let busiest = portions.busiest.clone();
        for pieces in [3, 7, 5] {
            (0..pieces).for_each(|_| portions.count());
            portions.rest();
        }
        assert_eq!(busiest.pieces(), 7);
        assert!(portions.is_empty());
    }
}
