//! Karpenter was here: its objects are taken over as they are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::names::conditions;
use joiner_controllers::{Controllers, Fence, Leadership, LeaseSettings, Settings, lease};
use joiner_provider::{Provider, Registry};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use k8s_openapi::api::core::v1::{Node, Pod};
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
    // All of a recording is of one day.
    let (day, _) = last.split_at("2026-11-15T".len());
    while let Some(at) = rest.find(day) {
        let (before, from) = rest.split_at(at);
        let (stamp, after) = from.split_at(from.find('Z').unwrap() + 1);
        moved.push_str(before);
        let time: Timestamp = stamp.parse::<Timestamp>().unwrap() + by;
        let time = time.round(jiff::Unit::Second).unwrap();
        // Leases are kept in microseconds.
        moved.push_str(&if stamp.contains('.') { format!("{time:.6}") } else { time.to_string() });
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
        ("leases", "coordination.k8s.io", "v1", "Lease"),
        ("configmaps", "", "v1", "ConfigMap"),
    ];
    for (list, group, version, kind) in kinds {
        // Parsed anew for each kind: owners have got other uids meanwhile.
        let recorded: Value = serde_json::from_str(&text).unwrap();
        for object in recorded[list].as_array().into_iter().flatten() {
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
            if !object["status"].is_null() {
                let status = json!({"status": object["status"]});
                api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
            }
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
    // Karpenter wrote it down before it said that the machine is launched; another release may not.
    claim["metadata"]["annotations"].as_object_mut().unwrap().remove("kwok.x-k8s.io/node");
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
    let of_kwok = |of: &Node| of.annotations().get("kwok.x-k8s.io/node").is_some_and(|mark| mark == "fake");
    assert!(stage.nodes().await.iter().any(|of| of.name_any() == node && of_kwok(of)));
    // Time passes without a second machine, and the end of the claim is the end of this one.
    stage.pass(300).await;
    assert_eq!(stage.nodes().await.len(), before.len());
    stage.delete_claim(&claim.name_any()).await;
    stage.pass(20).await;
    assert!(stage.nodes().await.iter().all(|of| of.name_any() != node));
    assert_eq!(stage.claims().await.len(), before.len() - 1);
    running.stop().await;
}

/// The keys of a map, without those that only joiner or the controller manager writes.
fn keys(map: &BTreeMap<String, String>) -> Vec<&str> {
    let own = |key: &&String| {
        key.starts_with("joiner.sh/")
            || key.starts_with("beta.kubernetes.io/")
            || *key == "node.alpha.kubernetes.io/ttl"
    };
    map.keys().filter(|key| !own(key)).map(String::as_str).collect()
}

/// Fields of an object, without those that are empty.
fn fields(object: &Value) -> Vec<&str> {
    let all = object.as_object().unwrap().iter();
    all.filter(|(_, value)| !value.is_null() && **value != json!([])).map(|(key, _)| key.as_str()).collect()
}

/// Karpenter's claims and nodes beside those that joiner makes of the same pool: it finds every name that it looks for.
#[tokio::test(start_paused = true)]
async fn what_joiner_leaves_is_what_karpenter_reads() {
    let stage = Stage::new().await;
    let recorded: Value = serde_json::from_str(CONSOLIDATABLE).unwrap();
    let pool = recorded["nodepools"][0].clone();
    stage.apply_pool("default", json!({"spec": pool["spec"]})).await;
    let kwok = KwokProvider::new(stage.client.clone(), Catalogue::hypothetical(), stage.shared_clock());
    let kwok = Arc::new(kwok.lifting_startup_taints(Duration::from_secs(2)));
    let running = stage.start_over(stage.client.clone(), kwok);
    let spec = recorded["pods"][0]["spec"].clone();
    let asks = json!({"spec": {"tolerations": spec["tolerations"], "nodeSelector": spec["nodeSelector"]}});
    stage.create_pod("p", "1500m", asks).await;
    stage.pass(60).await;
    let theirs: NodeClaim = serde_json::from_value(recorded["nodeclaims"][0].clone()).unwrap();
    let claims = stage.claims().await;
    let [ours] = claims.as_slice() else { panic!("{claims:#?}") };
    assert_eq!(keys(ours.labels()), keys(theirs.labels()));
    assert_eq!(keys(ours.annotations()), keys(theirs.annotations()));
    for key in ["karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"] {
        assert_eq!(ours.annotations()[key], theirs.annotations()[key], "Karpenter finds no drift");
    }
    assert_eq!(ours.finalizers(), theirs.finalizers());
    let owner = |claim: &NodeClaim| {
        let mut owner = serde_json::to_value(&claim.owner_references()[0]).unwrap();
        owner["uid"] = Value::Null;
        owner
    };
    assert_eq!(owner(ours), owner(&theirs));
    assert_eq!(fields(&json!(ours.spec)), fields(&json!(theirs.spec)));
    assert_eq!(fields(&json!(ours.status)), fields(&json!(theirs.status)));
    let asked = |claim: &NodeClaim| {
        let mut asked: Vec<String> = claim.spec.requirements.iter().map(|of| of.key.clone()).collect();
        asked.sort();
        asked
    };
    let mut wanted = asked(&theirs);
    // Their pods were spread over zones.
    wanted.retain(|key| key != "topology.kubernetes.io/zone");
    let mut have = asked(ours);
    have.retain(|key| key != "topology.kubernetes.io/zone");
    assert_eq!(have, wanted);
    for of in &theirs.status.as_ref().unwrap().conditions {
        let (status, reason) =
            condition(ours, &of.type_).unwrap_or_else(|| panic!("{} is missing", of.type_));
        assert_eq!((status, reason), (of.status.clone(), of.reason.clone()), "{}", of.type_);
    }
    let theirs: Node = serde_json::from_value(recorded["nodes"][0].clone()).unwrap();
    let nodes = stage.nodes().await;
    let node = &nodes[0];
    let mut labels = keys(node.labels());
    labels.retain(|key| !["karpenter.kwok.sh/instance-type", "karpenter.sh/instance-memory"].contains(key));
    assert_eq!(labels, keys(theirs.labels()));
    assert_eq!(keys(node.annotations()), keys(theirs.annotations()));
    assert_eq!(node.finalizers(), theirs.finalizers());
    assert_eq!(node.owner_references()[0].kind, theirs.owner_references()[0].kind);
    let taints = |node: &Node| node.spec.clone().unwrap().taints;
    assert_eq!(taints(node), taints(&theirs));
    running.stop().await;
}

/// A cluster of this release in the middle of its work: pods that run, a machine whose Node has not come, a node that may not be drained, a lease and a record of decisions.
async fn in_the_middle() -> Value {
    let stage = Stage::new().await;
    stage.apply_pool("default", json!({"spec": {"template": {"spec": {"terminationGracePeriod": "10m", "expireAfter": "Never"}}}})).await;
    let running = stage.start_recording("kube-system");
    stage.create_pods("runs", 2, "3").await;
    stage.pass(20).await;
    stage
        .create_pod(
            "stays",
            "14",
            json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}),
        )
        .await;
    stage.pass(20).await;
    let stays = stage.pods().await.into_iter().find(|pod| pod.name_any() == "stays").unwrap();
    stage.delete_claim(pod_node(&stays).unwrap()).await;
    stage.apply_class(json!({"nodeRegistrationDelay": "10m"})).await;
    stage.create_pod("waits", "30", json!({})).await;
    stage.pass(30).await;
    let lease = json!({
        "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "joiner-1_0", "leaseDurationSeconds": 15, "leaseTransitions": 1,
            "acquireTime": format!("{:.6}", stage.now()), "renewTime": format!("{:.6}", stage.now()),
        },
    });
    api(&stage, "coordination.k8s.io", "v1", "Lease", Some("kube-system"))
        .create(&PostParams::default(), &serde_json::from_value(lease).unwrap())
        .await
        .unwrap();
    running.kill().await;
    let mut all = json!({"recorded": stage.now().round(jiff::Unit::Second).unwrap().to_string()});
    for (list, group, version, kind) in [
        ("nodepools", "karpenter.sh", "v1", "NodePool"),
        ("nodeclaims", "karpenter.sh", "v1", "NodeClaim"),
        ("nodes", "", "v1", "Node"),
        ("pods", "", "v1", "Pod"),
        ("leases", "coordination.k8s.io", "v1", "Lease"),
        ("configmaps", "", "v1", "ConfigMap"),
    ] {
        let objects = api(&stage, group, version, kind, None).list(&Default::default()).await.unwrap().items;
        let plain = objects.into_iter().map(|mut object| {
            object.metadata.managed_fields = None;
            object.types = Some(kube::core::TypeMeta {
                api_version: if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") },
                kind: kind.to_owned(),
            });
            json!(object)
        });
        all[list] = plain.filter(|object| object["metadata"]["name"] != "kube-root-ca.crt").collect();
    }
    all
}

