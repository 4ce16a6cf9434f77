//! Replays recorded requests and compares with the answers of a real server (see `tests/data/README.md`).

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../cases/mod.rs"]
mod cases;
mod pending;

#[tokio::test(start_paused = true)]
async fn recorded_cases_are_answered_as_recorded() {
    cases::replay_on_embedded_servers("apiserver.jsonl", 325, &pending::PENDING).await;
}
