//! NodePool: what nodes may be made, how many, and when they may be taken away again.
//!
//! Fields hold what the manifest says. `None` and an empty list or map are kept apart where the difference has a
//! meaning (`budgets[].reasons`, and everything the drift hash covers). Defaults are filled in by
//! [`NodePool::set_defaults`], as the API server would from the schema.

// Each printer column repeats the same attribute names.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::fragments;
use crate::requirement::NodeRequirement;
use crate::{duration, schedule};

/// Default of `expireAfter`.
pub const DEFAULT_EXPIRE_AFTER: &str = "720h";
/// Default of `consolidateAfter`.
pub const DEFAULT_CONSOLIDATE_AFTER: &str = "0s";
/// Default of `budgets[].nodes`.
pub const DEFAULT_BUDGET_NODES: &str = "10%";

/// What nodes may be made, how many, and when they may be taken away again.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    category = "karpenter",
    status = "NodePoolStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A NodePool describes nodes that may be created for pending pods, and when they may be removed.",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    printcolumn(name = "NodeClass", type_ = "string", json_path = ".spec.template.spec.nodeClassRef.name"),
    printcolumn(name = "Nodes", type_ = "string", json_path = ".status.nodes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.resources.cpu", priority = 1),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.resources.memory", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = fragments::rules(&[
    (
        "has(self.replicas) == has(oldSelf.replicas)",
        "replicas can neither be added to nor taken from an existing pool; create another pool",
    ),
    (
        "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))",
        "with replicas, limits may only hold nodes",
    ),
    ("!has(self.replicas) || !has(self.weight)", "weight cannot be combined with replicas"),
])))]
pub struct NodePoolSpec {
    /// What every node of the pool is made from.
    pub template: NodeClaimTemplate,
    /// When nodes may be removed or replaced.
    #[serde(default, skip_serializing_if = "Disruption::is_unset")]
    #[schemars(extend("default" = { "consolidateAfter": "0s" }))]
    pub disruption: Disruption,
    /// Upper bounds on the sum over all nodes of the pool, by resource. The resource called nodes counts
    /// nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::quantities")]
    pub limits: Option<BTreeMap<String, Quantity>>,
    /// Pools of higher weight are tried first. Unset counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Keep exactly this many nodes, whatever pods are pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// What every node of a pool is made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeClaimTemplate {
    /// Labels and annotations of the nodes.
    #[serde(default, skip_serializing_if = "TemplateMetadata::is_unset")]
    pub metadata: TemplateMetadata,
    /// Requirements, node class, taints and lifetime of the nodes.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations of a pool's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Labels put on every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::template_labels")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations put on every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::template_annotations")]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl TemplateMetadata {
    fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// Requirements, node class, taints and lifetime of a pool's nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// What the labels of the nodes must satisfy, and so which instance types, zones and capacity types are used.
    #[schemars(schema_with = "fragments::pool_requirements")]
    pub requirements: Vec<NodeRequirement>,
    /// The node class that holds the settings of the cloud.
    #[schemars(extend("x-kubernetes-validations" = fragments::rules(&[
        ("self.group == oldSelf.group", "the group of a node class reference cannot change; create another pool"),
        ("self.kind == oldSelf.kind", "the kind of a node class reference cannot change; create another pool"),
    ])))]
    pub node_class_ref: NodeClassReference,
    /// Taints put on every node for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::taints")]
    pub taints: Option<Vec<Taint>>,
    /// Taints put on every node and expected to be removed by something else while the node starts. Pods need not
    /// tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::taints")]
    pub startup_taints: Option<Vec<Taint>>,
    /// Age at which a node is replaced, e.g. 720h, or Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DEFAULT_EXPIRE_AFTER, "pattern" = duration::NILLABLE_PATTERN))]
    pub expire_after: Option<String>,
    /// How long a node may take to drain before its pods are deleted. Unset waits for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = duration::GRACE_PERIOD_PATTERN))]
    pub termination_grace_period: Option<String>,
}

/// Names a node class.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct NodeClassReference {
    /// API group of the node class, without a version.
    #[schemars(extend("pattern" = "^[^/]*$", "x-kubernetes-validations" = fragments::not_empty("group")))]
    pub group: String,
    /// Kind of the node class.
    #[schemars(extend("x-kubernetes-validations" = fragments::not_empty("kind")))]
    pub kind: String,
    /// Name of the node class.
    #[schemars(extend("x-kubernetes-validations" = fragments::not_empty("name")))]
    pub name: String,
}

