//! Rules of limit ranges, of quotas and of leases.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::names;
use super::place::{Place, list, text};
use super::resources::{check_container_name, check_name, is_quota_name, may_overcommit, must_be_whole};
use crate::fields::quantity_nanos;
use crate::rest::Cause;

const SPEC: Place<'_> = Place::Start("spec");

/// Judges a limit range, new or changed.
pub(super) fn range(object: &Value, causes: &mut Vec<Cause>) {
    let at = SPEC.field("limits");
    let limits = list(&object["spec"]["limits"]);
    for (index, limit) in limits.iter().enumerate() {
        let place = at.index(index);
        let kind = text(&limit["type"]);
        let broken = names::qualified_name_breaks(kind);
        for broken in &broken {
            causes.push(Cause::invalid(place.field("type"), &json!(kind), broken));
        }
        if broken.is_empty()
            && !kind.contains('/')
            && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
        {
            let detail = "must be a standard limit type or fully qualified";
            causes.push(Cause::invalid(place.field("type"), &json!(kind), detail));
        }
        if limits[..index].iter().any(|other| text(&other["type"]) == kind) {
            causes.push(Cause::duplicate(place.field("type"), &json!(kind).to_string(), ""));
        }
        amounts(limit, kind, place, causes);
    }
}

fn amounts(limit: &Value, kind: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut names = BTreeSet::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let Some(amounts) = limit[field].as_object() else { continue };
        if kind == "Pod" && matches!(field, "default" | "defaultRequest") {
            if !amounts.is_empty() {
                causes
                    .push(Cause::forbidden(place.field(field), "may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        let at = place.field(field);
        for name in amounts.keys() {
            if matches!(kind, "Pod" | "Container") {
                check_container_name(name, at.key(name), causes);
            } else {
                check_name(name, at.key(name), causes);
            }
            names.insert(name.as_str());
        }
    }
    let storage = |field: &str| limit[field].get("storage").is_some();
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        causes.push(Cause::required(place.field("limits"), detail));
    }
    for name in names {
        Amounts { limit, kind, name }.judge(place, causes);
    }
}

/// What a range says about one resource.
struct Amounts<'a> {
    limit: &'a Value,
    kind: &'a str,
    name: &'a str,
}

impl<'a> Amounts<'a> {
    /// An amount as it is written and in nanos.
    fn get(&self, field: &str) -> Option<(&'a str, i128)> {
        if self.kind == "Pod" && field.starts_with("default") {
            return None;
        }
        let amount = text(self.limit[field].get(self.name)?);
        Some((amount, quantity_nanos(amount)?))
    }

    fn judge(&self, place: Place<'_>, causes: &mut Vec<Cause>) {
        let (min, max) = (self.get("min"), self.get("max"));
        let (limit, request) = (self.get("default"), self.get("defaultRequest"));
        // What must not be greater than what, the field at fault, and which of the two it shows.
        let orders = [
            (min, "min value", max, "max value", "min", min),
            (min, "min value", request, "default request value", "defaultRequest", request),
            (request, "default request value", max, "max value", "defaultRequest", request),
            (request, "default request value", limit, "default limit value", "defaultRequest", request),
            (min, "min value", limit, "default value", "default", min),
            (limit, "default value", max, "max value", "default", max),
        ];
        for (less, less_is, more, more_is, field, shown) in orders {
            if let (Some(less), Some(more), Some(shown)) = (less, more, shown)
                && less.1 > more.1
            {
                let detail = format!("{less_is} {} is greater than {more_is} {}", less.0, more.0);
                let at = place.field(field);
                causes.push(Cause::invalid(at.key(self.name), &json!(shown.0), &detail));
            }
        }
        self.ratio(min, max, place, causes);
        if let (Some(limit), Some(request)) = (limit, request)
            && !may_overcommit(self.name)
            && limit.1 != request.1
        {
            let detail = format!(
                "default value {} must equal to defaultRequest value {} in {}",
                limit.0, request.0, self.name
            );
            let at = place.field("defaultRequest");
            causes.push(Cause::invalid(at.key(self.name), &json!(request.0), &detail));
        }
    }

    fn ratio(
        &self,
        min: Option<(&str, i128)>,
        max: Option<(&str, i128)>,
        place: Place<'_>,
        causes: &mut Vec<Cause>,
    ) {
        let Some(ratio) = self.get("maxLimitRequestRatio") else { return };
        let at = place.field("maxLimitRequestRatio");
        let mut refuse =
            |detail: String| causes.push(Cause::invalid(at.key(self.name), &json!(ratio.0), &detail));
        if ratio.1 < 1_000_000_000 {
            refuse(format!("ratio {} is less than 1", ratio.0));
        }
        if let (Some(min), Some(max)) = (min, max) {
            #[allow(clippy::cast_precision_loss, reason = "Kubernetes compares them as such numbers")]
            let (wanted, possible) = (ratio.1 as f64 / 1e9, max.1 as f64 / min.1 as f64);
            if wanted > possible {
                refuse(format!("ratio {} is greater than max/min = {possible:.6}", ratio.0));
            }
        }
    }
}

const POD_COMPUTE: [&str; 6] =
    ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

/// Whether a scope of a quota goes with a resource.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || POD_COMPUTE.contains(&resource),
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "CrossNamespacePodAffinity"
            | "VolumeAttributesClass"
    )
}

