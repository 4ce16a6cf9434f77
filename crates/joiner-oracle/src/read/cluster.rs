//! Pools and nodes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::expressions::node_expressions;
use super::field::{at, labels, list, required, stable_labels, text, whole, whole32};
use super::quantity::resources;
use crate::world::{InstanceType, Node, Pool, Taint};

const POOL: &str = "karpenter.sh/nodepool";

/// Whether a pool is being deleted or says that it is not ready.
pub(super) fn is_closed(object: &Value) -> Result<bool, String> {
    let unready = |condition: &Value| {
        text(condition, &["type"]) == Some("Ready") && text(condition, &["status"]) == Some("False")
    };
    let deleted = at(object, &["metadata", "deletionTimestamp"]).is_some();
    Ok(deleted || list(object, &["status", "conditions"])?.iter().any(unready))
}

/// A pool.
pub(super) fn pool(object: &Value) -> Result<Pool, String> {
    let name = required(object, &["metadata", "name"])?.to_owned();
    let version = text(object, &["apiVersion"]).unwrap_or_default();
    if version != "karpenter.sh/v1" {
        return Err(format!("`apiVersion` must be `karpenter.sh/v1`, not `{version}`"));
    }
    let template =
        at(object, &["spec", "template", "spec"]).ok_or("field `spec.template.spec` is missing")?;
    let part = |field: &str| text(template, &["nodeClassRef", field]).unwrap_or_default().to_owned();
    Ok(Pool {
        weight: whole32(object, &["spec", "weight"])?.unwrap_or(0),
        labels: stable_labels(labels(object, &["spec", "template", "metadata", "labels"])?),
        requirements: node_expressions(list(template, &["requirements"])?)?,
        taints: taints(list(template, &["taints"])?)?,
        limits: resources(at(object, &["spec", "limits"]))?,
        replicas: whole(object, &["spec", "replicas"])?,
        node_class: (part("group"), part("kind"), part("name")),
        name,
    })
}

/// The taints a machine of this pool has until it is ready for use.
pub(super) fn startup_taints(pool: &Value) -> Result<Vec<Taint>, String> {
    taints(list(pool, &["spec", "template", "spec", "startupTaints"])?)
}

/// A node. `startup` holds the startup taints of each pool, `csi` the CSINode objects by name; a node still starting has the attach
/// limits of its type for drivers that do not run there yet.
pub(super) fn node(
    object: &Value,
    startup: &BTreeMap<String, Vec<Taint>>,
    csi: &BTreeMap<String, &Value>,
    types: &[InstanceType],
) -> Result<Node, String> {
    let name = required(object, &["metadata", "name"])?.to_owned();
    let labels = stable_labels(labels(object, &["metadata", "labels"])?);
    let pool = labels.get(POOL);
    let initialised =
        pool.is_none() || labels.get("karpenter.sh/initialized").map(String::as_str) == Some("true");
    let mut taints = taints(list(object, &["spec", "taints"])?)?;
    let deleting = at(object, &["metadata", "deletionTimestamp"]).is_some();
    let leaving = deleting || taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted");
    if !initialised {
        let starting = pool.and_then(|pool| startup.get(pool)).map(Vec::as_slice).unwrap_or_default();
        taints.retain(|taint| !starting.contains(taint) && !is_ephemeral(taint));
    }
    let capacity = resources(at(object, &["status", "capacity"]))?;
    let allocatable = match at(object, &["status", "allocatable"]) {
        Some(given) => resources(Some(given))?,
        None => capacity.clone(),
    };
    let mut volume_limits = BTreeMap::new();
    let ty = labels
        .get("node.kubernetes.io/instance-type")
        .and_then(|name| types.iter().find(|ty| ty.name == *name));
    if let Some(ty) = ty.filter(|_| !initialised) {
        volume_limits.clone_from(&ty.volume_limits);
    }
    if let Some(csi) = csi.get(&name) {
        for driver in list(csi, &["spec", "drivers"])? {
            let limit = at(driver, &["allocatable", "count"]).and_then(Value::as_u64);
            if let Some(driver) = text(driver, &["name"]) {
                volume_limits.remove(driver);
                if let Some(limit) = limit {
                    volume_limits.insert(driver.to_owned(), u32::try_from(limit).unwrap_or(u32::MAX));
                }
            }
        }
    }
    Ok(Node {
        cordoned: at(object, &["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or(false),
        leaving,
        deleting,
        initialised,
        name,
        labels,
        taints,
        capacity,
        allocatable,
        volume_limits,
    })
}

fn taints(items: &[Value]) -> Result<Vec<Taint>, String> {
    items
        .iter()
        .map(|item| {
            Ok(Taint {
                key: required(item, &["key"])?.to_owned(),
                value: text(item, &["value"]).unwrap_or_default().to_owned(),
                effect: required(item, &["effect"])?.to_owned(),
            })
        })
        .collect()
}

/// Taints that go away by themselves while a managed node starts.
fn is_ephemeral(taint: &Taint) -> bool {
    match (taint.key.as_str(), taint.effect.as_str()) {
        ("node.kubernetes.io/not-ready", "NoSchedule" | "NoExecute")
        | ("node.kubernetes.io/unreachable", "NoSchedule")
        | ("karpenter.sh/unregistered", "NoExecute") => true,
        ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule") => taint.value == "true",
        (key, _) => key.starts_with("readiness.k8s.io/"),
    }
}
