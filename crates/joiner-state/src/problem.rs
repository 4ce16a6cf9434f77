//! What is wrong with an object, said so that its owner can put it right.

use std::fmt;

/// One finding about one field of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Kind and name of the object, e.g. `Pod default/web-0`.
    pub object: String,
    /// The field, e.g. `spec.containers[0].resources.requests.cpu`.
    pub path: String,
    /// What stands there, as text.
    pub value: String,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}` is `{}`: {}; {}", self.object, self.path, self.value, self.message, self.remedy)
    }
}

impl std::error::Error for Problem {}

impl Problem {
    /// The first thing validation found, and how many more there are.
    pub(crate) fn first_of(found: Vec<joiner_api::validation::Problem>, object: &str) -> Result<(), Self> {
        let more = found.len().saturating_sub(1);
        let and_more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        match found.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(Self {
                object: object.to_owned(),
                path: first.path,
                value: first.value,
                message: format!("{}{and_more}", first.message),
                remedy: first.remedy,
            }),
        }
    }
}

/// A finding whose object is not known yet: digests see a spec, not the object around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub path: String,
    pub value: String,
    pub message: String,
    pub remedy: String,
}

impl Finding {
    pub(crate) fn new(
        path: impl Into<String>,
        value: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), value: value.into(), message: message.into(), remedy: remedy.into() }
    }

    /// The finding with its object, its path put below `prefix`.
    pub(crate) fn on(self, kind: &str, name: &str, prefix: &str) -> Problem {
        // A pod's status stands beside its spec, not below.
        let is_whole = prefix.is_empty() || self.path.starts_with("status.");
        let path = match self.path.as_str() {
            "" => prefix.to_owned(),
            _ if is_whole => self.path,
            path => format!("{prefix}.{path}"),
        };
        Problem {
            object: format!("{kind} {name}").trim_end().to_owned(),
            path,
            value: self.value,
            message: self.message,
            remedy: self.remedy,
        }
    }
}
