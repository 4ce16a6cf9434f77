//! `joiner plan`: which machines these manifests need, what they cost, why a pod can't be placed.

mod afresh;
mod buffers;
mod explain;
mod from;
mod intake;
mod standing_table;
mod story;
mod table;

pub use afresh::{quick, standing};
pub use from::cluster;
pub use intake::{Intake, default_pool};
pub use joiner_record::plan::{
    AfreshDocument, BufferDocument, PlanDocument, PlanNode, ReasonDocument, StandingDocument, Totals,
};

use joiner_core::bound::DEFAULT_WORK;
use joiner_core::decide::{self, Options};
use joiner_core::model::Snapshot;
use joiner_core::model::ids::PodIdx;

use self::story::StoryDocument;
use crate::cli::{Format, MinValuesPolicy, Output, PlanArgs, ReservedCapacity};
use crate::commands::catalogues;
use crate::report::InputError;
use crate::{FINDINGS, FINE, Streams, load, show};

/// Runs the command.
pub fn run(arguments: &PlanArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let sources = load::sources(&arguments.filename)?;
    let mut intake = Intake::new(arguments);
    for note in intake.read_cluster(arguments)? {
        writeln!(streams.err, "note: {note}")?;
    }
    intake.read(&sources)?;
    intake.read_costs(arguments)?;
    for note in intake.finish_notes() {
        writeln!(streams.err, "note: {note}")?;
    }
    let catalogues = catalogues::choose(&arguments.catalogue, intake.survey())?;
    for note in &catalogues.notes {
        writeln!(streams.err, "note: {note}")?;
    }
    let (lowered, mut stands, mut solve_time) = intake.lower_and_keep(catalogues);
    for note in &lowered.notes {
        writeln!(streams.err, "note: {note}")?;
    }
    let snapshot = lowered.snapshot;
    let options = options(arguments);
    if let Some(wanted) = &arguments.explain {
        let pod = find_pod(&snapshot, wanted)?;
        let story = decide::explain_pod(&snapshot, &options, pod);
        match arguments.output {
            Output::Table | Output::Wide => explain::write(&snapshot, &story, streams)?,
            Output::Json => print(&StoryDocument::new(&snapshot, &story), Format::Json, streams)?,
            Output::Yaml => print(&StoryDocument::new(&snapshot, &story), Format::Yaml, streams)?,
        }
        return Ok(if story.spot.is_some() { FINE } else { FINDINGS });
    }
    let start = std::time::Instant::now();
    let plan = decide::decide(&snapshot, &options);
    solve_time += start.elapsed();
    let bound = if options.bound_work > 0 { decide::lower_bound(&snapshot, &options, &plan) } else { None };
    let document = PlanDocument {
        standing: standing(&mut stands, &snapshot, &options, !arguments.no_afresh),
        ..PlanDocument::new(&snapshot, &plan, bound, solve_time)
    };
    let document = document.with_buffers(&snapshot, &plan, &lowered.buffers);
    write(arguments.output, &document, &snapshot, &plan, streams)?;
    Ok(if document.unschedulable.is_empty() { FINE } else { FINDINGS })
}

fn print(story: &StoryDocument, format: Format, streams: &mut Streams) -> anyhow::Result<()> {
    Ok(streams.out.write_all(show::value(story, format)?.as_bytes())?)
}

fn write(
    output: Output,
    document: &PlanDocument,
    snapshot: &Snapshot,
    plan: &joiner_core::plan::Plan,
    streams: &mut Streams,
) -> anyhow::Result<()> {
    match output {
        Output::Table | Output::Wide => {
            table::write(document, snapshot, plan, output == Output::Wide, streams)?
        }
        Output::Json => {
            let mut out = std::io::BufWriter::with_capacity(1 << 16, &mut *streams.out);
            serde_json::to_writer_pretty(&mut out, document)?;
            std::io::Write::write_all(&mut out, b"\n")?;
            std::io::Write::flush(&mut out)?;
        }
        Output::Yaml => streams.out.write_all(serde_saphyr::to_string(document)?.as_bytes())?,
    }
    Ok(())
}

/// How the core is to decide.
pub fn options(arguments: &PlanArgs) -> Options {
    let mut options = Options {
        min_values: match arguments.min_values_policy {
            MinValuesPolicy::Strict => decide::MinValuesPolicy::Strict,
            MinValuesPolicy::BestEffort => decide::MinValuesPolicy::BestEffort,
        },
        reserved: match arguments.reserved_capacity {
            ReservedCapacity::Strict => decide::ReservedMode::Strict,
            ReservedCapacity::Fallback => decide::ReservedMode::Fallback,
        },
        bound_work: if arguments.no_lower_bound { 0 } else { DEFAULT_WORK },
        ..Options::default()
    };
    arguments.packing.apply(&mut options);
    options
}

fn find_pod(snapshot: &Snapshot, wanted: &str) -> Result<PodIdx, InputError> {
    let full = if wanted.contains('/') { wanted.to_owned() } else { format!("default/{wanted}") };
    let exact = snapshot.pods.iter().position(|pod| *pod.name == full);
    // A bare name also means the one pod of that name in another namespace.
    let found = exact.or_else(|| {
        let suffix = format!("/{wanted}");
        let mut hits = snapshot.pods.iter().enumerate().filter(|(_, pod)| pod.name.ends_with(&suffix));
        let first = hits.next()?;
        hits.next().is_none().then_some(first.0)
    });
    found.map(PodIdx::new).ok_or_else(|| {
        // A namespace that nobody wrote makes no two names alike.
        let names = snapshot.pods.iter().map(|pod| &*pod.name);
        let bare = |name: &'_ str| name.split_once('/').map_or(0, |(namespace, _)| namespace.len() + 1);
        let near = if wanted.contains('/') {
            joiner_core::explain::nearest(wanted, names)
        } else {
            let near = joiner_core::explain::nearest(wanted, names.clone().map(|name| &name[bare(name)..]));
            near.and_then(|near| names.clone().find(|name| name[bare(name)..] == *near))
        };
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "pods of workloads are named NAME-0, NAME-1, …, and only pending pods can be explained"
                .to_owned(),
        };
        InputError {
            path: Some("--explain".to_owned()),
            value: Some(wanted.to_owned()),
            message: "there is no such pending pod in the input".to_owned(),
            remedy: Some(hint),
            ..InputError::default()
        }
    })
}
