//! Rules of pods and pod templates.

use serde_json::{Map, Value, json};

use super::containers::{self, Surroundings, one_of};
use super::place::{Place, list, text};
use super::{metadata, names, resources, scheduling, variables, volumes};
use crate::rest::Cause;

/// Judges the spec of a pod.
pub(super) fn check(spec: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    check_with(spec, Vec::new(), place, causes);
}

/// Judges a template of pods. `further`: volumes that whoever makes the pods brings along.
pub(super) fn check_template(
    template: &Value,
    further: Vec<&str>,
    place: Place<'_>,
    causes: &mut Vec<Cause>,
) {
    names::check_labels(&template["metadata"]["labels"], place.field("labels"), causes);
    metadata::check_annotations(&template["metadata"]["annotations"], place.field("annotations"), causes);
    let spec = &template["spec"];
    let at = place.field("spec");
    check_with(spec, further, at, causes);
    if !list(&spec["ephemeralContainers"]).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        causes.push(Cause::forbidden(at.field("ephemeralContainers"), detail));
    }
}

fn check_with<'a>(spec: &'a Value, further: Vec<&'a str>, place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut right = volumes::check(list(&spec["volumes"]), place.field("volumes"), causes);
    right.extend(further);
    let claims = list(&spec["resourceClaims"]).iter().map(|claim| text(&claim["name"])).collect();
    containers::check(spec, &Surroundings { volumes: right, claims }, place, causes);
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], place, causes);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec, "dnsPolicy", &dns, place, causes);
    scheduling::check(spec, place, causes);
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        if let Some(name) = spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty()) {
            names::check_subdomain(name, place.field(field), causes);
        }
    }
    for field in ["hostname", "subdomain"] {
        if let Some(name) = spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty()) {
            names::check_label(name, place.field(field), causes);
        }
    }
    let at = place.field("readinessGates");
    for (index, gate) in list(&spec["readinessGates"]).iter().enumerate() {
        let at = at.index(index);
        variables::qualified(text(&gate["conditionType"]), at.field("conditionType"), causes);
    }
    if let Some(system) = spec.get("os") {
        let (at, known) = (place.field("os"), ["linux", "windows"]);
        match text(&system["name"]) {
            "" => causes.push(Cause::required(at.field("name"), "")),
            name if known.contains(&name) => {}
            name => causes.push(Cause::unsupported(at, &json!(name), &known)),
        }
    }
    resources::check_whole(spec, place.field("resources"), causes);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = "must be between 1 and 2147483647, inclusive";
        causes.push(Cause::invalid(place.field("activeDeadlineSeconds"), &json!(seconds), detail));
    }
    if spec.get("preemptionPolicy").is_some() {
        one_of(spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"], place, causes);
    }
}

const REFUSED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
    (allow it to be set to 1 if it was previously negative)";

/// What of a pod may change.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (old, new) = (&old["spec"], &new["spec"]);
    let list = |spec: &Value, field: &str| list(&spec[field]).to_vec();

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

/// Containers for looking around come and stay.
pub(super) fn on_ephemeral_update(old: &Value, new: &Value) -> Vec<Cause> {
    let (before, after) =
        (list(&old["spec"]["ephemeralContainers"]), list(&new["spec"]["ephemeralContainers"]));
    let mut causes = Vec::new();
    for old in before {
        let name = text(&old["name"]);
        let complaint = match after.iter().find(|new| new["name"] == old["name"]) {
            None => "removed",
            Some(new) if new != old => "changed",
            Some(_) => continue,
        };
        let detail = format!("existing ephemeral containers {name:?} may not be {complaint}\n");
        causes.push(Cause::forbidden("spec.ephemeralContainers", &detail));
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
