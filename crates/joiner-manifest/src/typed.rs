//! Reading one kind, and finding the field at fault when that fails.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, Hasher};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Fault, name_of, quantities, unknown, words};

/// Reads a value as a kind; `lost` gets the first field the kind does not have.
pub fn typed<T: DeserializeOwned + Serialize>(
    value: &Value,
    lost: Option<&mut Option<Fault>>,
) -> Result<Box<T>, Fault> {
    let mut value = Cow::Borrowed(value);
    if quantities::has_numbers(&value) {
        quantities::spell(value.to_mut());
    }
    let object =
        T::deserialize(value.as_ref()).map_err(|error| wrong_type::<T>(&value, &error.to_string()))?;
    if let Some(lost) = lost
        && let Ok(back) = serde_json::to_value(&object)
    {
        let write_back =
            |trial: &Value| T::deserialize(trial).ok().and_then(|object| serde_json::to_value(&object).ok());
        *lost = unknown::first_unknown(&value, &back, &write_back);
    }
    Ok(Box::new(object))
}

/// A number that is equal for values of the same kind with the same fields, whatever stands in them.
pub fn shape(value: &Value) -> u64 {
    let mut hasher = foldhash::fast::FixedState::with_seed(1).build_hasher();
    hash_fields(value, &mut hasher);
    hasher.finish()
}

fn hash_fields(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Object(map) => {
            1u8.hash(hasher);
            for (key, inner) in map {
                key.hash(hasher);
                match inner {
                    // The kind decides which fields there are.
                    Value::String(text) if key == "kind" || key == "apiVersion" => text.hash(hasher),
                    _ => hash_fields(inner, hasher),
                }
            }
            2u8.hash(hasher);
        }
        Value::Array(items) => {
            3u8.hash(hasher);
            for item in items {
                hash_fields(item, hasher);
            }
            4u8.hash(hasher);
        }
        Value::Null => 5u8.hash(hasher),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => 6u8.hash(hasher),
    }
}

pub fn join(path: &str, key: &str) -> String {
    format!("{path}{}", step_to(key, path.is_empty()))
}

fn step_to(key: &str, first: bool) -> String {
    let plain = !key.contains(['.', '[', ']', '/']);
    match (first, plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!(".{key}"),
        (_, false) => format!("[{key}]"),
    }
}

/// Looks for the part of a value that can't be read.
fn wrong_type<T: DeserializeOwned>(value: &Value, error: &str) -> Fault {
    let complains = |trial: &Value| T::deserialize(trial).is_err_and(|other| other.to_string() == error);
    if let Some(field) = words::missing_field(error) {
        return missing(value, field, &complains);
    }
    // Reading goes through the fields in order and stops at the first that is wrong. So a value cut off behind the culprit is
    // refused with the same words, and a value cut off before it is not.
    let (mut low, mut high) = (0, count(value));
    while low < high {
        let middle = low + (high - low) / 2;
        let mut left = middle;
        if complains(&first_parts(value, &mut left)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let mut path = String::new();
    path_of(value, &mut low, &mut path);
    let given = value_at(value, &path);
    Fault {
        object: name_of(value),
        remedy: words::way_out(error, given.as_deref().unwrap_or_default()),
        value: given,
        path,
        message: words::plainly(error),
        ..Fault::default()
    }
}

/// Where a field is missing: the one place where the complaint is another one if the field is there.
fn missing(value: &Value, field: &str, complains: &dyn Fn(&Value) -> bool) -> Fault {
    let mut found: Option<(String, Option<String>)> = None;
    let parts = count(value);
    for at in 0..=parts {
        let mut path = String::new();
        path_of(value, &mut at.clone(), &mut path);
        let mut trial = value.clone();
        let Some(Value::Object(map)) = part_mut(&mut trial, &mut at.clone()) else { continue };
        if map.contains_key(field) {
            continue;
        }
        let near = joiner_core::explain::nearest(field, map.keys().map(String::as_str)).map(str::to_owned);
        // Labels and the like take any key: there a field that nobody has makes a difference too.
        let mut control = value.clone();
        if let Some(Value::Object(map)) = part_mut(&mut control, &mut at.clone()) {
            map.insert("\0".to_owned(), Value::Null);
        }
        map.insert(field.to_owned(), Value::Null);
        if !complains(&trial) && complains(&control) {
            found = Some((path, near));
            break;
        }
    }
    let (path, near) = found.unwrap_or_default();
    Fault {
        object: name_of(value),
        path: join(&path, field),
        value: None,
        message: "this field is missing".to_owned(),
        remedy: match near {
            Some(near) => format!("add it; is `{}` meant to be it?", words::one_line(&near)),
            None => "add it".to_owned(),
        },
        ..Fault::default()
    }
}

/// How many parts a value has below itself. They are numbered in the order in which they are read; number 0 is the value.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.values().map(|inner| 1 + count(inner)).sum(),
        Value::Array(items) => items.iter().map(|inner| 1 + count(inner)).sum(),
        _ => 0,
    }
}

/// A value with its first so many parts and no others.
fn first_parts(value: &Value, left: &mut usize) -> Value {
    let mut next = |inner: &Value| {
        *left = left.checked_sub(1)?;
        Some(first_parts(inner, left))
    };
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().map_while(|(key, inner)| Some((key.clone(), next(inner)?))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map_while(next).collect()),
        plain => plain.clone(),
    }
}

/// The path of the part with a number; true once it is found.
fn path_of(value: &Value, number: &mut usize, path: &mut String) -> bool {
    if *number == 0 {
        return true;
    }
    let here = path.len();
    let mut visit = |step: String, inner: &Value| {
        *number -= 1;
        path.truncate(here);
        path.push_str(&step);
        path_of(inner, number, path)
    };
    match value {
        Value::Object(map) => map.iter().any(|(key, inner)| visit(step_to(key, here == 0), inner)),
        Value::Array(items) => items.iter().enumerate().any(|(at, inner)| visit(format!("[{at}]"), inner)),
        _ => false,
    }
}

/// The part with a number.
fn part_mut<'v>(value: &'v mut Value, number: &mut usize) -> Option<&'v mut Value> {
    if *number == 0 {
        return Some(value);
    }
    let mut visit = |inner: &'v mut Value| {
        *number -= 1;
        part_mut(inner, number)
    };
    match value {
        Value::Object(map) => map.values_mut().find_map(&mut visit),
        Value::Array(items) => items.iter_mut().find_map(&mut visit),
        _ => None,
    }
}

/// What stands at a path, as text.
pub fn value_at(value: &Value, path: &str) -> Option<String> {
    let mut here = value;
    let mut rest = path;
    while !rest.is_empty() {
        let (step, tail) = match rest.strip_prefix('[') {
            Some(inner) => inner.split_once(']')?,
            None => {
                let rest = rest.strip_prefix('.').unwrap_or(rest);
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        here = match here {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            other => other.get(step)?,
        };
        rest = tail;
    }
    Some(match here {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}
