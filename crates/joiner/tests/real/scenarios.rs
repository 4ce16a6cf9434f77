//! The scenario files of the simulated cluster (`tests/cluster`), played on a real control plane with kwok: the same steps, the same end.
//!
//! Each file has a control plane of its own, several at once: most of a scenario is waiting. CI plays those of [`IN_CI`], which touch every part and wait little;
//! `JOINER_CLUSTER_FILES` names others by a part of their names, `all` of them.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use joiner::connection;
use joiner::simulate::hands::Hands;
use joiner::simulate::play::{Player, Process};
use joiner::simulate::scenario::Scenario;
use joiner_controllers::RuntimeClock;
use joiner_testbed::process::Signal;
use kube::Client;

use crate::replica::{Cluster, Replica};

/// The files that CI plays, by the beginning of their names.
const IN_CI: [&str; 18] = [
    "001", "003", "006", "007", "010", "011", "012", "015", "016", "101", "102", "109", "201", "206", "213",
    "301", "303", "305",
];
/// Planes at once.
const AT_ONCE: usize = 3;
/// A real cluster takes its time, on a busy machine most of all.
const PATIENCE: Duration = Duration::from_secs(60);
/// Told to end, joiner finishes what is under way.
const END: Duration = Duration::from_secs(40);

/// Joiner as the scenario starts, stops and kills it.
struct OnCluster<'c> {
    cluster: &'c Cluster,
    flags: Vec<String>,
    running: RefCell<Option<Replica>>,
    /// What replicas that have ended had logged.
    said: RefCell<String>,
}

impl OnCluster<'_> {
    fn end(&self, signal: Signal) -> anyhow::Result<()> {
        let Some(mut replica) = self.running.borrow_mut().take() else { return Ok(()) };
        replica.signal(signal);
        let status = replica.await_end(END)?;
        self.said.borrow_mut().push_str(&replica.log());
        anyhow::ensure!(signal == Signal::Kill || status.success(), "joiner ended with {status}");
        Ok(())
    }
}

impl Process for OnCluster<'_> {
    async fn start(&self) -> anyhow::Result<()> {
        let mut running = self.running.borrow_mut();
        if running.is_none() {
            let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
            *running = Some(Replica::start("joiner", &self.cluster.bed.kubeconfig, &flags));
        }
        Ok(())
    }

    async fn kill(&self) -> anyhow::Result<()> {
        self.end(Signal::Kill)
    }

    async fn stop(&self) -> anyhow::Result<()> {
        self.end(Signal::Interrupt)
    }
}

async fn play(test: &str, scenario: &Scenario) -> anyhow::Result<()> {
    let Some(cluster) = Cluster::start(test).await else { return Ok(()) };
    let config = connection::config(Some(&cluster.bed.kubeconfig), None).await?;
    let process = OnCluster {
        cluster: &cluster,
        flags: scenario.flags(),
        running: RefCell::default(),
        said: RefCell::default(),
    };
    let player = Player {
        hands: Hands::new(Client::try_from(config)?),
        clock: Arc::new(RuntimeClock::new(jiff::Timestamp::now)),
        process,
        patience: PATIENCE,
    };
    let outcome = player.play(scenario).await;
    let process = &player.process;
    let ended = process.end(Signal::Interrupt);
    let said = process.said.take();
    anyhow::ensure!(!said.contains("panicked"), "{said}");
    outcome.and(ended).map_err(|error| {
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(12)..].join("\n");
        error.context(format!("joiner said last:\n{last}"))
    })
}

#[test]
fn scenarios_end_alike_on_a_real_control_plane() {
    let test = "scenarios_end_alike_on_a_real_control_plane";
    if joiner_testbed::programs_for(test).unwrap().is_none() {
        return;
    }
    let asked = std::env::var("JOINER_CLUSTER_FILES").unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster");
    let mut chosen = Scenario::read_all(&folder).unwrap();
    chosen.retain(|scenario| match asked.as_str() {
        "" => IN_CI.iter().any(|name| scenario.name.starts_with(name)),
        "all" => true,
        part => scenario.name.contains(part),
    });
    let (only_simulated, played): (Vec<_>, Vec<_>) =
        chosen.into_iter().partition(|scenario| scenario.only_simulated.is_some());
    for scenario in &only_simulated {
        eprintln!("not run: {}: {}", scenario.name, scenario.only_simulated.as_deref().unwrap_or_default());
    }
    assert!(!played.is_empty() && (!asked.is_empty() || played.len() == IN_CI.len()), "files are missing");
    let (left, failed) = (Mutex::new(played.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                loop {
                    let Some(scenario) = left.lock().unwrap().next() else { break };
                    let begun = Instant::now();
                    let outcome = runtime.block_on(play(test, scenario));
                    let seconds = begun.elapsed().as_secs();
                    match outcome {
                        Ok(()) => println!("{}: as expected, after {seconds} s", scenario.name),
                        Err(error) => {
                            println!("{}: FAILED after {seconds} s: {error:#}", scenario.name);
                            failed.lock().unwrap().push(scenario.name.clone());
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {} scenarios: {}", failed.len(), played.len(), failed.join(", "));
}
