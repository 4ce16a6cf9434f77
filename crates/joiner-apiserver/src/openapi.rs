//! The OpenAPI documents that `kubectl apply` and `kubectl explain` ask for.
//!
//! What apply needs from them is whether the server checks fields itself: a `patch` operation of the kind with a query parameter named
//! `fieldValidation`. Schemas are those of the packed data, without prose, and those of definitions as they were written.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::resources::{Resource, Resources, group_version};
use crate::schema;

/// What clients accept that ask for the old form in protobuf, and what they are told they got.
pub(crate) const OLD_MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
pub(crate) const OLD_CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `GET /openapi/v2`, the old form, in protobuf: a head and nothing else. kubectl asks for it before it creates a `List`, and leaves kinds
/// that it does not find there to the server.
pub(crate) fn old_document() -> Vec<u8> {
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        // Fields of bytes: the number and the type 2, then a length that fits one byte.
        let length = u8::try_from(content.len()).unwrap_or(0);
        [&[number << 3 | 2, length], content].concat()
    }
    let info = [field(1, TITLE.as_bytes()), field(2, crate::VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info)].concat()
}

/// The same for those who read JSON.
pub(crate) fn old_document_as_json() -> Value {
    json!({"swagger": "2.0", "info": {"title": TITLE, "version": crate::VERSION}, "paths": {}, "definitions": {}})
}

const TITLE: &str = "Kubernetes";

/// `GET /openapi/v3`: where the document of each group and version is.
pub fn index(all: &[&Resources]) -> Value {
    let mut paths = Map::new();
    for resources in all {
        for group in resources.groups() {
            for version in &group.versions {
                let path = place(&group.name, version);
                let hash = content_hash(resources, &group.name, version);
                paths.insert(
                    path.clone(),
                    json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}),
                );
            }
        }
    }
    json!({"paths": paths})
}

/// Built-in documents change with the server only, those of definitions with their schemas.
fn content_hash(resources: &Resources, group: &str, version: &str) -> String {
    let mut content = format!("{}/{}", crate::VERSION, place(group, version));
    for resource in resources.of(group, version).unwrap_or_default() {
        if let Some(custom) = &resource.custom {
            content.push_str(&resource.plural);
            content.push_str(&custom.openapi.to_string());
        }
    }
    format!("{:032X}", xxhash_rust::xxh3::xxh3_128(content.as_bytes()))
}

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `GET /openapi/v3/apis/GROUP/VERSION`.
pub fn document(all: &[&Resources], group: &str, version: &str) -> Option<Value> {
    let resources = all.iter().find_map(|resources| resources.of(group, version))?;
    let mut paths = Map::new();
    let mut schemas = BTreeMap::new();
    for resource in resources {
        let collection = match resource.namespaced {
            true => format!("/{}/namespaces/{{namespace}}/{}", place(group, version), resource.plural),
            false => format!("/{}/{}", place(group, version), resource.plural),
        };
        let operations = |verbs: &[(&str, &str)]| -> Map<String, Value> {
            let known = verbs.iter().filter(|(verb, _)| resource.verbs.iter().any(|known| known == verb));
            known.map(|(verb, method)| ((*method).to_owned(), operation(resource, verb))).collect()
        };
        let item = operations(&[("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete")]);
        let whole = operations(&[("list", "get"), ("create", "post"), ("deletecollection", "delete")]);
        if !item.is_empty() {
            paths.insert(format!("{collection}/{{name}}"), Value::Object(item));
        }
        if !whole.is_empty() {
            paths.insert(collection, Value::Object(whole));
        }
        match &resource.custom {
            Some(custom) => {
                schemas.insert(schema_name(resource), custom_schema(resource, &custom.openapi));
            }
            None => add_builtin(&mut schemas, resource),
        }
    }
    let title = format!("Kubernetes {}", group_version(group, version));
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": title, "version": crate::VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn operation(resource: &Resource, verb: &str) -> Value {
    let action = match verb {
        "create" => "post",
        "update" => "put",
        other => other,
    };
    let parameters: Vec<Value> = match verb {
        "create" | "update" | "patch" => {
            let names = ["dryRun", "fieldManager", "fieldValidation"];
            names
                .iter()
                .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}))
                .collect()
        }
        _ => Vec::new(),
    };
    json!({
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    })
}

/// `sh.karpenter.v1.NodePool` for the kind `NodePool` of `karpenter.sh/v1`.
fn schema_name(resource: &Resource) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').rev().collect();
    parts.extend([resource.version.as_str(), resource.kind.as_str()]);
    parts.join(".")
}

fn custom_schema(resource: &Resource, written: &Value) -> Value {
    let mut schema = written.clone();
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    let properties = &mut schema["properties"];
    if !properties.is_object() {
        *properties = json!({});
    }
    for field in ["apiVersion", "kind"] {
        properties[field] = json!({"type": "string"});
    }
    properties["metadata"] = json!({"type": "object"});
    schema
}

/// The schema of a built-in kind, and all that it refers to.
fn add_builtin(schemas: &mut BTreeMap<String, Value>, resource: &Resource) {
    let definitions = schema::openapi_definitions();
    let kind = json!({"group": resource.group, "kind": resource.kind, "version": resource.version});
    let of_kind = |definition: &Value| {
        let kinds = definition.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        kinds.is_some_and(|kinds| kinds.len() == 1 && kinds[0] == kind)
    };
    let mut wanted: Vec<&str> = definitions
        .iter()
        .filter(|(_, definition)| of_kind(definition))
        .map(|(name, _)| name.as_str())
        .collect();
    while let Some(name) = wanted.pop() {
        if let (false, Some(definition)) = (schemas.contains_key(name), definitions.get(name)) {
            collect_references(definition, &mut wanted);
            schemas.insert(name.to_owned(), published(definition));
        }
    }
}

fn collect_references<'a>(schema: &'a Value, names: &mut Vec<&'a str>) {
    match schema {
        Value::Object(fields) => {
            for (field, value) in fields {
                match (field.as_str(), value.as_str()) {
                    ("$ref", Some(name)) => names.push(name),
                    _ => collect_references(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, names)),
        _ => {}
    }
}

/// References as paths, and without the marks of our own.
fn published(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut out = Map::new();
            for (field, value) in fields.iter().filter(|(field, _)| *field != "x-go") {
                match (field.as_str(), value.as_str()) {
                    // What stands beside a reference counts only when the reference is wrapped.
                    ("$ref", Some(name)) => {
                        let path = format!("#/components/schemas/{name}");
                        out.insert("allOf".to_owned(), json!([{"$ref": path}]));
                    }
                    _ => {
                        out.insert(field.clone(), published(value));
                    }
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(published).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_whole() {
        let all = [Resources::builtin()];
        for group in Resources::builtin().groups() {
            for version in &group.versions {
                let document = document(&all, &group.name, version).unwrap();
                let schemas = document["components"]["schemas"].as_object().unwrap();
                let mut names = Vec::new();
                collect_references(&document["components"], &mut names);
                for name in names {
                    let name = name.strip_prefix("#/components/schemas/").unwrap();
                    assert!(schemas.contains_key(name), "{name}");
                }
            }
        }
        let apps = document(&all, "apps", "v1").unwrap();
        assert!(
            apps["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
                .is_object()
        );
        let versions: usize = Resources::builtin().groups().iter().map(|group| group.versions.len()).sum();
        assert_eq!(index(&all)["paths"].as_object().unwrap().len(), versions);
    }
}
