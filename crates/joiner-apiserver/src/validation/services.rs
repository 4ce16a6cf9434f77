//! Rules of services.

use serde_json::{Value, json};

use super::containers::{one_of, port_name_breaks, port_number};
use super::place::{Place, list, text};
use super::{addresses, names};
use crate::rest::Cause;

const SPEC: Place<'_> = Place::Start("spec");
const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";
/// A client may be sent to the same pod for a day.
const LONGEST_AFFINITY: i64 = 86_400;

/// Whether a service has no address of its own.
fn is_headless(spec: &Value) -> bool {
    matches!(list(&spec["clusterIPs"]), [only] if only == "None")
}

/// Whether a service can be reached from outside the cluster.
fn is_external(spec: &Value) -> bool {
    match text(&spec["type"]) {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => !list(&spec["externalIPs"]).is_empty(),
        _ => false,
    }
}

/// Whether balancers ask the nodes of a service which of them have its pods.
pub(crate) fn needs_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Judges a service, new or changed.
pub(super) fn check(object: &Value, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let kind = text(&spec["type"]);
    let headless = is_headless(spec);
    if list(&spec["ports"]).is_empty() && !headless && kind != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            causes.push(Cause::invalid("spec.clusterIPs[0]", &json!("None"), &detail));
        }
        "ExternalName" => external_name(spec, causes),
        _ => {}
    }
    ports(list(&spec["ports"]), causes);
    names::check_labels(&spec["selector"], SPEC.field("selector"), causes);
    affinity(spec, causes);
    if kind != "ExternalName" {
        cluster_addresses(spec, causes);
    }
    let at = SPEC.field("externalIPs");
    for (index, address) in list(&spec["externalIPs"]).iter().enumerate() {
        addresses::check_reachable(text(address), at.index(index), causes);
    }
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], SPEC, causes);
    numbers_of_ports(spec, causes);
    balancer(spec, causes);
    traffic(spec, causes);
}

fn external_name(spec: &Value, causes: &mut Vec<Cause>) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec.get(field).is_some_and(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
            causes.push(Cause::forbidden(SPEC.field(field), "may not be set for ExternalName services"));
        }
    }
    // A dot at the end says that the name is whole.
    let name = text(&spec["externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        causes.push(Cause::required("spec.externalName", ""));
    } else {
        names::check_subdomain(name, SPEC.field("externalName"), causes);
    }
}

fn ports(ports: &[Value], causes: &mut Vec<Cause>) {
    let at = SPEC.field("ports");
    let mut taken: Vec<&str> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let place = at.index(index);
        let name = text(&port["name"]);
        if !name.is_empty() {
            names::check_label(name, place.field("name"), causes);
            if taken.contains(&name) {
                causes.push(Cause::duplicate(place.field("name"), &json!(name).to_string(), ""));
            }
            taken.push(name);
        } else if ports.len() > 1 {
            causes.push(Cause::required(place.field("name"), ""));
        }
        port_number(port["port"].as_i64().unwrap_or(0), place.field("port"), causes);
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], place, causes);
        number_or_name(&port["targetPort"], place.field("targetPort"), causes);
        if let Some(protocol) = port.get("appProtocol") {
            names::check_key(text(protocol), place.field("appProtocol"), causes);
        }
    }
}

/// Judges a port by its number or by its name.
pub(super) fn number_or_name(port: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    match port {
        Value::String(name) => port_name(name, place, causes),
        number => port_number(number.as_i64().unwrap_or(0), place, causes),
    }
}

/// Judges the name of a port.
pub(super) fn port_name(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    for broken in port_name_breaks(name) {
        causes.push(Cause::invalid(place, &json!(name), broken));
    }
}

