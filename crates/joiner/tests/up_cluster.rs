//! `joiner up` as a process: a cluster lives, and says what became of it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder of its own for a test, gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("joiner-up-cluster-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn example(name: &str) -> String {
    format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// `joiner up --once` with these arguments.
fn once(folder: &Folder, arguments: &[&str]) -> (String, Output) {
    let output = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(["up", "--once", "--kubeconfig"])
        .arg(folder.0.join("kubeconfig"))
        .args(arguments)
        .output()
        .expect("the program starts");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output)
}

#[test]
fn pods_that_pend_get_nodes_and_run() {
    let folder = Folder::new("inflate");
    let (said, output) = once(&folder, &["-f", &example("inflate.yaml")]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("2 nodes  10 pods running  0 pending\n$0.228/h  $166/month"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("default-") && line.contains("ready")).count(), 2);
}

#[test]
fn decisions_are_appended_to_a_file() {
    let folder = Folder::new("decisions");
    let file = folder.0.join("decisions.jsonl");
    let arguments =
        ["-f".to_owned(), example("inflate.yaml"), "--decisions".to_owned(), file.display().to_string()];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    for starts in 1..=2 {
        let (said, output) = once(&folder, &arguments);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(&file).expect("the file is there");
        let entries: Vec<joiner_record::Entry> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line is an entry")).collect();
        let bought = entries.iter().filter(|entry| {
            matches!(entry, joiner_record::Entry::Decided(decision) if decision.verdict.code() == "provisioned")
        });
        assert_eq!(bought.count(), starts, "{text}");
        assert!(
            entries.iter().any(|entry| matches!(entry, joiner_record::Entry::Completed { .. })),
            "{text}"
        );
    }
    let (_, output) = once(&folder, &["--decisions", "/nowhere/at/all.jsonl"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("/nowhere/at/all.jsonl"), "{said}");
}

#[test]
fn without_joiner_pods_wait_and_say_why() {
    let folder = Folder::new("alone");
    let (said, output) = once(&folder, &["-f", &example("inflate.yaml"), "--no-autoscaler"]);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with("0 nodes  0 pods running  10 pending\n"), "{said}");
    assert!(said.contains("waits: no nodes available to schedule pods"), "{said}");
}

#[test]
fn nodes_from_the_start_take_pods() {
    let folder = Folder::new("nodes");
    let (said, output) = once(&folder, &["-f", &example("inflate.yaml"), "--nodes", "3"]);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("3 nodes  10 pods running  0 pending\n$0/h"), "{said}");
}

#[test]
fn time_can_be_skipped() {
    let folder = Folder::new("max");
    let (said, output) = once(&folder, &["-f", &example("inflate.yaml"), "--speed", "max"]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("2 nodes  10 pods running  0 pending\n"), "{said}");
}

