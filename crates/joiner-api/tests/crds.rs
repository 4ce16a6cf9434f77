//! The definitions we serve, as text, and the properties every one of them must have.

#![allow(clippy::unwrap_used)]

use joiner_api::crd;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

fn schema(crd: &CustomResourceDefinition) -> Value {
    let schema = crd.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(schema.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            walk(&format!("{path}[]"), &schema[key], visit);
        }
    }
}

#[test]
fn definitions() {
    for crd in crd::all() {
        let name = crd.metadata.name.clone().unwrap();
        insta::assert_yaml_snapshot!(name, crd);
    }
}

#[test]
fn schemas_are_structural() {
    for crd in crd::all() {
        let kind = &crd.spec.names.kind;
        walk(kind, &schema(&crd), &mut |path, schema| {
            let typed = schema["type"].is_string();
            let int_or_string = schema["x-kubernetes-int-or-string"] == true;
            assert!(typed != int_or_string, "{path} has a type or is an int-or-string: {schema}");
            for forbidden in ["nullable", "$ref", "oneOf", "allOf", "not", "title"] {
                assert!(schema.get(forbidden).is_none(), "{path} has {forbidden}");
            }
            assert_eq!(schema.get("anyOf").is_some(), int_or_string, "{path} has anyOf");
            assert!(
                schema["properties"].is_null() || schema["additionalProperties"].is_null(),
                "{path} is a map and a struct"
            );
            if let Some(words) = schema["enum"].as_array() {
                assert!(words.iter().all(Value::is_string), "{path}");
            }
        });
    }
}

#[test]
fn every_field_is_explained() {
    for crd in crd::all() {
        walk(&crd.spec.names.kind, &schema(&crd), &mut |path, schema| {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if name == "metadata" && path == crd.spec.names.kind {
                    continue;
                }
                let text = property["description"].as_str().unwrap_or_default();
                assert!(text.ends_with('.') && !text.contains('\n'), "{path}.{name}: {text:?}");
                assert!(!text.contains('`') && !text.contains('['), "{path}.{name} holds markup: {text:?}");
            }
        });
    }
}

#[test]
fn rules_name_only_fields_that_exist() {
    // A rule on a field the schema does not declare would make the API server refuse the whole definition.
    for crd in crd::all() {
        walk(&crd.spec.names.kind, &schema(&crd), &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                let text = rule["rule"].as_str().unwrap();
                assert!(!rule["message"].as_str().unwrap().is_empty(), "{path}");
                let owner = if text.starts_with("self.all(x, x.") || text.starts_with("self.all(x, (x.") {
                    &schema["items"]["properties"]
                } else {
                    &schema["properties"]
                };
                let prefix = if owner == &schema["properties"] { "self." } else { "x." };
                for part in text.split(prefix).skip(1) {
                    let field: String = part.chars().take_while(char::is_ascii_alphanumeric).collect();
                    if schema["type"] == "object" && schema["properties"].is_null()
                        || schema["type"] == "string"
                    {
                        assert!(["all", "find"].contains(&field.as_str()), "{path}: {field} in {text}");
                    } else if schema["type"] == "array" && prefix == "self." {
                        assert_eq!(field, "all", "{path}: {text}");
                    } else {
                        assert!(owner.get(&field).is_some(), "{path}: no field {field}, named in {text}");
                    }
                }
            }
        });
    }
}

#[test]
fn names_scopes_and_columns() {
    let rows: Vec<String> = crd::all()
        .iter()
        .map(|crd| {
            let names = &crd.spec.names;
            let version = &crd.spec.versions[0];
            let columns: Vec<_> = version
                .additional_printer_columns
                .iter()
                .flatten()
                .map(|column| format!("{}{}", column.name, if column.priority == Some(1) { "*" } else { "" }))
                .collect();
            format!(
                "{} {}/{} {} short {:?} categories {:?} columns {}",
                crd.metadata.name.as_deref().unwrap(),
                crd.spec.group,
                version.name,
                crd.spec.scope,
                names.short_names.clone().unwrap_or_default(),
                names.categories.clone().unwrap_or_default(),
                columns.join(" ")
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r#"
    nodepools.karpenter.sh karpenter.sh/v1 Cluster short [] categories ["karpenter"] columns NodeClass Nodes Ready Age Weight* CPU* Memory*
    nodeclaims.karpenter.sh karpenter.sh/v1 Cluster short [] categories ["karpenter"] columns Type Capacity Zone Node Ready Age ImageID* ID* NodePool* NodeClass* Drifted*
    nodeoverlays.karpenter.sh karpenter.sh/v1alpha1 Cluster short ["overlays"] categories ["karpenter"] columns Ready Age Weight*
    capacitybuffers.autoscaling.x-k8s.io autoscaling.x-k8s.io/v1beta1 Namespaced short ["cb"] categories ["autoscaling"] columns Strategy PodTemplate Replicas ConditionsType ConditionsStatus ConditionsReason Age
    kwoknodeclasses.karpenter.kwok.sh karpenter.kwok.sh/v1alpha1 Cluster short ["kwoknc", "kwokncs"] categories ["karpenter"] columns
    "#);
}

#[test]
fn a_pool_can_be_scaled() {
    let crds = crd::all();
    let scale = crds[0].spec.versions[0].subresources.as_ref().unwrap().scale.as_ref().unwrap();
    assert_eq!(scale.spec_replicas_path, ".spec.replicas");
    assert_eq!(scale.status_replicas_path, ".status.nodes");
    for crd in &crds {
        assert!(crd.spec.versions[0].subresources.as_ref().unwrap().status.is_some());
    }
}
