//! The recorded cases: 93 small clusters on the embedded server, our scheduler's answer against the real one's.

use anyhow::{Context, Result};
use joiner_sim::object::{Fields, Key, Kind};
use serde_json::{Value, json};

use crate::bed::{Bed, Server, collection, path, with_namespace};

const CASES: &str = include_str!("../data/scheduler.jsonl");

#[tokio::test(flavor = "current_thread")]
async fn recorded_cases_agree() -> Result<()> {
    let only = std::env::var("CASE").unwrap_or_default();
    let (mut count, mut wrong) = (0, Vec::new());
    for (at, line) in CASES.lines().enumerate() {
        let case: Value = serde_json::from_str(line)?;
        if !case.text(&["name"]).contains(&only) {
            continue;
        }
        let namespace = format!("case-{at}");
        let case = with_namespace(&case, &namespace)?;
        count += 1;
        let found = run(&case, &namespace).await.with_context(|| case.text(&["name"]).to_owned())?;
        if let Err(why) = judge(&case, &found) {
            wrong.push(format!("{}: {why}", case.text(&["name"])));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cases differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!only.is_empty() || count == 93, "{count} cases");
    Ok(())
}

/// What became of a case: its pods, and those marked for deletion.
struct Found {
    pods: Vec<(String, Value)>,
    deleted: Vec<String>,
}

async fn run(case: &Value, namespace: &str) -> Result<Found> {
    let mut bed = Bed::new(Server::embedded());
    let mut namespaces = vec![namespace.to_owned()];
    namespaces.extend(case.items(&["namespaces"]).iter().filter_map(Value::as_str).map(str::to_owned));
    for name in &namespaces {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        bed.server.must("POST", "/api/v1/namespaces", Some(&body)).await?;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        bed.server
            .must("POST", &format!("/api/v1/namespaces/{name}/serviceaccounts"), Some(&account))
            .await?;
    }
    for node in case.items(&["nodes"]) {
        bed.server.must("POST", "/api/v1/nodes", Some(node)).await?;
        let taints = json!({"spec": {"taints": node.at(&["spec", "taints"])}});
        bed.server.must("PATCH", &path(&Key::of(Kind::Node, node)), Some(&taints)).await?;
    }
    for object in case.items(&["objects"]) {
        let made = bed.server.must("POST", object.text(&["path"]), Some(&object["body"])).await?;
        if object["putStatus"] == true {
            let status = json!({"status": object.at(&["body", "status"])});
            let place = format!("{}/{}/status", object.text(&["path"]), made.name());
            bed.server.must("PATCH", &place, Some(&status)).await?;
        }
    }
    for pod in case.items(&["bound"]) {
        create(&bed, pod, namespace).await?;
        let own = if pod.namespace().is_empty() { namespace } else { pod.namespace() };
        let start = pod.annotation("start").unwrap_or("2023-11-14T00:00:00Z");
        let status = json!({"status": {"phase": "Running", "startTime": start, "conditions": [
            {"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}]}});
        let place = format!("{}/status", path(&Key::new(Kind::Pod, own, pod.name())));
        bed.server.must("PATCH", &place, Some(&status)).await?;
    }
    let binds = case.items(&["needs"]).iter().any(|need| need == "controllers");
    for pod in case.items(&["pods"]) {
        if binds {
            bind_volumes(&bed).await?;
        }
        create(&bed, pod, namespace).await?;
        bed.settle().await?;
        if binds {
            bind_volumes(&bed).await?;
            bed.settle().await?;
        }
    }
    let mut found = Found { pods: Vec::new(), deleted: Vec::new() };
    for pod in case.items(&["pods"]) {
        let key = Key::new(Kind::Pod, namespace, pod.name());
        let pod = bed.object(&key).with_context(|| format!("{key}"))?;
        found.pods.push((pod.name().to_owned(), outcome(pod)));
    }
    for (key, pod) in bed.objects(Kind::Pod) {
        if pod.is_deleting() {
            found.deleted.push(key.name.to_string());
        }
    }
    Ok(found)
}

async fn create(bed: &Bed, pod: &Value, namespace: &str) -> Result<()> {
    let namespace = if pod.namespace().is_empty() { namespace } else { pod.namespace() };
    bed.server.must("POST", &collection(Kind::Pod, namespace), Some(pod)).await?;
    Ok(())
}

/// What a controller manager does for volumes: they become available, and claims that volumes are meant for become bound.
async fn bind_volumes(bed: &Bed) -> Result<()> {
    let volumes = bed.server.must("GET", "/api/v1/persistentvolumes", None).await?;
    for volume in volumes.items(&["items"]) {
        let place = path(&Key::of(Kind::PersistentVolume, volume));
        let claim = volume.at(&["spec", "claimRef"]);
        let phase = if claim.is_null() { "Available" } else { "Bound" };
        bed.server
            .must("PATCH", &format!("{place}/status"), Some(&json!({"status": {"phase": phase}})))
            .await?;
        if claim.is_object() {
            let key =
                Key::new(Kind::PersistentVolumeClaim, claim.text(&["namespace"]), claim.text(&["name"]));
            let bound = json!({
                "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {"volumeName": volume.name()},
            });
            bed.server.must("PATCH", &path(&key), Some(&bound)).await?;
        }
    }
    Ok(())
}

/// A pod as the recordings describe it.
pub fn outcome(pod: &Value) -> Value {
    let node = pod.text(&["spec", "nodeName"]);
    if !node.is_empty() {
        return json!({"node": node});
    }
    let Some(condition) = pod.condition("PodScheduled") else { return json!({"reason": "none"}) };
    let mut out = json!({"reason": condition["reason"], "message": condition["message"]});
    let nominated = pod.text(&["status", "nominatedNodeName"]);
    if !nominated.is_empty() {
        out["nominated"] = json!(nominated);
    }
    out
}

fn judge(case: &Value, found: &Found) -> Result<(), String> {
    let outcomes = case.items(&["expect", "outcomes"]);
    for (pod, got) in &found.pods {
        let recorded = outcomes.iter().any(|outcome| outcome[pod] == *got);
        let equal = case.items(&["equal", pod]).iter().any(|node| *node == got["node"]);
        if !recorded && !equal {
            return Err(format!("`{pod}` is {got}, not one of {}", json!(outcomes)));
        }
    }
    let mut deleted = found.deleted.clone();
    deleted.sort();
    let expected = case.items(&["expect", "deleted"]);
    if !expected.iter().any(|set| *set == json!(deleted)) {
        return Err(format!("{deleted:?} are deleted, not one of {expected:?}"));
    }
    Ok(())
}
