//! Values as rules see them: with the types that their schemas give them.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Value as Cel, functions};
use serde_json::{Number, Value};

use crate::formats;
use crate::place::Place;
use crate::schema_types::names_in_rules;

/// A value of a place in a schema.
pub(super) fn typed<P: Place>(place: &P, value: &Value) -> Cel {
    match value {
        Value::Number(number) if place.kind() == "number" => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) if place.kind() == "string" && !place.is_int_or_string() => {
            formatted(place.format(), text)
        }
        Value::Array(items) => {
            let item = |item| place.items().map_or_else(|| open(item), |place| typed(place, item));
            Cel::List(Arc::new(items.iter().map(item).collect()))
        }
        Value::Object(fields) => {
            // The keys of a map are data, and stay as they are.
            let is_map = place.is_map();
            let mut map = HashMap::with_capacity(fields.len());
            for (name, value) in fields {
                let value = place.member(name).map_or_else(|| open(value), |place| typed(place, value));
                if is_map {
                    map.insert(key(name.clone()), value);
                } else {
                    map.extend(names_in_rules(name).map(|name| (key(name), value.clone())));
                }
            }
            Cel::Map(Map { map: Arc::new(map) })
        }
        scalar => open(scalar),
    }
}

/// A value of which no schema says more.
fn open(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => number_of(number),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(open).collect())),
        Value::Object(fields) => {
            let named = |(name, value): (&String, &Value)| {
                let value = open(value);
                names_in_rules(name).map(move |name| (key(name), value.clone())).collect::<Vec<_>>()
            };
            Cel::Map(Map { map: Arc::new(fields.iter().flat_map(named).collect()) })
        }
    }
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

fn number_of(number: &Number) -> Cel {
    match number.as_i64() {
        Some(number) => Cel::Int(number),
        None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// A text of a format; what does not have it stays a text.
fn formatted(format: &str, text: &str) -> Cel {
    let read = match format {
        "byte" => STANDARD.decode(text).ok().map(|bytes| Cel::Bytes(Arc::new(bytes))),
        "duration" => formats::nanoseconds(text).and_then(duration),
        "date" => timestamp(format!("{text}T00:00:00Z")),
        "date-time" => timestamp(text.to_owned()),
        _ => None,
    };
    read.unwrap_or_else(|| Cel::String(Arc::new(text.to_owned())))
}

/// The library has types of its own for times, and reads them from texts.
pub(super) fn timestamp(text: String) -> Option<Cel> {
    functions::timestamp(Arc::new(text)).ok()
}

pub(super) fn duration(nanoseconds: i64) -> Option<Cel> {
    functions::duration(Arc::new(format!("{nanoseconds}ns"))).ok()
}
