//! Reading one kind, and finding the field at fault when that fails.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, Hasher};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Fault, name_of, quantities};

/// Reads a value as a kind; `lost` gets the first field the kind does not have.
pub fn typed<T: DeserializeOwned + Serialize>(
    value: &Value,
    lost: Option<&mut Option<Fault>>,
) -> Result<Box<T>, Fault> {
    let mut value = Cow::Borrowed(value);
    if quantities::has_numbers(&value) {
        quantities::spell(value.to_mut());
    }
    let object = T::deserialize(value.as_ref()).map_err(|error| wrong_type::<T>(&value, &error.to_string()))?;
    if let Some(lost) = lost
        && let Ok(back) = serde_json::to_value(&object)
        && let Some(path) = first_lost(&value, &back, String::new())
    {
        *lost = Some(Fault {
            object: name_of(&value),
            value: value_at(&value, &path),
            path,
            message: "there is no such field".to_owned(),
            remedy: "correct its name or place, or pass --validate=warn to go on without it".to_owned(),
        });
    }
    Ok(Box::new(object))
}

/// A number that is equal for values with the same fields, whatever stands in them.
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
                hash_fields(inner, hasher);
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
        // The kind decides which fields there are.
        Value::String(_) | Value::Bool(_) | Value::Number(_) => 6u8.hash(hasher),
    }
}

/// The first field of `given` that is gone from `kept`.
fn first_lost(given: &Value, kept: &Value, path: String) -> Option<String> {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => given.iter().find_map(|(key, inner)| {
            let here = join(&path, key);
            match kept.get(key) {
                Some(other) => first_lost(inner, other, here),
                None if path.is_empty() && (key == "apiVersion" || key == "kind") => None,
                None if is_nothing(inner) => None,
                None => Some(here),
            }
        }),
        (Value::Array(given), Value::Array(kept)) => given
            .iter()
            .zip(kept)
            .enumerate()
            .find_map(|(at, (inner, other))| first_lost(inner, other, format!("{path}[{at}]"))),
        _ => None,
    }
}

/// Absent and empty are one and the same to the writer.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn join(path: &str, key: &str) -> String {
    let plain = !key.contains(['.', '[', ']', '/']);
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key}]"),
    }
}

fn wrong_type<T: DeserializeOwned>(value: &Value, error: &str) -> Fault {
    let mut culprit = Vec::new();
    let mut paths = Vec::new();
    list_paths(value, &mut Vec::new(), &mut paths);
    // Deepest first: the first part without which the complaint is another one is the culprit.
    paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
    for path in paths.into_iter().take(4096) {
        let mut trial = value.clone();
        remove(&mut trial, &path);
        let verdict = T::deserialize(&trial).map_err(|e| e.to_string());
        if verdict.is_ok() || verdict.is_err_and(|text| text != error) {
            culprit = path;
            break;
        }
    }
    let mut path = String::new();
    for step in &culprit {
        path = match step {
            Step::Key(key) => join(&path, key),
            Step::Index(at) => format!("{path}[{at}]"),
        };
    }
    Fault {
        object: name_of(value),
        value: value_at(value, &path),
        path,
        message: error.to_owned(),
        remedy: "write a value of the type Kubernetes documents for this field".to_owned(),
    }
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

fn list_paths(value: &Value, here: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                here.push(Step::Key(key.clone()));
                out.push(here.clone());
                list_paths(inner, here, out);
                here.pop();
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                here.push(Step::Index(at));
                out.push(here.clone());
                list_paths(inner, here, out);
                here.pop();
            }
        }
        _ => {}
    }
}

fn remove(value: &mut Value, path: &[Step]) {
    let Some((last, way)) = path.split_last() else { return };
    let mut here = value;
    for step in way {
        let next = match step {
            Step::Key(key) => here.get_mut(key.as_str()),
            Step::Index(at) => here.get_mut(*at),
        };
        let Some(next) = next else { return };
        here = next;
    }
    match (last, here) {
        (Step::Key(key), Value::Object(map)) => {
            map.remove(key);
        }
        (Step::Index(at), Value::Array(items)) if *at < items.len() => {
            items.remove(*at);
        }
        _ => {}
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
