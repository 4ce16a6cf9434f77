//! Lowering: everything that needs the whole cluster, done once per distinct thing.
//!
//! The order matters. Lanes come first, because amounts are vectors over lanes; taints of pools and nodes before pods, because the last
//! step of relaxation exists only if some taint is a preference; pods before nodes, because nodes keep only the labels that something
//! asks about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use joiner_api::instance_type::InstanceType;
use joiner_api::names::{HOSTNAME_LABEL, WELL_KNOWN_LABELS};
use joiner_core::model::intern::Interner;
use joiner_core::model::{
    CatalogueIdx, FixedState, IdentityIdx, KeyId, OfferingIdx, Operator, PodClass, ReqId, Requirement,
    ResVec, Snapshot,
};

use crate::buffers::Buffer;
use crate::bytes::ByteTable;
use crate::cluster::{Cluster, Standing};
use crate::default_spread::Deduced;
use crate::digest::{Digest, Expression, Term};
use crate::pods::Pending;
use crate::requests::Amounts;
use crate::topology::{keys_named, selected_keys};
use crate::volumes::Reach;

/// A cluster in the core's terms.
#[derive(Debug)]
pub struct Lowered {
    /// What decisions are made on.
    pub snapshot: Snapshot,
    /// What was odd about the input but did not stop anything.
    pub notes: Vec<String>,
    /// Buffers with their virtual pods, by name.
    pub buffers: Vec<Buffer>,
}

/// What pods of one class share.
pub(crate) type ClassKey = (u32, u32, u32, Option<ReqId>);

/// What lowering has worked out beyond single nodes and pods. It is kept from one snapshot to the next; what it holds too much of (values,
/// sets, classes nobody has any more) changes no answer.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// All but nodes, classes and pods.
    pub snapshot: Snapshot,
    pub notes: Vec<String>,
    /// Keys that something asks of nodes.
    pub asked: BTreeSet<KeyId>,
    /// Some requirement, not only a topology, is about the hostname.
    pub hostname_required: bool,
    asked_sets: BTreeSet<ReqId>,
    pub pool_order: Vec<Arc<str>>,
    pub pool_index: BTreeMap<Arc<str>, usize>,
    /// What each catalogue was lowered from; beyond those given, what single pools see.
    pub catalogue_types: Vec<Arc<[InstanceType]>>,
    /// By catalogue and type.
    pub type_details: Vec<Vec<TypeDetails>>,
    /// By position in the order of pools; `None` if no types are known.
    pub pool_catalogues: Vec<Option<CatalogueIdx>>,
    /// CSI drivers that some node or type limits.
    pub limited_drivers: BTreeSet<Box<str>>,
    pub volume_ids: ByteTable,
    namespace_ids: ByteTable,
    /// Labels cut down to what selectors name, by the labels' text.
    pub reduced: ByteTable,
    reduced_sets: Vec<Option<ReqId>>,
    /// For pods that are on nodes: keys are only ever added.
    pub bound_labels: Reducer,
    /// For pods that wait: exactly the keys that selectors in force name, so that classes are no finer than they must be.
    pub pending_labels: Reducer,
    /// By spec.
    requests: Vec<Option<ResVec>>,
    pub reaches: Interner<Reach>,
    /// By list of claims.
    pub reach_of: Vec<Option<u32>>,
    /// Selectors of default spread constraints.
    pub default_selectors: Deduced,
    /// By spec, labels, reach of volumes and default selector.
    pub classes: HashMap<ClassKey, Arc<PodClass>, FixedState>,
}

/// Cuts labels down to the keys that selectors name.
#[derive(Debug, Default)]
pub(crate) struct Reducer {
    pub keys: BTreeSet<Box<str>>,
    /// By label set.
    known: Vec<Option<u32>>,
}

impl Reducer {
    /// For so many label sets.
    pub(crate) fn new(keys: BTreeSet<Box<str>>, label_sets: usize) -> Self {
        Self { keys, known: vec![None; label_sets] }
    }
}

/// What questions about an instance type need beside the catalogue.
#[derive(Debug, Default)]
pub(crate) struct TypeDetails {
    /// Its offerings, cheapest first.
    pub offerings: Vec<OfferingIdx>,
    /// The least that pods can use of it, whichever offering it is.
    pub least: ResVec,
}

