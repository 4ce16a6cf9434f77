//! The simulated cluster behind `up`, with joiner in it, on a thread of its own.
//!
//! One thread lives the cluster's life, so that equal input gives an equal life; requests from outside are answered elsewhere and reach it
//! as events.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use joiner_api::{NodeClaim, names};
use joiner_apiserver::service::ApiServer;
use joiner_controllers::Summary;
use joiner_provider::TypeSet;
use joiner_sim::clock::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::assembly::{Design, Offer, Parts};
use super::decision_log::DecisionLog;
use super::demo::{self, Action};
use super::feed::SharedBoard;
use super::{Speed, objects, rest};
use crate::import::{Import, recording};

/// A cluster that is told to end is not waited for any longer.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The namespace of the demo.
const SHOP: &str = "shop";

/// What to set up.
pub struct Wish {
    /// How fast time passes.
    pub speed: Speed,
    /// Where chance comes from.
    pub seed: u64,
    /// Nodes from the start.
    pub nodes: usize,
    /// A cluster to begin with.
    pub import: Option<Import>,
    /// What nodes cost that do not say so themselves.
    pub prices: Option<Arc<TypeSet>>,
    /// Objects from the start.
    pub objects: Vec<Value>,
    /// Whether the scripted day is lived.
    pub demo: bool,
    /// Instance types joiner can have; nothing if joiner is not in the cluster.
    pub catalogue: Option<Offer>,
    /// Where objects are kept.
    pub folder: Option<PathBuf>,
    /// Where decisions are written.
    pub decisions: Option<DecisionLog>,
    /// How long after a node is ready its startup taints go; nothing if they stay.
    pub startup_taints: Option<Duration>,
    /// Whether the life ends when the cluster has come to rest.
    pub once: bool,
}

/// How far a cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Not everything wished for is there, or the script goes on.
    Beginning,
    /// Everything is there.
    Begun,
    /// It has come to rest and lives no more; or it does not, and this goes on.
    Rested(Option<String>),
}

/// A cluster that lives.
pub struct Cluster {
    /// Its API.
    pub server: ApiServer,
    /// Its clock.
    pub clock: Clock,
    /// What joiner says of itself; stays as it began if joiner is not there.
    pub summary: watch::Receiver<Summary>,
    /// What the script says; `None` without one.
    pub caption: Arc<Mutex<Option<String>>>,
    /// Its nodes and pods.
    pub board: SharedBoard,
    /// How far it is.
    pub stage: watch::Receiver<Stage>,
    /// What the user should know of its beginning.
    pub notes: Vec<String>,
    end: watch::Sender<bool>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Cluster {
    /// Starts one, and waits until it can be asked.
    pub fn start(wish: Wish) -> anyhow::Result<Self> {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = watch::channel(false);
        let thread =
            std::thread::Builder::new().name("cluster".to_owned()).spawn(move || live(wish, &tell, ended))?;
        match told.recv() {
            Ok(Birth { server, clock, summary, caption, board, stage, notes }) => {
                Ok(Self { server, clock, summary, caption, board, stage, notes, end, thread })
            }
            // The thread has ended, and says why.
            Err(_) => match thread.join() {
                Ok(Err(error)) => Err(error),
                _ => anyhow::bail!("the cluster ended as it began"),
            },
        }
    }

    /// Whether it still lives. It ends by itself only when something is wrong.
    pub fn lives(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Ends it.
    pub fn end(self) -> anyhow::Result<()> {
        // Nobody listens if the thread is gone already.
        let _ = self.end.send(true);
        let told = Instant::now();
        while !self.thread.is_finished() && told.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(5));
        }
        let outcome = match self.thread.is_finished() {
            true => self.thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the cluster has failed"))),
            false => Err(anyhow::anyhow!("the cluster does not end; what it has written is kept")),
        };
        self.server.close();
        outcome
    }
}

/// What the thread tells when it is ready.
struct Birth {
    server: ApiServer,
    clock: Clock,
    summary: watch::Receiver<Summary>,
    caption: Arc<Mutex<Option<String>>>,
    board: SharedBoard,
    stage: watch::Receiver<Stage>,
    notes: Vec<String>,
}

fn live(
    wish: Wish,
    tell: &std::sync::mpsc::Sender<Birth>,
    ended: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    // Nothing takes time but waiting, at any speed: a pace only makes the waiting real.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    builder.build()?.block_on(live_here(wish, tell, ended))
}

