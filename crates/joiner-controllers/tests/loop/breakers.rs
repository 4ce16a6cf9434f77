//! What stops joiner from going on with something that does harm, and that a restart forgets nothing of it.

use std::collections::BTreeSet;
use std::time::Duration;

use joiner_api::{KwokNodeClass, NodeClaim};
use joiner_controllers::Settings;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::stage::{Running, Stage, pod_node};

/// A controller that puts a taint on each new node in place of the one it starts with, and notes which claims there have been.
#[derive(Default)]
struct Tainter {
    /// It no longer puts one on.
    is_over: bool,
    tainted: BTreeSet<String>,
    claims: BTreeSet<String>,
    most_nodes: usize,
}

impl Tainter {
    async fn work(&mut self, stage: &Stage, seconds: u64) {
        for _ in 0..2 * seconds {
            stage.pass_millis(500).await;
            let nodes = stage.nodes().await;
            self.most_nodes = self.most_nodes.max(nodes.len());
            for node in &nodes {
                let mut taints = node.spec.clone().unwrap().taints.unwrap_or_default();
                // Not while joiner writes taints itself.
                let joined = taints.iter().all(|taint| taint.key != "karpenter.sh/unregistered");
                if joined && self.tainted.insert(node.uid().unwrap()) {
                    taints.retain(|taint| taint.key != "example.com/starting");
                    if !self.is_over {
                        let odd = json!({"key": "example.com/odd", "effect": "NoSchedule"});
                        taints.push(serde_json::from_value(odd).unwrap());
                    }
                    stage.set_taints(&node.name_any(), json!(taints)).await;
                }
            }
            self.claims.extend(stage.claims().await.iter().map(|claim| claim.uid().unwrap()));
        }
    }
}

/// A pool whose nodes take no pods before the tainter has seen them.
async fn pool_with_agent(stage: &Stage, consolidate_after: &str) {
    let starting = json!([{"key": "example.com/starting", "effect": "NoSchedule"}]);
    let template = json!({"spec": {"startupTaints": starting}});
    let spec = json!({"template": template, "disruption": {"consolidateAfter": consolidate_after}});
    stage.apply_pool("default", json!({"spec": spec})).await;
}

fn gauge(running: &Running, breaker: &str) -> String {
    let text = running.metrics.text();
    let line = format!("joiner_breakers_tripped{{breaker=\"{breaker}\"}} ");
    text.lines().find_map(|of| of.strip_prefix(&line)).unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_taints_every_node_does_not_make_more_and_more_of_them() {
    for pods in [1, 4] {
        let stage = Stage::new().await;
        pool_with_agent(&stage, "0s").await;
        let running = stage.start();
        stage.create_pods("web", pods, "1").await;
        let mut tainter = Tainter::default();
        tainter.work(&stage, 20 * 60).await;
        assert!(tainter.most_nodes <= pods + 1, "{} nodes for {pods} pods", tainter.most_nodes);
        // Three for each kind of pods, then one after 5 min and one after 10 min more; a pod without an owner is a kind of its own.
        let machines = tainter.claims.len();
        assert!((4..=5 * pods).contains(&machines), "{machines} machines for {pods} pods in 20 min");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn machines_that_help_nobody_are_not_bought_again_until_one_helps() {
    let stage = Stage::new().await;
    pool_with_agent(&stage, "Never").await;
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    let mut tainter = Tainter::default();
    tainter.work(&stage, 120).await;
    assert_eq!(tainter.claims.len(), 3);
    assert_eq!(gauge(&running, "runaway"), "1");
    let events = stage.events().await;
    let told: Vec<&String> = events.iter().filter(|event| event.contains("RunawayLaunches")).collect();
    let [told] = told[..] else { panic!("{events:?}") };
    assert!(told.starts_with("Pod/web-0 RunawayLaunches: 3 machines came up"), "{told}");
    assert!(told.contains("has the taint `example.com/odd:NoSchedule`"), "{told}");
    let remembered =
        |pool: &joiner_api::NodePool| pool.annotations().get("joiner.sh/fruitless-machines").cloned();
    assert!(remembered(&stage.pool("default").await).is_some_and(|text| text.contains("\"machines\":3")));
    // Another pod is no business of that.
    stage.create_pod("other", "1", json!({"spec": {"tolerations": [{"operator": "Exists"}]}})).await;
    tainter.work(&stage, 10).await;
    let bound: Vec<bool> = stage.pods().await.iter().map(|pod| pod_node(pod).is_some()).collect();
    assert_eq!(bound, [true, false], "other, web-0");
    let before = tainter.claims.len();
    // A new process has read what was found.
    running.kill().await;
    let running = stage.start();
    tainter.work(&stage, 90).await;
    assert_eq!(tainter.claims.len(), before, "machines after the restart");
    assert_eq!(gauge(&running, "runaway"), "1");
    // Nobody taints any more: after the pause one is tried, and helps.
    tainter.is_over = true;
    tainter.work(&stage, 6 * 60).await;
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()));
    assert_eq!(remembered(&stage.pool("default").await), None);
    assert!(stage.events().await.iter().any(|event| event.starts_with("Pod/web-0 LaunchesResumed")));
    stage.pass(10).await;
    assert_eq!(gauge(&running, "runaway"), "0");
    running.stop().await;
}

async fn apply_class(stage: &Stage, name: &str, spec: Value) {
    let api: Api<KwokNodeClass> = Api::all(stage.client.clone());
    let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": name}, "spec": spec});
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(class)).await.unwrap();
}

