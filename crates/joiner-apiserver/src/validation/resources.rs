//! Requests and limits.

use serde_json::{Value, json};

use super::names;
use super::place::{Place, list, text};
use crate::fields::{quantity_from_nanos, quantity_nanos};
use crate::rest::Cause;

/// Judges requests and limits of a container.
pub(super) fn check(resources: &Value, claims: &[&str], place: Place<'_>, causes: &mut Vec<Cause>) {
    if !resources.is_object() {
        return;
    }
    amounts(resources, check_container_name, place, causes);
    let at = place.field("claims");
    for (index, claim) in list(&resources["claims"]).iter().enumerate() {
        let place = at.index(index);
        let name = text(&claim["name"]);
        if name.is_empty() {
            causes.push(Cause::required(place.field("name"), ""));
        } else if !claims.contains(&name) {
            causes.push(Cause::not_found(place.field("name"), &json!(name)));
        }
    }
}

/// Judges requests and limits of a whole pod, by themselves and against those of its containers.
pub(super) fn check_whole(spec: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let Some(resources) = spec.get("resources").filter(|resources| resources.is_object()) else { return };
    if spec["os"]["name"] == "windows" {
        causes.push(Cause::forbidden(place, "may not be set for a windows pod"));
        return;
    }
    amounts(resources, check_pod_name, place, causes);
    let at = place.field("claims");
    if resources.get("claims").is_some() {
        causes.push(Cause::forbidden(at, "claims may not be set for Resources at pod-level"));
    }
    let known = list(&spec["resourceClaims"]);
    for (index, claim) in list(&resources["claims"]).iter().enumerate() {
        if !known.iter().any(|known| known["name"] == claim["name"]) {
            let empty = if known.is_empty() { " which is empty" } else { "" };
            let mut cause = Cause::not_found(at.index(index), &claim["name"]);
            cause.message += &format!(": must be one of the names in pod.spec.resourceClaims{empty}");
            causes.push(cause);
        }
    }
    let at = place.field("requests");
    for (name, promised) in resources["requests"].as_object().into_iter().flatten() {
        let (needed, binary) = needed(spec, name);
        if quantity_nanos(text(promised)).is_some_and(|promised| needed > 0 && needed > promised) {
            let needed = quantity_from_nanos(needed, binary);
            let detail = format!("must be greater than or equal to aggregate container requests of {needed}");
            causes.push(Cause::invalid(at.key(name), promised, &detail));
        }
    }
    let at = place.field("containers");
    for (index, container) in list(&spec["containers"]).iter().enumerate() {
        for (name, limit) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let Some(most) = resources["limits"].get(name) else { continue };
            if quantity_nanos(text(limit)) > quantity_nanos(text(most)) {
                let (at, detail) =
                    (at.index(index), format!("must be less than or equal to pod limits of {}", text(most)));
                let at = at.key(name);
                causes.push(Cause::invalid(at.field("limits"), limit, &detail));
            }
        }
    }
}

/// How much of a resource the containers of a pod need at most, and whether that is written in powers of two.
fn needed(spec: &Value, name: &str) -> (i128, bool) {
    let mut binary = false;
    let mut of = |container: &Value| {
        let request = text(&container["resources"]["requests"][name]);
        binary |= request.ends_with('i');
        quantity_nanos(request).unwrap_or(0)
    };
    let mut running: i128 = 0;
    let mut most: i128 = 0;
    for container in list(&spec["initContainers"]) {
        let request = of(container);
        most = most.max(running + request);
        if container["restartPolicy"] == "Always" {
            running += request;
        }
    }
    running += list(&spec["containers"]).iter().map(&mut of).sum::<i128>();
    (most.max(running), binary)
}

fn check_pod_name(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        causes.push(Cause::unsupported(place, &json!(name), &["cpu", "hugepages-", "memory"]));
    }
}

