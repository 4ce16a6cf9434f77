//! `up`: a cluster on this machine, without machines behind it.
//!
//! [`api_only`] serves the Kubernetes API and nothing else. Otherwise a simulated cluster lives behind it: [`assembly`] puts it together, with
//! joiner in it, and [`cluster`] runs it on a thread of its own; [`feed`] keeps a board of its nodes and pods; [`show`] puts the board on the terminal; [`rest`] says when nothing is left to do; [`demo`] is a
//! scripted day, [`objects`] brings manifests in, and [`kubeconfig`] lets clients in.

pub mod api_only;
pub mod assembly;
pub mod cluster;
pub mod decision_log;
mod demo;
pub mod feed;
pub mod kubeconfig;
pub mod objects;
mod rest;
mod show;

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};

use crate::{FINE, Streams};

/// Arguments of `up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --api-only a cluster lives behind the API: workload controllers, a scheduler, nodes that say they run pods, and joiner, which adds
machines for pods that have no place and takes away empty ones. Nothing really runs, nothing is bought, and nothing is kept after the end
unless there is a folder for it.

Examples:
  # A day of a shop in four minutes:
  joiner up --demo

  # A cluster to play with from a second terminal:
  joiner up
  KUBECONFIG=joiner.kubeconfig kubectl apply -f examples/inflate.yaml

  # What becomes of these manifests, as one table:
  joiner up -f examples/spread.yaml --once

  # A copy of a cluster; then what joiner would have built for the same workloads:
  joiner snapshot -o prod.yaml
  joiner up --from prod.yaml
  joiner up --from prod.yaml --from-mode intent --once

  # Only the API; the same objects, versions and token at the next start:
  joiner up --api-only --data-dir ~/joiner-data --port 6443")]
pub struct UpArgs {
    /// Serve the API and nothing else: no controllers, no scheduler, no nodes.
    #[arg(long, conflicts_with_all = ["demo", "filename", "once", "speed", "nodes", "no_autoscaler", "catalog", "from", "decisions", "startup_taints"])]
    pub api_only: bool,
    /// Live through a scripted day: services grow, a spike, a spot machine is taken away, a quiet night.
    #[arg(long)]
    pub demo: bool,
    /// Manifests to begin with: a file, a folder, or - for standard input.
    #[arg(short, long, value_name = "FILE|DIR|-")]
    pub filename: Vec<PathBuf>,
    /// A cluster to begin with: a file of `joiner snapshot`, lists of `kubectl get -o yaml`, a snapshot or a recording of KWOK; repeatable. What
    /// `-f` gives is applied on top.
    #[arg(long, value_name = "FILE|DIR|-", conflicts_with = "demo")]
    pub from: Vec<PathBuf>,
    /// What to make of it: the cluster as it was, every pod on its node; or only what was asked for, on no nodes at all.
    #[arg(long, value_enum, default_value_t = crate::import::FromMode::AsIs, requires = "from")]
    pub from_mode: crate::import::FromMode,
    /// How fast time passes: 1x, 60x, or max to skip all waiting. Usual are 1x, 360x for the demo, and max with --once.
    #[arg(long, value_name = "FACTOR")]
    pub speed: Option<Speed>,
    /// So many nodes are there from the start, with 16 CPUs each; 100000 at most.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = RangedU64ValueParser::<usize>::new().range(..=100_000))]
    pub nodes: usize,
    /// Leave joiner out: pods without a place stay without.
    #[arg(long)]
    pub no_autoscaler: bool,
    /// Instance types that can be had, for all pools: `kwok` (made-up ones) or `aws` (those of an AWS region). Without it, pools of an EC2NodeClass
    /// get `aws`, others `kwok`; all get `aws` if pools or nodes of `--from` are of AWS.
    #[arg(long, value_enum)]
    pub catalog: Option<crate::cli::Catalog>,
    /// What holds for machines of AWS.
    #[command(flatten)]
    pub aws: crate::commands::catalogues::AwsArgs,
    /// How long after a node is ready a simulated agent takes its startup taints off; `never` leaves them on.
    #[arg(long, value_name = "DURATION|never", default_value = "5s")]
    pub startup_taints: StartupTaints,
    /// Print the cluster once when everything has come to rest, and end: nothing under way, and nothing that joiner would still do. Nobody is let
    /// in meanwhile, unless --kubeconfig names a file.
    #[arg(long)]
    pub once: bool,
    /// Output format of --once.
    #[arg(short, long, value_enum, default_value_t = Output::Table, ignore_case = true, requires = "once")]
    pub output: Output,
    /// Append every decision of joiner, with its reasons, prices and outcomes, to this file: one JSON object per line.
    #[arg(long, value_name = "FILE", conflicts_with = "no_autoscaler")]
    pub decisions: Option<PathBuf>,
    /// Names, uids and every chance come from this number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Where to write the file that lets clients in, if not to joiner.kubeconfig. It is overwritten, and removed at the end unless there is a data
    /// folder.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The port; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// The address to listen on. Any but a loopback address lets other machines in, if they have the token.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// Keep all objects in this folder, and go on with those that are there. It is made if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

impl UpArgs {
    /// Where the file that lets clients in is written.
    fn kubeconfig_path(&self) -> &std::path::Path {
        self.kubeconfig.as_deref().unwrap_or(std::path::Path::new(kubeconfig::USUAL))
    }

