//! Lowering: everything that needs the whole cluster, done once per distinct thing.
//!
//! The order matters. Lanes come first, because amounts are vectors over lanes; taints of pools and nodes before pods, because the last
//! step of relaxation exists only if some taint is a preference; pods before nodes, because nodes keep only the labels that something
//! asks about.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use joiner_api::instance_type::InstanceType;
use joiner_api::names::{HOSTNAME_LABEL, WELL_KNOWN_LABELS};
use joiner_core::model::intern::Interner;
use joiner_core::model::{
    CatalogueIdx, ClassIdx, FixedState, IdentityIdx, KeyId, Operator, ReqId, Requirement, ResVec, Snapshot,
    fixed_state,
};

use crate::buffers::Buffer;
use crate::bytes::ByteTable;
use crate::cluster::{Cluster, PodRecord, Standing};
use crate::default_spread::Deduced;
use crate::digest::{Digest, Expression, Term};
use crate::requests::Amounts;
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

/// The work in progress.
pub(crate) struct Lowering<'c> {
    pub cluster: &'c Cluster,
    pub snapshot: Snapshot,
    pub notes: Vec<String>,
    /// Keys that something asks of nodes.
    pub asked: BTreeSet<KeyId>,
    /// Some requirement, not only a topology, is about the hostname.
    pub hostname_required: bool,
    asked_sets: BTreeSet<ReqId>,
    pub pool_order: Vec<&'c str>,
    pub pool_index: BTreeMap<&'c str, usize>,
    /// What each catalogue was lowered from; beyond those given, what single pools see.
    pub catalogue_types: Vec<std::borrow::Cow<'c, [InstanceType]>>,
    /// By place in the order of pools; `None` if no types are known.
    pub pool_catalogues: Vec<Option<CatalogueIdx>>,
    /// CSI drivers that some node or type limits.
    pub limited_drivers: BTreeSet<&'c str>,
    pub volume_ids: ByteTable,
    namespace_ids: ByteTable,
    /// Known namespaces with their labels.
    pub namespaces: BTreeMap<&'c str, BTreeMap<&'c str, &'c str>>,
    /// Label keys that some selector names.
    pub selected_keys: BTreeSet<&'c str>,
    /// Labels cut down to those keys.
    pub reduced: ByteTable,
    reduced_of: Vec<Option<u32>>,
    reduced_sets: Vec<Option<ReqId>>,
    /// By spec.
    requests: Vec<Option<ResVec>>,
    pub reaches: Interner<Reach>,
    reach_of: Vec<Option<u32>>,
    /// Selectors of default spread constraints.
    pub default_selectors: Deduced,
    /// By spec, labels, reach of volumes and default selector.
    pub classes: HashMap<ClassKey, ClassIdx, FixedState>,
}

impl Cluster {
    /// Lowers everything taken in to a snapshot.
    pub fn finish(mut self) -> Lowered {
        let buffers = self.resolve_buffers();
        self.expand_workloads();
        let virtual_rows = self.make_virtual_pods(&buffers);
        let pods = std::mem::take(&mut self.pods);
        self.note_idle();
        self.note_paper_keys(&pods);
        let notes = std::mem::take(&mut self.notes);
        let mut lowering = Lowering::new(&self, notes);
        lowering.declare_well_known();
        lowering.make_lanes(&pods);
        lowering.order_pools();
        lowering.lower_catalogues();
        lowering.lower_pools();
        let mut places = lowering.settle_places();
        lowering.use_up_commitments(&mut places);
        lowering.keep_static_pools(&mut places, &pods);
        lowering.find_preferred_taints(&places);
        lowering.find_limited_drivers();
        lowering.find_namespaces(&pods);
        lowering.find_selected_keys(&pods);
        lowering.deduce_default_spread(&pods);
        lowering.lower_daemons();
        let owners = lowering.lower_bound_anti_affinity(&pods);
        lowering.lower_pending(&pods);
        let buffers = lowering.lower_buffers(buffers, &virtual_rows, &pods);
        lowering.lower_nodes(places, &pods, &owners);
        let (mut snapshot, notes) = (lowering.snapshot, lowering.notes);
        // Pending pods were pushed in the order of their rows; their UIDs move over instead of being copied.
        let pending = pods.into_iter().filter(|pod| pod.standing == Standing::Pending);
        for (pod, record) in snapshot.pods.iter_mut().zip(pending) {
            pod.uid = record.uid;
        }
        Lowered { snapshot: snapshot.finish(), notes, buffers }
    }
}

