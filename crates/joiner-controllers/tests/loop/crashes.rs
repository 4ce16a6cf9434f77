//! A process that dies after any of its writes, the answer to the last one lost, and another that goes on.

use std::sync::atomic::Ordering;

use kube::ResourceExt;
use serde_json::json;

use crate::stage::{Spy, Stage, pod_node};

/// Everything is allowed.
const OPEN: usize = usize::MAX;

async fn workload(stage: &Stage) {
    stage.create_pods("web", 10, "1").await;
    stage.create_pod("large", "300", json!({})).await;
}

async fn outcome(stage: &Stage) -> (Vec<String>, usize, usize) {
    let bound = stage.pods().await.iter().filter(|pod| pod_node(pod).is_some()).count();
    (stage.types().await, stage.claims().await.len(), bound)
}

#[tokio::test(start_paused = true)]
async fn two_runs_write_the_same() {
    let mut logs = Vec::new();
    for _ in 0..2 {
        let stage = Stage::new().await;
        let disruption =
            json!({"spec": {"disruption": {"consolidateAfter": "20s", "budgets": [{"nodes": "50%"}]}}});
        stage.apply_pool("default", disruption).await;
        let spy = Spy::new(&stage, OPEN);
        let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
        workload(&stage).await;
        stage.pass(20).await;
        for number in 0..10 {
            stage.delete_pod(&format!("web-{number}")).await;
        }
        stage.pass(120).await;
        assert_eq!(stage.nodes().await.len(), 0);
        running.stop().await;
        let events = stage.events().await;
        logs.push((spy.log.lock().unwrap().clone(), events));
    }
    let begin: jiff::Timestamp = "2026-01-05T08:00:00Z".parse().unwrap();
    assert!(logs[0].0.len() > 20 && logs[0].0[0].starts_with(&begin.to_string()[..10]), "{:#?}", logs[0].0);
    assert_eq!(logs[0], logs[1]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_changes_nothing_in_the_end() {
    let stage = Stage::new().await;
    let spy = Spy::new(&stage, OPEN);
    let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
    workload(&stage).await;
    stage.pass(30).await;
    running.stop().await;
    let expected = outcome(&stage).await;
    assert_eq!(expected.0, ["c-4x-amd64-linux", "c-8x-amd64-linux"]);
    let writes = spy.writes.load(Ordering::Relaxed);
    assert!(writes > 10, "{writes}");
    for last in 1..=writes {
        let stage = Stage::new().await;
        let spy = Spy::new(&stage, last);
        let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
        workload(&stage).await;
        stage.pass(8).await;
        running.kill().await;
        let running = stage.start();
        stage.pass(25).await;
        assert_eq!(
            outcome(&stage).await,
            expected,
            "crash after write {last} of {writes}: {:#?}",
            spy.log.lock().unwrap()
        );
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_a_node_is_on_its_way_loses_nothing() {
    let stage = Stage::new().await;
    stage.apply_class(json!({"nodeRegistrationDelay": "30s"})).await;
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(10).await;
    assert_eq!((stage.claims().await.len(), stage.nodes().await.len()), (1, 0));
    running.kill().await;
    let running = stage.start();
    stage.pass(15).await;
    assert_eq!(stage.nodes().await.len(), 0, "the delay runs from the launch");
    stage.pass(30).await;
    assert_eq!((stage.claims().await.len(), stage.nodes().await.len()), (1, 1));
    assert!(pod_node(&stage.pods().await[0]).is_some());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_an_empty_node_is_taken_out_changes_nothing_in_the_end() {
    for last in 1..=14 {
        let stage = Stage::new().await;
        let disruption = json!({"spec": {"disruption": {"consolidateAfter": "10s"}}});
        stage.apply_pool("default", disruption).await;
        let running = stage.start();
        stage.create_pods("web", 1, "1").await;
        stage.pass(15).await;
        running.stop().await;
        stage.delete_pod("web-0").await;
        let spy = Spy::new(&stage, last);
        let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
        stage.pass(40).await;
        running.kill().await;
        let running = stage.start();
        stage.pass(40).await;
        assert_eq!(
            (stage.claims().await.len(), stage.nodes().await.len()),
            (0, 0),
            "crash after write {last}"
        );
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn watches_come_back_after_the_history_was_forgotten() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pods("first", 1, "1").await;
    stage.pass(15).await;
    for _ in 0..3 {
        stage.server.forget_history();
        stage.pass(400).await;
    }
    stage.create_pods("second", 1, "1").await;
    stage.pass(15).await;
    assert_eq!(stage.nodes().await.len(), 2);
    let names: Vec<String> = stage.claims().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names.len(), 2);
    running.stop().await;
}
