//! NodeClaim: one machine, from the wish for it until it is gone.

// Each printer column repeats the same attribute names.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::fragments;
use crate::duration;
use crate::nodepool::{DEFAULT_EXPIRE_AFTER, NodeClassReference};
use crate::requirement::NodeRequirement;

/// What machine is asked for. Cannot change once the claim exists.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    category = "karpenter",
    status = "NodeClaimStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A NodeClaim stands for one machine, from the request for it until it is gone.",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = r".metadata.labels.node\.kubernetes\.io/instance-type"
    ),
    printcolumn(
        name = "Capacity",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/capacity-type"
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = r".metadata.labels.topology\.kubernetes\.io/zone"
    ),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "ImageID", type_ = "string", json_path = ".status.imageID", priority = 1),
    printcolumn(name = "ID", type_ = "string", json_path = ".status.providerID", priority = 1),
    printcolumn(
        name = "NodePool",
        type_ = "string",
        json_path = r".metadata.labels.karpenter\.sh/nodepool",
        priority = 1
    ),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.nodeClassRef.name", priority = 1),
    printcolumn(
        name = "Drifted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Drifted\")].status",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = fragments::rules(&[
    ("self == oldSelf", "the spec of a claim cannot change; delete the claim and create another"),
])))]
pub struct NodeClaimSpec {
    /// What the labels of the node must satisfy.
    #[schemars(schema_with = "fragments::claim_requirements")]
    pub requirements: Vec<NodeRequirement>,
    /// The node class that holds the settings of the cloud.
    pub node_class_ref: NodeClassReference,
    /// Taints put on the node for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::taints")]
    pub taints: Option<Vec<Taint>>,
    /// Taints put on the node and expected to be removed by something else while the node starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::taints")]
    pub startup_taints: Option<Vec<Taint>>,
    /// Age at which the node is replaced, e.g. 720h, or Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DEFAULT_EXPIRE_AFTER, "pattern" = duration::NILLABLE_PATTERN))]
    pub expire_after: Option<String>,
    /// How long the node may take to drain before its pods are deleted. Unset waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = duration::GRACE_PERIOD_PATTERN))]
    pub termination_grace_period: Option<String>,
    /// What the machine must at least offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequests>,
}

/// What a machine must at least offer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRequests {
    /// Amounts by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::quantities")]
    pub requests: Option<BTreeMap<String, Quantity>>,
}

/// What is known about the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the Node, once it has registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Identity of the machine at the provider.
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Image the machine was started from.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What the machine has, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::quantities")]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// What pods can use of it, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::quantities")]
    pub allocatable: Option<BTreeMap<String, Quantity>>,
    /// State of the claim, one condition per aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::loose_conditions")]
    pub conditions: Vec<Condition>,
    /// When a pod last came to or left the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_pod_event_time: Option<Time>,
}

impl NodeClaim {
    /// Fills in what the API server would from the schema's defaults.
    pub fn set_defaults(&mut self) {
        self.spec.expire_after.get_or_insert_with(|| DEFAULT_EXPIRE_AFTER.to_owned());
    }
}
