//! Rules of pods and pod templates.

use serde_json::{Map, Value, json};

use crate::rest::Cause;

/// A pod needs containers, and they need names and images.
pub(super) fn check(spec: &Value, place: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        causes.push(Cause::required(format!("{place}.containers"), ""));
    }
    for (index, container) in containers.iter().enumerate() {
        let of = |field: &str| container[field].as_str().unwrap_or_default();
        let place = format!("{place}.containers[{index}]");
        if of("name").is_empty() {
            causes.push(Cause::required(format!("{place}.name"), ""));
        } else if containers[..index].iter().any(|other| other["name"] == container["name"]) {
            causes.push(Cause::duplicate(format!("{place}.name"), &container["name"].to_string(), ""));
        }
        if of("image").is_empty() {
            causes.push(Cause::required(format!("{place}.image"), ""));
        }
    }
    causes
}

const REFUSED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
    (allow it to be set to 1 if it was previously negative)";

/// What of a pod may change.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (old, new) = (&old["spec"], &new["spec"]);
    let list = |spec: &Value, field: &str| spec[field].as_array().cloned().unwrap_or_default();

    let tolerations = list(new, "tolerations");
    let kept =
        |toleration: &Value| tolerations.iter().any(|other| same_but(other, toleration, "tolerationSeconds"));
    if list(old, "tolerations").iter().any(|toleration| !kept(toleration)) {
        causes.push(Cause::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    let gates = list(old, "schedulingGates");
    for (index, gate) in list(new, "schedulingGates").iter().enumerate() {
        if !gates.contains(gate) {
            let name = gate["name"].as_str().unwrap_or_default();
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            causes.push(Cause::forbidden(format!("spec.schedulingGates[{index}]"), &detail));
        }
    }
    let gated = !gates.is_empty();
    if gated && !tightened(&old["nodeSelector"], &new["nodeSelector"]) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        causes.push(Cause::invalid("spec.nodeSelector", &new["nodeSelector"], detail));
    }

    // With everything that may change taken back, nothing may be left that differs.
    let mut rest = new.clone();
    let mut take_back = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if gated {
        take_back.extend(["nodeSelector", "affinity"]);
    }
    if old["terminationGracePeriodSeconds"].as_i64().is_some_and(|grace| grace < 0)
        && new["terminationGracePeriodSeconds"] == 1
    {
        take_back.push("terminationGracePeriodSeconds");
    }
    for field in take_back {
        restore(&mut rest, old, field);
    }
    for field in ["containers", "initContainers"] {
        let before = list(old, field);
        for (index, container) in
            rest.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            if let Some(before) = before.get(index) {
                restore(container, before, "image");
            }
        }
    }
    if rest != *old {
        causes.push(Cause::forbidden("spec", REFUSED));
    }
    causes
}

fn restore(object: &mut Value, old: &Value, field: &str) {
    let Some(fields) = object.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

fn same_but(one: &Value, other: &Value, field: &str) -> bool {
    let without = |value: &Value| {
        let mut fields: Map<String, Value> = value.as_object().cloned().unwrap_or_default();
        fields.remove(field);
        fields
    };
    without(one) == without(other)
}

/// Whether a selector has everything it had before.
fn tightened(old: &Value, new: &Value) -> bool {
    let empty = json!({});
    let (old, new) = (if old.is_null() { &empty } else { old }, if new.is_null() { &empty } else { new });
    old.as_object().into_iter().flatten().all(|(key, value)| new.get(key) == Some(value))
}
