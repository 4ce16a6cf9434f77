//! What happens after the first answer: pods that wait, victims that go, volumes that come, bindings that fail.

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use joiner_sim::controller::Participant;
use joiner_sim::object::{Fields, Key, Kind};
use joiner_sim::write::{Note, Write};
use serde_json::{Value, json};

use crate::bed::{Bed, Server, collection, now, path};

async fn bed() -> Result<Bed> {
    let bed = Bed::new(Server::embedded());
    for (name, value) in [("low", 1), ("high", 10)] {
        let body = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
        bed.server.must("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", Some(&body)).await?;
    }
    Ok(bed)
}

async fn node(bed: &Bed, name: &str, cpu: &str) -> Result<()> {
    let room = json!({"cpu": cpu, "memory": "8Gi", "pods": "10"});
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "z1"});
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room}});
    bed.server.must("POST", "/api/v1/nodes", Some(&body)).await?;
    let taints = json!({"spec": {"taints": null}});
    bed.server.must("PATCH", &format!("/api/v1/nodes/{name}"), Some(&taints)).await?;
    Ok(())
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"automountServiceAccountToken": false, "containers": [
        {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]}})
}

async fn create(bed: &Bed, pod: &Value) -> Result<()> {
    bed.server.must("POST", &collection(Kind::Pod, "default"), Some(pod)).await?;
    Ok(())
}

fn key(name: &str) -> Key {
    Key::new(Kind::Pod, "default", name)
}

fn at<'b>(bed: &'b Bed, name: &str) -> &'b str {
    bed.object(&key(name)).map_or("gone", |pod| pod.text(&["spec", "nodeName"]))
}

async fn delete_now(bed: &Bed, place: &str) -> Result<()> {
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    bed.server.must("DELETE", place, Some(&body)).await?;
    Ok(())
}

#[tokio::test(flavor = "current_thread")]
async fn a_preemptor_gets_the_place_once_its_victim_is_gone() -> Result<()> {
    let mut bed = bed().await?;
    node(&bed, "a", "2").await?;
    let mut low = pod("low", "2");
    low["spec"]["priorityClassName"] = json!("low");
    create(&bed, &low).await?;
    bed.settle().await?;
    assert_eq!(at(&bed, "low"), "a");

    let mut high = pod("high", "2");
    high["spec"]["priorityClassName"] = json!("high");
    create(&bed, &high).await?;
    bed.settle().await?;
    let victim = bed.object(&key("low")).expect("still there");
    assert!(victim.is_deleting());
    assert_eq!(
        victim.condition("DisruptionTarget").map(|c| c.text(&["reason"])),
        Some("PreemptionByScheduler")
    );
    assert_eq!(bed.object(&key("high")).map(|pod| pod.text(&["status", "nominatedNodeName"])), Some("a"));

    // The place is kept: a pod that matters less does not get it, one that needs no CPU may pass.
    let mut other = pod("other", "1");
    other["spec"]["priorityClassName"] = json!("low");
    create(&bed, &other).await?;
    delete_now(&bed, &path(&key("low"))).await?;
    bed.settle().await?;
    assert_eq!((at(&bed, "high"), at(&bed, "other")), ("a", ""));
    Ok(())
}

#[tokio::test(flavor = "current_thread")]
async fn a_victim_may_carry_the_same_term_twice() -> Result<()> {
    let mut bed = bed().await?;
    node(&bed, "a", "4").await?;
    let mut low = pod("low", "1");
    low["spec"]["priorityClassName"] = json!("low");
    let term =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}});
    low["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([term, term]);
    create(&bed, &low).await?;
    bed.settle().await?;
    let mut high = pod("high", "1");
    high["metadata"]["labels"] = json!({"app": "web"});
    high["spec"]["priorityClassName"] = json!("high");
    create(&bed, &high).await?;
    bed.settle().await?;
    assert_eq!(bed.object(&key("high")).map(|pod| pod.text(&["status", "nominatedNodeName"])), Some("a"));
    Ok(())
}

