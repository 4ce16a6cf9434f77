//! The rights that the chart grants are those that joiner uses, no more and no fewer.
//!
//! helm installs the chart on a real API server with RBAC. joiner runs with the arguments of the Deployment and the token of the chart's account, buys
//! machines, drains some, takes empty ones away and loses one; the audit log of the server says what it has asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use joiner_testbed::Bed;
use joiner_testbed::audit::Request;
use joiner_testbed::plane::{Parts, scratch};
use joiner_testbed::process::Kept;
use serde_json::{Value, json};

use crate::server::run;
use crate::{charts, joiner};

/// Where joiner is installed.
pub const NAMESPACE: &str = "joiner";
const POOL: &str = include_str!("../../../../examples/inflate.yaml");
/// Rights that the log does not show. What a write has done that nobody answered is read back (`executor/read_back.rs`); and the server asks for `create`, too,
/// where a patch makes an object that is not there.
const UNSEEN: [&str; 5] = [
    "get nodepools.karpenter.sh",
    "get nodeclaims.karpenter.sh",
    "get nodes",
    "get pods",
    "create configmaps",
];

/// A verb on a kind, as `verb plural.group/subresource`.
fn right(verb: &str, group: &str, resource: &str) -> String {
    let (plural, sub) =
        resource.split_once('/').map_or((resource, String::new()), |(a, b)| (a, format!("/{b}")));
    let dot = if group.is_empty() { "" } else { "." };
    format!("{verb} {plural}{dot}{group}{sub}")
}

/// What the rendered roles of joiner's account grant.
fn granted(manifests: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for document in manifests.split("---\n").filter(|text| !text.trim().is_empty()) {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        let kind = object["kind"].as_str().unwrap_or_default();
        // The one role that is not for joiner itself.
        if !kind.ends_with("Role") || object["metadata"]["name"].as_str().unwrap().ends_with("-admin") {
            continue;
        }
        for rule in object["rules"].as_array().unwrap() {
            let list = |field: &str| -> Vec<&str> {
                rule[field].as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
            };
            for group in list("apiGroups") {
                for resource in list("resources") {
                    found.extend(list("verbs").iter().map(|verb| right(verb, group, resource)));
                }
            }
        }
    }
    found
}

/// What accounts of [`NAMESPACE`] have asked for, and what of it was denied.
fn used(requests: &[Request]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut all, mut denied) = (BTreeSet::new(), BTreeSet::new());
    let account = format!("system:serviceaccount:{NAMESPACE}:");
    // Discovery is everybody's.
    for of in requests.iter().filter(|of| of.user.starts_with(&account) && !of.resource.is_empty()) {
        let asked = right(&of.verb, &of.group, &of.resource);
        if of.code == 403 {
            denied.insert(asked.clone());
        }
        all.insert(asked);
    }
    (all, denied)
}

/// joiner as the Deployment would run it, with the token of its account.
pub struct Running {
    process: Kept,
    folder: PathBuf,
}

