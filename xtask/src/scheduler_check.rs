//! `cargo xtask scheduler-check`: the simulated cluster's scheduler against kube-scheduler on many generated clusters.
//!
//! It runs the test that compares the two, with more seeds than CI has time for.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;

/// Options of the chore.
#[derive(ClapArgs)]
pub struct Args {
    /// How many clusters to generate
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// The seed of the first
    #[arg(long, default_value_t = 0)]
    from: u64,
}

/// Runs the comparison.
pub fn run(args: &Args, root: &Path) -> anyhow::Result<()> {
    let seeds = format!("{}..{}", args.from, args.from.saturating_add(args.cases));
    let status = Command::new("cargo")
        .args([
            "test",
            "-p",
            "joiner-sim",
            "--test",
            "scheduler",
            "generated_clusters_agree",
            "--",
            "--nocapture",
        ])
        .env("JOINER_SEEDS", &seeds)
        .env("CI", "true")
        .current_dir(root)
        .status()
        .context("`cargo` cannot be started")?;
    if !status.success() {
        bail!(
            "the schedulers differ on seeds {seeds}; run one again with `JOINER_SEEDS=N cargo test -p joiner-sim --test scheduler generated`"
        );
    }
    println!("both schedulers agree on seeds {seeds}");
    Ok(())
}
