//! Parts of objects, read one by one: for those who keep objects of a cluster in another shape than a snapshot, and must not read
//! them in another way. The scheduler of the simulated cluster does.

use joiner_core::model::{Port, Taint, Toleration};
use k8s_openapi::api::core::v1::{self, Node, PodSpec};

use crate::Problem;
use crate::digest;
use crate::node_digest;
use crate::requests::Amounts;

/// A toleration. An operator or effect nobody knows makes it tolerate nothing.
pub fn toleration(toleration: &v1::Toleration) -> Toleration {
    let v1::Toleration { key, operator, value, effect, .. } = toleration;
    let [key, operator, value, effect] =
        [key, operator, value, effect].map(|field| field.as_deref().unwrap_or_default());
    Toleration::read(key, operator, value, effect)
}

/// What a pod tolerates.
///
/// # Errors
/// An effect or operator nobody knows.
pub fn tolerations(spec: &PodSpec) -> Result<Vec<Toleration>, Problem> {
    digest::tolerations(spec).map_err(|finding| finding.on("Pod", "", "spec"))
}

/// The host ports a pod takes.
///
/// # Errors
/// A number that is no port.
pub fn ports(spec: &PodSpec) -> Result<Vec<Port>, Problem> {
    digest::ports(spec).map_err(|finding| finding.on("Pod", "", "spec"))
}

/// A node's taints.
///
/// # Errors
/// An effect nobody knows.
pub fn taints(node: &Node) -> Result<Vec<Taint>, Problem> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    node_digest::taints(taints, "spec.taints").map_err(|finding| finding.on("Node", "", ""))
}

/// What pods can use of a node, in the units of lanes.
///
/// # Errors
/// An amount that is no quantity.
pub fn allocatable(node: &Node) -> Result<Amounts, Problem> {
    let list = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    node_digest::amounts(list, "status.allocatable").map_err(|finding| finding.on("Node", "", ""))
}
