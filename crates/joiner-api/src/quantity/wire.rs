//! A quantity on the wire: JSON, its schema, and the string that the Kubernetes types hold.

use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;

use super::{Error, Quantity};

/// The pattern custom resource definitions put on a quantity; stricter than the reader on odd texts such as
/// `.`.
pub const SCHEMA_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

impl serde::Serialize for Quantity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl serde::de::Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity such as `500m`, `2` or `1.5Gi`, as a string or a number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse(text.trim()).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_value(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Quantity, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}

impl schemars::JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": SCHEMA_PATTERN,
            "x-kubernetes-int-or-string": true,
        })
    }
}

impl TryFrom<&WireQuantity> for Quantity {
    type Error = Error;

    fn try_from(quantity: &WireQuantity) -> Result<Quantity, Error> {
        Quantity::parse(&quantity.0)
    }
}

impl From<Quantity> for WireQuantity {
    fn from(quantity: Quantity) -> WireQuantity {
        WireQuantity(quantity.to_string())
    }
}