/// When nodes of a pool may be removed or replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How long no pod may have come to or left a node before it is considered for consolidation, or Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = DEFAULT_CONSOLIDATE_AFTER, "pattern" = duration::NILLABLE_PATTERN))]
    pub consolidate_after: Option<String>,
    /// Which nodes are considered for consolidation. WhenUnderutilized is an old name of WhenEmptyOrUnderutilized and
    /// should no longer be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = ConsolidationPolicy::WhenEmptyOrUnderutilized.as_str(),
        "enum" = ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced", "WhenUnderutilized"],
    ))]
    pub consolidation_policy: Option<String>,
    /// How many nodes may be disrupted at once. The smallest of all budgets that apply at a time counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = [{ "nodes": "10%" }],
        "maxItems" = 50,
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = fragments::rules(&[(
            "self.all(x, has(x.schedule) == has(x.duration))",
            "schedule and duration must be set together",
        )]),
    ))]
    pub budgets: Option<Vec<Budget>>,
}

impl Disruption {
    fn is_unset(&self) -> bool {
        *self == Self::default()
    }

    /// The policy in force: the default if unset, `None` if the text is not a policy we know.
    pub fn policy(&self) -> Option<ConsolidationPolicy> {
        match &self.consolidation_policy {
            None => Some(ConsolidationPolicy::WhenEmptyOrUnderutilized),
            Some(text) => ConsolidationPolicy::parse(text),
        }
    }

    /// The idle time in force, as text.
    pub fn effective_consolidate_after(&self) -> &str {
        self.consolidate_after.as_deref().unwrap_or(DEFAULT_CONSOLIDATE_AFTER)
    }
}

/// A bound on how many nodes may be disrupted at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// A number of nodes, or a share of the pool's nodes such as 10%.
    #[serde(default = "default_budget_nodes")]
    #[schemars(extend("pattern" = fragments::BUDGET_NODES))]
    pub nodes: String,
    /// Reasons the budget applies to. Absent means all, an empty list none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "reasons_schema")]
    pub reasons: Option<Vec<String>>,
    /// When the budget begins to apply: five cron fields or a macro such as @daily, in UTC. Always with duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = schedule::PATTERN))]
    pub schedule: Option<String>,
    /// How long the budget applies from each time the schedule names, in hours and minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = duration::BUDGET_PATTERN))]
    pub duration: Option<String>,
}

fn default_budget_nodes() -> String {
    DEFAULT_BUDGET_NODES.to_owned()
}

fn reasons_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 50,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": ["Underutilized", "Empty", "Drifted"] },
    })
}

impl Default for Budget {
    fn default() -> Self {
        Self { nodes: default_budget_nodes(), reasons: None, schedule: None, duration: None }
    }
}

/// Which nodes are considered for consolidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsolidationPolicy {
    /// Only nodes without pods that matter.
    WhenEmpty,
    /// Every node whose pods fit elsewhere, or on something cheaper.
    WhenEmptyOrUnderutilized,
    /// As above, but only where the saving outweighs the disturbance.
    Balanced,
}

impl ConsolidationPolicy {
    /// Reads a policy, the old name `WhenUnderutilized` included.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "WhenEmpty" => Some(Self::WhenEmpty),
            "WhenEmptyOrUnderutilized" | "WhenUnderutilized" => Some(Self::WhenEmptyOrUnderutilized),
            "Balanced" => Some(Self::Balanced),
            _ => None,
        }
    }

    /// The policy as written in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WhenEmpty => "WhenEmpty",
            Self::WhenEmptyOrUnderutilized => "WhenEmptyOrUnderutilized",
            Self::Balanced => "Balanced",
        }
    }
}

impl fmt::Display for ConsolidationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known about a pool's nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Sum over all nodes of the pool, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::quantities")]
    pub resources: Option<BTreeMap<String, Quantity>>,
    /// Number of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub nodes: Option<i64>,
    /// Generation of the node class when registration health was last reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// State of the pool, one condition per aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}

impl NodePool {
    /// Fills in what the API server would from the schema's defaults.
    pub fn set_defaults(&mut self) {
        let template = &mut self.spec.template.spec;
        template.expire_after.get_or_insert_with(|| DEFAULT_EXPIRE_AFTER.to_owned());
        let disruption = &mut self.spec.disruption;
        disruption.consolidate_after.get_or_insert_with(|| DEFAULT_CONSOLIDATE_AFTER.to_owned());
        disruption
            .consolidation_policy
            .get_or_insert_with(|| ConsolidationPolicy::WhenEmptyOrUnderutilized.as_str().to_owned());
        disruption.budgets.get_or_insert_with(|| vec![Budget::default()]);
        if let Some(status) = &mut self.status {
            status.nodes.get_or_insert(0);
        }
    }
}
