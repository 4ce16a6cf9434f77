//! Chores of the repository, run as `cargo xtask NAME`.
//!
//! * `aws-catalogue` packs machine types, regions and prices of AWS.
//! * `bench-inputs` writes the recorded inputs of the comparison, the same bytes for the same seed.
//! * `charts` writes READMEs and schemas of the charts from the comments of their values.
//! * `compare` runs joiner and the original scheduler on those inputs and prints one table.
//! * `compare-live` runs joiner and Karpenter on a real control plane and prints one table.
//! * `control-plane` builds a real Kubernetes control plane, starts it on this machine and ends it.
//! * `helm` builds helm once, and runs it.
//! * `live-check` runs the tests against a real control plane, with more of each than CI has time for.
//! * `openapi-facts` packs the facts about built-in fields for the embedded API server.
//! * `release` checks what a release is made of and writes its bill of materials.
//! * `scheduler-check` holds the simulated cluster's scheduler against kube-scheduler on many generated clusters.
//! * `simulate` plays every scenario at every point of disturbance, and many seeds.
//! * `tidy` checks the rules of the code base that the compiler cannot check.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool for developers")]

mod aws_catalogue;
mod charts;
mod compare;
mod compare_live;
mod control_plane;
mod helm;
mod inputs;
mod live_check;
mod openapi_facts;
mod release;
mod scheduler_check;
mod simulate;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chores of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Pack machine types, regions and prices of AWS, from the data of `joiner-provider-aws`
    AwsCatalogue(aws_catalogue::Args),
    /// Write the inputs of the comparison with the original
    BenchInputs(inputs::Args),
    /// Write READMEs and schemas of the charts from the comments of their values
    Charts(charts::Args),
    /// Run joiner and the original on the same inputs and print one table
    Compare(compare::Args),
    /// Run joiner and Karpenter on a real control plane and print one table; needs Go
    CompareLive(compare_live::Args),
    /// Build, start and end a real Kubernetes control plane for tests
    ControlPlane(control_plane::Args),
    /// Build helm, once, and run it with these arguments
    Helm(helm::Args),
    /// Run the tests against a real control plane with more rounds than CI has time for
    LiveCheck(live_check::Args),
    /// Pack facts about the fields of built-in kinds, from the published OpenAPI of Kubernetes
    OpenapiFacts(openapi_facts::Args),
    /// Check what a release is made of, and write its bill of materials
    Release(release::Args),
    /// Compare the simulated cluster's scheduler with kube-scheduler on generated clusters
    SchedulerCheck(scheduler_check::Args),
    /// Play every scenario with every crash and every lost answer, and clusters drawn from many seeds
    Simulate(simulate::Args),
    /// Check the rules of the code base that the compiler cannot check
    Tidy,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::AwsCatalogue(args) => aws_catalogue::run(&args, &root()),
        Chore::BenchInputs(args) => inputs::run(&args, &root()),
        Chore::Charts(args) => charts::run(&args, &root()),
        Chore::Compare(args) => compare::run(&args, &root()),
        Chore::CompareLive(args) => compare_live::run(&args, &root()),
        Chore::ControlPlane(args) => control_plane::run(&args),
        Chore::Helm(args) => helm::run(&args),
        Chore::LiveCheck(args) => live_check::run(&args, &root()),
        Chore::OpenapiFacts(args) => openapi_facts::run(&args, &root()),
        Chore::Release(args) => release::run(&args, &root()),
        Chore::SchedulerCheck(args) => scheduler_check::run(&args, &root()),
        Chore::Simulate(args) => simulate::run(&args, &root()),
        Chore::Tidy => tidy::run(&root()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The repository this binary was built from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
