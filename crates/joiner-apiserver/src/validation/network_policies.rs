//! Rules of network policies.

use serde_json::{Value, json};

use super::containers::port_number;
use super::place::{Place, list, text};
use super::{addresses, selectors, services};
use crate::rest::Cause;

const SPEC: Place<'_> = Place::Start("spec");
const TYPES: [&str; 2] = ["Ingress", "Egress"];

/// Judges a policy, new or changed.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    selectors::check(&spec["podSelector"], SPEC.field("podSelector"), causes);
    for (direction, side) in [("ingress", "from"), ("egress", "to")] {
        let at = SPEC.field(direction);
        for (index, rule) in list(&spec[direction]).iter().enumerate() {
            let place = at.index(index);
            let at = place.field("ports");
            for (index, port) in list(&rule["ports"]).iter().enumerate() {
                self::port(port, at.index(index), causes);
            }
            let at = place.field(side);
            for (index, peer) in list(&rule[side]).iter().enumerate() {
                self::peer(peer, at.index(index), causes);
            }
        }
    }
    let at = SPEC.field("policyTypes");
    let types = list(&spec["policyTypes"]);
    if types.len() > TYPES.len() {
        causes.push(Cause::invalid(at, &json!(types), "may not specify more than two policyTypes"));
        return;
    }
    for (index, kind) in types.iter().enumerate() {
        if !TYPES.contains(&text(kind)) {
            causes.push(Cause::unsupported(at.index(index), kind, &TYPES));
        }
    }
}

fn port(port: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    if let Some(protocol) = port.get("protocol") {
        let known = ["TCP", "UDP", "SCTP"];
        if !known.contains(&text(protocol)) {
            causes.push(Cause::unsupported(place.field("protocol"), protocol, &known));
        }
    }
    let last = port["endPort"].as_i64();
    let at = place.field("endPort");
    match port.get("port") {
        Some(Value::String(name)) => {
            if let Some(last) = last {
                let detail = "may not be specified when `port` is non-numeric";
                causes.push(Cause::invalid(at, &json!(last), detail));
            }
            services::port_name(name, place.field("port"), causes);
        }
        Some(number) => {
            let first = number.as_i64().unwrap_or(0);
            port_number(first, place.field("port"), causes);
            if let Some(last) = last {
                if last < first {
                    // It is the first port that is shown.
                    causes.push(Cause::invalid(at, &json!(first), "must be greater than or equal to `port`"));
                }
                port_number(last, at, causes);
            }
        }
        None => {
            if let Some(last) = last {
                let detail = "may not be specified when `port` is not specified";
                causes.push(Cause::invalid(at, &json!(last), detail));
            }
        }
    }
}

fn peer(peer: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut selected = false;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = peer.get(field) {
            selected = true;
            selectors::check(selector, place.field(field), causes);
        }
    }
    let block = peer.get("ipBlock");
    if let Some(block) = block {
        self::block(block, place.field("ipBlock"), causes);
    }
    if !selected && block.is_none() {
        causes.push(Cause::required(place, "must specify a peer"));
    } else if selected && block.is_some() {
        causes.push(Cause::forbidden(place, "may not specify both ipBlock and another peer"));
    }
}

fn block(block: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let range = text(&block["cidr"]);
    if range.is_empty() {
        causes.push(Cause::required(place.field("cidr"), ""));
        return;
    }
    addresses::check_range(range, place.field("cidr"), causes);
    let Some(range) = addresses::parse_range(range) else { return };
    let at = place.field("except");
    for (index, except) in list(&block["except"]).iter().enumerate() {
        addresses::check_range(text(except), at.index(index), causes);
        if addresses::parse_range(text(except)).is_some_and(|except| !addresses::is_inside(except, range)) {
            causes.push(Cause::invalid(at.index(index), except, "must be a strict subset of `cidr`"));
        }
    }
}