/// The work in progress.
pub(crate) struct Lowering<'c> {
    pub cluster: &'c Cluster,
    pub frame: Frame,
}

impl Cluster {
    /// Lowers everything taken in to a snapshot, once and with everything that was odd.
    pub fn finish(mut self) -> Lowered {
        self.lower_once()
    }

    /// Makes pods of workloads and buffers, which can be done once, and lowers everything.
    pub(crate) fn lower_once(&mut self) -> Lowered {
        let buffers = self.resolve_buffers();
        self.expand_workloads();
        let virtual_rows = self.make_virtual_pods(&buffers);
        self.note_idle();
        self.note_paper_keys();
        let notes = std::mem::take(&mut self.notes);
        let cluster = &*self;
        let mut lowering = Lowering::new(cluster, Frame { notes, ..Frame::default() });
        lowering.lower_pools_and_types();
        let mut resolved = lowering.resolve_nodes(|_| true);
        lowering.use_up_commitments(&mut resolved);
        lowering.keep_static_pools(&mut resolved);
        lowering.find_preferred_taints(&resolved);
        lowering.lower_what_pods_need();
        lowering.deduce_default_spread();
        let mut pending = Pending::default();
        let rows = cluster.pods.iter().filter(|(_, pod)| pod.counted().0 == Standing::Pending);
        rows.for_each(|(row, pod)| lowering.lower_pending(row, pod, &mut pending));
        let buffers = lowering.lower_buffers(buffers, &virtual_rows, &mut pending);
        let nodes = lowering.lower_nodes(resolved);
        let Frame { snapshot, notes, .. } = lowering.frame;
        Lowered { snapshot: snapshot.with(nodes, pending.classes, pending.pods), notes, buffers }
    }
}

impl<'c> Lowering<'c> {
    pub(crate) fn new(cluster: &'c Cluster, mut frame: Frame) -> Self {
        if frame.reaches.is_empty() {
            frame.reaches.intern(Reach::default());
        }
        frame.requests.resize(cluster.specs.len(), None);
        frame.reach_of.resize(cluster.claim_lists.len(), None);
        for reducer in [&mut frame.bound_labels, &mut frame.pending_labels] {
            reducer.known.resize(cluster.label_sets.len(), None);
        }
        Self { cluster, frame }
    }

    /// What follows from pools, types and limits; the beginning of everything.
    pub(crate) fn lower_pools_and_types(&mut self) {
        self.declare_well_known();
        self.make_lanes();
        self.order_pools();
        self.lower_catalogues();
        self.lower_pools();
    }

    /// What pods are compared by.
    pub(crate) fn lower_what_pods_need(&mut self) {
        self.frame.limited_drivers = limited_drivers(self.cluster);
        let in_force = selected_keys(self.cluster);
        // Keys that pods on nodes name when they are to be placed: they are named again by every pod of their kind.
        let mut bound = in_force.clone();
        bound.extend(keys_named(self.cluster, |usage| usage.counted > 0));
        let label_sets = self.cluster.label_sets.len();
        self.frame.bound_labels = Reducer::new(bound, label_sets);
        self.frame.pending_labels = Reducer::new(in_force, label_sets);
        self.ask_for_known_pods();
        self.lower_daemons();
    }

    fn declare_well_known(&mut self) {
        let vocabulary = &mut self.frame.snapshot.vocabulary;
        let extra = self.cluster.well_known.iter().map(String::as_str);
        for key in WELL_KNOWN_LABELS.into_iter().chain(extra) {
            let key = vocabulary.names.key(key);
            vocabulary.add_well_known(key);
        }
        self.frame.snapshot.hostname = Some(vocabulary.names.key(HOSTNAME_LABEL));
    }

    fn make_lanes(&mut self) {
        for lane in needed_lanes(self.cluster) {
            self.frame.snapshot.vocabulary.names.lane(&lane);
        }
    }

