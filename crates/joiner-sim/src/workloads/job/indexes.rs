//! Sets of indexes of a job, in the short form of its status: `0-2,5`.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use super::pods::index_of;
use crate::object::{Fields, Key, Object};

/// A set of indexes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    done: BTreeSet<i64>,
}

impl Indexes {
    /// Those of the status, with those of pods that have just succeeded.
    pub fn of(job: &Value, succeeded: &[(&Key, &Object)]) -> Self {
        let completions = job.number(&["spec", "completions"]).unwrap_or(0);
        let mut indexes = Self::parse(job.text(&["status", "completedIndexes"]), completions);
        let new = succeeded.iter().filter_map(|(_, pod)| index_of(pod));
        indexes.done.extend(new.filter(|index| *index < completions));
        indexes
    }

    /// Those that have failed for good.
    pub fn failed_before(job: &Value) -> Self {
        let completions = job.number(&["spec", "completions"]).unwrap_or(0);
        Self::parse(job.text(&["status", "failedIndexes"]), completions)
    }

    /// The indexes of a text that are below `completions`.
    pub fn parse(text: &str, completions: i64) -> Self {
        let mut done = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) {
                done.extend(first..=last.min(completions - 1));
            }
        }
        Self { done }
    }

    pub fn insert(&mut self, index: i64) {
        self.done.insert(index);
    }

    /// How many of them are in another set.
    pub fn count_in(&self, other: &Self) -> i64 {
        i64::try_from(self.done.intersection(&other.done).count()).unwrap_or(i64::MAX)
    }

    pub fn contains(&self, index: i64) -> bool {
        self.done.contains(&index)
    }

    pub fn count(&self) -> i64 {
        i64::try_from(self.done.len()).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for index in &self.done {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == *index => *last = *index,
                _ => runs.push((*index, *index)),
            }
        }
        let parts = runs.into_iter().map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        });
        out.write_str(&parts.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_in_runs() {
        for text in ["", "0", "0,1", "0-2", "0-2,5", "1,3,4,6-9"] {
            assert_eq!(Indexes::parse(text, 10).to_string(), text);
        }
        assert_eq!(Indexes::parse("0-4", 10).count(), 5);
        let some = Indexes::parse("0-4,9", 10);
        assert!(some.contains(9) && !some.contains(5));
        assert_eq!(some.count_in(&Indexes::parse("3-9", 10)), 3);
        assert_eq!(Indexes::parse("2-4000000000,9", 4).to_string(), "2,3");
    }
}
