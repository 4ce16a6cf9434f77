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
        let program = Path::new(env!("CARGO_BIN_EXE_joiner"));
        let process = Kept::start("joiner", program, &arguments.map(str::to_owned), &log).unwrap();
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
