//! Rules of ingresses and of their classes.

use serde_json::{Value, json};

use super::containers::port_number;
use super::place::{Place, list, text};
use super::{addresses, names, services};
use crate::rest::Cause;

const SPEC: Place<'_> = Place::Start("spec");
const LONGEST_CONTROLLER: usize = 250;

/// Judges an ingress, new or changed.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let rules = list(&spec["rules"]);
    let fallback = spec.get("defaultBackend");
    if rules.is_empty() && fallback.is_none() {
        let shown = spec.get("rules").unwrap_or(&Value::Null);
        causes.push(Cause::invalid("spec", shown, "either `defaultBackend` or `rules` must be specified"));
    }
    if let Some(fallback) = fallback {
        backend(fallback, SPEC.field("defaultBackend"), causes);
    }
    let at = SPEC.field("rules");
    for (index, rule) in rules.iter().enumerate() {
        self::rule(rule, at.index(index), causes);
    }
    let at = SPEC.field("tls");
    for (index, tls) in list(&spec["tls"]).iter().enumerate() {
        let place = at.index(index);
        let hosts = place.field("hosts");
        for (index, name) in list(&tls["hosts"]).iter().enumerate() {
            host(text(name), hosts.index(index), causes);
        }
        let secret = text(&tls["secretName"]);
        if !secret.is_empty() {
            names::check_subdomain(secret, place.field("secretName"), causes);
        }
    }
    if let Some(class) = spec.get("ingressClassName") {
        names::check_subdomain(text(class), SPEC.field("ingressClassName"), causes);
    }
}

/// An older annotation may say the class of a new ingress too, if it says the same.
pub(super) fn on_create(object: &Value) -> Option<Cause> {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let annotated = object["metadata"]["annotations"].get(ANNOTATION)?;
    let class = object["spec"].get("ingressClassName")?;
    (annotated != class).then(|| {
        let detail = "must match `ingressClassName` when both are specified";
        Cause::invalid(format!("annotations.{ANNOTATION}"), annotated, detail)
    })
}

fn host(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if !name.contains('*') {
        names::check_subdomain(name, place, causes);
        return;
    }
    let rest = name.strip_prefix("*.").unwrap_or_default();
    if rest.is_empty() || !names::subdomain_breaks(rest).is_empty() {
        let detail = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
            of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', \
            regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        causes.push(Cause::invalid(place, &json!(name), detail));
    }
}

fn rule(rule: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let name = text(&rule["host"]);
    if !name.is_empty() {
        if addresses::parse(name).is_some() {
            let detail = "must be a DNS name, not an IP address";
            causes.push(Cause::invalid(place.field("host"), &json!(name), detail));
        }
        host(name, place.field("host"), causes);
    }
    let Some(http) = rule.get("http") else { return };
    let at = place.field("http");
    let at = at.field("paths");
    let paths = list(&http["paths"]);
    if paths.is_empty() {
        causes.push(Cause::required(at, ""));
    }
    for (index, path) in paths.iter().enumerate() {
        self::path(path, at.index(index), causes);
    }
}

fn path(path: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let text_of_path = text(&path["path"]);
    let at = place.field("path");
    let mut refuse = |detail: &str| causes.push(Cause::invalid(at, &json!(text_of_path), detail));
    match path.get("pathType").map(text) {
        None | Some("") => {
            causes.push(Cause::required(place.field("pathType"), "pathType must be specified"));
            return;
        }
        Some("Exact" | "Prefix") => {
            if !text_of_path.starts_with('/') {
                refuse("must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text_of_path.contains(part) {
                    refuse(&format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text_of_path.ends_with(end) {
                    refuse(&format!("cannot end with '{end}'"));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !text_of_path.is_empty() && !text_of_path.starts_with('/') {
                refuse("must be an absolute path");
            }
        }
        Some(other) => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            causes.push(Cause::unsupported(place.field("pathType"), &json!(other), &known));
        }
    }
    backend(&path["backend"], place.field("backend"), causes);
}

fn backend(backend: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let whole = |detail: &str| Cause::invalid(place, &json!(""), detail);
    match (backend.get("resource"), backend.get("service")) {
        (Some(_), Some(_)) => causes.push(whole("cannot set both resource and service backends")),
        (Some(resource), None) => typed_reference(resource, place.field("resource"), causes),
        (None, Some(service)) => {
            let at = place.field("service");
            match text(&service["name"]) {
                "" => causes.push(Cause::required(at.field("name"), "")),
                name => names::check_service_name(name, at.field("name"), causes),
            }
            let port = &service["port"];
            let at = at.field("port");
            match (text(&port["name"]), port["number"].as_i64().unwrap_or(0)) {
                ("", 0) => causes.push(Cause::required(place, "port name or number is required")),
                ("", number) => port_number(number, at.field("number"), causes),
                (name, 0) => services::port_name(name, at.field("name"), causes),
                _ => causes.push(whole("cannot set both port name & port number")),
            }
        }
        (None, None) => causes.push(whole("resource or service backend is required")),
    }
}

fn typed_reference(reference: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if let Some(group) = reference.get("apiGroup") {
        names::check_subdomain(text(group), place.field("apiGroup"), causes);
    }
    for field in ["kind", "name"] {
        match text(&reference[field]) {
            "" => causes.push(Cause::required(place.field(field), "")),
            name => names::check_path_segment(name, place.field(field), causes),
        }
    }
}

/// Judges a class of ingresses.
pub(super) fn class(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let controller = text(&spec["controller"]);
    let at = SPEC.field("controller");
    if controller.len() > LONGEST_CONTROLLER {
        causes.push(Cause::too_long(at, LONGEST_CONTROLLER));
    }
    match controller.split_once('/') {
        _ if controller.is_empty() => causes.push(Cause::required(at, "")),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            names::check_subdomain(domain, at, causes);
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            causes.push(Cause::invalid(at, &json!(controller), detail));
        }
    }
    let Some(parameters) = spec.get("parameters") else { return };
    let at = SPEC.field("parameters");
    typed_reference(parameters, at, causes);
    let namespace = parameters.get("namespace");
    match (text(&parameters["scope"]), namespace) {
        ("", _) => causes.push(Cause::required(at.field("scope"), "")),
        ("Namespace", None) => {
            let detail = "`parameters.scope` is set to 'Namespace'";
            causes.push(Cause::required(at.field("namespace"), detail));
        }
        ("Namespace", Some(namespace)) => {
            names::check_label(text(namespace), at.field("namespace"), causes);
        }
        ("Cluster", Some(_)) => {
            let detail = "`parameters.scope` is set to 'Cluster'";
            causes.push(Cause::forbidden(at.field("namespace"), detail));
        }
        ("Cluster", None) => {}
        (other, _) => {
            let known = ["Cluster", "Namespace"];
            causes.push(Cause::unsupported(at.field("scope"), &json!(other), &known));
        }
    }
}

/// A class belongs to one controller for ever.
pub(super) fn on_class_update(old: &Value, new: &Value) -> Vec<Cause> {
    let (old, new) = (&old["spec"]["controller"], &new["spec"]["controller"]);
    if old == new {
        return Vec::new();
    }
    vec![Cause::invalid("spec.controller", new, "field is immutable")]
}
