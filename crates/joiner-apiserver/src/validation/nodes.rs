//! Rules of nodes.

use serde_json::{Value, json};

use super::place::{Place, list, text};
use super::{addresses, names, resources, scheduling};
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
    ranges(node, causes);
}

/// Judges the ranges that pods of a node get their addresses from.
fn ranges(node: &Value, causes: &mut Vec<Cause>) {
    let given = ranges_of(node);
    let at = Place::Start("spec.podCIDRs");
    for (index, range) in given.iter().enumerate() {
        addresses::check_range(range, at.index(index), causes);
    }
    if given.len() < 2 {
        return;
    }
    let read: Vec<_> = given.iter().map(|range| addresses::parse_range(range)).collect();
    if let Some(wrong) = read.iter().position(Option::is_none) {
        causes.push(Cause {
            reason: "InternalError".to_owned(),
            message: format!(
                "Internal error: invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{wrong}]: \
                 <nil> (invalid CIDR address: {})",
                given[wrong]
            ),
            field: at.into(),
        });
    }
    let family = |four: bool| read.iter().flatten().filter(|(address, _)| address.is_ipv4() == four).count();
    if given.len() > 2 || family(true) != 1 || family(false) != 1 {
        let detail = "may specify no more than one CIDR for each IP family";
        causes.push(Cause::invalid(at, &json!(given), detail));
    }
}

/// The ranges of a node; the older field has the first of them.
fn ranges_of(node: &Value) -> Vec<&str> {
    let ranges: Vec<&str> = list(&node["spec"]["podCIDRs"]).iter().map(text).collect();
    match text(&node["spec"]["podCIDR"]) {
        range if ranges.is_empty() && !range.is_empty() => vec![range],
        _ => ranges,
    }
}

/// Judges how much a node has, and how much of it pods may use.
pub(super) fn amounts(node: &Value, causes: &mut Vec<Cause>) {
    for field in ["capacity", "allocatable"] {
        let at = Place::Start("status");
        let at = at.field(field);
        for (name, amount) in node["status"][field].as_object().into_iter().flatten() {
            resources::check_name(name, at.field(name), causes);
            resources::check_amount(name, amount, at.field(name), causes);
        }
    }
}

/// What of a node may change.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    // An update is checked once as an object and once as a change.
    let mut causes = Vec::new();
    check(new, &mut causes);
    let before = ranges_of(old);
    if !before.is_empty() && before != ranges_of(new) {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        causes.push(Cause::forbidden("spec.podCIDRs", detail));
    }
    let provider = |node: &Value| node["spec"]["providerID"].as_str().unwrap_or_default().to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        causes.push(Cause::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    causes
}