/// Judges amounts by themselves and requests against limits. `check_name` judges the names of the resources.
fn amounts(
    resources: &Value,
    check_name: fn(&str, Place<'_>, &mut Vec<Cause>),
    place: Place<'_>,
    causes: &mut Vec<Cause>,
) {
    let (limits_at, requests_at) = (place.field("limits"), place.field("requests"));
    let (limits, requests) = (&resources["limits"], &resources["requests"]);
    let (mut computes, mut huge) = (false, false);
    for (amounts, at) in [(limits, limits_at), (requests, requests_at)] {
        for (name, amount) in amounts.as_object().into_iter().flatten() {
            check_name(name, at.key(name), causes);
            check_amount(name, amount, at.key(name), causes);
            computes |= matches!(name.as_str(), "cpu" | "memory");
            huge |= is_huge_page(name);
        }
    }
    for (name, request) in requests.as_object().into_iter().flatten() {
        let Some(limit) = limits.get(name) else {
            if !may_overcommit(name) {
                causes.push(Cause::required(limits_at, "Limit must be set for non overcommitable resources"));
            }
            continue;
        };
        let (wanted, most) = (quantity_nanos(text(request)), quantity_nanos(text(limit)));
        if wanted != most && !may_overcommit(name) {
            let detail = format!("must be equal to {name} limit of {}", text(limit));
            causes.push(Cause::invalid(requests_at, request, &detail));
        } else if wanted > most {
            let detail = format!("must be less than or equal to {name} limit of {}", text(limit));
            causes.push(Cause::invalid(requests_at, request, &detail));
        }
    }
    if huge && !computes {
        causes.push(Cause::forbidden(place, "HugePages require cpu or memory"));
    }
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Resources of Kubernetes itself have no domain, or one under `kubernetes.io`.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether more of a resource may be allowed than is promised.
pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Resources of devices and the like.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name_breaks(&format!("requests.{name}")).is_empty()
}

const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Resources that are neither containers' nor counted in wholes.
const OTHER: [&str; 8] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "storage",
    "requests.storage",
];

/// Resources of which there are only wholes.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether of a resource there are only wholes.
pub(super) fn must_be_whole(name: &str) -> bool {
    WHOLE.contains(&name) || is_extended(name)
}

/// Whether Kubernetes has a resource of this name beside those of containers.
fn is_standard(name: &str) -> bool {
    OTHER.contains(&name) || WHOLE.contains(&name)
}

/// Whether a quota may be about a resource without a domain.
pub(super) fn is_quota_name(name: &str) -> bool {
    (CONTAINER.contains(&name) || is_standard(name)) && name != "storage" || is_any_huge_page(name)
}

fn is_any_huge_page(name: &str) -> bool {
    is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// Judges the name of a resource.
pub(super) fn check_name(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if CONTAINER.contains(&name) {
        return;
    }
    let mut refuse = |detail: &str| causes.push(Cause::invalid(place, &json!(name), detail));
    let broken = names::qualified_name_breaks(name);
    if broken.is_empty() && !name.contains('/') && !is_standard(name) && !is_any_huge_page(name) {
        refuse("must be a standard resource type or fully qualified");
    }
    for broken in &broken {
        refuse(broken);
    }
}

/// Judges the name of a resource that containers ask for.
pub(super) fn check_container_name(name: &str, place: Place<'_>, causes: &mut Vec<Cause>) {
    if CONTAINER.contains(&name) {
        return;
    }
    check_name(name, place, causes);
    let mut refuse = |detail: &str| causes.push(Cause::invalid(place, &json!(name), detail));
    if !name.contains('/') {
        if !is_huge_page(name) {
            refuse("must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        refuse("doesn't follow extended resource name standard");
    }
}

/// Judges an amount of a resource.
pub(super) fn check_amount(name: &str, amount: &Value, place: Place<'_>, causes: &mut Vec<Cause>) {
    let Some(nanos) = quantity_nanos(text(amount)) else { return };
    if nanos < 0 {
        causes.push(Cause::invalid(place, amount, "must be greater than or equal to 0"));
    }
    // Devices come in wholes; thousandths are as fine as the rule looks.
    if must_be_whole(name) && (nanos / 1_000_000) % 1000 != 0 {
        causes.push(Cause::invalid(place, amount, "must be an integer"));
    }
}
