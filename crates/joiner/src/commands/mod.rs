//! One module per subcommand.

pub mod catalogues;
pub mod convert;
pub mod crds;
pub mod doctor;
pub mod instance_types;
pub mod lint;
pub mod manifests;
pub mod meta;
pub mod plan;
pub mod run;
pub mod simulate;
pub mod snapshot;
pub mod up;
pub mod what_if;

use crate::Streams;
use crate::cli::{Cli, Color, Command};

/// Runs a parsed command line; the result is the exit code.
pub fn run(cli: Cli, streams: &mut Streams) -> anyhow::Result<u8> {
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    match cli.command {
        Command::Plan(arguments) => plan::run(&arguments, streams),
        Command::WhatIf(arguments) => what_if::run(&arguments, streams),
        Command::Lint(arguments) => lint::run(&arguments, streams),
        Command::Convert(arguments) => convert::run(&arguments, streams),
        Command::Crds(arguments) => crds::run(&arguments, streams),
        Command::Doctor(arguments) => doctor::run(&arguments, streams),
        Command::Manifests(arguments) => manifests::run(&arguments, streams),
        Command::InstanceTypes(arguments) => instance_types::run(&arguments.command, streams),
        Command::Simulate(arguments) => simulate::run(&arguments, streams),
        Command::Snapshot(arguments) => snapshot::run(&arguments, streams),
        Command::Run(arguments) => run::run(&arguments, streams),
        Command::Up(arguments) => up::run(&arguments, streams),
        Command::Completion(arguments) => meta::completion(&arguments, streams),
        Command::Version(arguments) => meta::version(&arguments, streams),
    }
}
