//! Rules of what is done in or to a container: by probes, after its start, before its end.

use serde_json::{Value, json};

use super::containers::{port_name_breaks, port_number};
use super::place::{Place, list, text};
use crate::rest::Cause;

/// What a probe may do.
pub(super) const OF_PROBES: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const OF_LIFECYCLES: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
    regex used for validation is '[-A-Za-z0-9]+')";

/// Judges what happens at the start and the end of a container. `grace`: the seconds that its pod has to end.
pub(super) fn lifecycle(container: &Value, grace: i64, place: Place<'_>, causes: &mut Vec<Cause>) {
    let lifecycle = &container["lifecycle"];
    let at = place.field("lifecycle");
    for field in ["postStart", "preStop"] {
        if let Some(handler) = lifecycle.get(field) {
            check(handler, &OF_LIFECYCLES, grace, at.field(field), causes);
        }
    }
}

/// Judges a handler: there is one action, and it is right.
pub(super) fn check(handler: &Value, known: &[&str], grace: i64, place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut given = known.iter().filter_map(|kind| Some((*kind, handler.get(*kind)?)));
    let Some((kind, action)) = given.next() else {
        causes.push(Cause::required(place, "must specify a handler type"));
        return;
    };
    let at = place.field(kind);
    match kind {
        "exec" => {
            if list(&action["command"]).is_empty() {
                causes.push(Cause::required(at.field("command"), ""));
            }
        }
        "httpGet" => http(action, at, causes),
        "tcpSocket" => port(&action["port"], at.field("port"), causes),
        "grpc" => port_number(action["port"].as_i64().unwrap_or(0), at.field("port"), causes),
        _ => {
            let seconds = action["seconds"].as_i64().unwrap_or(0);
            if !(0..=grace).contains(&seconds) {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                causes.push(Cause::invalid(at, &json!(seconds), &detail));
            }
        }
    }
    for (further, _) in given {
        causes.push(Cause::forbidden(place.field(further), "may not specify more than 1 handler type"));
    }
}

fn http(action: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if text(&action["path"]).is_empty() {
        causes.push(Cause::required(place.field("path"), ""));
    }
    port(&action["port"], place.field("port"), causes);
    let known = ["HTTP", "HTTPS"];
    if !known.contains(&text(&action["scheme"])) {
        let scheme = json!(text(&action["scheme"]));
        causes.push(Cause::unsupported(place.field("scheme"), &scheme, &known));
    }
    for header in list(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        if name.is_empty() || !name.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-') {
            causes.push(Cause::invalid(place.field("httpHeaders"), &json!(name), HEADER));
        }
    }
}

/// A port by its number or by its name.
fn port(port: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    match port.as_str() {
        None => port_number(port.as_i64().unwrap_or(0), place, causes),
        Some(name) => {
            for broken in port_name_breaks(name) {
                causes.push(Cause::invalid(place, port, broken));
            }
        }
    }
}
