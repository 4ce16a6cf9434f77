//! Kubernetes accepts bare numbers for quantities; the typed objects want text.

use serde_json::Value;

const MAPS: &[&str] =
    &["requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources", "resources"];

/// Whether some quantity is a bare number.
pub fn has_numbers(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, inner)| {
            let in_map = MAPS.contains(&key.as_str())
                && inner.as_object().is_some_and(|amounts| amounts.values().any(Value::is_number));
            in_map || (key == "sizeLimit" && inner.is_number()) || has_numbers(inner)
        }),
        Value::Array(items) => items.iter().any(has_numbers),
        _ => false,
    }
}

/// Writes them as text.
pub fn spell(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                if MAPS.contains(&key.as_str())
                    && let Value::Object(amounts) = inner
                {
                    for amount in amounts.values_mut().filter(|amount| amount.is_number()) {
                        *amount = Value::String(amount.to_string());
                    }
                }
                if key == "sizeLimit" && inner.is_number() {
                    *inner = Value::String(inner.to_string());
                }
                spell(inner);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell),
        _ => {}
    }
}