async fn live_here(
    wish: Wish,
    tell: &std::sync::mpsc::Sender<Birth>,
    mut ended: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let start = if wish.demo { demo::morning(Timestamp::now()) } else { Timestamp::now() };
    let clock = Clock::at_home(start);
    if let Speed::Times(times) = wish.speed {
        tokio::spawn(joiner_sim::pace::keep(clock.clone(), times));
    }
    let (restored, changes) = wish.import.map(|import| (import.objects, import.changes)).unwrap_or_default();
    let design = Design {
        clock,
        seed: wish.seed,
        catalogue: wish.catalogue,
        folder: wish.folder,
        restored,
        startup_taints: wish.startup_taints,
    };
    let Parts { server, client, clock, mut world, mut controllers, notes } = design.assemble()?;
    let writer = match (wish.decisions, &mut controllers) {
        (Some(log), Some(controllers)) => Some(log.follow(controllers)?),
        _ => None,
    };
    let board = SharedBoard::default();
    if let Some(prices) = wish.prices {
        board.open().know_types(prices);
    }
    let caption = Arc::new(Mutex::new(None));
    let (tell_stage, stage) = watch::channel(Stage::Beginning);
    let (nothing, mut summary) = watch::channel(Summary::default());
    if let Some(controllers) = &controllers {
        summary = controllers.summary();
    }
    let birth = Birth {
        server: server.clone(),
        clock: clock.clone(),
        summary: summary.clone(),
        caption: caption.clone(),
        board: board.clone(),
        stage,
        notes,
    };
    if tell.send(birth).is_err() {
        return Ok(());
    }
    let script = async {
        make_nodes(&client, wish.nodes).await?;
        objects::apply(&client, &wish.objects).await?;
        if !changes.is_empty() {
            let all = changes.len();
            recording::play(&server, &clock, changes, |done| {
                let told = format!("recording: {done} of {all} changes");
                *caption.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
            })
            .await;
        }
        if wish.demo {
            live_a_day(&client, &clock, &caption).await?;
        }
        // What is not on the board yet would look as if it were not there.
        board.listed().await;
        tell_stage.send_replace(Stage::Begun);
        if wish.once {
            let goes_on = rest::reached(&clock, &board, &summary).await;
            tell_stage.send_replace(Stage::Rested(goes_on));
            return Ok(());
        }
        std::future::pending::<anyhow::Result<()>>().await
    };
    let autoscaler = async {
        match controllers {
            Some(controllers) => controllers.run(std::future::pending()).await,
            None => std::future::pending().await,
        }
        drop(nothing);
    };
    let told_to_end = async {
        // An error means that whoever started this is gone.
        let _ = ended.wait_for(|end| *end).await;
    };
    let outcome = tokio::select! {
        biased;
        () = told_to_end => Ok(()),
        problem = script => problem,
        () = world.run() => Ok(()),
        () = autoscaler => Ok(()),
        () = board.clone().follow(client.clone()) => Ok(()),
    };
    // The controllers are gone, so the writer ends with the last line.
    let written = writer.map_or(Ok(()), |writer| {
        writer.join().unwrap_or_else(|_| Err(anyhow::anyhow!("--decisions: the writer has failed")))
    });
    outcome.and(written)
}

/// Nodes that are there from the start, named as kwokctl names them.
async fn make_nodes(client: &Client, count: usize) -> anyhow::Result<()> {
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    for number in 0..count {
        let name = format!("node-{number:06}");
        let room = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
        let node = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": {
                    names::HOSTNAME_LABEL: name,
                    names::ARCH_LABEL: "amd64",
                    names::OS_LABEL: "linux",
                    names::ZONE_LABEL: format!("test-zone-{}", ["a", "b", "c", "d"][number % 4]),
                },
                "annotations": {names::KWOK_NODE_MARK: "fake"},
            },
            "status": {"capacity": room, "allocatable": room},
        }))?;
        match api.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            // Kept in the folder since an earlier start.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => {
                return Err(error).with_context(|| format!("Node `{name}`: the cluster refuses it"));
            }
        }
    }
    Ok(())
}

async fn live_a_day(client: &Client, clock: &Clock, caption: &Mutex<Option<String>>) -> anyhow::Result<()> {
    let start = clock.now();
    objects::apply(client, &objects::read_text("the demo", demo::MANIFESTS)?).await?;
    for step in demo::day() {
        let after = SignedDuration::try_from(step.after).unwrap_or(SignedDuration::MAX);
        clock.sleep_until(start.saturating_add(after).unwrap_or(Timestamp::MAX)).await;
        *caption.lock().unwrap_or_else(PoisonError::into_inner) = Some(step.caption.to_owned());
        for action in step.actions {
            // Users may have changed the shop meanwhile: what is not there is left alone.
            match act(client, action).await {
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_already_exists() => {}
                outcome => outcome?,
            }
        }
    }
    Ok(())
}

async fn act(client: &Client, action: Action) -> Result<(), kube::Error> {
    match action {
        Action::Scale(name, replicas) => {
            let api: Api<Deployment> = Api::namespaced(client.clone(), SHOP);
            let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            api.patch_scale(name, &PatchParams::default(), &patch).await?;
        }
        Action::NightlyWork { pods, minutes } => {
            let api: Api<Job> = Api::namespaced(client.clone(), SHOP);
            let job = nightly_work(pods, minutes);
            api.create(&PostParams::default(), &job).await?;
        }
        Action::TakeSpotMachine => {
            let api: Api<NodeClaim> = Api::all(client.clone());
            let spot = ListParams::default().labels(&format!("{}=spot", names::CAPACITY_TYPE_LABEL));
            let claims = api.list(&spot).await?;
            if let Some(claim) = claims.items.iter().find(|claim| claim.metadata.deletion_timestamp.is_none())
            {
                let exactly = Preconditions { uid: claim.uid(), resource_version: None };
                let deletion = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
                api.delete(&claim.name_any(), &deletion).await?;
            }
        }
    }
    Ok(())
}

fn nightly_work(pods: u32, minutes: u32) -> Job {
    let job = json!({
        "metadata": {"name": "nightly", "namespace": SHOP},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {
                "metadata": {
                    "labels": {"app": "nightly"},
                    "annotations": {joiner_sim::kubelet::annotations::DURATION: format!("{minutes}m")},
                },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": "work",
                        "image": "example.com/shop/nightly:1",
                        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}},
                    }],
                },
            },
        },
    });
    // Every field is written here, so it is one.
    serde_json::from_value(job).unwrap_or_default()
}
