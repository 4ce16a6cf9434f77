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

#[path = "../cases/mod.rs"]
mod cases;
mod pending;
mod record;
mod restart;

use joiner_testbed::plane::Parts;
use serde_json::Value;

use cases::replay::{self, Target, needs_controllers, replay};
use cases::{Outcome, cases, data, wanted};

#[tokio::test(start_paused = true)]
async fn further_cases_on_the_embedded_server() {
    cases::replay_on_embedded_servers("further.jsonl", FURTHER, pending::EMBEDDED).await;
}

/// How many further cases there are.
const FURTHER: usize = 672;
/// How many servers share the cases: waiting takes longer than answering.
const LANES: usize = 3;
const FILES: [&str; 2] = ["apiserver.jsonl", "further.jsonl"];

#[tokio::test]
async fn all_cases_on_a_real_server() {
    let mut files = FILES.map(cases);
    let lanes = if std::env::var_os("JOINER_TEST_KUBECONFIG").is_some() { 1 } else { LANES };
    let mut results = Vec::new();
    for answered in futures::future::join_all((0..lanes).map(|lane| lane_of(lane, lanes, &files))).await {
        let Some(answered) = answered else { return };
        results.extend(answered);
    }
    let recording = std::env::var_os("JOINER_RECORD").is_some();
    let mut outcome = Outcome::new(pending::REAL, &files.concat());
    results.sort_by_key(|(file, number, _)| (*file, *number));
    for (file, number, result) in results {
        let case = &mut files[file][number];
        match result {
            Ok(seen) if recording && FILES[file] == "further.jsonl" => record::keep(case, seen),
            result => outcome.judge(case, result.and_then(|seen| seen.check(case))),
        }
    }
    if recording {
        let lines: String = files[1].iter().map(|case| format!("{case}\n")).collect();
        std::fs::write(data(FILES[1]), lines).unwrap();
    }
    outcome.conclude();
}

/// The answers of a server of its own to every so many-th case, by file and number of the case.
async fn lane_of(
    lane: usize,
    lanes: usize,
    files: &[Vec<Value>; 2],
) -> Option<Vec<(usize, usize, Result<replay::Seen, String>)>> {
    let mut bed = joiner_testbed::plane_for("all_cases_on_a_real_server", Parts::BARE).await.unwrap()?;
    if let Some(plane) = &mut bed.plane {
        // The history of a server begins with its start: one that starts on older objects has versions it no longer knows.
        plane.stop_api_server();
        plane.start_api_server().await.unwrap();
    }
    let target = Target::Real(bed.client.another());
    let mut results = Vec::new();
    // Those that want controllers come last: the others were recorded without any.
    for controllers in [false, true] {
        if controllers && let Some(plane) = &mut bed.plane {
            plane.start_controllers().unwrap();
        }
        for (file, cases) in files.iter().enumerate() {
            for (number, case) in cases.iter().enumerate().filter(|(number, _)| number % lanes == lane) {
                if needs_controllers(case) == controllers && wanted(case) {
                    let namespace = format!("{}{number}", ["r", "f"][file]);
                    results.push((file, number, replay(&target, case, &namespace).await));
                    replay::clean(&target, case, &namespace).await;
                }
            }
        }
    }
    Some(results)
}
