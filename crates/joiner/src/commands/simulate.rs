//! `simulate`: the whole product in a simulated cluster under faults, from a seed or from a scenario; what breaks an invariant is a finding.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rayon::prelude::*;
use serde::Serialize;

use crate::cli::Format;
use crate::report::InputError;
use crate::show::plural;
use crate::simulate::drawn::Drawn;
use crate::simulate::runs::{self, Outcome, Point};
use crate::simulate::scenario::Scenario;
use crate::{FINDINGS, FINE, Streams, show};

/// The most seeds of one call.
const MOST_SEEDS: u64 = 1_000_000;

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --scenario a cluster is drawn from the seed: pools, services, what people do to them, and faults of the API server, the cloud, nodes, clocks and of joiner's own
process. Then the faults end, and the cluster has to come to rest. The same seed gives the same run, byte for byte.

Examples:
  joiner simulate --seed 7                            an hour of a cluster
  joiner simulate --seed 7 --hours 24                 a day of it
  joiner simulate --seeds 300                         seeds 0 to 299
  joiner simulate --scenario drain.yaml               a scenario, undisturbed
  joiner simulate --scenario drain.yaml --crash-after 12      joiner's process dies after its twelfth call
  joiner simulate --scenario drain.yaml --points      a crash after every call, and every answer lost

Exit codes: 0 everything held, 3 an invariant did not hold or a scenario came to another end, 2 bad input.")]
pub struct SimulateArgs {
    /// What is drawn from, or, with a scenario, where names and uids come from.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// So many seeds, one after the other, from --seed on.
    #[arg(long, value_name = "N", conflicts_with = "scenario", value_parser = clap::value_parser!(u64).range(1..=MOST_SEEDS))]
    pub seeds: Option<u64>,
    /// How many hours are lived; at least three quarters of one.
    #[arg(long, value_name = "H", default_value_t = 1.0, conflicts_with = "scenario", value_parser = hours)]
    pub hours: f64,
    /// A scenario, or a folder of them; repeatable.
    #[arg(long, value_name = "FILE|DIR")]
    pub scenario: Vec<PathBuf>,
    /// Joiner's process dies after so many calls that change something, and another begins.
    #[arg(long, value_name = "N", requires = "scenario", value_parser = count)]
    pub crash_after: Option<usize>,
    /// The answer to this call is lost.
    #[arg(long, value_name = "N", requires = "scenario", conflicts_with = "crash_after", value_parser = count)]
    pub lose_reply: Option<usize>,
    /// Every point of every scenario: a crash after each call, and each answer lost.
    #[arg(long, requires = "scenario", conflicts_with_all = ["crash_after", "lose_reply"])]
    pub points: bool,
    /// Only every so many of the points.
    #[arg(long, value_name = "N", requires = "points", default_value_t = 1, value_parser = count)]
    pub stride: usize,
    /// Output format; a few lines of text if not given.
    #[arg(short, long, value_enum, ignore_case = true)]
    pub output: Option<Format>,
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if (0.75..=8760.0).contains(&hours) => Ok(hours),
        _ => Err("give a number of hours from 0.75 to 8760".to_owned()),
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("give a whole number above 0".to_owned()),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    fine: bool,
    runs: Vec<Run>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    name: String,
    fine: bool,
    /// What was lived, in words.
    told: String,
    calls: usize,
    claims_made: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    rest: String,
}

/// Runs.
pub fn run(arguments: &SimulateArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let begun = Instant::now();
    let runs = match arguments.scenario.as_slice() {
        [] => seeds(arguments, streams)?,
        paths => scenarios(arguments, paths, streams)?,
    };
    let report = Report { fine: runs.iter().all(|run| run.fine), runs };
    match arguments.output {
        Some(format) => streams.out.write_all(show::value(&report, format)?.as_bytes())?,
        None => print(&report, streams)?,
    }
    writeln!(streams.err, "{} in {:.1} s", plural(report.runs.len(), "run"), begun.elapsed().as_secs_f64())?;
    Ok(if report.fine { FINE } else { FINDINGS })
}

fn print(report: &Report, streams: &mut Streams) -> std::io::Result<()> {
    let (fine, failed): (Vec<&Run>, Vec<&Run>) = report.runs.iter().partition(|run| run.fine);
    match failed.len() {
        0 => writeln!(streams.out, "fine: {}", plural(fine.len(), "run"))?,
        count => writeln!(streams.out, "{} of {} failed", count, plural(report.runs.len(), "run"))?,
    }
    for run in &failed {
        writeln!(streams.out, "\n{}: {}", run.name, run.told)?;
        for finding in &run.findings {
            writeln!(streams.out, "  {finding}")?;
        }
        if let Some(replay) = &run.replay {
            writeln!(streams.out, "  replay: {replay}")?;
        }
    }
    if let [run] = report.runs.as_slice() {
        if run.fine {
            writeln!(streams.out, "{}: {}", run.name, run.told)?;
        }
        if !run.rest.is_empty() {
            writeln!(streams.out, "\nat rest:\n  {}", run.rest.replace('\n', "\n  "))?;
        }
    }
    Ok(())
}

