//! The last snapshot, and how it becomes the next.
//!
//! Most of a cluster stays as it is from one moment to the next. What depends on many objects at once (the [`Frame`]: lanes, types, pools,
//! groups) is lowered again only when pools, types, daemons or storage change; else a node is lowered again when it, its claim or its
//! pods have changed, and pods that wait are numbered anew when one comes or goes. Whichever way a snapshot came about, it is the
//! one that lowering everything afresh would give, up to the numbers behind names (`tests/held.rs` holds it to that).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_core::model::{Node, Snapshot};

use crate::changes::Changes;
use crate::cluster::Cluster;
use crate::lower::{Frame, Lowering, Reducer, limited_drivers, needed_lanes};
use crate::nodes::ResolvedNode;
use crate::pods::Pending;
use crate::topology::selected_keys;

/// Specs, classes or names that nobody has any more, beyond as many that somebody has, before everything is lowered again.
const MOST_LEFT_OVER: usize = 4096;

/// What is kept between snapshots.
#[derive(Debug)]
pub(crate) struct Held {
    frame: Frame,
    lanes: BTreeSet<Box<str>>,
    /// Namespaces with pods, if some selector of namespaces is in use.
    namespaces: Option<BTreeSet<Box<str>>>,
    /// In the order in which nodes are tried.
    nodes: Vec<HeldNode>,
    ranks: BTreeMap<Origin, Rank>,
    with_preferred_taints: usize,
    pending: Pending,
    snapshot: Arc<Snapshot>,
}

/// The object a node of the snapshot comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Claim(String),
    Node(String),
}

/// Not yet initialised, name, origin.
type Rank = (bool, String, Origin);

#[derive(Debug)]
struct HeldNode {
    rank: Rank,
    resolved: ResolvedNode,
    /// Without its pods.
    bare: Node,
    node: Arc<Node>,
}

impl Cluster {
    /// The cluster as it is now. Only what has changed since the last one is lowered.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        if self.changes.is_empty()
            && let Some(held) = &self.held
        {
            return held.snapshot.clone();
        }
        let changes = std::mem::take(&mut self.changes);
        if self.is_overgrown() {
            self.forget_unused();
            self.held = None;
        }
        let kept = self.held.take().filter(|held| held.can_go_on(self, &changes));
        let gone_on = kept.and_then(|held| held.go_on(self, changes));
        let held = gone_on.unwrap_or_else(|| Box::new(Held::new(self)));
        let snapshot = held.snapshot.clone();
        self.held = Some(held);
        snapshot
    }

    /// Whether anything has changed since the last snapshot that could help pods that had no place in it.
    pub fn could_help(&self) -> bool {
        self.held.is_none() || self.changes.could_help()
    }

    fn is_overgrown(&self) -> bool {
        let machines = self.machines.nodes.len() + self.machines.claims.len();
        let in_use = self.usage.iter().filter(|usage| usage.counted > 0).count();
        let most = |live: usize| live.saturating_mul(2).saturating_add(MOST_LEFT_OVER);
        let classes = self
            .held
            .as_ref()
            .is_some_and(|held| held.frame.classes.len() > most(held.pending.classes.len()));
        self.workloads.is_empty()
            && (self.specs.len() > most(in_use.max(self.kept_specs))
                || self.label_sets.len() > most(self.pods.len())
                || self.claim_lists.len() > most(self.pods.len())
                || self.node_names.len() > most(machines.max(self.kept_node_names))
                || classes)
    }
}

