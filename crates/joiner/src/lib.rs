//! # The command line
//!
//! The outermost shell: it reads arguments, files and the terminal, and hands values to the crates that think. `main` is a
//! few lines; everything is here so that tests can run whole commands in process.
//!
//! * [`cli`]: flags and subcommands, as `clap` derives.
//! * [`load`]: manifests from files, directories and standard input, streamed document by document; every complaint names file,
//!   line, object, field, value and what to do.
//! * [`snapshot`]: a cluster into a file, without what nobody else should see; [`import`]: files into a cluster.
//! * [`commands`]: one module per subcommand; each takes its arguments and a pair of writers, and returns an exit code.
//! * [`autoscaler`]: joiner's controllers put together, the same for `run` and `up`; [`connection`]: the way to a cluster; [`kubelets`]: kubelets of KWOK nodes,
//!   played on any cluster.
//! * [`autoscalers`]: how others are recognised.
//! * [`chart`]: the charts of `charts/`, rendered without helm.
//! * [`show`]: tables, bars, colours.
//! * [`simulate`]: scenarios and seeds, played under faults.
//! * [`view`]: a running cluster on the screen.
//!
//! ```text
//! arguments -> cli -> commands::plan -> load (files) -> joiner-state (snapshot) -> joiner-core (plan) -> show (table, JSON)
//! ```
//!
//! Exit codes: 0 fine, 1 error, 2 bad usage or bad input, 3 findings (pods refused). Standard output is data, standard error is
//! notes. Rejected: a framework of command objects (a function per command is enough), writing to the process's
//! streams from inside commands (tests could not see it).

pub mod autoscaler;
pub mod autoscalers;
pub mod chart;
pub mod cli;
pub mod commands;
pub mod connection;
pub mod field;
pub mod import;
pub mod kubelets;
pub mod load;
pub mod report;
pub mod show;
pub mod simulate;
pub mod snapshot;
pub mod view;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// Where a command writes: data and notes, and how.
pub struct Streams<'a> {
    /// Data.
    pub out: &'a mut dyn Write,
    /// Notes and errors.
    pub err: &'a mut dyn Write,
    /// Columns of the terminal, or a sensible width.
    pub width: usize,
    /// Bars and signs beyond ASCII may be used.
    pub unicode: bool,
}

/// Everything went well.
pub const FINE: u8 = 0;
/// Something failed that is not the input's fault.
pub const FAILED: u8 = 1;
/// Bad usage or bad input.
pub const BAD_INPUT: u8 = 2;
/// It ran, and found something: pods refused, differences.
pub const FINDINGS: u8 = 3;

/// Runs the process: arguments and streams are the real ones.
pub fn run_process() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Streams choose when they are opened, and the complaint about a wrong flag goes through them too: ask before parsing.
    color_asked(&arguments).write_global();
    let mut out = anstream::AutoStream::auto(std::io::stdout()).lock();
    let mut err = anstream::AutoStream::auto(std::io::stderr()).lock();
    let mut streams =
        Streams { out: &mut out, err: &mut err, width: show::terminal_width(), unicode: show::unicode() };
    ExitCode::from(run(arguments, &mut streams))
}

/// The last `--color` of a command line; `auto` then follows NO_COLOR, CLICOLOR and CLICOLOR_FORCE.
fn color_asked(arguments: &[OsString]) -> anstream::ColorChoice {
    let mut choice = anstream::ColorChoice::Auto;
    let mut arguments = arguments.iter().skip(1).map(|argument| argument.to_str().unwrap_or_default());
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix("--color") {
            _ if argument == "--" => break,
            Some("") => arguments.next(),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        choice = match value {
            Some("always") => anstream::ColorChoice::Always,
            Some("never") => anstream::ColorChoice::Never,
            Some("auto") => anstream::ColorChoice::Auto,
            _ => choice,
        };
    }
    choice
}

/// Runs one command line.
pub fn run(arguments: impl IntoIterator<Item = OsString>, streams: &mut Streams) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.len() <= 1 {
        let _ = streams.out.write_all(cli::WELCOME.as_bytes());
        return FINE;
    }
    let cli = match cli::Cli::try_parse_from(cli::called_as(arguments)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, streams),
    };
    match commands::run(cli, streams) {
        Ok(code) => code,
        Err(error) => {
            if let Some(pipe) = error.downcast_ref::<std::io::Error>()
                && pipe.kind() == std::io::ErrorKind::BrokenPipe
            {
                return FINE;
            }
            let input = error.downcast_ref::<report::InputError>().is_some();
            let _ = writeln!(streams.err, "error: {}", report::chain(&error));
            if input { BAD_INPUT } else { FAILED }
        }
    }
}

fn usage(error: &clap::Error, streams: &mut Streams) -> u8 {
    let text = error.render();
    if error.use_stderr() {
        let _ = write!(streams.err, "{}", text.ansi());
        BAD_INPUT
    } else {
        let _ = write!(streams.out, "{}", text.ansi());
        FINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_known_before_parsing() {
        use anstream::ColorChoice::{Always, Auto, Never};
        for (line, choice) in [
            ("joiner version", Auto),
            ("joiner --color always version", Always),
            ("joiner version --color=never", Never),
            ("joiner --color=always version --color never", Never),
            ("joiner --color purple version", Auto),
            ("joiner --colors=always", Auto),
            ("joiner plan -- --color=always", Auto),
            ("joiner --color", Auto),
        ] {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(color_asked(&arguments), choice, "{line}");
        }
    }
}
