//! What a rule is and what it finds.

use clap::ValueEnum;
use serde::Serialize;

use super::subject::Subject;

/// How bad a finding is. Ordered: a note is less than an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably not what was meant.
    Warning,
    /// It can't work.
    Error,
}

impl Severity {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing `lint` looks for.
#[derive(Debug)]
pub struct Rule {
    /// Its stable name, in kebab case.
    pub id: &'static str,
    /// How bad its findings usually are.
    pub severity: Severity,
    /// What it finds, in half a line.
    pub summary: &'static str,
    /// Why that matters and what to do, in a paragraph.
    pub why: &'static str,
    /// Manifests in which it finds something.
    pub bad: &'static str,
    /// The same, put right.
    pub good: &'static str,
    /// Finds it.
    pub check: fn(&Subject) -> Vec<Hit>,
}

/// What a check found, before it is known which rule asked and where the object stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The object, by its number in the input.
    pub object: usize,
    /// The field.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
    /// Where this case is milder or worse than the rule's others.
    pub severity: Option<Severity>,
}

impl Hit {
    /// A finding on a field of an object.
    pub fn new(
        object: usize,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { object, path: path.into(), message: message.into(), remedy: remedy.into(), severity: None }
    }

    /// The same, as bad as this.
    pub fn with(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }
}

/// A finding as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The rule's id.
    pub rule: &'static str,
    /// How bad.
    pub severity: Severity,
    /// The file, or `standard input`.
    pub file: String,
    /// The line, from 1; null where it can't be known (JSON from standard input).
    pub line: Option<usize>,
    /// Kind and name.
    pub object: String,
    /// The field.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}