impl Held {
    /// Everything from the beginning.
    fn new(cluster: &Cluster) -> Self {
        let mut lowering = Lowering::new(cluster, Frame::default());
        lowering.lower_pools_and_types();
        let claims = cluster.machines.claims.keys();
        let claims =
            claims.filter_map(|name| Some((Origin::Claim(name.clone()), lowering.resolve_claim(name)?)));
        let nodes = cluster.machines.nodes.keys();
        let nodes = nodes.filter_map(|name| Some((Origin::Node(name.clone()), lowering.resolve_node(name)?)));
        let resolved: Vec<(Origin, ResolvedNode)> = claims.chain(nodes).collect();
        let with_preferred_taints =
            resolved.iter().filter(|(_, resolved)| resolved.has_preferred_taints()).count();
        lowering.frame.snapshot.has_preferred_taints =
            with_preferred_taints > 0 || lowering.pools_have_preferred_taints();
        lowering.lower_what_pods_need();
        let pending = lowering.all_pending();
        let asked = lowering.asks_of_nodes();
        let mut ranks = BTreeMap::new();
        let mut nodes = Vec::with_capacity(resolved.len());
        for (origin, resolved) in resolved {
            if let Some((pool, amounts)) = &resolved.counts {
                lowering.use_up(*pool, amounts, 1);
            }
            let node = HeldNode::new(origin, resolved, &mut lowering);
            ranks.insert(node.rank.2.clone(), node.rank.clone());
            nodes.push(node);
        }
        // Volumes of pods on nodes ask about labels, too.
        if lowering.asks_of_nodes() != asked {
            nodes.iter_mut().for_each(|node: &mut HeldNode| node.label(&mut lowering));
        }
        nodes.sort_by(|a, b| a.rank.cmp(&b.rank));
        let mut held = Self {
            frame: lowering.frame,
            lanes: needed_lanes(cluster),
            namespaces: namespaces_in_use(cluster),
            nodes,
            ranks,
            with_preferred_taints,
            pending,
            snapshot: Arc::default(),
        };
        held.renew();
        held
    }

    /// What depends on many objects at once.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Whether nothing has changed that everything depends on.
    fn can_go_on(&self, cluster: &Cluster, changes: &Changes) -> bool {
        !changes.frame
            && (!changes.drivers || self.frame.limited_drivers == limited_drivers(cluster))
            && (!changes.namespaces || self.namespaces.is_none())
            && (!changes.specs
                || self.lanes == needed_lanes(cluster) && self.namespaces == namespaces_in_use(cluster))
    }

    /// The next snapshot; `None` if it turns out that everything has to be lowered again.
    fn go_on(mut self: Box<Self>, cluster: &Cluster, changes: Changes) -> Option<Box<Self>> {
        let mut lowering = Lowering::new(cluster, std::mem::take(&mut self.frame));
        let asked = lowering.asks_of_nodes();
        let mut reload_all = false;
        let mut renumber = changes.pending;
        if changes.specs {
            let in_force = selected_keys(cluster);
            if !in_force.is_subset(&lowering.frame.bound_labels.keys) {
                let mut keys = std::mem::take(&mut lowering.frame.bound_labels.keys);
                keys.extend(in_force.iter().cloned());
                lowering.frame.bound_labels = Reducer::new(keys, cluster.label_sets.len());
                reload_all = true;
            }
            if in_force != lowering.frame.pending_labels.keys {
                lowering.frame.pending_labels = Reducer::new(in_force, cluster.label_sets.len());
                renumber = true;
            }
            lowering.ask_for_known_pods();
        }
        for list in &changes.claims {
            lowering.frame.reach_of[*list as usize] = None;
        }
        if renumber {
            self.pending = lowering.all_pending();
        }
        for name in &changes.nodes {
            let resolved = lowering.resolve_node(name);
            self.put(Origin::Node(name.clone()), resolved, &mut lowering);
        }
        for name in &changes.claims_of_machines {
            let resolved = lowering.resolve_claim(name);
            self.put(Origin::Claim(name.clone()), resolved, &mut lowering);
        }
        let preferred = self.with_preferred_taints > 0 || lowering.pools_have_preferred_taints();
        if preferred != lowering.frame.snapshot.has_preferred_taints {
            return None;
        }
        if reload_all {
            self.nodes.iter_mut().for_each(|node| node.load(&mut lowering));
        } else {
            for id in &changes.loads {
                let name = cluster.node_names.text(*id);
                for at in self.positions(name) {
                    self.nodes[at].load(&mut lowering);
                }
            }
        }
        if lowering.asks_of_nodes() != asked {
            self.nodes.iter_mut().for_each(|node| node.label(&mut lowering));
        }
        self.frame = lowering.frame;
        self.renew();
        Some(self)
    }

