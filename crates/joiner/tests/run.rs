//! `joiner run` as a process, on a simulated cluster of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use joiner_testbed::client::Client;
use serde_json::{Value, json};

/// What a program may take until something is seen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of its own for a test, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("joiner-run-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running joiner. It is killed when the test is over, if it has not ended.
struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let log = folder.file("log");
        let output = std::fs::File::create(&log).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_joiner"))
            .args(["run", "--metrics-port", "0", "--health-probe-port", "0"])
            .args(arguments)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .expect("the program starts");
        Self { child, log }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Lines of the log that are objects.
    fn lines(&self) -> Vec<Value> {
        self.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The ports of metrics and health, once they are told.
    fn ports(&mut self) -> (u16, u16) {
        let mut found = None;
        until("that it runs", || {
            if let Some(status) = self.child.try_wait().expect("a program of ours") {
                panic!("it ended with {status}:\n{}", self.text());
            }
            let lines = self.lines();
            found = lines.iter().find(|line| line["message"] == "runs").map(|line| {
                let port = |key: &str| u16::try_from(line[key].as_u64().unwrap_or(0)).unwrap_or(0);
                (port("metrics_port"), port("health_port"))
            });
            found.is_some()
        });
        found.expect("just seen")
    }

    fn told(&self, word: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([word, &pid]).status().expect("kill").success());
    }

    /// How it ends, and how long that takes.
    fn ends(mut self) -> (Option<i32>, Duration, String) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a program of ours") {
                return (status.code(), begun.elapsed(), self.text());
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Status and body of an answer.
fn get(port: u16, path: &str) -> (u16, String) {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = ask().expect("an answer");
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

/// The value of a sample that begins so.
fn sample(metrics: &str, begin: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(begin));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

fn client(kubeconfig: &Path) -> Client {
    Client::from_kubeconfig(&std::fs::read_to_string(kubeconfig).expect("a kubeconfig")).expect("a client")
}

/// Creates the objects of a manifest, as kubectl would.
async fn create(client: &Client, manifest: &str) {
    for document in manifest.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).expect("a manifest");
        let (version, kind) = (object["apiVersion"].as_str().expect("a version"), &object["kind"]);
        let plural =
            format!("{}s", kind.as_str().expect("a kind").to_lowercase()).replace("classs", "classes");
        let space = if kind == "Deployment" { "namespaces/default/" } else { "" };
        let path = format!("/apis/{version}/{space}{plural}");
        let (status, answer) = client.call(Method::POST, &path, Some(&object)).await.expect("an answer");
        assert_eq!(status, 201, "{answer}");
    }
}

