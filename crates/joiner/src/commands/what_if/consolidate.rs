//! `--consolidate`: what the controllers would take away, and what instead.

use std::collections::BTreeMap;

use joiner_controllers::steps::movable::Hold;
use joiner_core::decide;
use joiner_core::disrupt::{self, Block};
use joiner_record::consolidation::{CommandDocument, ConsolidationDocument, KeptDocument};

use super::WhatIfArgs;
use super::changes::Changed;
use super::repack;
use crate::cli::{Format, Output};
use crate::commands::catalogues::Catalogues;
use crate::commands::plan::Intake;
use crate::report::InputError;
use crate::show::{self, BOLD, DIM, GREEN, Table, YELLOW};
use crate::{FINE, Streams};

/// Commands shown, pods of each, and nodes that stay.
const SHOWN: usize = 12;

/// Searches and prints what was found.
pub fn run(
    arguments: &WhatIfArgs,
    changed: &Changed,
    options: &decide::Options,
    mut intake: Intake,
    catalogues: Catalogues,
    streams: &mut Streams,
) -> anyhow::Result<u8> {
    // Also adds the default pool.
    for note in intake.finish_notes() {
        writeln!(streams.err, "note: {note}")?;
    }
    let (_, standing, _) = intake.lower_and_keep(catalogues);
    let fleet = standing.fleet(&blocks(changed));
    if fleet.nodes.is_empty() {
        return Err(InputError {
            path: Some("--consolidate".to_owned()),
            message: "the input has no Node, so nothing stands that could be taken away".to_owned(),
            remedy: Some(
                "give a snapshot with --from, or what `kubectl get nodes,pods -A -o json` prints".to_owned(),
            ),
            ..InputError::default()
        }
        .into());
    }
    let mut search = disrupt::Options { budgets: false, ..disrupt::Options::default() };
    search.decide = decide::Options { packing_work: search.decide.packing_work, ..options.clone() };
    let result = disrupt::consolidate(&fleet, &search, None);
    let document = ConsolidationDocument::new(&fleet, &result);
    match arguments.plan.output {
        Output::Table | Output::Wide => table(&document, changed, streams)?,
        Output::Json => streams.out.write_all(show::value(&document, Format::Json)?.as_bytes())?,
        Output::Yaml => streams.out.write_all(show::value(&document, Format::Yaml)?.as_bytes())?,
    }
    Ok(FINE)
}

/// What pods and annotations keep, by node.
fn blocks(changed: &Changed) -> BTreeMap<String, Vec<Block>> {
    let mut blocks: BTreeMap<String, Vec<Block>> = BTreeMap::new();
    for (node, pod, hold) in repack::holds(&changed.items) {
        let pod = || pod.as_deref().unwrap_or_default().into();
        let block = match hold {
            Hold::NodeProtected => Block::NodeProtected,
            Hold::PoolBudget(pool) => Block::PoolBudget { pool: pool.into() },
            Hold::Protected(until) => {
                Block::PodProtected { pod: pod(), until: until.map(|until| until.as_second()) }
            }
            Hold::Bare => Block::BarePod { pod: pod() },
            Hold::LocalVolume(claim) => Block::LocalVolume { pod: pod(), claim: claim.into() },
            Hold::Budget(budget) => Block::DisruptionBudget { pod: pod(), budget: budget.into() },
            Hold::SeveralBudgets(budgets) => {
                Block::SeveralBudgets { pod: pod(), budgets: budgets.into_iter().map(Into::into).collect() }
            }
        };
        blocks.entry(node).or_default().push(block);
    }
    blocks
}

fn table(document: &ConsolidationDocument, changed: &Changed, streams: &mut Streams) -> std::io::Result<()> {
    let (before, after) = (document.before, document.after);
    let saved = before.price_per_hour - after.price_per_hour;
    if document.commands.is_empty() {
        writeln!(
            streams.out,
            "nothing can go: {}, {}/h",
            show::plural(before.nodes, "node"),
            show::money(before.price_per_hour)
        )?;
    } else {
        let share = if before.price_per_hour > 0.0 { saved / before.price_per_hour } else { 0.0 };
        let moves: usize = document.commands.iter().map(|command| command.moves.len()).sum();
        writeln!(
            streams.out,
            "{BOLD}{GREEN}saves {}/h{GREEN:#}{BOLD:#} ({})   {} -> {}   {YELLOW}{} moved{YELLOW:#}",
            show::money(saved),
            show::percent(share),
            show::plural(before.nodes, "node"),
            after.nodes,
            show::plural(moves, "pod"),
        )?;
    }
    for change in &changed.done {
        writeln!(streams.out, "{DIM}  {change}{DIM:#}")?;
    }
    for command in document.commands.iter().take(SHOWN) {
        one(command, streams)?;
    }
    rest(document.commands.len(), "command", streams)?;
    if document.stays.is_empty() {
        return Ok(());
    }
    writeln!(streams.out, "\n{YELLOW}why the others stay{YELLOW:#}")?;
    let mut rows = Table::new(&["node", "$/h", "pods worth", "reason"]).right(&[1, 2]).indent(2);
    for stay in document.stays.iter().take(SHOWN) {
        let money = |dollars: Option<f64>| dollars.map_or_else(|| "-".to_owned(), show::amount);
        rows.push(vec![
            stay.node.clone(),
            money(stay.price_per_hour),
            money(stay.worth_per_hour),
            reason(stay),
        ]);
    }
    write!(streams.out, "{}", rows.render(streams.width))?;
    rest(document.stays.len(), "reason", streams)
}

fn one(command: &CommandDocument, streams: &mut Streams) -> std::io::Result<()> {
    let names = some(&command.nodes);
    let machines: Vec<String> = command
        .machines
        .iter()
        .map(|machine| format!("{} ({})", machine.name, machine.instance_type))
        .collect();
    let instead = if machines.is_empty() { String::new() } else { format!(" by {}", some(&machines)) };
    writeln!(
        streams.out,
        "\n{BOLD}{}{BOLD:#} {names}{instead}: {}, saves {}/h",
        command.kind,
        command.message,
        show::money(command.saving_per_hour)
    )?;
    let mut rows = Table::new(&["pod", "from", "to"]).indent(2);
    for movement in command.moves.iter().take(SHOWN) {
        let to = movement.to.clone().unwrap_or_else(|| "-".to_owned());
        rows.push(vec![movement.pod.clone(), movement.from.clone(), to]);
    }
    if !rows.is_empty() {
        write!(streams.out, "{}", rows.render(streams.width))?;
    }
    rest(command.moves.len(), "pod", streams)
}

fn reason(stay: &KeptDocument) -> String {
    let pod = stay.pod.as_deref().filter(|pod| !stay.message.contains(*pod));
    let replacement = stay.replacement_per_hour.map(|price| format!(" ({}/h)", show::money(price)));
    let told = format!("{}{}", stay.message, replacement.unwrap_or_default());
    pod.map_or(told.clone(), |pod| format!("{pod}: {told}"))
}

fn some(names: &[String]) -> String {
    const NAMED: usize = 3;
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{shown} and {} more", names.len() - NAMED) } else { shown }
}

fn rest(count: usize, thing: &str, streams: &mut Streams) -> std::io::Result<()> {
    if count > SHOWN {
        let more = show::plural(count - SHOWN, thing);
        writeln!(streams.out, "  {DIM}and {more} (-o json lists all){DIM:#}")?;
    }
    Ok(())
}
