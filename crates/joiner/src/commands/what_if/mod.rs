//! `joiner what-if`: the plan before and after a change, side by side.
//!
//! ```text
//! base files -> values -> intake -> decide ─┐
//!                 │ changes                 ├-> compare -> table, JSON
//!                 └-> values -> intake -> decide ─┘
//! ```
//!
//! `--repack` is an edit, too: it takes away the nodes that can be given up. `--consolidate` asks another question of the changed input: what the
//! controllers would take away.
//!
//! Both sides go through the intake of `plan` and the one `decide`; a change is an edit of the input, never of the plan.

mod arguments;
mod catalogue;
mod changes;
mod compare;
mod consolidate;
mod edit;
mod objects;
mod repack;
mod stand;
mod table;

pub use arguments::WhatIfArgs;

use std::collections::BTreeSet;
use std::time::Duration;

use joiner_core::decide;
use serde_json::Value;

use self::compare::{Side, WhatIf};
use self::objects::{Identity, Item, wrong};
use crate::cli::{Format, Output, PlanArgs};
use crate::commands::catalogues::{self, Catalogues};
use crate::commands::plan::{self, Intake, PlanDocument};
use crate::load;
use crate::report::InputError;
use crate::{FINDINGS, FINE, Streams, show};

/// What notes on the second side begin with.
const AFTER: &str = "after the change: ";

/// Runs the command.
pub fn run(arguments: &WhatIfArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    if let Some(pod) = &arguments.plan.explain {
        return Err(
            wrong("--explain", pod, "a comparison explains no pod", "use `joiner plan --explain`").into()
        );
    }
    let cluster = plan::cluster(&arguments.plan)?.unwrap_or_default();
    for note in &cluster.notes {
        writeln!(streams.err, "note: {note}")?;
    }
    let (base, replacements) = read(arguments, cluster.objects)?;
    if !arguments.asks_for_change() && replacements.is_empty() {
        return Err(InputError {
            message: "give at least one change".to_owned(),
            remedy: Some("see `joiner what-if --help`, e.g. --scale deploy/web=200".to_owned()),
            ..InputError::default()
        }
        .into());
    }
    let mut validate = |flag: &str, value: &Value| {
        let checked = Intake::new(&arguments.plan).read_values(flag, [value.clone()]);
        // There is one item only; its number says nothing.
        checked.map_err(|error| InputError { file: flag.to_owned(), ..error })
    };
    let mut changed = changes::apply(arguments, base.clone(), replacements, &mut validate)?;
    let mut notes = BTreeSet::new();
    let (mut before, catalogues) = intake(&arguments.plan, &base, "", &mut notes, streams)?;
    let (after, catalogues_after) = intake(&arguments.plan, &changed.items, AFTER, &mut notes, streams)?;
    let (catalogues_after, done_to_types) = catalogue::apply(arguments, &catalogues_after)?;
    changed.done.extend(done_to_types);
    let options = plan::options(&arguments.plan);
    if arguments.consolidate {
        return consolidate::run(arguments, &changed, &options, after, catalogues_after, streams);
    }
    let (after, repacked) = if arguments.repack {
        let mut lower = |items: &[Item]| {
            let mut intake = take_in(&arguments.plan, items)?;
            // Also adds the default pool; what it says is said of the sides.
            intake.finish_notes();
            let (lowered, standing, _) = intake.lower_and_keep(catalogues_after.clone());
            Ok((lowered, standing))
        };
        let repacked = repack::apply(&mut changed, &options, &mut lower)?;
        let mut after = take_in(&arguments.plan, &changed.items)?;
        for side in [&mut before, &mut after] {
            side.uses("PodDisruptionBudget");
        }
        (after, Some(repacked))
    } else {
        (after, None)
    };
    let mut before = side(&arguments.plan, before, catalogues, "", &mut notes, streams)?;
    let after = side(&arguments.plan, after, catalogues_after, AFTER, &mut notes, streams)?;
    let repacked = repacked.map(|repacked| {
        let afresh = !arguments.plan.no_afresh;
        let today = plan::standing(&mut before.standing, &before.snapshot, &options, afresh);
        (repacked, today.and_then(|today| today.packed_afresh))
    });
    let (rows_before, rows_after) = (stand::rows(&before), stand::rows(&after));
    let what_if = WhatIf::new(changed.done, &changed.freed, before, after).with_repacked(
        repacked,
        stand::waste(&rows_before),
        stand::waste(&rows_after),
    );
    match arguments.plan.output {
        Output::Table | Output::Wide => table::write(&what_if, &rows_before, &rows_after, streams)?,
        Output::Json => streams.out.write_all(show::value(&what_if, Format::Json)?.as_bytes())?,
        Output::Yaml => streams.out.write_all(show::value(&what_if, Format::Yaml)?.as_bytes())?,
    }
    Ok(if what_if.newly_refused.is_empty() { FINE } else { FINDINGS })
}

