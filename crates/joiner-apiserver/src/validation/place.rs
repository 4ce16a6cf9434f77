//! Places in objects. They are spelled out only where something is wrong, so that judging a good object costs no text.

use std::fmt;

use serde_json::Value;

/// A place in an object.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Where the judging begins, `spec.template.spec`.
    Start(&'a str),
    /// A field of a place.
    Field(&'a Place<'a>, &'a str),
    /// An element of a list.
    Index(&'a Place<'a>, usize),
    /// An entry of a map.
    Key(&'a Place<'a>, &'a str),
}

impl<'a> Place<'a> {
    pub(super) fn field(&'a self, name: &'a str) -> Place<'a> {
        Place::Field(self, name)
    }

    pub(super) fn index(&'a self, index: usize) -> Place<'a> {
        Place::Index(self, index)
    }

    pub(super) fn key(&'a self, key: &'a str) -> Place<'a> {
        Place::Key(self, key)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Start(text) => f.write_str(text),
            Place::Field(of, name) => write!(f, "{of}.{name}"),
            Place::Index(of, index) => write!(f, "{of}[{index}]"),
            Place::Key(of, key) => write!(f, "{of}[{key}]"),
        }
    }
}

impl From<Place<'_>> for String {
    fn from(place: Place<'_>) -> Self {
        place.to_string()
    }
}

/// The elements of a list, none for anything else.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text, empty for anything else.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
