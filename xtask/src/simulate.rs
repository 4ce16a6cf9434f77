//! `cargo xtask simulate`: all points of all scenarios, and many seeds, with the program as it is released.
//!
//! CI plays some of the points and three hundred seeds; this is for a night.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;

/// Options of the chore.
#[derive(ClapArgs)]
pub struct Args {
    /// How many seeds to live
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many hours each is lived
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// Leave out the scenarios
    #[arg(long)]
    no_scenarios: bool,
}

/// Runs both; the program says what failed, and how to see it again.
pub fn run(args: &Args, root: &Path) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    if !args.no_scenarios {
        let arguments = ["--scenario", "crates/joiner/tests/cluster", "--points"].map(str::to_owned);
        simulate(root, &arguments, "scenarios", &mut failed)?;
    }
    if args.seeds > 0 {
        let arguments = [
            "--seed",
            &args.from.to_string(),
            "--seeds",
            &args.seeds.to_string(),
            "--hours",
            &args.hours.to_string(),
        ]
        .map(str::to_owned);
        simulate(root, &arguments, "seeds", &mut failed)?;
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("{} failed", failed.join(" and ")),
    }
}

fn simulate<'a>(
    root: &Path,
    arguments: &[String],
    what: &'a str,
    failed: &mut Vec<&'a str>,
) -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--release", "--package", "joiner", "--", "simulate"])
        .args(arguments)
        .current_dir(root)
        .status()
        .context("`cargo` cannot be started")?;
    if !status.success() {
        failed.push(what);
    }
    Ok(())
}
