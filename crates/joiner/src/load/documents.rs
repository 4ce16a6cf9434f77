//! Cutting a stream into documents.
//!
//! YAML is cut at `---` lines. JSON is read value by value, and a top-level list (`"kind": "List"`, as `kubectl get -o json`
//! prints it) item by item; what begins like JSON and is not (`{apiVersion: v1, …}`) is read as YAML. Either way one document is in memory at a time, and one document may not exceed
//! [`DOCUMENT_BYTES_MAX`](super::DOCUMENT_BYTES_MAX).

use std::io::{self, BufRead, BufReader, Cursor, Read};

use serde_json::Value;

use super::json::json;
use super::{DOCUMENT_BYTES_MAX, Source};
use crate::report::InputError;

/// One document with its place.
#[derive(Debug, Clone)]
pub struct Document {
    /// Number of its source, in the order of the arguments.
    pub source: usize,
    /// First line, from 1; for items of a JSON list unknown until asked for.
    pub line: Option<usize>,
    /// Item number within a JSON stream, from 0.
    pub item: usize,
    /// The text, for YAML.
    pub text: Option<String>,
    /// The value, for JSON.
    pub value: Option<Value>,
}

/// Hands out the documents of all sources in order.
pub struct Documents<'a> {
    sources: &'a [Source],
}

impl<'a> Documents<'a> {
    /// Over these sources.
    pub fn new(sources: &'a [Source]) -> Self {
        Self { sources }
    }

    /// Calls `each` with every document; an error ends the reading.
    pub fn for_each(
        &self,
        each: &mut dyn FnMut(Document) -> Result<(), InputError>,
    ) -> Result<(), InputError> {
        for (at, source) in self.sources.iter().enumerate() {
            let mut count = 0;
            let name = source.name();
            cut(source.open()?, at, &name, &mut |document| {
                count += 1;
                each(document)
            })?;
            if count == 0 {
                let remedy = "give a file with at least one Kubernetes object";
                return Err(InputError::of_file(&name, "there is nothing in it", remedy));
            }
        }
        Ok(())
    }
}

/// Cuts one stream into documents; `name` is what complaints call it.
pub fn cut(
    reader: impl Read,
    source: usize,
    name: &str,
    each: &mut dyn FnMut(Document) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let (blank, first) = first_byte(&mut reader, name)?;
    // What was skipped is handed on: lines are counted from the start, and the first line of YAML may be indented.
    let reader = Cursor::new(blank).chain(reader);
    match first {
        Some(b'{' | b'[') => json(reader, source, name, each),
        Some(_) => yaml(reader, source, name, Start::default(), each),
        None => Ok(()),
    }
}

/// The first byte that is no white space, left in the reader, and whole buffers of white space taken out before it.
fn first_byte(reader: &mut impl BufRead, name: &str) -> Result<(Vec<u8>, Option<u8>), InputError> {
    let mut blank = Vec::new();
    loop {
        let buffer = reader.fill_buf().map_err(|error| read_error(name, &error))?;
        if buffer.is_empty() {
            return Ok((blank, None));
        }
        match buffer.iter().find(|b| !b.is_ascii_whitespace()) {
            Some(first) => return Ok((blank, Some(*first))),
            None if blank.len() > DOCUMENT_BYTES_MAX => return Err(too_large(name, Some(1))),
            None => {
                blank.extend_from_slice(buffer);
                let taken = buffer.len();
                reader.consume(taken);
            }
        }
    }
}

pub(super) fn read_error(name: &str, error: &io::Error) -> InputError {
    InputError::of_file(name, format!("it can't be read: {error}"), "check the file")
}

pub(super) fn too_large(name: &str, line: Option<usize>) -> InputError {
    InputError {
        file: name.to_owned(),
        line,
        message: format!("a single document is larger than {} MiB", DOCUMENT_BYTES_MAX >> 20),
        remedy: Some("split it: one object per document".to_owned()),
        ..InputError::default()
    }
}

// ---- YAML ----

/// Where in a source a part of it begins.
#[derive(Clone, Copy)]
pub(super) struct Start {
    /// First line, from 1.
    pub line: usize,
    /// How many documents came before.
    pub item: usize,
}

impl Default for Start {
    fn default() -> Self {
        Self { line: 1, item: 0 }
    }
}

pub(super) fn yaml(
    mut reader: impl BufRead,
    source: usize,
    name: &str,
    from: Start,
    each: &mut dyn FnMut(Document) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let mut text = String::new();
    let mut line_bytes = Vec::new();
    let (mut line, mut start, mut item) = (from.line.saturating_sub(1), from.line, from.item);
    loop {
        line_bytes.clear();
        // A line without an end is cut off by the same limit as a document.
        let read = (&mut reader)
            .take(DOCUMENT_BYTES_MAX as u64 + 1)
            .read_until(b'\n', &mut line_bytes)
            .map_err(|error| read_error(name, &error))?;
        line += 1;
        let ends = read == 0;
        let cuts = !ends && is_separator(&line_bytes);
        if ends || cuts {
            if has_content(&text) {
                let document = Document {
                    source,
                    line: Some(start),
                    item,
                    text: Some(std::mem::take(&mut text)),
                    value: None,
                };
                item += 1;
                each(document)?;
            }
            text.clear();
            start = line + 1;
            if ends {
                return Ok(());
            }
            // `--- # comment` or `--- {inline}`: what follows on the line belongs to the document.
            let rest = line_bytes.get(3..).unwrap_or_default();
            if rest.iter().any(|b| !b.is_ascii_whitespace()) {
                start = line;
                text.push_str("   ");
                push_text(&mut text, rest, name, line)?;
            }
            continue;
        }
        push_text(&mut text, &line_bytes, name, line)?;
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(too_large(name, Some(start)));
        }
    }
}

