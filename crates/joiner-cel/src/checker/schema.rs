//! The types of values, as their schemas have them.

use std::sync::Arc;

use serde_json::Value;

use super::types::{Object, Type};
use crate::schema_types as schemas;

/// The type of the values of a schema; nothing where rules cannot see them. `name` is what a type with fields is called.
pub(crate) fn type_of<'a>(name: &str, schema: &'a Value, whole: bool) -> Option<Type<'a>> {
    Some(match schemas::type_of(schema, whole)? {
        schemas::Type::Bool => Type::Bool,
        schemas::Type::Int => Type::Int,
        schemas::Type::Double => Type::Double,
        schemas::Type::Text => Type::Text,
        schemas::Type::Bytes => Type::Bytes,
        schemas::Type::Duration => Type::Duration,
        schemas::Type::Timestamp => Type::Timestamp,
        schemas::Type::List(schema) => Type::list(inner(&format!("{name}.@idx"), schema.get("items")?)?),
        schemas::Type::Map(schema) => {
            let values = inner(&format!("{name}.@elem"), schema.get("additionalProperties")?)?;
            Type::map(Type::Text, values)
        }
        schemas::Type::Object(schema, whole) => {
            Type::Object(Arc::new(Object { name: name.to_owned(), schema: Some((schema, whole)) }))
        }
        schemas::Type::Open => Type::Dyn,
    })
}

fn inner<'a>(name: &str, schema: &'a Value) -> Option<Type<'a>> {
    type_of(name, schema, schemas::is_embedded(schema))
}

/// The type of a field of an object.
pub(crate) fn field_of<'a>(of: &str, schema: &'a Value, whole: bool, name: &str) -> Option<Type<'a>> {
    inner(&format!("{of}.{name}"), schemas::field(schema, whole, name)?)
}
