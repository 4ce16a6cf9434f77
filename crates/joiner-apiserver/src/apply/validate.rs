//! Can a configuration be applied at all? Every field must exist, and list elements must be distinct.

use serde_json::Value;

use super::set::display_element;
use super::typed::element_name;
use crate::schema::{ListType, Shape, TypeRef};

/// What is wrong with an applied configuration, as Kubernetes says it; none if nothing is.
pub(super) fn check(ty: TypeRef<'_>, value: &Value) -> Option<String> {
    let mut errors = Vec::new();
    visit(ty, value, "", &mut errors);
    match errors.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("errors:\n  {}", several.join("\n  "))),
    }
}

fn visit(ty: TypeRef<'_>, value: &Value, path: &str, errors: &mut Vec<String>) {
    let mut report = |message: String| {
        errors.push(if path.is_empty() { message } else { format!("{path}: {message}") });
    };
    match (ty.shape(), value) {
        (_, Value::Null) | (Shape::Opaque, _) => {}
        (Shape::Struct | Shape::Map(_) | Shape::Any, Value::Object(map)) => {
            for (name, value) in map {
                let path = format!("{path}.{name}");
                match ty.field(name) {
                    Some(field) => visit(field, value, &path, errors),
                    None => {
                        errors.push(format!("{path}: field not declared in schema"));
                        return;
                    }
                }
            }
        }
        (Shape::Any, _) => {}
        (Shape::Struct | Shape::Map(_), other) => report(format!("expected map, got {}", go_value(other))),
        (Shape::List(element), Value::Array(items)) => {
            let atomic = ty.list_type() == Some(ListType::Atomic);
            let mut seen = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let name = if atomic { Ok(format!("i:{index}")) } else { element_name(ty, item) };
                let name = match name {
                    Ok(name) => name,
                    Err(message) => {
                        errors.push(format!("{path}: element {index}: {message}"));
                        return;
                    }
                };
                let shown = display_element(&name);
                if seen.contains(&name) {
                    errors.push(format!("{path}: duplicate entries for key {shown}"));
                }
                seen.push(name);
                visit(element, item, &format!("{path}{shown}"), errors);
            }
        }
        (Shape::List(_), other) => report(format!("expected list, got {}", go_value(other))),
        (Shape::Int32 | Shape::Int64 | Shape::Number, value) if !value.is_number() => {
            report(format!("expected numeric (int or float), got {}", go_type(value)));
        }
        (Shape::Boolean, value) if !value.is_boolean() => {
            report(format!("expected boolean, got {}", go_value(value)));
        }
        (Shape::String | Shape::Bytes | Shape::Time | Shape::MicroTime, value) if !value.is_string() => {
            report(format!("expected string, got &value.valueUnstructured{{Value:{value}}}"));
        }
        (Shape::Quantity | Shape::IntOrString, Value::Object(_) | Value::Array(_)) => {
            report(format!("expected any scalar, got {}", go_value(value)));
        }
        _ => {}
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn go_value(value: &Value) -> String {
    format!("&{{{value}}}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schemas;

    #[test]
    fn mistakes_are_named() {
        let ty = Schemas::builtin().kind("apps", "v1", "Deployment").unwrap();
        assert_eq!(check(ty, &json!({"spec": {"replicas": 1}})), None);
        assert_eq!(
            check(ty, &json!({"spec": {"nope": 1}})).as_deref(),
            Some(".spec.nope: field not declared in schema")
        );
        let twice = json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}, {"name": "c"}]}}}});
        assert_eq!(
            check(ty, &twice).as_deref(),
            Some(".spec.template.spec.containers: duplicate entries for key [name=\"c\"]")
        );
        assert_eq!(
            check(ty, &json!({"spec": {"replicas": "x"}})).as_deref(),
            Some(".spec.replicas: expected numeric (int or float), got string")
        );
    }
}
