//! `joiner run` on a real control plane: nodes come and go, played by the real kwok; the leader is killed, and another goes on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use joiner_testbed::Bed;
use joiner_testbed::plane::{Parts, scratch};
use joiner_testbed::process::Kept;
use serde_json::{Value, json};

/// The pool of the guide, and pods.
const POOL: &str = include_str!("../../../../examples/inflate.yaml");
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";

/// kubectl, as a user has it.
struct Kubectl<'a> {
    program: PathBuf,
    bed: &'a Bed,
    home: PathBuf,
}

impl<'a> Kubectl<'a> {
    fn new(bed: &'a Bed, program: PathBuf) -> Self {
        Self { program, bed, home: scratch("run-kubectl").unwrap() }
    }

    fn run(&self, arguments: &[&str], input: &str) -> String {
        use std::io::Write as _;
        let mut child = Command::new(&self.program)
            .args(arguments)
            .env("KUBECONFIG", &self.bed.kubeconfig)
            .env("HOME", &self.home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "kubectl {}: {text}", arguments.join(" "));
        text
    }
}

impl Drop for Kubectl<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

/// A joiner on that cluster.
struct Joiner {
    process: Kept,
    log: PathBuf,
    folder: PathBuf,
}

impl Joiner {
    fn start(kubeconfig: &Path) -> Self {
        Self::start_with(kubeconfig, &[])
    }

