//! What a pod asks for, by the Kubernetes scheduler's rule.
//!
//! Containers add up; a sidecar (an init container that restarts always) adds to them and to every init container after it; a
//! plain init container counts beside the sidecars started before it. The pod asks for the larger of the sum and the peak, per
//! resource; amounts stated for the whole pod replace computed ones; overhead comes on top. A container that is being
//! resized counts with the largest of what it wants, has and was promised.
//!
//! Amounts are summed exactly, in billionths, and rounded up once at the end: three requests of `100u` are one millicore, not
//! three.
//!
//! Limits are no requests. It is the API server that copies a limit into a missing request when a pod is created; objects read
//! from files have not been through it, so [`Limits::CopiedIntoRequests`] does the same (and does nothing to pods that have).

use std::collections::BTreeMap;

use joiner_api::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::problem::Finding;

/// Amounts by resource, in billionths of the base unit.
pub(crate) type Nanos = BTreeMap<Box<str>, i128>;

/// Amounts by resource as lanes hold them: CPU in thousandths, everything else in base units.
pub type Amounts = BTreeMap<Box<str>, i64>;

/// What limits mean where a request is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// Nothing: the pod is taken as the scheduler sees it.
    Ignored,
    /// The request, as the API server has it.
    CopiedIntoRequests,
}

type Found = Result<Nanos, Finding>;

/// The effective requests of a pod, `pods: 1` included.
pub fn pod_requests(
    spec: &PodSpec,
    status: Option<&PodStatus>,
    limits: Limits,
) -> Result<Amounts, crate::Problem> {
    requests(spec, status, limits).map_err(|finding| finding.on("Pod", "", "spec"))
}

pub(crate) fn requests(
    spec: &PodSpec,
    status: Option<&PodStatus>,
    limits: Limits,
) -> Result<Amounts, Finding> {
    let infeasible = status.is_some_and(resize_is_infeasible);
    let mut sum = Nanos::new();
    for (at, container) in spec.containers.iter().enumerate() {
        let found = status.and_then(|s| find_status(s.container_statuses.as_deref(), &container.name));
        add(&mut sum, &container_requests(container, found, infeasible, limits, "containers", at)?);
    }
    let (mut sidecars, mut peak) = (Nanos::new(), Nanos::new());
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        let restarts = is_sidecar(container);
        // A plain init container runs once, before anything could be resized.
        let found = status
            .filter(|_| restarts)
            .and_then(|s| find_status(s.init_container_statuses.as_deref(), &container.name));
        let mut own = container_requests(container, found, infeasible, limits, "initContainers", at)?;
        if restarts {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            larger(&mut peak, &sidecars);
        } else {
            add(&mut own, &sidecars);
            larger(&mut peak, &own);
        }
    }
    larger(&mut sum, &peak);
    if let Some(resources) = &spec.resources {
        for (name, amount) in pod_level(resources, &sum, limits)? {
            sum.insert(name, amount);
        }
    }
    if let Some(overhead) = &spec.overhead {
        add(&mut sum, &read(overhead, "overhead")?);
    }
    sum.insert("pods".into(), 1_000_000_000);
    Ok(sum.into_iter().map(|(name, nanos)| (name.clone(), round_up(&name, nanos))).collect())
}

/// Whether an init container keeps running beside the others.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether the kubelet has said that it can't do the resize.
pub(crate) fn resize_is_infeasible(status: &PodStatus) -> bool {
    status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
    })
}

/// The status of a container, if it says what the container has.
pub(crate) fn find_status<'s>(
    statuses: Option<&'s [ContainerStatus]>,
    name: &str,
) -> Option<(&'s ResourceRequirements, &'s ContainerStatus)> {
    let status = statuses?.iter().find(|status| status.name == name)?;
    Some((status.resources.as_ref()?, status))
}

fn container_requests(
    container: &Container,
    status: Option<(&ResourceRequirements, &ContainerStatus)>,
    infeasible: bool,
    limits: Limits,
    list: &str,
    at: usize,
) -> Found {
    let mut own = Nanos::new();
    if let Some(resources) = &container.resources {
        if limits == Limits::CopiedIntoRequests
            && let Some(limits) = &resources.limits
        {
            own = read(limits, &format!("{list}[{at}].resources.limits"))?;
        }
        if let Some(requests) = &resources.requests {
            own.extend(read(requests, &format!("{list}[{at}].resources.requests"))?);
        }
    }
    let Some((actual, status)) = status else { return Ok(own) };
    let mut have = Nanos::new();
    if let Some(requests) = &actual.requests {
        larger(&mut have, &read(requests, "status.containerStatuses.resources.requests")?);
    }
    if let Some(allocated) = &status.allocated_resources {
        larger(&mut have, &read(allocated, "status.containerStatuses.allocatedResources")?);
    }
    if !infeasible {
        larger(&mut have, &own);
    }
    Ok(have)
}

/// Amounts stated for the pod as a whole; `sum` is what its containers ask for.
fn pod_level(resources: &ResourceRequirements, sum: &Nanos, limits: Limits) -> Found {
    let supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let mut own = match &resources.requests {
        Some(requests) => read(requests, "resources.requests")?,
        None => Nanos::new(),
    };
    if limits == Limits::CopiedIntoRequests
        && let Some(limits) = &resources.limits
        && !limits.is_empty()
    {
        // What containers ask for comes first; only where none asks does the pod's limit stand in.
        for (name, amount) in sum.iter().filter(|(name, _)| !name.starts_with("hugepages-")) {
            own.entry(name.clone()).or_insert(*amount);
        }
        for (name, amount) in read(limits, "resources.limits")? {
            own.entry(name).or_insert(amount);
        }
    }
    own.retain(|name, _| supported(name));
    Ok(own)
}

/// Reads a resource list; `path` names it in a finding.
pub(crate) fn read(list: &BTreeMap<String, Text>, path: &str) -> Found {
    list.iter()
        .map(|(name, text)| {
            let finding = |message: &str, remedy: &str| {
                Finding::new(joiner_api::validation::entry_path(path, name), text.0.as_str(), message, remedy)
            };
            let quantity = Quantity::parse(text.0.trim()).map_err(|_| {
                finding(
                    "not a quantity",
                    "write a number with an optional suffix, e.g. `500m`, `2` or `1.5Gi`",
                )
            })?;
            if quantity.signum() < 0 {
                return Err(finding("amounts cannot be negative", "write zero or more"));
            }
            Ok((name.as_str().into(), quantity.nano_saturating()))
        })
        .collect()
}

/// Reads a resource list into lane units.
pub(crate) fn read_amounts(list: &BTreeMap<String, Text>, path: &str) -> Result<Amounts, Finding> {
    Ok(read(list, path)?.into_iter().map(|(name, nanos)| (name.clone(), round_up(&name, nanos))).collect())
}

/// A quantity in the unit of its resource's lane.
pub(crate) fn in_lane_units(resource: &str, quantity: &Quantity) -> i64 {
    round_up(resource, quantity.nano_saturating())
}

fn round_up(resource: &str, nanos: i128) -> i64 {
    let unit: i128 = if resource == "cpu" { 1_000_000 } else { 1_000_000_000 };
    let whole = nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0);
    whole.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

fn add(total: &mut Nanos, more: &Nanos) {
    for (name, amount) in more {
        let have = total.entry(name.clone()).or_insert(0);
        *have = have.saturating_add(*amount);
    }
}

fn larger(total: &mut Nanos, other: &Nanos) {
    for (name, amount) in other {
        let have = total.entry(name.clone()).or_insert(*amount);
        *have = (*have).max(*amount);
    }
}
