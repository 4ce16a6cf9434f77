//! The cluster as objects come and go: each is read once and dropped.
//!
//! Per pod only ids and what tells it from its siblings stay. Other objects are few; of those the fields that decide anything stay.
//! What a change means for the snapshot is noted in [`Changes`] and done when the next one is asked for: an object that came again as it
//! was means nothing, a pod means its node or its class, a pool means that everything is lowered again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_api::instance_type::InstanceType;
use joiner_api::owners::{is_daemon, is_mirror};
use joiner_api::{CostModel, NodeClaim, NodePool};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, PodStatus, PodTemplateSpec,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::buffers::{BufferInput, TemplateInput};
use crate::bytes::ByteTable;
use crate::canon;
use crate::changes::Changes;
use crate::daemons::DaemonDigest;
use crate::default_spread::DefaultSpread;
use crate::digest::{Claims, Digest};
use crate::held::Held;
use crate::machine_table::MachineTable;
use crate::overlays::OverlayInput;
use crate::pod_table::{Intent, PodTable};
use crate::problem::{Finding, Problem};
use crate::volumes::{ClaimObject, ClassObject, VolumeObject, claim_name};
use crate::workloads::Workload;

pub(crate) use crate::pod_table::{NONE, PodRecord, Standing};

/// What the caller decides.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Preferred terms and ScheduleAnyway constraints hold until they are relaxed; otherwise they are not looked at.
    pub respect_preferences: bool,
    /// The most pods, those of workloads included, that are taken in.
    pub max_pods: usize,
    /// An object that comes again is an oddity worth a note, as in files; in watches it is an update.
    pub note_duplicates: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { respect_preferences: true, max_pods: 1_000_000, note_duplicates: true }
    }
}

/// A CSI driver, and how many volumes it attaches if it says so.
pub(crate) type DriverLimit = (Box<str>, Option<u32>);

/// The catalogue of a class, of some pools, or everybody's.
#[derive(Debug)]
pub(crate) struct CatalogueInput {
    pub whose: Whose,
    pub types: Arc<[InstanceType]>,
}

/// Who launches from a catalogue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Whoever has none of their own.
    Everybody,
    /// Pools of a node class, by its group, kind and name.
    Class((String, String, String)),
    /// Pools, by name.
    Pools(BTreeSet<String>),
}

/// What planning is to make of a pod that it would otherwise take as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodIntent<'a> {
    /// As it is: pending pods are planned for, bound ones take room.
    AsSeen,
    /// Pending, but nothing is to be decided for it.
    LeftOut,
    /// Planned for already: takes room on this node, though it is not bound.
    Expected(&'a str),
    /// Will need another node: planned for, and no longer where it is.
    Moving,
}

/// How many pods have a spec.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// That count for anything.
    pub counted: u32,
    pub pending: u32,
    /// On nodes, seen by selectors.
    pub seen: u32,
}

/// Takes objects in and lowers them to snapshots.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) options: Options,
    pub(crate) notes: Vec<String>,
    /// Pods that wait for a scheduling gate to open.
    pub(crate) gated: BTreeSet<String>,
    /// Jobs that are suspended.
    pub(crate) suspended: BTreeSet<String>,
    scratch: Vec<u8>,
    pub(crate) spec_bytes: ByteTable,
    pub(crate) specs: Vec<Digest>,
    pub(crate) label_sets: ByteTable,
    pub(crate) claim_bytes: ByteTable,
    pub(crate) claim_lists: Vec<Claims>,
    pub(crate) pods: PodTable,
    /// By spec.
    pub(crate) usage: Vec<Usage>,
    pub(crate) node_names: ByteTable,
    /// Rows of pods by the id of their node's name.
    pub(crate) on_node: Vec<Vec<u32>>,
    /// Rows of pods that wait for a decision, by name.
    pub(crate) pending: BTreeMap<Arc<str>, u32>,
    /// Rows of pods by the volume claims they name.
    pub(crate) claim_users: BTreeMap<String, Vec<u32>>,
    pub(crate) changes: Changes,
    /// Rows that the last clearing of tables had to keep: finished pods name specs, too.
    pub(crate) kept_specs: usize,
    pub(crate) kept_node_names: usize,
    pub(crate) held: Option<Box<Held>>,
    pub(crate) owners: ByteTable,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) workload_index: BTreeMap<(&'static str, String), usize>,
    pub(crate) workload_pods: usize,
    pub(crate) daemons: BTreeMap<String, DaemonDigest>,
    pub(crate) machines: MachineTable,
    pub(crate) pools: BTreeMap<String, NodePool>,
    pub(crate) overlays: BTreeMap<String, OverlayInput>,
    pub(crate) cost_models: BTreeMap<String, CostModel>,
    pub(crate) buffers: BTreeMap<String, BufferInput>,
    pub(crate) pod_templates: BTreeMap<String, TemplateInput>,
    pub(crate) catalogues: Vec<CatalogueInput>,
    pub(crate) well_known: BTreeSet<String>,
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) priorities: BTreeMap<String, i32>,
    /// Priority classes that say they are the default.
    default_priorities: BTreeMap<String, i32>,
    pub(crate) claims: BTreeMap<String, ClaimObject>,
    pub(crate) volumes: BTreeMap<String, VolumeObject>,
    pub(crate) storage_classes: BTreeMap<String, ClassObject>,
    /// By node: the drivers that run there.
    pub(crate) volume_limits: BTreeMap<String, Vec<DriverLimit>>,
    pub(crate) default_spread: DefaultSpread,
}

