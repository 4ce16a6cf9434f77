//! A consolidation as a document: what goes and what comes instead, the pods that move, and why the other nodes stay.

use joiner_core::disrupt::{Block, Command, Consolidation, Fleet, Kind, Place, Verdict, Why};
use joiner_core::model::NodeIdx;
use joiner_core::plan::{Bill, PlannedMachine};
use serde::Serialize;

/// A consolidation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsolidationDocument {
    /// Nodes of known price before.
    pub before: SumDocument,
    /// And after.
    pub after: SumDocument,
    /// What is done, in order.
    pub commands: Vec<CommandDocument>,
    /// Nodes that stay, by name, each with all that keeps it.
    pub stays: Vec<KeptDocument>,
}

/// Nodes and what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SumDocument {
    /// How many.
    pub nodes: usize,
    /// Dollars per hour.
    pub price_per_hour: f64,
}

/// Nodes that go together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandDocument {
    /// `empty`, `delete` or `replace`.
    pub kind: &'static str,
    /// One sentence.
    pub message: String,
    /// Dollars per hour.
    pub saving_per_hour: f64,
    /// Names.
    pub nodes: Vec<String>,
    /// What is launched before they go.
    pub machines: Vec<MachineDocument>,
    /// The pods of the nodes.
    pub moves: Vec<MoveDocument>,
}

/// A machine to launch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDocument {
    /// Its pool and its number in it.
    pub name: String,
    /// The cheapest that it can be.
    pub instance_type: String,
    /// Dollars per hour.
    pub price_per_hour: f64,
    /// All that it can be, cheapest first.
    pub instance_type_options: Vec<String>,
}

/// A pod that moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MoveDocument {
    /// `namespace/name`.
    pub pod: String,
    /// Its node.
    pub from: String,
    /// The node or machine where there is room for it; null for a pod that nobody needs.
    pub to: Option<String>,
}

/// Why a node stays.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptDocument {
    /// Its name.
    pub node: String,
    /// What kind of reason.
    pub code: &'static str,
    /// The pod of which the reason tells; null if it is of the node.
    pub pod: Option<String>,
    /// One sentence.
    pub message: String,
    /// Dollars per hour.
    pub price_per_hour: Option<f64>,
    /// What its pods would cost on machines bought at best, their share of the charge per node included, where that was worked out.
    pub worth_per_hour: Option<f64>,
    /// The cheapest machines for those of its pods that find no room elsewhere, if that was tried.
    pub replacement_per_hour: Option<f64>,
}

impl ConsolidationDocument {
    /// Of a result.
    pub fn new(fleet: &Fleet, result: &Consolidation) -> Self {
        let mut stays: Vec<KeptDocument> = (0..fleet.nodes.len())
            .flat_map(|at| kept(fleet, NodeIdx::new(at), &result.verdicts[at]))
            .collect();
        stays.sort_by(|a, b| (&a.node, a.code, &a.pod).cmp(&(&b.node, b.code, &b.pod)));
        let commands = result.commands.iter().map(|command| of_command(fleet, result, command)).collect();
        Self { before: sum(result.before), after: sum(result.after), commands, stays }
    }
}

fn sum(bill: Bill) -> SumDocument {
    SumDocument { nodes: bill.machines, price_per_hour: dollars(bill.price_nano_usd) }
}

fn dollars(nano: i64) -> f64 {
    nano as f64 / 1e9
}

fn of_command(fleet: &Fleet, result: &Consolidation, command: &Command) -> CommandDocument {
    let snapshot = &fleet.snapshot;
    let name = |node: NodeIdx| snapshot.nodes[node.at()].name.to_string();
    let machines = &result.plan.machines;
    let moves = command.moves.iter().map(|movement| MoveDocument {
        pod: snapshot.pods[movement.pod.at()].name.to_string(),
        from: name(movement.from),
        to: match movement.to {
            Place::Node(node) => Some(name(node)),
            Place::Machine(at) => Some(machine_name(fleet, &machines[at])),
            Place::Nowhere => None,
        },
    });
    let (kind, message) = match command.kind {
        Kind::Empty => ("empty", "no pod on it needs another place"),
        Kind::Delete => ("delete", "its pods have room on other nodes"),
        Kind::Replace => ("replace", "its pods are cheaper on other machines"),
    };
    let message = match (command.kind, command.nodes.len()) {
        (_, 1) => message,
        (Kind::Empty, _) => "no pod on them needs another place",
        (Kind::Delete, _) => "their pods have room on other nodes",
        (Kind::Replace, _) => "their pods are cheaper on other machines",
    };
    CommandDocument {
        kind,
        message: message.to_owned(),
        saving_per_hour: dollars(command.saving_nano_usd),
        nodes: command.nodes.iter().map(|node| name(*node)).collect(),
        machines: command.machines.iter().map(|at| of_machine(fleet, &machines[*at])).collect(),
        moves: moves.collect(),
    }
}

