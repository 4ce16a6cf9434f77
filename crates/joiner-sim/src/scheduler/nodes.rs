//! Nodes as the scheduler sees them: labels and taints as they are, and room as it is left by the pods that are there or on their way.
//!
//! A row stays when its node goes: pods may name a node that is not there (yet). Rows are found by name; their place in the order in
//! which nodes are looked at comes from [`Order`].

use hashbrown::HashMap;
use joiner_core::model::resources::{add_into, sub_into};
use joiner_core::model::{FixedState, KeyId, Names, Port, ResVec, Taint, fixed_state};
use joiner_state::parts;
use k8s_openapi::api::core::v1::Node;
use serde::Deserialize;
use serde_json::Value;

use super::terms::{Labels, labels, value_of};
use crate::object::Fields;

/// A row of the table of nodes.
pub(crate) type NodeId = u32;
/// A row of the table of pods.
pub(crate) type PodId = u32;

/// The value of a node that lacks a label.
pub(crate) const MISSING: u32 = u32::MAX;

const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
const REGION: [&str; 2] = ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"];

/// A node.
#[derive(Debug, Default)]
pub(crate) struct NodeRow {
    pub name: Box<str>,
    /// The object is there.
    pub present: bool,
    /// Grows with every change of labels, taints or `unschedulable`.
    pub version: u32,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub allocatable: ResVec,
    /// What is left in each lane.
    pub room: ResVec,
    /// CPU and memory as scores count them.
    pub scored: [i64; 2],
    pub pods: Vec<PodId>,
    /// Host ports in use, one entry per pod and port.
    pub ports: Vec<Port>,
    /// Images that are there, with their sizes as the node says.
    images: Vec<(Box<str>, i64)>,
    /// Pods that preempted others here and wait for them to go.
    pub nominated: Vec<PodId>,
    zone: Box<str>,
}

/// A topology key, with its value on every node.
#[derive(Debug)]
pub(crate) struct Column {
    pub key: KeyId,
    /// By node; [`MISSING`] where the node is not there or lacks the label.
    pub values: Vec<u32>,
}

/// What changed with a node object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeChange {
    pub added: bool,
    pub labels: bool,
    pub taints: bool,
    pub room: bool,
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub rows: Vec<NodeRow>,
    by_name: HashMap<Box<str>, NodeId, FixedState>,
    pub columns: Vec<Column>,
    /// Grows whenever a node comes, goes, or changes labels or taints.
    pub epoch: u64,
    /// Per image its size, as the first node that had it says, and on how many nodes it is.
    images: HashMap<Box<str>, (i64, i64), FixedState>,
    order: Order,
    listed: Vec<NodeId>,
    listed_at: Option<u64>,
}

impl Default for Nodes {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            by_name: HashMap::with_hasher(fixed_state()),
            columns: Vec::new(),
            epoch: 1,
            images: HashMap::with_hasher(fixed_state()),
            order: Order::default(),
            listed: Vec::new(),
            listed_at: None,
        }
    }
}

