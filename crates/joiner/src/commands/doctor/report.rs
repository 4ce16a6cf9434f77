//! What a doctor says: findings with remedies, what was in order, and what could not be looked at.

use serde::Serialize;

use crate::Streams;
use crate::show;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Which check found it.
    pub check: &'static str,
    /// The object it is about, as kubectl names it.
    pub object: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// A command that mends it, or shows more.
    pub remedy: String,
}

/// A check that could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotMade {
    /// Which check.
    pub check: &'static str,
    /// Why not.
    pub why: String,
}

/// Everything.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `joiner.sh/v1alpha1`.
    pub api_version: &'static str,
    /// `Diagnosis`.
    pub kind: &'static str,
    /// The version of the cluster.
    pub kubernetes: String,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Checks that found nothing.
    pub passed: Vec<&'static str>,
    /// Checks that could not be made.
    pub not_made: Vec<NotMade>,
}

impl Report {
    /// One check: what it found, or why it was not made.
    pub fn add(&mut self, check: &'static str, outcome: Result<Vec<Finding>, String>) {
        match outcome {
            Ok(findings) if findings.is_empty() => self.passed.push(check),
            Ok(findings) => self.findings.extend(findings),
            Err(why) => self.not_made.push(NotMade { check, why }),
        }
    }

    /// For people.
    pub fn write(&self, streams: &mut Streams) -> std::io::Result<()> {
        let count = |many: usize, thing: &str| show::plural(many, thing);
        let verdict = match self.findings.len() {
            0 => "Nothing is wrong".to_owned(),
            many => count(many, "finding"),
        };
        writeln!(
            streams.out,
            "{verdict}: Kubernetes {}, {} in order, {} not made",
            self.kubernetes,
            count(self.passed.len(), "check"),
            self.not_made.len()
        )?;
        for finding in &self.findings {
            writeln!(streams.out, "\n{}  {}", finding.check, finding.object)?;
            for line in show::folded(&finding.message, streams.width.saturating_sub(2)) {
                writeln!(streams.out, "  {line}")?;
            }
            writeln!(streams.out, "  fix: {}", finding.remedy)?;
        }
        if !self.not_made.is_empty() {
            writeln!(streams.out)?;
        }
        for check in &self.not_made {
            writeln!(streams.out, "not made: {}: {}", check.check, check.why)?;
        }
        Ok(())
    }
}
