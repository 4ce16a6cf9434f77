//! A picture as one JSON object. Documented in `docs/guide/up.md`.

use serde::Serialize;

use super::{HOURS_PER_MONTH, NodeRow, Picture};

/// A cluster at one moment.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    api_version: &'static str,
    kind: &'static str,
    /// The cluster's time.
    time: String,
    /// Whether nothing was under way any more.
    at_rest: bool,
    totals: Totals,
    pods: Pods,
    /// By pool and name.
    nodes: Vec<Node>,
    /// By name.
    waiting: Vec<Waiting>,
    /// The latest, oldest first.
    decisions: Vec<Decision>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Totals {
    nodes: usize,
    nodes_of_unknown_price: usize,
    price_per_hour: f64,
    price_per_month: f64,
    cpu_requested_percent: f64,
    memory_requested_percent: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Pods {
    running: usize,
    pending: usize,
    starting: usize,
    leaving: usize,
    succeeded: usize,
    failed: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    name: String,
    node_pool: Option<String>,
    instance_type: Option<String>,
    zone: Option<String>,
    capacity_type: Option<String>,
    state: &'static str,
    price_per_hour: Option<f64>,
    pods: usize,
    cpu_milli: Amount,
    memory_bytes: Amount,
}

#[derive(Debug, Serialize)]
struct Amount {
    requested: i64,
    allocatable: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    pod: String,
    scheduler: String,
    refused: Option<String>,
    awaits: Option<String>,
}

#[derive(Debug, Serialize)]
struct Decision {
    time: String,
    summary: String,
}

impl Report {
    /// What a picture shows.
    pub fn new(picture: &Picture, at_rest: bool) -> Self {
        let (cpu, memory) = picture.requested();
        let price = picture.price_per_hour();
        let pods = picture.pods;
        Self {
            api_version: "joiner.sh/v1alpha1",
            kind: "ClusterReport",
            time: picture.now.to_string(),
            at_rest,
            totals: Totals {
                nodes: picture.nodes.len(),
                nodes_of_unknown_price: picture.nodes_without_price(),
                price_per_hour: rounded(price),
                price_per_month: rounded(price * HOURS_PER_MONTH),
                cpu_requested_percent: (cpu * 1000.0).round() / 10.0,
                memory_requested_percent: (memory * 1000.0).round() / 10.0,
            },
            pods: Pods {
                running: pods.running,
                pending: pods.pending,
                starting: pods.starting,
                leaving: pods.leaving,
                succeeded: pods.succeeded,
                failed: pods.failed,
            },
            nodes: picture.nodes.iter().map(Node::of).collect(),
            waiting: picture
                .waiting
                .iter()
                .map(|waiting| Waiting {
                    pod: waiting.pod.clone(),
                    scheduler: waiting.scheduler.clone(),
                    refused: waiting.joiner.clone(),
                    awaits: waiting.awaits.clone(),
                })
                .collect(),
            decisions: picture
                .decisions
                .iter()
                .map(|decision| Decision { time: decision.at.to_string(), summary: decision.what.clone() })
                .collect(),
            warnings: picture.warnings.clone(),
        }
    }
}

impl Node {
    fn of(row: &NodeRow) -> Self {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Self {
            name: row.name.clone(),
            node_pool: known(&row.pool),
            instance_type: known(&row.instance_type),
            zone: known(&row.zone),
            capacity_type: known(&row.capacity_type),
            state: row.state.word(),
            price_per_hour: row.price_per_hour,
            pods: row.pods,
            cpu_milli: Amount { requested: row.cpu_used_milli, allocatable: row.cpu_milli },
            memory_bytes: Amount { requested: row.memory_used_bytes, allocatable: row.memory_bytes },
        }
    }
}

/// Prices are known to a nano-dollar; sums of floats are not to show more.
fn rounded(dollars: f64) -> f64 {
    (dollars * 1e9).round() / 1e9
}
