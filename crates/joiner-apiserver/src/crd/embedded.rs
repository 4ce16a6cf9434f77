//! Whole objects within objects (`x-kubernetes-embedded-resource`): they say what they are.

use serde_json::Value;

use super::Cause;
use super::schema::{Node, join};

/// Judges all embedded objects of an object.
pub(super) fn check(node: &Node, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(map) => {
            if node.embedded {
                for field in ["apiVersion", "kind"] {
                    check_text(field, map.get(field), &join(path, field), causes);
                }
                check_name(value, path, causes);
            }
            for (name, value) in map {
                match (node.properties.get(name), &node.additional) {
                    (Some(inner), _) => check(inner, value, &join(path, name), causes),
                    (None, Some(inner)) => check(inner, value, &format!("{path}[{name}]"), causes),
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                check(inner, item, &format!("{path}[{index}]"), causes);
            }
        }
        _ => {}
    }
}

fn check_text(field: &str, value: Option<&Value>, path: &str, causes: &mut Vec<Cause>) {
    let Some(value) = value else {
        causes.push(Cause::required(path, ""));
        return;
    };
    let Some(text) = value.as_str() else {
        causes.push(Cause::invalid(path, value, "must be a string"));
        return;
    };
    if text.is_empty() {
        causes.push(Cause::invalid(path, value, "must not be empty"));
    } else if field == "apiVersion" && text.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {text}");
        causes.push(Cause::invalid(path, value, &detail));
    } else if field == "kind" && !is_kind(text) {
        let detail = "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric \
            characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
            'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
        causes.push(Cause::invalid(path, value, detail));
    }
}

fn is_kind(text: &str) -> bool {
    let inner = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|letter| inner(*letter))
}

/// Its name must be one that can stand in a path.
fn check_name(object: &Value, path: &str, causes: &mut Vec<Cause>) {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let path = join(&join(path, "metadata"), "name");
    let mut refuse = |detail: &str| causes.push(Cause::invalid(&path, &name.into(), detail));
    match name {
        "." => refuse("may not be '.'"),
        ".." => refuse("may not be '..'"),
        _ => {
            for letter in ["/", "%"] {
                if name.contains(letter) {
                    refuse(&format!("may not contain '{letter}'"));
                }
            }
        }
    }
}
