//! `run`: the autoscaler on a real cluster, or on one that is simulated in this process.
//!
//! [`options`] reads what may be said, by flag or by environment, and [`gates`] a part of it; [`lead`] is the life of the process: connect, observe, wait for the
//! lease, lead, end. [`alone`] looks for other autoscalers first. [`endpoints`] answers metrics and health, [`process`] tells about the process itself, [`logs`] writes lines,
//! [`types_file`] reads instance types again. The controllers are the same that
//! `up` runs: both are put together by [`crate::autoscaler`].

mod alone;
mod endpoints;
mod gates;
mod lead;
mod logs;
mod options;
mod own_options;
mod process;
mod types_file;

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

use self::logs::LogFormat;
use self::options::OptionArgs;
use self::own_options::OwnArgs;
use crate::Streams;
use crate::commands::up::StartupTaints;

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
joiner reads Karpenter's objects and takes Karpenter's flags and variables. It also takes Karpenter's lease: as long as one of the two leads, the other waits.
Of several joiners with the same lease one leads, and the others are ready to. Joiners for different providers get leases of their own
(--leader-election-name).

What a flag does not say the variable says, and what neither says is the default. Options that joiner takes and does not act on yet are named once in the log.

Examples:
  # The cluster of the present context, whose nodes are played by KWOK:
  joiner crds | kubectl apply --server-side -f -
  joiner run --provider kwok

  # What it would do there, beside whatever is at work:
  joiner run --dry-run

  # The same without KWOK: joiner plays the kubelets of its nodes.
  joiner run --provider kwok --simulate-kubelets

  # Without a cluster: one is simulated, and kubectl can use it:
  joiner run --embedded
  KUBECONFIG=joiner.kubeconfig kubectl get nodes -w")]
pub struct RunArgs {
    /// Serve the pools of this provider; repeatable. Without it, all providers whose node classes the cluster knows.
    #[arg(long, value_enum, value_name = "NAME")]
    pub provider: Vec<ProviderName>,
    /// Decide and record, and change nothing: neither objects nor machines. Needs no lease.
    #[arg(long)]
    pub dry_run: bool,
    /// Act although pods of another autoscaler are in the cluster. Without it joiner observes until they are gone.
    #[arg(long)]
    pub take_over: bool,
    /// The kubeconfig; if not given, what KUBECONFIG names, ~/.kube/config, or the account of the pod this runs in. With --embedded the file that lets
    /// clients in, by default joiner.kubeconfig.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; the present one if not given.
    #[arg(long, conflicts_with = "embedded")]
    pub context: Option<String>,
    /// Simulate a cluster in this process and run on that.
    #[arg(long)]
    pub embedded: bool,
    /// Keep the objects of the simulated cluster in this folder, and go on with those that are there.
    #[arg(long, value_name = "DIR", requires = "embedded")]
    pub data_dir: Option<PathBuf>,
    /// Play the kubelets of KWOK nodes (those annotated `kwok.x-k8s.io/node: fake`) instead of a KWOK controller: leases, readiness, pods that run and end.
    #[arg(long, conflicts_with_all = ["embedded", "dry_run"])]
    pub simulate_kubelets: bool,
    /// How long after a node is ready its kubelet takes its startup taints off; `never` leaves them to others.
    #[arg(long, value_name = "DURATION|never", default_value = "never", requires = "simulate_kubelets")]
    pub startup_taints: StartupTaints,
    /// Append every decision, with its reasons, prices and outcomes, to this file: one JSON object per line.
    #[arg(long, value_name = "FILE")]
    pub decisions: Option<PathBuf>,
    /// How log lines are written; without it JSON, or plain text on a terminal.
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// No more than so many pods are shown one by one in the metrics.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub max_pod_series: usize,
    /// Names of claims are drawn from this number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// What Karpenter can be told, too.
    #[command(flatten)]
    pub options: OptionArgs,
    /// What only joiner can be told.
    #[command(flatten)]
    pub own: OwnArgs,
}

/// Providers that are built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProviderName {
    /// Nodes without machines, played by a KWOK controller.
    Kwok,
}

/// Runs until told to end.
pub fn run(arguments: &RunArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let variable = |name: &str| std::env::var(name).ok();
    let options = options::Options::resolve(&arguments.options, &arguments.own, &variable)?;
    logs::start(&options, arguments.log_format)?;
    lead::run(arguments, options, streams)
}

/// What these flags of `run` make of the controllers, whatever the environment says.
///
/// # Errors
/// A flag that is not known, or a value that makes no sense.
pub fn settings_of(flags: &[String], seed: u64) -> anyhow::Result<joiner_controllers::Settings> {
    let line = ["joiner", "run"].map(str::to_owned).into_iter().chain(flags.iter().cloned());
    let cli = crate::cli::Cli::try_parse_from(line).map_err(|error| {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        crate::report::InputError { message: format!("settings: {first}"), ..Default::default() }
    })?;
    let crate::cli::Command::Run(arguments) = cli.command else {
        anyhow::bail!("settings: {} are no flags of `joiner run`", flags.join(" "));
    };
    let options = options::Options::resolve(&arguments.options, &arguments.own, &|_| None)?;
    let mut settings = lead::settings(&arguments, &options, lead::USUAL_NAMESPACE);
    settings.seed = seed;
    Ok(settings)
}