fn apart() -> Value {
    let term =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}});
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
}

fn of_pool<'c>(claims: &'c [NodeClaim], pool: &str) -> Vec<&'c NodeClaim> {
    claims.iter().filter(|claim| claim.labels()["karpenter.sh/nodepool"] == pool).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_machines_do_not_join_is_tried_last_and_one_machine_at_a_time() {
    let stage = Stage::new().await;
    apply_class(&stage, "slow", json!({"nodeRegistrationDelay": "20m"})).await;
    let change = json!({"spec": {"weight": 10, "template": {"spec": {"nodeClassRef": {"name": "slow"}}}}});
    stage.apply_pool("slow", change).await;
    let settings = Settings { registration_timeout: Duration::from_secs(60), ..Settings::default() };
    let start = || stage.start_with(stage.client.clone(), stage.kwok(stage.client.clone()), settings.clone());
    let running = start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(10).await;
    assert_eq!(of_pool(&stage.claims().await, "slow").len(), 1, "the heavier pool");
    stage.pass(220).await;
    let pods = stage.pods().await;
    let nodes = stage.nodes().await;
    let on: Option<&Node> = nodes.iter().find(|node| Some(node.name_any().as_str()) == pod_node(&pods[0]));
    assert_eq!(on.map(|node| node.labels()["karpenter.sh/nodepool"].as_str()), Some("default"), "{nodes:?}");
    let remembered =
        |pool: &joiner_api::NodePool| pool.annotations().get("joiner.sh/registration-failures").cloned();
    assert_eq!(remembered(&stage.pool("slow").await).as_deref(), Some("3"));
    assert_eq!(gauge(&running, "registration"), "1");
    let events = stage.events().await;
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("NodePool/slow RegistrationsFailing: 3 machines in a row")),
        "{events:?}"
    );
    // A new process knows; there is nothing else than this pool now.
    running.kill().await;
    let running = start();
    stage.delete_pool("default").await;
    stage.pass(5).await;
    for number in 0..3 {
        stage.create_pod(&format!("more-{number}"), "1", apart()).await;
    }
    stage.pass(20).await;
    assert_eq!(of_pool(&stage.claims().await, "slow").len(), 1, "one is tried");
    stage.pass(100).await;
    assert_eq!(of_pool(&stage.claims().await, "slow").len(), 1, "one after the other");
    // What was wrong is mended: the next one joins, and all get theirs.
    apply_class(&stage, "slow", json!({})).await;
    stage.pass(120).await;
    assert_eq!(remembered(&stage.pool("slow").await), None);
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()));
    assert!(stage.events().await.iter().any(|event| event.starts_with("NodePool/slow RegistrationsWork")));
    running.stop().await;
}

/// A node is ready or not, and its kubelet does not say otherwise.
async fn set_ready(stage: &Stage, node: &str, status: &str) {
    let api: Api<Node> = Api::all(stage.client.clone());
    let stopped = if status == "True" { Value::Null } else { json!("stopped") };
    let kubelet = json!({"metadata": {"annotations": {"joiner.sh/kubelet": stopped}}});
    api.patch(node, &PatchParams::default(), &Patch::Merge(kubelet)).await.unwrap();
    let time = stage.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ready = json!([{"type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": time}]);
    let patch = Patch::Strategic(json!({"status": {"conditions": ready}}));
    api.patch_status(node, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_removed_while_many_nodes_are_not_ready() {
    let stage = Stage::new().await;
    let disruption =
        json!({"spec": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}}});
    stage.apply_pool("default", disruption).await;
    let running = stage.start();
    for number in 0..8 {
        stage.create_pod(&format!("web-{number}"), "1", apart()).await;
    }
    stage.pass(40).await;
    let nodes: Vec<String> = stage.nodes().await.iter().map(|node| node.name_any()).collect();
    assert_eq!(nodes.len(), 8);
    // Four of eight are lost, and one of the others is no longer needed.
    let pods = stage.pods().await;
    let empty = pods.iter().find(|pod| pod_node(pod) == Some(&*nodes[7])).unwrap().name_any();
    for node in &nodes[..4] {
        set_ready(&stage, node, "False").await;
    }
    stage.delete_pod(&empty).await;
    stage.pass(40).await;
    assert_eq!(gauge(&running, "cluster_health"), "1");
    assert_eq!(stage.nodes().await.len(), 8, "an empty node stays");
    let events = stage.events().await;
    assert!(events.iter().any(|event| event.contains("ClusterUnhealthy: 4 of 8 nodes")), "{events:?}");
    // Machines for pods are bought all the same, and a new process sees it as well: some are ready again, but only just.
    stage.create_pod("late", "1", apart()).await;
    stage.pass(1).await;
    for node in &nodes[..4] {
        set_ready(&stage, node, "True").await;
    }
    running.kill().await;
    let running = stage.start();
    stage.pass(60).await;
    assert_eq!(gauge(&running, "cluster_health"), "1", "better for a minute only");
    stage.pass(120).await;
    assert_eq!(gauge(&running, "cluster_health"), "0");
    assert!(stage.nodes().await.len() <= 8);
    running.stop().await;
}