fn machine_name(fleet: &Fleet, machine: &PlannedMachine) -> String {
    format!("{}-{}", fleet.snapshot.pools[machine.pool.at()].name, machine.number)
}

fn of_machine(fleet: &Fleet, machine: &PlannedMachine) -> MachineDocument {
    let snapshot = &fleet.snapshot;
    let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
    let offering = &catalogue.offerings[machine.offering.at()];
    MachineDocument {
        name: machine_name(fleet, machine),
        instance_type: catalogue.types[offering.instance_type.at()].name.to_string(),
        price_per_hour: dollars(offering.price_nano_usd),
        instance_type_options: machine
            .types
            .iter()
            .map(|of| catalogue.types[of.at()].name.to_string())
            .collect(),
    }
}

fn kept(fleet: &Fleet, node: NodeIdx, verdict: &Verdict) -> Vec<KeptDocument> {
    let row = &fleet.snapshot.nodes[node.at()];
    let document = |code: &'static str, pod: Option<&str>, message: String| KeptDocument {
        node: row.name.to_string(),
        code,
        pod: pod.map(str::to_owned),
        message,
        price_per_hour: row.price_nano_usd.map(dollars),
        worth_per_hour: None,
        replacement_per_hour: None,
    };
    match verdict {
        Verdict::Goes(_) => Vec::new(),
        Verdict::Blocked => {
            let one = |block: &Block| document(block.code(), block.pod(), block.to_string());
            fleet.nodes[node.at()].blocks.iter().map(one).collect()
        }
        Verdict::Stays { worth_nano_usd, replacement_nano_usd, why, .. } => {
            let (code, pod, message) = words(fleet, *why);
            vec![KeptDocument {
                worth_per_hour: worth_nano_usd.map(dollars),
                replacement_per_hour: replacement_nano_usd.map(dollars),
                ..document(code, pod.as_deref(), message)
            }]
        }
    }
}

fn words(fleet: &Fleet, why: Why) -> (&'static str, Option<String>, String) {
    let named = |pod: joiner_core::model::PodIdx| Some(fleet.snapshot.pods[pod.at()].name.to_string());
    match why {
        Why::NotCheaper { pod } => (
            "NotCheaper",
            named(pod),
            "not every pod has room elsewhere, and new machines for them would not be cheaper".to_owned(),
        ),
        Why::NoPlace { pod } => ("NoPlace", named(pod), "a pod has no place anywhere else".to_owned()),
        Why::OnlyInBestOrder { pod } => (
            "OnlyInBestOrder",
            named(pod),
            "there is room elsewhere, but not as kube-scheduler would divide it".to_owned(),
        ),
        Why::OpensDomain => (
            "OpensDomain",
            None,
            "a new machine would be a domain of spread constraints whose pods cannot go there".to_owned(),
        ),
        Why::SpotToSpot => ("SpotToSpot", None, "a spot machine is not replaced by another".to_owned()),
        Why::NotBalanced { score } => (
            "NotBalanced",
            None,
            format!("it would save too little for what it disrupts: score {score:.2}, 0.50 is asked for"),
        ),
        Why::Budget => ("Budget", None, "the budgets of its NodePool let others go first".to_owned()),
        Why::OthersGo => (
            "OthersGo",
            None,
            "others go, and what they leave does not let it go for less as well".to_owned(),
        ),
        Why::Blocked => ("Blocked", None, "it may not be disrupted by now".to_owned()),
        Why::NotReached => ("NotReached", None, "it was not tried".to_owned()),
    }
}
