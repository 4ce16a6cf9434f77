//! Rules of nodes.

use serde_json::{Value, json};

use super::place::{Place, list, text};
use super::{names, scheduling};
use crate::rest::Cause;

/// Taints: names of labels, known effects, unique by key and effect.
pub(super) fn check(node: &Value, causes: &mut Vec<Cause>) {
    let taints = list(&node["spec"]["taints"]);
    let at = Place::Start("metadata.taints");
    for (index, taint) in taints.iter().enumerate() {
        let place = at.index(index);
        names::check_key(text(&taint["key"]), place.field("key"), causes);
        let value = text(&taint["value"]);
        let broken = names::value_breaks(value);
        if !broken.is_empty() {
            causes.push(Cause::invalid(place.field("value"), &json!(value), &broken.join(";")));
        }
        match text(&taint["effect"]) {
            "" => causes.push(Cause::required(place.field("effect"), "")),
            effect => scheduling::check_effect(effect, place.field("effect"), causes),
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
}

/// What of a node may change.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    // An update is checked once as an object and once as a change.
    let mut causes = Vec::new();
    check(new, &mut causes);
    let provider = |node: &Value| node["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        causes.push(Cause::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    causes
}
