//! Selectors that are written in objects.

use serde_json::{Value, json};

use super::names;
use super::place::{Place, list, text};
use crate::rest::Cause;

/// Judges a selector of labels: `matchLabels` and `matchExpressions`. Nothing there is nothing wrong.
pub(super) fn check(selector: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if !selector.is_object() {
        return;
    }
    names::check_labels(&selector["matchLabels"], place.field("matchLabels"), causes);
    let expressions = place.field("matchExpressions");
    for (index, expression) in list(&selector["matchExpressions"]).iter().enumerate() {
        let place = expressions.index(index);
        let values = list(&expression["values"]);
        match text(&expression["operator"]) {
            "In" | "NotIn" => in_needs_values(values, place, causes),
            "Exists" | "DoesNotExist" => exists_takes_none(values, place, causes),
            other => unknown_operator(other, place, causes),
        }
        names::check_key(text(&expression["key"]), place.field("key"), causes);
        check_values(values, place, causes);
    }
}

pub(super) fn in_needs_values(values: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    if values.is_empty() {
        let detail = "must be specified when `operator` is 'In' or 'NotIn'";
        causes.push(Cause::required(place.field("values"), detail));
    }
}

pub(super) fn exists_takes_none(values: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    if !values.is_empty() {
        let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
        causes.push(Cause::forbidden(place.field("values"), detail));
    }
}

pub(super) fn unknown_operator(operator: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    causes.push(Cause::invalid(place.field("operator"), &json!(operator), "not a valid selector operator"));
}

/// Values of a selector are those of labels.
pub(super) fn check_values(values: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    let place = place.field("values");
    for (index, value) in values.iter().enumerate() {
        for broken in names::value_breaks(text(value)) {
            causes.push(Cause::invalid(place.index(index), value, broken));
        }
    }
}