    /// Puts in what an object comes to now, or takes it out.
    fn put(&mut self, origin: Origin, resolved: Option<ResolvedNode>, lowering: &mut Lowering) {
        if let Some(rank) = self.ranks.remove(&origin)
            && let Ok(at) = self.nodes.binary_search_by(|node| node.rank.cmp(&rank))
        {
            let old = self.nodes.remove(at);
            self.with_preferred_taints -= usize::from(old.resolved.has_preferred_taints());
            if let Some((pool, amounts)) = &old.resolved.counts {
                lowering.use_up(*pool, amounts, -1);
            }
        }
        let Some(resolved) = resolved else { return };
        self.with_preferred_taints += usize::from(resolved.has_preferred_taints());
        if let Some((pool, amounts)) = &resolved.counts {
            lowering.use_up(*pool, amounts, 1);
        }
        let node = HeldNode::new(origin, resolved, lowering);
        self.ranks.insert(node.rank.2.clone(), node.rank.clone());
        let at = self.nodes.partition_point(|other| other.rank < node.rank);
        self.nodes.insert(at, node);
    }

    /// Where nodes of a name stand.
    fn positions(&self, name: &str) -> Vec<usize> {
        let mut found = Vec::new();
        for starting in [false, true] {
            let wanted = (starting, name);
            let key = |node: &HeldNode| (node.rank.0, node.rank.1.as_str()) < wanted;
            let first = self.nodes.partition_point(key);
            let same =
                self.nodes[first..].iter().take_while(|node| (node.rank.0, node.rank.1.as_str()) == wanted);
            found.extend(first..first + same.count());
        }
        found
    }

    fn renew(&mut self) {
        let nodes = self.nodes.iter().map(|node| node.node.clone()).collect();
        let (classes, pods) = (self.pending.classes.clone(), self.pending.pods.clone());
        self.snapshot = Arc::new(self.frame.snapshot.with(nodes, classes, pods));
    }
}

impl HeldNode {
    fn new(origin: Origin, resolved: ResolvedNode, lowering: &mut Lowering) -> Self {
        let bare = lowering.node(&resolved);
        let rank = (!resolved.initialised, resolved.name.clone(), origin);
        let mut made = Self { rank, resolved, node: Arc::new(bare.clone()), bare };
        made.load(lowering);
        made
    }

    /// Puts the pods on it that are there now.
    fn load(&mut self, lowering: &mut Lowering) {
        let mut node = self.bare.clone();
        if let Some(id) = lowering.cluster.node_names.find(self.resolved.name.as_bytes()) {
            lowering.load(&mut node, id);
        }
        self.node = Arc::new(node);
    }

    /// Gives it the labels that are asked about now.
    fn label(&mut self, lowering: &mut Lowering) {
        let (labels, hostname) = lowering.node_labels(&self.resolved);
        (self.bare.labels, self.bare.hostname) = (labels, hostname);
        let node = Arc::make_mut(&mut self.node);
        (node.labels, node.hostname) = (labels, hostname);
    }
}

impl Lowering<'_> {
    /// How much is asked of nodes: it only ever grows.
    fn asks_of_nodes(&self) -> (usize, bool) {
        (self.frame.asked.len(), self.frame.hostname_required)
    }

    /// All pods that wait for a decision, by name.
    fn all_pending(&mut self) -> Pending {
        let cluster = self.cluster;
        let mut pending = Pending::default();
        for row in cluster.pending.values() {
            if let Some(pod) = cluster.pods.get(*row) {
                self.lower_pending(*row, pod, &mut pending);
            }
        }
        pending
    }
}

/// Namespaces with pods, if some pod's selector of namespaces looks at their labels.
fn namespaces_in_use(cluster: &Cluster) -> Option<BTreeSet<Box<str>>> {
    let used = || cluster.specs.iter().zip(&cluster.usage).filter(|(_, usage)| usage.counted > 0);
    let selects = used().any(|(spec, _)| {
        let lists =
            [&spec.affinity, &spec.anti_affinity, &spec.preferred_affinity, &spec.preferred_anti_affinity];
        lists
            .into_iter()
            .flatten()
            .any(|term| term.namespace_selector.as_ref().is_some_and(|of| !of.is_empty()))
    });
    selects.then(|| used().map(|(spec, _)| spec.namespace.clone()).collect())
}
