//! Dropping fields that a schema does not declare.

use serde_json::Value;

use super::path::Path;
use super::schema::Node;
use crate::schema::Schemas;

/// Prunes a whole object; returns the paths of what went, sorted.
pub(super) fn prune(root: &Node, object: &mut Value) -> Vec<String> {
    let mut gone = Vec::new();
    prune_node(root, object, Path::Root, true, &mut gone);
    gone.sort();
    gone
}

/// The paths of what [`prune`] would drop, sorted.
pub(super) fn undeclared(root: &Node, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find_below(root, object, Path::Root, true, &mut found);
    found.sort();
    found
}

/// Prunes a part of an object.
pub(super) fn prune_below(node: &Node, value: &mut Value) {
    prune_node(node, value, Path::Root, node.embedded, &mut Vec::new());
}

/// What a schema says of a field.
enum Verdict<'n> {
    Stays,
    /// Its own fields are those of all metadata.
    Metadata,
    Inside(&'n Node),
    Goes,
}

fn judge<'n>(node: &'n Node, name: &str, whole: bool) -> Verdict<'n> {
    match (name, node.member(name)) {
        ("apiVersion" | "kind", _) if whole => Verdict::Stays,
        ("metadata", _) if whole => Verdict::Metadata,
        (_, Some(inner)) => Verdict::Inside(inner),
        _ if node.preserve_unknown || node.any_additional => Verdict::Stays,
        _ => Verdict::Goes,
    }
}

fn prune_node(node: &Node, value: &mut Value, path: Path<'_>, whole: bool, gone: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.retain(|name, member| {
            let path = Path::Field(&path, name);
            match judge(node, name, whole) {
                Verdict::Stays => {}
                Verdict::Metadata => prune_metadata(member, &path, gone),
                Verdict::Inside(inner) => prune_node(inner, member, path, inner.embedded, gone),
                Verdict::Goes => {
                    gone.push(path.to_string());
                    return false;
                }
            }
            true
        }),
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune_node(inner, item, Path::Item(&path, index), inner.embedded, gone);
            }
        }
        _ => {}
    }
}

fn find_below(node: &Node, value: &Value, path: Path<'_>, whole: bool, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, member) in map {
                let path = Path::Field(&path, name);
                match judge(node, name, whole) {
                    Verdict::Stays => {}
                    Verdict::Metadata => {
                        let names = member.as_object().into_iter().flat_map(serde_json::Map::keys);
                        let unknown = names.filter(|name| !is_in_metadata(name));
                        found.extend(unknown.map(|name| Path::Field(&path, name).to_string()));
                    }
                    Verdict::Inside(inner) => find_below(inner, member, path, inner.embedded, found),
                    Verdict::Goes => found.push(path.to_string()),
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                find_below(inner, item, Path::Item(&path, index), inner.embedded, found);
            }
        }
        _ => {}
    }
}

/// Metadata has the fields it has everywhere.
fn is_in_metadata(name: &str) -> bool {
    let ty = Schemas::builtin().definition("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    ty.is_none_or(|ty| ty.has_field(name))
}

fn prune_metadata(value: &mut Value, path: &Path<'_>, gone: &mut Vec<String>) {
    let Some(map) = value.as_object_mut() else { return };
    map.retain(|name, _| {
        let known = is_in_metadata(name);
        if !known {
            gone.push(Path::Field(path, name).to_string());
        }
        known
    });
}
