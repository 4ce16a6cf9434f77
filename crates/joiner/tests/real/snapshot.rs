//! A real cluster into a file without a trace, and a simulated one out of it with the same pods on the same nodes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use http::Method;
use joiner_testbed::client::Client;
use joiner_testbed::plane::{Parts, scratch};
use joiner_testbed::process::Kept;
use serde_json::{Value, json};

const PODS: usize = 4 + 2 + 3;

async fn create(client: &Client, collection: &str, object: Value) -> Value {
    let (status, answer) = client.call(Method::POST, collection, Some(&object)).await.unwrap();
    assert_eq!(status, 201, "{answer}");
    answer
}

fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}, "annotations": {"example.com/note": "SECRET-note"}},
        "spec": {"containers": [{
            "name": "main", "image": "example.com/SECRET-image:1", "args": ["--password=SECRET-argument"],
            "env": [{"name": "TOKEN", "value": "SECRET-variable"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        }]},
    })
}

/// Three nodes of KWOK, a Deployment, a StatefulSet, a DaemonSet, a budget and a secret.
async fn fill(client: &Client) {
    create(client, "/api/v1/namespaces", json!({"metadata": {"name": "shop", "labels": {"team": "a"}}}))
        .await;
    let room = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
    for name in ["kwok-a", "kwok-b", "kwok-c"] {
        let node = json!({
            "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {
                "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": format!("zone-{name}"),
            }},
            "spec": {"providerID": format!("kwok://{name}")},
            "status": {"capacity": room, "allocatable": room},
        });
        create(client, "/api/v1/nodes", node).await;
    }
    let apps = "/apis/apps/v1/namespaces/shop";
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    create(client, &format!("{apps}/deployments"), json!({
        "metadata": {"name": "web"}, "spec": {"replicas": 4, "selector": selector("web"), "template": template("web")},
    }))
    .await;
    create(client, &format!("{apps}/statefulsets"), json!({
        "metadata": {"name": "db"},
        "spec": {"replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel", "selector": selector("db"), "template": template("db")},
    }))
    .await;
    create(client, &format!("{apps}/daemonsets"), json!({
        "metadata": {"name": "agent"}, "spec": {"selector": selector("agent"), "template": template("agent")},
    }))
    .await;
    create(
        client,
        "/apis/policy/v1/namespaces/shop/poddisruptionbudgets",
        json!({
            "metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": selector("web")},
        }),
    )
    .await;
    create(
        client,
        "/api/v1/namespaces/shop/secrets",
        json!({
            "metadata": {"name": "keys"}, "stringData": {"password": "SECRET-password"},
        }),
    )
    .await;
    create(
        client,
        "/api/v1/namespaces/shop/configmaps",
        json!({
            "metadata": {"name": "settings"}, "data": {"password": "SECRET-setting"},
        }),
    )
    .await;
}

/// The version of every object but those that a cluster renews all the time.
async fn versions(client: &Client) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for path in [
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/api/v1/secrets",
        "/api/v1/configmaps",
        "/api/v1/serviceaccounts",
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/replicasets",
        "/apis/apps/v1/statefulsets",
        "/apis/apps/v1/daemonsets",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ] {
        let (_, list) = client.get(path).await.unwrap();
        for item in list["items"].as_array().into_iter().flatten() {
            let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
            versions
                .insert(format!("{path} {}/{}", text("namespace"), text("name")), text("resourceVersion"));
        }
    }
    versions
}

/// Namespace, name and node of all pods that run.
async fn placed(client: &Client) -> BTreeMap<String, String> {
    let (_, list) = client.get("/api/v1/pods").await.unwrap();
    let pods = list["items"].as_array().unwrap().iter();
    let running = pods.filter(|pod| pod["status"]["phase"] == "Running");
    running
        .map(|pod| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let name = format!("{}/{}", text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
            (name, text(&pod["spec"]["nodeName"]))
        })
        .collect()
}

async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..300 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{what} does not happen");
}

