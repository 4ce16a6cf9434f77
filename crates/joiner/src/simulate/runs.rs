//! Runs of scenarios: undisturbed, with a crash after a call, with a lost answer, with weather.

use std::time::Duration;

use joiner_provider::Clock as _;
use rayon::prelude::*;

use crate::simulate::checks::Violation;
use crate::simulate::outside::Trouble;
use crate::simulate::play::{Player, Process};
use crate::simulate::rest;
use crate::simulate::scenario::Scenario;
use crate::simulate::stage::Stage;

/// After the end has come it must stay for so long.
const SETTLED: Duration = Duration::from_secs(60);
/// At rest nothing is called for so long.
const QUIET: Duration = Duration::from_secs(60);
/// A crash or a lost answer may cost so much: calls have time limits, and what is doubtful is asked for again.
const PATIENCE: Duration = Duration::from_secs(8 * 60);

/// What befalls a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Nothing.
    Undisturbed,
    /// The process dies after this call.
    Crash(usize),
    /// The answer to this call is lost.
    LostReply(usize),
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Why it did not end as it should, if so.
    pub failure: Option<String>,
    /// Invariants that did not hold.
    pub violations: Vec<Violation>,
    /// What the cluster came to.
    pub rest: String,
    /// Calls that count.
    pub calls: usize,
    /// Claims that were made.
    pub claims_made: usize,
    /// Which call met the trouble.
    pub met: Option<String>,
}

impl Outcome {
    /// Whether all was well.
    pub fn is_fine(&self) -> bool {
        self.failure.is_none() && self.violations.is_empty()
    }

    /// What was wrong, one line each.
    pub fn complaints(&self) -> Vec<String> {
        let violations = self
            .violations
            .iter()
            .map(|found| format!("{} at {}: {}", found.invariant, found.at, found.text));
        self.failure.iter().cloned().chain(violations).collect()
    }
}

/// Lives a runtime of virtual time until the future is done.
///
/// # Errors
/// The runtime cannot be made, or the future fails.
pub fn in_virtual_time<T>(work: impl AsyncFnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    builder.build()?.block_on(work())
}

/// Plays a scenario once.
///
/// # Errors
/// The cluster cannot be set up, or the settings make no sense.
pub fn play(scenario: &Scenario, seed: u64, point: Point) -> anyhow::Result<Outcome> {
    let trouble = match point {
        Point::Undisturbed => Trouble::Nothing,
        Point::Crash(call) => Trouble::CrashAfter(call),
        Point::LostReply(call) => Trouble::LoseReply(call),
    };
    let settings = crate::commands::run::settings_of(&scenario.flags(), seed)?;
    in_virtual_time(async || {
        let (stage, mut world) = Stage::new(settings, seed, trouble)?;
        let patience = if point == Point::Undisturbed { Duration::ZERO } else { PATIENCE };
        let player = Player {
            hands: stage.hands.clone(),
            clock: stage_clock(&stage),
            process: stage.clone(),
            patience,
        };
        let script = async {
            let played = async {
                player.play(scenario).await?;
                stage.clock.sleep(SETTLED).await;
                // What holds must go on to hold.
                player.wait(&scenario.expect, Duration::ZERO).await
            };
            let failure = played.await.err().map(|error| crate::report::chain(&error));
            let (calls, met) = stage.calls();
            if failure.is_none() && point == Point::Undisturbed {
                rests(&stage).await;
            }
            stage.referee.look();
            Outcome {
                failure,
                violations: stage.referee.violations(),
                rest: rest::summary(&stage.referee.cluster()),
                calls,
                claims_made: stage.referee.claims_made(),
                met,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = script => outcome,
            () = world.run() => unreachable!("a world lives until it is dropped"),
            () = stage.tend() => unreachable!("it tends for ever"),
        };
        stage.kill().await?;
        Ok(outcome)
    })
}

fn stage_clock(stage: &Stage) -> std::sync::Arc<dyn joiner_provider::Clock> {
    std::sync::Arc::new(stage.clock.clone())
}

/// C1: nothing more is called for. C3: a new process finds nothing to do either, and everything stays as it is.
pub async fn rests(stage: &Stage) {
    let quiet = async |invariant: &'static str, why: &str| {
        let since = stage.clock.now();
        stage.clock.sleep(QUIET).await;
        // What a new process writes down of what it sees is no deed.
        let counts = |call: &str| invariant == "C1" || !call.contains("/status");
        if let Some((at, call)) = stage.referee.last_call()
            && at > since
            && counts(&call)
        {
            stage.referee.found(invariant, format!("{why}, and {call} is sent at {at}"));
        }
    };
    quiet("C1", "nothing has happened for a while").await;
    let before = rest::summary(&stage.referee.cluster());
    // Both cannot fail in a stage whose first process could be started.
    let _ = stage.kill().await;
    let _ = stage.start().await;
    stage.clock.sleep(Duration::from_secs(30)).await;
    quiet("C3", "a new process has had time to look at everything").await;
    let after = rest::summary(&stage.referee.cluster());
    if before != after {
        stage
            .referee
            .found("C3", format!("after a restart the cluster is another: {}", difference(&before, &after)));
    }
}

