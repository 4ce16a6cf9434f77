//! Values as Go prints them with `%v`: some messages of Kubernetes contain them.

use serde_json::Value;

/// `map[a:1 b:[x y]]`.
pub(crate) fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(value) => value.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(go_print).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", go_print(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}
