//! Kubelets that joiner plays itself, on a real API server without kwok; and those that kwok plays, which it leaves alone.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use joiner_testbed::plane::Parts;
use joiner_testbed::process::Signal;

use crate::replica::{CLAIMS, Cluster, Replica, until};

/// The manifest that KWOK's page for Karpenter shows, as it is written there: with the old name of a policy.
const AS_WRITTEN: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      requirements:
        - key: kubernetes.io/arch
          operator: In
          values: ["amd64"]
        - key: kubernetes.io/os
          operator: In
          values: ["linux"]
        - key: karpenter.sh/capacity-type
          operator: In
          values: ["spot"]
      nodeClassRef:
        name: default
        kind: KWOKNodeClass
        group: karpenter.kwok.sh
      expireAfter: 720h # 30 * 24h = 720h
  limits:
    cpu: 1000
  disruption:
    consolidationPolicy: WhenUnderutilized
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata:
  name: default
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate}
spec:
  replicas: 6
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      terminationGracePeriodSeconds: 5
      containers: [{name: main, image: pause, resources: {requests: {cpu: 1}}}]
"#;

/// Without any KWOK controller: joiner plays the kubelets, the controller manager believes them, and the one who takes over plays on.
#[tokio::test(flavor = "multi_thread")]
async fn joiner_plays_the_kubelets_of_a_real_cluster() {
    let test = "joiner_plays_the_kubelets_of_a_real_cluster";
    let parts = Parts { kwok: false, ..Parts::ALL };
    let Some(cluster) = Cluster::bare(test, parts).await else { return };
    cluster.install_definitions();
    let further = ["--simulate-kubelets", "--startup-taints=1s"];
    let first = Replica::start("joiner", &cluster.bed.kubeconfig, &further);
    let said = cluster.kubectl(&["apply", "-f", "-"], AS_WRITTEN);
    assert!(said.contains("nodepool.karpenter.sh/default created"), "{said}");
    until("all pods run", 120, async || cluster.running_pods().await == 6).await;
    let nodes = cluster.names("/api/v1/nodes").await;
    assert_eq!(nodes, cluster.names(CLAIMS).await);
    let leases = cluster.names("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await;
    assert_eq!(leases, nodes);
    let initialized = "jsonpath={.items[*].metadata.labels.karpenter\\.sh/initialized}";
    until("all nodes are initialized", 30, async || {
        cluster.kubectl(&["get", "nodes", "-o", initialized], "").split_whitespace().count() == nodes.len()
    })
    .await;
    let addresses = cluster.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].status.podIP}"], "");
    assert_eq!(addresses.split_whitespace().collect::<BTreeSet<_>>().len(), 6, "{addresses}");
    let uids = cluster.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"], "");
    // Another one goes on; for longer than a lease holds, no node is lost and no pod starts anew.
    first.signal(Signal::Kill);
    drop(first);
    let second = Replica::start("joiner", &cluster.bed.kubeconfig, &further);
    until("the second leads", 40, async || second.said("leads") == 1).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(45) {
        let states = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let ready = cluster.kubectl(&["get", "nodes", "-o", states], "");
        assert!(ready.split_whitespace().all(|of| of == "True"), "{ready}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(cluster.kubectl(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"], ""), uids);
    // Pods and nodes go, too.
    cluster.kubectl(&["delete", "deployment", "inflate"], "");
    until("the pods are gone", 60, async || {
        cluster.names("/api/v1/namespaces/default/pods").await.is_empty()
    })
    .await;
    cluster.kubectl(&["delete", "nodepool", "default", "--wait=false"], "");
    until("the nodes are gone", 60, async || cluster.names("/api/v1/nodes").await.is_empty()).await;
    assert!(!second.log().contains("panicked"), "{}", second.log());
}

/// Two kinds of kubelets for one node are refused before anything is written.
#[tokio::test(flavor = "multi_thread")]
async fn kubelets_that_kwok_plays_are_left_to_it() {
    let test = "kubelets_that_kwok_plays_are_left_to_it";
    let Some(cluster) = Cluster::start(test).await else { return };
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","annotations":{"kwok.x-k8s.io/node":"fake"}}}"#;
    cluster.kubectl(&["apply", "-f", "-"], node);
    let begun = Instant::now();
    loop {
        let holder = cluster.kubectl(
            &["get", "leases", "-n", "kube-node-lease", "-o", "jsonpath={.items[*].spec.holderIdentity}"],
            "",
        );
        if !holder.is_empty() {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "kwok does not play");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(["run", "--provider=kwok", "--simulate-kubelets", "--metrics-port=0", "--health-probe-port=0"])
        .args(["--kubeconfig", cluster.bed.kubeconfig.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("holds the lease of the node `n`") && said.contains("leave the flag out"),
        "{said}"
    );
}
