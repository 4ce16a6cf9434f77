//! What a schema says about the values at a place.

use serde_json::Value;

/// A place in a schema, as far as values get their types from it. A schema as it is written is one; who reads schemas into something
/// better makes that one.
pub trait Place {
    /// `object`, `array`, `string`, `integer`, `number`, `boolean`, or empty where the type is open.
    fn kind(&self) -> &str;

    /// Whether a value is a number or a text, whatever the type.
    fn is_int_or_string(&self) -> bool;

    /// The format of a text; empty without one.
    fn format(&self) -> &str;

    /// Whether the names of an object's members are data.
    fn is_map(&self) -> bool;

    /// The place of the elements of a list.
    fn items(&self) -> Option<&Self>;

    /// The place of a member of an object.
    fn member(&self, name: &str) -> Option<&Self>;
}

impl Place for Value {
    fn kind(&self) -> &str {
        self.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    fn is_int_or_string(&self) -> bool {
        self.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
    }

    fn format(&self) -> &str {
        self.get("format").and_then(Value::as_str).unwrap_or_default()
    }

    fn is_map(&self) -> bool {
        self.get("additionalProperties").is_some_and(|values| values.is_object() || *values == true)
    }

    fn items(&self) -> Option<&Self> {
        self.get("items")
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let declared = self.get("properties").and_then(|properties| properties.get(name));
        declared.or_else(|| self.get("additionalProperties").filter(|values| values.is_object()))
    }
}
