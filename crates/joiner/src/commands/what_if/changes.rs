//! Applying changes to objects: replacing, removing, editing, scaling.

use std::collections::BTreeSet;

use serde_json::Value;

use super::WhatIfArgs;
use super::edit::Edit;
use super::objects::{Identity, Item, Target, wrong};
use crate::field::{at, follows_nodes};
use crate::report::InputError;

/// Kinds that have a number of pods.
const SCALABLE: [&str; 4] = ["Deployment", "StatefulSet", "ReplicaSet", "Job"];

/// The input after the changes.
#[derive(Debug, Default)]
pub struct Changed {
    /// All objects.
    pub items: Vec<Item>,
    /// What was done, one line each.
    pub done: Vec<String>,
    /// Pods (`namespace/name`) that lost their node, and the node.
    pub freed: Vec<(String, String)>,
}

/// Applies all changes.
pub fn apply(
    arguments: &WhatIfArgs,
    mut items: Vec<Item>,
    replacements: Vec<Item>,
    validate: &mut dyn FnMut(&str, &Value) -> Result<(), InputError>,
) -> Result<Changed, InputError> {
    let (mut done, mut freed) = (Vec::new(), Vec::new());
    for replacement in replacements {
        replace(&mut items, replacement, &mut done);
    }
    let namespace = arguments.namespace.as_deref();
    for text in &arguments.remove {
        let target = Target::parse("--remove", text, namespace)?;
        let at = target.find("--remove", &items)?;
        remove(&mut items, at, &mut done, &mut freed);
    }
    for text in &arguments.edit {
        let edit = Edit::parse(text, namespace)?;
        let at = edit.target.find("--edit", &items)?;
        let before = items[at].identity.clone();
        edit.apply(&mut items[at].value).map_err(|message| {
            wrong("--edit", text, message, "check the path against the object in the input")
        })?;
        validate(&format!("--edit {text}"), &items[at].value)?;
        items[at].identity = Identity::of(&items[at].value);
        let name = before.map(|identity| identity.text()).unwrap_or_default();
        done.push(format!("{name}: {} = {}", edit.written_path, edit.value));
    }
    for text in &arguments.scale {
        scale(&mut items, text, namespace, &mut done)?;
    }
    Ok(Changed { items, done, freed })
}

fn replace(items: &mut Vec<Item>, replacement: Item, done: &mut Vec<String>) {
    let name = replacement
        .identity
        .as_ref()
        .map_or_else(|| joiner_manifest::name_of(&replacement.value), |i| i.text());
    // Of objects that are there twice the last counts.
    let there =
        items.iter().rposition(|item| item.identity.is_some() && item.identity == replacement.identity);
    match there {
        Some(at) => {
            items[at] = replacement;
            done.push(format!("{name}: replaced"));
        }
        None => {
            items.push(replacement);
            done.push(format!("{name}: added"));
        }
    }
}

/// Takes an object away; the pods of a node are pending again, and its claim goes with it.
fn remove(items: &mut Vec<Item>, at: usize, done: &mut Vec<String>, freed: &mut Vec<(String, String)>) {
    let identity = items[at].identity.clone();
    let name = identity.as_ref().map(|identity| identity.text()).unwrap_or_default();
    items.retain(|item| item.identity != identity || identity.is_none());
    let Some(node) = identity.filter(|identity| identity.kind == "Node").map(|identity| identity.name) else {
        done.push(format!("{name}: removed"));
        return;
    };
    let freed_before = freed.len();
    remove_nodes(items, &BTreeSet::from([node.as_str()]), freed);
    done.push(format!(
        "{name}: removed, {} to be placed again",
        crate::show::plural(freed.len() - freed_before, "pod")
    ));
}

/// Takes nodes away, with their claims and daemons; their other pods wait.
pub fn remove_nodes(items: &mut Vec<Item>, nodes: &BTreeSet<&str>, freed: &mut Vec<(String, String)>) {
    let is_gone = |item: &Item, path: &str| {
        at(&item.value, path).and_then(Value::as_str).filter(|node| nodes.contains(node)).map(str::to_owned)
    };
    items.retain_mut(|item| {
        let Some(identity) = item.identity.clone() else { return true };
        match identity.kind.as_str() {
            "Node" => !nodes.contains(identity.name.as_str()),
            "NodeClaim" => is_gone(item, "/status/nodeName").is_none(),
            "Pod" => {
                let Some(node) = is_gone(item, "/spec/nodeName") else { return true };
                // What has ended or is on its way out goes with its node, too.
                let phase = at(&item.value, "/status/phase").and_then(Value::as_str);
                let is_over = matches!(phase, Some("Succeeded" | "Failed"))
                    || at(&item.value, "/metadata/deletionTimestamp").is_some();
                if is_over || follows_nodes(&item.value) {
                    return false;
                }
                freed.push((format!("{}/{}", identity.namespace, identity.name), node));
                if let Some(spec) = item.value.get_mut("spec").and_then(Value::as_object_mut) {
                    spec.remove("nodeName");
                }
                if let Some(object) = item.value.as_object_mut() {
                    object.remove("status");
                }
                true
            }
            _ => true,
        }
    });
}

fn scale(
    items: &mut [Item],
    text: &str,
    namespace: Option<&str>,
    done: &mut Vec<String>,
) -> Result<(), InputError> {
    let syntax = "write KIND/NAME=N, e.g. `deploy/web=200`";
    let (target, number) =
        text.rsplit_once('=').ok_or_else(|| wrong("--scale", text, "there is no `=`", syntax))?;
    let number: i32 = number
        .trim()
        .parse()
        .ok()
        .filter(|number| *number >= 0)
        .ok_or_else(|| wrong("--scale", text, format!("`{number}` is not a number of pods"), syntax))?;
    let target = Target::parse("--scale", target, namespace)?;
    if !SCALABLE.iter().any(|kind| target.is_kind(kind)) {
        let remedy = format!("scale one of {}", SCALABLE.join(", "));
        return Err(wrong("--scale", text, "this kind has no number of pods", remedy));
    }
    let at = target.find("--scale", items)?;
    let item = &mut items[at];
    let identity = item.identity.clone();
    let is_job = identity.as_ref().is_some_and(|identity| identity.kind == "Job");
    let Some(spec) = item.value.get_mut("spec").and_then(Value::as_object_mut) else {
        return Err(wrong("--scale", text, "the object has no spec", "describe what it should be"));
    };
    let field = if is_job { "parallelism" } else { "replicas" };
    let before = spec.insert(field.to_owned(), number.into()).filter(|value| !value.is_null());
    // A Job never runs more pods than it has completions left.
    if is_job
        && spec.get("completions").and_then(Value::as_i64).is_some_and(|count| count < i64::from(number))
    {
        spec.insert("completions".to_owned(), number.into());
    }
    let before = before.map_or_else(|| "1".to_owned(), |before| before.to_string());
    let name = identity.map(|identity| identity.text()).unwrap_or_default();
    done.push(format!("{name}: {field} {before} -> {number}"));
    Ok(())
}
