//! What a screen shows of nodes and pods, kept up to date from their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_api::names;
use joiner_api::quantity::Quantity;
use joiner_provider::TypeSet;
use joiner_state::requests::{Limits, pod_requests};
use k8s_openapi::api::core::v1::{Node, Pod};

/// What a node is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It has come, and is not ready yet.
    Starting,
    /// It runs pods.
    Ready,
    /// It was ready and has stopped saying so.
    NotReady,
    /// It takes no new pods.
    Cordoned,
    /// It is being emptied, or deleted.
    Leaving,
}

impl NodeState {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::NotReady => "not ready",
            Self::Cordoned => "cordoned",
            Self::Leaving => "leaving",
        }
    }
}

/// A node as a row of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRow {
    /// Name of the node.
    pub name: String,
    /// The pool it belongs to; empty if to none.
    pub pool: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// Capacity type.
    pub capacity_type: String,
    /// What it is doing.
    pub state: NodeState,
    /// CPU that pods may ask for, in thousandths.
    pub cpu_milli: i64,
    /// Memory that pods may ask for.
    pub memory_bytes: i64,
    /// CPU that its pods ask for.
    pub cpu_used_milli: i64,
    /// Memory that its pods ask for.
    pub memory_used_bytes: i64,
    /// Pods on it.
    pub pods: usize,
    /// What it costs, if that is known.
    pub price_per_hour: Option<f64>,
}

/// How many pods do what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodCounts {
    /// Without a node.
    pub pending: usize,
    /// With a node, not running yet.
    pub starting: usize,
    /// Running.
    pub running: usize,
    /// Being deleted.
    pub leaving: usize,
    /// Ended well.
    pub succeeded: usize,
    /// Ended badly.
    pub failed: usize,
}

/// A pod without a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// `namespace/name`.
    pub pod: String,
    /// Why no node takes it, as the scheduler says.
    pub scheduler: String,
    /// Why no new machine would help, if joiner found so.
    pub joiner: Option<String>,
    /// Which node it waits for, and what that lacks, if joiner gave it one.
    pub awaits: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Pending,
    Starting,
    Running,
    Leaving,
    Succeeded,
    Failed,
}

impl Doing {
    /// Whether it takes room on its node.
    fn takes_room(self) -> bool {
        !matches!(self, Self::Succeeded | Self::Failed)
    }
}

#[derive(Debug)]
struct PodEntry {
    doing: Doing,
    node: Option<String>,
    cpu_milli: i64,
    memory_bytes: i64,
}

/// What pods on a node ask for together.
#[derive(Debug, Default)]
struct Load {
    pods: usize,
    cpu_milli: i64,
    memory_bytes: i64,
}

/// Nodes and pods as a screen shows them. A pod is named `namespace/name`.
#[derive(Debug, Default)]
pub struct Board {
    nodes: BTreeMap<String, NodeRow>,
    pods: BTreeMap<String, PodEntry>,
    /// By node, whether or not the node is known yet.
    loads: BTreeMap<String, Load>,
    counts: PodCounts,
    /// Pods without a node, with what the scheduler says.
    waiting: BTreeMap<String, String>,
    /// What nodes cost that do not say so themselves.
    types: Option<Arc<TypeSet>>,
    /// Counts what it was told.
    changes: u64,
}

impl Board {
    /// Nodes of these types cost what the list says, unless they say it themselves.
    pub fn know_types(&mut self, types: Arc<TypeSet>) {
        self.types = Some(types);
    }

