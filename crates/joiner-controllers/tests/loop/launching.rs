//! From pending pods to nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use joiner_controllers::Settings;
use kube::ResourceExt;
use serde_json::json;

use crate::stage::{Running, Stage, pod_node};

#[tokio::test(start_paused = true)]
async fn pending_pods_get_the_nodes_of_the_plan() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pods("web", 10, "1").await;
    stage.pass(15).await;
    // What `joiner plan` says for ten pods of one CPU each.
    assert_eq!(stage.types().await, ["c-4x-amd64-linux", "c-8x-amd64-linux"]);
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()));
    let claims = stage.claims().await;
    assert_eq!(claims.len(), 2);
    for claim in &claims {
        let status = claim.status.as_ref().unwrap();
        let mut states: Vec<String> =
            status.conditions.iter().map(|of| format!("{}={}", of.type_, of.status)).collect();
        states.sort();
        assert_eq!(
            states,
            [
                "ConsistentStateFound=True",
                "Initialized=True",
                "Launched=True",
                "Ready=True",
                "Registered=True"
            ],
            "{claim:?}"
        );
        assert_eq!(status.node_name.as_deref(), Some(&*claim.name_any()));
    }
    let summary = running.summary.borrow().clone();
    assert_eq!((summary.nodes, summary.pending_pods, summary.refused_pods), (2, 0, 0));
    assert!((summary.dollars_per_hour - 0.228).abs() < 0.001, "{}", summary.dollars_per_hour);
    let plan = summary.last_plan.unwrap();
    assert_eq!((plan.machines, plan.pods), (2, 10));
    assert!(plan.gap.is_some_and(|gap| (gap - 0.2).abs() < 0.01), "{plan:?}");
    let pool = stage.pool("default").await;
    assert!(pool.annotations().contains_key("karpenter.sh/nodepool-hash"));
    let status = pool.status.unwrap();
    assert_eq!(status.nodes, Some(2));
    assert_eq!(status.resources.unwrap()["cpu"].0, "12");
    let states: BTreeSet<String> =
        status.conditions.iter().map(|of| format!("{}={}", of.type_, of.status)).collect();
    let expected =
        ["NodeClassReady=True", "NodeRegistrationHealthy=True", "Ready=True", "ValidationSucceeded=True"];
    assert_eq!(states, expected.map(str::to_owned).into());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_batch_buys_nothing_twice() {
    let stage = Stage::with_boot(Duration::from_secs(60)).await;
    let running = stage.start();
    stage.create_pods("first", 3, "1").await;
    stage.pass(5).await;
    assert_eq!(stage.types().await, ["c-4x-amd64-linux"]);
    // The node is still starting: its pods have their room, and nobody else gets it.
    stage.create_pods("second", 1, "1").await;
    stage.pass(30).await;
    assert_eq!(stage.types().await, ["c-2x-amd64-linux", "c-4x-amd64-linux"]);
    // Room that is free on a starting node is used.
    stage.create_pods("third", 1, "500m").await;
    stage.pass(60).await;
    assert_eq!(stage.types().await, ["c-2x-amd64-linux", "c-4x-amd64-linux"]);
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()));
    running.stop().await;
}

/// A stage whose nodes come with a taint that keeps the scheduler from binding, and three pods of one CPU that wait for such a node.
async fn three_pods_wait_for_a_node() -> (Stage, Running) {
    let stage = Stage::new().await;
    let taints = json!([{"key": "example.com/starting", "effect": "NoSchedule"}]);
    stage.apply_pool("default", json!({"spec": {"template": {"spec": {"startupTaints": taints}}}})).await;
    let running = stage.start();
    stage.create_pods("web", 3, "1").await;
    stage.pass(10).await;
    assert_eq!(stage.types().await, ["c-4x-amd64-linux"]);
    assert_eq!(pods_by_node(&stage).await, [0]);
    (stage, running)
}

/// A pod that the scheduler binds to the node for which the others still wait.
async fn let_another_in(stage: &Stage, cpu: &str) {
    let tolerates = json!({"spec": {"tolerations": [{"key": "example.com/starting", "operator": "Exists"}]}});
    stage.create_pod("quick", cpu, tolerates).await;
    stage.pass_millis(100).await;
    assert_eq!(pods_by_node(stage).await, [1]);
}

