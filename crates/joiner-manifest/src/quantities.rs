//! Kubernetes accepts bare numbers for quantities; the typed objects want text.

use serde_json::Value;

/// Fields that hold quantities by resource name.
const MAPS: &[&str] =
    &["requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources", "resources"];

/// Whether some quantity is a bare number.
pub fn has_numbers(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, inner)| {
            let in_map = holds_quantities(key, inner)
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
                if holds_quantities(key, inner)
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

/// A CSINode's `allocatable: {count: 3}` is a plain number, not a quantity.
fn holds_quantities(key: &str, value: &Value) -> bool {
    MAPS.contains(&key) && value.get("count").is_none()
}