    fn start_with(kubeconfig: &Path, further: &[&str]) -> Self {
        let folder = scratch("run").unwrap();
        let log = folder.join("log");
        let arguments = [
            "run",
            "--provider",
            "kwok",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--metrics-port=0",
            "--health-probe-port=0",
        ];
        let arguments: Vec<String> = arguments.iter().chain(further).map(|of| (*of).to_owned()).collect();
        let program = Path::new(env!("CARGO_BIN_EXE_joiner"));
        let process = Kept::start("joiner", program, &arguments, &log).unwrap();
        Self { process, log, folder }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn says(&self, message: &str) -> bool {
        let wanted = format!("\"message\":\"{message}\"");
        self.text().contains(&wanted)
    }

    /// As nobody can refuse: the shell that keeps it takes it along.
    fn kill(self) {
        drop(self);
    }
}

impl Drop for Joiner {
    fn drop(&mut self) {
        // Its own child is killed with -9 when the pipe closes.
        let _ = self.process.check();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

async fn until(what: &str, seconds: u64, joiner: &Joiner, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so().await {
        assert!(
            begun.elapsed() < Duration::from_secs(seconds),
            "{what}: not within {seconds} s\n{}",
            joiner.text()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    begun.elapsed()
}

async fn names(bed: &Bed, path: &str) -> BTreeSet<String> {
    let (_, list) = bed.client.get(path).await.unwrap();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn running_pods(bed: &Bed) -> usize {
    let (_, list) = bed.client.get("/api/v1/namespaces/default/pods").await.unwrap();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter(|pod| pod["status"]["phase"] == "Running").count()
}

fn definitions() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_joiner")).arg("crds").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The guide, step by step.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_come_and_go_on_a_real_cluster() {
    let test = "nodes_come_and_go_on_a_real_cluster";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let Some(bed) = joiner_testbed::plane_for(test, Parts::ALL).await.unwrap() else { return };
    let kubectl = Kubectl::new(&bed, programs.path("kubectl"));
    kubectl.run(&["apply", "--server-side", "-f", "-"], &definitions());
    let joiner = Joiner::start(&bed.kubeconfig);
    kubectl.run(&["apply", "-f", "-"], POOL);
    until("all pods run", 120, &joiner, async || running_pods(&bed).await == 10).await;
    let (claims, nodes) = (names(&bed, CLAIMS).await, names(&bed, "/api/v1/nodes").await);
    assert_eq!(claims, nodes);
    assert_eq!(claims.len(), 2, "{claims:?}");
    until("the pool says that it is ready", 20, &joiner, async || {
        kubectl.run(&["get", "nodepools", "default", "-o", "jsonpath={.status.nodes}"], "") == "2"
    })
    .await;
    let table = kubectl.run(&["get", "nodeclaims"], "");
    assert!(table.contains("c-4x-amd64-linux") && table.contains("spot"), "{table}");
    // A person takes a node away: its pods find another place first-come.
    let node = nodes.iter().next().unwrap();
    kubectl.run(&["delete", "node", node, "--wait=false"], "");
    until("the node is gone and its pods run elsewhere", 120, &joiner, async || {
        !names(&bed, "/api/v1/nodes").await.contains(node) && running_pods(&bed).await == 10
    })
    .await;
    kubectl.run(&["delete", "deployment", "inflate"], "");
    until("all nodes are gone", 180, &joiner, async || {
        names(&bed, "/api/v1/nodes").await.is_empty() && names(&bed, CLAIMS).await.is_empty()
    })
    .await;
    assert!(!joiner.text().contains("panicked"), "{}", joiner.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_followed() {
    let test = "a_killed_leader_is_followed";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let Some(bed) = joiner_testbed::plane_for(test, Parts::ALL).await.unwrap() else { return };
    let kubectl = Kubectl::new(&bed, programs.path("kubectl"));
    kubectl.run(&["apply", "--server-side", "-f", "-"], &definitions());
    let first = Joiner::start(&bed.kubeconfig);
    until("the first leads", 60, &first, async || first.says("leads")).await;
    let second = Joiner::start(&bed.kubeconfig);
    until("the second stands by", 60, &second, async || second.says("stands by")).await;
    kubectl.run(&["apply", "-f", "-"], POOL);
    until("claims are there", 60, &first, async || !names(&bed, CLAIMS).await.is_empty()).await;
    // In the middle of the purchase.
    first.kill();
    let took = until("the second leads", 20, &second, async || second.says("leads")).await;
    assert!(took < Duration::from_secs(20), "{took:?}");
    until("all pods run", 120, &second, async || running_pods(&bed).await == 10).await;
    let (claims, nodes) = (names(&bed, CLAIMS).await, names(&bed, "/api/v1/nodes").await);
    assert_eq!(claims, nodes, "no machine without a claim, and none twice");
    assert_eq!(claims.len(), 2, "{claims:?}");
    let (_, lease) = bed.client.get(LEASE).await.unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], json!(1), "{lease}");
    let scale = json!({"spec": {"replicas": 14}});
    let path = "/apis/apps/v1/namespaces/default/deployments/inflate/scale";
    let (status, answer): (u16, Value) = bed.client.call(Method::PATCH, path, Some(&scale)).await.unwrap();
    assert_eq!(status, 200, "{answer}");
    until("the second is as good a leader", 120, &second, async || running_pods(&bed).await == 14).await;
}

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
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let parts = Parts { kwok: false, ..Parts::ALL };
    let Some(bed) = joiner_testbed::plane_for(test, parts).await.unwrap() else { return };
    let kubectl = Kubectl::new(&bed, programs.path("kubectl"));
    kubectl.run(&["apply", "--server-side", "-f", "-"], &definitions());
    let further = ["--simulate-kubelets", "--startup-taints=1s"];
    let first = Joiner::start_with(&bed.kubeconfig, &further);
    let said = kubectl.run(&["apply", "-f", "-"], AS_WRITTEN);
    assert!(said.contains("nodepool.karpenter.sh/default created"), "{said}");
    until("all pods run", 120, &first, async || running_pods(&bed).await == 6).await;
    let nodes = names(&bed, "/api/v1/nodes").await;
    assert_eq!(nodes, names(&bed, CLAIMS).await);
    let leases = names(&bed, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await;
    assert_eq!(leases, nodes);
    let initialized = "jsonpath={.items[*].metadata.labels.karpenter\\.sh/initialized}";
    until("all nodes are initialized", 30, &first, async || {
        kubectl.run(&["get", "nodes", "-o", initialized], "").split_whitespace().count() == nodes.len()
    })
    .await;
    let addresses = kubectl.run(&["get", "pods", "-o", "jsonpath={.items[*].status.podIP}"], "");
    assert_eq!(addresses.split_whitespace().collect::<BTreeSet<_>>().len(), 6, "{addresses}");
    let uids = kubectl.run(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"], "");
    // Another one goes on; for longer than a lease holds, no node is lost and no pod starts anew.
    first.kill();
    let second = Joiner::start_with(&bed.kubeconfig, &further);
    until("the second leads", 40, &second, async || second.says("leads")).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(45) {
        let states = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
        let ready = kubectl.run(&["get", "nodes", "-o", states], "");
        assert!(ready.split_whitespace().all(|of| of == "True"), "{ready}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(kubectl.run(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"], ""), uids);
    // Pods and nodes go, too.
    kubectl.run(&["delete", "deployment", "inflate"], "");
    until("the pods are gone", 60, &second, async || {
        names(&bed, "/api/v1/namespaces/default/pods").await.is_empty()
    })
    .await;
    kubectl.run(&["delete", "nodepool", "default", "--wait=false"], "");
    until("the nodes are gone", 60, &second, async || names(&bed, "/api/v1/nodes").await.is_empty()).await;
    assert!(!second.text().contains("panicked"), "{}", second.text());
}

/// Two kinds of kubelets for one node are refused before anything is written.
#[tokio::test(flavor = "multi_thread")]
async fn kubelets_that_kwok_plays_are_left_to_it() {
    let test = "kubelets_that_kwok_plays_are_left_to_it";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let Some(bed) = joiner_testbed::plane_for(test, Parts::ALL).await.unwrap() else { return };
    let kubectl = Kubectl::new(&bed, programs.path("kubectl"));
    kubectl.run(&["apply", "--server-side", "-f", "-"], &definitions());
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","annotations":{"kwok.x-k8s.io/node":"fake"}}}"#;
    kubectl.run(&["apply", "-f", "-"], node);
    let begun = Instant::now();
    loop {
        let holder = kubectl.run(
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
        .args(["--kubeconfig", bed.kubeconfig.to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("holds the lease of the node `n`") && said.contains("leave the flag out"),
        "{said}"
    );
}
