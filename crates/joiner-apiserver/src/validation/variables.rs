//! Rules of environment variables and where their values come from.

use serde_json::{Value, json};

use super::place::{Place, text};
use super::{names, settings};
use crate::fields::canonical_quantity;
use crate::rest::Cause;

const NAME: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// The fields of a pod that a variable can show.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Further fields that have a name here and no place in variables.
const OTHER_FIELDS: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.host",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];

/// The resources of a container that a variable can show.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Judges variables.
pub(super) fn check(variables: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    for (index, variable) in variables.iter().enumerate() {
        let place = place.index(index);
        let name = text(&variable["name"]);
        if name.is_empty() {
            causes.push(Cause::required(place.field("name"), ""));
        } else {
            check_name(name, place.field("name"), causes);
        }
        let Some(from) = variable.get("valueFrom").and_then(Value::as_object) else { continue };
        let at = place.field("valueFrom");
        for (kind, source) in from {
            check_source(kind, source, at.field(kind), causes);
        }
        let mut refuse = |detail: &str| causes.push(Cause::invalid(at, &json!(""), detail));
        match from.len() {
            0 => refuse(
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            ),
            _ if !text(&variable["value"]).is_empty() => {
                refuse("may not be specified when `value` is not empty");
            }
            1 => {}
            _ => refuse("may not have more than one field specified at a time"),
        }
    }
}

/// Judges whole sets of variables.
pub(super) fn check_sets(sets: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    for (index, set) in sets.iter().enumerate() {
        let at = place.index(index);
        let prefix = text(&set["prefix"]);
        if !prefix.is_empty() {
            check_name(prefix, at.field("prefix"), causes);
        }
        let mut given = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(source) = set.get(kind) else { continue };
            given += 1;
            let at = at.field(kind);
            match text(&source["name"]) {
                "" => causes.push(Cause::required(at.field("name"), "")),
                name => names::check_subdomain(name, at.field("name"), causes),
            }
        }
        // The set has no number here.
        let detail = match given {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        causes.push(Cause::invalid(place, &json!(""), detail));
    }
}

fn check_name(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if !name.chars().all(|letter| (' '..='~').contains(&letter) && letter != '=') {
        causes.push(Cause::invalid(place, &json!(name), NAME));
    }
}

fn check_source(kind: &str, source: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    match kind {
        "fieldRef" => field(source, place, causes),
        "resourceFieldRef" => resource(source, place, causes),
        "configMapKeyRef" | "secretKeyRef" => {
            names::check_subdomain(text(&source["name"]), place.field("name"), causes);
            match text(&source["key"]) {
                "" => causes.push(Cause::required(place.field("key"), "")),
                key => settings::check_key_at(key, place.field("key"), causes),
            }
        }
        _ => {}
    }
}

fn field(source: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let (version, path) = (text(&source["apiVersion"]), text(&source["fieldPath"]));
    for (field, value) in [("apiVersion", version), ("fieldPath", path)] {
        if value.is_empty() {
            causes.push(Cause::required(place.field(field), ""));
            return;
        }
    }
    let at = place.field("fieldPath");
    let mut refuse = |fault: String| {
        causes.push(Cause::invalid(at, &json!(path), &format!("error converting fieldPath: {fault}")));
    };
    if version != "v1" {
        return refuse(format!("unsupported pod version: {version}"));
    }
    match subscript(path) {
        Some(("metadata.labels", key)) => qualified(key, place, causes),
        Some(("metadata.annotations", key)) => qualified(&key.to_lowercase(), place, causes),
        Some(_) => refuse(format!("field label does not support subscript: {path}")),
        None if FIELDS.contains(&path) || path == "spec.host" => {}
        None if OTHER_FIELDS.contains(&path) => {
            causes.push(Cause::unsupported(at, &json!(path), &FIELDS));
        }
        None => refuse(format!("field label not supported: {path}")),
    }
}

/// `metadata.labels['key']` in its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(before, _)| !before.is_empty())
}

/// Judges a name like those of labels.
pub(super) fn qualified(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    for broken in names::qualified_name_breaks(name) {
        causes.push(Cause::invalid(place, &json!(name), &broken));
    }
}

fn resource(source: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    const LARGE: [&str; 14] =
        ["0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let name = text(&source["resource"]);
    let at = place.field("resource");
    if name.is_empty() {
        causes.push(Cause::required(at, ""));
        return;
    }
    let kind = name.split_once('.').map_or("", |(_, kind)| kind);
    let huge =
        kind.starts_with("hugepages-") && (name.starts_with("limits.") || name.starts_with("requests."));
    if !RESOURCES.contains(&name) && !huge {
        causes.push(Cause::unsupported(at, &json!(name), &RESOURCES));
        return;
    }
    let (known, shown, word): (&[&str], String, &str) = match kind {
        "cpu" => (&["0", "1m", "1"], "1m and 1".to_owned(), "cpu"),
        "memory" => (&LARGE, LARGE[1..].join(", "), "memory"),
        "ephemeral-storage" => (&LARGE, LARGE[1..].join(", "), "local ephemeral storage"),
        _ => (&LARGE, LARGE[1..].join(", "), "hugepages"),
    };
    let divisor = canonical_quantity(text(&source["divisor"])).unwrap_or_else(|| "0".to_owned());
    if !known.contains(&divisor.as_str()) {
        let detail = format!("only divisor's values {shown} are supported with the {word} resource");
        causes.push(Cause::invalid(place.field("divisor"), &json!(name), &detail));
    }
}
