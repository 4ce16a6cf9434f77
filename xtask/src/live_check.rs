//! `cargo xtask live-check`: what CI has too little time for on a real control plane: leaders killed more often, and all scenario files of the simulated cluster.
//!
//! It runs the tests that CI runs, with more of each.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;

/// Options of the chore.
#[derive(ClapArgs)]
pub struct Args {
    /// How often the leader is killed in the middle of a purchase, and how often in the middle of a drain
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Only tests whose name contains this text
    #[arg(long, default_value = "")]
    only: String,
}

/// Runs the tests.
pub fn run(args: &Args, root: &Path) -> anyhow::Result<()> {
    let status = Command::new("cargo")
        .args(["test", "--package", "joiner", "--test", "real", "--", "--nocapture"])
        .args([&args.only].iter().filter(|text| !text.is_empty()))
        .env("JOINER_KILLS", args.kills.to_string())
        .env("JOINER_CLUSTER_FILES", "all")
        .env("CI", "true")
        .env_remove("JOINER_TEST_KUBECONFIG")
        .current_dir(root)
        .status()
        .context("`cargo` cannot be started")?;
    if !status.success() {
        bail!("joiner does something else on a real control plane; the tests above say what");
    }
    Ok(())
}
