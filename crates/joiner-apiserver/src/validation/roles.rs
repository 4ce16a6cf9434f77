//! Rules of roles and of their bindings.

use serde_json::{Value, json};

use super::place::{Place, list, text};
use super::{names, selectors};
use crate::rest::Cause;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Judges a role, of a namespace or of the cluster.
pub(super) fn role(object: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    let at = Place::Start("rules");
    for (index, rule) in list(&object["rules"]).iter().enumerate() {
        policy(rule, namespaced, at.index(index), causes);
    }
    if let Some(aggregation) = object.get("aggregationRule").filter(|_| !namespaced) {
        let at = Place::Start("aggregationRule.clusterRoleSelectors");
        let chosen = list(&aggregation["clusterRoleSelectors"]);
        if chosen.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            causes.push(Cause::required(at, detail));
        }
        for (index, selector) in chosen.iter().enumerate() {
            let before = causes.len();
            selectors::check(selector, at.index(index), causes);
            if causes.len() > before {
                causes.push(Cause::invalid_shown(at.index(index), "null", "invalid label selector."));
            }
        }
    }
}

fn policy(rule: &Value, namespaced: bool, place: Place<'_>, causes: &mut Vec<Cause>) {
    let has = |field: &str| !list(&rule[field]).is_empty();
    if !has("verbs") {
        causes.push(Cause::required(place.field("verbs"), "verbs must contain at least one value"));
    }
    if has("nonResourceURLs") {
        let at = place.field("nonResourceURLs");
        let shown = &rule["nonResourceURLs"];
        if namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            causes.push(Cause::invalid(at, shown, detail));
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(Cause::invalid(at, shown, detail));
        }
        return;
    }
    for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if !has(field) {
            let detail = format!("resource rules must supply at least one {what}");
            causes.push(Cause::required(place.field(field), &detail));
        }
    }
}

/// Judges a binding, of a namespace or of the cluster.
pub(super) fn binding(object: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    let role = &object["roleRef"];
    let at = Place::Start("roleRef");
    if role["apiGroup"] != GROUP {
        causes.push(Cause::unsupported(at.field("apiGroup"), &json!(text(&role["apiGroup"])), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = text(&role["kind"]);
    if !kinds.contains(&kind) {
        causes.push(Cause::unsupported(at.field("kind"), &json!(kind), kinds));
    }
    let name = text(&role["name"]);
    if name.is_empty() {
        causes.push(Cause::required(at.field("name"), ""));
    } else {
        names::check_path_segment(name, at.field("name"), causes);
    }
    let at = Place::Start("subjects");
    for (index, subject) in list(&object["subjects"]).iter().enumerate() {
        self::subject(subject, namespaced, at.index(index), causes);
    }
}

fn subject(subject: &Value, namespaced: bool, place: Place<'_>, causes: &mut Vec<Cause>) {
    let (name, group) = (text(&subject["name"]), text(&subject["apiGroup"]));
    if name.is_empty() {
        causes.push(Cause::required(place.field("name"), ""));
    }
    match text(&subject["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                names::check_subdomain(name, place.field("name"), causes);
            }
            if !group.is_empty() {
                causes.push(Cause::unsupported(place.field("apiGroup"), &json!(group), &[""]));
            }
            if !namespaced && text(&subject["namespace"]).is_empty() {
                causes.push(Cause::required(place.field("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                causes.push(Cause::unsupported(place.field("apiGroup"), &json!(group), &[GROUP]));
            }
        }
        other => {
            let known = ["ServiceAccount", "User", "Group"];
            causes.push(Cause::unsupported(place.field("kind"), &json!(other), &known));
        }
    }
}

/// A binding is to one role for ever.
pub(super) fn on_binding_update(old: &Value, new: &Value) -> Vec<Cause> {
    let (old, new) = (&old["roleRef"], &new["roleRef"]);
    if old == new {
        return Vec::new();
    }
    // Shown by the names of its fields in Go.
    let get = |field: &str| json!(text(&new[field]));
    let shown =
        format!("{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}", get("apiGroup"), get("kind"), get("name"));
    vec![Cause::invalid_shown("roleRef", &shown, "cannot change roleRef")]
}
