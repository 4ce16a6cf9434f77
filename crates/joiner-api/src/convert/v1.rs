//! Objects of today's version that use yesterday's or never-existing words.

use serde_json::Value;

use super::{Converted, Note};
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
        notes.push(Note {
            path: format!("{path}[{index}].key"),
            message: format!("no node carries {}, read as `{real}`", key.to_string().replace('"', "`")),
        });
        *key = real.into();
    }
}
