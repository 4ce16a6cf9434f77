//! The cluster as objects come in: each is read once and dropped.
//!
//! Per pod only ids and what tells it from its siblings stay. Other objects are few; of those the fields that decide anything stay.

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
use crate::daemons::DaemonDigest;
use crate::default_spread::DefaultSpread;
use crate::digest::{Claims, Digest};
use crate::memo::Memo;
use crate::node_digest::{ClaimDigest, NodeDigest};
use crate::overlays::OverlayInput;
use crate::problem::{Finding, Problem};
use crate::volumes::{ClaimObject, ClassObject, VolumeObject};
use crate::workloads::Workload;

/// What the caller decides.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Preferred terms and ScheduleAnyway constraints hold until they are relaxed; otherwise they are not looked at.
    pub respect_preferences: bool,
    /// The most pods, those of workloads included, that are taken in.
    pub max_pods: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { respect_preferences: true, max_pods: 1_000_000 }
    }
}

/// A CSI driver, and how many volumes it attaches if it says so.
pub(crate) type DriverLimit = (Box<str>, Option<u32>);

/// No such row: a pod without node, owner or claims.
pub(crate) const NONE: u32 = u32::MAX;

/// What is kept of a pod. Its row is the id of its name.
#[derive(Debug)]
pub(crate) struct PodRecord {
    pub spec: u32,
    pub labels: u32,
    pub claims: u32,
    pub node: u32,
    pub owner: u32,
    /// The owner is a ReplicaSet, StatefulSet or ReplicationController in control of the pod.
    pub controlled: bool,
    pub standing: Standing,
    pub created: Option<i64>,
    pub uid: Box<str>,
}

/// What a pod counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Waits for a place.
    Pending,
    /// Stands for a pod that has not come yet.
    Virtual,
    /// On a node; seen by selectors.
    Bound,
    /// On a node, of a DaemonSet; seen by selectors.
    BoundDaemon,
    /// On a node and being deleted: takes room, not seen by selectors.
    Leaving,
    /// The same, of a DaemonSet.
    LeavingDaemon,
    /// Finished, gated, or not for us to place: takes no room.
    Ignored,
}

/// A class's own catalogue, or everybody's.
#[derive(Debug)]
pub(crate) struct CatalogueInput {
    /// Group, kind and name of the node class; `None` = every class.
    pub class: Option<(String, String, String)>,
    pub types: Vec<InstanceType>,
}

