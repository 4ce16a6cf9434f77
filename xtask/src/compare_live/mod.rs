//! Joiner and Karpenter on a real control plane: the same pods, the same pool, real kwok; one table.
//!
//! Each run has a control plane of its own. Joiner goes first; the nodes that it bought are made beforehand on the next plane, where the same pods show what
//! the control plane itself needs (the floor); then Karpenter. So all three see the same machine within minutes. What each asked of the API server is counted in a run
//! apart, because writing it down costs the server time.

mod contest;
mod table;
mod workload;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use joiner_testbed::build;
use serde_json::{Value, json};

use self::contest::{Contestant, Figures, Outcome, Stand};
use self::workload::Workload;

/// Arguments of `cargo xtask compare-live`.
#[derive(clap::Args)]
pub struct Args {
    /// Only workloads whose name contains this text: `one-cpu`, `mixed` (may be repeated)
    #[arg(long)]
    only: Vec<String>,
    /// So many pods in place of the workload's own number
    #[arg(long, conflicts_with = "write", value_parser = clap::value_parser!(u32).range(1..))]
    pods: Option<u32>,
    /// Runs of each; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Leave Karpenter out
    #[arg(long, conflicts_with = "write")]
    joiner_only: bool,
    /// Count requests too, in one more run of each, and print who asked for what
    #[arg(long)]
    requests: bool,
    /// Take this joiner instead of building one
    #[arg(long, value_name = "FILE")]
    joiner: Option<PathBuf>,
    /// Write all figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the page docs/reference/live-comparison.md; counts requests too
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// The medians of one workload.
struct Row {
    workload: &'static Workload,
    pods: u32,
    runs: BTreeMap<Contestant, Vec<Figures>>,
}

/// Runs `cargo xtask compare-live`.
pub fn run(args: &Args, root: &Path) -> Result<()> {
    let chosen: Vec<&Workload> = workload::ALL
        .iter()
        .filter(|workload| args.only.is_empty() || args.only.iter().any(|part| workload.name.contains(part)))
        .collect();
    if chosen.is_empty() {
        bail!("no workload's name contains `{}`", args.only.join("` or `"));
    }
    let stand = stand(args, root)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for workload in chosen {
        rows.push(runtime.block_on(measure(args, &stand, workload))?);
    }
    let caption = table::caption(args.runs, &crate::compare::processor(), &karpenter_version(root));
    println!("{}\n{caption}", table::plain(&rows));
    if let Some(path) = &args.json {
        let all: Vec<Value> = rows.iter().map(as_json).collect();
        std::fs::write(path, format!("{:#}\n", Value::from(all)))?;
    }
    if args.write {
        let path = root.join("docs/reference/live-comparison.md");
        std::fs::write(&path, table::page(&rows, &caption))?;
        println!("written: {}", path.display());
    }
    Ok(())
}

fn as_json(row: &Row) -> Value {
    let runs: serde_json::Map<String, Value> =
        row.runs.iter().map(|(who, runs)| (who.name().to_owned(), json!(runs))).collect();
    json!({"workload": row.workload.name, "pods": row.pods, "runs": runs})
}

/// All programs, built where they are missing, and the prices of nodes.
fn stand(args: &Args, root: &Path) -> Result<Stand> {
    let mut tell = |line: &str| eprintln!("compare-live: {line}");
    let programs = build::build(&mut tell)?;
    let karpenter = (!args.joiner_only).then(|| build::karpenter(&mut tell)).transpose()?;
    let joiner = match &args.joiner {
        Some(path) => std::path::absolute(path)?,
        None => {
            let mut build = Command::new("cargo");
            build.args(["build", "--release", "--package", "joiner"]).current_dir(root);
            let status = build.status().context("cannot start `cargo`")?;
            ensure!(status.success(), "`cargo build --release --package joiner` ended with {status}");
            let target =
                std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
            target.join("release/joiner")
        }
    };
    let prices = prices(&joiner)?;
    Ok(Stand { programs, joiner, karpenter, prices })
}

/// What each type costs where: both programs compute the same list.
fn prices(joiner: &Path) -> Result<BTreeMap<[String; 3], f64>> {
    let output = Command::new(joiner).args(["instance-types", "generate"]).output();
    let output = output.with_context(|| format!("cannot start `{}`", joiner.display()))?;
    let types: Value = serde_json::from_slice(&output.stdout).context("`joiner instance-types generate`")?;
    let mut prices = BTreeMap::new();
    for each in types.as_array().into_iter().flatten() {
        let name = each["name"].as_str().unwrap_or_default();
        for offering in each["offerings"].as_array().into_iter().flatten() {
            let value = |key: &str| {
                let all = offering["Requirements"].as_array().into_iter().flatten();
                let found = all.filter(|one| one["key"] == key).find_map(|one| one["values"][0].as_str());
                found.unwrap_or_default().to_owned()
            };
            let key =
                [name.to_owned(), value("topology.kubernetes.io/zone"), value("karpenter.sh/capacity-type")];
            prices.insert(key, offering["Price"].as_f64().unwrap_or_default());
        }
    }
    ensure!(!prices.is_empty(), "`joiner instance-types generate` names no prices");
    Ok(prices)
}

async fn measure(args: &Args, stand: &Stand, workload: &'static Workload) -> Result<Row> {
    let pods = args.pods.unwrap_or(workload.pods);
    let mut runs: BTreeMap<Contestant, Vec<Figures>> = BTreeMap::new();
    let bought = |outcome: &Outcome| contest::with_reserve(&outcome.nodes);
    for number in 1..=args.runs {
        let mut nodes = Vec::new();
        for who in [Contestant::Joiner, Contestant::Floor, Contestant::Karpenter] {
            if who == Contestant::Karpenter && args.joiner_only {
                continue;
            }
            let outcome = contest::run(stand, who, workload, pods, &nodes, false)
                .await
                .with_context(|| format!("{}, {} pods, {}", workload.name, pods, who.name()))?;
            eprintln!(
                "{} of {pods} pods, run {number}: {:<9} {}",
                workload.name,
                who.name(),
                table::line(&outcome.figures)
            );
            if who == Contestant::Joiner {
                nodes = bought(&outcome);
            }
            runs.entry(who).or_default().push(outcome.figures);
        }
    }
    if args.requests || args.write {
        for who in [Contestant::Joiner, Contestant::Karpenter] {
            let Some(all) = runs.get_mut(&who) else { continue };
            let outcome = contest::run(stand, who, workload, pods, &[], true).await?;
            println!(
                "{} of {pods} pods, {}:\n{}",
                workload.name,
                who.name(),
                contest::told(&outcome.requests)
            );
            for figures in all {
                figures.requests = outcome.figures.requests;
                figures.writes = outcome.figures.writes;
            }
        }
    }
    Ok(Row { workload, pods, runs })
}

/// The version of Karpenter that `tools/karpenter` names.
fn karpenter_version(root: &Path) -> String {
    let go_mod = std::fs::read_to_string(root.join("tools/karpenter/go.mod")).unwrap_or_default();
    let found = go_mod
        .lines()
        .find_map(|line| line.trim().trim_start_matches("require ").strip_prefix("sigs.k8s.io/karpenter "));
    found.unwrap_or("of unknown version").trim().to_owned()
}