    /// Counts every change: while it stays the same, nothing happens to nodes and pods.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// A node has come or changed.
    pub fn node_changed(&mut self, node: &Node) {
        self.changes += 1;
        let Some(name) = &node.metadata.name else { return };
        let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let amount = |resource: &str| {
            let text = allocatable?.get(resource)?;
            Quantity::parse(&text.0).ok()
        };
        let price = label(names::INSTANCE_PRICE_LABEL).and_then(|text| text.parse::<f64>().ok());
        let price = price.or_else(|| self.types.as_ref()?.price_by_labels(node.metadata.labels.as_ref()?));
        let row = NodeRow {
            name: name.clone(),
            pool: label(names::NODEPOOL_LABEL).unwrap_or_default(),
            instance_type: label(names::INSTANCE_TYPE_LABEL).unwrap_or_default(),
            zone: label(names::ZONE_LABEL).unwrap_or_default(),
            capacity_type: label(names::CAPACITY_TYPE_LABEL).unwrap_or_default(),
            state: state_of(node, self.nodes.get(name).map(|row| row.state)),
            cpu_milli: amount("cpu").map_or(0, |cpu| cpu.milli_saturating()),
            memory_bytes: amount("memory").map_or(0, |memory| memory.value_saturating()),
            cpu_used_milli: 0,
            memory_used_bytes: 0,
            pods: 0,
            price_per_hour: price.filter(|price| price.is_finite()),
        };
        self.nodes.insert(name.clone(), row);
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: &str) {
        self.changes += 1;
        self.nodes.remove(name);
    }

    /// A pod has come or changed.
    pub fn pod_changed(&mut self, pod: &Pod) {
        self.changes += 1;
        let Some(name) = full_name(pod) else { return };
        self.forget(&name);
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let node = spec.and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty());
        let doing = match status.and_then(|status| status.phase.as_deref()) {
            Some("Succeeded") => Doing::Succeeded,
            Some("Failed") => Doing::Failed,
            _ if pod.metadata.deletion_timestamp.is_some() => Doing::Leaving,
            Some("Running") => Doing::Running,
            _ if node.is_some() => Doing::Starting,
            _ => Doing::Pending,
        };
        // A pod that makes no sense asks for nothing that could be shown.
        let asked = spec.and_then(|spec| pod_requests(spec, status, Limits::CopiedIntoRequests).ok());
        let asked =
            |resource: &str| asked.as_ref().and_then(|asked| asked.get(resource)).copied().unwrap_or(0);
        let entry = PodEntry { doing, node, cpu_milli: asked("cpu"), memory_bytes: asked("memory") };
        *self.count_of(doing) += 1;
        if let (true, Some(node)) = (doing.takes_room(), &entry.node) {
            let load = self.loads.entry(node.clone()).or_default();
            load.pods += 1;
            load.cpu_milli += entry.cpu_milli;
            load.memory_bytes += entry.memory_bytes;
        }
        if doing == Doing::Pending {
            self.waiting.insert(name.clone(), reason_of(pod));
        }
        self.pods.insert(name, entry);
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, pod: &Pod) {
        self.changes += 1;
        if let Some(name) = full_name(pod) {
            self.forget(&name);
        }
    }

    /// Nothing is known any more of nodes: a list follows.
    pub fn nodes_listed_again(&mut self) {
        self.nodes.clear();
    }

    /// Nothing is known any more of pods: a list follows.
    pub fn pods_listed_again(&mut self) {
        let (nodes, types) = (std::mem::take(&mut self.nodes), self.types.take());
        *self = Self { nodes, types, changes: self.changes + 1, ..Self::default() };
    }

    /// Nodes by pool and name, with what their pods ask for.
    pub fn rows(&self) -> Vec<NodeRow> {
        let mut rows: Vec<NodeRow> = self.nodes.values().cloned().collect();
        for row in &mut rows {
            if let Some(load) = self.loads.get(&row.name) {
                row.pods = load.pods;
                row.cpu_used_milli = load.cpu_milli;
                row.memory_used_bytes = load.memory_bytes;
            }
        }
        rows.sort_by(|a, b| (&a.pool, &a.name).cmp(&(&b.pool, &b.name)));
        rows
    }

    /// Nodes that have come and are not ready.
    pub fn starting(&self) -> usize {
        self.nodes.values().filter(|row| row.state == NodeState::Starting).count()
    }

    /// How many pods do what.
    pub fn counts(&self) -> PodCounts {
        self.counts
    }

    /// Pods that wait, by name, with what the scheduler says, why joiner refuses them and what they wait for; at most so many.
    pub fn waiting(
        &self,
        most: usize,
        refusals: &BTreeMap<String, String>,
        awaited: &BTreeMap<String, String>,
    ) -> Vec<Waiting> {
        let waiting = |(pod, reason): (&String, &String)| Waiting {
            pod: pod.clone(),
            scheduler: reason.clone(),
            joiner: refusals.get(pod).cloned(),
            awaits: awaited.get(pod).cloned(),
        };
        self.waiting.iter().take(most).map(waiting).collect()
    }

    /// Pools that have nodes.
    pub fn pools(&self) -> BTreeSet<&str> {
        self.nodes.values().map(|row| row.pool.as_str()).collect()
    }

    fn forget(&mut self, name: &str) {
        let Some(entry) = self.pods.remove(name) else { return };
        *self.count_of(entry.doing) -= 1;
        self.waiting.remove(name);
        if let (true, Some(node)) = (entry.doing.takes_room(), &entry.node)
            && let Some(load) = self.loads.get_mut(node)
        {
            load.pods -= 1;
            load.cpu_milli -= entry.cpu_milli;
            load.memory_bytes -= entry.memory_bytes;
            if load.pods == 0 {
                self.loads.remove(node);
            }
        }
    }

    fn count_of(&mut self, doing: Doing) -> &mut usize {
        match doing {
            Doing::Pending => &mut self.counts.pending,
            Doing::Starting => &mut self.counts.starting,
            Doing::Running => &mut self.counts.running,
            Doing::Leaving => &mut self.counts.leaving,
            Doing::Succeeded => &mut self.counts.succeeded,
            Doing::Failed => &mut self.counts.failed,
        }
    }
}

