//! Defaults that a schema declares must be what the schema asks for.

use super::schema::Node;
use super::{Cause, embedded, prune, rules, validate};

/// Judges the defaults of a schema; `path` is where it stands in the definition.
pub(super) fn check(node: &Node, path: &str, causes: &mut Vec<Cause>) {
    if let Some(default) = &node.default {
        let path = format!("{path}.default");
        let mut known = default.clone();
        prune::prune_below(node, &mut known);
        if known != *default {
            causes.push(Cause::invalid(&path, default, "must not have unknown fields"));
        }
        let mut faults = Vec::new();
        embedded::check(node, default, "", &mut faults);
        if faults.is_empty() {
            validate::validate(node, default, None, "", &mut faults);
        }
        if faults.is_empty() {
            rules::check(node, default, None, &mut faults);
        }
        for fault in faults {
            let field = match fault.field.as_str() {
                "" | "<nil>" => path.clone(),
                below => format!("{path}.{below}"),
            };
            causes.push(Cause { field, ..fault });
        }
    }
    for (name, property) in &node.properties {
        check(property, &format!("{path}.properties[{name}]"), causes);
    }
    if let Some(items) = &node.items {
        check(items, &format!("{path}.items"), causes);
    }
}

/// Whether a schema declares any.
pub(super) fn any(node: &Node) -> bool {
    node.default.as_ref().is_some_and(|default| !default.is_null())
        || node.properties.values().any(any)
        || node.items.as_deref().is_some_and(any)
}