impl Running {
    pub fn start(kubeconfig: &Path, deployment: &Value) -> Self {
        let folder = scratch("charts-run").unwrap();
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut arguments = vec![format!("SYSTEM_NAMESPACE={NAMESPACE}")];
        for variable in
            container["env"].as_array().unwrap().iter().filter(|variable| variable["value"].is_string())
        {
            // Ports that are free, and quick batches.
            let value = match variable["name"].as_str().unwrap() {
                "METRICS_PORT" | "HEALTH_PROBE_PORT" => "0".to_owned(),
                _ => text(&variable["value"]),
            };
            arguments.push(format!("{}={value}", text(&variable["name"])));
        }
        arguments.push(env!("CARGO_BIN_EXE_joiner").to_owned());
        arguments.extend(container["args"].as_array().unwrap().iter().map(text));
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        let process =
            Kept::start("joiner", Path::new("/usr/bin/env"), &arguments, &folder.join("log")).unwrap();
        Self { process, folder }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub async fn until(&mut self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        while !is_so().await {
            self.process.check().unwrap();
            assert!(
                begun.elapsed() < Duration::from_secs(180),
                "{what}: not within three minutes\n{}",
                self.text()
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub async fn count(bed: &Bed, path: &str, keep: impl Fn(&Value) -> bool) -> usize {
    let (_, list) = bed.client.get(path).await.unwrap();
    list["items"].as_array().into_iter().flatten().filter(|item| keep(item)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_granted_are_rights_used() {
    let test = "rights_granted_are_rights_used";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let Some(helm) = joiner_testbed::helm_for(test).unwrap() else { return };
    let Some(bed) = joiner_testbed::plane_for(test, Parts::AUDITED).await.unwrap() else { return };
    let Some(plane) = &bed.plane else {
        joiner_testbed::not_run(test, "it reads the audit log of a server of its own");
        return;
    };
    let kubectl = |arguments: &[&str], input: &str| {
        let (fine, said) = run(&programs.path("kubectl"), &bed.kubeconfig, arguments, input);
        assert!(fine, "kubectl {}: {said}", arguments.join(" "));
        said
    };
    let install = |release: &str, extra: &[&str]| {
        let chart = charts().join(release);
        let line =
            ["upgrade", "--install", release, chart.to_str().unwrap(), "-n", NAMESPACE, "--create-namespace"];
        let (fine, said) = run(&helm, &bed.kubeconfig, &[&line[..], extra].concat(), "");
        assert!(fine, "{said}");
    };
    install("joiner-crd", &[]);
    // Nobody runs containers here: the Deployment has no pods, and joiner runs beside it.
    install("joiner", &["--set", "replicas=0"]);
    let (_, deployment) =
        bed.client.get(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/joiner")).await.unwrap();
    let token = kubectl(&["create", "token", "joiner", "-n", NAMESPACE, "--duration=1h"], "");
    let kubeconfig = plane.kubeconfig_for("account", token.trim()).unwrap();
    // The autoscaler that is replaced is still at work; nobody schedules its pod here, so it only waits.
    let other = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "karpenter-0", "namespace": "kube-system", "labels": {"app.kubernetes.io/name": "karpenter"}},
        "spec": {"schedulerName": "none", "containers": [{"name": "controller", "image": "public.ecr.aws/karpenter/controller:1.9.0"}]}});
    kubectl(&["apply", "-f", "-"], &other.to_string());
    let mut running = Running::start(&kubeconfig, &deployment);
    let log = running.folder.join("log");
    let says = |log: &Path, words: &str| std::fs::read_to_string(log).unwrap_or_default().contains(words);
    running
        .until("it waits for Karpenter to end", async || says(&log, "another autoscaler is at work"))
        .await;
    kubectl(&["delete", "pod", "-n", "kube-system", "karpenter-0", "--force", "--grace-period=0"], "");
    running.until("it takes over", async || says(&log, "\"message\":\"leads\"")).await;
    let mut second = Running::start(&kubeconfig, &deployment);
    let log = second.folder.join("log");
    second.until("a second replica stands by", async || says(&log, "stands by")).await;

    // A scale-up, and a node that a person takes away.
    kubectl(&["apply", "-f", "-"], POOL);
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pods = "/api/v1/namespaces/default/pods";
    running.until("all pods run", async || count(&bed, pods, is_running).await == 10).await;
    let (_, nodes) = bed.client.get("/api/v1/nodes").await.unwrap();
    let node = nodes["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    kubectl(&["delete", "node", &node, "--wait=false"], "");
    running
        .until("the node is gone and pods run elsewhere", async || {
            let same = |of: &Value| of["metadata"]["name"] == node.as_str();
            count(&bed, "/api/v1/nodes", same).await == 0 && count(&bed, pods, is_running).await == 10
        })
        .await;
    // A drain that a budget forbids, with a deadline: pods are deleted when it comes.
    let patch = json!({"spec": {"template": {"spec": {"terminationGracePeriod": "20s"}}}});
    kubectl(&["patch", "nodepool", "default", "--type=merge", "-p", &patch.to_string()], "");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "inflate", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "inflate"}}}});
    kubectl(&["apply", "-f", "-"], &budget.to_string());
    kubectl(&["scale", "deployment", "inflate", "--replicas=25"], "");
    running.until("more pods run", async || count(&bed, pods, is_running).await == 25).await;
    let (_, claims) = bed.client.get("/apis/karpenter.sh/v1/nodeclaims").await.unwrap();
    let with_deadline = claims["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|claim| claim["spec"]["terminationGracePeriod"] == "20s");
    let claim =
        with_deadline.expect("a claim of the new template")["metadata"]["name"].as_str().unwrap().to_owned();
    kubectl(&["delete", "nodeclaim", &claim, "--wait=false"], "");
    running
        .until("the deadline has emptied the node", async || {
            count(&bed, "/apis/karpenter.sh/v1/nodeclaims", |of| of["metadata"]["name"] == claim.as_str())
                .await
                == 0
        })
        .await;
    // Nothing to do any more.
    kubectl(&["delete", "deployment", "inflate"], "");
    running.until("all nodes are gone", async || count(&bed, "/api/v1/nodes", |_| true).await == 0).await;
    assert!(!running.text().contains("Forbidden"), "{}", running.text());

    let (asked, denied) = used(&plane.requests().unwrap());
    assert_eq!(denied, BTreeSet::new(), "denied");
    let (_, manifests, _) = joiner(&["manifests", "-n", NAMESPACE]);
    let granted = granted(&manifests);
    let too_few: Vec<&String> = asked.difference(&granted).collect();
    assert!(too_few.is_empty(), "used and not granted: {too_few:?}");
    let unseen: BTreeSet<String> = UNSEEN.map(str::to_owned).into();
    let idle: BTreeSet<String> = granted.difference(&asked).cloned().collect();
    let too_many: Vec<&String> = idle.difference(&unseen).collect();
    assert!(too_many.is_empty(), "granted and not used: {too_many:?}");
    assert!(unseen.is_subset(&granted), "an exception that is not granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_to_play_kubelets_are_used() {
    let test = "rights_to_play_kubelets_are_used";
    let Some(programs) = joiner_testbed::programs_for(test).unwrap() else { return };
    let parts = Parts { kwok: false, ..Parts::AUDITED };
    let Some(bed) = joiner_testbed::plane_for(test, parts).await.unwrap() else { return };
    let Some(plane) = &bed.plane else {
        joiner_testbed::not_run(test, "it reads the audit log of a server of its own");
        return;
    };
    let kubectl = programs.path("kubectl");
    let told = |arguments: &[&str], input: &str| {
        let (fine, said) = run(&kubectl, &bed.kubeconfig, arguments, input);
        assert!(fine, "kubectl {}: {said}", arguments.join(" "));
        said
    };
    // As people type it. The image is never run here: there are no containers.
    let make = |line: &[&str]| {
        let root = charts().join("..");
        let (program, tool) =
            (format!("JOINER={}", env!("CARGO_BIN_EXE_joiner")), format!("KUBECTL={}", kubectl.display()));
        let fixed = ["-C", root.to_str().unwrap(), &program, &tool, "NAMESPACE=joiner", "SET=replicas=0"];
        let (fine, said) = run(Path::new("make"), &bed.kubeconfig, &[&fixed[..], line].concat(), "");
        assert!(fine, "make {}: {said}", line.join(" "));
        said
    };
    make(&["install-kwok", "KWOK_IMAGE=registry.example.com/kwok:1"]);
    let image = [
        "get",
        "deployment",
        "-n",
        "kube-system",
        "kwok-controller",
        "-o",
        "jsonpath={.spec.template.spec.containers[0].image}",
    ];
    assert_eq!(told(&image, ""), "registry.example.com/kwok:1");
    make(&["uninstall-kwok"]);
    make(&["apply", "KWOK=none", "IMAGE=registry.example.com:5000/dev/joiner:42"]);
    let (_, deployment) = bed.client.get("/apis/apps/v1/namespaces/joiner/deployments/joiner").await.unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example.com:5000/dev/joiner:42");
    let token = told(&["create", "token", "joiner", "-n", NAMESPACE, "--duration=1h"], "");
    let kubeconfig = plane.kubeconfig_for("account", token.trim()).unwrap();
    let mut running = Running::start(&kubeconfig, &deployment);
    told(&["apply", "-f", "-"], POOL);
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pods = "/api/v1/namespaces/default/pods";
    running.until("all pods run", async || count(&bed, pods, is_running).await == 10).await;
    let renewed = right("patch", "coordination.k8s.io", "leases");
    running
        .until("leases of nodes are renewed", async || used(&plane.requests().unwrap()).0.contains(&renewed))
        .await;
    // It is still there to end its machines when it is told to go.
    let said = make(&["delete", "KWOK=none", "MACHINES=delete"]);
    assert!(said.contains("nodepool.karpenter.sh \"default\" deleted"), "{said}");
    assert_eq!(count(&bed, "/api/v1/nodes", |_| true).await, 0, "{said}");
    assert_eq!(count(&bed, "/apis/karpenter.sh/v1/nodeclaims", |_| true).await, 0, "{said}");
    let (asked, denied) = used(&plane.requests().unwrap());
    // Whatever it asked for after its rights were taken away is denied, as it should be; before that nothing was.
    let (_, plain, _) = joiner(&["manifests", "-n", NAMESPACE]);
    let (_, playing, _) = joiner(&["manifests", "-n", NAMESPACE, "--set", "simulateKubelets=true"]);
    let (plain, playing) = (granted(&plain), granted(&playing));
    let too_few: Vec<&String> = asked.difference(&playing).collect();
    assert!(too_few.is_empty(), "used and not granted: {too_few:?}; denied {denied:?}");
    let unused: Vec<&String> = playing.difference(&plain).filter(|right| !asked.contains(*right)).collect();
    assert!(unused.is_empty(), "granted and not used: {unused:?}");
}