/// A release takes over what one before it, or the same, has left.
async fn takes_over(recorded: &Value) {
    let stage = Stage::new().await;
    restore(&stage, &recorded.to_string(), recorded["recorded"].as_str().unwrap()).await;
    stage.pass(2).await;
    let ids = |claims: &[NodeClaim]| -> Vec<_> {
        claims.iter().map(|claim| (claim.uid(), claim.status.clone().unwrap().provider_id)).collect()
    };
    let (claims, pods) = (stage.claims().await, stage.pods().await);
    assert_eq!((claims.len(), stage.nodes().await.len()), (3, 2));
    let (fence, client) = (Fence::closed(stage.shared_clock()), stage.client.clone());
    let (tell, _leadership) = tokio::sync::watch::channel(Leadership::default());
    let (_release, released) = tokio::sync::oneshot::channel();
    let settings = LeaseSettings::new("kube-system", "karpenter-leader-election", "next");
    tokio::spawn(lease::run(client.clone(), settings, fence.clone(), stage.shared_clock(), tell, released));
    let registry = Registry::new([stage.kwok(client.clone()) as Arc<dyn Provider>]).unwrap();
    let next = Controllers::behind(
        fence,
        client,
        registry,
        stage.shared_clock(),
        Settings::default(),
        Arc::default(),
    );
    let next = tokio::spawn(next.run(std::future::pending()));
    stage.pass(200).await;
    assert_eq!(ids(&stage.claims().await), ids(&claims), "nothing is bought, nothing goes");
    let uids = |pods: &[Pod]| -> Vec<_> { pods.iter().map(|pod| (pod.name_any(), pod.uid())).collect() };
    assert_eq!(uids(&stage.pods().await), uids(&pods), "no pod starts anew");
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()), "the one that waited has its node");
    for claim in stage.claims().await {
        assert_eq!(condition(&claim, conditions::REGISTERED).unwrap().0, "True", "{}", claim.name_any());
        assert_eq!(condition(&claim, conditions::DRIFTED), None);
        let going = claim.metadata.deletion_timestamp.is_some();
        assert_eq!(condition(&claim, conditions::DRAIN_BLOCKED).is_some(), going);
    }
    let leases = api(&stage, "coordination.k8s.io", "v1", "Lease", Some("kube-system"));
    let lease = leases.get("karpenter-leader-election").await.unwrap();
    assert_eq!(lease.data["spec"]["holderIdentity"], "next");
    // The deadline of the drain is the one that was written down.
    stage.pass(400).await;
    assert_eq!(stage.claims().await.len(), 2);
    next.abort();
}