impl Cluster {
    /// An empty cluster.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            notes: Vec::new(),
            gated: BTreeSet::new(),
            suspended: BTreeSet::new(),
            scratch: Vec::with_capacity(1024),
            spec_bytes: ByteTable::default(),
            specs: Vec::new(),
            label_sets: ByteTable::default(),
            claim_bytes: ByteTable::default(),
            claim_lists: Vec::new(),
            pods: PodTable::default(),
            usage: Vec::new(),
            node_names: ByteTable::default(),
            on_node: Vec::new(),
            pending: BTreeMap::new(),
            claim_users: BTreeMap::new(),
            changes: Changes::default(),
            kept_specs: 0,
            kept_node_names: 0,
            held: None,
            owners: ByteTable::default(),
            workloads: Vec::new(),
            workload_index: BTreeMap::new(),
            workload_pods: 0,
            daemons: BTreeMap::new(),
            machines: MachineTable::default(),
            pools: BTreeMap::new(),
            overlays: BTreeMap::new(),
            cost_models: BTreeMap::new(),
            buffers: BTreeMap::new(),
            pod_templates: BTreeMap::new(),
            catalogues: Vec::new(),
            well_known: BTreeSet::new(),
            namespaces: BTreeMap::new(),
            priorities: BTreeMap::from([
                ("system-node-critical".to_owned(), 2_000_001_000),
                ("system-cluster-critical".to_owned(), 2_000_000_000),
            ]),
            default_priorities: BTreeMap::new(),
            claims: BTreeMap::new(),
            volumes: BTreeMap::new(),
            storage_classes: BTreeMap::new(),
            volume_limits: BTreeMap::new(),
            default_spread: DefaultSpread::default(),
        }
    }

    /// Takes a pod in. The same namespace and name again replaces the pod, with a note.
    pub fn add_pod(&mut self, pod: &Pod) -> Result<(), Problem> {
        let namespace = namespace_of(&pod.metadata);
        let Some(name) = pod.metadata.name.as_deref().filter(|name| !name.is_empty()) else {
            return Err(nameless("Pod", &pod.metadata));
        };
        let Some(spec) = &pod.spec else {
            return Err(without_spec("Pod", &format!("{namespace}/{name}")));
        };
        if self.pods.len() + self.workload_pods >= self.options.max_pods {
            return Err(self.too_many("Pod", &format!("{namespace}/{name}"), "metadata.name", name));
        }
        let status = pod.status.as_ref();
        let (spec_id, claims) = self
            .intern_spec(namespace, spec, status, &[])
            .map_err(|finding| finding.on("Pod", &format!("{namespace}/{name}"), "spec"))?;
        let labels = self.intern_labels(pod.metadata.labels.as_ref());
        let controller = pod
            .metadata
            .owner_references
            .iter()
            .flatten()
            .find(|owner| owner.controller == Some(true))
            .or_else(|| pod.metadata.owner_references.as_ref()?.first());
        let owner_kind = controller.map_or("", |owner| owner.kind.as_str());
        let owner = match controller {
            Some(owner)
                if matches!(owner_kind, "ReplicaSet" | "Job" | "StatefulSet" | "ReplicationController") =>
            {
                self.intern_owner(namespace, owner_kind, &owner.name)
            }
            _ => NONE,
        };
        let controlled = controller.is_some_and(|owner| {
            owner.controller == Some(true)
                && matches!(
                    (owner.api_version.as_str(), owner_kind),
                    ("apps/v1", "ReplicaSet" | "StatefulSet") | ("v1", "ReplicationController")
                )
        });
        let node_name = spec.node_name.as_deref().filter(|node| !node.is_empty());
        let full_name = format!("{namespace}/{name}");
        let record = PodRecord {
            name: full_name.as_str().into(),
            uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
            spec: spec_id,
            labels,
            claims,
            node: node_name.map_or(NONE, |node| self.node_name(node)),
            owner,
            controlled,
            is_mirror: is_mirror(pod.metadata.owner_references.as_deref()),
            standing: standing(pod, spec, node_name.is_some()),
            intent: Intent::AsSeen,
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()),
        };
        if record.standing == Standing::Ignored && is_gated(pod, spec) {
            self.gated.insert(full_name);
        } else if !self.gated.is_empty() {
            self.gated.remove(&full_name);
        }
        self.put_pod(record);
        Ok(())
    }

    fn put_pod(&mut self, mut record: PodRecord) {
        let Some(row) = self.pods.find(&record.name) else {
            let row = self.pods.insert(record);
            self.enter(row);
            return;
        };
        self.note_duplicate("Pod", &record.name);
        let Some(have) = self.pods.get(row) else { return };
        if have.uid == record.uid {
            record.intent = have.intent;
        }
        if *have != record {
            self.leave(row);
            if let Some(have) = self.pods.get_mut(row) {
                *have = record;
            }
            self.enter(row);
        }
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        let full_name = format!("{namespace}/{name}");
        self.gated.remove(&full_name);
        if let Some(row) = self.pods.find(&full_name) {
            self.leave(row);
            self.pods.remove(row);
        }
    }

    /// What planning is to make of a pod, by namespace and name; unknown pods are nobody's.
    pub fn intend(&mut self, full_name: &str, intent: PodIntent) {
        let intent = match intent {
            PodIntent::AsSeen => Intent::AsSeen,
            PodIntent::LeftOut => Intent::LeftOut,
            PodIntent::Expected(node) => Intent::Expected(self.node_name(node)),
            PodIntent::Moving => Intent::Moving,
        };
        let Some(row) = self.pods.find(full_name) else { return };
        if self.pods.get(row).is_some_and(|pod| pod.intent == intent) {
            return;
        }
        self.leave(row);
        if let Some(pod) = self.pods.get_mut(row) {
            pod.intent = intent;
        }
        self.enter(row);
    }

    /// Counts the pod in a row.
    pub(crate) fn enter(&mut self, row: u32) {
        let Some(pod) = self.pods.get(row) else { return };
        let (standing, node) = pod.counted();
        if standing == Standing::Ignored {
            return;
        }
        let (spec, name) = (pod.spec as usize, pod.name.clone());
        if pod.claims != NONE {
            for claim in self.claims_of(row) {
                self.claim_users.entry(claim).or_default().push(row);
            }
        }
        let usage = &mut self.usage[spec];
        usage.counted += 1;
        usage.pending += u32::from(standing.is_pending());
        usage.seen += u32::from(standing.is_seen());
        self.changes.specs |= usage.counted == 1
            || standing.is_pending() && usage.pending == 1
            || standing.is_seen() && usage.seen == 1;
        if standing.is_pending() {
            self.changes.pending = true;
            self.pending.insert(name, row);
        }
        if node != NONE {
            self.on_node[node as usize].push(row);
            self.changes.loads.insert(node);
        }
    }

    /// No longer counts the pod in a row.
    pub(crate) fn leave(&mut self, row: u32) {
        let Some(pod) = self.pods.get(row) else { return };
        let (standing, node) = pod.counted();
        if standing == Standing::Ignored {
            return;
        }
        let (spec, name, list) = (pod.spec as usize, pod.name.clone(), pod.claims);
        if list != NONE {
            for claim in self.claims_of(row) {
                if let Some(users) = self.claim_users.get_mut(&claim) {
                    users.retain(|user| *user != row);
                    if users.is_empty() {
                        self.claim_users.remove(&claim);
                        // From now on nobody is told when the claim changes.
                        self.changes.claims.insert(list);
                    }
                }
            }
        }
        let usage = &mut self.usage[spec];
        usage.counted -= 1;
        usage.pending -= u32::from(standing.is_pending());
        usage.seen -= u32::from(standing.is_seen());
        self.changes.specs |= usage.counted == 0
            || standing.is_pending() && usage.pending == 0
            || standing.is_seen() && usage.seen == 0;
        if standing.is_pending() {
            self.changes.pending = true;
            self.pending.remove(&name);
        }
        if node != NONE {
            let rows = &mut self.on_node[node as usize];
            if let Some(at) = rows.iter().position(|other| *other == row) {
                rows.swap_remove(at);
            }
            self.changes.freed = true;
            self.changes.loads.insert(node);
        }
    }

    /// The volume claims that the pod in a row names, in full.
    fn claims_of(&self, row: u32) -> Vec<String> {
        let Some(pod) = self.pods.get(row) else { return Vec::new() };
        let claims = &self.claim_lists[pod.claims as usize];
        let own = pod.name.split_once('/').map_or(&*pod.name, |(_, name)| name);
        claims.list.iter().map(|claim| claim_name(claims, claim, own)).collect()
    }

    /// What a volume claim means has changed: for the pods that name it.
    fn claim_changed(&mut self, claim: &str) {
        for row in self.claim_users.get(claim).into_iter().flatten() {
            let Some(pod) = self.pods.get(*row) else { continue };
            let (standing, node) = pod.counted();
            self.changes.claims.insert(pod.claims);
            self.changes.pending |= standing.is_pending();
            if node != NONE {
                self.changes.loads.insert(node);
            }
        }
    }

    /// The id of a node's name.
    pub(crate) fn node_name(&mut self, name: &str) -> u32 {
        let (id, new) = self.node_names.intern(name.as_bytes());
        if new {
            self.on_node.push(Vec::new());
        }
        id
    }

    /// Takes a node in.
    pub fn add_node(&mut self, node: &Node) -> Result<(), Problem> {
        let name = cluster_name("Node", &node.metadata)?;
        if self.machines.add_node(&name, node, &mut self.changes)? {
            self.note_duplicate("Node", &name);
        }
        Ok(())
    }

    /// A node is gone.
    pub fn remove_node(&mut self, name: &str) {
        self.machines.remove_node(name, &mut self.changes);
    }

    /// Takes a claim for a machine in.
    pub fn add_nodeclaim(&mut self, claim: &NodeClaim) -> Result<(), Problem> {
        let name = cluster_name("NodeClaim", &claim.metadata)?;
        if self.machines.add_claim(&name, claim, &mut self.changes)? {
            self.note_duplicate("NodeClaim", &name);
        }
        Ok(())
    }

    /// Takes a machine in that has no claim and is still to come, as a place in a group: a Node like this template will join. It stands for itself
    /// until [`Cluster::remove_upcoming`]; its name must be nobody else's.
    ///
    /// # Errors
    /// The template cannot be read.
    pub fn add_upcoming(&mut self, name: &str, template: &Node) -> Result<(), Problem> {
        self.machines.add_upcoming(name, template, &mut self.changes).map(drop)
    }

    /// A machine without a claim is no longer to come.
    pub fn remove_upcoming(&mut self, name: &str) {
        self.machines.remove_claim(name, &mut self.changes);
    }

    /// A claim for a machine is gone.
    pub fn remove_nodeclaim(&mut self, name: &str) {
        self.machines.remove_claim(name, &mut self.changes);
    }

    /// Takes a pool in, after validating it.
    pub fn add_nodepool(&mut self, pool: &NodePool) -> Result<(), Problem> {
        let name = cluster_name("NodePool", &pool.metadata)?;
        crate::pools::check(pool, &name, &self.well_known)?;
        self.put_pool(name, pool);
        Ok(())
    }

    /// Takes a pool in that stands for a node group and is nobody's object: its name need not be one that the API would take.
    ///
    /// # Errors
    /// Its taints cannot be read.
    pub fn add_group_pool(&mut self, pool: &NodePool) -> Result<(), Problem> {
        let name = cluster_name("NodePool", &pool.metadata)?;
        let taints = pool.spec.template.spec.taints.as_deref();
        crate::node_digest::taints(taints, "template.spec.taints")
            .map_err(|finding| finding.on("node group", &name, ""))?;
        self.put_pool(name, pool);
        Ok(())
    }

    fn put_pool(&mut self, name: String, pool: &NodePool) {
        match self.pools.insert(name.clone(), pool.clone()) {
            None => self.changes.frame = true,
            Some(before) => {
                // Its counts change with every machine and mean nothing here.
                self.changes.frame |= !crate::pools::is_same(&before, pool);
                self.note_duplicate("NodePool", &name);
            }
        }
    }

    /// A pool is gone.
    pub fn remove_nodepool(&mut self, name: &str) {
        self.changes.frame |= self.pools.remove(name).is_some();
    }

    /// Takes in what a node class can launch; `class` is its group, kind and name, `None` stands for every class without a
    /// catalogue of its own. `well_known` are label keys the provider makes well-known.
    pub fn add_catalogue(
        &mut self,
        class: Option<(String, String, String)>,
        types: impl Into<Arc<[InstanceType]>>,
        well_known: &[String],
    ) {
        self.take_catalogue(class.map_or(Whose::Everybody, Whose::Class), types.into(), well_known);
    }

    /// Takes in what single pools can launch, whatever their class can: two pools of a class may stand in different regions.
    pub fn add_pool_catalogue(
        &mut self,
        pools: BTreeSet<String>,
        types: impl Into<Arc<[InstanceType]>>,
        well_known: &[String],
    ) {
        self.take_catalogue(Whose::Pools(pools), types.into(), well_known);
    }

    fn take_catalogue(&mut self, whose: Whose, types: Arc<[InstanceType]>, well_known: &[String]) {
        for key in well_known.iter().filter(|key| !self.well_known.contains(*key)).collect::<Vec<_>>() {
            self.well_known.insert(key.clone());
            self.changes.frame = true;
        }
        let input = CatalogueInput { whose, types };
        match self.catalogues.iter_mut().find(|have| have.whose == input.whose) {
            Some(have) if Arc::ptr_eq(&have.types, &input.types) || have.types == input.types => return,
            Some(have) => *have = input,
            None => self.catalogues.push(input),
        }
        self.changes.frame = true;
    }

    /// A node class can launch nothing any more.
    pub fn remove_catalogue(&mut self, class: &(String, String, String)) {
        let before = self.catalogues.len();
        self.catalogues.retain(|have| !matches!(&have.whose, Whose::Class(of) if of == class));
        self.changes.frame |= self.catalogues.len() != before;
    }

    /// Takes a namespace in, for namespace selectors.
    pub fn add_namespace(&mut self, namespace: &Namespace) -> Result<(), Problem> {
        let name = cluster_name("Namespace", &namespace.metadata)?;
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        let before = self.namespaces.insert(name.clone(), labels.clone());
        self.changes.namespaces |= before.as_ref() != Some(&labels);
        if before.is_some() {
            self.note_duplicate("Namespace", &name);
        }
        Ok(())
    }

    /// A namespace is gone.
    pub fn remove_namespace(&mut self, name: &str) {
        self.changes.namespaces |= self.namespaces.remove(name).is_some();
    }

    /// Takes a priority class in.
    pub fn add_priority_class(&mut self, class: &PriorityClass) -> Result<(), Problem> {
        let name = cluster_name("PriorityClass", &class.metadata)?;
        let value = class.value.unwrap_or_default();
        if class.global_default == Some(true) {
            // Kubernetes refuses a second default; if one got in, the smaller value counts.
            if let Some(other) = self.default_priorities.keys().find(|other| **other != name) {
                let note = format!(
                    "priority classes `{other}` and `{name}` are both the default; the smaller value counts"
                );
                self.note(note);
            }
            self.changes.frame |= self.default_priorities.insert(name.clone(), value) != Some(value);
        } else {
            self.changes.frame |= self.default_priorities.remove(&name).is_some();
        }
        self.changes.frame |= self.priorities.insert(name, value) != Some(value);
        Ok(())
    }

    /// A priority class is gone.
    pub fn remove_priority_class(&mut self, name: &str) {
        self.changes.frame |= self.priorities.remove(name).is_some();
        self.default_priorities.remove(name);
    }

    /// The priority of pods that name no class.
    pub(crate) fn default_priority(&self) -> i32 {
        self.default_priorities.values().min().copied().unwrap_or(0)
    }

    /// Takes a volume claim in.
    pub fn add_persistent_volume_claim(&mut self, claim: &PersistentVolumeClaim) -> Result<(), Problem> {
        let name = namespaced_name("PersistentVolumeClaim", &claim.metadata)?;
        let object = ClaimObject::new(claim);
        let before = self.claims.get(&name);
        let replaces = before.is_some();
        if before != Some(&object) {
            self.claims.insert(name.clone(), object);
            self.claim_changed(&name);
        }
        if replaces {
            self.note_duplicate("PersistentVolumeClaim", &name);
        }
        Ok(())
    }

    /// A volume claim is gone.
    pub fn remove_persistent_volume_claim(&mut self, namespace: &str, name: &str) {
        let name = format!("{namespace}/{name}");
        if self.claims.remove(&name).is_some() {
            self.claim_changed(&name);
        }
    }

    /// Takes a volume in.
    pub fn add_persistent_volume(&mut self, volume: &PersistentVolume) -> Result<(), Problem> {
        let name = cluster_name("PersistentVolume", &volume.metadata)?;
        let object = VolumeObject::new(volume);
        let before = self.volumes.get(&name);
        let replaces = before.is_some();
        if before != Some(&object) {
            self.volumes.insert(name.clone(), object);
            self.volume_changed(&name);
        }
        if replaces {
            self.note_duplicate("PersistentVolume", &name);
        }
        Ok(())
    }

    /// A volume is gone.
    pub fn remove_persistent_volume(&mut self, name: &str) {
        if self.volumes.remove(name).is_some() {
            self.volume_changed(name);
        }
    }

    fn volume_changed(&mut self, volume: &str) {
        // Also claims that are made of a pod's template may name it.
        let named =
            |claim: &String| self.claims.get(claim).is_none_or(|object| object.volume() == Some(volume));
        let claims: Vec<String> = self.claim_users.keys().filter(|claim| named(claim)).cloned().collect();
        claims.iter().for_each(|claim| self.claim_changed(claim));
    }

    /// Takes a storage class in.
    pub fn add_storage_class(&mut self, class: &StorageClass) -> Result<(), Problem> {
        let name = cluster_name("StorageClass", &class.metadata)?;
        let object = ClassObject::new(class);
        let before = self.storage_classes.insert(name.clone(), object.clone());
        self.changes.frame |= before.as_ref() != Some(&object);
        if before.is_some() {
            self.note_duplicate("StorageClass", &name);
        }
        Ok(())
    }

    /// A storage class is gone.
    pub fn remove_storage_class(&mut self, name: &str) {
        self.changes.frame |= self.storage_classes.remove(name).is_some();
    }

    /// Takes in how many volumes each driver attaches on a node.
    pub fn add_csi_node(&mut self, node: &CSINode) -> Result<(), Problem> {
        let name = cluster_name("CSINode", &node.metadata)?;
        let limits: Vec<DriverLimit> = node
            .spec
            .drivers
            .iter()
            .map(|driver| {
                let count = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
                (driver.name.as_str().into(), count.map(|count| u32::try_from(count).unwrap_or(0)))
            })
            .collect();
        let before = self.volume_limits.insert(name.clone(), limits.clone());
        if before.as_ref() != Some(&limits) {
            self.changes.drivers = true;
            self.machines.touch(&name, &mut self.changes);
        }
        if before.is_some() {
            self.note_duplicate("CSINode", &name);
        }
        Ok(())
    }

    /// Nothing is known any more of the drivers of a node.
    pub fn remove_csi_node(&mut self, name: &str) {
        if self.volume_limits.remove(name).is_some() {
            self.changes.drivers = true;
            self.machines.touch(name, &mut self.changes);
        }
    }

    /// The ids of a spec and of its claims, read on first sight.
    pub(crate) fn intern_spec(
        &mut self,
        namespace: &str,
        spec: &PodSpec,
        status: Option<&PodStatus>,
        templates: &[PersistentVolumeClaim],
    ) -> Result<(u32, u32), Finding> {
        self.scratch.clear();
        canon::write_spec(&mut self.scratch, namespace, spec, status);
        let id = match self.spec_bytes.find(&self.scratch) {
            Some(id) => id,
            None => {
                // Read before interning: a spec that can't be read must stay unknown.
                let digest = Digest::new(namespace, spec, status)?;
                self.specs.push(digest);
                self.usage.push(Usage::default());
                self.spec_bytes.intern(&self.scratch).0
            }
        };
        if spec.volumes.is_none() && templates.is_empty() {
            return Ok((id, NONE));
        }
        self.scratch.clear();
        canon::write_claims(&mut self.scratch, namespace, spec, templates);
        if self.scratch.is_empty() {
            return Ok((id, NONE));
        }
        let (claims, new) = self.claim_bytes.intern(&self.scratch);
        if new {
            self.claim_lists.push(Claims::new(namespace, spec, templates));
        }
        Ok((id, claims))
    }

    /// The ids of a pod template's spec, claims and labels.
    pub(crate) fn intern_template(
        &mut self,
        namespace: &str,
        template: &PodTemplateSpec,
        claims: &[PersistentVolumeClaim],
    ) -> Result<(u32, u32, u32), Finding> {
        let Some(spec) = &template.spec else {
            // The callers' prefix is where the spec would stand.
            return Err(Finding::new("", "", "the template has no spec", "describe the pod's containers"));
        };
        let (spec, claims) = self.intern_spec(namespace, spec, None, claims)?;
        let labels = self.intern_labels(template.metadata.as_ref().and_then(|m| m.labels.as_ref()));
        Ok((spec, claims, labels))
    }

    pub(crate) fn intern_labels(&mut self, labels: Option<&BTreeMap<String, String>>) -> u32 {
        self.scratch.clear();
        canon::write_labels(&mut self.scratch, labels);
        self.label_sets.intern(&self.scratch).0
    }

    pub(crate) fn intern_owner(&mut self, namespace: &str, kind: &str, name: &str) -> u32 {
        self.scratch.clear();
        for part in [namespace, "/", kind, "/", name] {
            self.scratch.extend_from_slice(part.as_bytes());
        }
        self.owners.intern(&self.scratch).0
    }

    pub(crate) fn note_duplicate(&mut self, kind: &str, name: &str) {
        if self.options.note_duplicates {
            self.notes.push(format!("{kind} `{name}` was given more than once; the last one counts"));
        }
    }

    /// Notes an oddity of an object; objects of watches come again and again.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(crate) fn too_many(&self, kind: &str, name: &str, path: &str, value: &str) -> Problem {
        Finding::new(
            path,
            value,
            format!("more than {} pods", self.options.max_pods),
            "raise `--max-pods` or give fewer pods",
        )
        .on(kind, name, "")
    }
}

