//! What pods ask for: more than any machine has, or nothing.

use joiner_api::instance_type::{InstanceType, ResourceList};
use joiner_api::quantity::Quantity;
use joiner_state::requests::{Amounts, Limits, pod_requests};

use crate::commands::lint::finding::Hit;
use crate::commands::lint::pods::{PodView, Standing};
use crate::commands::lint::subject::Subject;

/// Pods that request neither CPU nor memory.
pub fn nothing(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pod in subject.pods.iter().filter(|pod| pod.standing == Standing::Pending) {
        let Some(requests) = requests(pod) else { continue };
        if ["cpu", "memory"].iter().all(|resource| requests.get(*resource).copied().unwrap_or(0) == 0) {
            hits.push(Hit::new(
                pod.object,
                format!("{}.containers[0].resources", pod.path),
                format!("requests neither CPU nor memory: packed as if it needed nothing{}", pod.and_more()),
                "set `resources.requests`",
            ));
        }
    }
    hits
}

/// Pods that no machine they may use can hold.
pub fn too_large(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pod in subject.pods.iter().filter(|pod| pod.standing == Standing::Pending) {
        if !subject.knows_all_pools || subject.nodes.iter().any(|node| pod.fits_node(node, &subject.shelf)) {
            continue;
        }
        let pools = subject.pools.iter().filter(|pool| pool.is_dynamic());
        let mut types: Vec<&InstanceType> = pools
            .filter_map(|pool| pod.on(pool, &subject.shelf).ok())
            .flat_map(|left| subject.shelf.types_in(&left))
            .collect();
        types.sort_by(|a, b| a.name.cmp(&b.name));
        types.dedup_by(|a, b| a.name == b.name);
        let Some(mut requests) = requests(pod).filter(|_| !types.is_empty()) else { continue };
        // What overlays add is not in the catalogue.
        let overlaid = |resource: &str| {
            let mut capacities =
                subject.overlays.iter().flat_map(|overlay| overlay.overlay.spec.capacity.iter().flatten());
            capacities.any(|(name, _)| name == resource)
        };
        requests.retain(|resource, wanted| *wanted > 0 && !overlaid(resource));
        if let Some(message) = shortage(&requests, &types) {
            hits.push(Hit::new(
                pod.object,
                format!("{}.containers[0].resources.requests", pod.path),
                format!("{message}{}", pod.and_more()),
                "ask for less, split the pod, or let a pool use larger instance types",
            ));
        }
    }
    hits
}

fn requests(pod: &PodView) -> Option<Amounts> {
    pod_requests(pod.spec, None, Limits::CopiedIntoRequests).ok()
}

/// What no type has enough of, if one of the types alone is not enough.
fn shortage(requests: &Amounts, types: &[&InstanceType]) -> Option<String> {
    let rooms: Vec<(&str, ResourceList)> =
        types.iter().map(|of| (of.name.as_str(), of.allocatable())).collect();
    let fits =
        |room: &ResourceList| requests.iter().all(|(resource, wanted)| amount(room, resource) >= *wanted);
    if rooms.iter().any(|(_, room)| fits(room)) {
        return None;
    }
    for (resource, wanted) in requests {
        let (name, most) = rooms
            .iter()
            .map(|(name, room)| (*name, amount(room, resource)))
            .max_by_key(|(name, most)| (*most, std::cmp::Reverse(*name)))?;
        if most < *wanted {
            return Some(match most {
                0 => format!("asks for `{resource}`, which no instance type it may use has"),
                _ => format!(
                    "asks for {} {resource}; the largest instance type it may use (`{name}`) has room for {}",
                    told(resource, *wanted),
                    told(resource, most)
                ),
            });
        }
    }
    Some(format!("none of the {} instance types it may use has room for all it asks for", types.len()))
}

fn amount(room: &ResourceList, resource: &str) -> i64 {
    let quantity = room.get(resource).copied().unwrap_or(Quantity::ZERO);
    if resource == "cpu" { quantity.milli_saturating() } else { quantity.value_saturating() }
}

fn told(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" => crate::show::cores(amount),
        "memory" | "ephemeral-storage" => crate::show::bytes(amount),
        _ => amount.to_string(),
    }
}
