//! Objects of today's version that use yesterday's or never-existing words.

use serde_json::Value;

use super::{Converted, Note, join};
use crate::names;
use crate::nodepool::ConsolidationPolicy;

/// Rewrites the old consolidation policy and label keys that exist on paper only.
pub(super) fn normalized(mut value: Value) -> Converted {
    let mut notes = Vec::new();
    if let Some(policy) = value.pointer_mut("/spec/disruption/consolidationPolicy")
        && policy == "WhenUnderutilized"
    {
        *policy = ConsolidationPolicy::WhenEmptyOrUnderutilized.as_str().into();
        notes.push(Note {
            path: "spec.disruption.consolidationPolicy".to_owned(),
            message: "`WhenUnderutilized` is an old name, read as `WhenEmptyOrUnderutilized`".to_owned(),
        });
    }
    for (pointer, path) in [
        ("/spec/template/spec/requirements", "spec.template.spec.requirements"),
        ("/spec/requirements", "spec.requirements"),
    ] {
        if let Some(Value::Array(requirements)) = value.pointer_mut(pointer) {
            rewrite_paper_keys(requirements, path, &mut notes);
        }
    }
    Converted { objects: vec![value], notes }
}

/// Replaces label keys that no node carries by the real ones.
pub(super) fn rewrite_paper_keys(requirements: &mut [Value], path: &str, notes: &mut Vec<Note>) {
    for (index, requirement) in requirements.iter_mut().enumerate() {
        let Some(key) = requirement.get_mut("key") else { continue };
        let Some(real) = key.as_str().and_then(names::paper_alias) else { continue };
        notes.push(paper_note(format!("{path}[{index}].key"), key.as_str().unwrap_or_default(), real));
        *key = real.into();
    }
}

/// The same in pods and their templates, wherever they choose nodes: `nodeSelector` and node affinity.
pub(super) fn rewrite_paper_selectors(value: &mut Value, path: &str, of_nodes: bool, notes: &mut Vec<Note>) {
    match value {
        Value::Array(list) => {
            for (index, item) in list.iter_mut().enumerate() {
                rewrite_paper_selectors(item, &format!("{path}[{index}]"), of_nodes, notes);
            }
        }
        Value::Object(map) => {
            if of_nodes
                && let Some(key) = map.get_mut("key")
                && let Some(real) = key.as_str().and_then(names::paper_alias)
            {
                notes.push(paper_note(join(path, "key"), key.as_str().unwrap_or_default(), real));
                *key = real.into();
            }
            for (field, inner) in map.iter_mut() {
                let path = join(path, field);
                if field == "nodeSelector"
                    && let Some(selector) = inner.as_object_mut()
                {
                    for (paper, real) in names::PAPER_ALIASES {
                        if let Some(value) = selector.remove(paper) {
                            notes.push(paper_note(path.clone(), paper, real));
                            selector.entry(real).or_insert(value);
                        }
                    }
                }
                rewrite_paper_selectors(inner, &path, of_nodes || field == "nodeAffinity", notes);
            }
        }
        _ => {}
    }
}

fn paper_note(path: String, paper: &str, real: &str) -> Note {
    Note { path, message: format!("no node carries `{paper}`, read as `{real}`") }
}
