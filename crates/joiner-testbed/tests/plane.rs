//! A whole control plane: controllers make pods, the scheduler binds them, kwok runs them, and nothing is left at the end.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;
use std::time::{Duration, Instant};

use http::Method;
use joiner_testbed::plane::Parts;
use serde_json::json;

fn children_of(id: u32) -> usize {
    let output = Command::new("ps").args(["-A", "-o", "ppid="]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| line.trim() == id.to_string()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_runs_on_a_fake_node() {
    let test = "a_deployment_runs_on_a_fake_node";
    let Some(bed) = joiner_testbed::plane_for(test, Parts::ALL).await.unwrap() else { return };
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "fake", "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"kubernetes.io/hostname": "fake"}},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}}});
    let (status, answer) = bed.client.call(Method::POST, "/api/v1/nodes", Some(&node)).await.unwrap();
    assert_eq!(status, 201, "{answer}");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let (status, answer) = bed.client.call(Method::POST, path, Some(&deployment)).await.unwrap();
    assert_eq!(status, 201, "{answer}");
    let start = Instant::now();
    loop {
        let (_, answer) = bed.client.get(&format!("{path}/web")).await.unwrap();
        if answer["status"]["readyReplicas"] == 3 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(120), "not ready: {}", answer["status"]);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (_, pods) = bed.client.get("/api/v1/namespaces/default/pods").await.unwrap();
    for pod in pods["items"].as_array().unwrap() {
        assert_eq!(pod["spec"]["nodeName"], "fake");
    }
    let Some(plane) = bed.plane else { return };
    let keepers = plane.ids();
    assert_eq!(keepers.len(), 5);
    assert!(keepers.iter().all(|id| children_of(*id) > 0));
    drop(plane);
    assert!(keepers.iter().all(|id| children_of(*id) == 0), "programs are left");
}
