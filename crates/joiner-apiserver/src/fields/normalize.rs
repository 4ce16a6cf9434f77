//! What a round trip through Kubernetes' own types does to an object.

use serde_json::{Map, Value};

use super::quantity::canonical_quantity;
use crate::schema::{Shape, TypeRef, ZeroValue};

/// Brings an object of a built-in kind into the form in which Kubernetes would hand it back: unknown fields and nulls go, zero values
/// go or appear as their field has it, quantities become canonical.
pub fn normalize(ty: TypeRef<'_>, value: &mut Value) {
    match (ty.shape(), value) {
        (Shape::Struct, Value::Object(map)) => normalize_struct(ty, map),
        (Shape::Map(element), Value::Object(map)) => {
            for value in map.values_mut() {
                if value.is_null() {
                    *value = zero(element);
                } else {
                    normalize(element, value);
                }
            }
        }
        (Shape::List(element), Value::Array(items)) => {
            for item in items {
                if item.is_null() && !matches!(element.shape(), Shape::Any | Shape::Opaque) {
                    *item = zero(element);
                }
                normalize(element, item);
            }
        }
        (Shape::Quantity, Value::String(text)) => {
            if let Some(canonical) = canonical_quantity(text)
                && canonical != *text
            {
                *text = canonical;
            }
        }
        (Shape::Quantity, value @ Value::Number(_)) => {
            if let Some(canonical) = canonical_quantity(&value.to_string()) {
                *value = Value::String(canonical);
            }
        }
        _ => {}
    }
}

fn normalize_struct(ty: TypeRef<'_>, map: &mut Map<String, Value>) {
    let stays = |name: &str, value: &mut Value| {
        let Some(field) = ty.field(name).filter(|_| !value.is_null()) else { return false };
        normalize(field, value);
        field.zero() != ZeroValue::Dropped || !is_zero(value)
    };
    // Taking fields out of a map costs more than looking at all of them, and there are seldom any to take.
    let mut gone = 0;
    for (name, value) in map.iter_mut() {
        if !stays(name, value) {
            *value = Value::Null;
            gone += 1;
        }
    }
    if gone > 0 {
        map.retain(|_, value| !value.is_null());
    }
    for (name, field) in ty.fields_always_written() {
        if !map.contains_key(name) {
            let value = if field.zero() == ZeroValue::Null { Value::Null } else { zero(field) };
            map.insert(name.to_owned(), value);
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// What Go writes for a field nobody set.
pub(crate) fn zero(ty: TypeRef<'_>) -> Value {
    match ty.shape() {
        Shape::String => Value::String(String::new()),
        Shape::Int32 | Shape::Int64 | Shape::Number | Shape::IntOrString => 0.into(),
        Shape::Boolean => Value::Bool(false),
        Shape::Quantity => "0".into(),
        Shape::Struct => {
            let mut map = Map::new();
            normalize_struct(ty, &mut map);
            Value::Object(map)
        }
        Shape::Any | Shape::Opaque | Shape::Bytes | Shape::Time | Shape::MicroTime => Value::Null,
        Shape::Map(_) | Shape::List(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::Schemas;

    fn normal(group: &str, kind: &str, mut value: Value) -> Value {
        normalize(Schemas::builtin().kind(group, "v1", kind).unwrap(), &mut value);
        value
    }

    #[test]
    fn zero_values_appear_or_go() {
        assert_eq!(
            normal(
                "",
                "Node",
                json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": 4}}})
            ),
            json!({"metadata": {}, "spec": {}, "status": {
                "capacity": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": null, "lastTransitionTime": null}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                "nodeInfo": {"machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                    "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "",
                    "architecture": ""}}})
        );
        assert_eq!(
            normal(
                "apps",
                "Deployment",
                json!({"spec": {"replicas": 0, "minReadySeconds": 0, "paused": false}})
            )["spec"],
            json!({"replicas": 0, "selector": null, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": null}}})
        );
    }

    #[test]
    fn unknown_fields_nulls_and_empties_go() {
        assert_eq!(
            normal(
                "",
                "ConfigMap",
                json!({"nope": 1, "data": null, "metadata": {"labels": {}, "finalizers": [], "name": "a"}})
            ),
            json!({"metadata": {"name": "a"}})
        );
        let event = normal(
            "",
            "Event",
            json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "count": 1}),
        );
        assert_eq!(
            event,
            json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "source": {}, "firstTimestamp": null,
                "lastTimestamp": null, "count": 1, "eventTime": null, "reportingComponent": "", "reportingInstance": ""})
        );
    }

    #[test]
    fn quantities_become_canonical() {
        let pod = normal(
            "",
            "Pod",
            json!({"spec": {"containers": [{"resources": {"limits": {"memory": "1024Mi"}}}]}}),
        );
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["memory"], "1Gi");
    }
}
