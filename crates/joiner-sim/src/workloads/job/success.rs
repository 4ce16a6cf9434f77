//! When a job is done before all of its indexes are (`successPolicy`).

use serde_json::Value;

use super::indexes::Indexes;
use crate::object::{Fields, Object};

/// The sentence about the first rule that is met.
pub(super) fn met(job: &Object, done: &Indexes) -> Option<String> {
    if done.count() == 0 {
        return None;
    }
    let completions = job.number(&["spec", "completions"])?;
    let rules = job.items(&["spec", "successPolicy", "rules"]);
    let index = rules.iter().position(|rule| is_met(rule, done, completions))?;
    Some(format!("Matched rules at index {index}"))
}

fn is_met(rule: &Value, done: &Indexes, completions: i64) -> bool {
    let enough = rule.number(&["succeededCount"]);
    match rule["succeededIndexes"].as_str() {
        Some(text) => {
            let wanted = Indexes::parse(text, completions);
            let there = wanted.count_in(done);
            wanted.count() > 0 && (there == wanted.count() || enough.is_some_and(|enough| there >= enough))
        }
        None => enough.is_some_and(|enough| done.count() >= enough),
    }
}
