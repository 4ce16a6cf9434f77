//! One run: a fresh control plane, one autoscaler or none, pods, and what it took until all of them were ready.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use http::Method;
use joiner_testbed::audit::{self, Request};
use joiner_testbed::cache::Programs;
use joiner_testbed::client::Client;
use joiner_testbed::plane::{ControlPlane, Parts, REPLICAS, scratch};
use joiner_testbed::process::Kept;
use joiner_testbed::usage::{self, Usage};
use serde::Serialize;
use serde_json::{Value, json};

use super::workload::{self, Workload};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/karpenter-leader-election";
const NODES: &str = "/api/v1/nodes";
/// Between two questions whether all is ready; few enough not to count.
const PAUSE: Duration = Duration::from_millis(250);
/// An autoscaler is idle when nothing has happened for so long.
const IDLE: Duration = Duration::from_secs(10);
/// What no step takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Who buys the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Contestant {
    /// Nobody: they are there already, ready and empty.
    Floor,
    /// This joiner.
    Joiner,
    /// Karpenter's KWOK build.
    Karpenter,
}

impl Contestant {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Joiner => "joiner",
            Self::Karpenter => "Karpenter",
        }
    }
}

/// The programs of all runs.
pub struct Stand {
    /// The control plane's.
    pub programs: Programs,
    /// Ours.
    pub joiner: PathBuf,
    /// Theirs, if it takes part.
    pub karpenter: Option<PathBuf>,
    /// Hourly prices by type, zone and capacity type.
    pub prices: BTreeMap<[String; 3], f64>,
}

/// What one run came to, or medians of several.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// From the first Deployment to the last ready pod.
    pub seconds: f64,
    /// Of the autoscaler, within this time.
    pub cpu_seconds: f64,
    /// Of the API server, within this time.
    pub api_cpu_seconds: f64,
    /// Memory of the autoscaler, before.
    pub idle_bytes: f64,
    /// The most memory it had, within this time.
    pub peak_bytes: f64,
    /// Nodes at the end of this time.
    pub nodes: f64,
    /// Their price per hour.
    pub price: f64,
    /// Requests of the autoscaler within this time, where they were recorded.
    pub requests: Option<f64>,
    /// Those of them that write.
    pub writes: Option<f64>,
}

/// The end of a run.
pub struct Outcome {
    /// What was measured.
    pub figures: Figures,
    /// The nodes that were bought, as they may be made beforehand.
    pub nodes: Vec<Value>,
    /// What everybody asked of the API server within this time, if it was recorded.
    pub requests: Vec<Request>,
}