/// The objects of the base, and those that replace some of them: all of `--change`, and what a later `-f` gives again. What `--from` names
/// comes first.
fn read(arguments: &WhatIfArgs, cluster: Vec<Value>) -> Result<(Vec<Item>, Vec<Item>), InputError> {
    let base_sources = load::sources(&arguments.plan.filename)?;
    let change_sources = load::sources(&arguments.change).map_err(|error| InputError {
        remedy: error.remedy.map(|remedy| remedy.replace("after -f", "after --change")),
        ..error
    })?;
    if [&base_sources, &change_sources].iter().all(|sources| sources.contains(&load::Source::Stdin)) {
        return Err(wrong(
            "--change",
            "-",
            "standard input can be read only once",
            "give one of the two as a file",
        ));
    }
    let mut checking = Intake::new(&arguments.plan);
    let mut check = |names: &[String], document: &load::Document| {
        checking.read_documents(names, std::slice::from_ref(document))
    };
    let given = |value: Value| Item { identity: Identity::of(&value), source: 0, value };
    let cluster: Vec<Item> = cluster.into_iter().map(given).collect();
    let mut base: Vec<Item> = Vec::new();
    let mut replacements = Vec::new();
    let mut first_source = std::collections::BTreeMap::new();
    for item in cluster.into_iter().chain(objects::read(&base_sources, 1, &mut check)?) {
        let earlier = match &item.identity {
            Some(identity) => *first_source.entry(identity.clone()).or_insert(item.source) < item.source,
            None => false,
        };
        if earlier { replacements.push(item) } else { base.push(item) }
    }
    if !change_sources.is_empty() {
        replacements.extend(objects::read(&change_sources, 1 + base_sources.len(), &mut check)?);
    }
    Ok((base, replacements))
}

fn take_in(arguments: &PlanArgs, items: &[Item]) -> anyhow::Result<Intake> {
    let mut intake = Intake::new(arguments);
    if !arguments.from.is_empty() {
        intake.forgive_unknown_fields();
    }
    intake.read_values("the changed input", items.iter().map(|item| item.value.clone()))?;
    intake.read_costs(arguments)?;
    Ok(intake)
}

/// One side with its machines. What it finds about classes and zones is noted at once.
fn intake(
    arguments: &PlanArgs,
    items: &[Item],
    prefix: &str,
    noted: &mut BTreeSet<String>,
    streams: &mut Streams,
) -> anyhow::Result<(Intake, Catalogues)> {
    let intake = take_in(arguments, items)?;
    let catalogues = catalogues::choose(&arguments.catalogue, &intake.survey_with_default())?;
    tell(catalogues.notes.clone(), prefix, noted, streams)?;
    Ok((intake, catalogues))
}

fn tell(
    notes: Vec<String>,
    prefix: &str,
    noted: &mut BTreeSet<String>,
    streams: &mut Streams,
) -> std::io::Result<()> {
    for note in notes {
        if noted.insert(note.clone()) {
            writeln!(streams.err, "note: {prefix}{note}")?;
        }
    }
    Ok(())
}

/// Decides; what was noted for the other side already is not repeated.
fn side(
    arguments: &PlanArgs,
    mut intake: Intake,
    catalogues: Catalogues,
    prefix: &str,
    noted: &mut BTreeSet<String>,
    streams: &mut Streams,
) -> anyhow::Result<Side> {
    let mut notes = intake.finish_notes();
    let (lowered, standing, _) = intake.lower_and_keep(catalogues);
    notes.extend(lowered.notes);
    tell(notes, prefix, noted, streams)?;
    let snapshot = lowered.snapshot;
    let decided = decide::decide(&snapshot, &plan::options(arguments));
    let plan = PlanDocument::new(&snapshot, &decided, None, Duration::ZERO);
    Ok(Side { snapshot, plan, decided, standing })
}
