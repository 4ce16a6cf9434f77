//! Instance types that a KWOKNodeClass brings along: written there, or in a ConfigMap that changes under way.

use joiner_api::KwokNodeClass;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::stage::{Stage, pod_node};

/// A list of one type.
fn list(name: &str, cpu: u32) -> Value {
    json!([{
        "name": name, "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": cpu.to_string(), "memory": "64Gi"},
        "offerings": [{"Price": 1.0, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["cellar"]},
        ]}],
    }])
}

async fn write_map(stage: &Stage, text: &str) {
    let api: Api<ConfigMap> = Api::namespaced(stage.client.clone(), "kube-system");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "machines"}, "data": {"types.json": text}});
    api.patch("machines", &PatchParams::apply("test").force(), &Patch::Apply(map)).await.unwrap();
}

fn from_map() -> Value {
    json!({"instanceTypesFrom": {"configMap": {"namespace": "kube-system", "name": "machines"}}})
}

/// A condition of the class: status and message.
async fn condition(stage: &Stage, kind: &str) -> Option<(String, String)> {
    let api: Api<KwokNodeClass> = Api::all(stage.client.clone());
    let conditions = api.get("default").await.unwrap().status.unwrap().conditions;
    conditions.into_iter().find(|of| of.type_ == kind).map(|of| (of.status, of.message))
}

async fn events_about(stage: &Stage, reason: &str) -> Vec<String> {
    let all = stage.events().await.into_iter();
    all.filter(|event| event.starts_with(&format!("KWOKNodeClass/default {reason}"))).collect()
}

async fn placed(stage: &Stage) -> usize {
    stage.pods().await.iter().filter(|pod| pod_node(pod).is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn types_written_in_the_class_are_its_own() {
    let stage = Stage::new().await;
    stage.apply_class(json!({"instanceTypesFrom": {"inline": list("own.large", 8)}})).await;
    let running = stage.start();
    stage.create_pods("p", 3, "2").await;
    stage.pass(30).await;
    assert_eq!(stage.types().await, ["own.large"]);
    assert_eq!(placed(&stage).await, 3);
    let said = condition(&stage, "InstanceTypesReady").await;
    assert_eq!(said, Some(("True".to_owned(), "1 instance types".to_owned())));
    // Without them it offers what all offer, and says no more.
    stage.apply_class(json!({})).await;
    stage.create_pods("q", 1, "7").await;
    stage.pass(30).await;
    let types = stage.types().await;
    assert!(types.len() == 2 && types.contains(&"own.large".to_owned()), "{types:?}");
    assert_eq!(condition(&stage, "InstanceTypesReady").await, None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_changes_takes_the_place_of_the_one_before() {
    let stage = Stage::new().await;
    write_map(&stage, &list("first.large", 8).to_string()).await;
    stage.apply_class(from_map()).await;
    let running = stage.start();
    stage.create_pods("p", 1, "6").await;
    stage.pass(30).await;
    assert_eq!(stage.types().await, ["first.large"]);
    // As YAML this time: the form is found out.
    write_map(&stage, &serde_json::to_string_pretty(&list("second.large", 8)).unwrap()).await;
    stage.create_pods("q", 1, "6").await;
    stage.pass(30).await;
    assert_eq!(stage.types().await, ["first.large", "second.large"]);
    // One that cannot be used changes nothing, and is told once, however often it is written.
    let broken = list("third.large", 8).to_string().replace("resources", "resorces");
    for round in 0..3 {
        write_map(&stage, &format!("{}{broken}", " ".repeat(round))).await;
        stage.pass(10).await;
    }
    stage.create_pods("r", 1, "6").await;
    stage.pass(30).await;
    assert_eq!(stage.types().await, ["first.large", "second.large", "second.large"]);
    let (status, message) = condition(&stage, "InstanceTypesReady").await.unwrap();
    assert_eq!(status, "False");
    assert!(
        message.contains("resorces") && message.contains("the last good list of 1 instance types stays"),
        "{message}"
    );
    assert_eq!(condition(&stage, "Ready").await.unwrap().0, "True");
    assert_eq!(events_about(&stage, "InstanceTypesInvalid").await.len(), 1);
    write_map(&stage, &list("third.large", 8).to_string()).await;
    stage.create_pods("s", 1, "6").await;
    stage.pass(30).await;
    assert_eq!(stage.types().await.last().map(String::as_str), Some("third.large"));
    assert_eq!(condition(&stage, "InstanceTypesReady").await.unwrap().0, "True");
    assert_eq!(events_about(&stage, "InstanceTypesLoaded").await.len(), 1);
    assert_eq!(placed(&stage).await, 4, "machines of earlier lists stay what they are");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_class_that_never_had_a_list_is_not_ready() {
    let stage = Stage::new().await;
    stage.apply_class(from_map()).await;
    let running = stage.start();
    stage.create_pods("p", 1, "6").await;
    stage.pass(30).await;
    assert!(stage.claims().await.is_empty());
    let (status, message) = condition(&stage, "Ready").await.unwrap();
    assert_eq!(
        (status.as_str(), message.as_str()),
        ("False", "there is no ConfigMap `kube-system/machines`")
    );
    let pool = stage.pool("default").await;
    let ready = pool.status.unwrap().conditions.into_iter().find(|of| of.type_ == "NodeClassReady").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "InstanceTypesInvalid"));
    write_map(&stage, &list("late.large", 8).to_string()).await;
    stage.pass(60).await;
    assert_eq!(stage.types().await, ["late.large"]);
    assert_eq!(condition(&stage, "Ready").await.unwrap().0, "True");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_process_finds_the_same_types() {
    let stage = Stage::new().await;
    write_map(&stage, &list("own.large", 8).to_string()).await;
    stage.apply_class(from_map()).await;
    let running = stage.start();
    stage.create_pods("p", 1, "6").await;
    stage.pass(30).await;
    running.kill().await;
    stage.create_pods("q", 1, "6").await;
    let running = stage.start();
    stage.pass(30).await;
    assert_eq!(stage.types().await, ["own.large", "own.large"]);
    let names: Vec<String> = stage.claims().await.iter().map(|claim| claim.name_any()).collect();
    assert_eq!(names, stage.nodes().await.iter().map(|node| node.name_any()).collect::<Vec<_>>());
    running.stop().await;
}
