//! Reads the text of an object without the record of who owns its fields: for readers that never ask, it is half of the object.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The field of the metadata that is passed over.
pub(super) const RECORD: &str = "managedFields";

/// The object in a text. An odd one, whose metadata is no map, is read whole.
pub(super) fn read(text: &[u8]) -> Value {
    match serde_json::from_slice::<Slim>(text) {
        Ok(Slim(fields)) => Value::Object(fields),
        Err(_) => serde_json::from_slice(text).unwrap_or_default(),
    }
}

/// A copy of an object that is parsed already.
pub(super) fn copied(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copied = fields.iter().map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let rest = metadata.iter().filter(|(name, _)| name.as_str() != RECORD);
            (name.clone(), Value::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        _ => (name.clone(), value.clone()),
    });
    Value::Object(copied.collect())
}

struct Slim(Map<String, Value>);

impl<'de> Deserialize<'de> for Slim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields { top: true }).map(Self)
    }
}

struct Metadata(Map<String, Value>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields { top: false }).map(Self)
    }
}

/// The fields of an object, or of its metadata.
struct Fields {
    top: bool,
}

impl<'de> Visitor<'de> for Fields {
    type Value = Map<String, Value>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" if self.top => Value::Object(map.next_value::<Metadata>()?.0),
                RECORD if !self.top => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
                _ => map.next_value()?,
            };
            fields.insert(name, value);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn everything_but_the_record_is_read() {
        let whole = json!({"kind": "Pod", "metadata": {"name": "a", "managedFields": [{"fieldsV1": {"f:a": {}}}], "uid": "u"},
            "spec": {"managedFields": 1, "metadata": {"managedFields": 2}}});
        let stripped = copied(&whole);
        assert_eq!(stripped["metadata"], json!({"name": "a", "uid": "u"}));
        assert_eq!(stripped["spec"], whole["spec"]);
        assert_eq!(read(whole.to_string().as_bytes()), stripped);
    }

    #[test]
    fn odd_objects_are_read_whole() {
        for odd in [json!({}), json!({"metadata": null}), json!({"metadata": [1]}), json!(null), json!([1])] {
            assert_eq!(read(odd.to_string().as_bytes()), odd);
            assert_eq!(copied(&odd), odd);
        }
    }
}
