//! The story of one pod as data: what `--explain POD -o json` prints. Documented in `docs/reference/plan-json.md`.

use joiner_core::explain::Story;
use joiner_core::model::Snapshot;
use joiner_core::pack::scratch::Spot;
use serde::Serialize;

use super::explain::words;
use joiner_record::plan::{ReasonDocument, reasons};

/// The whole story.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoryDocument {
    api_version: &'static str,
    kind: &'static str,
    pod: String,
    /// Its turn in the queue, from 1.
    turn: usize,
    /// Pods in that queue.
    queue: usize,
    existing_nodes: Vec<Tally>,
    opened_nodes: Vec<Tally>,
    given_up: Vec<&'static str>,
    place: Option<Place>,
    funnel: Option<Funnel>,
    reasons: Vec<ReasonDocument>,
}

/// So many nodes gave this answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tally {
    answer: &'static str,
    nodes: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    node: Option<String>,
    existing: bool,
    opened_for_it: bool,
    node_pool: Option<String>,
    instance_type: Option<String>,
    price_per_hour: Option<f64>,
    other_pods: Option<usize>,
    instance_type_options: Option<usize>,
    /// Types that would do as well, were it not for the limits of the pool.
    withheld_by_limits: Option<usize>,
}

/// How offerings narrowed down.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Funnel {
    catalogue: usize,
    pool_allows: usize,
    pod_allows: usize,
    hold_it: usize,
    left: usize,
}

impl StoryDocument {
    /// The document of a story.
    pub fn new(snapshot: &Snapshot, story: &Story) -> Self {
        let tally = |list: &[(&'static str, usize)]| {
            list.iter().map(|(answer, nodes)| Tally { answer: answer_word(answer), nodes: *nodes }).collect()
        };
        Self {
            api_version: "joiner.sh/v1alpha1",
            kind: "PodStory",
            pod: snapshot.pods[story.pod.at()].name.to_string(),
            turn: story.turn,
            queue: story.queue,
            existing_nodes: tally(&story.nodes),
            opened_nodes: tally(&story.machines),
            given_up: story.relaxed.iter().map(|relaxed| words(*relaxed)).collect(),
            place: place(snapshot, story),
            funnel: story.funnel.map(|funnel| Funnel {
                catalogue: funnel.catalogue,
                pool_allows: funnel.pool_allows,
                pod_allows: funnel.pod_allows,
                hold_it: funnel.fit,
                left: funnel.left,
            }),
            reasons: reasons(snapshot, &story.reasons),
        }
    }
}

fn answer_word(answer: &'static str) -> &'static str {
    match answer {
        "cordoned or leaving" => "Closed",
        "taint" => "Taint",
        "labels" => "Labels",
        "requirements" => "Requirements",
        "room" => "Room",
        _ => "CouldTakeIt",
    }
}

fn place(snapshot: &Snapshot, story: &Story) -> Option<Place> {
    let nowhere = Place {
        node: None,
        existing: false,
        opened_for_it: false,
        node_pool: None,
        instance_type: None,
        price_per_hour: None,
        other_pods: None,
        instance_type_options: None,
        withheld_by_limits: None,
    };
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    Some(match (story.spot, story.divided) {
        (None, None) => return None,
        (Some(Spot::Node(node)), _) => {
            let node = &snapshot.nodes[node.at()];
            Place {
                node: Some(node.name.to_string()),
                existing: true,
                node_pool: text(&node.shown.pool),
                instance_type: text(&node.shown.instance_type),
                price_per_hour: node.shown.price,
                ..nowhere
            }
        }
        (_, Some(divided)) => {
            let pool = &snapshot.pools[divided.pool.at()];
            let catalogue = &snapshot.catalogues[pool.catalogue.at()];
            let offering = &catalogue.offerings[divided.offering.at()];
            Place {
                node: Some(format!("{}-{}", pool.name, divided.number)),
                node_pool: Some(pool.name.to_string()),
                instance_type: Some(catalogue.types[offering.instance_type.at()].name.to_string()),
                price_per_hour: Some(offering.price),
                other_pods: Some(divided.pods - 1),
                instance_type_options: Some(divided.types),
                withheld_by_limits: Some(divided.withheld),
                ..nowhere
            }
        }
        (Some(Spot::Machine(_)), None) => Place {
            opened_for_it: story.opened,
            withheld_by_limits: story.funnel.map(|funnel| funnel.withheld),
            node_pool: story.funnel.map(|funnel| snapshot.pools[funnel.pool.at()].name.to_string()),
            ..nowhere
        },
    })
}
