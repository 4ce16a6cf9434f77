//! `instance-types check`: everything wrong with files, at once.
//!
//! What is found is what was asked for, so it goes to standard output, one line per finding.

use joiner_provider_kwok::{Availability, CheckReport, Problem, check};
use serde::Serialize;

use super::text_of;
use crate::cli::{CheckArgs, Format, Output};
use crate::load::{Source, sources};
use crate::show::{DIM, GREEN, RED, money, plural, value};
use crate::{BAD_INPUT, FINE, Streams};

/// Checks the files.
pub fn run(arguments: &CheckArgs, streams: &mut Streams) -> anyhow::Result<u8> {
    let mut reports = Vec::new();
    for path in &arguments.files {
        match sources(std::slice::from_ref(path)) {
            Ok(found) => reports.extend(found.iter().map(report)),
            // What to do about it speaks of a flag this command doesn't have; the message says enough.
            Err(error) => reports.push(unreadable(&path.display().to_string(), error.message)),
        }
    }
    match arguments.output {
        Output::Json => streams.out.write_all(value(&records(&reports), Format::Json)?.as_bytes())?,
        Output::Yaml => streams.out.write_all(value(&records(&reports), Format::Yaml)?.as_bytes())?,
        Output::Table | Output::Wide => {
            for report in &reports {
                print(report, arguments.output == Output::Wide, streams)?;
            }
        }
    }
    Ok(if reports.iter().all(CheckReport::is_good) { FINE } else { BAD_INPUT })
}

fn report(source: &Source) -> CheckReport {
    match text_of(source, "") {
        Ok(text) => check(&source.name(), &text, Availability::default()),
        Err(error) => unreadable(&source.name(), error.message),
    }
}

/// A file that cannot be read is one more thing wrong; the others are still checked.
fn unreadable(file_name: &str, message: String) -> CheckReport {
    CheckReport {
        file_name: file_name.to_owned(),
        problems: vec![Problem { entry: None, key: String::new(), value: None, message }],
        notes: Vec::new(),
        types: 0,
        offerings: 0,
        prices: None,
        well_known: Vec::new(),
    }
}

fn print(report: &CheckReport, wide: bool, streams: &mut Streams) -> std::io::Result<()> {
    let file = &report.file_name;
    if report.is_good() {
        let (types, offerings) = (plural(report.types, "type"), plural(report.offerings, "offering"));
        writeln!(streams.out, "{file}: {types}, {offerings}, {GREEN}fine{GREEN:#}")?;
    }
    for problem in &report.problems {
        writeln!(streams.out, "{file}: {RED}{problem}{RED:#}")?;
    }
    if wide && let Some((lowest, highest)) = report.prices {
        let prices = if lowest == highest {
            money(lowest)
        } else {
            format!("{} to {}", money(lowest), money(highest))
        };
        writeln!(streams.out, "  prices per hour     {prices}")?;
        writeln!(streams.out, "  well-known labels   {}", report.well_known.join(" "))?;
    }
    for note in &report.notes {
        writeln!(streams.out, "{file}: {DIM}note: {note}{DIM:#}")?;
    }
    Ok(())
}

// ---- For programs ----

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    file: &'a str,
    fine: bool,
    types: usize,
    offerings: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    lowest_price_per_hour: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    highest_price_per_hour: Option<f64>,
    well_known_labels: &'a [String],
    problems: Vec<ProblemRecord<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct ProblemRecord<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    entry: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    message: &'a str,
}

fn records(reports: &[CheckReport]) -> Vec<Record<'_>> {
    reports
        .iter()
        .map(|report| Record {
            file: &report.file_name,
            fine: report.is_good(),
            types: report.types,
            offerings: report.offerings,
            lowest_price_per_hour: report.prices.map(|(lowest, _)| lowest),
            highest_price_per_hour: report.prices.map(|(_, highest)| highest),
            well_known_labels: &report.well_known,
            problems: report.problems.iter().map(problem_record).collect(),
            notes: &report.notes,
        })
        .collect()
}

fn problem_record(problem: &Problem) -> ProblemRecord<'_> {
    ProblemRecord {
        entry: problem.entry.as_ref().map(|entry| entry.index),
        name: problem.entry.as_ref().and_then(|entry| entry.name.as_deref()),
        key: &problem.key,
        value: problem.value.as_deref(),
        message: &problem.message,
    }
}
