//! Rules of containers: names, images, ports, variables, mounts, probes.

use serde_json::{Value, json};

use super::place::{Place, list, text};
use super::{handlers, names, resources, variables};
use crate::rest::Cause;

/// What containers of one pod share.
pub(super) struct Surroundings<'a> {
    /// Names of the volumes that are right.
    pub volumes: Vec<&'a str>,
    /// Names of the resource claims.
    pub claims: Vec<&'a str>,
}

/// Judges all containers of a pod.
pub(super) fn check(spec: &Value, around: &Surroundings<'_>, place: Place<'_>, causes: &mut Vec<Cause>) {
    let containers = list(&spec["containers"]);
    let grace = spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(0);
    let at = place.field("containers");
    if containers.is_empty() {
        causes.push(Cause::required(at, ""));
    }
    let mut taken: Vec<&str> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let place = at.index(index);
        common(container, around, place, causes);
        unique(container, &mut taken, place, causes);
        probes(container, place, causes);
        handlers::lifecycle(container, grace, place, causes);
        resizing(spec, container, place, causes);
    }
    host_ports(containers, at, causes);
    if spec["hostNetwork"] == true {
        ports_of_host(containers, at, causes);
    }

    let at = place.field("initContainers");
    for (index, container) in list(&spec["initContainers"]).iter().enumerate() {
        let place = at.index(index);
        common(container, around, place, causes);
        unique(container, &mut taken, place, causes);
        resizing(spec, container, place, causes);
        if container["restartPolicy"] == "Always" {
            probes(container, place, causes);
            handlers::lifecycle(container, grace, place, causes);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.get(field).is_some() {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    causes.push(Cause::forbidden(place.field(field), detail));
                }
            }
        }
        host_ports(std::slice::from_ref(container), at, causes);
    }
    ephemeral(spec, around, taken, place, causes);
}

/// Containers that come later, for looking around in a running pod.
fn ephemeral<'a>(
    spec: &'a Value,
    around: &Surroundings<'_>,
    mut taken: Vec<&'a str>,
    place: Place<'_>,
    causes: &mut Vec<Cause>,
) {
    let others = taken.clone();
    let at = place.field("ephemeralContainers");
    for (index, container) in list(&spec["ephemeralContainers"]).iter().enumerate() {
        let place = at.index(index);
        common(container, around, place, causes);
        unique(container, &mut taken, place, causes);
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(&target) {
            causes.push(Cause::not_found(place.field("targetContainerName"), &json!(target)));
        }
        let unfit = ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"];
        for field in unfit {
            if container.get(field).is_some() {
                causes.push(Cause::forbidden(place.field(field), "cannot be set for an Ephemeral Container"));
            }
        }
        if container["resources"].as_object().is_some_and(|resources| !resources.is_empty()) {
            let detail = "cannot be set for an Ephemeral Container";
            causes.push(Cause::forbidden(place.field("resources"), detail));
        }
        let mounts = place.field("volumeMounts");
        for (index, mount) in list(&container["volumeMounts"]).iter().enumerate() {
            let place = mounts.index(index);
            for field in ["subPath", "subPathExpr"] {
                if !text(&mount[field]).is_empty() {
                    let detail = "cannot be set for an Ephemeral Container";
                    causes.push(Cause::forbidden(place.field(field), detail));
                }
            }
        }
    }
}

fn unique<'a>(container: &'a Value, taken: &mut Vec<&'a str>, place: Place<'_>, causes: &mut Vec<Cause>) {
    let name = text(&container["name"]);
    if taken.contains(&name) {
        causes.push(Cause::duplicate(place.field("name"), &json!(name).to_string(), ""));
    } else if !name.is_empty() {
        taken.push(name);
    }
}

fn common(container: &Value, around: &Surroundings<'_>, place: Place<'_>, causes: &mut Vec<Cause>) {
    let of = |field: &str| text(&container[field]);
    if of("name").is_empty() {
        causes.push(Cause::required(place.field("name"), ""));
    } else {
        names::check_label(of("name"), place.field("name"), causes);
    }
    if of("image").is_empty() {
        causes.push(Cause::required(place.field("image"), ""));
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], place, causes);
    one_of(container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], place, causes);
    ports(list(&container["ports"]), place.field("ports"), causes);
    variables::check(list(&container["env"]), place.field("env"), causes);
    variables::check_sets(list(&container["envFrom"]), place.field("envFrom"), causes);
    mounts(list(&container["volumeMounts"]), around, place.field("volumeMounts"), causes);
    resources::check(&container["resources"], &around.claims, place.field("resources"), causes);
}

/// Judges a field that has one of a few values; it was given one of them if it had none.
pub(super) fn one_of(value: &Value, field: &str, known: &[&str], place: Place<'_>, causes: &mut Vec<Cause>) {
    match text(&value[field]) {
        "" => causes.push(Cause::required(place.field(field), "")),
        found if known.contains(&found) => {}
        found => causes.push(Cause::unsupported(place.field(field), &json!(found), known)),
    }
}

/// Judges a whole number that may not be below zero.
pub(super) fn not_negative(value: &Value, field: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if let Some(number) = value[field].as_i64().filter(|number| *number < 0) {
        let detail = "must be greater than or equal to 0";
        causes.push(Cause::invalid(place.field(field), &json!(number), detail));
    }
}

