//! Dropping fields that a schema does not declare.

use serde_json::Value;

use super::schema::{Node, join};
use crate::schema::Schemas;

/// Prunes a whole object; returns the paths of what went, sorted.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut gone = Vec::new();
    prune_node(root, object, "", true, &mut gone);
    gone.sort();
    gone
}

/// Prunes a part of an object.
pub(super) fn prune_below(node: &Node, value: &mut Value) {
    prune_node(node, value, "", node.embedded, &mut Vec::new());
}

fn prune_node(node: &Node, value: &mut Value, path: &str, whole: bool, gone: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let names: Vec<String> = map.keys().cloned().collect();
            for name in names {
                let path = join(path, &name);
                let Some(member) = map.get_mut(&name) else { continue };
                match (name.as_str(), node.member(&name)) {
                    ("apiVersion" | "kind", _) if whole => {}
                    ("metadata", _) if whole => prune_metadata(member, &path, gone),
                    (_, Some(inner)) => prune_node(inner, member, &path, inner.embedded, gone),
                    _ if node.preserve_unknown || node.any_additional => {}
                    _ => {
                        map.remove(&name);
                        gone.push(path);
                    }
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune_node(inner, item, &format!("{path}[{index}]"), inner.embedded, gone);
            }
        }
        _ => {}
    }
}

/// Metadata has the fields it has everywhere.
fn prune_metadata(value: &mut Value, path: &str, gone: &mut Vec<String>) {
    let ty = Schemas::builtin().definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let (Some(map), Some(ty)) = (value.as_object_mut(), ty) else { return };
    map.retain(|name, _| {
        let known = ty.has_field(name);
        if !known {
            gone.push(join(path, name));
        }
        known
    });
}
