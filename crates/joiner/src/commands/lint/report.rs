//! Findings as one versioned JSON object. Documented in `docs/reference/lint.md`.

use serde::Serialize;

use super::finding::{Finding, Severity};
use super::input::Input;
use crate::Streams;
use crate::cli::Format;
use crate::show;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'f> {
    api_version: &'static str,
    kind: &'static str,
    findings: &'f [Finding],
    totals: Totals,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Totals {
    errors: usize,
    warnings: usize,
    notes: usize,
    files: usize,
    objects: usize,
}

/// Prints the findings.
pub fn write(findings: &[Finding], input: &Input, streams: &mut Streams) -> anyhow::Result<()> {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let report = Report {
        api_version: "joiner.sh/v1alpha1",
        kind: "LintReport",
        findings,
        totals: Totals {
            errors: count(Severity::Error),
            warnings: count(Severity::Warning),
            notes: count(Severity::Note),
            files: input.files.len(),
            objects: input.objects.len(),
        },
    };
    streams.out.write_all(show::value(&report, Format::Json)?.as_bytes())?;
    Ok(())
}
