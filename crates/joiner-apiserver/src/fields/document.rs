//! JSON as it was written: members in order, repeated ones included.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

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
    /// If the text is no JSON.
    pub fn parse(text: &str) -> Result<Document, serde_json::Error> {
        serde_json::from_str(text)
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

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
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
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Document::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Document, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Document::Object(entries))
    }
}
