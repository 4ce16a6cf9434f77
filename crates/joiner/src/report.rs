//! One sentence per complaint: file, line, object, field, value, what is wrong, what to do.

use std::fmt;

/// Something wrong with what the user gave us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputError {
    /// File, or `standard input`.
    pub file: String,
    /// Line, from 1, where it is known.
    pub line: Option<usize>,
    /// Kind and name.
    pub object: Option<String>,
    /// Field.
    pub path: Option<String>,
    /// What stands there.
    pub value: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: Option<String>,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.file.is_empty() {
            f.write_str(": ")?;
        }
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        match (&self.path, &self.value) {
            (Some(path), Some(value)) => write!(f, "`{path}` is `{}`: ", shortened(value))?,
            (Some(path), None) => write!(f, "`{path}`: ")?,
            _ => {}
        }
        write_on_one_line(f, &self.message)?;
        if let Some(remedy) = self.remedy.as_ref().filter(|r| !r.is_empty()) {
            f.write_str("; ")?;
            write_on_one_line(f, remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for InputError {}

impl InputError {
    /// A complaint about a whole file.
    pub fn of_file(file: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            message: message.into(),
            remedy: Some(remedy.into()),
            ..Self::default()
        }
    }
}

/// Whoever wrote the text may have quoted what a file holds: nothing of it may end the line or move the cursor.
fn write_on_one_line(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for letter in text.chars() {
        match letter.is_control() {
            true => write!(f, "{}", letter.escape_debug())?,
            false => write!(f, "{letter}")?,
        }
    }
    Ok(())
}

fn shortened(value: &str) -> String {
    let mut out: String = value.chars().take(80).collect();
    if out.len() < value.len() {
        out.push('…');
    }
    if out.chars().any(char::is_control) { out.escape_debug().to_string() } else { out }
}

/// An error with its causes, on one line.
pub fn chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