/// No port twice, neither of the service nor of the nodes.
fn numbers_of_ports(spec: &Value, causes: &mut Vec<Cause>) {
    let at = SPEC.field("ports");
    let ports = list(&spec["ports"]);
    let node_port = |port: &Value| port["nodePort"].as_i64().unwrap_or(0);
    for (index, port) in ports.iter().enumerate() {
        if spec["type"] == "ClusterIP" && node_port(port) != 0 {
            let place = at.index(index);
            let detail = "may not be used when `type` is 'ClusterIP'";
            causes.push(Cause::forbidden(place.field("nodePort"), detail));
        }
    }
    let same = |one: &Value, other: &Value, number: &str| {
        one["protocol"] == other["protocol"] && one[number].as_i64() == other[number].as_i64()
    };
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| node_port(port) != 0) {
        if ports[..index].iter().any(|other| same(other, port, "nodePort")) {
            let place = at.index(index);
            causes.push(Cause::duplicate(place.field("nodePort"), &port["nodePort"].to_string(), ""));
        }
    }
    for (index, port) in ports.iter().enumerate() {
        if ports[..index].iter().any(|other| same(other, port, "port")) {
            // Shown by the names of its fields in Go, with no more than what counts.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                port["protocol"], port["port"]
            );
            causes.push(Cause::duplicate(at.index(index), &shown, ""));
        }
    }
}

