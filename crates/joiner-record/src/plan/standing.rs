//! What stands today, and the same pods packed afresh, as data.

use joiner_core::model::resources::sub_into;
use joiner_core::model::{Node, Snapshot};
use joiner_core::waste;
use joiner_state::{StandingNode, Stays};
use serde::Serialize;

use super::document::ReasonDocument;

/// The nodes that have joined, and what they cost.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StandingDocument {
    /// Nodes whose price is known.
    pub nodes: usize,
    /// Pods on them, daemons left out.
    pub pods: usize,
    /// What they cost together.
    pub price_per_hour: f64,
    /// What of that is paid for capacity nobody requested.
    pub waste_per_hour: f64,
    /// The same in percent; null if they cost nothing.
    pub waste_percent: Option<f64>,
    /// Nodes whose price nobody knows: in no other number.
    pub nodes_of_unknown_price: usize,
    /// Pods on those.
    pub pods_of_unknown_price: usize,
    /// The same pods on machines bought anew; null if it was not worked out, or if nothing could be given up.
    pub packed_afresh: Option<AfreshDocument>,
}

/// What pods of standing nodes would cost on machines bought anew.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AfreshDocument {
    /// All nodes of known price, those that stay included.
    pub nodes: usize,
    /// What they cost together.
    pub price_per_hour: f64,
    /// No packing can cost less; null if it was not worked out.
    pub lower_bound_per_hour: Option<f64>,
    /// Pods that get a new place.
    pub pods: usize,
    /// Nodes of known price that stay as they are, by name.
    pub stays: Vec<StaysDocument>,
}

/// A node that stays as it is, with all its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StaysDocument {
    /// Its name.
    pub node: String,
    /// What kind of reason.
    pub code: &'static str,
    /// The pod of which the reason tells; null if it is of the node.
    pub pod: Option<String>,
    /// One sentence.
    pub message: String,
}

/// A node in a snapshot, with what it costs and what of that is wasted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bill {
    /// Dollars per hour.
    pub price: f64,
    /// The part of it that is paid for capacity nobody requested.
    pub waste: f64,
}

/// What a node that stands costs, if that is known.
pub fn bill(snapshot: &Snapshot, node: &Node) -> Option<Bill> {
    let price = node.shown.price?;
    let mut used = node.shown.allocatable.clone();
    sub_into(&mut used, &node.available);
    let share = waste::share(&snapshot.vocabulary.names, &used, &node.shown.allocatable);
    Some(Bill { price, waste: price * share })
}

impl StandingDocument {
    /// Sums over the nodes that stand; nothing if there are none.
    pub fn new(snapshot: &Snapshot, nodes: &[StandingNode]) -> Option<Self> {
        let mut document = Self {
            nodes: 0,
            pods: 0,
            price_per_hour: 0.0,
            waste_per_hour: 0.0,
            waste_percent: None,
            nodes_of_unknown_price: 0,
            pods_of_unknown_price: 0,
            packed_afresh: None,
        };
        for row in nodes {
            match bill(snapshot, &snapshot.nodes[row.node.at()]) {
                Some(bill) => {
                    document.nodes += 1;
                    document.pods += row.pods;
                    document.price_per_hour += bill.price;
                    document.waste_per_hour += bill.waste;
                }
                None => {
                    document.nodes_of_unknown_price += 1;
                    document.pods_of_unknown_price += row.pods;
                }
            }
        }
        let share = document.waste_per_hour / document.price_per_hour;
        document.waste_percent = share.is_finite().then_some((share * 1000.0).round() / 10.0);
        document.price_per_hour = to_nano(document.price_per_hour);
        document.waste_per_hour = to_nano(document.waste_per_hour);
        (!nodes.is_empty()).then_some(document)
    }
}

impl StaysDocument {
    /// A node that stays whatever is packed afresh.
    pub fn of_node(node: &str, why: Stays) -> Self {
        let (code, message) = match why {
            Stays::UnknownPrice => ("UnknownPrice", "nobody knows what it costs"),
            Stays::ControlPlane => ("ControlPlane", "the cluster is run from it"),
            Stays::Static => ("StaticPool", "its pool keeps a fixed number of nodes"),
        };
        Self { node: node.to_owned(), code, pod: None, message: message.to_owned() }
    }

    /// A node that stays because a pod of it would find no other place.
    pub fn of_refused(node: &str, pod: &str, reasons: &[ReasonDocument]) -> Self {
        let why = reasons.iter().map(|reason| match &reason.node_pool {
            Some(pool) => format!("nodepool/{pool}: {}", reason.message),
            None => reason.message.clone(),
        });
        let message = format!("no other place for it: {}", why.collect::<Vec<_>>().join("; "));
        Self { node: node.to_owned(), code: "NoOtherPlace", pod: Some(pod.to_owned()), message }
    }
}

/// Prices are known to a nano-dollar; sums of floats are not to show more.
pub fn to_nano(dollars: f64) -> f64 {
    (dollars * 1e9).round() / 1e9
}