async fn pods_by_node(stage: &Stage) -> Vec<usize> {
    let (nodes, pods) = (stage.nodes().await, stage.pods().await);
    let on = |name: &str| pods.iter().filter(|pod| pod_node(pod) == Some(name)).count();
    let mut counts: Vec<usize> = nodes.iter().map(|node| on(&node.name_any())).collect();
    counts.sort_unstable();
    counts
}

/// The scheduler goes on, and a minute passes.
async fn let_all_in(stage: &Stage) {
    for node in stage.nodes().await {
        stage.set_taints(&node.name_any(), json!([])).await;
    }
    stage.pass(60).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_place_another_took_gets_a_machine_at_once() {
    let (stage, running) = three_pods_wait_for_a_node().await;
    let_another_in(&stage, "1").await;
    stage.pass_millis(1900).await;
    assert_eq!(stage.claims().await.len(), 2, "two windows of a batch after the last binding");
    // The other two have their places, and need only be waited for.
    stage.pass(30).await;
    assert_eq!(stage.types().await, ["c-2x-amd64-linux", "c-4x-amd64-linux"]);
    let_all_in(&stage).await;
    assert_eq!(stage.claims().await.len(), 2);
    assert_eq!(pods_by_node(&stage).await, [1, 3]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_bound_slowly_keep_their_places() {
    let (stage, running) = three_pods_wait_for_a_node().await;
    // It takes what nobody needs.
    let_another_in(&stage, "500m").await;
    stage.pass(30).await;
    assert_eq!(stage.claims().await.len(), 1);
    let_all_in(&stage).await;
    assert_eq!(stage.claims().await.len(), 1);
    assert_eq!(pods_by_node(&stage).await, [4]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_startup_taints_waits_for_them() {
    let stage = Stage::new().await;
    stage
        .apply_pool(
            "default",
            json!({"spec": {"template": {"spec": {
            "taints": [{"key": "example.com/team", "value": "web", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]}}}}),
        )
        .await;
    let running = stage.start();
    let tolerates = json!({"spec": {"tolerations": [{"key": "example.com/team", "operator": "Exists"}]}});
    stage.create_pod("web", "1", tolerates).await;
    stage.pass(40).await;
    let claim = stage.claims().await.remove(0);
    let initialised = |claim: &joiner_api::NodeClaim| {
        let conditions = claim.status.as_ref().unwrap().conditions.clone();
        conditions.into_iter().find(|of| of.type_ == "Initialized").map(|of| (of.status, of.reason)).unwrap()
    };
    assert_eq!(initialised(&claim), ("Unknown".to_owned(), "StartupTaintsExist".to_owned()));
    let node = stage.nodes().await.remove(0);
    let mut keys: Vec<String> =
        node.spec.unwrap().taints.unwrap().into_iter().map(|taint| taint.key).collect();
    keys.sort();
    assert_eq!(keys, ["example.com/starting", "example.com/team"]);
    assert_eq!(stage.claims().await.len(), 1, "a starting node is not bought again");
    stage
        .set_taints(
            &claim.name_any(),
            json!([{"key": "example.com/team", "value": "web", "effect": "NoSchedule"}]),
        )
        .await;
    stage.pass(2).await;
    assert_eq!(initialised(&stage.claims().await[0]).0, "True");
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_does_not_register_is_replaced() {
    let stage = Stage::new().await;
    stage.apply_class(json!({"nodeRegistrationDelay": "20m"})).await;
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(10).await;
    let first = stage.claims().await.remove(0).name_any();
    stage.pass(14 * 60).await;
    assert_eq!(stage.claims().await[0].name_any(), first, "not before its time");
    stage.apply_class(json!({})).await;
    stage.pass(90).await;
    let claims = stage.claims().await;
    assert_eq!(claims.len(), 1);
    assert_ne!(claims[0].name_any(), first);
    assert_eq!(pod_node(&stage.pods().await[0]), Some(&*claims[0].name_any()));
    stage.pass(10 * 60).await;
    assert_eq!(stage.nodes().await.len(), 1, "the first machine never appears");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_machine_helps_is_told_why() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pod("large", "300", json!({})).await;
    stage.create_pod("small", "1", json!({})).await;
    stage.pass(15).await;
    assert_eq!(stage.nodes().await.len(), 1);
    let events = stage.events().await;
    let told: Vec<&String> =
        events.iter().filter(|event| event.contains(": no machine would help")).collect();
    assert_eq!(told.len(), 1, "{events:?}");
    assert!(told[0].starts_with("Pod/large FailedScheduling: ") && told[0].contains("300 cpu"), "{told:?}");
    assert_eq!(running.summary.borrow().refused_pods, 1);
    // A pool that is not ready takes no pods, and says so.
    stage.delete_class().await;
    stage.create_pod("late", "2", json!({})).await;
    stage.pass(15).await;
    assert_eq!(stage.nodes().await.len(), 1);
    let conditions = stage.pool("default").await.status.unwrap().conditions;
    let class = conditions.iter().find(|of| of.type_ == "NodeClassReady").unwrap();
    assert_eq!((class.status.as_str(), class.reason.as_str()), ("False", "NodeClassNotFound"));
    // What was missing comes back: the pod is served without being touched.
    stage.apply_class(json!({})).await;
    stage.pass(30).await;
    assert_eq!(stage.nodes().await.len(), 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn small_decisions_take_few_steps_and_spend_no_more() {
    let mut seen = Vec::new();
    for steps_per_usd in [Settings::default().packing.steps_per_usd, None] {
        let stage = Stage::new().await;
        let mut settings = Settings::default();
        settings.packing.steps_per_usd = steps_per_usd;
        let running = stage.start_with(stage.client.clone(), stage.kwok(stage.client.clone()), settings);
        for number in 0..3 {
            for kind in 0..60 {
                let cpu = format!("{}m", 250 + 130 * (kind * 7 % 23));
                let memory = format!("{}Mi", 300 + 410 * (kind * 5 % 19));
                let requests = json!({"cpu": cpu, "memory": memory});
                let containers =
                    json!([{"name": "main", "image": "pause", "resources": {"requests": requests}}]);
                stage
                    .create_pod(
                        &format!("web-{number}-{kind}"),
                        "1",
                        json!({"spec": {"containers": containers}}),
                    )
                    .await;
            }
            stage.pass(4).await;
        }
        stage.pass(60).await;
        let unbound = stage.pods().await.iter().filter(|pod| pod_node(pod).is_none()).count();
        assert_eq!(unbound, 0, "{:?}", running.summary.borrow());
        seen.push((
            running.metrics.decision_steps(),
            running.summary.borrow().dollars_per_hour,
            decisions(&running),
        ));
        running.stop().await;
    }
    let [(few, price, count), (many, at_leisure, _)] = seen[..] else { panic!("{seen:?}") };
    assert!(count >= 3 && few * 2 < many, "{few} steps for {count} decisions, {many} at leisure");
    assert!(price <= at_leisure * 1.02, "{price} instead of {at_leisure} dollars per hour");
}

/// How many decisions on pods there have been.
fn decisions(running: &Running) -> u64 {
    let text = running.metrics.text();
    let counts =
        text.lines().filter(|line| line.starts_with("karpenter_scheduler_scheduling_duration_seconds_count"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_not_decided_again_until_something_could_help() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pod("large", "300", json!({})).await;
    stage.create_pod("small", "1", json!({})).await;
    stage.pass(60).await;
    let before = decisions(&running);
    assert!(before > 0, "{}", running.metrics.text());
    stage.pass(300).await;
    assert_eq!(decisions(&running), before, "nothing has changed");
    assert_eq!(running.summary.borrow().refused_pods, 1);
    // A pod that leaves makes room, and a new pool may have other machines.
    stage.delete_pod("small").await;
    stage.pass(15).await;
    let after = decisions(&running);
    assert!(after > before);
    stage.apply_pool("other", json!({})).await;
    stage.pass(15).await;
    assert!(decisions(&running) > after);
    running.stop().await;
}