fn affinity(spec: &Value, causes: &mut Vec<Cause>) {
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], SPEC, causes);
    let at = SPEC.field("sessionAffinityConfig");
    match (text(&spec["sessionAffinity"]), spec.get("sessionAffinityConfig")) {
        ("ClientIP", Some(config)) => {
            let at = at.field("clientIP");
            let seconds = config["clientIP"]["timeoutSeconds"].as_i64().unwrap_or(0);
            if !(1..=LONGEST_AFFINITY).contains(&seconds) {
                let detail = format!("must be greater than 0 and less than {LONGEST_AFFINITY}");
                causes.push(Cause::invalid(at.field("timeoutSeconds"), &json!(seconds), &detail));
            }
        }
        ("None", Some(_)) => {
            causes.push(Cause::forbidden(at, "must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// The address of a service, and the families it comes from.
fn cluster_addresses(spec: &Value, causes: &mut Vec<Cause>) {
    let at = SPEC.field("clusterIPs");
    let (one, all) = (text(&spec["clusterIP"]), list(&spec["clusterIPs"]));
    let shown = || json!(all);
    match all.first() {
        None if !one.is_empty() => causes.push(Cause::required(at, "")),
        Some(_) if one.is_empty() => {
            causes.push(Cause::invalid(at, &shown(), "must be empty when `clusterIP` is not specified"));
        }
        Some(first) if first != one => {
            causes.push(Cause::invalid(at, &shown(), "first value must match `clusterIP`"));
        }
        _ => {}
    }
    families(spec, causes);
    let mut broken = false;
    for (index, address) in all.iter().enumerate() {
        if index == 0 && address == "None" {
            if all.len() > 1 {
                broken = true;
                causes.push(Cause::invalid(at, &shown(), "'None' must be the first and only value"));
            }
            continue;
        }
        broken |= !addresses::check(text(address), at.index(index), causes);
    }
    if all.len() > 2 {
        causes.push(Cause::invalid(at, &shown(), "may only hold up to 2 values"));
    }
    if broken || is_headless(spec) {
        return;
    }
    let is_old = |address: &Value| addresses::parse(text(address)).is_some_and(|address| address.is_ipv4());
    if let [first, second] = all
        && is_old(first) == is_old(second)
    {
        let detail = "may specify no more than one IP for each IP family";
        causes.push(Cause::invalid(at, &shown(), detail));
    }
    for (index, (address, family)) in all.iter().zip(list(&spec["ipFamilies"])).enumerate() {
        let wanted = text(family);
        if matches!(wanted, "IPv4" | "IPv6") && is_old(address) != (wanted == "IPv4") {
            let detail = format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`");
            causes.push(Cause::invalid(at.index(index), address, &detail));
        }
    }
}

fn families(spec: &Value, causes: &mut Vec<Cause>) {
    let at = SPEC.field("ipFamilies");
    let families = list(&spec["ipFamilies"]);
    for (index, family) in families.iter().enumerate() {
        if family != "IPv4" && family != "IPv6" {
            causes.push(Cause::unsupported(at.index(index), family, &["IPv4", "IPv6"]));
        }
        if families[..index].contains(family) {
            causes.push(Cause::duplicate(at.index(index), &family.to_string(), ""));
        }
    }
    if let Some(policy) = spec.get("ipFamilyPolicy") {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        if !known.contains(&text(policy)) {
            causes.push(Cause::unsupported("spec.ipFamilyPolicy", policy, &known));
        }
    }
}

/// What only balancers have.
fn balancer(spec: &Value, causes: &mut Vec<Cause>) {
    let is_balancer = spec["type"] == "LoadBalancer";
    // The field has a capital in these messages alone.
    let at = SPEC.field("LoadBalancerSourceRanges");
    let ranges = list(&spec["loadBalancerSourceRanges"]);
    if !ranges.is_empty() && !is_balancer {
        causes.push(Cause::forbidden(at, ONLY_BALANCERS));
    }
    for (index, range) in ranges.iter().enumerate() {
        addresses::check_range(text(range).trim(), at.index(index), causes);
    }
    if spec.get("allocateLoadBalancerNodePorts").is_some() && !is_balancer {
        causes.push(Cause::forbidden("spec.allocateLoadBalancerNodePorts", ONLY_BALANCERS));
    }
    match spec.get("loadBalancerClass") {
        Some(class) if is_balancer => {
            names::check_key(text(class), SPEC.field("loadBalancerClass"), causes);
        }
        Some(_) => causes.push(Cause::forbidden("spec.loadBalancerClass", ONLY_BALANCERS)),
        None => {}
    }
}

fn traffic(spec: &Value, causes: &mut Vec<Cause>) {
    let outer = text(&spec["externalTrafficPolicy"]);
    if is_external(spec) {
        one_of(spec, "externalTrafficPolicy", &["Cluster", "Local"], SPEC, causes);
    } else if !outer.is_empty() {
        let detail = "may only be set for externally-accessible services";
        causes.push(Cause::invalid("spec.externalTrafficPolicy", &json!(outer), detail));
    }
    let port = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    if port != 0 {
        if needs_health_check(spec) {
            port_number(port, SPEC.field("healthCheckNodePort"), causes);
        } else {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            causes.push(Cause::invalid("spec.healthCheckNodePort", &json!(port), detail));
        }
    }
    if spec.get("internalTrafficPolicy").is_some() {
        one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], SPEC, causes);
    }
    if let Some(wanted) = spec.get("trafficDistribution") {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if !known.contains(&text(wanted)) {
            causes.push(Cause::unsupported("spec.trafficDistribution", wanted, &known));
        }
    }
}

/// What of a service may not change.
pub(super) fn on_update(old: &Value, new: &Value) -> Vec<Cause> {
    let (old, new) = (&old["spec"], &new["spec"]);
    let mut causes = Vec::new();
    if old["type"] != "ExternalName" && new["type"] != "ExternalName" {
        kept_addresses(old, new, &mut causes);
    }
    let both = |test: fn(&Value) -> bool| test(old) && test(new);
    if both(|spec| spec["type"] == "LoadBalancer")
        && old.get("loadBalancerClass") != new.get("loadBalancerClass")
    {
        let class = new.get("loadBalancerClass").unwrap_or(&Value::Null);
        causes.push(Cause::invalid("spec.loadBalancerClass", class, "may not change once set"));
    }
    if both(needs_health_check) && old["healthCheckNodePort"] != new["healthCheckNodePort"] {
        causes.push(Cause::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
    causes
}

fn kept_addresses(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let (before, after) = (list(&old["clusterIPs"]), list(&new["clusterIPs"]));
    if is_headless(old) && is_headless(new) {
        return;
    }
    let at = SPEC.field("clusterIPs");
    let shown = new.get("clusterIPs").unwrap_or(&Value::Null);
    if after.is_empty() && !before.is_empty() {
        causes.push(Cause::invalid(at.index(0), shown, "primary clusterIP can not be unset"));
    }
    for (index, (before, after)) in before.iter().zip(after).enumerate() {
        // A second address may come and go; the first is for life.
        if before != after {
            causes.push(Cause::invalid(at.index(index), shown, "may not change once set"));
        }
    }
    if is_headless(old) != is_headless(new) {
        return;
    }
    let (before, after) = (list(&old["ipFamilies"]), list(&new["ipFamilies"]));
    if before.iter().zip(after).any(|(before, after)| before != after) {
        let at = SPEC.field("ipFamilies");
        causes.push(Cause::invalid(at.index(0), &json!(after), "may not change once set"));
    }
}