/// The lines in which two summaries differ.
pub fn difference(one: &str, other: &str) -> String {
    let only = |one: &str, other: &str, sign: char| -> Vec<String> {
        let there: Vec<&str> = other.lines().collect();
        one.lines().filter(|line| !there.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    let mut lines = only(one, other, '-');
    lines.extend(only(other, one, '+'));
    lines.join("; ")
}

/// What is wrong with a disturbed run, held against the undisturbed one. C2 and C4: the same state, and no more than one machine more on the way there.
pub fn compare(undisturbed: &Outcome, disturbed: &Outcome) -> Vec<String> {
    let mut complaints = disturbed.complaints();
    if undisturbed.rest != disturbed.rest {
        complaints.push(format!(
            "C4: it comes to another state: {}",
            difference(&undisturbed.rest, &disturbed.rest)
        ));
    }
    if disturbed.claims_made > undisturbed.claims_made + 1 {
        complaints.push(format!(
            "C2: {} claims are made, {} without the fault",
            disturbed.claims_made, undisturbed.claims_made
        ));
    }
    complaints
}

/// Points of a scenario at which something goes wrong: after each call a crash, and for each call a lost answer; with a stride only every so many.
pub fn points(calls: usize, stride: usize) -> Vec<Point> {
    let numbers = || (1..=calls).step_by(stride.max(1));
    // Between two strides the other half of the calls meets the other trouble.
    let shifted = (1 + stride / 2..=calls).step_by(stride.max(1));
    numbers().map(Point::Crash).chain(shifted.map(Point::LostReply)).collect()
}

/// Plays a scenario undisturbed and then at all these points. What was wrong, with the command that plays it again, and how many runs there were.
///
/// # Errors
/// The cluster cannot be set up.
pub fn sweep(scenario: &Scenario, seed: u64, stride: usize) -> anyhow::Result<(Vec<String>, usize)> {
    let undisturbed = play(scenario, seed, Point::Undisturbed)?;
    if !undisturbed.is_fine() {
        return Ok((told(scenario, seed, Point::Undisturbed, &undisturbed.complaints()), 1));
    }
    if scenario.only_undisturbed.is_some() {
        return Ok((Vec::new(), 1));
    }
    let points = points(undisturbed.calls, stride);
    let found: Vec<Vec<String>> = points
        .par_iter()
        .map(|point| {
            let disturbed = play(scenario, seed, *point)?;
            let mut complaints = compare(&undisturbed, &disturbed);
            if !complaints.is_empty() {
                complaints.extend(disturbed.met.map(|met| format!("the call was {met}")));
            }
            Ok(told(scenario, seed, *point, &complaints))
        })
        .collect::<anyhow::Result<_>>()?;
    Ok((found.concat(), points.len() + 1))
}

/// Complaints about a run, and how to see it again.
pub fn told(scenario: &Scenario, seed: u64, point: Point, complaints: &[String]) -> Vec<String> {
    if complaints.is_empty() {
        return Vec::new();
    }
    let at = match point {
        Point::Undisturbed => String::new(),
        Point::Crash(call) => format!(" --crash-after {call}"),
        Point::LostReply(call) => format!(" --lose-reply {call}"),
    };
    let seed = if seed == 0 { String::new() } else { format!(" --seed {seed}") };
    let replay = format!("joiner simulate --scenario {}{seed}{at}", scenario.file);
    vec![format!("{}: {}\n  replay: {replay}", scenario.name, complaints.join("\n  "))]
}
