//! What a pod asks of its node: containers, init containers, sidecars, pod-level requests, overhead and a resize under way.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::field::{at, list, text};
use super::quantity::{Quantity, from_json};
use crate::world::Resources;

type Amounts = BTreeMap<String, Quantity>;

/// The effective requests of a pod object (`spec`, and `status` for a resize), with `pods: 1`.
pub fn pod_requests(pod: &Value) -> Result<Resources, String> {
    let infeasible = list(pod, &["status", "conditions"])?.iter().any(|condition| {
        text(condition, &["type"]) == Some("PodResizePending")
            && text(condition, &["reason"]) == Some("Infeasible")
    });

    let mut steady = Amounts::new();
    for container in list(pod, &["spec", "containers"])? {
        let own = running_requests(pod, "containerStatuses", container, infeasible)?;
        add(&mut steady, &own);
    }

    // Plain init containers run one at a time beside the sidecars started before them.
    let mut sidecars = Amounts::new();
    let mut start_peak = Amounts::new();
    for container in list(pod, &["spec", "initContainers"])? {
        if text(container, &["restartPolicy"]) == Some("Always") {
            let own = running_requests(pod, "initContainerStatuses", container, infeasible)?;
            add(&mut steady, &own);
            add(&mut sidecars, &own);
            raise(&mut start_peak, &sidecars);
        } else {
            let mut own = amounts(at(container, &["resources", "requests"]))?;
            add(&mut own, &sidecars);
            raise(&mut start_peak, &own);
        }
    }
    raise(&mut steady, &start_peak);

    for (name, amount) in amounts(at(pod, &["spec", "resources", "requests"]))? {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            steady.insert(name, amount);
        }
    }
    add(&mut steady, &amounts(at(pod, &["spec", "overhead"]))?);

    // Rounding comes last: two containers of 500u ask for one millicore together.
    let mut requests: Resources = steady
        .into_iter()
        .map(|(name, amount)| {
            let amount = amount.in_unit_of(&name);
            (name, amount)
        })
        .collect();
    requests.insert("pods".to_owned(), 1);
    Ok(requests)
}

/// The pod as the API server would store it: a limit without a request is also the request.
pub(super) fn with_defaulted_requests(pod: &Value) -> Value {
    let mut pod = pod.clone();
    for group in ["containers", "initContainers"] {
        let containers = pod.pointer_mut(&format!("/spec/{group}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let Some(limits) = at(container, &["resources", "limits"]).and_then(Value::as_object).cloned()
            else {
                continue;
            };
            let resources = &mut container["resources"];
            if at(resources, &["requests"]).is_none() {
                resources["requests"] = json!({});
            }
            if let Some(requests) = resources["requests"].as_object_mut() {
                for (name, amount) in limits {
                    requests.entry(name).or_insert(amount);
                }
            }
        }
    }
    pod
}

/// Requests of a container that keeps running, the larger of asked, granted and in force while it is being resized.
fn running_requests(
    pod: &Value,
    statuses: &str,
    container: &Value,
    infeasible: bool,
) -> Result<Amounts, String> {
    let asked = amounts(at(container, &["resources", "requests"]))?;
    let status = list(pod, &["status", statuses])?.iter().find(|status| {
        text(status, &["name"]).is_some() && text(status, &["name"]) == text(container, &["name"])
    });
    let Some(status) = status.filter(|status| at(status, &["resources"]).is_some()) else {
        return Ok(asked);
    };
    let mut result = if infeasible { Amounts::new() } else { asked };
    raise(&mut result, &amounts(at(status, &["resources", "requests"]))?);
    raise(&mut result, &amounts(at(status, &["allocatedResources"]))?);
    Ok(result)
}

fn amounts(value: Option<&Value>) -> Result<Amounts, String> {
    match value {
        None => Ok(Amounts::new()),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(name, amount)| {
                Ok((name.clone(), from_json(amount).map_err(|why| format!("request of `{name}`: {why}"))?))
            })
            .collect(),
        Some(other) => Err(format!("requests must be a map, not `{other}`")),
    }
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        total.entry(name.clone()).and_modify(|sum| *sum = sum.plus(*amount)).or_insert(*amount);
    }
}

fn raise(total: &mut Amounts, floor: &Amounts) {
    for (name, amount) in floor {
        total.entry(name.clone()).and_modify(|most| *most = most.larger(*amount)).or_insert(*amount);
    }
}
