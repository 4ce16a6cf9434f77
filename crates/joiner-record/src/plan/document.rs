//! The plan as data: what `-o json` and `-o yaml` print. Stable; documented in `docs/reference/plan-json.md`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use joiner_core::explain::Reason;
use joiner_core::model::ids::{CatalogueIdx, NodeIdx, PodIdx, TypeIdx};
use joiner_core::model::{PriceSource, Snapshot};
use joiner_core::plan::Plan;
use serde::{Serialize, Serializer};

use super::buffers::BufferDocument;
use super::standing::StandingDocument;

/// The whole plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument {
    /// `joiner.sh/v1alpha1`.
    pub api_version: &'static str,
    /// `Plan`.
    pub kind: &'static str,
    /// What stands already, and what the same pods would cost packed afresh; null without a node.
    pub standing: Option<StandingDocument>,
    /// New nodes, then existing ones that receive pods.
    pub nodes: Vec<PlanNode>,
    /// Pods without a place, by name.
    pub unschedulable: Vec<Unschedulable>,
    /// Capacity buffers, by name.
    pub buffers: Vec<BufferDocument>,
    /// Sums.
    pub totals: Totals,
    /// The one part that differs between equal runs.
    pub timing: Timing,
}

/// A node of the plan.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanNode {
    /// `POOL-N` for new ones.
    pub name: String,
    /// Its pool.
    pub node_pool: Option<String>,
    /// Cheapest type that holds its pods.
    pub instance_type: Option<String>,
    /// Zone of that offering.
    pub zone: Option<String>,
    /// Capacity type of that offering.
    pub capacity_type: Option<String>,
    /// Its price in dollars.
    pub price_per_hour: Option<f64>,
    /// How well the price is known; left out where the list of types states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_source: Option<PriceSourceWord>,
    /// Pods placed on it, `namespace/name`; daemons left out.
    pub pods: Vec<String>,
    /// Virtual pods of buffers on it.
    pub buffer_pods: Vec<String>,
    /// Whether it is there already.
    pub existing: bool,
    /// Whether its pool keeps it whatever pods there are.
    #[serde(rename = "static")]
    pub kept: bool,
    /// All types that would do, cheapest first.
    #[serde(serialize_with = "shared_names")]
    pub instance_type_options: Arc<[Arc<str>]>,
}

/// How well a price is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PriceSourceWord {
    /// It is the provider's list price.
    List,
    /// It is an estimate.
    Estimate,
    /// It stands in a file of prices.
    File,
}

impl PriceSourceWord {
    /// The word for a source; none for a price that the list of types states.
    pub fn of(source: PriceSource) -> Option<Self> {
        match source {
            PriceSource::Stated => None,
            PriceSource::List => Some(Self::List),
            PriceSource::Estimate => Some(Self::Estimate),
            PriceSource::File => Some(Self::File),
        }
    }
}

/// A pod without a place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unschedulable {
    /// `namespace/name`.
    pub pod: String,
    /// One per pool, and one for the existing nodes.
    pub reasons: Vec<ReasonDocument>,
}

/// Why.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonDocument {
    /// The pool; null for reasons that concern no pool.
    pub node_pool: Option<String>,
    /// What kind of reason.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
}

/// Sums.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Nodes to launch.
    pub new_nodes: usize,
    /// Their price together.
    pub price_per_hour: f64,
    /// No packing of these pods on new nodes can cost less; null if it was not worked out.
    pub lower_bound_per_hour: Option<f64>,
    /// What Karpenter's strategy would have paid; null with `--packing upstream`.
    pub upstream_price_per_hour: Option<f64>,
    /// How many nodes it would have launched.
    pub upstream_new_nodes: Option<usize>,
    /// Pods whose preferences were given up because keeping them would have cost too much.
    pub preferences_given_up: usize,
    /// The price of a plan that keeps all preferences; null if this one does.
    pub preferences_price_per_hour: Option<f64>,
    /// So many percent more, charges per node included; null if they were kept, or if the plan costs nothing without them.
    pub preferences_would_cost_percent: Option<f64>,
    /// Pending pods.
    pub pods: usize,
    /// Of these without a place.
    pub unschedulable: usize,
}

