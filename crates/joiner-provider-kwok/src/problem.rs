//! What can be wrong with a list, said so that the place is found without searching.

use std::fmt;

/// Problems printed before the rest is only counted.
const PRINTED_MAX: usize = 20;
/// Characters of an offending value that are shown.
const VALUE_CHARS_MAX: usize = 60;

/// One thing wrong with a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The entry, if the problem lies in one.
    pub entry: Option<EntryPlace>,
    /// The key as the file spells it, with the way to it: `offerings[0].Price`. Empty: the entry or file as a whole.
    pub key: String,
    /// The offending value, shortened, if there is one.
    pub value: Option<String>,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// Where in the list an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPlace {
    /// Position, counted from 0 over all documents of the file.
    pub index: usize,
    /// The entry's name, if it has one.
    pub name: Option<String>,
}

impl fmt::Display for EntryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry [{}]", self.index)?;
        match &self.name {
            Some(name) => write!(f, " (`{name}`)"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(entry) = &self.entry {
            write!(f, "{entry}: ")?;
        }
        match (self.key.is_empty(), &self.value) {
            (true, _) => {}
            (false, None) => write!(f, "`{}`: ", self.key)?,
            (false, Some(value)) => write!(f, "`{}` is `{value}`: ", self.key)?,
        }
        f.write_str(&self.message)
    }
}

/// Why a list was refused: everything wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// The file the text came from.
    pub file_name: String,
    /// What is wrong, in the order of the file; never empty.
    pub problems: Vec<Problem>,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().take(PRINTED_MAX).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "`{}`: {problem}", self.file_name)?;
        }
        match self.problems.len().saturating_sub(PRINTED_MAX) {
            0 => Ok(()),
            more => write!(f, "\n`{}`: and {more} more problems", self.file_name),
        }
    }
}

impl std::error::Error for LoadError {}

/// A value as messages show it: one line, not too long.
pub(crate) fn shown(value: impl fmt::Display) -> String {
    let text = value.to_string();
    let mut chars = text.chars();
    let mut short: String = chars.by_ref().take(VALUE_CHARS_MAX).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    if short.chars().any(char::is_control) { short.escape_debug().collect() } else { short }
}
