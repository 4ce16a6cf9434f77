//! Lists whose elements must be distinct: sets by value, maps by key.

use serde_json::Value;

use super::Cause;
use super::path::Path;
use super::schema::Node;
use crate::schema::ListType;

/// Elements that are there twice.
pub(super) fn check(root: &Node, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    visit(root, object, Path::Root, &mut causes);
    causes
}

fn visit(node: &Node, value: &Value, path: Path<'_>, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(inner) = node.member(name) {
                    visit(inner, value, Path::Field(&path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            let mut seen: Vec<Value> = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let path = Path::Item(&path, index);
                let identity = match node.list {
                    Some(ListType::Set) => Some(item.clone()),
                    Some(ListType::Map) => node.key_of(item),
                    _ => None,
                };
                if let Some(identity) = identity {
                    if seen.contains(&identity) {
                        causes.push(Cause::duplicate(&path.to_string(), Some(&identity)));
                    } else {
                        seen.push(identity);
                    }
                }
                if let Some(inner) = &node.items {
                    visit(inner, item, path, causes);
                }
            }
        }
        _ => {}
    }
}
