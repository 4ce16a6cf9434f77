//! CostModel: what machines really cost, where that differs from the list: discounts, fees per node, prices agreed for a number of nodes.
//!
//! It is read from a file beside the manifests and never stored in a cluster, so there is no CRD for it. Selectors are written like those of
//! a [`NodeOverlay`](crate::NodeOverlay).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::requirement::OverlayRequirement;

/// What machines really cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Its name.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The terms.
    pub spec: CostModelSpec,
}

/// The terms of a cost model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CostModelSpec {
    /// Shares of the price that are not paid; of several for one offering the first counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discounts: Vec<Discount>,
    /// What every node costs beside its machine; all that match add up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_node_fees: Vec<PerNodeFee>,
    /// Prices agreed for a number of nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commitments: Vec<Commitment>,
}

/// A share of the price that is not paid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Discount {
    /// For messages.
    pub name: String,
    /// The offerings it is given on; `[]` = all.
    pub requirements: Vec<OverlayRequirement>,
    /// From 0 to 100.
    pub percent: f64,
}

/// What a node costs beside its machine: licences, agents, support.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PerNodeFee {
    /// For messages.
    pub name: String,
    /// The offerings it is due on; `[]` = all.
    pub requirements: Vec<OverlayRequirement>,
    /// Dollars per hour and node.
    pub price_per_hour: f64,
}

/// A price agreed for a number of nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Commitment {
    /// For messages; unique within all models.
    pub name: String,
    /// The offerings it covers; `[]` = all.
    pub requirements: Vec<OverlayRequirement>,
    /// How many nodes it covers.
    pub nodes: i64,
    /// Dollars per hour and node, 0 if it is paid already.
    pub price_per_hour: f64,
}