fn ports(ports: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    for (index, port) in ports.iter().enumerate() {
        let place = place.index(index);
        let name = text(&port["name"]);
        if !name.is_empty() {
            let broken = port_name_breaks(name);
            for broken in &broken {
                causes.push(Cause::invalid(place.field("name"), &json!(name), broken));
            }
            if broken.is_empty() && ports[..index].iter().any(|other| other["name"] == port["name"]) {
                causes.push(Cause::duplicate(place.field("name"), &json!(name).to_string(), ""));
            }
        }
        match port["containerPort"].as_i64().unwrap_or(0) {
            0 => causes.push(Cause::required(place.field("containerPort"), "")),
            number => port_number(number, place.field("containerPort"), causes),
        }
        match port["hostPort"].as_i64().unwrap_or(0) {
            0 => {}
            number => port_number(number, place.field("hostPort"), causes),
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], place, causes);
    }
}

/// Judges the number of a port.
pub(super) fn port_number(number: i64, place: Place<'_>, causes: &mut Vec<Cause>) {
    if !(1..=65535).contains(&number) {
        causes.push(Cause::invalid(place, &json!(number), "must be between 1 and 65535, inclusive"));
    }
}

/// The rules of names of ports that a text breaks.
pub(super) fn port_name_breaks(name: &str) -> Vec<&'static str> {
    let mut broken = Vec::new();
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if name.len() > 15 {
        broken.push("must be no more than 15 characters");
    }
    if !name.chars().all(allowed) {
        broken.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.contains(|letter: char| letter.is_ascii_lowercase()) {
        broken.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        broken.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        broken.push("must not begin or end with a hyphen");
    }
    broken
}

/// A port of the node is for one container only.
fn host_ports(containers: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    let mut taken: Vec<String> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let container_place = place.index(index);
        let at = container_place.field("ports");
        for (index, port) in list(&container["ports"]).iter().enumerate() {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", text(&port["protocol"]), text(&port["hostIP"]));
            if taken.contains(&key) {
                let place = at.index(index);
                causes.push(Cause::duplicate(place.field("hostPort"), &json!(key).to_string(), ""));
            } else {
                taken.push(key);
            }
        }
    }
}

/// In the network of the node a container has no ports but those of the node.
fn ports_of_host(containers: &[Value], place: Place<'_>, causes: &mut Vec<Cause>) {
    for (index, container) in containers.iter().enumerate() {
        let place = place.index(index);
        let at = place.field("ports");
        for (index, port) in list(&container["ports"]).iter().enumerate() {
            if port["hostPort"] != port["containerPort"] {
                let number = json!(port["hostPort"].as_i64().unwrap_or(0));
                let place = at.index(index);
                let detail = "must match `containerPort` when `hostNetwork` is true";
                causes.push(Cause::invalid(place.field("hostPort"), &number, detail));
            }
        }
    }
}

/// What a change of resources means for a running container.
fn resizing(spec: &Value, container: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let policies = list(&container["resizePolicy"]);
    let at = place.field("resizePolicy");
    for (index, policy) in policies.iter().enumerate() {
        let (resource, restart) = (&policy["resourceName"], &policy["restartPolicy"]);
        if policies[..index].iter().any(|other| other["resourceName"] == *resource) {
            causes.push(Cause::duplicate(at.index(index), &resource.to_string(), ""));
        }
        for (value, known) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])]
        {
            match text(value) {
                "" => causes.push(Cause::required(at, "")),
                given if known.contains(&given) => {}
                given => causes.push(Cause::unsupported(at, &json!(given), &known)),
            }
        }
        if spec["restartPolicy"] == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            causes.push(Cause::invalid(at, restart, detail));
        }
    }
}

fn mounts(mounts: &[Value], around: &Surroundings<'_>, place: Place<'_>, causes: &mut Vec<Cause>) {
    for (index, mount) in mounts.iter().enumerate() {
        let place = place.index(index);
        let (name, path) = (text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            causes.push(Cause::required(place.field("name"), ""));
        }
        if !around.volumes.contains(&name) {
            causes.push(Cause::not_found(place.field("name"), &json!(name)));
        }
        if path.is_empty() {
            causes.push(Cause::required(place.field("mountPath"), ""));
        }
        if mounts[..index].iter().any(|other| text(&other["mountPath"]) == path) {
            causes.push(Cause::invalid(place.field("mountPath"), &json!(path), "must be unique"));
        }
    }
}

fn probes(container: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        if !probe.is_object() {
            continue;
        }
        let place = place.field(field);
        handlers::check(probe, &handlers::OF_PROBES, 0, place, causes);
        let numbers = [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ];
        for number in numbers {
            not_negative(probe, number, place, causes);
        }
        if let Some(grace) = probe["terminationGracePeriodSeconds"].as_i64() {
            let at = place.field("terminationGracePeriodSeconds");
            if grace <= 0 {
                causes.push(Cause::invalid(at, &json!(grace), "must be greater than 0"));
            }
            if field == "readinessProbe" {
                causes.push(Cause::invalid(at, &json!(grace), "must not be set for readinessProbes"));
            }
        }
        let successes = probe["successThreshold"].as_i64().unwrap_or(1);
        if field != "readinessProbe" && successes != 1 {
            causes.push(Cause::invalid(place.field("successThreshold"), &json!(successes), "must be 1"));
        }
    }
}