impl<'c> Lowering<'c> {
    fn new(cluster: &'c Cluster, notes: Vec<String>) -> Self {
        let mut reaches = Interner::default();
        reaches.intern(Reach::default());
        Self {
            cluster,
            snapshot: Snapshot::default(),
            notes,
            asked: BTreeSet::new(),
            hostname_required: false,
            asked_sets: BTreeSet::new(),
            pool_order: Vec::new(),
            pool_index: BTreeMap::new(),
            catalogue_types: Vec::new(),
            pool_catalogues: Vec::new(),
            limited_drivers: BTreeSet::new(),
            volume_ids: ByteTable::default(),
            namespace_ids: ByteTable::default(),
            namespaces: BTreeMap::new(),
            selected_keys: BTreeSet::new(),
            reduced: ByteTable::default(),
            reduced_of: vec![None; cluster.label_sets.len()],
            reduced_sets: Vec::new(),
            requests: vec![None; cluster.specs.len()],
            reaches,
            reach_of: vec![None; cluster.claim_lists.len()],
            default_selectors: Deduced::default(),
            classes: HashMap::with_hasher(fixed_state()),
        }
    }

    fn declare_well_known(&mut self) {
        let vocabulary = &mut self.snapshot.vocabulary;
        let extra = self.cluster.well_known.iter().map(String::as_str);
        for key in WELL_KNOWN_LABELS.into_iter().chain(extra) {
            let key = vocabulary.names.key(key);
            vocabulary.add_well_known(key);
        }
        self.snapshot.hostname = Some(vocabulary.names.key(HOSTNAME_LABEL));
    }

    /// A lane for each resource that a pod, a daemon or a limit names.
    fn make_lanes(&mut self, pods: &[PodRecord]) {
        let mut used = vec![false; self.cluster.specs.len()];
        for pod in pods.iter().filter(|pod| pod.standing != Standing::Ignored) {
            used[pod.spec as usize] = true;
        }
        let mut lanes: BTreeSet<Box<str>> = BTreeSet::new();
        for (spec, _) in self.cluster.specs.iter().zip(used).filter(|(_, used)| *used) {
            lanes.extend(spec.requests.keys().cloned());
        }
        for daemon in self.cluster.daemons.values() {
            lanes.extend(daemon.pod.requests.keys().cloned());
        }
        self.limit_lanes(&mut lanes);
        for lane in lanes {
            self.snapshot.vocabulary.names.lane(&lane);
        }
    }

    fn find_limited_drivers(&mut self) {
        let nodes = self.cluster.volume_limits.values().flatten();
        let nodes = nodes.filter(|(_, limit)| limit.is_some()).map(|(driver, _)| &**driver);
        let types = self.cluster.catalogues.iter().flat_map(|c| &c.types);
        let types = types.flat_map(|t| t.volume_limits.keys().map(String::as_str));
        self.limited_drivers = nodes.chain(types).collect();
    }

    fn find_namespaces(&mut self, pods: &[PodRecord]) {
        let mut seen = vec![false; self.cluster.specs.len()];
        for pod in pods {
            seen[pod.spec as usize] = true;
        }
        let lived_in =
            self.cluster.specs.iter().zip(seen).filter(|(_, seen)| *seen).map(|(spec, _)| &*spec.namespace);
        for name in self.cluster.namespaces.keys().map(String::as_str).chain(lived_in) {
            self.namespaces.entry(name).or_insert_with(|| {
                let labels = self.cluster.namespaces.get(name).into_iter().flatten();
                let mut labels: BTreeMap<&str, &str> =
                    labels.map(|(k, v)| (k.as_str(), v.as_str())).collect();
                labels.insert("kubernetes.io/metadata.name", name);
                labels
            });
        }
        for name in self.namespaces.keys() {
            self.namespace_ids.intern(name.as_bytes());
        }
    }

