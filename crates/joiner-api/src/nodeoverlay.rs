//! NodeOverlay: corrections to the price or capacity of instance types, for planning.

// Each printer column repeats the same attribute names.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crd::fragments;
use crate::requirement::OverlayRequirement;

/// Which instance types are corrected, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A NodeOverlay corrects the price or the capacity that planning assumes of instance types.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = fragments::rules(&[
    ("!has(self.price) || !has(self.priceAdjustment)", "set either price or priceAdjustment, not both"),
])))]
pub struct NodeOverlaySpec {
    /// What instance types and offerings the overlay applies to.
    #[schemars(schema_with = "fragments::overlay_requirements")]
    pub requirements: Vec<OverlayRequirement>,
    /// Price per hour to assume instead, e.g. 0.25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = fragments::PRICE))]
    pub price: Option<String>,
    /// Change of the price per hour, with its sign: +0.5, -0.5, +10% or -15%. The result is never below 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = fragments::PRICE_ADJUSTMENT))]
    pub price_adjustment: Option<String>,
    /// Amounts of extended resources to add or replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "fragments::overlay_capacity")]
    pub capacity: Option<BTreeMap<String, Quantity>>,
    /// Of several overlays for one thing the heaviest counts. Unset counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

/// Whether the overlay is in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeOverlayStatus {
    /// State of the overlay, one condition per aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "fragments::conditions")]
    pub conditions: Vec<Condition>,
}
