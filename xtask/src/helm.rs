//! `cargo xtask helm`: helm, built once from its sources into the cache of tools, for whoever has none.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args as ClapArgs;
use joiner_testbed::build;

/// What helm is told.
#[derive(ClapArgs)]
pub struct Args {
    /// As for helm itself; without any, where it is
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds it if need be, and runs it.
pub fn run(args: &Args) -> Result<()> {
    let helm = build::helm(&mut |line| eprintln!("{line}"))?;
    if args.arguments.is_empty() {
        println!("{}", helm.display());
        return Ok(());
    }
    let status = Command::new(&helm)
        .args(&args.arguments)
        .status()
        .with_context(|| format!("cannot start `{}`", helm.display()))?;
    match status.success() {
        true => Ok(()),
        false => bail!("helm ended with {status}"),
    }
}