    /// The id of a namespace.
    pub(crate) fn namespace(&mut self, name: &str) -> u32 {
        self.namespace_ids.intern(name.as_bytes()).0
    }

    /// Amounts as a vector over lanes; resources without a lane are left out.
    pub(crate) fn lanes(&self, amounts: &Amounts) -> ResVec {
        let names = &self.snapshot.vocabulary.names;
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
        if self.requests[at].is_none() {
            self.requests[at] = Some(self.lanes(&self.cluster.specs[at].requests));
        }
        self.requests[at].get_or_insert_default()
    }

    /// Remembers the keys a set of requirements asks of nodes.
    pub(crate) fn ask_about(&mut self, set: ReqId) {
        if self.asked_sets.insert(set) {
            let keys = self.snapshot.vocabulary.set_items(set).map(|(key, _)| key);
            for key in keys {
                self.hostname_required |= self.snapshot.hostname == Some(key);
                self.asked.insert(key);
            }
        }
    }

    /// An expression as the core has it; an operator nobody knows allows nothing.
    pub(crate) fn expression(&mut self, expression: &Expression) -> (KeyId, Requirement) {
        let names = &mut self.snapshot.vocabulary.names;
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
            let names = &mut self.snapshot.vocabulary.names;
            let key = names.key(key);
            list.push((key, Requirement::is(names.value(key, value))));
        }
        for expression in required.into_iter().chain(preferred).flat_map(|term| &term.expressions) {
            list.push(self.expression(expression));
        }
        self.snapshot.vocabulary.set(list)
    }

    /// Labels cut down to keys that some selector names.
    pub(crate) fn reduce(&mut self, labels: u32) -> u32 {
        if let Some(known) = self.reduced_of[labels as usize] {
            return known;
        }
        let mut kept = Vec::new();
        if !self.selected_keys.is_empty() {
            for (key, value) in crate::bytes::Pairs(self.cluster.label_sets.get(labels)) {
                if self.selected_keys.contains(key) {
                    crate::bytes::put_text(&mut kept, key);
                    crate::bytes::put_text(&mut kept, value);
                }
            }
        }
        let (id, new) = self.reduced.intern(&kept);
        if new {
            self.reduced_sets.push(None);
        }
        self.reduced_of[labels as usize] = Some(id);
        id
    }

    /// What selectors see of pods with a spec and cut-down labels.
    pub(crate) fn identity(&mut self, spec: u32, reduced: u32) -> IdentityIdx {
        let labels = match self.reduced_sets[reduced as usize] {
            Some(set) => set,
            None => {
                let vocabulary = &mut self.snapshot.vocabulary;
                let mut list = Vec::new();
                for (key, value) in crate::bytes::Pairs(self.reduced.get(reduced)) {
                    let key = vocabulary.names.key(key);
                    list.push((key, Requirement::is(vocabulary.names.value(key, value))));
                }
                let set = vocabulary.set(list);
                self.reduced_sets[reduced as usize] = Some(set);
                set
            }
        };
        let cluster = self.cluster;
        let namespace = self.namespace(&cluster.specs[spec as usize].namespace);
        IdentityIdx(self.snapshot.identities.intern(joiner_core::model::Identity { namespace, labels }))
    }

    /// The id of what a pod's claims mean for it.
    pub(crate) fn reach_id(&mut self, claims: u32, row: u32) -> u32 {
        if claims == crate::cluster::NONE {
            return 0;
        }
        if let Some(known) = self.reach_of[claims as usize] {
            return known;
        }
        let name = self.cluster.pod_names.text(row);
        let pod = name.split_once('/').map_or(name, |(_, pod)| pod);
        let reach = self.reach(claims, pod);
        let id = self.reaches.intern(reach);
        if !self.cluster.claim_lists[claims as usize].per_pod() {
            self.reach_of[claims as usize] = Some(id);
        }
        id
    }
}
