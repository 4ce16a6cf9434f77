//! Rules of nodes.

use serde_json::{Value, json};

use crate::rest::Cause;

/// Taints: known effects, unique by key and effect.
pub(super) fn check(node: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let taints = node["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, taint) in taints.iter().enumerate() {
        let place = format!("metadata.taints[{index}]");
        let effect = taint["effect"].as_str().unwrap_or_default();
        if taint["key"].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(format!("{place}.key"), "name part must be non-empty"));
        }
        if effect.is_empty() {
            causes.push(Cause::required(format!("{place}.effect"), ""));
        } else if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            causes.push(Cause::unsupported(format!("{place}.effect"), &json!(effect), &known));
        }
        if taints[..index]
            .iter()
            .any(|other| other["key"] == taint["key"] && other["effect"] == taint["effect"])
        {
            // Kubernetes shows the taint by the names of its fields in Go.
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                taint["key"],
                taint.get("value").cloned().unwrap_or_else(|| json!("")),
                taint["effect"],
                taint.get("timeAdded").cloned().unwrap_or(Value::Null)
            );
            causes.push(Cause::duplicate(place, &shown, "taints must be unique by key and effect pair"));
        }
    }
    causes
}

/// What of a node may change.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    // An update is checked once as an object and once as a change.
    let mut causes = check(new);
    let provider = |node: &Value| node["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        causes.push(Cause::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    causes
}