#[tokio::test(flavor = "current_thread")]
async fn a_pod_that_fits_nowhere_is_looked_at_again_when_that_may_help() -> Result<()> {
    let mut bed = bed().await?;
    node(&bed, "a", "1").await?;
    create(&bed, &pod("p", "2")).await?;
    bed.settle().await?;
    assert_eq!(at(&bed, "p"), "");
    // A volume, or a node as small as the first: no reason to look again, so the words stay.
    node(&bed, "b", "1").await?;
    bed.settle().await?;
    let condition =
        bed.object(&key("p")).and_then(|pod| pod.condition("PodScheduled").cloned()).unwrap_or_default();
    assert!(condition.text(&["message"]).starts_with("0/1 nodes"), "{condition}");
    node(&bed, "c", "4").await?;
    bed.settle().await?;
    assert_eq!(at(&bed, "p"), "c");
    Ok(())
}

#[tokio::test(flavor = "current_thread")]
async fn a_gated_pod_waits_for_its_gates() -> Result<()> {
    let mut bed = bed().await?;
    node(&bed, "a", "2").await?;
    let mut gated = pod("p", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    create(&bed, &gated).await?;
    bed.settle().await?;
    assert_eq!(at(&bed, "p"), "");
    let open = json!({"spec": {"schedulingGates": null}});
    bed.server.must("PATCH", &path(&key("p")), Some(&open)).await?;
    bed.settle().await?;
    assert_eq!(at(&bed, "p"), "a");
    Ok(())
}

#[tokio::test(flavor = "current_thread")]
async fn a_claim_that_waits_is_provisioned_before_the_pod_is_bound() -> Result<()> {
    let mut bed = bed().await?;
    node(&bed, "a", "2").await?;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "wait"},
        "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"});
    bed.server.must("POST", "/apis/storage.k8s.io/v1/storageclasses", Some(&class)).await?;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "wait", "resources": {"requests": {"storage": "1Gi"}}}});
    bed.server.must("POST", &collection(Kind::PersistentVolumeClaim, "default"), Some(&claim)).await?;
    let mut user = pod("p", "1");
    user["spec"]["volumes"] = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "v"}}]);
    create(&bed, &user).await?;
    bed.settle().await?;
    let claim = Key::new(Kind::PersistentVolumeClaim, "default", "v");
    let selected = bed
        .object(&claim)
        .and_then(|claim| claim.annotation("volume.kubernetes.io/selected-node").map(str::to_owned));
    assert_eq!((selected.as_deref(), at(&bed, "p")), (Some("a"), ""), "bound only with its volume");
    // The room is taken meanwhile.
    create(&bed, &pod("q", "2")).await?;
    bed.settle().await?;
    assert_eq!(at(&bed, "q"), "");

    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "wait",
        "csi": {"driver": "csi.example.com", "volumeHandle": "pv"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "v"}}});
    bed.server.must("POST", "/api/v1/persistentvolumes", Some(&volume)).await?;
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "pv"}});
    bed.server.must("PATCH", &path(&claim), Some(&bound)).await?;
    bed.settle().await?;
    assert_eq!(at(&bed, "p"), "a");
    Ok(())
}

#[tokio::test(flavor = "current_thread")]
async fn a_binding_that_fails_is_tried_again_after_a_while_and_told_only_when_true() -> Result<()> {
    let mut bed = bed().await?;
    node(&bed, "a", "2").await?;
    create(&bed, &pod("p", "1")).await?;
    bed.sync().await?;
    let later = |seconds: i64| -> Timestamp { now() + SignedDuration::from_secs(seconds) };
    let writes = bed.scheduler.step(now());
    assert!(matches!(&writes[..], [Write::Bind { node, .. }] if node == "a"), "{writes:?}");
    bed.scheduler.refused(&writes[0], 500, "not now");
    assert_eq!((bed.scheduler.step(now()), bed.scheduler.wakes_at()), (Vec::new(), Some(later(1))));
    let writes = bed.scheduler.step(later(1));
    assert!(matches!(&writes[..], [Write::Bind { .. }]), "{writes:?}");
    bed.write(&writes[0]).await?;
    bed.sync().await?;
    let writes = bed.scheduler.step(later(1));
    let [Write::Event(Note { reason, message, .. })] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!((*reason, message.as_str()), ("Scheduled", "Successfully assigned default/p to a"));
    Ok(())
}