/// Measures one run.
pub async fn run(
    stand: &Stand,
    who: Contestant,
    workload: &Workload,
    pods: u32,
    beforehand: &[Value],
    audited: bool,
) -> Result<Outcome> {
    let parts = if audited { Parts::AUDITED } else { Parts::ALL };
    let plane = ControlPlane::start(&stand.programs, parts).await?;
    let client = plane.client()?;
    let folder = scratch("compare-live")?;
    let outcome = on_plane(stand, who, workload, pods, beforehand, &plane, &client, &folder).await;
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

#[allow(clippy::too_many_arguments, reason = "the run, and where it happens")]
async fn on_plane(
    stand: &Stand,
    who: Contestant,
    workload: &Workload,
    pods: u32,
    beforehand: &[Value],
    plane: &ControlPlane,
    client: &Client,
    folder: &Path,
) -> Result<Outcome> {
    let mut autoscaler = match who {
        Contestant::Floor => {
            for node in beforehand {
                create(client, NODES, node).await?;
            }
            until("all nodes are ready", None, async || {
                Ok(list(client, NODES).await?.iter().filter(|node| is_ready(node)).count()
                    == beforehand.len())
            })
            .await?;
            None
        }
        Contestant::Joiner | Contestant::Karpenter => {
            install_definitions(stand, plane)?;
            let mut program = start(stand, who, plane, folder)?;
            for (path, object) in workload::pool() {
                create(client, path, &object).await?;
            }
            until("it leads and the pool is ready", Some(&mut program), async || {
                let (_, lease) = client.get(LEASE).await?;
                let (_, pool) = client.get("/apis/karpenter.sh/v1/nodepools/default").await?;
                Ok(lease["spec"]["holderIdentity"].as_str().is_some_and(|name| !name.is_empty())
                    && is_ready(&pool))
            })
            .await?;
            Some(program)
        }
    };
    tokio::time::sleep(IDLE).await;
    let id = autoscaler.as_ref().map(Kept::program_id).transpose()?;
    let usage = || -> Result<Option<Usage>> { id.map(usage::of).transpose() };
    if let Some(id) = id {
        usage::forget_peak(id)?;
    }
    let (before, asked_before) = (usage()?, plane.requests()?.len());
    let api = plane.api_server_id()?;
    let api_before = usage::of(api)?.cpu_seconds;

    let begun = Instant::now();
    for deployment in workload.deployments(pods) {
        create(client, DEPLOYMENTS, &deployment).await?;
    }
    until("all pods are ready", autoscaler.as_mut(), async || {
        let ready = list(client, DEPLOYMENTS).await?;
        let ready: u64 = ready.iter().filter_map(|one| one["status"]["readyReplicas"].as_u64()).sum();
        Ok(ready >= u64::from(pods))
    })
    .await?;
    let seconds = begun.elapsed().as_secs_f64();

    let after = usage()?;
    let api_cpu_seconds = usage::of(api)?.cpu_seconds - api_before;
    let requests = plane.requests()?.split_off(asked_before);
    let nodes = list(client, NODES).await?;
    let mut price = 0.0;
    for node in nodes.iter().filter(|_| who != Contestant::Floor) {
        price += price_of(stand, node)?;
    }
    let own = || requests.iter().filter(|request| request.user == REPLICAS[0]);
    let counted = |count: usize| (!requests.is_empty() && who != Contestant::Floor).then_some(count as f64);
    let figures = Figures {
        seconds,
        cpu_seconds: after.zip(before).map_or(0.0, |(after, before)| after.cpu_seconds - before.cpu_seconds),
        api_cpu_seconds,
        idle_bytes: before.map_or(0.0, |usage| usage.resident_bytes as f64),
        peak_bytes: after.map_or(0.0, |usage| usage.peak_bytes as f64),
        nodes: nodes.len() as f64,
        price,
        requests: counted(own().count()),
        writes: counted(own().filter(|request| request.is_write()).count()),
    };
    if let Some(autoscaler) = &mut autoscaler {
        autoscaler.check()?;
    }
    Ok(Outcome { figures, nodes: nodes.iter().map(beforehand_of).collect(), requests })
}

/// The definitions of kinds, the same for both.
fn install_definitions(stand: &Stand, plane: &ControlPlane) -> Result<()> {
    let definitions = Command::new(&stand.joiner).arg("crds").output().context("cannot start joiner")?;
    ensure!(definitions.status.success(), "`joiner crds` ended with {}", definitions.status);
    let mut kubectl = Command::new(stand.programs.path("kubectl"))
        .args(["apply", "--server-side", "-f", "-", "--kubeconfig"])
        .arg(plane.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start kubectl")?;
    std::io::Write::write_all(
        &mut kubectl.stdin.take().context("kubectl takes no input")?,
        &definitions.stdout,
    )?;
    let status = kubectl.wait()?;
    ensure!(status.success(), "`kubectl apply` of the definitions ended with {status}");
    let mut kubectl = Command::new(stand.programs.path("kubectl"));
    kubectl.args(["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s", "--kubeconfig"]);
    let status = kubectl.arg(plane.kubeconfig()).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "the definitions are not served: `kubectl wait` ended with {status}");
    Ok(())
}

fn start(stand: &Stand, who: Contestant, plane: &ControlPlane, folder: &Path) -> Result<Kept> {
    let kubeconfig = plane.kubeconfig_of(REPLICAS[0]).display().to_string();
    let log = folder.join("autoscaler.log");
    if who == Contestant::Joiner {
        let arguments =
            ["run", "--provider", "kwok", "--metrics-port=0", "--health-probe-port=0", "--kubeconfig"];
        let arguments: Vec<String> = arguments.map(str::to_owned).into_iter().chain([kubeconfig]).collect();
        return Kept::start("joiner", &stand.joiner, &arguments, &log);
    }
    let program = stand.karpenter.as_ref().context("Karpenter is not built")?;
    let variables = [
        ("KUBECONFIG", kubeconfig),
        ("SYSTEM_NAMESPACE", "kube-system".to_owned()),
        ("LEADER_ELECTION_NAMESPACE", "kube-system".to_owned()),
        ("METRICS_PORT", "0".to_owned()),
        ("HEALTH_PROBE_PORT", "0".to_owned()),
    ];
    Kept::start_with("karpenter", program, &[], &variables, &log)
}

/// The nodes of a run to be made beforehand, and every third once more: the scheduler fills them in its own order, and what is bought to fit one
/// order exactly may be too small for another.
pub fn with_reserve(nodes: &[Value]) -> Vec<Value> {
    let mut all = nodes.to_vec();
    for node in nodes.iter().step_by(3) {
        let mut copy = node.clone();
        let name = format!("{}-reserve", node["metadata"]["name"].as_str().unwrap_or_default());
        copy["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
        copy["metadata"]["name"] = json!(name);
        all.push(copy);
    }
    all
}

/// A node as somebody may have made it before: what identifies it and what it has, without anybody's bookkeeping.
fn beforehand_of(node: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": node["metadata"]["name"], "labels": node["metadata"]["labels"],
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": node["status"]["capacity"], "allocatable": node["status"]["allocatable"]},
    })
}