fn push_text(text: &mut String, bytes: &[u8], name: &str, line: usize) -> Result<(), InputError> {
    match std::str::from_utf8(bytes) {
        Ok(part) if !part.contains('\0') => {
            text.push_str(part);
            Ok(())
        }
        _ => Err(InputError {
            file: name.to_owned(),
            line: Some(line),
            message: "this is not text: neither YAML nor JSON".to_owned(),
            remedy: Some("give a manifest file in UTF-8".to_owned()),
            ..InputError::default()
        }),
    }
}

fn is_separator(line: &[u8]) -> bool {
    line.starts_with(b"---") && line.get(3).is_none_or(u8::is_ascii_whitespace)
}

fn has_content(text: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "..." && !line.starts_with('%')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that gives a few bytes at a time, small texts only.
    struct Dribble<'a>(&'a [u8]);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = if self.0.len() > 1000 { buffer.len() } else { 2.min(buffer.len()) };
            self.0.read(&mut buffer[..most])
        }
    }

    fn cut(text: &str) -> Result<Vec<(Option<usize>, String)>, InputError> {
        let mut out = Vec::new();
        let mut each = |document: Document| {
            let shown = match (document.text, document.value) {
                (Some(text), _) => text.trim().to_owned(),
                (_, Some(value)) => value.to_string(),
                _ => String::new(),
            };
            out.push((document.line, shown));
            Ok(())
        };
        super::cut(Dribble(text.as_bytes()), 0, "f", &mut each)?;
        Ok(out)
    }

    #[test]
    fn yaml_is_cut_at_separators_and_keeps_its_lines() {
        let documents =
            cut("# head\n---\na: 1\n---\n\n# nothing here\n---  # note\nb: 2\n---\n").expect("well-formed");
        let places: Vec<_> = documents.iter().map(|(line, _)| *line).collect();
        assert_eq!(places, [Some(3), Some(7)]);
        assert_eq!(documents[0].1, "a: 1");
    }

    #[test]
    fn white_space_at_the_start_counts() {
        let documents = cut("\n\n\n\n  a: 1\n  b: 2\n").expect("well-formed");
        assert_eq!(documents, [(Some(1), "a: 1\n  b: 2".to_owned())]);
        assert_eq!(cut("\n\n\n\n{\"a\":\n ]").expect_err("broken").line, Some(6));
    }

    #[test]
    fn json_lists_are_handed_out_item_by_item() {
        let text = r#"{"apiVersion":"v1","items":[{"kind":"Pod"},{"kind":"Node"}],"kind":"List"} {"kind":"Pod","spec":{}}"#;
        let documents = cut(text).expect("well-formed");
        assert_eq!(documents.len(), 3);
        assert_eq!(documents[1].1, r#"{"kind":"Node"}"#);
    }

    #[test]
    fn yaml_that_begins_like_json_is_yaml() {
        let flow = "\n{apiVersion: v1,\n kind: Pod}\n---\na: 1\n";
        let documents = cut(flow).expect("well-formed");
        assert_eq!(
            documents,
            [(Some(1), "{apiVersion: v1,\n kind: Pod}".to_owned()), (Some(5), "a: 1".to_owned())]
        );
        assert_eq!(cut("[{a: 1}, {b: 2}]").expect("well-formed").len(), 1);
        assert_eq!(cut("{\"a\": b}").expect("well-formed")[0].1, "{\"a\": b}");
    }

    #[test]
    fn json_between_separators_is_cut() {
        let documents = cut("{\"a\": 1}\n---\n{\"b\": 2}\n---\nc: 3\n").expect("well-formed");
        assert_eq!(
            documents,
            [
                (None, "{\"a\":1}".to_owned()),
                (Some(3), "{\"b\": 2}".to_owned()),
                (Some(5), "c: 3".to_owned())
            ]
        );
        assert!(cut("{\"a\": 1}\n]").expect_err("broken").message.contains("not valid JSON"));
    }

    #[test]
    fn broken_json_and_binary_are_named() {
        assert!(cut("{\"a\":\n ]").expect_err("broken").message.contains("not valid JSON"));
        assert!(cut("a: \u{0}b").expect_err("binary").message.contains("not text"));
    }

    #[test]
    fn a_runaway_document_is_refused() {
        let text = format!("a: {}", "x".repeat(DOCUMENT_BYTES_MAX + 1));
        assert!(cut(&text).expect_err("too large").message.contains("larger than 16 MiB"));
        let text = format!("{{\"a\": \"{}\"}}", "x".repeat(DOCUMENT_BYTES_MAX + (1 << 18)));
        assert!(cut(&text).expect_err("too large").message.contains("larger than 16 MiB"));
    }
}
