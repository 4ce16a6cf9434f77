//! Karpenter was here: its objects are taken over as they are.

use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::names::conditions;
use kube::ResourceExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::stage::{Spy, Stage, pod_node};

const REGISTERED: &str = include_str!("../data/karpenter-objects/1-registered-not-initialized.json");
const CONSOLIDATABLE: &str = include_str!("../data/karpenter-objects/2-initialized-consolidatable.json");
const DRIFTED: &str = include_str!("../data/karpenter-objects/3-drift-replacement-waiting.json");
const TERMINATING: &str = include_str!("../data/karpenter-objects/4-terminating-blocked.json");

/// Moves all times of a text, so that the latest of what has happened is now. Times to come (a deadline) move with them.
fn moved_to(now: Timestamp, text: &str, last: &str) -> String {
    let by = now.duration_since(last.parse().unwrap());
    let mut moved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("2026-11-15T") {
        let (before, from) = rest.split_at(at);
        let (stamp, after) = from.split_at("2026-11-15T20:35:14Z".len());
        moved.push_str(before);
        let time: Timestamp = stamp.parse::<Timestamp>().unwrap() + by;
        moved.push_str(&time.round(jiff::Unit::Second).unwrap().to_string());
        rest = after;
    }
    moved + rest
}

fn api(stage: &Stage, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(stage.client.clone(), namespace, &resource),
        None => Api::all_with(stage.client.clone(), &resource),
    }
}

/// Creates recorded objects, owners first; uids are those that this server gives.
async fn restore(stage: &Stage, text: &str, last: &str) {
    let mut text = moved_to(stage.now(), text, last);
    let kinds = [
        ("nodepools", "karpenter.sh", "v1", "NodePool"),
        ("nodeclaims", "karpenter.sh", "v1", "NodeClaim"),
        ("nodes", "", "v1", "Node"),
        ("pods", "", "v1", "Pod"),
    ];
    for (list, group, version, kind) in kinds {
        // Parsed anew for each kind: owners have got other uids meanwhile.
        let recorded: Value = serde_json::from_str(&text).unwrap();
        for object in recorded[list].as_array().unwrap() {
            let name = object["metadata"]["name"].as_str().unwrap();
            let api = api(stage, group, version, kind, object["metadata"]["namespace"].as_str());
            let mut new = object.clone();
            for field in [
                "uid",
                "resourceVersion",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ] {
                new["metadata"].as_object_mut().unwrap().remove(field);
            }
            if kind == "Pod" {
                // Their ReplicaSet was not recorded, and the server collects what has lost its owner.
                new["metadata"].as_object_mut().unwrap().remove("ownerReferences");
            }
            let _ = api.delete(name, &DeleteParams::default()).await;
            let made =
                api.create(&PostParams::default(), &serde_json::from_value(new).unwrap()).await.unwrap();
            let status = json!({"status": object["status"]});
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
            if !object["metadata"]["deletionTimestamp"].is_null() {
                api.delete(name, &DeleteParams::default()).await.unwrap();
            }
            text = text.replace(object["metadata"]["uid"].as_str().unwrap(), &made.uid().unwrap());
        }
    }
}

/// What matters of all objects, by kind and name.
async fn state(stage: &Stage) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for claim in stage.claims().await {
        let status = claim.status.clone().unwrap_or_default();
        let listed = status
            .conditions
            .iter()
            .map(|of| (of.type_.clone(), (of.status.clone(), of.last_transition_time.clone())));
        let listed: BTreeMap<_, _> = listed.collect();
        all.insert(
            format!("nodeclaim/{}", claim.name_any()),
            json!([claim.uid(), claim.annotations(), claim.labels(), listed, status.provider_id]),
        );
    }
    for node in stage.nodes().await {
        let taints = node.spec.as_ref().unwrap().taints.clone();
        all.insert(
            format!("node/{}", node.name_any()),
            json!([node.uid(), node.annotations(), node.labels(), taints]),
        );
    }
    for pod in stage.pods().await {
        all.insert(
            format!("pod/{}", pod.name_any()),
            json!([pod.uid(), pod_node(&pod), pod.metadata.deletion_timestamp]),
        );
    }
    let pool = stage.pool("default").await;
    all.insert("nodepool".to_owned(), json!([pool.uid(), pool.annotations(), pool.spec]));
    all
}

fn assert_same(now: &BTreeMap<String, Value>, before: &BTreeMap<String, Value>) {
    assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    for (name, object) in now {
        assert_eq!(*object, before[name], "{name}");
    }
}

fn condition(claim: &NodeClaim, kind: &str) -> Option<(String, String)> {
    let status = claim.status.as_ref().unwrap();
    let found = status.conditions.iter().find(|of| of.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone()))
}

