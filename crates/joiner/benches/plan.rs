//! Deciding on recorded inputs: `cargo xtask bench-inputs`, then `cargo bench -p joiner`.
//!
//! The snapshot is held, as a controller holds it between events. For the way from files to plans, and for the comparison with the
//! original, see `cargo xtask compare`.

use std::path::PathBuf;

use clap::Parser;
use divan::Bencher;
use joiner::cli::{Cli, Command, PlanArgs};
use joiner::commands::plan::Intake;
use joiner_core::decide::{Options, decide_prepared};
use joiner_core::model::Snapshot;
use joiner_core::pack::prepared::Prepared;

const INPUTS: [&str; 8] = [
    "mix-1k-fake",
    "mix-5k-aws",
    "mix-20k-aws",
    "services-10k",
    "prefs-4k",
    "onemore-1k",
    "onemore-10k",
    "scale-100k-aws848",
];

fn main() {
    if !folder(INPUTS[0]).exists() {
        panic!("no recorded inputs: run `cargo xtask bench-inputs` first");
    }
    divan::main();
}

fn folder(input: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bench/inputs").join(input)
}

fn arguments(input: &str) -> PlanArgs {
    let file = folder(input).join("manifests.json");
    let line = ["joiner", "plan", "--threads", "1", "-f", file.to_str().expect("the path is text")];
    match Cli::try_parse_from(line).expect("the arguments are right").command {
        Command::Plan(arguments) => *arguments,
        other => panic!("not plan: {other:?}"),
    }
}

fn snapshot(input: &str) -> Snapshot {
    let arguments = arguments(input);
    let types = folder(input).join("types.json");
    let catalogue = joiner::commands::instance_types::load(&types).expect("the recorded types are valid");
    let mut intake = Intake::new(&arguments);
    intake
        .read(&joiner::load::sources(&arguments.filename).expect("the input is there"))
        .expect("the input is valid");
    intake.finish_notes();
    intake.lower(catalogue).0.snapshot
}

/// From a held snapshot to a plan.
#[divan::bench(args = INPUTS, sample_count = 10, sample_size = 1)]
fn held_snapshot(bencher: Bencher, input: &str) {
    let snapshot = snapshot(input);
    let (prepared, options) = (Prepared::new(&snapshot), Options::default());
    bencher.bench_local(|| decide_prepared(&snapshot, &prepared, &options));
}
