//! Reading a document as the objects it holds, with complaints that name file and line.

use std::sync::Mutex;

use joiner_manifest::{Fault, one_line};
pub use joiner_manifest::{Object, name_of};
use serde_json::Value;

use super::{Document, locate, locate_json, yaml_value};
use crate::cli::Validate;
use crate::report::InputError;

/// How to read.
#[derive(Debug)]
pub struct Reading {
    validate: Validate,
    /// Shapes of objects that were found to have no unknown field.
    known_shapes: Mutex<Vec<u64>>,
}

impl Reading {
    /// With this attitude to unknown fields.
    pub fn new(validate: Validate) -> Self {
        Self { validate, known_shapes: Mutex::new(Vec::new()) }
    }

    fn is_known(&self, shape: u64) -> bool {
        self.known_shapes.lock().is_ok_and(|known| known.contains(&shape))
    }

    fn remember(&self, shape: u64) {
        /// Past this many shapes looking them up costs more than it saves.
        const SHAPES_MAX: usize = 256;
        if let Ok(mut known) = self.known_shapes.lock()
            && known.len() < SHAPES_MAX
        {
            known.push(shape);
        }
    }
}

/// What a document gave.
#[derive(Debug, Default)]
pub struct Read {
    /// Its objects, each with kind and name.
    pub objects: Vec<(String, Object)>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Reads a document; a YAML list gives several objects.
pub fn read_object(file: &str, document: &Document, reading: &Reading) -> Result<Read, InputError> {
    let at = Place { file, document };
    let parsed;
    let value = match &document.value {
        Some(value) => value,
        None => {
            parsed = read_value(file, document)?;
            &parsed
        }
    };
    let shape = joiner_manifest::shape(value);
    let find_unknown = reading.validate != Validate::Ignore && !reading.is_known(shape);
    let read =
        joiner_manifest::read(value, find_unknown).map_err(|fault| at.complaint(fault, Care::Thorough))?;
    let mut notes = Vec::new();
    for (object, note) in read.notes {
        let line = at.line(&note.path).map_or(String::new(), |line| format!(":{line}"));
        notes.push(format!("{file}{line}: {object}: {}", note.to_string().replace(char::is_control, " ")));
    }
    match read.unknown {
        Some(mut fault) if reading.validate == Validate::Strict => {
            fault.remedy.push_str(", or pass --validate=warn to go on without it");
            return Err(at.complaint(fault, Care::Thorough));
        }
        Some(fault) => notes.push(at.complaint(fault, Care::Quick).to_string()),
        None if find_unknown => reading.remember(shape),
        None => {}
    }
    Ok(Read { objects: read.objects, notes })
}

/// A document's value, for commands that work on values.
pub fn read_value(file: &str, document: &Document) -> Result<Value, InputError> {
    match (&document.value, &document.text) {
        (Some(value), _) => Ok(value.clone()),
        (None, Some(text)) => {
            yaml_value::parse_yaml(text).map_err(|error| Place { file, document }.yaml_error(&error))
        }
        (None, None) => Ok(Value::Null),
    }
}

/// The line of a field of a document, for findings that are made later.
pub fn line_of(file: &str, document: &Document, path: &str) -> Option<usize> {
    match document.text {
        Some(_) => Place { file, document }.line(path),
        None => locate_json::line_in_file(file, document.item, path),
    }
}

struct Place<'a> {
    file: &'a str,
    document: &'a Document,
}

impl Place<'_> {
    fn line(&self, path: &str) -> Option<usize> {
        let start = self.document.line?;
        let text = self.document.text.as_deref()?;
        Some(start + locate::line_of(text, path)?.saturating_sub(1))
    }

    fn complaint(&self, fault: Fault, care: Care) -> InputError {
        let dot = if fault.within.is_empty() || fault.path.is_empty() || fault.path.starts_with('[') {
            ""
        } else {
            "."
        };
        let path = format!("{}{dot}{}", fault.within, fault.path);
        let line = match (&self.document.text, care) {
            (None, Care::Thorough) => locate_json::line_in_file(self.file, self.document.item, &path),
            _ => self.line(&path),
        };
        // Without a line the number of the item has to do.
        let file = match line {
            None if self.document.text.is_none() => {
                format!("{} (item {})", self.file, self.document.item + 1)
            }
            _ => self.file.to_owned(),
        };
        InputError {
            file,
            line,
            object: Some(one_line(&fault.object)).filter(|object| !object.is_empty()),
            path: Some(one_line(&fault.path)).filter(|path| !path.is_empty()),
            value: fault.value,
            message: one_line(&fault.message),
            remedy: Some(fault.remedy),
        }
    }

    fn yaml_error(&self, error: &serde_saphyr::Error) -> InputError {
        let start = self.document.line.unwrap_or(1);
        let line = error.location().map(|location| start + (location.line() as usize).saturating_sub(1));
        let (message, remedy) = yaml_value::told(error);
        InputError {
            file: self.file.to_owned(),
            line,
            message,
            remedy: Some(remedy.to_owned()),
            ..InputError::default()
        }
    }
}

/// How hard to look for a line: reading a JSON file again is fine before giving up, not for every remark.
#[derive(Clone, Copy)]
enum Care {
    Quick,
    Thorough,
}

/// The complaint of a deeper layer, with its place in the file.
pub fn place_problem(file: &str, document: &Document, problem: joiner_state::Problem) -> InputError {
    let joiner_state::Problem { object, path, value, message, remedy } = problem;
    // Which object of a list it was is known by its name only.
    let value_read = read_value(file, document).ok();
    let within = value_read.and_then(|value| joiner_manifest::place_in(&value, &object)).unwrap_or_default();
    let fault = Fault { object, within, path, value: Some(value), message, remedy };
    Place { file, document }.complaint(fault, Care::Thorough)
}