    /// Selectors name these keys too.
    pub(crate) fn select_also(&mut self, keys: BTreeSet<Box<str>>) {
        let label_sets = self.cluster.label_sets.len();
        for reducer in [&mut self.frame.bound_labels, &mut self.frame.pending_labels] {
            let mut all = std::mem::take(&mut reducer.keys);
            all.extend(keys.iter().cloned());
            *reducer = Reducer::new(all, label_sets);
        }
    }

    /// Keys that pods on nodes ask of nodes: most pods that come are of kinds that are there.
    pub(crate) fn ask_for_known_pods(&mut self) {
        let cluster = self.cluster;
        for (spec, usage) in cluster.specs.iter().zip(&cluster.usage) {
            if usage.seen == 0 {
                continue;
            }
            let terms = spec.required.iter().flatten().chain(&spec.preferred);
            let expressions = terms.flat_map(|term| &term.expressions).map(|expression| &expression.key);
            let selected = spec.node_selector.iter().map(|(key, _)| key);
            let topology = spec.spread.iter().map(|spread| &spread.key);
            let affinity = spec.affinity.iter().map(|term| &term.key);
            for key in selected.chain(expressions).chain(topology).chain(affinity) {
                let key = self.frame.snapshot.vocabulary.names.key(key);
                // One label set per host is dear: only for those who are about to ask.
                if self.frame.snapshot.hostname != Some(key) {
                    self.frame.asked.insert(key);
                }
            }
            for term in &spec.anti_affinity {
                let key = self.frame.snapshot.vocabulary.names.key(&term.key);
                self.frame.asked.insert(key);
            }
        }
    }

    /// The id of a namespace.
    pub(crate) fn namespace(&mut self, name: &str) -> u32 {
        self.frame.namespace_ids.intern(name.as_bytes()).0
    }

    /// Amounts as a vector over lanes; resources without a lane are left out.
    pub(crate) fn lanes(&self, amounts: &Amounts) -> ResVec {
        let names = &self.frame.snapshot.vocabulary.names;
        let mut out = ResVec::from_elem(0, names.lane_count());
        for (name, amount) in amounts {
            if let Some(lane) = names.known_lane(name) {
                out[lane] = *amount;
            }
        }
        out
    }

    /// What pods with a spec ask for.
    pub(crate) fn requests_of(&mut self, spec: u32) -> &ResVec {
        let at = spec as usize;
        if self.frame.requests[at].is_none() {
            self.frame.requests[at] = Some(self.lanes(&self.cluster.specs[at].requests));
        }
        self.frame.requests[at].get_or_insert_default()
    }

    /// Remembers the keys a set of requirements asks of nodes.
    pub(crate) fn ask_about(&mut self, set: ReqId) {
        if self.frame.asked_sets.insert(set) {
            let keys = self.frame.snapshot.vocabulary.set_items(set).map(|(key, _)| key);
            for key in keys {
                self.frame.hostname_required |= self.frame.snapshot.hostname == Some(key);
                self.frame.asked.insert(key);
            }
        }
    }

    /// An expression as the core has it; an operator nobody knows allows nothing.
    pub(crate) fn expression(&mut self, expression: &Expression) -> (KeyId, Requirement) {
        let names = &mut self.frame.snapshot.vocabulary.names;
        let key = names.key(&expression.key);
        let values: Vec<&str> = expression.values.iter().map(|value| &**value).collect();
        let made = match Operator::parse(&expression.operator) {
            Some(operator) => Requirement::from_expression(names, key, operator, &values),
            None => Requirement::nothing(),
        };
        (key, made)
    }

    /// Node selector ∧ required term ∧ preferred term.
    pub(crate) fn node_ask(
        &mut self,
        pod: &Digest,
        required: Option<&Term>,
        preferred: Option<&Term>,
    ) -> ReqId {
        let mut list = Vec::new();
        for (key, value) in &pod.node_selector {
            let names = &mut self.frame.snapshot.vocabulary.names;
            let key = names.key(key);
            list.push((key, Requirement::is(names.value(key, value))));
        }
        for expression in required.into_iter().chain(preferred).flat_map(|term| &term.expressions) {
            list.push(self.expression(expression));
        }
        self.frame.snapshot.vocabulary.set(list)
    }