async fn names(client: &Client, path: &str) -> Vec<String> {
    let (_, list) = client.get(path).await.expect("an answer");
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The manifest that KWOK's page for Karpenter shows, as it is written there: with the old name of a policy.
const AS_WRITTEN: &str = "\
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
          values: [\"amd64\"]
        - key: kubernetes.io/os
          operator: In
          values: [\"linux\"]
        - key: karpenter.sh/capacity-type
          operator: In
          values: [\"spot\"]
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
";

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate}
spec:
  replicas: 5
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      containers: [{name: main, image: pause, resources: {requests: {cpu: 1}}}]
";

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_nodes_metrics_move_and_it_ends_when_told() {
    let folder = Folder::new("embedded");
    let (kubeconfig, decisions) = (folder.file("kubeconfig"), folder.file("decisions.jsonl"));
    let mut running = Running::start(
        &folder,
        &[
            "--embedded",
            "--enable-profiling",
            "--kubeconfig",
            &kubeconfig.display().to_string(),
            "--decisions",
            &decisions.display().to_string(),
            "--batch-idle-duration=500ms",
            "--memory-limit",
            "1000",
        ],
    );
    let (metrics, health) = running.ports();
    until("that it is ready", || get(health, "/readyz").0 == 200);
    assert_eq!(get(health, "/healthz"), (200, "ok\n".to_owned()));
    let cluster = client(&kubeconfig);
    create(&cluster, AS_WRITTEN).await;
    create(&cluster, DEPLOYMENT).await;
    let begun = Instant::now();
    loop {
        let (_, list) = cluster.get("/api/v1/pods").await.expect("an answer");
        let running = list["items"].as_array().expect("pods").iter();
        if running.filter(|pod| pod["status"]["phase"] == "Running").count() == 5 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{list}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let claims = names(&cluster, "/apis/karpenter.sh/v1/nodeclaims").await;
    assert_eq!(claims, names(&cluster, "/api/v1/nodes").await);
    // Pools are reconciled a while after everything else.
    let begun = Instant::now();
    loop {
        let (_, pool) = cluster.get("/apis/karpenter.sh/v1/nodepools/default").await.expect("an answer");
        let mut conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.any(|of| of["type"] == "Ready" && of["status"] == "True") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{pool}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let (code, text) = get(metrics, "/metrics");
    assert_eq!(code, 200);
    let count = claims.len() as f64;
    for (begin, value) in [
        ("karpenter_nodeclaims_created_total{min_values_relaxed=\"false\",nodepool=\"default\"", count),
        ("karpenter_nodes_created_total{nodepool=\"default\"", count),
        ("karpenter_cluster_state_synced ", 1.0),
        ("karpenter_build_info{", 1.0),
        ("karpenter_nodepools_limit{nodepool=\"default\",resource_type=\"cpu\"}", 1000.0),
        ("leader_election_master_status{name=\"karpenter-leader-election\"}", 1.0),
        ("joiner_commands_total{kind=\"create_claim\",outcome=\"done\"}", count),
        ("joiner_metrics_pods_left_out ", 0.0),
    ] {
        assert_eq!(sample(&text, begin), value, "{begin}\n{text}");
    }
    for begin in ["process_cpu_seconds_total ", "process_resident_memory_bytes ", "client_go_request_total{"]
    {
        assert!(sample(&text, begin) > 0.0, "{begin}\n{text}");
    }
    // Every line is one that Prometheus reads: a comment, or a name with a number.
    for line in text.lines() {
        let fine = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        assert!(fine || value.is_some(), "{line}");
    }
    assert!(get(metrics, "/debug/pprof/cmdline").1.contains("--enable-profiling"));
    assert!(get(metrics, "/debug/threads").1.contains("threads"));
    assert_eq!(get(metrics, "/debug/pprof/heap").0, 501);
    assert_eq!(get(metrics, "/nothing").0, 404);

    let (_, lease) = cluster
        .get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election")
        .await
        .expect("an answer");
    assert!(lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| holder.contains('_')), "{lease}");
    let events = cluster.get("/api/v1/events").await.expect("an answer").1.to_string();
    assert!(events.contains("Nominated"), "{events}");
    running.told("-TERM");
    let (code, took, log) = running.ends();
    assert_eq!(code, Some(0), "{log}");
    assert!(took < Duration::from_secs(25), "{took:?}\n{log}");
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let said = |message: &str| lines.iter().filter(|line| line["message"] == message).count();
    assert_eq!(said("accepted, has no effect"), 1, "{log}");
    assert!(log.contains("memory-limit=1000"), "{log}");
    assert_eq!((said("leads"), said("gave the lease back")), (1, 1), "{log}");
    assert!(lines.iter().any(|line| line["message"] == "decided" && line["kind"] == "provisioned"), "{log}");
    let text = std::fs::read_to_string(&decisions).expect("decisions");
    assert!(text.contains("provisioned"), "{text}");
    assert!(!kubeconfig.exists(), "the file that let clients in went with the cluster");
}

/// A list of one type, in the short form.
fn one_type(name: &str) -> String {
    format!(
        "- {{name: {name}, architecture: amd64, operatingSystems: [linux], resources: {{cpu: 2, memory: 8Gi}}, \
         offerings: [{{zone: cellar, capacityType: spot, price: 0.1}}]}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_types_are_read_again_when_their_file_changes() {
    let folder = Folder::new("types");
    let (kubeconfig, list) = (folder.file("kubeconfig"), folder.file("types.yaml"));
    std::fs::write(&list, one_type("first.large")).expect("a file");
    std::fs::write(folder.file("other.yaml"), one_type("other.large")).expect("a file");
    let (kubeconfig_text, list_text) = (kubeconfig.display().to_string(), list.display().to_string());
    let mut running = Running::start(
        &folder,
        &[
            "--embedded",
            "--kubeconfig",
            &kubeconfig_text,
            "--instance-types-file-path",
            &list_text,
            "--batch-idle-duration=200ms",
        ],
    );
    let (_, health) = running.ports();
    until("that it is ready", || get(health, "/readyz").0 == 200);
    let cluster = client(&kubeconfig);
    create(&cluster, AS_WRITTEN).await;
    let pod = async |name: &str| {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
            {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1500m"}}}]}});
        let path = "/api/v1/namespaces/default/pods";
        let (status, answer) = cluster.call(Method::POST, path, Some(&pod)).await.expect("an answer");
        assert_eq!(status, 201, "{answer}");
    };
    let has_type = async |name: &str, count: usize| {
        let begun = Instant::now();
        loop {
            let (_, list) = cluster.get("/api/v1/nodes").await.expect("an answer");
            let nodes = list["items"].as_array().expect("nodes").iter();
            let of_type =
                |node: &&Value| node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == name;
            if nodes.filter(of_type).count() == count {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{count} of {name}: {list}\n{}", running.text());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let said = |message: &str| running.lines().iter().filter(|line| line["message"] == message).count();
    pod("a").await;
    has_type("first.large", 1).await;
    // As an editor does it: another file takes its name.
    std::fs::write(folder.file("new"), one_type("second.large")).expect("a file");
    std::fs::rename(folder.file("new"), &list).expect("a name");
    until("another list", || said("instance types are another list now") == 1);
    pod("b").await;
    has_type("second.large", 1).await;
    std::fs::write(folder.file("new"), "- {name: broken").expect("a file");
    std::fs::rename(folder.file("new"), &list).expect("a name");
    let refused = "instance types cannot be used: the last good list stays";
    until("a complaint", || said(refused) == 1);
    std::fs::write(folder.file("unrelated"), "x").expect("a file");
    pod("c").await;
    has_type("second.large", 2).await;
    // A class may name a file beside it, and nothing outside of that folder.
    let class = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default";
    let merge = async |spec: Value| {
        cluster.call(Method::PATCH, class, Some(&json!({"spec": spec}))).await.expect("an answer")
    };
    let (status, answer) = merge(json!({"instanceTypesFrom": {"file": "../secret"}})).await;
    assert_eq!(status, 422, "{answer}");
    let (status, answer) = merge(json!({"instanceTypesFrom": {"file": "other.yaml"}})).await;
    assert_eq!(status, 200, "{answer}");
    pod("d").await;
    has_type("other.large", 1).await;
    assert_eq!(said(refused), 1, "told once");
    running.told("-TERM");
    let (code, _, log) = running.ends();
    assert_eq!(code, Some(0), "{log}");
}

/// Names and uids of all objects of a kind, sorted by name.
async fn uids(client: &Client, path: &str) -> Value {
    let (_, list) = client.get(path).await.expect("an answer");
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<Value> =
        items.iter().map(|item| json!([item["metadata"]["name"], item["metadata"]["uid"]])).collect();
    all.sort_by_key(ToString::to_string);
    all.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn data_folders_of_earlier_releases_are_taken_over() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/data-folders");
    let mut releases = 0;
    for file in std::fs::read_dir(kept).expect("the folder of releases") {
        let expected = file.expect("a file").path();
        if expected.extension().is_none_or(|of| of != "json") {
            continue;
        }
        releases += 1;
        let folder = Folder::new("taken-over");
        let data = folder.file("data");
        std::fs::create_dir_all(&data).expect("a folder");
        let objects = std::fs::read(expected.with_extension("redb.zst")).expect("its objects");
        std::fs::write(data.join("objects.redb"), zstd::decode_all(&*objects).expect("zstd"))
            .expect("a file");
        std::fs::copy(expected.with_extension("seal"), data.join("objects.seal")).expect("a file");
        let expected: Value =
            serde_json::from_str(&std::fs::read_to_string(&expected).expect("uids")).expect("JSON");
        let kubeconfig = folder.file("kubeconfig");
        let mut running = Running::start(
            &folder,
            &[
                "--embedded",
                "--data-dir",
                &data.display().to_string(),
                "--kubeconfig",
                &kubeconfig.display().to_string(),
            ],
        );
        let (_, health) = running.ports();
        until("that it is ready", || get(health, "/readyz").0 == 200);
        until("that it leads", || running.text().contains("\"leads\""));
        let cluster = client(&kubeconfig);
        // Long enough for everything that would be decided anew.
        tokio::time::sleep(Duration::from_secs(5)).await;
        for (kind, path) in [
            ("Pod", "/api/v1/pods"),
            ("Node", "/api/v1/nodes"),
            ("NodeClaim", "/apis/karpenter.sh/v1/nodeclaims"),
        ] {
            assert_eq!(uids(&cluster, path).await, expected[kind], "{kind}\n{}", running.text());
        }
        // And it goes on from there.
        let path = "/apis/apps/v1/namespaces/default/deployments/inflate/scale";
        let scale = json!({"spec": {"replicas": 8}});
        let (status, answer) = cluster.call(Method::PATCH, path, Some(&scale)).await.expect("an answer");
        assert_eq!(status, 200, "{answer}");
        let begun = Instant::now();
        loop {
            let (_, list) = cluster.get("/api/v1/pods").await.expect("an answer");
            let pods = list["items"].as_array().expect("pods").iter();
            if pods.filter(|pod| pod["status"]["phase"] == "Running").count() == 8 {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{list}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        running.told("-TERM");
        let (code, _, log) = running.ends();
        assert_eq!(code, Some(0), "{log}");
    }
    assert!(releases > 0, "no release was kept");
}

#[test]
fn bad_values_end_with_one_sentence_and_code_2() {
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_joiner"));
        command.arg("run").args(arguments).envs(variables.iter().copied());
        let output = command.output().expect("the program starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (arguments, variables, said) in [
        (
            &[][..],
            &[("METRICS_PORT", "80x")][..],
            "error: `$METRICS_PORT` is `80x`: not a port; give a number from 0 to 65535\n",
        ),
        (
            &[],
            &[("MIN_VALUES_POLICY", "BestEfort")],
            "error: `$MIN_VALUES_POLICY` is `BestEfort`: not one of strict, besteffort; did you mean `besteffort`?\n",
        ),
        (
            &["--feature-gates", "StaticCapacity="],
            &[],
            "error: `--feature-gates` is `StaticCapacity=`: the value `` of gate `StaticCapacity` is neither `true` nor `false`\n",
        ),
        (&["--instance-types-file-path", "/nowhere/types.json"], &[], "error: /nowhere/types.json: "),
    ] {
        let (code, text) = run(arguments, variables);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.starts_with(said), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let (code, text) = run(&["--provider", "kwuk"], &[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("invalid value 'kwuk'") && text.contains("'kwok'"), "{text}");
    let (code, text) = run(&["--enable-profiling=yes"], &[]);
    assert_eq!(code, Some(2));
    assert!(text.contains("[possible values: true, false]"), "{text}");
    let (code, text) = run(&["--kubeconfig", "/nowhere/config"], &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cannot read the kubeconfig `/nowhere/config`"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing() {
    let folder = Folder::new("dry");
    let kubeconfig = folder.file("kubeconfig");
    let mut running = Running::start(
        &folder,
        &["--embedded", "--dry-run", "--kubeconfig", &kubeconfig.display().to_string()],
    );
    running.ports();
    let cluster = client(&kubeconfig);
    create(&cluster, AS_WRITTEN).await;
    create(&cluster, DEPLOYMENT).await;
    until("that it says what it would do", || {
        let lines = running.lines();
        lines.iter().any(|line| line["summary"].as_str().is_some_and(|text| text.starts_with("would: ")))
    });
    assert_eq!(names(&cluster, "/apis/karpenter.sh/v1/nodeclaims").await, Vec::<String>::new());
    assert_eq!(names(&cluster, "/api/v1/nodes").await, Vec::<String>::new());
    let (_, pool) = cluster.get("/apis/karpenter.sh/v1/nodepools/default").await.expect("an answer");
    assert_eq!(pool["metadata"]["generation"], json!(1));
    assert_eq!(pool["metadata"]["annotations"], Value::Null, "{pool}");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";
    assert_eq!(cluster.get(lease).await.expect("an answer").0, 404, "nobody asks for the lease");
    running.told("-INT");
    let (code, _, log) = running.ends();
    assert_eq!(code, Some(0), "{log}");
}