impl Nodes {
    /// The row of a name, made on first use.
    pub(crate) fn row(&mut self, name: &str) -> NodeId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.rows.len() as NodeId;
        self.rows.push(NodeRow { name: name.into(), ..NodeRow::default() });
        for column in &mut self.columns {
            column.values.push(MISSING);
        }
        self.by_name.insert(name.into(), id);
        id
    }

    /// The row of a name that was seen.
    pub(crate) fn known(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The column of a topology key, made on first use.
    pub(crate) fn column(&mut self, key: KeyId) -> usize {
        if let Some(at) = self.columns.iter().position(|column| column.key == key) {
            return at;
        }
        let values = self.rows.iter().map(|row| value_in(row, key)).collect();
        self.columns.push(Column { key, values });
        self.columns.len() - 1
    }

    /// Takes in a node object.
    pub(crate) fn update(&mut self, names: &mut Names, object: &Value) -> Option<(NodeId, NodeChange)> {
        // An object nobody can read is one the server would not have let in.
        let node = Node::deserialize(object).ok()?;
        let taints = parts::taints(&node).ok()?;
        let mut allocatable = ResVec::new();
        for (resource, amount) in parts::allocatable(&node).ok()? {
            let lane = names.lane(&resource);
            if allocatable.len() <= lane {
                allocatable.resize(lane + 1, 0);
            }
            allocatable[lane] = amount;
        }
        let labels = labels(names, object.entries(&["metadata", "labels"]));
        let unschedulable = object.at(&["spec", "unschedulable"]) == true;
        let id = self.row(object.name());
        let row = &mut self.rows[id as usize];
        let change = NodeChange {
            added: !row.present,
            labels: row.labels != labels,
            taints: row.taints != taints || row.unschedulable != unschedulable,
            room: row.allocatable != allocatable,
        };
        let old_zone = std::mem::replace(&mut row.zone, zone(object));
        if change.added {
            self.order.add(&row.zone, id);
        } else if old_zone != row.zone {
            self.order.remove(&old_zone, id);
            self.order.add(&row.zone, id);
        }
        if change.room {
            add_into(&mut row.room, &allocatable);
            let old = std::mem::replace(&mut row.allocatable, allocatable);
            sub_into(&mut row.room, &old);
        }
        row.present = true;
        row.labels = labels;
        row.taints = taints;
        row.unschedulable = unschedulable;
        if change.added || change.labels || change.taints {
            row.version += 1;
            self.epoch += 1;
            for column in &mut self.columns {
                column.values[id as usize] = value_in(row, column.key);
            }
        }
        self.set_images(id, images(object));
        Some((id, change))
    }

    /// Takes a node out.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(id) = self.known(name) else { return };
        self.set_images(id, Vec::new());
        let row = &mut self.rows[id as usize];
        if !row.present {
            return;
        }
        row.present = false;
        row.version += 1;
        sub_into(&mut row.room, &row.allocatable);
        row.allocatable = ResVec::new();
        row.labels.clear();
        row.taints.clear();
        let zone = std::mem::take(&mut row.zone);
        self.order.remove(&zone, id);
        self.epoch += 1;
        for column in &mut self.columns {
            column.values[id as usize] = MISSING;
        }
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.order.zones.iter().map(|(_, nodes)| nodes.len()).sum()
    }

    /// Puts the nodes into the order in which they are looked at.
    pub(crate) fn sort(&mut self) {
        if self.listed_at != Some(self.epoch) {
            self.listed = self.order.list();
            self.listed_at = Some(self.epoch);
        }
    }

    /// The nodes in the order of the last [`Nodes::sort`].
    pub(crate) fn list(&self) -> &[NodeId] {
        &self.listed
    }

    /// The size of an image and the share of nodes that have it, if the node does.
    pub(crate) fn image_on(&self, node: NodeId, image: &str) -> Option<(i64, i64)> {
        let row = &self.rows[node as usize];
        row.images.binary_search_by(|(name, _)| (**name).cmp(image)).ok()?;
        self.images.get(image).copied()
    }

    /// Whether a node has any image.
    pub(crate) fn has_images(&self, node: NodeId) -> bool {
        !self.rows[node as usize].images.is_empty()
    }

    fn set_images(&mut self, id: NodeId, images: Vec<(Box<str>, i64)>) {
        let row = &mut self.rows[id as usize];
        if row.images == images {
            return;
        }
        for (image, _) in std::mem::replace(&mut row.images, images) {
            if let Some((_, count)) = self.images.get_mut(&image) {
                *count -= 1;
                if *count == 0 {
                    self.images.remove(&image);
                }
            }
        }
        for (image, size) in &row.images {
            self.images.entry(image.clone()).or_insert((*size, 0)).1 += 1;
        }
    }
}

fn value_in(row: &NodeRow, key: KeyId) -> u32 {
    if row.present { value_of(&row.labels, key).map_or(MISSING, |value| value.0) } else { MISSING }
}

