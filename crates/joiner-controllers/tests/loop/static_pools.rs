//! Pools of a fixed size, and limits that count what is still there.

use joiner_controllers::Settings;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::stage::{Stage, pod_node};

async fn scale(stage: &Stage, replicas: u32) {
    let api: Api<joiner_api::NodePool> = Api::all(stage.client.clone());
    let patch = json!({"spec": {"replicas": replicas}});
    api.patch("base", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn static_pool(stage: &Stage) {
    let spec = json!({"replicas": 3, "limits": {"nodes": "4"}, "disruption": {"consolidateAfter": "0s"}});
    stage.apply_pool("base", json!({"spec": spec})).await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_keeps_its_number_of_nodes_whatever_happens_to_them() {
    let stage = Stage::new().await;
    stage.delete_pool("default").await;
    static_pool(&stage).await;
    let running = stage.start();
    stage.pass(15).await;
    let names = || async { stage.nodes().await.iter().map(|node| node.name_any()).collect::<Vec<String>>() };
    let first = names().await;
    assert_eq!(first.len(), 3, "without a pod");
    assert_eq!(stage.pool("base").await.status.unwrap().nodes, Some(3));
    // Pods use them; one that finds no room there gets no machine.
    stage.create_pods("web", 3, "500m").await;
    stage.create_pod("large", "200", json!({})).await;
    stage.pass(90).await;
    assert_eq!(names().await, first, "empty ones stay, too");
    let pods = stage.pods().await;
    assert_eq!(pods.iter().filter(|pod| pod_node(pod).is_some()).count(), 3);
    // One is lost: it is replaced, even across a crash in between.
    stage.delete_claim(&first[0]).await;
    stage.pass_millis(1500).await;
    running.kill().await;
    let running = stage.start();
    stage.pass(30).await;
    let second = names().await;
    assert_eq!(second.len(), 3);
    assert!(!second.contains(&first[0]) && second.contains(&first[1]) && second.contains(&first[2]));
    // More than the limit of nodes allows.
    scale(&stage, 6).await;
    stage.pass(30).await;
    assert_eq!(names().await.len(), 4);
    // Fewer: empty ones go first, whatever budgets say.
    stage.apply_pool("base", json!({"spec": {"replicas": 1, "limits": {"nodes": "4"}, "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]}}})).await;
    stage.pass(60).await;
    let left = names().await;
    assert_eq!(left.len(), 1);
    let decided: Vec<String> = stage.events().await;
    assert!(!decided.iter().any(|event| event.contains("DisruptionTerminating")), "{decided:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_a_static_pool_is_left_alone() {
    let stage = Stage::new().await;
    static_pool(&stage).await;
    let settings = Settings { static_capacity: false, ..Settings::default() };
    let running = stage.start_with(stage.client.clone(), stage.kwok(stage.client.clone()), settings);
    stage.pass(90).await;
    assert_eq!(stage.claims().await.len(), 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_strict_limits_a_machine_counts_until_it_is_gone() {
    for (strict, expected) in [(false, 2), (true, 1)] {
        let stage = Stage::new().await;
        stage.apply_pool("default", json!({"spec": {"limits": {"nodes": "1"}}})).await;
        let settings = Settings { strict_limits: strict, ..Settings::default() };
        let running = stage.start_with(stage.client.clone(), stage.kwok(stage.client.clone()), settings);
        let held = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
        stage.create_pod("held", "1", held).await;
        stage.pass(15).await;
        let first = stage.claims().await.remove(0).name_any();
        // Its drain takes long: the pod may not be moved.
        stage.delete_claim(&first).await;
        stage.create_pod("next", "1", json!({})).await;
        stage.pass(30).await;
        assert_eq!(stage.claims().await.len(), expected, "strict: {strict}");
        stage.delete_pod("held").await;
        stage.pass(40).await;
        let claims = stage.claims().await;
        assert_eq!(claims.len(), 1, "strict: {strict}");
        assert_ne!(claims[0].name_any(), first);
        running.stop().await;
    }
}
