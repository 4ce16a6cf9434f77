//! Running the planner in process.

use clap::Parser;
use joiner::cli::{Cli, Command, PlanArgs};
use joiner::commands::plan::{Intake, PlanDocument};
use joiner_core::decide::{self, MinValuesPolicy, Options};
use joiner_provider_kwok::Catalogue;
use serde_json::Value;

/// Arguments of `plan`, as if typed.
pub fn arguments(extra: &[&str]) -> PlanArgs {
    let line = ["joiner", "plan", "-f", "-"].iter().chain(extra);
    match Cli::try_parse_from(line).expect("the arguments are right").command {
        Command::Plan(arguments) => *arguments,
        other => panic!("not plan: {other:?}"),
    }
}

/// The plan of manifests over types in KWOK's file format, as JSON.
pub fn plan(manifests: &[Value], types: &[Value], extra: &[&str]) -> Result<Value, String> {
    let text = serde_json::to_string(types).expect("values can be written");
    let catalogue = Catalogue::from_text("types.json", &text).map_err(|error| error.to_string())?;
    plan_on(manifests, &catalogue, extra)
}

/// The plan of manifests over a catalogue, as JSON without timing.
pub fn plan_on(manifests: &[Value], catalogue: &Catalogue, extra: &[&str]) -> Result<Value, String> {
    let arguments = arguments(extra);
    let mut intake = Intake::new(&arguments);
    intake.read_values("manifests", manifests.iter().cloned()).map_err(|error| error.to_string())?;
    Ok(finish(intake, &arguments, catalogue))
}

/// The plan of the files in the arguments; without a catalogue the one the input asks for.
pub fn plan_files(arguments: &PlanArgs, catalogue: Option<Catalogue>) -> Result<Value, String> {
    let sources = joiner::load::sources(&arguments.filename).map_err(|error| error.to_string())?;
    let mut intake = Intake::new(arguments);
    intake.read(&sources).map_err(|error| error.to_string())?;
    let catalogue = catalogue
        .unwrap_or_else(|| if intake.wants_aws() { Catalogue::aws() } else { Catalogue::hypothetical() });
    Ok(finish(intake, arguments, &catalogue))
}

fn finish(mut intake: Intake, arguments: &PlanArgs, catalogue: &Catalogue) -> Value {
    intake.finish_notes();
    let (lowered, time) = intake.lower(catalogue.clone());
    let snapshot = lowered.snapshot;
    let min_values = match arguments.min_values_policy {
        joiner::cli::MinValuesPolicy::Strict => MinValuesPolicy::Strict,
        joiner::cli::MinValuesPolicy::BestEffort => MinValuesPolicy::BestEffort,
    };
    let options = Options { min_values, ..Options::default() };
    let plan = decide::decide(&snapshot, &options);
    let bound = if arguments.no_lower_bound { None } else { decide::lower_bound(&snapshot, &options, &plan) };
    let document = PlanDocument::new(&snapshot, &plan, bound, time);
    let mut value = serde_json::to_value(&document).expect("plans can be written");
    value.as_object_mut().expect("a plan is an object").remove("timing");
    value
}
