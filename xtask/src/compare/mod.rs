//! Joiner and the original on the same inputs, side by side.
//!
//! The original's scheduler is built from `bench/peer` (Go), joiner in release mode. Both get the same files and run in
//! turn, `--runs` times, medians are shown. Time is the time to decide, without reading files; joiner runs on one thread,
//! the original with the five workers of its own benchmark. Memory is the high-water mark of each process.

mod cost;
mod cost_report;
mod judge;
mod measure;
mod one_more_type;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::inputs::{self, Recipe};
use measure::Measure;

/// Arguments of `cargo xtask compare`.
#[derive(clap::Args)]
pub struct Args {
    /// Compare what plans cost, on scenarios of six families, in place of the recorded inputs
    #[arg(long, conflicts_with_all = ["runs", "json", "markdown", "write_readme", "assert", "peer_only", "joiner_only"])]
    cost: bool,
    /// With --cost: write the report to docs/reference/cost-comparison.md
    #[arg(long, requires = "cost", conflicts_with_all = ["quick", "only"])]
    write: bool,
    /// Only the small inputs, once each: two minutes at most (with --cost under a minute)
    #[arg(long)]
    quick: bool,
    /// Only inputs whose name contains this text (may be repeated)
    #[arg(long)]
    only: Vec<String>,
    /// Runs per program and input; medians are shown [default: 3, with --quick 1]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Write all figures as JSON to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the table as Markdown to this file
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Put the table between the compare markers of README.md
    #[arg(long)]
    write_readme: bool,
    /// Run the original alone
    #[arg(long, conflicts_with = "joiner_only")]
    peer_only: bool,
    /// Run joiner alone
    #[arg(long)]
    joiner_only: bool,
    /// Take the binaries that are there
    #[arg(long)]
    no_build: bool,
    /// Take this joiner instead of building one
    #[arg(long, value_name = "FILE")]
    joiner: Option<PathBuf>,
    /// Fail if joiner is slower, dearer (by more than half a percent), leaves more pods out or, with --check, breaks a rule
    #[arg(long)]
    assert: bool,
    /// Hold the plans of both programs against every hard rule (the first run of each); with --cost, which does so anyway, fail
    /// if joiner breaks one or is dearer than an original's plan that breaks none
    #[arg(long)]
    check: bool,
    /// Directory of the inputs [default: bench/inputs in the repository]; missing ones are generated
    #[arg(long)]
    inputs: Option<PathBuf>,
}

/// What was measured on one input.
#[derive(Serialize)]
pub struct Row {
    /// Name of the input.
    pub input: &'static str,
    /// Pending pods.
    pub pods: u64,
    /// Instance types.
    pub types: u64,
    /// Nodes that were there before.
    pub existing_nodes: u64,
    /// The original's medians.
    pub original: Option<Measure>,
    /// Joiner's medians with the original's packing.
    pub joiner: Option<Measure>,
    /// Joiner's medians with its own packing.
    pub cheapest: Option<Measure>,
    /// The original's runs one by one.
    pub original_runs: Vec<Measure>,
    /// Joiner's runs with the original's packing one by one.
    pub joiner_runs: Vec<Measure>,
    /// Joiner's runs with its own packing one by one.
    pub cheapest_runs: Vec<Measure>,
}

