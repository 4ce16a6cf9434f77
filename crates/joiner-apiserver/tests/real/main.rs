//! The embedded server and a real one, held against the same recorded cases.
//!
//! `tests/data/apiserver.jsonl` and `tests/data/further.jsonl` hold requests with the answers of kube-apiserver. Here both files are sent
//! to a real server, so that a recording that has gone stale or a comparison that is too lax is found out, and the second one to the
//! embedded server too (`tests/conformance` does that with the first). Cases that the embedded server answers
//! differently are listed in `pending.rs` with the reason.
//!
//! `CASE=text` runs only the cases whose name contains the text. `JOINER_RECORD=1` writes the answers of the real server into
//! `further.jsonl`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../conformance/compare.rs"]
mod compare;
mod pending;
mod record;
mod replay;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use joiner_apiserver::service::{ApiServer, Settings};
use joiner_testbed::plane::Parts;
use serde_json::Value;

use replay::{Target, needs_controllers, replay};

fn cases(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(data(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file)
}

fn name(case: &Value) -> String {
    format!("{}/{}", case["topic"].as_str().unwrap(), case["name"].as_str().unwrap())
}

fn wanted(case: &Value) -> bool {
    std::env::var("CASE").map_or(true, |text| name(case).contains(&text))
}

/// What differs, by name of the case.
#[derive(Default)]
struct Outcome {
    equal: usize,
    problems: Vec<String>,
}

impl Outcome {
    fn judge(&mut self, case: &Value, result: Result<(), String>, pending: &BTreeMap<&str, &str>) {
        let name = name(case);
        match (result, pending.get(name.as_str())) {
            (Ok(()), None) => self.equal += 1,
            (Ok(()), Some(_)) => self.problems.push(format!("{name}: passes, take it off the list")),
            (Err(_), Some(_)) if std::env::var_os("CASE").is_none() => {}
            (Err(difference), _) => self.problems.push(format!("{name}:\n    {difference}")),
        }
    }

    fn conclude(&self) {
        let Self { equal, problems } = self;
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

#[tokio::test(start_paused = true)]
async fn further_cases_on_the_embedded_server() {
    let cases = cases("further.jsonl");
    let pending: BTreeMap<&str, &str> = pending::EMBEDDED.iter().copied().collect();
    let mut outcome = Outcome::default();
    for (number, case) in cases.iter().enumerate() {
        if wanted(case) {
            // A server of its own for each case: none can disturb another.
            let target = Target::Embedded(Box::new(embedded(needs_controllers(case))));
            outcome.judge(case, replay(&target, case, &format!("f{number}")).await.map(drop), &pending);
        }
    }
    for name in pending.keys() {
        assert!(cases.iter().any(|case| self::name(case) == *name), "the list names an unknown case {name}");
    }
    outcome.conclude();
}

#[tokio::test]
async fn all_cases_on_a_real_server() {
    let bed = joiner_testbed::plane_for("all_cases_on_a_real_server", Parts::BARE).await.unwrap();
    let Some(mut bed) = bed else { return };
    let recording = std::env::var_os("JOINER_RECORD").is_some();
    let pending: BTreeMap<&str, &str> = pending::REAL.iter().copied().collect();
    let target = Target::Real(bed.client.another());
    let mut outcome = Outcome::default();
    // Those that want controllers come last: the others were recorded without any.
    for controllers in [false, true] {
        if controllers && let Some(plane) = &mut bed.plane {
            plane.start_controllers().unwrap();
        }
        for (file, letter) in [("apiserver.jsonl", 'r'), ("further.jsonl", 'f')] {
            let mut cases = cases(file);
            for (number, case) in cases.iter_mut().enumerate() {
                if needs_controllers(case) != controllers || !wanted(case) {
                    continue;
                }
                let result = replay(&target, case, &format!("{letter}{number}")).await;
                if recording && letter == 'f' {
                    record::keep(case, result.unwrap_or_else(|problem| panic!("{}: {problem}", name(case))));
                } else {
                    outcome.judge(case, result.and_then(|seen| seen.check(case)), &pending);
                }
                replay::clean(&target, case, &format!("{letter}{number}")).await;
            }
            if recording && letter == 'f' {
                let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
                std::fs::write(data(file), lines).unwrap();
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    outcome.conclude();
}