fn zone(object: &Value) -> Box<str> {
    let first = |keys: [&str; 2]| keys.iter().find_map(|key| object.label(key)).unwrap_or_default();
    let (region, zone) = (first(REGION), first(ZONE));
    if region.is_empty() && zone.is_empty() { "".into() } else { format!("{region}\0{zone}").into() }
}

fn images(object: &Value) -> Vec<(Box<str>, i64)> {
    let mut out: Vec<(Box<str>, i64)> = Vec::new();
    for image in object.items(&["status", "images"]) {
        let size = image.number(&["sizeBytes"]).unwrap_or(0);
        for name in image.items(&["names"]).iter().filter_map(Value::as_str) {
            out.push((name.into(), size));
        }
    }
    out.sort();
    out.dedup_by(|a, b| a.0 == b.0);
    out
}

/// The order of nodes: zones take turns, in the order in which they appeared; within a zone the older node comes first.
#[derive(Debug, Default)]
struct Order {
    zones: Vec<(Box<str>, Vec<NodeId>)>,
}

impl Order {
    fn add(&mut self, zone: &str, node: NodeId) {
        match self.zones.iter_mut().find(|(name, _)| &**name == zone) {
            Some((_, nodes)) => nodes.push(node),
            None => self.zones.push((zone.into(), vec![node])),
        }
    }

    fn remove(&mut self, zone: &str, node: NodeId) {
        if let Some(at) = self.zones.iter().position(|(name, _)| &**name == zone) {
            self.zones[at].1.retain(|other| *other != node);
            if self.zones[at].1.is_empty() {
                self.zones.remove(at);
            }
        }
    }

    fn list(&self) -> Vec<NodeId> {
        let longest = self.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
        (0..longest)
            .flat_map(|turn| self.zones.iter().filter_map(move |(_, nodes)| nodes.get(turn).copied()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn zones_take_turns() {
        let (mut nodes, mut names) = (Nodes::default(), Names::default());
        for (name, zone) in [("a", "z1"), ("b", "z1"), ("c", "z2"), ("d", "z1")] {
            let labels = json!({"topology.kubernetes.io/zone": zone});
            nodes.update(&mut names, &json!({"metadata": {"name": name, "labels": labels}}));
        }
        let shown = |nodes: &mut Nodes| {
            nodes.sort();
            nodes.list().iter().map(|id| nodes.rows[*id as usize].name.to_string()).collect::<String>()
        };
        assert_eq!(shown(&mut nodes), "acbd");
        nodes.remove("a");
        assert_eq!(shown(&mut nodes), "bcd");
        nodes.update(&mut names, &json!({"metadata": {"name": "a"}}));
        assert_eq!(shown(&mut nodes), "bcad");
    }

    #[test]
    fn an_image_is_as_large_as_the_first_node_says() {
        let (mut nodes, mut names) = (Nodes::default(), Names::default());
        let node = |name: &str, size: i64| {
            let images = json!([{"names": ["x:1", "x:2"], "sizeBytes": size}]);
            json!({"metadata": {"name": name}, "status": {"images": images}})
        };
        nodes.update(&mut names, &node("a", 5));
        nodes.update(&mut names, &node("b", 7));
        assert_eq!((nodes.image_on(1, "x:1"), nodes.image_on(1, "x:3")), (Some((5, 2)), None));
        nodes.remove("a");
        assert_eq!((nodes.image_on(0, "x:1"), nodes.image_on(1, "x:1")), (None, Some((5, 1))));
    }

    #[test]
    fn room_follows_what_is_allocatable() {
        let (mut nodes, mut names) = (Nodes::default(), Names::default());
        let node = |cpu: &str| json!({"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": cpu}}});
        let (id, change) = nodes.update(&mut names, &node("2")).expect("a node");
        assert!(change.added && change.room);
        nodes.rows[id as usize].room[0] -= 500;
        let (_, change) = nodes.update(&mut names, &node("3")).expect("a node");
        assert_eq!(change, NodeChange { room: true, ..NodeChange::default() });
        assert_eq!(nodes.rows[id as usize].room[0], 2500);
    }
}