/// `JOINER_RECORD=1` keeps the objects of this release for those that come.
#[tokio::test(start_paused = true)]
async fn what_this_release_leaves_is_taken_over() {
    let all = in_the_middle().await;
    takes_over(&all).await;
    if std::env::var("JOINER_RECORD").is_ok() {
        let path = format!(
            "{}/tests/data/joiner-objects/{}.json",
            env!("CARGO_MANIFEST_DIR"),
            env!("CARGO_PKG_VERSION")
        );
        std::fs::write(path, serde_json::to_string_pretty(&all).unwrap() + "\n").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_earlier_releases_left_is_taken_over() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/joiner-objects");
    let mut releases = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|of| of == "json") {
            releases += 1;
            takes_over(&serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()).await;
        }
    }
    assert!(releases > 0, "no release was recorded");
}

/// Names that stand in KWOK's page and nowhere else: pools and pods may use them.
#[tokio::test(start_paused = true)]
async fn names_on_paper_are_read_as_the_real_ones() {
    let stage = Stage::new().await;
    stage
        .apply_pool("default", json!({"spec": {
            "template": {"spec": {"requirements": [
                {"key": "karpenter.kwok.sh/instance-type", "operator": "In", "values": ["c-4x-amd64-linux", "m-8x-amd64-linux"]},
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            ]}},
            "disruption": {"consolidationPolicy": "WhenUnderutilized"},
        }}))
        .await;
    let running = stage.start();
    stage.create_pod("small", "1", json!({})).await;
    stage
        .create_pod("large", "1", json!({"spec": {"nodeSelector": {"karpenter.sh/instance-memory": "64Gi"}}}))
        .await;
    stage.pass(40).await;
    let pods = stage.pods().await;
    assert!(pods.iter().all(|pod| pod_node(pod).is_some()), "{:#?}", stage.events().await);
    assert!(stage.types().await.contains(&"m-8x-amd64-linux".to_owned()), "{:?}", stage.types().await);
    let events = stage.events().await;
    let told = |part: &str| {
        events
            .iter()
            .filter(|event| event.starts_with("NodePool/default ValidationWarning") && event.contains(part))
            .count()
    };
    assert_eq!(
        (told("write `node.kubernetes.io/instance-type`"), told("write `WhenEmptyOrUnderutilized`")),
        (1, 1),
        "{events:#?}"
    );
    stage.pass(600).await;
    assert_eq!(stage.claims().await.len(), stage.types().await.len(), "and it stays so");
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