/// Runs `cargo xtask compare`.
pub fn run(args: &Args, root: &Path) -> Result<()> {
    if args.cost {
        return cost::run(args, root);
    }
    let chosen: Vec<&Recipe> = inputs::RECIPES.iter().filter(|recipe| wanted(recipe, args)).collect();
    if chosen.is_empty() {
        bail!("no input's name contains `{}`", args.only.join("` or `"));
    }
    let directory = args.inputs.clone().unwrap_or_else(|| inputs::default_directory(root));
    write_missing(&chosen, &directory, root)?;
    let (peer, joiner) = programs(args, root)?;
    let runs = args.runs.unwrap_or(if args.quick { 1 } else { 3 });
    let mut rows = Vec::new();
    for recipe in chosen {
        let dir = directory.join(recipe.name);
        eprintln!("{}: {}", recipe.name, recipe.about);
        let (mut original, mut ours, mut cheapest) = (Vec::new(), Vec::new(), Vec::new());
        for run in 1..=runs {
            let judged = args.check && run == 1;
            if recipe.peer && !args.joiner_only {
                let (mut measure, plan) = measure::run_peer(&peer, &dir, judged)?;
                eprintln!("  run {run}  original {}", measure.summary());
                measure.violations = judged.then(|| judge::violations(&dir, &plan)).transpose()?;
                original.push(measure);
            }
            if !args.peer_only {
                for (packing, runs) in [("upstream", &mut ours), ("cheapest", &mut cheapest)] {
                    let (mut measure, plan) = measure::run_joiner(&joiner, &dir, &["--packing", packing])?;
                    eprintln!("  run {run}  {packing} {}", measure.summary());
                    measure.violations = judged.then(|| judge::violations(&dir, &plan)).transpose()?;
                    runs.push(measure);
                }
            }
        }
        rows.push(Row {
            input: recipe.name,
            pods: measure::pending_pods(&dir, original.first(), ours.first())?,
            types: measure::instance_types(&dir)?,
            existing_nodes: original.first().map_or(0, |measure| measure.existing_nodes),
            original: measure::median(&original),
            joiner: measure::median(&ours),
            cheapest: measure::median(&cheapest),
            original_runs: original,
            joiner_runs: ours,
            cheapest_runs: cheapest,
        });
    }

    let caption = caption(runs, root);
    print!("{}", table::plain(&rows));
    println!("\n{caption}");
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({"caption": caption, "rows": rows}))?;
        fs::write(path, text + "\n").with_context(|| format!("writing `{}`", path.display()))?;
    }
    let markdown = format!("{}\n{caption}\n", table::markdown(&rows));
    if let Some(path) = &args.markdown {
        fs::write(path, &markdown).with_context(|| format!("writing `{}`", path.display()))?;
    }
    if args.write_readme {
        let path = root.join("README.md");
        let readme = fs::read_to_string(&path).with_context(|| format!("reading `{}`", path.display()))?;
        fs::write(&path, table::put_between_markers(&readme, &markdown)?)?;
    }
    let broken: Vec<String> = rows.iter().flat_map(table::broken_rules).collect();
    if !broken.is_empty() {
        bail!("joiner's plans break hard rules:\n  {}", broken.join("\n  "));
    }
    if args.assert {
        let complaints: Vec<String> = rows.iter().flat_map(table::complaints).collect();
        if !complaints.is_empty() {
            bail!("joiner is worse than the original:\n  {}", complaints.join("\n  "));
        }
    }
    Ok(())
}

fn wanted(recipe: &Recipe, args: &Args) -> bool {
    let named = args.only.is_empty() || args.only.iter().any(|part| recipe.name.contains(part.as_str()));
    named && (!args.quick || recipe.quick) && (recipe.peer || !args.peer_only)
}

fn write_missing(chosen: &[&Recipe], directory: &Path, root: &Path) -> Result<()> {
    let missing: Vec<&&Recipe> =
        chosen.iter().filter(|recipe| !directory.join(recipe.name).join("manifests.json").exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let sources = inputs::Sources::read(root)?;
    for recipe in missing {
        eprintln!("writing input {}", recipe.name);
        inputs::write_input(recipe, &sources, inputs::DEFAULT_SEED, directory)?;
    }
    Ok(())
}

/// The original and joiner, built unless told otherwise.
fn programs(args: &Args, root: &Path) -> Result<(PathBuf, PathBuf)> {
    let peer = root.join("target").join("peer");
    let built = root.join("target").join("release").join("joiner");
    let joiner = args.joiner.clone().unwrap_or(built);
    if !args.no_build {
        build(args, root, &peer)?;
    }
    Ok((peer, joiner))
}

fn build(args: &Args, root: &Path, peer: &Path) -> Result<()> {
    if !args.joiner_only {
        eprintln!("building the original's scheduler (minutes from empty caches)");
        let mut go = Command::new("go");
        go.args(["build", "-ldflags", "-s -w", "-o"])
            .arg(peer)
            .arg(".")
            .current_dir(root.join("bench").join("peer"));
        succeed(&mut go)?;
    }
    if !args.peer_only && args.joiner.is_none() {
        eprintln!("building joiner");
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--package", "joiner"]).current_dir(root);
        succeed(&mut cargo)?;
    }
    Ok(())
}

fn succeed(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("starting `{program}`: is it installed?"))?;
    if !status.success() {
        bail!("`{program}` ended with {status}");
    }
    Ok(())
}

/// What the figures are: versions, machine, rules of measurement.
fn caption(runs: u32, root: &Path) -> String {
    let version = original_version(root);
    let model = processor();
    format!(
        "Original: Karpenter {version}, five workers as in its own benchmark, its one-minute limit lifted; joiner: one thread. \
         Time to decide without reading files; memory is the peak of the whole process; median of {} on {model}.",
        if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") }
    )
}

/// The version of the original that `bench/peer` is built with.
fn original_version(root: &Path) -> String {
    let go_mod = fs::read_to_string(root.join("bench").join("peer").join("go.mod")).unwrap_or_default();
    go_mod
        .lines()
        .find_map(|line| line.trim().strip_prefix("sigs.k8s.io/karpenter "))
        .unwrap_or("of unknown version")
        .to_owned()
}

/// Cores and model of this machine.
pub fn processor() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(':')))
        .map_or("unknown CPU", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {model}")
}