/// How long it took.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// From parsed objects to the plan.
    pub solve_seconds: f64,
}

fn shared_names<S: Serializer>(names: &Arc<[Arc<str>]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(names.iter().map(|name| &**name))
}

impl PlanDocument {
    /// The document of a plan.
    pub fn new(snapshot: &Snapshot, plan: &Plan, lower_bound: Option<f64>, time: Duration) -> Self {
        let mut nodes = new_nodes(snapshot, plan);
        nodes.extend(kept_nodes(snapshot, plan));
        nodes.extend(existing_nodes(snapshot, plan));
        let unschedulable: Vec<Unschedulable> = plan
            .refused
            .iter()
            .filter(|refused| !is_virtual(snapshot, refused.pod))
            .map(|refused| Unschedulable {
                pod: snapshot.pods[refused.pod.at()].name.to_string(),
                reasons: reasons(snapshot, &refused.reasons),
            })
            .collect();
        let price = plan.price_nano_usd as f64 / 1e9;
        let given_up = plan.given_up.as_ref();
        Self {
            api_version: "joiner.sh/v1alpha1",
            kind: "Plan",
            standing: None,
            totals: Totals {
                new_nodes: plan.machines.len() + plan.kept.len(),
                price_per_hour: price,
                // Prices are rounded to nano-dollars, so the bound of an optimal plan may lie a hair above its price.
                lower_bound_per_hour: lower_bound
                    .map(|bound| if bound > price && bound < price * (1.0 + 1e-6) { price } else { bound })
                    .map(|bound| (bound * 1e9).round() / 1e9),
                upstream_price_per_hour: plan.original.map(|bill| bill.price_nano_usd as f64 / 1e9),
                upstream_new_nodes: plan.original.map(|bill| bill.machines),
                preferences_given_up: given_up.map_or(0, |given_up| given_up.pods),
                preferences_price_per_hour: given_up
                    .map(|given_up| given_up.kept.price_nano_usd as f64 / 1e9),
                preferences_would_cost_percent: given_up
                    .map(|given_up| given_up.would_cost)
                    .filter(|share| share.is_finite())
                    .map(|share| (share * 1000.0).round() / 10.0),
                pods: (0..snapshot.pods.len()).filter(|at| !is_virtual(snapshot, PodIdx::new(*at))).count(),
                unschedulable: unschedulable.len(),
            },
            nodes,
            unschedulable,
            buffers: Vec::new(),
            timing: Timing { solve_seconds: seconds(time) },
        }
    }
}

fn new_nodes(snapshot: &Snapshot, plan: &Plan) -> Vec<PlanNode> {
    let names = &snapshot.vocabulary.names;
    let zone_key = names.known_key(joiner_api::names::ZONE_LABEL);
    let capacity_key = names.known_key(joiner_api::names::CAPACITY_TYPE_LABEL);
    // Machines alike share one list of types; so do their documents.
    let mut options: Vec<(*const u32, Arc<[Arc<str>]>)> = Vec::new();
    let mut type_names: BTreeMap<(CatalogueIdx, TypeIdx), Arc<str>> = BTreeMap::new();
    plan.machines
        .iter()
        .map(|machine| {
            let pool = &snapshot.pools[machine.pool.at()];
            let catalogue = &snapshot.catalogues[pool.catalogue.at()];
            let offering = &catalogue.offerings[machine.offering.at()];
            let address = machine.types.as_ptr().cast::<u32>();
            let shared = match options.iter().rev().take(64).find(|(at, _)| *at == address) {
                Some((_, list)) => list.clone(),
                None => {
                    let mut name = |of: &TypeIdx| {
                        let name = type_names.entry((pool.catalogue, *of));
                        name.or_insert_with(|| catalogue.types[of.at()].name[..].into()).clone()
                    };
                    let list: Arc<[Arc<str>]> = machine.types.iter().map(&mut name).collect();
                    options.push((address, list.clone()));
                    list
                }
            };
            let text = |key: Option<_>, value: Option<_>| {
                key.zip(value).map(|(key, value)| names.value_text(key, value).to_owned())
            };
            PlanNode {
                name: format!("{}-{}", pool.name, machine.number),
                node_pool: Some(pool.name.to_string()),
                instance_type: Some(catalogue.types[offering.instance_type.at()].name.to_string()),
                zone: text(zone_key, offering.zone),
                capacity_type: text(capacity_key, offering.capacity_type),
                price_per_hour: Some(offering.price),
                price_source: PriceSourceWord::of(offering.price_source),
                pods: pod_names(snapshot, &machine.pods, false),
                buffer_pods: pod_names(snapshot, &machine.pods, true),
                existing: false,
                kept: false,
                instance_type_options: shared,
            }
        })
        .collect()
}

