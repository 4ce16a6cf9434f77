//! Cutting a stream into documents.
//!
//! YAML is cut at `---` lines. JSON is read value by value, and a top-level list (`"kind": "List"`, as `kubectl get -o json`
//! prints it) item by item. Either way one document is in memory at a time, and one document may not exceed
//! [`DOCUMENT_BYTES_MAX`](super::DOCUMENT_BYTES_MAX).

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

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
            let mut reader = BufReader::with_capacity(1 << 16, source.open()?);
            let name = source.name();
            let mut counted = |document: Document| {
                count += 1;
                each(document)
            };
            match first_byte(&mut reader, &name)? {
                Some(b'{' | b'[') => json(reader, at, &name, &mut counted)?,
                Some(_) => yaml(reader, at, &name, &mut counted)?,
                None => {}
            }
            if count == 0 {
                let remedy = "give a file with at least one Kubernetes object";
                return Err(InputError::of_file(&name, "there is nothing in it", remedy));
            }
        }
        Ok(())
    }
}

/// The first byte that is no white space, left in the reader.
fn first_byte(reader: &mut impl BufRead, name: &str) -> Result<Option<u8>, InputError> {
    loop {
        let buffer = reader.fill_buf().map_err(|error| read_error(name, &error))?;
        if buffer.is_empty() {
            return Ok(None);
        }
        match buffer.iter().position(|b| !b.is_ascii_whitespace()) {
            // White space before YAML matters only in its first line; a JSON document has none to lose.
            Some(at) => return Ok(Some(buffer[at])),
            None => {
                let blank = buffer.len();
                reader.consume(blank);
            }
        }
    }
}

fn read_error(name: &str, error: &io::Error) -> InputError {
    InputError::of_file(name, format!("it can't be read: {error}"), "check the file")
}

fn too_large(name: &str, line: Option<usize>) -> InputError {
    InputError {
        file: name.to_owned(),
        line,
        message: format!("a single document is larger than {} MiB", DOCUMENT_BYTES_MAX >> 20),
        remedy: Some("split it: one object per document".to_owned()),
        ..InputError::default()
    }
}

// ---- YAML ----

fn yaml(
    mut reader: impl BufRead,
    source: usize,
    name: &str,
    each: &mut dyn FnMut(Document) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let mut text = String::new();
    let mut line_bytes = Vec::new();
    let (mut line, mut start, mut item) = (0usize, 1usize, 0usize);
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

/// Reads a YAML document as a value.
pub fn parse_yaml(text: &str) -> Result<Value, serde_saphyr::Error> {
    // kubectl reads YAML 1.1: `0644` is octal.
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { legacy_octal_numbers: true })
}

// ---- JSON ----

fn json(
    reader: impl Read,
    source: usize,
    name: &str,
    each: &mut dyn FnMut(Document) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let meter = Meter::default();
    let reader = BufReader::with_capacity(1 << 16, Metered { inner: reader, meter: meter.clone() });
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let mut failure = None;
    let mut item = 0;
    loop {
        if deserializer.end().is_ok() {
            return Ok(());
        }
        let mut sink = |value: Value| {
            meter.restart();
            let document = Document { source, line: None, item, text: None, value: Some(value) };
            item += 1;
            each(document).map_err(|error| failure = Some(error)).is_ok()
        };
        let outcome = TopLevel { sink: &mut sink }.deserialize(&mut deserializer);
        if let Err(error) = outcome {
            if let Some(error) = failure {
                return Err(error);
            }
            if meter.exceeded() {
                return Err(too_large(name, Some(error.line())));
            }
            return Err(InputError {
                file: name.to_owned(),
                line: Some(error.line()).filter(|line| *line > 0),
                message: format!("this is not valid JSON: {}", without_position(&error.to_string())),
                remedy: Some("check the file at this line".to_owned()),
                ..InputError::default()
            });
        }
    }
}

fn without_position(message: &str) -> &str {
    message.split(" at line ").next().unwrap_or(message)
}

/// A value at the top: handed out whole, or item by item if it is a list.
struct TopLevel<'a> {
    sink: &'a mut dyn FnMut(Value) -> bool,
}

impl<'de> DeserializeSeed<'de> for TopLevel<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TopLevel<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a Kubernetes object or a list of them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(value) = items.next_element::<Value>()? {
            if !(self.sink)(value) {
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut object = serde_json::Map::new();
        let mut streamed = false;
        while let Some(key) = map.next_key::<String>()? {
            // `items` of an object that has no spec is a list's; anything else keeps it as an ordinary field.
            if key == "items" && !object.contains_key("spec") && !object.contains_key("data") {
                streamed = true;
                map.next_value_seed(Items { sink: &mut *self.sink })?;
            } else if streamed {
                map.next_value::<IgnoredAny>()?;
            } else {
                object.insert(key, map.next_value()?);
            }
        }
        if !streamed && !(self.sink)(Value::Object(object)) {
            return Err(serde::de::Error::custom("stopped"));
        }
        Ok(())
    }
}

struct Items<'a> {
    sink: &'a mut dyn FnMut(Value) -> bool,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(TopLevel { sink: self.sink })
    }
}

/// Bytes read since the last document.
#[derive(Clone, Default)]
struct Meter(Rc<Cell<usize>>);

impl Meter {
    fn restart(&self) {
        self.0.set(0);
    }

    fn exceeded(&self) -> bool {
        self.0.get() > DOCUMENT_BYTES_MAX
    }
}

struct Metered<R> {
    inner: R,
    meter: Meter,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.meter.exceeded() {
            return Err(io::Error::other("document too large"));
        }
        let read = self.inner.read(buffer)?;
        self.meter.0.set(self.meter.0.get() + read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut reader = BufReader::new(text.as_bytes());
        match first_byte(&mut reader, "f")? {
            Some(b'{' | b'[') => json(reader, 0, "f", &mut each)?,
            Some(_) => yaml(reader, 0, "f", &mut each)?,
            None => {}
        }
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
    fn numbers_are_read_as_kubectl_reads_them() {
        let value = parse_yaml("mode: 0644\nflag: yes\nport: 8080").expect("well-formed");
        assert_eq!(value, serde_json::json!({"mode": 420, "flag": true, "port": 8080}));
    }

    #[test]
    fn json_lists_are_handed_out_item_by_item() {
        let text = r#"{"apiVersion":"v1","items":[{"kind":"Pod"},{"kind":"Node"}],"kind":"List"} {"kind":"Pod","spec":{}}"#;
        let documents = cut(text).expect("well-formed");
        assert_eq!(documents.len(), 3);
        assert_eq!(documents[1].1, r#"{"kind":"Node"}"#);
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
