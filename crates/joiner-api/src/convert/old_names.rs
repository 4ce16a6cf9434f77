//! Labels, annotations and taints of v1alpha5 under their names of today.

use serde_json::{Map, Value};

use super::{Note, join};
use crate::names;

const RENAMED: [(&str, &str); 3] = [
    (names::PROVISIONER_NAME_LABEL, names::NODEPOOL_LABEL),
    (names::DO_NOT_EVICT_ANNOTATION, names::DO_NOT_DISRUPT_ANNOTATION),
    (names::DO_NOT_CONSOLIDATE_ANNOTATION, names::DO_NOT_DISRUPT_ANNOTATION),
];

/// Renames wherever a value names a label, an annotation or the disruption taint; `path` is where the value stands.
pub(super) fn rename(value: &mut Value, path: &str, notes: &mut Vec<Note>) {
    match value {
        Value::Array(list) => {
            for (index, item) in list.iter_mut().enumerate() {
                rename(item, &format!("{path}[{index}]"), notes);
            }
        }
        Value::Object(map) => {
            rename_taint(map, path, notes);
            for field in ["key", "topologyKey"] {
                if let Some(Value::String(text)) = map.get_mut(field)
                    && let Some(now) = name_of_today(text)
                {
                    notes.push(note(&join(path, field), text, now));
                    *text = now.to_owned();
                }
            }
            for (field, inner) in map.iter_mut() {
                let path = join(path, field);
                if ["labels", "annotations", "nodeSelector", "matchLabels"].contains(&field.as_str())
                    && let Some(inner) = inner.as_object_mut()
                {
                    rename_keys(inner, &path, notes);
                }
                rename(inner, &path, notes);
            }
        }
        _ => {}
    }
}

/// Renames the keys of a map of labels or annotations. A name of today that is there already wins.
pub(super) fn rename_keys(map: &mut Map<String, Value>, path: &str, notes: &mut Vec<Note>) {
    for (old, now) in RENAMED {
        if let Some(value) = map.remove(old) {
            notes.push(note(path, old, now));
            map.entry(now).or_insert(value);
        }
    }
}

/// The disruption taint lost its value; a toleration of it now asks for the key alone.
fn rename_taint(map: &mut Map<String, Value>, path: &str, notes: &mut Vec<Note>) {
    if map.get("key").and_then(Value::as_str) != Some(names::DISRUPTION_TAINT) {
        return;
    }
    notes.push(note(path, names::DISRUPTION_TAINT, names::DISRUPTED_TAINT));
    map.insert("key".to_owned(), names::DISRUPTED_TAINT.into());
    let had_value = map.remove("value").is_some();
    let is_toleration = map.contains_key("operator") || !map.contains_key("effect");
    if is_toleration && (had_value || map.get("operator").and_then(Value::as_str) == Some("Equal")) {
        map.insert("operator".to_owned(), "Exists".into());
    }
}

fn name_of_today(name: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == name).map(|(_, now)| *now)
}

fn note(path: &str, old: &str, now: &str) -> Note {
    Note { path: path.to_owned(), message: format!("`{old}` is called `{now}` now") }
}