fn joiner(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_joiner")).args(arguments).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_cluster_becomes_a_simulated_one() {
    let test = "a_real_cluster_becomes_a_simulated_one";
    let Some(bed) = joiner_testbed::plane_for(test, Parts::ALL).await.unwrap() else { return };
    fill(&bed.client).await;
    until("that all pods run", async || placed(&bed.client).await.len() == PODS).await;
    // Budgets and statuses follow a moment later.
    let mut before = versions(&bed.client).await;
    until("that nothing changes any more", async || {
        tokio::time::sleep(Duration::from_secs(3)).await;
        std::mem::replace(&mut before, versions(&bed.client).await) == before
    })
    .await;

    let folder = scratch("snapshot").unwrap();
    let file = folder.join("snapshot.yaml").display().to_string();
    let kubeconfig = bed.kubeconfig.display().to_string();
    let output = joiner(&["snapshot", "--kubeconfig", &kubeconfig, "-o", &file]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notes}");
    assert!(
        notes.contains("note: left out: nodepools.karpenter.sh, which the cluster does not serve\n"),
        "{notes}"
    );
    assert_eq!(versions(&bed.client).await, before, "a snapshot changes nothing");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("SECRET"), "secrets stay in the cluster");
    let again = folder.join("again.yaml").display().to_string();
    assert!(joiner(&["snapshot", "--kubeconfig", &kubeconfig, "-o", &again]).status.success());
    assert_eq!(std::fs::read_to_string(&again).unwrap(), text, "the same cluster gives the same file");

    let simulated = folder.join("simulated.kubeconfig");
    let arguments = ["up", "--from", &file, "--kubeconfig", simulated.to_str().unwrap()].map(str::to_owned);
    let program = Path::new(env!("CARGO_BIN_EXE_joiner"));
    let process = Kept::start("joiner", program, &arguments, &folder.join("log")).unwrap();
    let mut client = None;
    until("that the copy answers", async || {
        let text = std::fs::read_to_string(&simulated).unwrap_or_default();
        client = Client::from_kubeconfig(&text).ok();
        match &client {
            Some(client) => client.get("/readyz").await.is_ok_and(|(status, _)| status == 200),
            None => false,
        }
    })
    .await;
    let copy = client.unwrap();
    let real = placed(&bed.client).await;
    assert_eq!(placed(&copy).await, real);
    // Controllers that wanted to replace something would have done so.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(placed(&copy).await, real);
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    for path in ["/api/v1/nodes", "/apis/apps/v1/replicasets", "/apis/apps/v1/namespaces/shop/statefulsets"] {
        let ((_, there), (_, here)) = (bed.client.get(path).await.unwrap(), copy.get(path).await.unwrap());
        assert_eq!(names(&here), names(&there), "{path}");
    }
    let (_, nodes) = copy.get("/api/v1/nodes").await.unwrap();
    for node in nodes["items"].as_array().unwrap() {
        assert_eq!(node["status"]["allocatable"]["cpu"], "8");
        let ready =
            node["status"]["conditions"].as_array().unwrap().iter().find(|of| of["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], "True");
    }
    drop(process);
    let _ = std::fs::remove_dir_all(&folder);
}

/// Who may only list some kinds gets those, and is told about the others.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_listed_is_left_out() {
    let test = "what_may_not_be_listed_is_left_out";
    let Some(bed) = joiner_testbed::plane_for(test, Parts::BARE).await.unwrap() else { return };
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    create(
        &bed.client,
        "/api/v1/namespaces/default/serviceaccounts",
        json!({"metadata": {"name": "reader"}}),
    )
    .await;
    create(&bed.client, &format!("{rbac}/clusterroles"), json!({
        "metadata": {"name": "nodes-only"}, "rules": [{"apiGroups": [""], "resources": ["nodes", "namespaces"], "verbs": ["list"]}],
    }))
    .await;
    create(
        &bed.client,
        &format!("{rbac}/clusterrolebindings"),
        json!({
            "metadata": {"name": "nodes-only"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nodes-only"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
        }),
    )
    .await;
    let review =
        create(&bed.client, "/api/v1/namespaces/default/serviceaccounts/reader/token", json!({"spec": {}}))
            .await;
    let token = review["status"]["token"].as_str().unwrap();
    let folder = scratch("snapshot-rights").unwrap();
    let mut config: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(&bed.kubeconfig).unwrap()).unwrap();
    // As clouds do it: a program prints the token.
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}});
    let printed = folder.join("credential.json");
    std::fs::write(&printed, credential.to_string()).unwrap();
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [printed.display().to_string()], "interactiveMode": "Never",
    }});
    let kubeconfig = folder.join("reader.kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let file = folder.join("snapshot.yaml").display().to_string();
    let output = joiner(&["snapshot", "--kubeconfig", kubeconfig.to_str().unwrap(), "-o", &file]);
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{notes}");
    assert!(
        notes.contains("note: left out: pods, which you may not list (pods is forbidden: User"),
        "{notes}"
    );
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# left out: pods, which you may not list"), "{text}");
    assert!(text.contains("kind: Namespace"), "{text}");
    let _ = std::fs::remove_dir_all(&folder);
}