    /// Whether anybody is to talk to the cluster from outside.
    fn lets_clients_in(&self) -> bool {
        !self.once || self.kubeconfig.is_some()
    }
}

/// How `--once` prints a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table.
    Table,
    /// One JSON object.
    Json,
    /// The same as YAML.
    Yaml,
}

/// When startup taints go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartupTaints {
    /// So long after a node is ready.
    After(Duration),
    /// They stay.
    Never,
}

impl FromStr for StartupTaints {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("never") {
            return Ok(Self::Never);
        }
        let after = joiner_api::duration::Duration::parse(text).map_err(|error| error.to_string())?;
        match u64::try_from(after.nanos()) {
            Ok(nanos) => Ok(Self::After(Duration::from_nanos(nanos))),
            Err(_) => Err("a duration such as `10s`, zero or more, or `never`".to_owned()),
        }
    }
}

/// How fast time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// So many times as fast as outside.
    Times(u32),
    /// Waiting is skipped.
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.strip_suffix('x').unwrap_or(text).parse::<u32>() {
            Ok(times) if (1..=100_000).contains(&times) => Ok(Self::Times(times)),
            _ => Err("a whole number from 1x to 100000x, or `max`".to_owned()),
        }
    }
}

impl Speed {
    /// As the screen says it.
    fn words(self) -> String {
        match self {
            Self::Times(1) => "real time".to_owned(),
            Self::Times(times) => format!("{times}x"),
            Self::Max => "no waiting".to_owned(),
        }
    }
}

/// Serves until interrupted.
pub fn run(arguments: &UpArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    if arguments.lets_clients_in() {
        kubeconfig::Kubeconfig::check(arguments.kubeconfig_path())?;
    }
    if arguments.api_only {
        api_only::run(arguments, streams)?;
        return Ok(FINE);
    }
    show::run(arguments, streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_taints_go_after_a_time_or_never() {
        let after = |seconds| Ok(StartupTaints::After(Duration::from_secs(seconds)));
        for (text, expected) in
            [("0s", after(0)), ("10s", after(10)), ("1m30s", after(90)), ("Never", Ok(StartupTaints::Never))]
        {
            assert_eq!(text.parse::<StartupTaints>(), expected, "{text}");
        }
        for text in ["", "-1s", "10", "soon"] {
            assert!(text.parse::<StartupTaints>().is_err(), "{text}");
        }
    }

    #[test]
    fn speeds_are_read_and_told() {
        for (text, speed, words) in [
            ("1x", Speed::Times(1), "real time"),
            ("60x", Speed::Times(60), "60x"),
            ("360", Speed::Times(360), "360x"),
            ("max", Speed::Max, "no waiting"),
        ] {
            assert_eq!(text.parse(), Ok(speed));
            assert_eq!(speed.words(), words);
        }
        for text in ["", "x", "0x", "-1x", "1.5x", "fast", "100001x"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
