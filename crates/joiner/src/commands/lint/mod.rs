//! `joiner lint`: what is wrong with pools, pods and overlays, before they are applied.
//!
//! ```text
//! files -> input (objects with their lines) -> subject (pools over their catalogues, pods with what they ask) -> rules -> findings
//! ```
//!
//! A rule is a pure function of the subject; [`rules`] has them all with their texts and examples. What `plan` can't read is bad input
//! here too (exit code 2); what it reads and this command dislikes is a finding (exit code 3).

mod arguments;
mod explain;
mod finding;
mod input;
mod pods;
mod report;
mod rules;
mod sarif;
mod shelf;
mod subject;
mod table;

pub use arguments::{LintArgs, LintOutput};
pub use explain::reference_page;
pub use finding::{Finding, Rule, Severity};
pub use rules::RULES;

use joiner_api::names::REGION_LABEL;

use self::input::Input;
use self::shelf::Shelf;
use self::subject::Subject;
use crate::commands::catalogues::{self, Catalogues};
use crate::report::InputError;
use crate::{FINDINGS, FINE, Streams, load};

/// Runs the command.
pub fn run(arguments: &LintArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    if arguments.list {
        explain::list(streams)?;
        return Ok(FINE);
    }
    if let Some(id) = &arguments.explain {
        explain::explain(rule_of("--explain", id)?, streams)?;
        return Ok(FINE);
    }
    let skipped: Vec<&Rule> =
        arguments.skip.iter().map(|id| rule_of("--skip", id)).collect::<Result<_, _>>()?;
    let input = Input::read(&load::sources(&arguments.filename)?, arguments.validate)?;
    let chosen = catalogues::choose(&arguments.catalogue, &input.survey)?;
    for note in input.notes.iter().chain(&chosen.notes) {
        writeln!(streams.err, "note: {note}")?;
    }
    let findings = findings(&input, &chosen, &skipped);
    match arguments.output {
        LintOutput::Table => table::write(&findings, &input, streams)?,
        LintOutput::Json => report::write(&findings, &input, streams)?,
        LintOutput::Sarif => sarif::write(&findings, streams)?,
    }
    let fails = findings.iter().any(|finding| finding.severity >= arguments.fail_on);
    Ok(if fails { FINDINGS } else { FINE })
}

/// All findings, by their place in the input.
fn findings(input: &Input, chosen: &Catalogues, skipped: &[&Rule]) -> Vec<Finding> {
    // AWS has local zones, and types that are newer than this program.
    let of_aws = chosen.all().any(|of| of.well_known.iter().any(|key| key == REGION_LABEL));
    let shelf = Shelf::new(chosen.all(), of_aws);
    let subject = Subject::new(input, shelf, &|pool| chosen.number_of(pool));
    let mut found = Vec::new();
    for (rank, rule) in RULES.iter().enumerate() {
        if skipped.iter().any(|skipped| skipped.id == rule.id) {
            continue;
        }
        for hit in (rule.check)(&subject) {
            let (file, line) = input.place(hit.object, &hit.path);
            let finding = Finding {
                rule: rule.id,
                severity: hit.severity.unwrap_or(rule.severity),
                file,
                line,
                object: input.objects[hit.object].name.clone(),
                path: hit.path,
                message: hit.message,
                remedy: hit.remedy,
            };
            found.push((hit.object, line, rank, finding));
        }
    }
    // A stable sort: what is equal stays in the order in which the rule found it.
    found.sort_by_key(|(object, line, rank, _)| (*object, *line, *rank));
    found.into_iter().map(|(.., finding)| finding).collect()
}

fn rule_of(flag: &str, id: &str) -> Result<&'static Rule, InputError> {
    rules::find(id).ok_or_else(|| InputError {
        path: Some(flag.to_owned()),
        value: Some(id.to_owned()),
        message: "there is no such rule".to_owned(),
        remedy: Some(match joiner_core::explain::nearest(id, RULES.iter().map(|rule| rule.id)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`joiner lint --list` names all".to_owned(),
        }),
        ..InputError::default()
    })
}
