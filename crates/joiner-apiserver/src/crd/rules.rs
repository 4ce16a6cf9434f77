//! The walk of CEL rules through an object: which rules a value meets, which old value it continues, and what an unchanged value is
//! still judged by. How a rule is judged and run is told in `joiner-cel`.

use joiner_cel::{Cause, Place};
use serde_json::Value;

use super::path::Path;
use super::schema::Node;

impl Place for Node {
    fn kind(&self) -> &str {
        &self.kind
    }

    fn is_int_or_string(&self) -> bool {
        self.int_or_string
    }

    fn format(&self) -> &str {
        &self.checks.format
    }

    fn is_map(&self) -> bool {
        self.additional.is_some() || self.any_additional
    }

    fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    fn member(&self, name: &str) -> Option<&Self> {
        Node::member(self, name)
    }
}

/// Runs the rules of all places on an object.
pub(super) fn check(root: &Node, new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    visit(root, new, old, false, Path::Root, causes);
}

/// `unchanged`: whether the nearest place above with an old value is as it was.
fn visit(
    node: &Node,
    new: &Value,
    old: Option<&Value>,
    unchanged: bool,
    path: Path<'_>,
    causes: &mut Vec<Cause>,
) {
    if new.is_null() {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    let unchanged = old.map_or(unchanged, |old| node.is_unchanged(new, old));
    if let Some(rules) = &node.rules {
        for failure in rules.run(node, new, old) {
            // What did not change may stay as it is, unless the rule is about the change.
            let passes = unchanged && failure.is_broken();
            if !passes || failure.is_about_change() {
                causes.push(failure.cause(&node.kind, new, &path.to_string()));
            }
        }
    }
    match new {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(inner) = node.member(name) {
                    let old = node.continued_field(name, old);
                    visit(inner, value, old, unchanged, Path::Field(&path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            let Some(inner) = &node.items else { return };
            for (index, item) in items.iter().enumerate() {
                let old = node.continued(item, old);
                visit(inner, item, old, unchanged, Path::Item(&path, index), causes);
            }
        }
        _ => {}
    }
}
