//! Machines that end by themselves because their class asks for it.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::stage::{Stage, pod_node};

async fn deploy(stage: &Stage, replicas: usize) {
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                // A lost node lets its pods go at once.
                "tolerations": [
                    {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 0},
                    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 0},
                ],
                "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "3"}}}],
            },
        }},
    });
    let api: Api<Deployment> = Api::default_namespaced(stage.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
}

async fn machines(stage: &Stage) -> BTreeSet<String> {
    stage.claims().await.iter().map(|claim| claim.name_any()).collect()
}

async fn serving(stage: &Stage) -> usize {
    let pods = stage.pods().await;
    let runs = |pod: &&k8s_openapi::api::core::v1::Pod| {
        pod.status.as_ref().and_then(|of| of.phase.as_deref()) == Some("Running")
            && pod.metadata.deletion_timestamp.is_none()
            && pod_node(pod).is_some()
    };
    pods.iter().filter(runs).count()
}

/// A cluster that loses a machine: minutes until it is gone, and what was said of it.
async fn lives(chaos: Value, minutes: usize) -> (usize, Vec<String>) {
    let stage = Stage::new().await;
    stage.apply_class(json!({"chaos": chaos})).await;
    stage
        .apply_pool(
            "default",
            json!({"spec": {"template": {"spec": {"requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["4"]},
            ]}}}}),
        )
        .await;
    let running = stage.start();
    deploy(&stage, 1).await;
    stage.pass(60).await;
    let before = machines(&stage).await;
    assert_eq!((before.len(), serving(&stage).await), (1, 1));
    let mut passed = 0;
    while !machines(&stage).await.is_disjoint(&before) {
        assert!(passed < minutes, "the machine stands after {passed} minutes: {:#?}", stage.events().await);
        stage.pass(60).await;
        passed += 1;
    }
    // The pod of a node that is no more is collected after a while, and another one comes for it.
    stage.pass(180).await;
    assert_eq!(serving(&stage).await, 1, "{:#?}", stage.events().await);
    let nodes: BTreeSet<String> = stage.nodes().await.iter().map(|node| node.name_any()).collect();
    assert!(nodes.is_disjoint(&before), "its node is gone");
    let events = stage.events().await;
    running.stop().await;
    (passed, events)
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_vanishes_is_found_missing_and_made_up_for() {
    let (passed, events) = lives(json!({"vanishPercentPerHour": 100}), 75).await;
    assert!(passed > 1);
    assert!(!events.iter().any(|event| event.contains("SpotInterrupted")), "nobody said a word: {events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_taken_back_is_told_of_first_and_the_same_happens_again() {
    let chaos = json!({"spotReclaimPercentPerHour": 100, "seed": 3});
    let (passed, events) = lives(chaos.clone(), 80).await;
    let said: Vec<&String> = events.iter().filter(|event| event.contains("SpotInterrupted")).collect();
    assert!(said.iter().any(|event| event.starts_with("NodeClaim/")), "{events:#?}");
    assert!(
        said.iter()
            .any(|event| event.starts_with("Node/") && event.contains("is taken back by the cloud at ")),
        "{events:#?}"
    );
    let (again, events_again) = lives(chaos, 80).await;
    assert_eq!((passed, &events), (again, &events_again));
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_hears_what_the_old_one_heard() {
    let stage = Stage::new().await;
    stage.apply_class(json!({"chaos": {"spotReclaimPercentPerHour": 100, "spotReclaimNotice": "10m"}})).await;
    stage
        .apply_pool(
            "default",
            json!({"spec": {"template": {"spec": {"requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            ]}}}}),
        )
        .await;
    let running = stage.start();
    stage.create_pods("p", 1, "3").await;
    let told = |events: &[String]| events.iter().any(|event| event.contains("SpotInterrupted"));
    let mut minutes = 0;
    while !told(&stage.events().await) {
        assert!(minutes < 65, "{:#?}", stage.events().await);
        stage.pass(60).await;
        minutes += 1;
    }
    let said = |running: &crate::stage::Running| {
        let summary = running.summary.borrow();
        summary.journal.iter().filter(|decision| decision.verdict.code() == "interrupted").count()
    };
    assert_eq!(said(&running), 1, "recorded once");
    running.kill().await;
    let running = stage.start();
    stage.pass(60).await;
    assert_eq!(said(&running), 1, "and by who leads next");
    running.stop().await;
}
