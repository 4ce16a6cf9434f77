//! The end of a node with pods on it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use joiner_api::NodeClaim;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::lifetimes::{Script, Scripted};
use crate::stage::{Spy, Stage, pod_node};

async fn set_budget(stage: &Stage, min_available: i32) {
    let api: Api<PodDisruptionBudget> = Api::default_namespaced(stage.client.clone());
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": "web"}}}});
    api.patch("web", &PatchParams::apply("test").force(), &Patch::Apply(budget)).await.unwrap();
    stage.pass(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_disruption_budget() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pods("web", 2, "1").await;
    stage.pass(15).await;
    set_budget(&stage, 2).await;
    let name = stage.nodes().await[0].name_any();
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    stage.pass(60).await;
    assert_eq!(stage.pods().await.len(), 2, "nobody leaves while the budget says no");
    let node = nodes.get(&name).await.unwrap();
    assert!(node.metadata.deletion_timestamp.is_some());
    let taints = node.spec.unwrap().taints.unwrap();
    assert!(taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted" && taint.effect == "NoSchedule"));
    assert_eq!(stage.nodes().await.len(), 2, "a place for the pods is bought ahead");
    let events = stage.events().await;
    assert!(
        events
            .iter()
            .any(|event| event
                .ends_with("FailedDraining: Failed to drain node, 2 pods are waiting to be evicted")),
        "{events:?}"
    );
    set_budget(&stage, 1).await;
    stage.pass(15).await;
    assert_eq!(stage.pods().await.len(), 1, "the budget had room for one");
    set_budget(&stage, 0).await;
    stage.pass(30).await;
    assert_eq!(stage.pods().await.len(), 0);
    assert!(nodes.get_opt(&name).await.unwrap().is_none(), "drained, it goes");
    assert_eq!(stage.claims().await.len(), 1);
    running.stop().await;
}

/// A process dies after so many writes, and the claims are deleted while nobody is there. How many writes there were, and whether the pod had come to a
/// node whose claim did not say yet that it is registered.
async fn cut_off(last: usize) -> (usize, bool) {
    let stage = Stage::new().await;
    let spy = Spy::new(&stage, last);
    let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
    stage.create_pods("web", 1, "1").await;
    set_budget(&stage, 1).await;
    stage.pass(15).await;
    running.kill().await;
    let writes = spy.writes.load(Ordering::Relaxed);
    let (pods, claims) = (stage.pods().await, stage.claims().await);
    let (Some(node), [claim]) = (pod_node(&pods[0]), claims.as_slice()) else {
        return (writes, false);
    };
    let conditions = claim.status.iter().flat_map(|status| &status.conditions);
    let says_so = conditions.into_iter().any(|of| of.type_ == "Registered" && of.status == "True");
    stage.delete_claim(&claim.name_any()).await;
    let cloud: Arc<Mutex<Script>> = Arc::default();
    let running = stage.start_over(stage.client.clone(), Scripted::new(&stage, &cloud));
    let ended = || cloud.lock().unwrap().terminated.len();
    stage.pass(30).await;
    assert_eq!(ended(), 0, "a pod is there: crash after write {last}: {:#?}", spy.log.lock().unwrap());
    assert_eq!(pod_node(&stage.pods().await[0]), Some(node), "its budget says no");
    set_budget(&stage, 0).await;
    stage.pass(60).await;
    assert!(stage.claims().await.iter().all(|of| of.uid() != claim.uid()), "crash after write {last}");
    assert!(ended() > 0, "the machine is ended once its pod has left");
    running.stop().await;
    (writes, !says_so)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joined_is_drained_though_its_claim_does_not_say_so_yet() {
    let (writes, _) = cut_off(usize::MAX).await;
    assert!(writes > 5, "{writes}");
    let mut unsaid = 0;
    for last in 1..=writes {
        unsaid += usize::from(cut_off(last).await.1);
    }
    assert!(unsaid > 0, "no pod came between the two writes");
}

#[tokio::test(start_paused = true)]
async fn a_protected_pod_holds_the_node_until_its_grace_is_over() {
    let stage = Stage::new().await;
    stage
        .apply_pool("default", json!({"spec": {"template": {"spec": {"terminationGracePeriod": "5m"}}}}))
        .await;
    let running = stage.start();
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    stage.create_pod("web", "1", protected).await;
    stage.pass(15).await;
    let claims: Api<NodeClaim> = Api::all(stage.client.clone());
    let name = stage.claims().await[0].name_any();
    claims.delete(&name, &DeleteParams::default()).await.unwrap();
    stage.pass(4 * 60).await;
    assert_eq!(stage.pods().await.len(), 1);
    assert!(
        claims
            .get(&name)
            .await
            .unwrap()
            .annotations()
            .contains_key("karpenter.sh/nodeclaim-termination-timestamp")
    );
    stage.pass(75).await;
    assert_eq!(stage.pods().await.len(), 0, "its time is over");
    assert!(claims.get_opt(&name).await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn critical_pods_leave_last() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pod("plain", "500m", json!({"metadata": {"labels": {"app": "plain"}}})).await;
    let critical = json!({"metadata": {"labels": {"app": "critical"}}, "spec": {"priorityClassName": "system-cluster-critical"}});
    stage.create_pod("critical", "500m", critical).await;
    stage.pass(15).await;
    let name = pod_node(&stage.pods().await[0]).unwrap().to_owned();
    let claims: Api<NodeClaim> = Api::all(stage.client.clone());
    claims.delete(&name, &DeleteParams::default()).await.unwrap();
    let mut order = Vec::new();
    for _ in 0..60 {
        stage.pass(1).await;
        for event in stage.events().await.into_iter().filter(|event| event.contains(" Evicted: ")) {
            if !order.contains(&event) {
                order.push(event);
            }
        }
    }
    let order: Vec<&str> = order.iter().map(|event| event.split(' ').next().unwrap()).collect();
    assert_eq!(order, ["Pod/plain", "Pod/critical"]);
    assert!(claims.get_opt(&name).await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_claim_is_ended() {
    let stage = Stage::new().await;
    let orphan = json!({"metadata": {"name": "lost", "labels": {"karpenter.kwok.sh/kwoknodeclass": "default"}},
        "spec": {"providerID": "kwok://lost"}});
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(orphan).unwrap()).await.unwrap();
    let running = stage.start();
    stage.pass(20).await;
    assert_eq!(stage.nodes().await.len(), 1, "it might get its claim yet");
    stage.pass(120).await;
    assert_eq!(stage.nodes().await.len(), 0);
    running.stop().await;
}
