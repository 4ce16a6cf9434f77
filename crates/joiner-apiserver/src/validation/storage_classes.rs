//! Rules of storage classes.

use serde_json::{Value, json};

use super::names;
use super::place::{Place, list, text};
use crate::rest::Cause;

const MOST_PARAMETERS: usize = 512;
const LONGEST_PARAMETERS: usize = 256 * 1024;

/// Judges a class, new or changed.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    let provisioner = text(&object["provisioner"]);
    if provisioner.is_empty() {
        causes.push(Cause::required("provisioner", ""));
    } else {
        names::check_key(&provisioner.to_lowercase(), Place::Start("provisioner"), causes);
    }
    parameters(object, causes);
    for (field, known) in [
        ("reclaimPolicy", ["Delete", "Retain"]),
        ("volumeBindingMode", ["Immediate", "WaitForFirstConsumer"]),
    ] {
        let word = text(&object[field]);
        if !known.contains(&word) {
            causes.push(Cause::unsupported(field, &json!(word), &known));
        }
    }
    let at = Place::Start("allowedTopologies");
    for (index, term) in list(&object["allowedTopologies"]).iter().enumerate() {
        topology(term, at.index(index), causes);
    }
}

fn parameters(object: &Value, causes: &mut Vec<Cause>) {
    let Some(parameters) = object["parameters"].as_object() else { return };
    if parameters.len() > MOST_PARAMETERS {
        causes.push(Cause::too_long("parameters", MOST_PARAMETERS));
        return;
    }
    if parameters.contains_key("") {
        causes.push(Cause::invalid("parameters", &json!(""), "field can not be empty."));
    }
    let size: usize = parameters.iter().map(|(name, value)| name.len() + text(value).len()).sum();
    if size > LONGEST_PARAMETERS {
        causes.push(Cause::too_long("parameters", LONGEST_PARAMETERS));
    }
}

fn topology(term: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let at = place.field("matchLabelExpressions");
    let expressions = list(&term["matchLabelExpressions"]);
    for (index, expression) in expressions.iter().enumerate() {
        let place = at.index(index);
        let values = list(&expression["values"]);
        let values_at = place.field("values");
        if values.is_empty() {
            causes.push(Cause::required(values_at, ""));
        }
        for (index, value) in values.iter().enumerate() {
            if values[..index].contains(value) {
                causes.push(Cause::duplicate(values_at.index(index), &value.to_string(), ""));
            }
        }
        let key = text(&expression["key"]);
        names::check_key(key, place.field("key"), causes);
        if expressions[..index].iter().any(|other| text(&other["key"]) == key) {
            causes.push(Cause::duplicate(place.field("key"), &json!(key).to_string(), ""));
        }
    }
}

/// What of a class may not change: volumes were made by it.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if old.get(field) != new.get(field) {
            causes.push(Cause::forbidden(field, &format!("updates to {field} are forbidden.")));
        }
    }
    if old["volumeBindingMode"] != new["volumeBindingMode"] {
        causes.push(Cause::invalid("volumeBindingMode", &new["volumeBindingMode"], "field is immutable"));
    }
    causes
}
