//! Values: the chart's own with those that were given put over them, and whether they make sense.

use joiner_core::explain::nearest;
use serde_json::{Map, Value};

use crate::load::parse_yaml;
use crate::report::InputError;

/// Lists are no longer than this when `--set` names a place in them.
const PLACES_MAX: usize = 1000;

/// Reads a file of values.
///
/// # Errors
/// It is no YAML, or no map.
pub fn read(file: &str, text: &str) -> Result<Value, InputError> {
    let wrong = |message: String| InputError::of_file(file, message, "write `name: value` lines");
    match parse_yaml(text).map_err(|error| wrong(error.without_snippet().to_string()))? {
        Value::Null => Ok(Value::Object(Map::new())),
        map @ Value::Object(_) => Ok(map),
        _ => Err(wrong("values are a map".to_owned())),
    }
}

/// Puts values over others: maps are merged, all else is replaced, and `null` takes a value away.
pub fn put_over(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                match (under.get_mut(&name), value) {
                    (Some(_), Value::Null) => {
                        under.remove(&name);
                    }
                    (Some(place), value) => put_over(place, value),
                    (None, value) => {
                        under.insert(name, value);
                    }
                }
            }
        }
        (under, over) => *under = over,
    }
}

/// Sets one value as helm's `--set a.b=c` does; `a\.b` is one name, `a[0]` a place in a list, `{a,b}` a list. Several stand between commas.
///
/// # Errors
/// The text has no such form.
pub fn set(values: &mut Value, text: &str) -> Result<(), InputError> {
    for one in split(text, ',') {
        let parts = split(&one, '=');
        let (Some(path), true) = (parts.first(), parts.len() > 1) else {
            return Err(wrong_set(text, "has no `=`"));
        };
        let value = one.get(path.len() + 1..).unwrap_or_default();
        let mut over = typed(value);
        for step in split(path, '.').iter().rev() {
            let (name, places) = place(step).ok_or_else(|| wrong_set(text, "names no place in a list"))?;
            if name.is_empty() {
                return Err(wrong_set(text, "has an empty name"));
            }
            for place in places.into_iter().rev() {
                let mut list = vec![Value::Null; place];
                list.push(over);
                over = Value::Array(list);
            }
            over = Value::Object(Map::from_iter([(name, over)]));
        }
        put_set(values, over);
    }
    Ok(())
}

/// As [`put_over`], but lists keep the places that were not named, and `null` stays to take a default away.
fn put_set(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                put_set(under.entry(name).or_insert(Value::Null), value);
            }
        }
        (Value::Array(under), Value::Array(over)) if over.iter().rev().skip(1).all(Value::is_null) => {
            let last = over.len().saturating_sub(1);
            under.resize(under.len().max(over.len()), Value::Null);
            if let (Some(place), Some(value)) = (under.get_mut(last), over.into_iter().next_back()) {
                put_set(place, value);
            }
        }
        (under, over) => *under = over,
    }
}

fn wrong_set(text: &str, why: &str) -> InputError {
    InputError {
        path: Some("--set".to_owned()),
        value: Some(text.to_owned()),
        message: why.to_owned(),
        remedy: Some("write `a.b=value`".to_owned()),
        ..InputError::default()
    }
}

/// Cuts at a letter that is neither behind a backslash nor within braces.
fn split(text: &str, at: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = text.chars();
    let mut braces = 0_usize;
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter == at && braces == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(letter);
            if letter == '\\' {
                last.extend(letters.next());
            }
        }
    }
    parts
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next()),
            letter => out.push(letter),
        }
    }
    out
}

/// `name[0][1]` as a name and places.
fn place(step: &str) -> Option<(String, Vec<usize>)> {
    let (name, rest) = step.split_once('[').unwrap_or((step, ""));
    let places = rest.split('[').filter(|text| !text.is_empty());
    let places: Option<Vec<usize>> = places.map(|text| text.strip_suffix(']')?.parse().ok()).collect();
    let places = places.filter(|places| places.iter().all(|place| *place < PLACES_MAX))?;
    Some((unescaped(name), places))
}

