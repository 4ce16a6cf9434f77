//! Rules of horizontal pod autoscalers.

use serde_json::{Value, json};

use super::names;
use super::place::{Place, list, text};
use crate::fields::quantity_nanos;
use crate::rest::Cause;

const SPEC: Place<'_> = Place::Start("spec");
const LONGEST_PERIOD: i64 = 1800;
const LONGEST_WINDOW: i64 = 3600;
/// Where metrics come from, by type, and the field that tells.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Judges an autoscaler, new or changed.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let least = spec["minReplicas"].as_i64();
    let most = spec["maxReplicas"].as_i64().unwrap_or(0);
    if let Some(least) = least.filter(|least| *least < 1) {
        let detail = "must be greater than or equal to 1";
        causes.push(Cause::invalid("spec.minReplicas", &json!(least), detail));
    }
    if most < 1 {
        causes.push(Cause::invalid("spec.maxReplicas", &json!(most), "must be greater than 0"));
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        causes.push(Cause::invalid("spec.maxReplicas", &json!(most), detail));
    }
    let target = &spec["scaleTargetRef"];
    let at = SPEC.field("scaleTargetRef");
    reference(target, at, causes);
    let version = text(&target["apiVersion"]);
    if !version.contains('/') {
        let detail = "apiVersion must specify API group";
        causes.push(Cause::invalid(at.field("apiVersion"), &json!(version), detail));
    }
    let at = SPEC.field("metrics");
    let metrics = list(&spec["metrics"]);
    for (index, metric) in metrics.iter().enumerate() {
        self::metric(metric, at.index(index), causes);
    }
    let from_outside = |metric: &Value| matches!(text(&metric["type"]), "Object" | "External");
    if least == Some(0) && !metrics.iter().any(from_outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.push(Cause::forbidden(at, detail));
    }
    let at = SPEC.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec["behavior"].get(direction) {
            scaling(rules, at.field(direction), causes);
        }
    }
}

fn reference(reference: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    for field in ["kind", "name"] {
        match text(&reference[field]) {
            "" => causes.push(Cause::required(place.field(field), "")),
            name => names::check_path_segment(name, place.field(field), causes),
        }
    }
    let version = text(&reference["apiVersion"]);
    if version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {version}");
        causes.push(Cause::invalid(place.field("apiVersion"), &json!(version), &detail));
    }
}

