//! The OpenAPI documents that `kubectl apply` asks for before it sends anything.
//!
//! What kubectl needs from them is whether the server checks fields itself: a `patch` operation of the kind with a query parameter
//! named `fieldValidation`. Then it leaves the checking to the server, so the documents name operations and no schemas.

use serde_json::{Map, Value, json};

use crate::resources::{Resource, Resources, group_version};

/// `GET /openapi/v3`: where the document of each group and version is.
pub fn index(all: &[&Resources]) -> Value {
    let mut paths = Map::new();
    for resources in all {
        for group in resources.groups() {
            for version in &group.versions {
                let path = place(&group.name, version);
                let document = document(all, &group.name, version).unwrap_or_default().to_string();
                let hash = format!("{:032X}", xxhash_rust::xxh3::xxh3_128(document.as_bytes()));
                paths.insert(
                    path.clone(),
                    json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}),
                );
            }
        }
    }
    json!({"paths": paths})
}

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// `GET /openapi/v3/apis/GROUP/VERSION`.
pub fn document(all: &[&Resources], group: &str, version: &str) -> Option<Value> {
    let resources = all.iter().find_map(|resources| resources.of(group, version))?;
    let mut paths = Map::new();
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
    }
    let title = format!("Kubernetes {}", group_version(group, version));
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": title, "version": crate::VERSION},
        "paths": paths,
        "components": {"schemas": {}},
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