fn seeds(arguments: &SimulateArgs, streams: &mut Streams) -> anyhow::Result<Vec<Run>> {
    let last = arguments.seed.saturating_add(arguments.seeds.unwrap_or(1));
    let all: Vec<u64> = (arguments.seed..last).collect();
    let mut runs = Vec::new();
    // In portions, so that something is told on the way.
    for portion in all.chunks(50) {
        let lived: Vec<Run> = portion
            .par_iter()
            .map(|seed| {
                let drawn = Drawn::new(*seed, arguments.hours);
                let (outcome, met, _) = drawn.live(false)?;
                let told = format!(
                    "{} h lived, {} by others, {} met a fault, {} sent, {} made",
                    arguments.hours,
                    plural(drawn.deeds.len(), "deed"),
                    plural(met, "call"),
                    plural(outcome.calls, "write"),
                    plural(outcome.claims_made, "claim"),
                );
                let replay = format!("joiner simulate --seed {seed} --hours {}", arguments.hours);
                Ok(one(format!("seed {seed}"), told, outcome, replay))
            })
            .collect::<anyhow::Result<_>>()?;
        runs.extend(lived);
        if all.len() > portion.len() {
            let failed = runs.iter().filter(|run| !run.fine).count();
            writeln!(streams.err, "{} of {} seeds, {failed} failed", runs.len(), all.len())?;
        }
    }
    Ok(runs)
}

fn one(name: String, told: String, outcome: Outcome, replay: String) -> Run {
    let findings = outcome.complaints();
    Run {
        name,
        fine: findings.is_empty(),
        told,
        calls: outcome.calls,
        claims_made: outcome.claims_made,
        replay: (!findings.is_empty()).then_some(replay),
        findings,
        rest: outcome.rest,
    }
}

fn scenarios(arguments: &SimulateArgs, paths: &[PathBuf], streams: &mut Streams) -> anyhow::Result<Vec<Run>> {
    let mut all = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => all.extend(Scenario::read_all(path)?),
            false => all.push(Scenario::read(path)?),
        }
    }
    if all.is_empty() {
        let error = InputError::of_file(
            "",
            "there is no scenario in these folders",
            "name files that end in `.yaml`",
        );
        return Err(error.into());
    }
    if arguments.points {
        return sweeps(arguments, &all, streams);
    }
    let point = match (arguments.crash_after, arguments.lose_reply) {
        (Some(call), _) => Point::Crash(call),
        (None, Some(call)) => Point::LostReply(call),
        (None, None) => Point::Undisturbed,
    };
    all.par_iter()
        .map(|scenario| {
            let mut outcome = runs::play(scenario, arguments.seed, point)?;
            let mut told = format!("{}: {}", scenario.rule, scenario.about);
            if point != Point::Undisturbed {
                let undisturbed = runs::play(scenario, arguments.seed, Point::Undisturbed)?;
                let complaints = runs::compare(&undisturbed, &outcome);
                if let Some(met) = outcome.met.take() {
                    told.push_str(&format!(" ({point:?} met {met})"));
                }
                outcome.violations.clear();
                outcome.failure = (!complaints.is_empty()).then(|| complaints.join("\n  "));
            }
            let complaints = outcome.complaints();
            let replay = runs::told(scenario, arguments.seed, point, &complaints).concat();
            let replay = replay.rsplit("replay: ").next().unwrap_or_default().to_owned();
            Ok(one(scenario.name.clone(), told, outcome, replay))
        })
        .collect()
}

fn sweeps(arguments: &SimulateArgs, all: &[Scenario], streams: &mut Streams) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for scenario in all {
        let (findings, count) = runs::sweep(scenario, arguments.seed, arguments.stride)?;
        writeln!(streams.err, "{}: {}, {} failed", scenario.name, plural(count, "run"), findings.len())?;
        runs.push(Run {
            name: scenario.name.clone(),
            fine: findings.is_empty(),
            told: format!("{}, {}", scenario.about, plural(count, "run")),
            calls: 0,
            claims_made: 0,
            findings,
            replay: None,
            rest: String::new(),
        });
    }
    Ok(runs)
}
