//! Running the planner in process.

use clap::Parser;
use joiner::cli::{Cli, Command, PlanArgs};
use joiner::commands::catalogues::{self, Catalogues};
use joiner::commands::plan::{self, Intake, PlanDocument};
use joiner_core::decide;
use joiner_provider_kwok::Catalogue;
use serde_json::Value;

/// Arguments of `plan`, as if typed; packing as the reference packs unless they say otherwise.
pub fn arguments(extra: &[&str]) -> PlanArgs {
    let packing = if extra.iter().any(|word| word.starts_with("--packing")) {
        None
    } else {
        Some(&"--packing=upstream")
    };
    let line = ["joiner", "plan", "-f", "-"].iter().chain(packing).chain(extra);
    match Cli::try_parse_from(line).expect("the arguments are right").command {
        Command::Plan(arguments) => *arguments,
        other => panic!("not plan: {other:?}"),
    }
}

/// A scheduler configuration in a file of its own, for as long as it is needed.
pub struct ConfigFile(std::path::PathBuf);

impl ConfigFile {
    /// `name` tells it from others written at the same time.
    pub fn new(name: &str, config: &Value) -> Self {
        let name = format!("joiner-scheduler-config-{}-{name}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, config.to_string()).expect("writable");
        Self(path)
    }

    /// Its name, as messages show it.
    pub fn name(&self) -> String {
        self.0.display().to_string()
    }

    /// The argument that names it.
    pub fn flag(&self) -> String {
        format!("--scheduler-config={}", self.0.display())
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
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
    let notes = intake.finish_notes();
    Ok(finish(intake, &arguments, catalogue.clone().into(), notes))
}

/// The plan of the files in the arguments; without a catalogue the one the input asks for.
pub fn plan_files(arguments: &PlanArgs, catalogue: Option<Catalogue>) -> Result<Value, String> {
    let sources = joiner::load::sources(&arguments.filename).map_err(|error| error.to_string())?;
    let mut intake = Intake::new(arguments);
    intake.read(&sources).map_err(|error| error.to_string())?;
    let notes = intake.finish_notes();
    let catalogues = match catalogue {
        Some(catalogue) => catalogue.into(),
        None => {
            catalogues::choose(&arguments.catalogue, intake.survey()).map_err(|error| error.to_string())?
        }
    };
    Ok(finish(intake, arguments, catalogues, notes))
}

fn finish(intake: Intake, arguments: &PlanArgs, catalogues: Catalogues, mut notes: Vec<String>) -> Value {
    let (lowered, time) = intake.lower(catalogues);
    let snapshot = lowered.snapshot;
    let options = plan::options(arguments);
    let plan = decide::decide(&snapshot, &options);
    let bound = if arguments.no_lower_bound { None } else { decide::lower_bound(&snapshot, &options, &plan) };
    let document =
        PlanDocument::new(&snapshot, &plan, bound, time).with_buffers(&snapshot, &plan, &lowered.buffers);
    let mut value = serde_json::to_value(&document).expect("plans can be written");
    value.as_object_mut().expect("a plan is an object").remove("timing");
    notes.extend(lowered.notes);
    value["notes"] = notes.into();
    value
}
