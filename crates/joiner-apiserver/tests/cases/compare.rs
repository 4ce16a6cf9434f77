//! Comparison of an answer with a recorded one.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

/// Values kept from earlier answers of a case.
#[derive(Default)]
pub(crate) struct Captured {
    values: BTreeMap<String, String>,
}

impl Captured {
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.values.insert(name.to_owned(), value);
    }

    /// Names and values.
    pub(crate) fn values(&self) -> Vec<(String, String)> {
        self.values.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// The text with captured values in place of their names.
    pub(crate) fn fill(&self, text: &str) -> String {
        self.values
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }
}

/// The value at a dotted path; `[n]` is an index, `[k=v]` the element whose `k` is `v`.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    let mut place = value;
    for part in path.split('.') {
        let (name, brackets) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
        if !name.is_empty() {
            place = &place[name];
        }
        for bracket in brackets
            .split('[')
            .map(|bracket| bracket.trim_end_matches(']'))
            .filter(|bracket| !bracket.is_empty())
        {
            place = match bracket.split_once('=') {
                Some((key, wanted)) => {
                    let found = place.as_array().into_iter().flatten().find(|element| element[key] == wanted);
                    found.unwrap_or(&Value::Null)
                }
                None => place.get(bracket.parse::<usize>().unwrap()).unwrap_or(&Value::Null),
            };
        }
    }
    place
}

/// The values at some paths, by path.
pub(crate) fn pick(body: &Value, paths: &[Value]) -> Value {
    let paths = paths.iter().map(|path| path.as_str().unwrap());
    Value::Object(paths.map(|path| (path.to_owned(), at(body, path).clone())).collect::<Map<_, _>>())
}

/// What the recorder did with answers: managed fields dropped unless wanted, causes in order.
pub(crate) fn normalized(mut body: Value, managed_fields: bool) -> Value {
    if !managed_fields {
        drop_managed_fields(&mut body);
    }
    sort_causes(&mut body);
    body
}

fn drop_managed_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
            fields.values_mut().for_each(drop_managed_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_managed_fields),
        _ => {}
    }
}

/// The real server collects some causes in maps of Go, whose order differs from run to run: those of invalid objects (and their
/// message with them) and those of conflicts between field managers.
fn sort_causes(body: &mut Value) {
    if body["kind"] != "Status" || (body["reason"] != "Invalid" && body["reason"] != "Conflict") {
        return;
    }
    let mut messages = Vec::new();
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        if causes.len() < 2 {
            return;
        }
        let key = |cause: &Value| (cause["field"].to_string(), cause["message"].to_string());
        causes.sort_by_key(key);
        for cause in causes.iter() {
            let text = format!(
                "{}: {}",
                cause["field"].as_str().unwrap_or_default(),
                cause["message"].as_str().unwrap_or_default()
            );
            if !messages.contains(&text) {
                messages.push(text);
            }
        }
    }
    if messages.len() > 1
        && let Some((head, _)) =
            body["message"].as_str().and_then(|message| message.split_once(" is invalid: "))
    {
        body["message"] = format!("{head} is invalid: [{}]", messages.join(", ")).into();
    }
}

const PLACEHOLDERS: [(&str, &str); 9] = [
    ("<uid>", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ("<rv>", "[0-9]+"),
    ("<time>", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z"),
    ("<continue>", ".+"),
    ("<ip>", r"10\.\d+\.\d+\.\d+"),
    ("<hash>", "[A-Za-z0-9+/=]+"),
    ("<generated>", "[bcdfghjklmnpqrstvwxz2456789]{5}"),
    ("<age>", "([0-9]+[smhdy])+|<unknown>"),
    ("<text>", "(?s).*"),
];

/// Whether an answer is the expected one.
pub(crate) fn compare(
    place: &str,
    expected: &Value,
    seen: &Value,
    captured: &Captured,
) -> Result<(), String> {
    match (expected, seen) {
        (Value::Object(expected), Value::Object(seen)) => {
            for (key, value) in expected {
                let place = format!("{place}.{key}");
                match seen.get(key) {
                    Some(seen) => compare(&place, value, seen, captured)?,
                    None => return Err(format!("{place}: missing, expected {value}")),
                }
            }
            match seen.iter().find(|(key, _)| !expected.contains_key(*key)) {
                Some((key, value)) => Err(format!("{place}.{key}: unexpected {value}")),
                None => Ok(()),
            }
        }
        (Value::Array(expected), Value::Array(seen)) if expected.len() == seen.len() => {
            let mut pairs = expected.iter().zip(seen).enumerate();
            pairs.try_for_each(|(index, (expected, seen))| {
                compare(&format!("{place}[{index}]"), expected, seen, captured)
            })
        }
        (Value::String(expected), Value::String(seen)) => compare_text(place, expected, seen, captured),
        _ if expected == seen => Ok(()),
        _ => Err(format!("{place}: expected {expected}\n    seen {seen}")),
    }
}

fn compare_text(place: &str, expected: &str, seen: &str, captured: &Captured) -> Result<(), String> {
    let wrong = || Err(format!("{place}: expected {expected:?}\n    seen {seen:?}"));
    let filled = captured.fill(expected);
    // A version that moved must differ from those captured before.
    if expected == "<rv>"
        && captured.values.iter().any(|(name, value)| name.starts_with("RV") && value == seen)
    {
        return wrong();
    }
    let pattern = PLACEHOLDERS.iter().fold(regex::escape(&filled), |pattern, (placeholder, values)| {
        pattern.replace(placeholder, &format!("(?:{values})"))
    });
    if Regex::new(&format!("^(?:{pattern})$")).unwrap().is_match(seen) { Ok(()) } else { wrong() }
}
