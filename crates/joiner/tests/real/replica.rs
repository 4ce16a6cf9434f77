//! A real cluster for `joiner run`: kubectl as a user has it, replicas of joiner, and what can be seen of both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use joiner_testbed::Bed;
use joiner_testbed::audit;
use joiner_testbed::cache::Programs;
use joiner_testbed::plane::{Parts, scratch};
use joiner_testbed::process::{Kept, Signal};
use serde_json::Value;
use tokio::task::AbortHandle;

pub const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub const NODES: &str = "/api/v1/nodes";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";

/// A control plane with joiner's definitions installed.
pub struct Cluster {
    pub bed: Bed,
    pub programs: Programs,
    /// For files of the test.
    pub folder: PathBuf,
}

impl Cluster {
    /// One of its own for a test, or `None` when the programs are not built.
    pub async fn start(test: &str) -> Option<Self> {
        let cluster = Self::bare(test, Parts::AUDITED).await?;
        cluster.install_definitions();
        Some(cluster)
    }

    pub fn install_definitions(&self) {
        self.kubectl(&["apply", "--server-side", "-f", "-"], &definitions());
        self.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"], "");
    }

    /// One without the definitions.
    pub async fn bare(test: &str, parts: Parts) -> Option<Self> {
        let programs = joiner_testbed::programs_for(test).unwrap()?;
        if std::env::var_os("JOINER_TEST_KUBECONFIG").is_some() {
            joiner_testbed::not_run(
                test,
                "it needs a control plane of its own, and JOINER_TEST_KUBECONFIG names another",
            );
            return None;
        }
        let bed = joiner_testbed::plane_for(test, parts).await.unwrap()?;
        Some(Self { bed, programs, folder: scratch("run").unwrap() })
    }

    /// What kubectl prints; it must succeed.
    pub fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        use std::io::Write as _;
        let mut child = Command::new(self.programs.path("kubectl"))
            .args(arguments)
            .env("KUBECONFIG", &self.bed.kubeconfig)
            .env("HOME", &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.concat();
        assert!(output.status.success(), "kubectl {}: {text}", arguments.join(" "));
        text
    }

    /// Objects by name.
    pub async fn list(&self, path: &str) -> BTreeMap<String, Value> {
        let (status, list) = self.bed.client.get(path).await.unwrap();
        assert_eq!(status, 200, "{path}: {list}");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().map(|item| (text(&item, "/metadata/name").to_owned(), item)).collect()
    }

    pub async fn names(&self, path: &str) -> BTreeSet<String> {
        self.list(path).await.into_keys().collect()
    }

    pub async fn running_pods(&self) -> usize {
        self.list(PODS).await.values().filter(|pod| text(pod, "/status/phase") == "Running").count()
    }

    pub async fn scale(&self, deployment: &str, replicas: u64) {
        let scale = serde_json::json!({"spec": {"replicas": replicas}});
        let path = format!("/apis/apps/v1/namespaces/default/deployments/{deployment}/scale");
        let (status, answer) = self.bed.client.call(Method::PATCH, &path, Some(&scale)).await.unwrap();
        assert_eq!(status, 200, "{answer}");
    }

    pub async fn delete(&self, path: &str) {
        let (status, answer) = self.bed.client.call(Method::DELETE, path, None).await.unwrap();
        assert!(status == 200 || status == 202, "{path}: {answer}");
    }

    /// Follows objects of a kind from here on: the names of those that are created, whoever creates them and however short they live.
    pub async fn follow(&self, path: &str) -> Created {
        let (_, list) = self.bed.client.get(path).await.unwrap();
        let version = text(&list, "/metadata/resourceVersion");
        let path = format!("{path}?watch=true&resourceVersion={version}");
        let client = self.bed.client.another();
        let names = Arc::new(Mutex::new(Vec::new()));
        let told = names.clone();
        let task = tokio::spawn(async move {
            let tell = |event: Value| {
                if event["type"] == "ADDED" {
                    told.lock().unwrap().push(text(&event, "/object/metadata/name").to_owned());
                }
            };
            client.watch(&path, tell).await.unwrap();
        });
        Created { names, task: task.abort_handle() }
    }

    /// What the API server was asked so far.
    pub fn requests(&self) -> Vec<audit::Request> {
        self.bed.plane.as_ref().unwrap().requests().unwrap()
    }

    /// A joiner that asks in the name of one of [`joiner_testbed::plane::REPLICAS`].
    pub fn replica(&self, user: &str) -> Replica {
        let kubeconfig = self.bed.plane.as_ref().unwrap().kubeconfig_of(user);
        Replica::start(user, &kubeconfig, &[])
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What was created since it was asked for.
pub struct Created {
    names: Arc<Mutex<Vec<String>>>,
    task: AbortHandle,
}

impl Created {
    pub fn names(&self) -> Vec<String> {
        assert!(!self.task.is_finished(), "the watch has ended");
        self.names.lock().unwrap().clone()
    }
}

impl Drop for Created {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A `joiner run`.
pub struct Replica {
    pub user: String,
    process: Kept,
    folder: PathBuf,
}

impl Replica {
    pub fn start(user: &str, kubeconfig: &Path, further: &[&str]) -> Self {
        let folder = scratch("replica").unwrap();
        let arguments = [
            "run",
            "--provider",
            "kwok",
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--metrics-port=0",
            "--health-probe-port=0",
        ];
        let arguments: Vec<String> = arguments.iter().chain(further).map(|part| (*part).to_owned()).collect();
        let program = Path::new(env!("CARGO_BIN_EXE_joiner"));
        let process = Kept::start("joiner", program, &arguments, &folder.join("log")).unwrap();
        Self { user: user.to_owned(), process, folder }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// How often it has logged this message.
    pub fn said(&self, message: &str) -> usize {
        self.log().matches(&format!("\"message\":\"{message}\"")).count()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    pub fn check(&mut self) {
        self.process.check().unwrap();
    }

    pub fn await_end(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        self.process.await_end(limit)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("== {}\n{}", self.user, self.log());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Waits for something, and tells how long.
pub async fn until(what: &str, seconds: u64, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(seconds), "{what}: not within {seconds} s");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    begun.elapsed()
}

pub fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn definitions() -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_joiner")).arg("crds").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