#[test]
fn what_the_cluster_refuses_is_named() {
    let folder = Folder::new("refused");
    let file = folder.0.join("wrong.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: Gadget\nmetadata:\n  name: one\n").expect("a file");
    let (_, output) = once(&folder, &["-f", &file.display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert_eq!(output.status.code(), Some(2), "{said}");
    let place = format!("{}:4: ", file.display());
    let message = "Gadget `one`: the cluster knows no kind `Gadget` in `v1`; check";
    assert!(said.contains(&format!("{place}{message}")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn pods_that_no_machine_helps_say_why() {
    let folder = Folder::new("no-help");
    let (said, output) = once(&folder, &["-f", &example("refused.yaml"), "--speed", "20x"]);
    assert_eq!(output.status.code(), Some(3), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = said.lines().collect();
    let large =
        lines.iter().position(|line| line.starts_with("default/too-large waits: ")).expect("it waits");
    let why = lines[large + 1];
    assert!(why.starts_with("    no machine would help: nodepool/"), "{said}");
    assert!(why.contains("asks for 300 cpu, the largest instance type has room for"), "{said}");
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("    no machine would help: ")).count(),
        4,
        "{said}"
    );
}

/// Waits for a program; one that takes longer is killed, and fails the test.
fn ends_within(mut program: Child, time: Duration, what: &str) -> Option<i32> {
    let begun = Instant::now();
    loop {
        match program.try_wait().expect("a program of ours") {
            Some(status) => return status.code(),
            None if begun.elapsed() > time => {
                let _ = program.kill();
                let _ = program.wait();
                panic!("{what}: no end within {time:?}");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A cluster that waits for the disk with every write lives on, with joiner in it.
#[test]
fn a_cluster_in_a_folder_comes_to_rest() {
    for (speed, rounds) in [("1x", 1), ("60x", 3), ("max", 3)] {
        for round in 0..rounds {
            let folder = Folder::new(&format!("kept-{speed}-{round}"));
            let program = Command::new(env!("CARGO_BIN_EXE_joiner"))
                .args(["up", "--once", "--speed", speed, "-f", &example("spread.yaml"), "--kubeconfig"])
                .arg(folder.0.join("kubeconfig"))
                .arg("--data-dir")
                .arg(folder.0.join("data"))
                .stdout(Stdio::null())
                .spawn()
                .expect("the program starts");
            assert_eq!(ends_within(program, Duration::from_secs(60), speed), Some(0), "{speed}");
        }
    }
}

#[test]
fn a_day_in_a_folder_passes() {
    let folder = Folder::new("kept-day");
    let data = folder.0.join("data").display().to_string();
    let (said, output) = once(&folder, &["--demo", "--data-dir", &data]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// What a supervisor says is heard, however busy the cluster is with its disk.
#[cfg(unix)]
#[test]
fn a_cluster_in_a_folder_ends_when_it_is_told() {
    let folder = Folder::new("told");
    let mut program = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(["up", "--speed", "60x", "-f", &example("spread.yaml"), "--kubeconfig"])
        .arg(folder.0.join("kubeconfig"))
        .arg("--data-dir")
        .arg(folder.0.join("data"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let said = BufReader::new(program.stdout.take().expect("its output"));
    // Read to the end: a program that nobody listens to any more ends by itself.
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("Ctrl-C ends it.")), "it says how to end it");
    let reader = std::thread::spawn(move || lines.count());
    let told = Command::new("kill").arg(program.id().to_string()).status().expect("kill");
    assert!(told.success());
    assert_eq!(ends_within(program, Duration::from_secs(20), "told to end"), Some(0));
    reader.join().expect("its output ends");
}

#[test]
fn pools_of_aws_get_machines_of_aws() {
    let folder = Folder::new("aws");
    let (said, output) = once(&folder, &["-f", &example("gpu.yaml"), "--speed", "20x"]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // The work for the other pool may be done already, and its machine gone.
    let is_of_aws = |line: &str| line.starts_with("general-") && line.contains(" us-east-1");
    assert!(said.lines().next().is_some_and(|line| line.contains("0 pending")), "{said}");
    assert!(said.lines().any(is_of_aws), "{said}");
}

#[test]
fn pools_of_a_class_that_nobody_serves_are_named() {
    let folder = Folder::new("unserved");
    let pool = std::fs::read_to_string(example("inflate.yaml")).expect("the example is there");
    let pool = pool.replace(
        "group: karpenter.kwok.sh\n        kind: KWOKNodeClass",
        "group: example.com\n        kind: MetalNodeClass",
    );
    let file = folder.0.join("metal.yaml");
    std::fs::write(&file, pool).expect("a file");
    let (said, output) = once(&folder, &["-f", &file.display().to_string(), "--speed", "20x"]);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let why = "no machine would help: nodepool/default: its node class is of the kind MetalNodeClass (example.com), which is not served here";
    assert!(said.contains(why), "{said}");
    assert!(!said.contains("there is no NodePool"), "{said}");
}

#[test]
fn what_overlays_promise_stands_on_nodes_at_their_price() {
    let folder = Folder::new("overlays");
    let (said, output) = once(&folder, &["-f", &example("overlays.yaml")]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    // The bill of `joiner plan -f examples/overlays.yaml`.
    assert!(said.starts_with("2 nodes  8 pods running  0 pending\n$0.328/h  "), "{said}");
}

const WITH_STARTUP_TAINT: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
      startupTaints: [{key: example.com/agent, effect: NoSchedule}]
      taints: [{key: example.com/agent, effect: NoExecute}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  tolerations: [{key: example.com/agent, effect: NoExecute}]
  containers: [{name: web, image: example.com/web:1, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
";

#[test]
fn startup_taints_are_lifted_unless_they_are_to_stay() {
    let folder = Folder::new("startup");
    let file = folder.0.join("pool.yaml");
    std::fs::write(&file, WITH_STARTUP_TAINT).expect("a file");
    let file = file.display().to_string();
    let (said, output) = once(&folder, &["-f", &file]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("1 node  1 pod running  0 pending\n"), "{said}");

    let (said, output) = once(&folder, &["-f", &file, "--startup-taints", "never"]);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let node = said.lines().find_map(|line| line.strip_prefix("default-")?.split(' ').next());
    let why = format!(
        "    waits for default-{}: startup taint `example.com/agent:NoSchedule` is still there\n",
        node.expect("a node")
    );
    assert!(said.contains(&why), "{said}");

    let (_, output) = once(&folder, &["-f", &file, "--startup-taints", "soon"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("--startup-taints"), "{said}");
}

#[test]
fn once_needs_no_file_and_speaks_json() {
    let folder = Folder::new("json");
    let output = Command::new(env!("CARGO_BIN_EXE_joiner"))
        .args(["up", "--once", "-o", "json", "-f", &example("refused.yaml")])
        .current_dir(&folder.0)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(
        std::fs::read_dir(&folder.0).expect("the folder is there").count(),
        0,
        "nothing is left behind"
    );
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!((&report["kind"], &report["atRest"]), (&"ClusterReport".into(), &true.into()));
    assert_eq!((&report["pods"]["running"], &report["pods"]["pending"]), (&1.into(), &4.into()));
    let waiting = report["waiting"].as_array().expect("a list");
    let large = waiting.iter().find(|waiting| waiting["pod"] == "default/too-large").expect("it waits");
    assert!(large["refused"].as_str().is_some_and(|why| why.contains("asks for 300 cpu")), "{large}");
    assert_eq!(report["nodes"].as_array().map(Vec::len), Some(1));
    assert_eq!(report["nodes"][0]["cpuMilli"]["requested"], 500);
    // Only `--once` prints.
    let output =
        Command::new(env!("CARGO_BIN_EXE_joiner")).args(["up", "-o", "json"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
}

const SHORT_WORK: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
---
apiVersion: batch/v1
kind: Job
metadata: {name: short}
spec:
  template:
    metadata: {annotations: {joiner.sh/duration: 10s}}
    spec:
      restartPolicy: Never
      containers: [{name: a, image: example.com/a:1, resources: {requests: {cpu: 3, memory: 1Gi}}}]
";

/// The work is done in ten seconds, and what it leaves empty goes after five minutes: there is something due until then.
#[test]
fn once_ends_when_joiner_has_nothing_left_to_do() {
    let folder = Folder::new("rest");
    let file = folder.0.join("job.yaml");
    std::fs::write(&file, SHORT_WORK).expect("a file");
    let (said, output) = once(&folder, &["-f", &file.display().to_string()]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.starts_with("0 nodes  0 pods running  0 pending\n"), "{said}");
}

/// While machines come, a limit counts what they might become; a pod kept out by that is tried again before it is over.
#[test]
fn pods_kept_out_by_what_machines_might_become_are_tried_again() {
    let folder = Folder::new("again");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/limits/two-architectures.yaml");
    let (said, output) = once(&folder, &["-f", file]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.lines().next().is_some_and(|line| line.ends_with("  0 pending")), "{said}");
}

#[test]
fn counts_that_are_a_mistake_are_refused() {
    let folder = Folder::new("counts");
    let (_, output) = once(&folder, &["--nodes", "100001"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("100001 is not in 0..=100000"), "{said}");
    let file = folder.0.join("many.yaml");
    std::fs::write(
        &file,
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 200000000\n",
    )
    .expect("a file");
    let (_, output) = once(&folder, &["-f", &file.display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let expected = format!(
        "error: {}:5: Deployment `web`: `spec.replicas` is `200000000`: more than 2000000 pods or nodes altogether; this looks like a mistake: ask for fewer\n",
        file.display()
    );
    assert_eq!(said, expected);
}

#[test]
fn nodes_of_files_have_the_prices_of_the_catalogue() {
    let folder = Folder::new("prices");
    let (said, output) = once(&folder, &["-f", &example("existing-nodes.yaml")]);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for node in ["node-1 ", "node-2 "] {
        let line = said.lines().find(|line| line.starts_with(node)).expect("the node is shown");
        assert!(!line.ends_with('?'), "{said}");
    }
}
