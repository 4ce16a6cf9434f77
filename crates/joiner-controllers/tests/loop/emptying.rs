//! Nodes without pods go, but not early, not all at once, and not if somebody objects.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::stage::Stage;

async fn with_consolidation(stage: &Stage, after: &str, budget: &str) {
    let disruption =
        json!({"spec": {"disruption": {"consolidateAfter": after, "budgets": [{"nodes": budget}]}}});
    stage.apply_pool("default", disruption).await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_goes_after_its_time_and_not_before() {
    for policy in ["WhenEmpty", "WhenEmptyOrUnderutilized"] {
        let stage = Stage::new().await;
        let disruption =
            json!({"spec": {"disruption": {"consolidateAfter": "30s", "consolidationPolicy": policy}}});
        stage.apply_pool("default", disruption).await;
        let running = stage.start();
        stage.create_pods("web", 2, "1").await;
        stage.pass(60).await;
        assert_eq!(stage.nodes().await.len(), 1, "a node with pods stays");
        stage.delete_pod("web-0").await;
        stage.pass(60).await;
        assert_eq!(stage.nodes().await.len(), 1, "one pod is enough");
        stage.delete_pod("web-1").await;
        // Thirty seconds of quiet, fifteen of looking twice.
        stage.pass(44).await;
        assert!(stage.nodes().await[0].metadata.deletion_timestamp.is_none());
        stage.pass(12).await;
        assert_eq!((stage.nodes().await.len(), stage.claims().await.len()), (0, 0), "{policy}");
        let events = stage.events().await;
        assert!(events.iter().any(|event| event.contains("DisruptionTerminating")), "{events:?}");
        assert_eq!(stage.pool("default").await.status.unwrap().nodes, Some(0));
        assert_eq!(running.summary.borrow().dollars_per_hour, 0.0);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn budgets_are_kept() {
    let stage = Stage::new().await;
    with_consolidation(&stage, "10s", "1").await;
    let running = stage.start();
    let apart = |name: usize| {
        json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}},
        "metadata": {"annotations": {"number": name.to_string()}}})
    };
    for number in 0..4 {
        stage.create_pod(&format!("web-{number}"), "1500m", apart(number)).await;
    }
    stage.pass(20).await;
    assert_eq!(stage.nodes().await.len(), 4);
    for number in 0..4 {
        stage.delete_pod(&format!("web-{number}")).await;
    }
    let mut most = 0;
    for _ in 0..150 {
        stage.pass(1).await;
        let going =
            stage.claims().await.iter().filter(|claim| claim.metadata.deletion_timestamp.is_some()).count();
        most = most.max(going);
    }
    assert_eq!(most, 1, "one at a time");
    assert_eq!(stage.nodes().await.len(), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_closed_budget_and_a_protected_node_hold() {
    let stage = Stage::new().await;
    with_consolidation(&stage, "10s", "0").await;
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(20).await;
    stage.delete_pod("web-0").await;
    stage.pass(120).await;
    assert_eq!(stage.nodes().await.len(), 1);
    let events = stage.events().await;
    assert!(events.iter().any(|event| event.starts_with("NodePool/default DisruptionBlocked")), "{events:?}");

    let nodes: Api<Node> = Api::all(stage.client.clone());
    let name = stage.nodes().await[0].name_any();
    let mark =
        |value: Option<&str>| json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}});
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(mark(Some("true")))).await.unwrap();
    with_consolidation(&stage, "10s", "100%").await;
    stage.pass(120).await;
    assert_eq!(stage.nodes().await.len(), 1, "the annotation protects it");
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(mark(None))).await.unwrap();
    stage.pass(30).await;
    assert_eq!(stage.nodes().await.len(), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_pods_are_expected_on_stays() {
    let stage = Stage::new().await;
    with_consolidation(&stage, "0s", "100%").await;
    // The scheduler is slow: pods are bound long after the node is ready for them.
    stage.set_binding(false);
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(18).await;
    assert_eq!(stage.nodes().await.len(), 1);
    stage.set_binding(true);
    stage.pass(120).await;
    assert_eq!(stage.nodes().await.len(), 1);
    assert_eq!(stage.claims().await.len(), 1, "and none was bought beside it");
    running.stop().await;
}