fn price_of(stand: &Stand, node: &Value) -> Result<f64> {
    let labels = &node["metadata"]["labels"];
    let label = |key: &str| labels[key].as_str().unwrap_or_default().to_owned();
    let key =
        ["node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "karpenter.sh/capacity-type"];
    let key = key.map(label);
    let price = stand.prices.get(&key);
    price.copied().with_context(|| format!("no price for a node of {}", key.join(", ")))
}

/// Whether the condition `Ready` of an object is true.
fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

async fn create(client: &Client, path: &str, object: &Value) -> Result<()> {
    let (status, answer) = client.call(Method::POST, path, Some(object)).await?;
    ensure!(status == 201, "cannot create at `{path}`: {answer}");
    Ok(())
}

async fn list(client: &Client, path: &str) -> Result<Vec<Value>> {
    let (status, mut answer) = client.get(path).await?;
    ensure!(status == 200, "cannot list `{path}`: {answer}");
    Ok(answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

async fn until(
    what: &str,
    mut program: Option<&mut Kept>,
    mut is_so: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let begun = Instant::now();
    while !is_so().await? {
        if let Some(program) = &mut program {
            program.check()?;
        }
        if begun.elapsed() > PATIENCE {
            let words = program.map(|program| program.last_words()).unwrap_or_default();
            bail!("{what}: not within {} s\n{words}", PATIENCE.as_secs());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Who asked for what, most first.
pub fn told(requests: &[Request]) -> String {
    let mut users: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
    for request in requests {
        users.entry(&request.user).or_default().push(request);
    }
    let mut text = String::new();
    for (user, requests) in users {
        let user = if user == REPLICAS[0] { "the autoscaler" } else { user };
        let _ = writeln!(text, "  {user}: {} requests", requests.len());
        for (what, count) in audit::tally(requests) {
            let _ = writeln!(text, "    {count:>6}  {what}");
        }
    }
    text
}
