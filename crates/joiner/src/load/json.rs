//! Reading JSON as a stream: value by value, and a list (`"kind": "List"`, as `kubectl get -o json` prints it) item by item.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Cursor, Read};
use std::rc::Rc;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;

use super::documents::{Start, too_large, yaml};
use super::yaml_value::parse_yaml;
use super::{DOCUMENT_BYTES_MAX, Document};
use crate::report::InputError;

/// Reads JSON value by value, the items of a list one by one. What turns out to be YAML is handed on to be read as that: a text whose
/// first value only begins like JSON, and what follows a value behind a `---` line.
pub(super) fn json(
    reader: impl Read,
    source: usize,
    name: &str,
    each: &mut dyn FnMut(Document) -> Result<(), InputError>,
) -> Result<(), InputError> {
    let meter = Meter::default();
    let reader = BufReader::with_capacity(1 << 16, Metered { inner: reader, meter: meter.clone() });
    let mut reader = Kept { inner: reader, meter: meter.clone(), start: Vec::new() };
    let (start, error) = match values(&mut reader, &meter, source, name, each)? {
        End::Reached => return Ok(()),
        // Looking for the next value took the first byte out of the reader.
        End::Separator(start) => {
            let rest = Cursor::new(b"-").chain(reader.inner);
            return yaml(rest, source, name, start, each);
        }
        // Who calls a file JSON means it.
        End::NotJson(_, error) if name.ends_with(".json") => return Err(error),
        End::NotJson(start, error) => (start, error),
    };
    let mut inside = reader.start.iter().filter(|byte| !byte.is_ascii_whitespace()).skip(1);
    let looks_like_json = matches!(inside.next(), Some(b'"' | b'{' | b'}'));
    let rest = Cursor::new(reader.start).chain(reader.inner);
    // Of what is neither, the complaint is that of the format it looks like.
    let mut is_yaml = !looks_like_json;
    let outcome = yaml(rest, source, name, start, &mut |document| {
        is_yaml = is_yaml || document.text.as_deref().is_some_and(|text| parse_yaml(text).is_ok());
        if is_yaml { each(document) } else { Err(InputError::default()) }
    });
    if is_yaml { outcome } else { Err(error) }
}

/// Where reading values ended.
enum End {
    Reached,
    /// At a `-` between values.
    Separator(Start),
    /// In the first value, with nothing handed out.
    NotJson(Start, InputError),
}

fn values<R: Read>(
    reader: &mut Kept<R>,
    meter: &Meter,
    source: usize,
    name: &str,
    each: &mut dyn FnMut(Document) -> Result<(), InputError>,
) -> Result<End, InputError> {
    let last = Rc::new(Cell::new(0));
    let watched = Watched { inner: reader, last: last.clone() };
    let mut deserializer = serde_json::Deserializer::from_reader(watched);
    let mut failure = None;
    let mut item = 0;
    loop {
        let Err(more) = deserializer.end() else { return Ok(End::Reached) };
        if item > 0 && last.get() == b'-' {
            return Ok(End::Separator(Start { line: more.line(), item }));
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
            let told = unreadable(name, &error);
            let other_syntax = error.classify() == Category::Syntax && !is_too_deep(&error);
            if other_syntax && item == 0 {
                return Ok(End::NotJson(Start::default(), told));
            }
            return Err(told);
        }
    }
}

fn is_too_deep(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("recursion limit exceeded")
}

fn unreadable(name: &str, error: &serde_json::Error) -> InputError {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    let (message, remedy) = match error.classify() {
        Category::Data if text.ends_with(TWICE) => (text.to_owned(), "keep one of them"),
        Category::Data => {
            ("this is no Kubernetes object".to_owned(), "every object names its `apiVersion` and `kind`")
        }
        Category::Io => (format!("it can't be read: {text}"), "check the file"),
        Category::Eof => {
            ("this is not valid JSON: it ends too early".to_owned(), "check whether the file is whole")
        }
        Category::Syntax if is_too_deep(error) => {
            ("it is nested more than 127 levels deep".to_owned(), "no Kubernetes object is: check the file")
        }
        Category::Syntax => (format!("this is not valid JSON: {text}"), "check the file at this line"),
    };
    InputError {
        file: name.to_owned(),
        line: Some(error.line()).filter(|line| *line > 0),
        message,
        remedy: Some(remedy.to_owned()),
        ..InputError::default()
    }
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
        while let Some(value) = items.next_element_seed(Strict)? {
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
                insert(&mut object, key, &mut map)?;
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

/// A value whose maps have no key twice: which of the two counts would be anybody's guess.
struct Strict;

const TWICE: &str = "` is there twice";

fn insert<'de, A: MapAccess<'de>>(
    object: &mut serde_json::Map<String, Value>,
    key: String,
    map: &mut A,
) -> Result<(), A::Error> {
    if object.contains_key(&key) {
        return Err(serde::de::Error::custom(format_args!(
            "the key `{}{TWICE}",
            joiner_manifest::one_line(&key)
        )));
    }
    let value = map.next_value_seed(Strict)?;
    object.insert(key, value);
    Ok(())
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some(key) = map.next_key::<String>()? {
            insert(&mut object, key, &mut map)?;
        }
        Ok(Value::Object(object))
    }
}

/// Bytes read since the last document, and whether there was one.
#[derive(Clone, Default)]
struct Meter(Rc<Cell<usize>>, Rc<Cell<bool>>);

impl Meter {
    fn restart(&self) {
        self.0.set(0);
        self.1.set(true);
    }

    fn exceeded(&self) -> bool {
        self.0.get() > DOCUMENT_BYTES_MAX
    }

    fn has_document(&self) -> bool {
        self.1.get()
    }
}

/// Keeps what was read before the first document.
struct Kept<R> {
    inner: R,
    meter: Meter,
    start: Vec<u8>,
}

impl<R: Read> Read for Kept<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if !self.meter.has_document() {
            self.start.extend_from_slice(&buffer[..read]);
        } else if !self.start.is_empty() {
            self.start = Vec::new();
        }
        Ok(read)
    }
}

/// Remembers the last byte that was read.
struct Watched<'a, R> {
    inner: &'a mut Kept<R>,
    last: Rc<Cell<u8>>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if let Some(last) = buffer[..read].last() {
            self.last.set(*last);
        }
        Ok(read)
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