fn full_name(pod: &Pod) -> Option<String> {
    let name = pod.metadata.name.as_ref()?;
    Some(format!("{}/{name}", pod.metadata.namespace.as_deref().unwrap_or("default")))
}

fn state_of(node: &Node, before: Option<NodeState>) -> NodeState {
    let spec = node.spec.as_ref();
    let disrupted = spec
        .and_then(|spec| spec.taints.as_ref())
        .into_iter()
        .flatten()
        .any(|taint| taint.key == names::DISRUPTED_TAINT);
    if node.metadata.deletion_timestamp.is_some() || disrupted {
        return NodeState::Leaving;
    }
    let ready = node.status.as_ref().and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    if !ready.clone().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
        return match before {
            None | Some(NodeState::Starting) => NodeState::Starting,
            Some(_) => NodeState::NotReady,
        };
    }
    match spec.and_then(|spec| spec.unschedulable) {
        Some(true) => NodeState::Cordoned,
        _ => NodeState::Ready,
    }
}

fn reason_of(pod: &Pod) -> String {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let scheduled = conditions.into_iter().flatten().find(|condition| condition.type_ == "PodScheduled");
    scheduled
        .and_then(|condition| condition.message.clone())
        .unwrap_or_else(|| "not looked at yet".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, ready: &str) -> Node {
        let value = json!({
            "metadata": {"name": name, "labels": {
                names::NODEPOOL_LABEL: "default", names::INSTANCE_PRICE_LABEL: "0.250000", names::ZONE_LABEL: "a",
            }},
            "status": {
                "allocatable": {"cpu": "3900m", "memory": "8Gi"},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        });
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str, node: Option<&str>, phase: &str) -> Pod {
        let value = json!({
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": node, "containers": [
                {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
            ]},
            "status": {"phase": phase, "conditions": [
                {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."},
            ]},
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn pods_count_on_their_node_while_they_take_room() {
        let mut board = Board::default();
        board.pod_changed(&pod("a", Some("n"), "Running"));
        board.node_changed(&node("n", "True"));
        board.pod_changed(&pod("b", Some("n"), "Pending"));
        board.pod_changed(&pod("c", Some("n"), "Succeeded"));
        let row = board.rows().remove(0);
        assert_eq!((row.pods, row.cpu_used_milli, row.memory_used_bytes), (2, 1_000, 2 << 30));
        assert_eq!((row.cpu_milli, row.memory_bytes, row.price_per_hour), (3_900, 8 << 30, Some(0.25)));
        assert_eq!(
            board.counts(),
            PodCounts { starting: 1, running: 1, succeeded: 1, ..PodCounts::default() }
        );

        board.pod_gone(&pod("a", Some("n"), "Running"));
        board.pod_changed(&pod("b", Some("n"), "Failed"));
        let row = board.rows().remove(0);
        assert_eq!((row.pods, row.cpu_used_milli, row.memory_used_bytes), (0, 0, 0));
        assert_eq!(board.counts(), PodCounts { succeeded: 1, failed: 1, ..PodCounts::default() });
    }

    #[test]
    fn a_waiting_pod_says_what_the_scheduler_says_until_it_has_a_node() {
        let mut board = Board::default();
        board.pod_changed(&pod("a", None, "Pending"));
        let mut waiting = Waiting {
            pod: "shop/a".to_owned(),
            scheduler: "0/1 nodes are available: 1 Insufficient cpu.".to_owned(),
            joiner: None,
            awaits: None,
        };
        let mut awaited = BTreeMap::new();
        let mut refusals = BTreeMap::from([("shop/b".to_owned(), "too large".to_owned())]);
        assert_eq!(board.waiting(10, &refusals, &awaited), [waiting.clone()]);
        refusals.insert("shop/a".to_owned(), "too large".to_owned());
        waiting.joiner = Some("too large".to_owned());
        awaited.insert("shop/a".to_owned(), "waits for n".to_owned());
        waiting.awaits = Some("waits for n".to_owned());
        assert_eq!(board.waiting(10, &refusals, &awaited), [waiting]);
        assert!(board.waiting(0, &refusals, &awaited).is_empty());
        let changes = board.changes();
        board.pod_changed(&pod("a", Some("n"), "Pending"));
        assert!(board.waiting(10, &refusals, &awaited).is_empty());
        assert!(board.changes() > changes);
        assert_eq!(board.counts(), PodCounts { starting: 1, ..PodCounts::default() });
    }

    #[test]
    fn a_node_starts_runs_and_leaves() {
        let mut board = Board::default();
        let mut state = |node: &Node| {
            board.node_changed(node);
            board.rows().remove(0).state
        };
        assert_eq!(state(&node("n", "False")), NodeState::Starting);
        assert_eq!(state(&node("n", "True")), NodeState::Ready);
        assert_eq!(state(&node("n", "Unknown")), NodeState::NotReady);
        let mut cordoned = node("n", "True");
        cordoned.spec = serde_json::from_value(json!({"unschedulable": true})).unwrap();
        assert_eq!(state(&cordoned), NodeState::Cordoned);
        let mut leaving = node("n", "True");
        leaving.spec = serde_json::from_value(
            json!({"taints": [{"key": names::DISRUPTED_TAINT, "effect": "NoSchedule"}]}),
        )
        .unwrap();
        assert_eq!(state(&leaving), NodeState::Leaving);
    }

    #[test]
    fn lists_start_over() {
        let mut board = Board::default();
        board.node_changed(&node("n", "True"));
        board.pod_changed(&pod("a", Some("n"), "Running"));
        board.pods_listed_again();
        assert_eq!(board.rows()[0].pods, 0);
        assert_eq!(board.counts(), PodCounts::default());
        board.nodes_listed_again();
        assert!(board.rows().is_empty());
    }
}
