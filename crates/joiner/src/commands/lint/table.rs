//! Findings for people: the verdict first, then one block per finding, folded to the terminal.

use anstyle::Style;

use super::finding::{Finding, Severity};
use super::input::Input;
use crate::Streams;
use crate::show::{self, BOLD, DIM, GREEN, RED, YELLOW, folded};

/// A line of text is not made longer than this, however wide the terminal is.
const READABLE_WIDTH: usize = 130;
const INDENT: &str = "    ";

/// Prints the findings.
pub fn write(findings: &[Finding], input: &Input, streams: &mut Streams) -> std::io::Result<()> {
    let files = show::plural(input.files.len(), "file");
    let objects = show::plural(input.objects.len(), "object");
    if findings.is_empty() {
        return writeln!(streams.out, "{GREEN}no findings{GREEN:#} in {files} {DIM}({objects}){DIM:#}");
    }
    let counts: Vec<String> = [Severity::Error, Severity::Warning, Severity::Note]
        .into_iter()
        .filter_map(|severity| {
            let count = findings.iter().filter(|finding| finding.severity == severity).count();
            let style = style(severity);
            (count > 0).then(|| format!("{style}{}{style:#}", show::plural(count, severity.word())))
        })
        .collect();
    writeln!(streams.out, "{} in {files} {DIM}({objects}){DIM:#}", counts.join(", "))?;
    let width = streams.width.min(READABLE_WIDTH);
    for finding in findings {
        let style = style(finding.severity);
        let place = match finding.line {
            Some(line) => format!("{}:{line}", finding.file),
            None => finding.file.clone(),
        };
        writeln!(
            streams.out,
            "\n{BOLD}{place}{BOLD:#}: {style}{}{style:#} {DIM}[{}]{DIM:#}",
            finding.severity.word(),
            finding.rule
        )?;
        write_folded(&format!("{} {}", finding.object, finding.path), width, streams)?;
        write_folded(&finding.message, width, streams)?;
        write_folded(&format!("-> {}", finding.remedy), width, streams)?;
    }
    let first =
        findings.iter().rev().max_by_key(|finding| finding.severity).map_or("", |finding| finding.rule);
    writeln!(streams.out, "\n{DIM}more: joiner lint --explain {first}{DIM:#}")
}

fn write_folded(text: &str, width: usize, streams: &mut Streams) -> std::io::Result<()> {
    for line in folded(text, width.saturating_sub(INDENT.len())) {
        writeln!(streams.out, "{INDENT}{line}")?;
    }
    Ok(())
}

fn style(severity: Severity) -> Style {
    match severity {
        Severity::Error => RED,
        Severity::Warning => YELLOW,
        Severity::Note => DIM,
    }
}
