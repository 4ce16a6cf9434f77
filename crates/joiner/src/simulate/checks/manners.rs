//! S18: objects of others are left as they are, but for what is documented.

use serde_json::Value;

use super::Check;
use crate::simulate::happening::{Call, Cluster, Happening, What};

/// What joiner may do, by method and resource; for patches the fields it may name (empty: all).
const ALLOWED: [(&str, &str, &[&str]); 19] = [
    ("POST", "nodeclaims", &[]),
    ("PATCH", "nodeclaims", &[]),
    ("DELETE", "nodeclaims", &[]),
    ("PATCH", "nodepools", &["metadata", "status"]),
    // KWOK's machines are Nodes.
    ("POST", "nodes", &[]),
    ("PATCH", "nodes", &["metadata", "spec.taints"]),
    ("DELETE", "nodes", &[]),
    ("POST", "pods/eviction", &[]),
    ("DELETE", "pods", &[]),
    ("POST", "events", &[]),
    ("PATCH", "events", &[]),
    ("PATCH", "configmaps", &[]),
    ("POST", "configmaps", &[]),
    ("POST", "leases", &[]),
    ("PUT", "leases", &[]),
    ("PATCH", "leases", &[]),
    ("PATCH", "nodeoverlays", &["metadata", "status"]),
    ("PATCH", "capacitybuffers", &["metadata", "status"]),
    ("PATCH", "kwoknodeclasses", &["metadata", "status"]),
];

/// Fields of the metadata of others that are joiner's business.
const METADATA: [&str; 7] =
    ["labels", "annotations", "finalizers", "ownerReferences", "resourceVersion", "uid", "name"];

/// Watches whose fields are written.
pub(super) struct Manners;

impl Check for Manners {
    fn see(&mut self, happening: &Happening, _: &Cluster) -> Vec<(&'static str, String)> {
        match &happening.what {
            What::Called(call) => judge(call).into_iter().map(|text| ("S18", text)).collect(),
            _ => Vec::new(),
        }
    }
}

fn judge(call: &Call) -> Option<String> {
    let target = call.target();
    let resource = match (target.resource, target.part) {
        ("pods", "eviction") => "pods/eviction",
        (resource, _) => resource,
    };
    let Some((_, _, fields)) =
        ALLOWED.iter().find(|(method, allowed, _)| *method == call.method && *allowed == resource)
    else {
        return Some(format!("{} {}: joiner has no business there", call.method, call.path));
    };
    if fields.is_empty() {
        return None;
    }
    let named = call.body.as_object().into_iter().flatten().flat_map(|(field, value)| {
        match (field.as_str(), value) {
            ("apiVersion" | "kind", _) => Vec::new(),
            ("spec", Value::Object(spec)) => spec.keys().map(|key| format!("spec.{key}")).collect(),
            ("metadata", Value::Object(metadata)) => {
                let odd = metadata.keys().filter(|key| !METADATA.contains(&key.as_str()));
                odd.map(|key| format!("metadata.{key}")).collect()
            }
            (field, _) => vec![field.to_owned()],
        }
    });
    let odd: Vec<String> = named.filter(|field| !fields.contains(&field.as_str())).collect();
    (!odd.is_empty()).then(|| format!("{} {} writes {}", call.method, call.path, odd.join(", ")))
}
