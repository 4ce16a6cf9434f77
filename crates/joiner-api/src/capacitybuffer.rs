//! CapacityBuffer: room kept free for pods that have not come yet.

// Each printer column repeats the same attribute names.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::fragments;
use crate::names;

/// How much room is kept free, measured in copies of a pod.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    namespaced,
    shortname = "cb",
    category = "autoscaling",
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A CapacityBuffer keeps room free for pods that have not come yet.",
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.provisioningStrategy"),
    printcolumn(name = "PodTemplate", type_ = "string", json_path = ".status.podTemplateRef.name"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "ConditionsType", type_ = "string", json_path = ".status.conditions[*].type"),
    printcolumn(name = "ConditionsStatus", type_ = "string", json_path = ".status.conditions[*].status"),
    printcolumn(name = "ConditionsReason", type_ = "string", json_path = ".status.conditions[*].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = fragments::rules(&[
    (
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
        "with podTemplateRef, replicas or limits must be set too",
    ),
    (
        "!(has(self.podTemplateRef) && has(self.scalableRef))",
        "set either podTemplateRef or scalableRef, not both",
    ),
])))]
pub struct CapacityBufferSpec {
    /// How the room is kept. Only buffer.x-k8s.io/active-capacity (running nodes) is acted upon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = names::ACTIVE_CAPACITY_STRATEGY))]
    pub provisioning_strategy: Option<String>,
    /// The PodTemplate, in the same namespace, whose copies must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateReference>,
    /// The workload, in the same namespace, whose pods must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableReference>,
    /// How many copies must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// How many copies must fit, in percent of the current replicas of scalableRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// Upper bounds on what the copies request together, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::quantities")]
    pub limits: Option<BTreeMap<String, Quantity>>,
}

/// Names a PodTemplate in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodTemplateReference {
    /// Name of the PodTemplate.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Names a workload in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableReference {
    /// API group of the workload, e.g. apps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the workload: Deployment, StatefulSet or ReplicaSet.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name of the workload.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// What the buffer came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The PodTemplate in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<PodTemplateReference>,
    /// How many copies are planned for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Generation of the PodTemplate in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// The strategy in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// State of the buffer, one condition per aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

impl CapacityBuffer {
    /// Fills in what the API server would from the schema's defaults.
    pub fn set_defaults(&mut self) {
        self.spec.provisioning_strategy.get_or_insert_with(|| names::ACTIVE_CAPACITY_STRATEGY.to_owned());
    }
}
