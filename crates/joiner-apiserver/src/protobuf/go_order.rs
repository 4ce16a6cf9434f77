//! JSON with the fields in the order in which Kubernetes declares them, which is that of the published messages.
//!
//! A patch is carried out on this text. Where it reaches into an object, the object is taken apart and put together again with its keys
//! sorted; all others stay as they were written. Messages about patches show the result.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::FACTS;

/// An object of a kind as text, after a patch that reached into the objects that `reached` has too. Kinds without a message are sorted.
pub(crate) fn written(api_version: &str, kind: &str, object: &Value, reached: &Value) -> String {
    let message = FACTS.kinds.get(&format!("{api_version}/{kind}")).map(String::as_str);
    let mut text = String::new();
    write(&mut text, object, message, Some(reached));
    text
}

fn write(text: &mut String, value: &Value, message: Option<&str>, reached: Option<&Value>) {
    match value {
        Value::Object(map) => write_object(text, map, message, reached.filter(|reached| reached.is_object())),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                let reached = reached.and_then(|reached| reached.get(index.to_string()));
                write(text, item, message, reached);
            }
            text.push(']');
        }
        scalar => {
            // Writing to a String cannot fail.
            let _ = write!(text, "{scalar}");
        }
    }
}

fn write_object(text: &mut String, map: &Map<String, Value>, message: Option<&str>, reached: Option<&Value>) {
    let mut fields = Vec::new();
    if let Some(message) = message {
        collect(message, &mut fields);
    }
    let place = |name: &str| fields.iter().position(|(field, _)| *field == name).unwrap_or(usize::MAX);
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    entries.sort_by_key(|(name, _)| *name);
    if reached.is_none() {
        entries.sort_by_key(|(name, _)| place(name));
    }
    text.push('{');
    for (index, (name, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}:", Value::from(name.as_str()));
        let inner = fields.iter().find(|(field, _)| field == name).map(|(_, kind)| *kind);
        let inner = inner.map(|kind| kind.trim_start_matches("[]").trim_start_matches("{}"));
        write(text, value, inner, reached.and_then(|reached| reached.get(name)));
    }
    text.push('}');
}

/// The fields of a message with their types, those of messages without a name among them.
fn collect(message: &str, fields: &mut Vec<(&'static str, &'static str)>) {
    for fact in FACTS.messages.get(message).into_iter().flatten() {
        if fact.1.is_empty() {
            collect(&fact.2, fields);
        } else {
            fields.push((&fact.1, &fact.2));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_patch_reaches_is_sorted_and_the_rest_declared() {
        let pod = json!({"metadata": {"uid": "1", "name": "p", "labels": {"b": "", "a": ""}},
            "spec": {"containers": [{"image": "i", "name": "c"}], "nodeName": "n"}});
        assert_eq!(
            written("v1", "Pod", &pod, &json!({})),
            r#"{"metadata":{"name":"p","uid":"1","labels":{"a":"","b":""}},"spec":{"containers":[{"name":"c","image":"i"}],"nodeName":"n"}}"#
        );
        assert_eq!(
            written("v1", "Pod", &pod, &json!({"metadata": {}})),
            r#"{"metadata":{"labels":{"a":"","b":""},"name":"p","uid":"1"},"spec":{"containers":[{"name":"c","image":"i"}],"nodeName":"n"}}"#
        );
        assert_eq!(written("x/v1", "Odd", &json!({"b": 1, "a": [2]}), &json!({})), r#"{"a":[2],"b":1}"#);
    }
}