fn typed(text: &str) -> Value {
    if let Some(list) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        let items = split(list, ',');
        return Value::Array(items.iter().filter(|item| !item.is_empty()).map(|item| typed(item)).collect());
    }
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        // A number with a nought in front is a name, such as that of an account.
        _ if text == "0" || !text.starts_with('0') => match text.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::String(unescaped(text)),
        },
        _ => Value::String(unescaped(text)),
    }
}

/// Holds values against a schema: the part of JSON Schema that the charts' schemas are written in.
///
/// # Errors
/// The first that does not fit: which, what it is, what it may be.
pub fn check(schema: &Value, value: &Value) -> Result<(), InputError> {
    check_at(schema, value, "")
}

fn check_at(schema: &Value, value: &Value, path: &str) -> Result<(), InputError> {
    let wrong = |message: String, remedy: Option<String>| InputError {
        path: Some(path.to_owned()),
        value: Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        message,
        remedy,
        ..InputError::default()
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|wanted| is_of(wanted, value)) {
        return Err(wrong(format!("not of type {}", types.join(" or ")), None));
    }
    if let Value::Array(allowed) = &schema["enum"]
        && !allowed.contains(value)
    {
        let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        let near = nearest(value.as_str().unwrap_or_default(), names.iter().copied());
        return Err(wrong(
            format!("not one of {}", names.join(", ")),
            near.map(|name| format!("did you mean `{name}`?")),
        ));
    }
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) => {
            let known = schema["properties"].as_object();
            for (name, value) in fields {
                match known.and_then(|known| known.get(name)) {
                    Some(schema) => check_at(schema, value, &at(name))?,
                    None if schema["additionalProperties"] == Value::Bool(false) => {
                        let names = known.into_iter().flat_map(Map::keys).map(String::as_str);
                        let near = nearest(name, names).map(|name| format!("did you mean `{}`?", at(name)));
                        return Err(InputError {
                            message: format!("there is no value `{}`", at(name)),
                            remedy: near,
                            ..InputError::default()
                        });
                    }
                    None => {}
                }
            }
        }
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                check_at(&schema["items"], item, &format!("{path}[{number}]"))?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn is_of(wanted: &str, value: &Value) -> bool {
    match wanted {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_set_by_their_names() {
        let mut values = json!({"settings": {"clusterName": "", "batch": 1}, "list": [1]});
        for text in [
            "settings.clusterName=mine,replicas=3",
            r"annotations.eks\.amazonaws\.com/role=arn:aws:iam::012345678901:role/x",
            "list[1].a=b",
            "names={a,b}",
            "account=012",
            "off=false",
        ] {
            set(&mut values, text).unwrap();
        }
        assert_eq!(
            values,
            json!({"settings": {"clusterName": "mine", "batch": 1}, "replicas": 3,
                "annotations": {"eks.amazonaws.com/role": "arn:aws:iam::012345678901:role/x"},
                "list": [1, {"a": "b"}], "names": ["a", "b"], "account": "012", "off": false})
        );
        let error = set(&mut values, "replicas").unwrap_err().to_string();
        assert_eq!(error, "`--set` is `replicas`: has no `=`; write `a.b=value`");
        assert!(set(&mut values, "a[99999999]=1").is_err());
    }

    #[test]
    fn null_takes_a_value_away() {
        let mut values = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        put_over(&mut values, json!({"a": {"b": null}, "d": [3], "e": null}));
        assert_eq!(values, json!({"a": {"c": 2}, "d": [3], "e": null}));
    }

    #[test]
    fn what_does_not_fit_is_named_with_what_was_meant() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "settings": {"type": "object", "additionalProperties": false, "properties": {
                "policy": {"type": "string", "enum": ["Respect", "Ignore"]},
                "clusterName": {"type": "string"}}},
            "replicas": {"type": "integer"}}});
        let said = |value: Value| check(&schema, &value).unwrap_err().to_string();
        assert_eq!(
            said(json!({"settings": {"clustername": "x"}})),
            "there is no value `settings.clustername`; did you mean `settings.clusterName`?"
        );
        assert_eq!(
            said(json!({"settings": {"policy": "Respct"}})),
            "`settings.policy` is `Respct`: not one of Respect, Ignore; did you mean `Respect`?"
        );
        assert_eq!(said(json!({"replicas": "two"})), "`replicas` is `two`: not of type integer");
        assert!(check(&schema, &json!({"replicas": 2})).is_ok());
    }
}