fn standing(pod: &Pod, spec: &PodSpec, bound: bool) -> Standing {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Standing::Ignored;
    }
    let leaving = pod.metadata.deletion_timestamp.is_some();
    let owners = pod.metadata.owner_references.as_deref();
    match (bound, leaving, is_daemon(owners)) {
        (true, false, true) => Standing::BoundDaemon,
        (true, true, true) => Standing::LeavingDaemon,
        (true, false, false) => Standing::Bound,
        (true, true, false) => Standing::Leaving,
        (false, true, _) | (false, _, true) => Standing::Ignored,
        (false, false, false) if is_mirror(owners) || has_gates(spec) => Standing::Ignored,
        (false, false, false) => Standing::Pending,
    }
}

fn has_gates(spec: &PodSpec) -> bool {
    spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty())
}

/// Whether a pod that is ignored would be placed but for its gates.
fn is_gated(pod: &Pod, spec: &PodSpec) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    has_gates(spec)
        && pod.metadata.deletion_timestamp.is_none()
        && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// The namespace of an object; files often leave it out.
pub(crate) fn namespace_of(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

pub(crate) fn cluster_name(kind: &str, metadata: &ObjectMeta) -> Result<String, Problem> {
    metadata.name.clone().filter(|name| !name.is_empty()).ok_or_else(|| nameless(kind, metadata))
}

pub(crate) fn namespaced_name(kind: &str, metadata: &ObjectMeta) -> Result<String, Problem> {
    let name = cluster_name(kind, metadata)?;
    Ok(format!("{}/{name}", namespace_of(metadata)))
}

fn nameless(kind: &str, metadata: &ObjectMeta) -> Problem {
    let near = metadata.generate_name.as_deref().unwrap_or("without name");
    Finding::new("metadata.name", "", "the object has no name", "give it one").on(kind, near, "")
}

pub(crate) fn without_spec(kind: &str, name: &str) -> Problem {
    Finding::new("spec", "", "the object has no spec", "describe what it should be").on(kind, name, "")
}
