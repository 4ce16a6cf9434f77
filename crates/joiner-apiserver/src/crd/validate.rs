//! Walking an object along its schema and judging each value.

use serde_json::Value;

use super::Cause;
use super::schema::{Node, join};

/// Judges a value. One that equals the value it continues was judged before and is not judged again.
pub(super) fn validate(node: &Node, new: &Value, old: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    if old.is_some_and(|old| node.is_unchanged(new, old)) || (new.is_null() && node.nullable) {
        return;
    }
    if let Some(wanted) = wanted_type(node, new) {
        let found = type_name(new);
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        causes.push(Cause::type_invalid(path, &found.into(), &detail));
    }
    node.checks.check(new, path, causes);
    match new {
        Value::Object(map) => {
            for name in node.checks.required.iter().filter(|name| !map.contains_key(*name)) {
                causes.push(Cause::required(&join(path, name), ""));
            }
            for (name, value) in map {
                if let Some(inner) = node.member(name) {
                    let old = old.and_then(|old| old.get(name));
                    validate(inner, value, old, &join(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                validate(inner, item, node.continued(item, old), &format!("{path}[{index}]"), causes);
            }
        }
        _ => {}
    }
}

/// The type a value should have, if it has another.
fn wanted_type(node: &Node, value: &Value) -> Option<String> {
    let whole = |value: &Value| match value {
        Value::Number(number) => {
            !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => false,
    };
    if node.int_or_string {
        return (!whole(value) && !value.is_string()).then(|| "integer,string".to_owned());
    }
    let fits = match node.kind.as_str() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => whole(value),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        _ => true,
    };
    (!fits).then(|| node.kind.clone())
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
