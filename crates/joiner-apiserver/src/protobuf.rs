//! Bodies in protobuf, which Go clients send for built-in kinds.
//!
//! The server speaks JSON: it reads this form and never writes it, which clients accept. What number belongs to which field comes from
//! the published `generated.proto` files, packed in `data/protobuf.json.zst` and read at first use. Fields nobody knows are left out,
//! as the real server does.

mod go_order;
mod values;
mod wire;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use wire::{Field, Wire};

pub(crate) use go_order::written;

/// The media type of this form.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Every body begins with this.
const MAGIC: &[u8] = b"k8s\0";

/// Messages within messages: no kind comes near this.
const DEEPEST: usize = 64;

#[derive(Deserialize)]
struct Facts {
    /// `apps/v1/Deployment` → the name of its message.
    kinds: BTreeMap<String, String>,
    messages: BTreeMap<String, Vec<FieldFact>>,
}

/// Number, name and type of a field. Without a name its fields belong to the parent.
#[derive(Deserialize)]
struct FieldFact(u32, String, String);

static FACTS: LazyLock<Facts> = LazyLock::new(|| {
    let packed = include_bytes!("../data/protobuf.json.zst");
    let mut text = Vec::new();
    let facts = zstd::Decoder::new(packed.as_slice())
        .and_then(|mut decoder| decoder.read_to_end(&mut text))
        .ok()
        .and_then(|_| serde_json::from_slice(&text).ok());
    facts.expect("the packed facts are part of the program")
});

/// Reads a body.
///
/// # Errors
/// It is not protobuf, or of a kind that has no such form; the message is for the client.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let Some(envelope) = body.strip_prefix(MAGIC) else {
        return Err("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
            .to_owned());
    };
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Wire::new(envelope) {
        match field? {
            (1, Field::Bytes(bytes)) => {
                for field in Wire::new(bytes) {
                    match field? {
                        (1, Field::Bytes(text)) => api_version = values::text(text)?,
                        (2, Field::Bytes(text)) => kind = values::text(text)?,
                        _ => {}
                    }
                }
            }
            (2, Field::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let name = match (kind.as_str(), FACTS.kinds.get(&format!("{api_version}/{kind}"))) {
        (_, Some(name)) => name.as_str(),
        ("DeleteOptions", None) => "k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions",
        _ => return Err(format!("no kind {kind:?} is registered for version {api_version:?}")),
    };
    let mut object = message(name, raw, 0)?;
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    Ok(object)
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if depth > DEEPEST {
        return Err("exceeded max depth".to_owned());
    }
    if let Some(value) = values::special(name, bytes, depth)? {
        return Ok(value);
    }
    let facts = FACTS.messages.get(name).ok_or_else(|| format!("unknown message {name:?}"))?;
    if let [FieldFact(_, bare, kind)] = facts.as_slice()
        && bare == "[]"
    {
        let mut list = Vec::new();
        for field in Wire::new(bytes) {
            list.push(single(kind.trim_start_matches("[]"), field?.1, depth)?);
        }
        return Ok(Value::Array(list));
    }
    let mut object = Map::new();
    for field in Wire::new(bytes) {
        let (number, content) = field?;
        let Some(FieldFact(_, name, kind)) = facts.iter().find(|fact| fact.0 == number) else { continue };
        if name.is_empty() {
            if let Value::Object(inner) = single(kind, content, depth)? {
                object.extend(inner);
            }
        } else if let Some(kind) = kind.strip_prefix("[]") {
            let list = object.entry(name.as_str()).or_insert_with(|| Value::Array(Vec::new()));
            if let Some(list) = list.as_array_mut() {
                values::push(list, kind, content, depth)?;
            }
        } else if let Some(kind) = kind.strip_prefix("{}") {
            let (key, value) = entry(kind, content, depth)?;
            let map = object.entry(name.as_str()).or_insert_with(|| Value::Object(Map::new()));
            if let Some(map) = map.as_object_mut() {
                map.insert(key, value);
            }
        } else {
            object.insert(name.clone(), single(kind, content, depth)?);
        }
    }
    Ok(Value::Object(object))
}

/// An entry of a map is a message of key and value.
fn entry(kind: &str, content: Field<'_>, depth: usize) -> Result<(String, Value), String> {
    let Field::Bytes(bytes) = content else { return Err(values::mismatch(kind)) };
    let (mut key, mut value) = (String::new(), None);
    for field in Wire::new(bytes) {
        match field? {
            (1, Field::Bytes(text)) => key = values::text(text)?,
            (2, content) => value = Some(single(kind, content, depth)?),
            _ => {}
        }
    }
    // A value that is absent is the zero of its type.
    let value = match value {
        Some(value) => value,
        None if kind == "string" || kind == "bytes" => Value::String(String::new()),
        None => message(kind, &[], depth + 1)?,
    };
    Ok((key, value))
}

fn single(kind: &str, content: Field<'_>, depth: usize) -> Result<Value, String> {
    match values::scalar(kind, content)? {
        Some(value) => Ok(value),
        None => match content {
            Field::Bytes(bytes) => message(kind, bytes, depth + 1),
            _ => Err(values::mismatch(kind)),
        },
    }
}

#[cfg(test)]
mod tests;