fn scaling(rules: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let at = place.field("stabilizationWindowSeconds");
    match rules["stabilizationWindowSeconds"].as_i64() {
        Some(window) if window < 0 => {
            causes.push(Cause::invalid(at, &json!(window), "must be greater than or equal to zero"));
        }
        Some(window) if window > LONGEST_WINDOW => {
            let detail = format!("must be less than or equal to {LONGEST_WINDOW}");
            causes.push(Cause::invalid(at, &json!(window), &detail));
        }
        _ => {}
    }
    if let Some(choice) = rules.get("selectPolicy") {
        let known = ["Disabled", "Max", "Min"];
        if !known.contains(&text(choice)) {
            causes.push(Cause::unsupported(place.field("selectPolicy"), choice, &known));
        }
    }
    let at = place.field("policies");
    let policies = list(&rules["policies"]);
    if policies.is_empty() {
        causes.push(Cause::required(at, "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        let place = at.index(index);
        let known = ["Percent", "Pods"];
        if !known.contains(&text(&policy["type"])) {
            causes.push(Cause::unsupported(place.field("type"), &json!(text(&policy["type"])), &known));
        }
        for field in ["value", "periodSeconds"] {
            let number = policy[field].as_i64().unwrap_or(0);
            if number <= 0 {
                causes.push(Cause::invalid(place.field(field), &json!(number), "must be greater than zero"));
            }
            if field == "periodSeconds" && number > LONGEST_PERIOD {
                let detail = format!("must be less than or equal to {LONGEST_PERIOD}");
                causes.push(Cause::invalid(place.field(field), &json!(number), &detail));
            }
        }
    }
    let tolerance = rules.get("tolerance");
    if let Some(tolerance) =
        tolerance.filter(|amount| quantity_nanos(text(amount)).is_some_and(|nanos| nanos < 0))
    {
        causes.push(Cause::invalid(
            place.field("tolerance"),
            tolerance,
            "must be greater than or equal to 0",
        ));
    }
}

fn metric(metric: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let kind = text(&metric["type"]);
    if kind.is_empty() {
        causes.push(Cause::required(place.field("type"), "must specify a metric source type"));
    }
    let unknown = Cause::unsupported(place.field("type"), &json!(kind), &TYPES);
    if !TYPES.contains(&kind) {
        causes.push(unknown.clone());
    }
    let present: Vec<&str> =
        SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.get(field).is_some()).collect();
    if let Some(first) = present.first() {
        source(first, &metric[*first], place.field(first), causes);
    }
    let wanted = SOURCES.iter().find(|(known, _)| *known == kind).map(|(_, field)| *field);
    match wanted {
        None => causes.push(unknown),
        Some(field) if metric.get(field).is_none() => {
            let detail = "must populate information for the given metric source";
            causes.push(Cause::required(place.field(field), detail));
        }
        Some(_) => {}
    }
    if present.len() > 1 {
        for other in present.into_iter().filter(|field| Some(*field) != wanted) {
            let detail = "must populate the given metric source only";
            causes.push(Cause::forbidden(place.field(other), detail));
        }
    }
}

/// Judges what a metric says about its source; `field` is which one.
fn source(field: &str, source: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let target_at = place.field("target");
    let target = &source["target"];
    let has = |field: &str| target.get(field).is_some();
    let resource = matches!(field, "resource" | "containerResource");
    if resource {
        if text(&source["name"]).is_empty() {
            causes.push(Cause::required(place.field("name"), "must specify a resource name"));
        }
        if field == "containerResource" {
            match text(&source["container"]) {
                "" => causes.push(Cause::required(place.field("container"), "must specify a container")),
                name => names::check_label(name, place.field("container"), causes),
            }
        }
    } else {
        if field == "object" {
            reference(&source["describedObject"], place.field("describedObject"), causes);
        }
        let at = place.field("metric");
        match text(&source["metric"]["name"]) {
            "" => causes.push(Cause::required(at.field("name"), "must specify a metric name")),
            name => names::check_path_segment(name, at.field("name"), causes),
        }
    }
    self::target(target, target_at, causes);
    let missing = match field {
        "object" if !has("value") && !has("averageValue") => {
            Some(("averageValue", "must set either a target value or averageValue"))
        }
        "external" if !has("value") && !has("averageValue") => {
            Some(("averageValue", "must set either a target value for metric or a per-pod target"))
        }
        "pods" if !has("averageValue") => {
            Some(("averageValue", "must specify a positive target averageValue"))
        }
        _ if resource && !has("averageUtilization") && !has("averageValue") => {
            Some(("averageUtilization", "must set either a target raw value or a target utilization"))
        }
        _ => None,
    };
    if let Some((field, detail)) = missing {
        causes.push(Cause::required(target_at.field(field), detail));
    }
    if field == "external" && has("value") && has("averageValue") {
        let detail = "may not set both a target value for metric and a per-pod target";
        causes.push(Cause::forbidden(target_at.field("value"), detail));
    }
    if resource && has("averageUtilization") && has("averageValue") {
        let detail = "may not set both a target raw value and a target utilization";
        causes.push(Cause::forbidden(target_at.field("averageValue"), detail));
    }
}

fn target(target: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let kind = text(&target["type"]);
    if kind.is_empty() {
        causes.push(Cause::required(place.field("type"), "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        causes.push(Cause::invalid(place.field("type"), &json!(kind), detail));
    }
    for field in ["value", "averageValue"] {
        let amount = target.get(field);
        if let Some(amount) =
            amount.filter(|amount| quantity_nanos(text(amount)).is_some_and(|nanos| nanos <= 0))
        {
            causes.push(Cause::invalid(place.field(field), amount, "must be positive"));
        }
    }
    if let Some(share) = target["averageUtilization"].as_i64().filter(|share| *share < 1) {
        causes.push(Cause::invalid(
            place.field("averageUtilization"),
            &json!(share),
            "must be greater than 0",
        ));
    }
}
