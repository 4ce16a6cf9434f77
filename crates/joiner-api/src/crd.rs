//! CustomResourceDefinitions of the kinds we serve.
//!
//! Deriving gives the bulk of each schema. What it cannot say is put right afterwards: fields are not nullable (the API
//! server drops an explicit null and takes the default, as for any other kind), descriptions are flowed text instead
//! of wrapped lines, a quantity is a number or a text, and the KWOK class needs no spec.

mod ec2nodeclass;
pub(crate) mod fragments;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::CustomResourceExt;
use serde_json::{Map, Value, json};

pub use ec2nodeclass::ec2_node_class;

use crate::kwoknodeclass::READY_SINCE;
use crate::names::conditions::READY;
use crate::{CapacityBuffer, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};

/// All definitions, in the order they are best applied.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        structural(NodePool::crd()),
        structural(NodeClaim::crd()),
        structural(NodeOverlay::crd()),
        structural(CapacityBuffer::crd()),
        ready_from_birth(structural(KwokNodeClass::crd())),
    ]
}

/// Definitions of kinds that belong to others and that a simulated cluster knows, so that manifests for a real one can be applied to it and are
/// refused where a real one would. Nobody looks at the objects, so they are ready from the start. Not for clusters where their owners
/// are at work: those bring their own.
pub fn of_others() -> Vec<CustomResourceDefinition> {
    vec![ready_from_birth(ec2_node_class())]
}

fn structural(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    edit_schema(crd, |root| {
        tidy(root);
        for (name, description) in [
            ("apiVersion", "Group and version of the schema of this object."),
            ("kind", "Kind of this object."),
        ] {
            root["properties"][name] = json!({ "type": "string", "description": description });
        }
        root["properties"]["metadata"] = json!({ "type": "object" });
    })
}

fn ready_from_birth(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    edit_schema(crd, |root| {
        if let Some(root) = root.as_object_mut() {
            root.remove("required");
        }
        root["properties"]["status"]["default"] = json!({
            "conditions": [{
                "lastTransitionTime": READY_SINCE,
                "message": "",
                "reason": READY,
                "status": "True",
                "type": READY,
            }],
        });
    })
}

fn edit_schema(mut crd: CustomResourceDefinition, edit: impl Fn(&mut Value)) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut())
        else {
            continue;
        };
        let mut value = serde_json::to_value(&*schema).expect("a schema is plain data");
        edit(&mut value);
        *schema = serde_json::from_value::<JSONSchemaProps>(value).expect("edits keep a schema a schema");
    }
    crd
}

/// Walks a schema and puts right what deriving leaves behind.
fn tidy(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    schema.remove("nullable");
    schema.remove("title");
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        // The rewriter of the derive crate empties the alternatives.
        schema.insert("anyOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = flowed(description);
    }
    for (_, property) in object_mut(schema, "properties") {
        tidy(property);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            tidy(inner);
        }
    }
}

fn object_mut<'a>(
    schema: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> {
    schema.get_mut(key).and_then(Value::as_object_mut).into_iter().flatten()
}

/// Joins the lines of each paragraph.
fn flowed(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}