/// Machines that pools of a fixed size lack: new too, but not opened for anybody.
fn kept_nodes(snapshot: &Snapshot, plan: &Plan) -> Vec<PlanNode> {
    let mut nodes = described(snapshot, &plan.kept);
    for (node, (at, _)) in nodes.iter_mut().zip(&plan.kept) {
        let row = &snapshot.nodes[at.at()];
        (node.existing, node.kept) = (false, true);
        if let (Some(bought), Some(pool)) = (&row.bought, row.pool) {
            let catalogue = &snapshot.catalogues[snapshot.pools[pool.at()].catalogue.at()];
            node.instance_type_options = node.instance_type.iter().map(|name| Arc::from(&name[..])).collect();
            let offering = &catalogue.offerings[bought.offering.at()];
            node.price_per_hour = Some(offering.price);
            node.price_source = PriceSourceWord::of(offering.price_source);
        }
    }
    nodes
}

fn existing_nodes(snapshot: &Snapshot, plan: &Plan) -> Vec<PlanNode> {
    described(snapshot, &plan.on_nodes)
}

fn described(snapshot: &Snapshot, list: &[(NodeIdx, Vec<PodIdx>)]) -> Vec<PlanNode> {
    let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    list.iter()
        .map(|(node, pods)| {
            let node = &snapshot.nodes[node.at()];
            PlanNode {
                name: node.name.to_string(),
                node_pool: owned(&node.shown.pool),
                instance_type: owned(&node.shown.instance_type),
                zone: owned(&node.shown.zone),
                capacity_type: owned(&node.shown.capacity_type),
                price_per_hour: node.shown.price,
                price_source: PriceSourceWord::of(node.shown.price_source),
                pods: pod_names(snapshot, pods, false),
                buffer_pods: pod_names(snapshot, pods, true),
                existing: true,
                kept: false,
                instance_type_options: Arc::from([]),
            }
        })
        .collect()
}

/// Whether a pod stands for one that has not come yet.
pub fn is_virtual(snapshot: &Snapshot, pod: PodIdx) -> bool {
    snapshot.classes[snapshot.pods[pod.at()].class.at()].filler
}

/// Reasons as data.
pub fn reasons(snapshot: &Snapshot, list: &[Reason]) -> Vec<ReasonDocument> {
    let document = |reason: &Reason| ReasonDocument {
        node_pool: reason.pool.map(|pool| snapshot.pools[pool.at()].name.to_string()),
        code: reason.code().code(),
        message: reason.message(),
    };
    list.iter().map(document).collect()
}

fn pod_names(snapshot: &Snapshot, pods: &[PodIdx], of_buffers: bool) -> Vec<String> {
    let pods = pods.iter().filter(|pod| is_virtual(snapshot, **pod) == of_buffers);
    let mut names: Vec<String> = pods.map(|pod| snapshot.pods[pod.at()].name.to_string()).collect();
    names.sort_unstable();
    names
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}
