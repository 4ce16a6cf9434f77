//! Recorded requests with the answers of a real server, and the one engine that replays them against a server, embedded or real.
//!
//! A case that is not answered as recorded is listed with the reason by the test that replays it. A listed case that passes fails the
//! test, as does an unlisted one that does not. `CASE=text` runs only the cases whose name contains the text.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod compare;
pub(crate) mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use joiner_apiserver::service::{ApiServer, Settings};
use serde_json::Value;

use replay::{Target, needs_controllers, replay};

/// Names of cases and why they are answered differently.
pub(crate) type Pending = [(&'static str, &'static str)];

/// The cases of a file. No two have the same name.
pub(crate) fn cases(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data(file)).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut known = BTreeSet::new();
    for case in &cases {
        assert!(known.insert(name(case)), "two cases are called {}", name(case));
    }
    cases
}

pub(crate) fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}

pub(crate) fn name(case: &Value) -> String {
    format!("{}/{}", case["topic"].as_str().unwrap(), case["name"].as_str().unwrap())
}

pub(crate) fn wanted(case: &Value) -> bool {
    std::env::var("CASE").map_or(true, |text| name(case).contains(&text))
}

/// What differs, by name of the case.
#[derive(Default)]
pub(crate) struct Outcome {
    pending: BTreeMap<&'static str, &'static str>,
    equal: usize,
    problems: Vec<String>,
}

impl Outcome {
    /// Nothing seen yet. What is pending must be among the cases.
    pub(crate) fn new(pending: &Pending, cases: &[Value]) -> Self {
        for (name, _) in pending {
            assert!(
                cases.iter().any(|case| self::name(case) == *name),
                "the list names an unknown case {name}"
            );
        }
        Self { pending: pending.iter().copied().collect(), ..Self::default() }
    }

    pub(crate) fn judge(&mut self, case: &Value, result: Result<(), String>) {
        let name = name(case);
        match (result, self.pending.get(name.as_str())) {
            (Ok(()), None) => self.equal += 1,
            (Ok(()), Some(_)) => self.problems.push(format!("{name}: passes, take it off the list")),
            (Err(_), Some(_)) if std::env::var_os("CASE").is_none() => {}
            (Err(difference), _) => self.problems.push(format!("{name}:\n    {difference}")),
        }
    }

    pub(crate) fn conclude(&self) {
        let Self { equal, problems, .. } = self;
        assert!(problems.is_empty(), "{equal} equal, {} differ:\n{}", problems.len(), problems.join("\n"));
    }
}

/// Time stands still but for the sleeps of a case.
fn embedded(collect_garbage: bool) -> ApiServer {
    let start = tokio::time::Instant::now();
    let epoch: jiff::Timestamp = "2026-11-01T12:00:00Z".parse().unwrap();
    let clock = move || epoch + jiff::SignedDuration::try_from(start.elapsed()).unwrap();
    ApiServer::new(Arc::new(clock), &Settings { seed: 1, collect_garbage, ..Settings::default() })
}

/// Replays the cases of a file, each on an embedded server of its own: none can disturb another.
pub(crate) async fn replay_on_embedded_servers(file: &str, count: usize, pending: &Pending) {
    let cases = cases(file);
    assert_eq!(cases.len(), count);
    let mut outcome = Outcome::new(pending, &cases);
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| wanted(case)) {
        let target = Target::Embedded(Box::new(embedded(needs_controllers(case))));
        outcome.judge(case, replay(&target, case, &format!("g{number}")).await.map(drop));
    }
    outcome.conclude();
}
