//! What `kubectl top` asks for, and the leases of nodes.

use std::sync::Arc;

use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use serde_json::json;

async fn cluster() -> Client {
    let settings = Settings { usage: true, leases: true, ..Settings::default() };
    let client = Client::new(ApiServer::new(Arc::new(Timestamp::now), &settings), "default");
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for (name, annotations, phase) in [
        ("busy", json!({"kwok.x-k8s.io/usage-cpu": "1500m", "kwok.x-k8s.io/usage-memory": "1Gi"}), "Running"),
        ("idle", json!({}), "Running"),
        ("waiting", json!({}), "Pending"),
    ] {
        let containers = json!([{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]);
        let pod = json!({"metadata": {"name": name, "labels": {"app": name}, "annotations": annotations},
            "spec": {"nodeName": "n", "containers": containers}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let status = json!({"status": {"phase": phase}});
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }
    client
}

fn usage(client: &Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1beta1", kind);
    let plural = if kind.kind == "PodMetrics" { "pods" } else { "nodes" };
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    if plural == "pods" {
        Api::default_namespaced_with(client.clone(), &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    }
}

#[tokio::test]
async fn usage_comes_from_annotations() {
    let client = cluster().await;
    let pods = usage(&client, "PodMetrics").list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    assert_eq!(names, ["busy", "idle"]);
    assert_eq!(
        pods.items[0].data["containers"][1],
        json!({"name": "b", "usage": {"cpu": "1500m", "memory": "1Gi"}})
    );
    assert_eq!(pods.items[1].data["containers"][0]["usage"], json!({"cpu": "1m", "memory": "1Mi"}));
    let node = usage(&client, "NodeMetrics").get("n").await.unwrap();
    assert_eq!(node.data["usage"], json!({"cpu": "3002m", "memory": "2050Mi"}));
    let chosen = ListParams::default().labels("app=idle");
    assert_eq!(usage(&client, "PodMetrics").list(&chosen).await.unwrap().items.len(), 1);
    let missing = usage(&client, "PodMetrics").get("waiting").await.unwrap_err();
    assert!(matches!(&missing, kube::Error::Api(status) if status.code == 404), "{missing}");
    let groups = client.list_api_groups().await.unwrap();
    assert!(groups.groups.iter().any(|group| group.name == "metrics.k8s.io"));
}

#[tokio::test]
async fn a_node_has_a_lease_that_nobody_wrote() {
    let client = cluster().await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease = leases.get("n").await.unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("n"), Some(40)));
    let age = Timestamp::now().duration_since(spec.renew_time.unwrap().0).as_secs();
    assert!((0..40).contains(&age), "{age} s");
    assert_eq!(lease.metadata.owner_references.unwrap()[0].kind, "Node");
    assert!(leases.get("m").await.is_err(), "there is no such node");
    let elsewhere: Api<Lease> = Api::default_namespaced(client.clone());
    assert!(elsewhere.get("n").await.is_err());
    // What somebody wrote counts.
    let own = json!({"metadata": {"name": "n"}, "spec": {"holderIdentity": "somebody"}});
    leases.create(&PostParams::default(), &serde_json::from_value(own).unwrap()).await.unwrap();
    assert_eq!(leases.get("n").await.unwrap().spec.unwrap().holder_identity.as_deref(), Some("somebody"));
}