const OPPOSITES: [(&str, &str); 2] = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];

/// Judges a quota, new or changed.
pub(super) fn quota(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let at = SPEC.field("hard");
    let hard: Vec<&String> = spec["hard"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
    for name in &hard {
        let place = at.key(name);
        check_name(name, place, causes);
        if !name.contains('/') && !is_quota_name(name) {
            causes.push(Cause::invalid(place, &json!(name), "must be a standard resource for quota"));
        }
        let amount = &spec["hard"][name.as_str()];
        let nanos = quantity_nanos(text(amount)).unwrap_or(0);
        if nanos < 0 {
            causes.push(Cause::invalid(place, amount, "must be greater than or equal to 0"));
        }
        if must_be_whole(name) && (nanos / 1_000_000) % 1000 != 0 {
            causes.push(Cause::invalid(place, amount, "must be an integer"));
        }
    }
    let misfit =
        |scope: &str| hard.iter().filter(move |name| is_quota_name(name) && !fits(scope, name)).count();
    let shown = spec.get("scopes").unwrap_or(&Value::Null);
    let at = SPEC.field("scopes");
    let scopes: Vec<&str> = list(&spec["scopes"]).iter().map(text).collect();
    for scope in &scopes {
        if !is_scope(scope) {
            causes.push(Cause::invalid(at, shown, "unsupported scope"));
        }
        for _ in 0..misfit(scope) {
            causes.push(Cause::invalid(at, shown, "unsupported scope applied to resource"));
        }
    }
    conflicting(&scopes, shown, at, causes);
    let at = SPEC.field("scopeSelector");
    let at = at.field("matchExpressions");
    let expressions = list(&spec["scopeSelector"]["matchExpressions"]);
    for expression in expressions {
        for _ in 0..misfit(text(&expression["scopeName"])) {
            let detail = "unsupported scope applied to resource";
            causes.push(Cause::invalid_shown(at, &shown_selector(expressions), detail));
        }
        scope_expression(expression, at, causes);
    }
    let scopes: Vec<&str> = expressions.iter().map(|expression| text(&expression["scopeName"])).collect();
    conflicting(&scopes, shown, at, causes);
}

fn conflicting(scopes: &[&str], shown: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    for (one, other) in OPPOSITES {
        if scopes.contains(&one) && scopes.contains(&other) {
            causes.push(Cause::invalid(place, shown, "conflicting scopes"));
        }
    }
}

/// A selector of scopes by the names of its fields in Go.
fn shown_selector(expressions: &[Value]) -> String {
    let shown: Vec<String> = expressions
        .iter()
        .map(|expression| {
            let values = expression.get("values").unwrap_or(&Value::Null);
            let word = |field: &str| json!(text(&expression[field]));
            format!(
                "{{\"ScopeName\":{},\"Operator\":{},\"Values\":{values}}}",
                word("scopeName"),
                word("operator")
            )
        })
        .collect();
    format!("{{\"MatchExpressions\":[{}]}}", shown.join(","))
}

fn scope_expression(expression: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let (scope, operator) = (text(&expression["scopeName"]), text(&expression["operator"]));
    let values = list(&expression["values"]);
    if !is_scope(scope) {
        causes.push(Cause::invalid(place.field("scopeName"), &json!(scope), "unsupported scope"));
    }
    let only_exists = is_scope(scope)
        && !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
        && operator != "Exists";
    if only_exists {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
            ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        causes.push(Cause::invalid(place.field("operator"), &json!(operator), detail));
    }
    match operator {
        "In" | "NotIn" => {
            if values.is_empty() {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                causes.push(Cause::required(place.field("values"), detail));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                causes.push(Cause::invalid(place.field("values"), &json!(values), detail));
            }
        }
        other => {
            let detail = "not a valid selector operator";
            causes.push(Cause::invalid(place.field("operator"), &json!(other), detail));
        }
    }
}

/// The scopes of a quota are for life.
pub(super) fn on_quota_update(old: &Value, new: &Value) -> Vec<Cause> {
    let scopes =
        |quota: &Value| list(&quota["spec"]["scopes"]).iter().map(|scope| text(scope).to_owned()).collect();
    let (before, after): (BTreeSet<String>, BTreeSet<String>) = (scopes(old), scopes(new));
    if before == after {
        return Vec::new();
    }
    let shown = new["spec"].get("scopes").unwrap_or(&Value::Null);
    vec![Cause::invalid("spec.scopes", shown, "field is immutable")]
}

/// Judges a lease, new or changed.
pub(super) fn lease(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let least = [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ];
    for (field, least, detail) in least {
        if let Some(number) = spec[field].as_i64().filter(|number| *number < least) {
            causes.push(Cause::invalid(SPEC.field(field), &json!(number), detail));
        }
    }
}