#[tokio::test(start_paused = true)]
async fn claims_that_have_registered_are_left_as_they_are() {
    let stage = Stage::new().await;
    restore(&stage, REGISTERED, "2026-11-15T20:35:20Z").await;
    // New nodes are called not ready until the controller of nodes has seen them.
    stage.pass(2).await;
    let before = state(&stage).await;
    let spy = Spy::new(&stage, usize::MAX);
    let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
    stage.pass(200).await;
    assert_same(&state(&stage).await, &before);
    let log = spy.log.lock().unwrap().clone();
    // What the nodes lack is said in joiner's own words, once.
    let is_text = |line: &&String| line.contains("/nodeclaims/") && line.contains("/status ");
    let (texts, others): (Vec<&String>, Vec<&String>) = log.iter().partition(is_text);
    assert_eq!(texts.len(), stage.claims().await.len(), "{log:#?}");
    assert!(others.iter().all(|line| line.contains("/nodepools/default/status")), "{log:#?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_that_may_be_consolidated_do_not_drift_and_their_pods_stay() {
    let stage = Stage::new().await;
    restore(&stage, CONSOLIDATABLE, "2026-11-15T20:35:37Z").await;
    // New nodes are called not ready until the controller of nodes has seen them.
    stage.pass(2).await;
    let before = state(&stage).await;
    let running = stage.start();
    stage.pass(200).await;
    assert_same(&state(&stage).await, &before);
    assert!(stage.claims().await.iter().all(|claim| condition(claim, conditions::DRIFTED).is_none()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replacements_that_wait_are_not_bought_again_and_what_was_to_go_may_stay() {
    let stage = Stage::new().await;
    restore(&stage, DRIFTED, "2026-11-15T20:35:48Z").await;
    let names =
        |claims: Vec<NodeClaim>| -> Vec<String> { claims.iter().map(|claim| claim.uid().unwrap()).collect() };
    let before = names(stage.claims().await);
    let pods = stage.pods().await.len();
    let running = stage.start();
    stage.pass(200).await;
    assert_eq!(names(stage.claims().await), before, "nothing is launched, nothing goes");
    assert_eq!(stage.pods().await.len(), pods);
    for node in stage.nodes().await {
        let taints = node.spec.clone().unwrap().taints.unwrap_or_default();
        assert!(!taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted"), "{}", node.name_any());
    }
    for claim in stage.claims().await {
        assert_eq!(condition(&claim, conditions::DISRUPTION_REASON), None, "{}", claim.name_any());
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_to_the_deadline_that_was_written_down() {
    let stage = Stage::new().await;
    restore(&stage, TERMINATING, "2026-11-15T20:35:50Z").await;
    let going = |claims: &[NodeClaim]| {
        claims.iter().find(|claim| claim.metadata.deletion_timestamp.is_some()).cloned()
    };
    let claims = stage.claims().await;
    let claim = going(&claims).unwrap();
    let deadline = claim.annotations()["karpenter.sh/nodeclaim-termination-timestamp"].clone();
    assert_eq!(deadline.parse::<Timestamp>().unwrap().duration_since(stage.now()).as_secs(), 600);
    let running = stage.start();
    stage.pass(580).await;
    let waiting = going(&stage.claims().await).unwrap();
    assert_eq!(waiting.annotations()["karpenter.sh/nodeclaim-termination-timestamp"], deadline);
    assert_eq!(condition(&waiting, conditions::DRAINED), Some(("Unknown".to_owned(), "Draining".to_owned())));
    let blocked =
        waiting.status.as_ref().unwrap().conditions.iter().find(|of| of.type_ == conditions::DRAIN_BLOCKED);
    assert!(blocked.unwrap().message.contains("annotation `karpenter.sh/do-not-disrupt`"), "{blocked:?}");
    assert_eq!(stage.claims().await.len(), claims.len(), "nothing is bought for pods that may not leave");
    stage.pass(60).await;
    assert!(going(&stage.claims().await).is_none(), "its time is over");
    assert_eq!(stage.claims().await.len(), claims.len() - 1);
    assert_eq!(stage.nodes().await.len(), claims.len() - 1);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_launched_claim_whose_node_has_not_come_is_known_by_its_provider_id() {
    let stage = Stage::new().await;
    let mut recorded: Value = serde_json::from_str(REGISTERED).unwrap();
    recorded["pods"] = json!([]);
    let claim = &mut recorded["nodeclaims"][0];
    let (name, id) = (claim["metadata"]["name"].clone(), claim["status"]["providerID"].clone());
    let node = id.as_str().unwrap().strip_prefix("kwok://").unwrap().to_owned();
    let launched =
        claim["status"]["conditions"].as_array().unwrap().iter().find(|of| of["type"] == "Launched").cloned();
    claim["status"]["conditions"] = json!([launched.unwrap()]);
    claim["status"].as_object_mut().unwrap().remove("nodeName");
    recorded["nodes"].as_array_mut().unwrap().retain(|of| of["spec"]["providerID"] != id);
    restore(&stage, &recorded.to_string(), "2026-11-15T20:35:20Z").await;
    let before: Vec<_> = stage.claims().await.iter().map(|claim| (claim.name_any(), claim.uid())).collect();
    let running = stage.start();
    stage.pass(10).await;
    let claims = stage.claims().await;
    assert_eq!(claims.iter().map(|claim| (claim.name_any(), claim.uid())).collect::<Vec<_>>(), before);
    let claim = claims.into_iter().find(|claim| claim.name_any() == name).unwrap();
    assert_eq!(condition(&claim, conditions::REGISTERED).unwrap().0, "True");
    assert_eq!(claim.status.as_ref().unwrap().node_name.as_deref(), Some(&*node));
    assert!(stage.nodes().await.iter().any(|of| of.name_any() == node));
    // Time passes without a second machine, and the end of the claim is the end of this one.
    stage.pass(300).await;
    assert_eq!(stage.nodes().await.len(), before.len());
    stage.delete_claim(&claim.name_any()).await;
    stage.pass(20).await;
    assert!(stage.nodes().await.iter().all(|of| of.name_any() != node));
    assert_eq!(stage.claims().await.len(), before.len() - 1);
    running.stop().await;
}

#[test]
fn times_are_moved_together() {
    let now: Timestamp = "2026-01-05T08:00:00Z".parse().unwrap();
    let text = r#"["2026-11-15T20:35:50Z", "2026-11-15T20:45:50Z"]"#;
    assert_eq!(
        moved_to(now, text, "2026-11-15T20:35:50Z"),
        r#"["2026-01-05T08:00:00Z", "2026-01-05T08:10:00Z"]"#
    );
}
