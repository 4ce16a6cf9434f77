//! JSON as it was written: members in order, repeated ones included.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Brackets within brackets that are read. Whoever walks through a value may do so on the stack of a thread that answers requests.
///
/// Kubernetes reads 10,000 of them; what clients of all languages read, and what becomes readable again when the record of its owners is
/// added, is less.
pub(crate) const MOST_NESTED: usize = 120;

/// How deeply brackets stand within each other in a value.
pub(crate) fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

fn deeper<E: Error>(depth: usize) -> Result<usize, E> {
    if depth == MOST_NESTED { Err(E::custom("exceeded max depth")) } else { Ok(depth + 1) }
}

/// A JSON document that remembers order and repetitions.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Document>),
    /// An object: members as they came.
    Object(Vec<(String, Document)>),
}

impl Document {
    /// Reads JSON text.
    ///
    /// # Errors
    ///
    /// If the text is no JSON, or nests too deeply.
    pub fn parse(text: &str) -> Result<Document, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let document = DocumentReader { depth: 0 }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(document)
    }

    /// The value: of repeated members the last counts.
    pub fn to_value(&self) -> Value {
        match self {
            Document::Null => Value::Null,
            Document::Bool(value) => Value::Bool(*value),
            Document::Number(value) => Value::Number(value.clone()),
            Document::String(value) => Value::String(value.clone()),
            Document::Array(items) => Value::Array(items.iter().map(Document::to_value).collect()),
            Document::Object(entries) => {
                Value::Object(entries.iter().map(|(name, value)| (name.clone(), value.to_value())).collect())
            }
        }
    }
}

impl From<&Value> for Document {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Document::Null,
            Value::Bool(value) => Document::Bool(*value),
            Value::Number(value) => Document::Number(value.clone()),
            Value::String(value) => Document::String(value.clone()),
            Value::Array(items) => Document::Array(items.iter().map(Document::from).collect()),
            Value::Object(map) => {
                Document::Object(map.iter().map(|(name, value)| (name.clone(), value.into())).collect())
            }
        }
    }
}

/// What stands at a place of a tree of JSON.
#[derive(Debug, Clone, Copy)]
pub(super) enum Leaf<'a> {
    Null,
    Bool,
    Number(&'a Number),
    String(&'a str),
    Array,
    Object,
}

/// JSON in memory, in one form or another.
pub(super) trait Tree: Sized {
    /// Whether an object may have a member twice.
    const MAY_REPEAT: bool;

    /// What it is.
    fn leaf(&self) -> Leaf<'_>;

    /// The items of an array.
    fn items(&self) -> &[Self];

    /// The members of an object.
    fn entries(&self) -> impl Iterator<Item = (&str, &Self)>;
}

impl Tree for Document {
    const MAY_REPEAT: bool = true;

    fn leaf(&self) -> Leaf<'_> {
        match self {
            Document::Null => Leaf::Null,
            Document::Bool(_) => Leaf::Bool,
            Document::Number(number) => Leaf::Number(number),
            Document::String(text) => Leaf::String(text),
            Document::Array(_) => Leaf::Array,
            Document::Object(_) => Leaf::Object,
        }
    }

    fn items(&self) -> &[Self] {
        match self {
            Document::Array(items) => items,
            _ => &[],
        }
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &Self)> {
        let entries = match self {
            Document::Object(entries) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Tree for Value {
    const MAY_REPEAT: bool = false;

    fn leaf(&self) -> Leaf<'_> {
        match self {
            Value::Null => Leaf::Null,
            Value::Bool(_) => Leaf::Bool,
            Value::Number(number) => Leaf::Number(number),
            Value::String(text) => Leaf::String(text),
            Value::Array(_) => Leaf::Array,
            Value::Object(_) => Leaf::Object,
        }
    }

    fn items(&self) -> &[Self] {
        match self {
            Value::Array(items) => items,
            _ => &[],
        }
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
    }
}

/// Reads JSON text as a value, and tells whether a member stands there twice: then the last counts, and a [`Document`] knows more.
///
/// # Errors
///
/// If the text is no JSON, or nests too deeply.
pub fn parse_value(text: &str) -> Result<(Value, bool), serde_json::Error> {
    let repeats = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = ValueReader { repeats: &repeats, depth: 0 }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, repeats.get()))
}

#[derive(Clone, Copy)]
struct ValueReader<'a> {
    repeats: &'a Cell<bool>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for ValueReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueReader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
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
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = Self { depth: deeper(self.depth)?, ..self };
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = Self { depth: deeper(self.depth)?, ..self };
        let mut map = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = access.next_value_seed(inner)?;
            if map.insert(name, value).is_some() {
                self.repeats.set(true);
            }
        }
        Ok(Value::Object(map))
    }
}

#[derive(Clone, Copy)]
struct DocumentReader {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for DocumentReader {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentReader {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Document, E> {
        Ok(Document::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Document, E> {
        Ok(Document::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Document, E> {
        Ok(Document::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Document, E> {
        Ok(Document::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Document, E> {
        Ok(Number::from_f64(value).map_or(Document::Null, Document::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Document, E> {
        Ok(Document::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Document, E> {
        Ok(Document::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Document, A::Error> {
        let inner = Self { depth: deeper(self.depth)? };
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Document::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Document, A::Error> {
        let inner = Self { depth: deeper(self.depth)? };
        let mut entries = Vec::new();
        while let Some(name) = access.next_key()? {
            entries.push((name, access.next_value_seed(inner)?));
        }
        Ok(Document::Object(entries))
    }
}