    /// Labels of a pod on a node, cut down to keys that some selector names.
    pub(crate) fn reduce_bound(&mut self, labels: u32) -> u32 {
        let Frame { reduced, bound_labels, reduced_sets, .. } = &mut self.frame;
        reduce(self.cluster, labels, bound_labels, reduced, reduced_sets)
    }

    /// Labels of a pod that waits, cut down to keys that some selector in force names.
    pub(crate) fn reduce(&mut self, labels: u32) -> u32 {
        let Frame { reduced, pending_labels, reduced_sets, .. } = &mut self.frame;
        reduce(self.cluster, labels, pending_labels, reduced, reduced_sets)
    }

    /// What selectors see of pods with a spec and cut-down labels.
    pub(crate) fn identity(&mut self, spec: u32, reduced: u32) -> IdentityIdx {
        let labels = match self.frame.reduced_sets[reduced as usize] {
            Some(set) => set,
            None => {
                let vocabulary = &mut self.frame.snapshot.vocabulary;
                let mut list = Vec::new();
                for (key, value) in crate::bytes::Pairs(self.frame.reduced.get(reduced)) {
                    let key = vocabulary.names.key(key);
                    list.push((key, Requirement::is(vocabulary.names.value(key, value))));
                }
                let set = vocabulary.set(list);
                self.frame.reduced_sets[reduced as usize] = Some(set);
                set
            }
        };
        let cluster = self.cluster;
        let namespace = self.namespace(&cluster.specs[spec as usize].namespace);
        IdentityIdx(self.frame.snapshot.identities.intern(joiner_core::model::Identity { namespace, labels }))
    }

    /// The id of what a pod's claims mean for it.
    pub(crate) fn reach_id(&mut self, claims: u32, row: u32) -> u32 {
        if claims == crate::cluster::NONE {
            return 0;
        }
        if let Some(known) = self.frame.reach_of[claims as usize] {
            return known;
        }
        let name = self.cluster.pods.get(row).map_or("", |pod| &*pod.name);
        let pod = name.split_once('/').map_or(name, |(_, pod)| pod);
        let reach = self.reach(claims, pod);
        let id = self.frame.reaches.intern(reach);
        if !self.cluster.claim_lists[claims as usize].per_pod() {
            self.frame.reach_of[claims as usize] = Some(id);
        }
        id
    }
}

fn reduce(
    cluster: &Cluster,
    labels: u32,
    reducer: &mut Reducer,
    table: &mut ByteTable,
    sets: &mut Vec<Option<ReqId>>,
) -> u32 {
    if let Some(known) = reducer.known[labels as usize] {
        return known;
    }
    let mut kept = Vec::new();
    if !reducer.keys.is_empty() {
        for (key, value) in crate::bytes::Pairs(cluster.label_sets.get(labels)) {
            if reducer.keys.contains(key) {
                crate::bytes::put_text(&mut kept, key);
                crate::bytes::put_text(&mut kept, value);
            }
        }
    }
    let (id, new) = table.intern(&kept);
    if new {
        sets.push(None);
    }
    reducer.known[labels as usize] = Some(id);
    id
}

/// A lane for each resource that a pod, a daemon or a limit names.
pub(crate) fn needed_lanes(cluster: &Cluster) -> BTreeSet<Box<str>> {
    let used = cluster.specs.iter().zip(&cluster.usage).filter(|(_, usage)| usage.counted > 0);
    let mut lanes: BTreeSet<Box<str>> = used.flat_map(|(spec, _)| spec.requests.keys().cloned()).collect();
    for daemon in cluster.daemons.values() {
        lanes.extend(daemon.pod.requests.keys().cloned());
    }
    crate::pools::limit_lanes(cluster, &mut lanes);
    lanes
}

/// CSI drivers that some node or type limits.
pub(crate) fn limited_drivers(cluster: &Cluster) -> BTreeSet<Box<str>> {
    let nodes = cluster.volume_limits.values().flatten();
    let nodes = nodes.filter(|(_, limit)| limit.is_some()).map(|(driver, _)| &**driver);
    let types = cluster.catalogues.iter().flat_map(|catalogue| catalogue.types.iter());
    let types = types.flat_map(|t| t.volume_limits.keys().map(String::as_str));
    nodes.chain(types).map(Into::into).collect()
}
