//! Events, in the form in which they are kept. Those that come as `events.k8s.io/v1` are judged more strictly.

use serde_json::Value;

use super::names::qualified_name_breaks;
use super::place::text;
use crate::resources::Resource;
use crate::rest::Cause;

/// What all events must be. Those without a time of their own are of the old kind.
pub(super) fn check(resource: &Resource, event: &Value, causes: &mut Vec<Cause>) {
    let namespace = text(&event["metadata"]["namespace"]);
    let about = text(&event["involvedObject"]["namespace"]);
    let mut elsewhere = || {
        let detail = "does not match event.namespace";
        causes.push(Cause::invalid("involvedObject.namespace", &about.into(), detail));
    };
    if text(&event["eventTime"]).is_empty() {
        let fits = if about.is_empty() { matches!(namespace, "" | "default") } else { about == namespace };
        if !fits {
            elsewhere();
        }
        return;
    }
    if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
        elsewhere();
    }
    let field = if resource.group.is_empty() { "reportingComponent" } else { "reportingController" };
    let controller = text(&event["reportingComponent"]);
    if controller.is_empty() {
        causes.push(Cause::required(field, ""));
    }
    for rule in qualified_name_breaks(controller) {
        causes.push(Cause::invalid(field, &controller.into(), &rule));
    }
    for (field, most, required) in [
        ("reportingInstance", 128, true),
        ("action", 128, true),
        ("reason", 128, true),
        ("message", 1024, false),
    ] {
        let given = text(&event[field]);
        if given.is_empty() && required {
            causes.push(Cause::required(field, ""));
        }
        if given.len() > most {
            let detail = format!("can have at most {most} characters");
            causes.push(Cause::invalid(field, &"".into(), &detail));
        }
    }
}

/// What new events of the stricter form must be.
pub(super) fn strictly(event: &Value, causes: &mut Vec<Cause>) {
    series(event, causes);
    if text(&event["eventTime"]).is_empty() {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind = text(&event["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        causes.push(Cause::invalid("type", &"".into(), &format!("has invalid value: {kind}")));
    }
    let mut unset = |field: &str| causes.push(Cause::invalid(field, &"".into(), "needs to be unset"));
    for field in ["firstTimestamp", "lastTimestamp"] {
        if !text(&event[field]).is_empty() {
            unset(field);
        }
    }
    if event["count"].as_i64().unwrap_or(0) != 0 {
        unset("count");
    }
    if ["component", "host"].iter().any(|field| !text(&event["source"][*field]).is_empty()) {
        unset("source");
    }
}

fn series(event: &Value, causes: &mut Vec<Cause>) {
    let Some(series) = event.get("series").filter(|series| series.is_object()) else { return };
    if series["count"].as_i64().unwrap_or(0) < 2 {
        causes.push(Cause::invalid("series.count", &"".into(), "should be at least 2"));
    }
    if text(&series["lastObservedTime"]).is_empty() {
        causes.push(Cause::required("series.lastObservedTime", ""));
    }
}

/// What of an event may not change by way of the stricter form.
pub(super) fn on_update(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    const FIXED: [(&str, &str); 13] = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    if old.get("series") != new.get("series") {
        series(new, causes);
    }
    for (kept, field) in FIXED {
        if old.get(kept) != new.get(kept) {
            causes.push(Cause::invalid(field, &new[kept], "field is immutable"));
        }
    }
}
