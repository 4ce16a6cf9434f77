//! Filling in defaults, and taking out nulls that are no values.

use serde_json::{Map, Value};

use super::schema::Node;

/// Defaults a value. At the top of an object the fields that every object has are left alone.
pub(super) fn default(node: &Node, value: &mut Value, whole: bool) {
    match value {
        Value::Object(map) => default_members(node, map, whole),
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for item in items {
                if item.is_null()
                    && !inner.nullable
                    && let Some(fill) = &inner.default
                {
                    *item = fill.clone();
                }
                default(inner, item, inner.embedded);
            }
        }
        _ => {}
    }
}

fn default_members(node: &Node, map: &mut Map<String, Value>, whole: bool) {
    let untouchable = |name: &str| whole && matches!(name, "apiVersion" | "kind" | "metadata");
    for (name, property) in &node.properties {
        if untouchable(name) {
            continue;
        }
        let null = map.get(name).is_some_and(Value::is_null) && !property.nullable;
        match &property.default {
            Some(fill) if null || !map.contains_key(name) => {
                map.insert(name.clone(), fill.clone());
            }
            None if null => {
                map.remove(name);
            }
            _ => {}
        }
    }
    if let Some(inner) = &node.additional {
        map.retain(|name, value| {
            let own = node.properties.contains_key(name) || untouchable(name);
            if own || !value.is_null() || inner.nullable {
                return true;
            }
            match &inner.default {
                Some(fill) => {
                    *value = fill.clone();
                    true
                }
                None => false,
            }
        });
    }
    for (name, value) in map.iter_mut() {
        if let Some(inner) = node.member(name)
            && !untouchable(name)
        {
            default(inner, value, inner.embedded);
        }
    }
}