/// Takes objects in and lowers them to a snapshot.
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
    pub(crate) pod_names: ByteTable,
    pub(crate) pods: Vec<PodRecord>,
    pub(crate) node_names: ByteTable,
    pub(crate) owners: ByteTable,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) workload_index: BTreeMap<(&'static str, String), usize>,
    pub(crate) workload_pods: usize,
    pub(crate) daemons: BTreeMap<String, DaemonDigest>,
    memo: Memo,
    pub(crate) nodes: BTreeMap<String, Arc<NodeDigest>>,
    pub(crate) node_claims: BTreeMap<String, Arc<ClaimDigest>>,
    pub(crate) pools: BTreeMap<String, NodePool>,
    pub(crate) overlays: BTreeMap<String, OverlayInput>,
    pub(crate) cost_models: BTreeMap<String, CostModel>,
    pub(crate) buffers: BTreeMap<String, BufferInput>,
    pub(crate) pod_templates: BTreeMap<String, TemplateInput>,
    pub(crate) catalogues: Vec<CatalogueInput>,
    pub(crate) well_known: BTreeSet<String>,
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) priorities: BTreeMap<String, i32>,
    pub(crate) default_priority: Option<(String, i32)>,
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
            pod_names: ByteTable::default(),
            pods: Vec::new(),
            node_names: ByteTable::default(),
            owners: ByteTable::default(),
            workloads: Vec::new(),
            workload_index: BTreeMap::new(),
            workload_pods: 0,
            daemons: BTreeMap::new(),
            memo: Memo::default(),
            nodes: BTreeMap::new(),
            node_claims: BTreeMap::new(),
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
            default_priority: None,
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
        let record = PodRecord {
            spec: spec_id,
            labels,
            claims,
            node: node_name.map_or(NONE, |node| self.node_names.intern(node.as_bytes()).0),
            owner,
            controlled,
            standing: standing(pod, spec, node_name.is_some()),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()),
            uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(namespace.as_bytes());
        self.scratch.push(b'/');
        self.scratch.extend_from_slice(name.as_bytes());
        let (row, new) = self.pod_names.intern(&self.scratch);
        let waits = record.standing == Standing::Ignored && is_gated(pod, spec);
        if waits {
            self.gated.insert(format!("{namespace}/{name}"));
        }
        if new {
            self.pods.push(record);
        } else {
            if !waits && !self.gated.is_empty() {
                self.gated.remove(&format!("{namespace}/{name}"));
            }
            self.pods[row as usize] = record;
            self.note_duplicate("Pod", &format!("{namespace}/{name}"));
        }
        Ok(())
    }

    /// Takes a node in.
    pub fn add_node(&mut self, node: &Node) -> Result<(), Problem> {
        let name = cluster_name("Node", &node.metadata)?;
        let digest = self.memo.nodes.digest(&name, &node.metadata, || NodeDigest::new(node));
        let digest = digest.map_err(|finding| finding.on("Node", &name, ""))?;
        if self.nodes.insert(name.clone(), digest).is_some() {
            self.note_duplicate("Node", &name);
        }
        Ok(())
    }

    /// Takes a pool in, after validating it.
    pub fn add_nodepool(&mut self, pool: &NodePool) -> Result<(), Problem> {
        let name = cluster_name("NodePool", &pool.metadata)?;
        crate::pools::check(pool, &name, &self.well_known)?;
        if self.pools.insert(name.clone(), pool.clone()).is_some() {
            self.note_duplicate("NodePool", &name);
        }
        Ok(())
    }

    /// Gives back what an earlier snapshot of the same cluster left, so that objects which have not changed are not read again.
    pub fn remember(&mut self, memo: Memo) {
        self.memo = memo;
    }

    /// What the next snapshot of this cluster may [`remember`](Self::remember).
    pub fn memo(&mut self) -> Memo {
        std::mem::take(&mut self.memo).carried_over()
    }

    /// Takes a claim for a machine in.
    pub fn add_nodeclaim(&mut self, claim: &NodeClaim) -> Result<(), Problem> {
        let name = cluster_name("NodeClaim", &claim.metadata)?;
        let digest = self.memo.claims.digest(&name, &claim.metadata, || ClaimDigest::new(claim));
        let digest = digest.map_err(|finding| finding.on("NodeClaim", &name, ""))?;
        if self.node_claims.insert(name.clone(), digest).is_some() {
            self.note_duplicate("NodeClaim", &name);
        }
        Ok(())
    }

    /// Takes in what a node class can launch; `class` is its group, kind and name, `None` stands for every class without a
    /// catalogue of its own. `well_known` are label keys the provider makes well-known.
    pub fn add_catalogue(
        &mut self,
        class: Option<(String, String, String)>,
        types: impl Into<Vec<InstanceType>>,
        well_known: &[String],
    ) {
        self.well_known.extend(well_known.iter().cloned());
        let input = CatalogueInput { class, types: types.into() };
        match self.catalogues.iter_mut().find(|have| have.class == input.class) {
            Some(have) => *have = input,
            None => self.catalogues.push(input),
        }
    }

    /// Takes a namespace in, for namespace selectors.
    pub fn add_namespace(&mut self, namespace: &Namespace) -> Result<(), Problem> {
        let name = cluster_name("Namespace", &namespace.metadata)?;
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        if self.namespaces.insert(name.clone(), labels).is_some() {
            self.note_duplicate("Namespace", &name);
        }
        Ok(())
    }

    /// Takes a priority class in.
    pub fn add_priority_class(&mut self, class: &PriorityClass) -> Result<(), Problem> {
        let name = cluster_name("PriorityClass", &class.metadata)?;
        let value = class.value.unwrap_or_default();
        if class.global_default == Some(true) {
            // Kubernetes refuses a second default; if one got in, the smaller value counts.
            match &self.default_priority {
                Some((other, have)) if *other != name => {
                    self.notes.push(format!("priority classes `{other}` and `{name}` are both the default; the smaller value counts"));
                    if value < *have {
                        self.default_priority = Some((name.clone(), value));
                    }
                }
                _ => self.default_priority = Some((name.clone(), value)),
            }
        }
        self.priorities.insert(name, value);
        Ok(())
    }

    /// Takes a volume claim in.
    pub fn add_persistent_volume_claim(&mut self, claim: &PersistentVolumeClaim) -> Result<(), Problem> {
        let name = namespaced_name("PersistentVolumeClaim", &claim.metadata)?;
        if self.claims.insert(name.clone(), ClaimObject::new(claim)).is_some() {
            self.note_duplicate("PersistentVolumeClaim", &name);
        }
        Ok(())
    }

    /// Takes a volume in.
    pub fn add_persistent_volume(&mut self, volume: &PersistentVolume) -> Result<(), Problem> {
        let name = cluster_name("PersistentVolume", &volume.metadata)?;
        if self.volumes.insert(name.clone(), VolumeObject::new(volume)).is_some() {
            self.note_duplicate("PersistentVolume", &name);
        }
        Ok(())
    }

    /// Takes a storage class in.
    pub fn add_storage_class(&mut self, class: &StorageClass) -> Result<(), Problem> {
        let name = cluster_name("StorageClass", &class.metadata)?;
        if self.storage_classes.insert(name.clone(), ClassObject::new(class)).is_some() {
            self.note_duplicate("StorageClass", &name);
        }
        Ok(())
    }

    /// Takes in how many volumes each driver attaches on a node.
    pub fn add_csi_node(&mut self, node: &CSINode) -> Result<(), Problem> {
        let name = cluster_name("CSINode", &node.metadata)?;
        let limits = node
            .spec
            .drivers
            .iter()
            .map(|driver| {
                let count = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
                (driver.name.as_str().into(), count.map(|count| u32::try_from(count).unwrap_or(0)))
            })
            .collect();
        if self.volume_limits.insert(name.clone(), limits).is_some() {
            self.note_duplicate("CSINode", &name);
        }
        Ok(())
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

    fn intern_labels(&mut self, labels: Option<&BTreeMap<String, String>>) -> u32 {
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
        self.notes.push(format!("{kind} `{name}` was given more than once; the last one counts"));
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
