//! Volumes: where a pod's claims can be reached, and what they count against.
//!
//! A bound claim can be reached where its volume's node affinity says, an unbound one where its class may make a volume. Each
//! gives alternatives; several claims give the pairs that go together. Attach limits are per CSI driver, and a driver that no node
//! and no instance type limits is not tracked at all: its claims then tell no pods apart.

use std::collections::BTreeMap;

use joiner_api::names::{HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL};
use joiner_core::model::{ReqId, Requirement, VolumeIdx, VolumeUse};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::cluster::NONE;
use crate::digest::{ClaimRef, Claims, Expression, Term, node_term, stable_key};
use crate::lower::Lowering;

/// Combinations of claims are looked at up to this many; beyond, the first ones stand.
const MOST_ALTERNATIVES: usize = 1024;

/// Provisioners that once were part of Kubernetes, and the drivers that took over.
const IN_TREE: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// The annotation of a claim whose binding is done.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// What is kept of a PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClaimObject {
    volume: Option<Box<str>>,
    /// Binding to the volume is done, not only asked for.
    is_bound: bool,
    /// `None` = not said, `Some("")` = none wanted.
    class: Option<Box<str>>,
    lost: bool,
    deleting: bool,
}

/// What is kept of a PersistentVolume.
#[derive(Debug, PartialEq)]
pub(crate) struct VolumeObject {
    /// OR of terms; `None` = anywhere.
    terms: Option<Vec<Term>>,
    /// OR of terms made of zone and region labels; empty without such labels.
    label_terms: Vec<Vec<Expression>>,
    driver: Option<Box<str>>,
    on_one_host: bool,
    deleting: bool,
}

/// What is kept of a StorageClass.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClassObject {
    driver: Box<str>,
    immediate: bool,
    topologies: Vec<Vec<Expression>>,
    is_default: bool,
}

/// What volumes mean for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Reach {
    pub alternatives: Vec<ReqId>,
    pub uses: Vec<VolumeUse>,
    pub refused: Option<Box<str>>,
}

impl ClaimObject {
    pub(crate) fn new(claim: &PersistentVolumeClaim) -> Self {
        let spec = claim.spec.as_ref();
        Self {
            volume: spec.and_then(|s| s.volume_name.as_deref()).filter(|v| !v.is_empty()).map(Into::into),
            is_bound: claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(BIND_COMPLETED)),
            class: spec.and_then(|s| s.storage_class_name.as_deref()).map(Into::into),
            lost: claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Lost")),
            deleting: claim.metadata.deletion_timestamp.is_some(),
        }
    }

    /// The volume it names.
    pub(crate) fn volume(&self) -> Option<&str> {
        self.volume.as_deref()
    }
}

impl VolumeObject {
    pub(crate) fn new(volume: &PersistentVolume) -> Self {
        let spec = volume.spec.as_ref();
        let required =
            spec.and_then(|s| s.node_affinity.as_ref()).and_then(|affinity| affinity.required.as_ref());
        Self {
            terms: required.map(|required| required.node_selector_terms.iter().map(node_term).collect()),
            label_terms: volume.metadata.labels.as_ref().map(label_terms).unwrap_or_default(),
            driver: spec.and_then(driver_of).map(Into::into),
            on_one_host: spec.is_some_and(|s| s.local.is_some() || s.host_path.is_some()),
            deleting: volume.metadata.deletion_timestamp.is_some(),
        }
    }
}

impl ClassObject {
    pub(crate) fn new(class: &StorageClass) -> Self {
        let topologies = class.allowed_topologies.iter().flatten().map(|term| {
            let expressions = term.match_label_expressions.iter().flatten();
            expressions
                .map(|e| Expression {
                    key: stable_key(&e.key).into(),
                    operator: "In".into(),
                    values: e.values.iter().map(|v| v.as_str().into()).collect(),
                })
                .collect()
        });
        let annotations = class.metadata.annotations.as_ref();
        Self {
            driver: translated(&class.provisioner).into(),
            immediate: class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer"),
            topologies: topologies.collect(),
            is_default: annotations.is_some_and(|annotations| {
                [
                    "storageclass.kubernetes.io/is-default-class",
                    "storageclass.beta.kubernetes.io/is-default-class",
                ]
                .iter()
                .any(|key| annotations.get(*key).is_some_and(|value| value == "true"))
            }),
        }
    }
}

/// What zone and region labels of a volume ask of nodes. They are older than node affinity and still hold: a node must have one of the
/// listed values (`a__b` lists two), or neither label, as in a cluster without zones. A list with a gap in it says nothing.
fn label_terms(labels: &BTreeMap<String, String>) -> Vec<Vec<Expression>> {
    let expression = |key: &str, operator: &str, values: Vec<Box<str>>| Expression {
        key: key.into(),
        operator: operator.into(),
        values,
    };
    let mut asked = Vec::new();
    for (key, value) in labels {
        let key = stable_key(key);
        let values: Vec<Box<str>> = value.split("__").map(|part| part.trim_matches(' ').into()).collect();
        if [ZONE_LABEL, REGION_LABEL].contains(&key) && values.iter().all(|value| !value.is_empty()) {
            asked.push(expression(key, "In", values));
        }
    }
    if asked.is_empty() {
        return Vec::new();
    }
    let unlabelled = [ZONE_LABEL, REGION_LABEL].map(|key| expression(key, "DoesNotExist", Vec::new()));
    vec![asked, unlabelled.into()]
}

fn translated(provisioner: &str) -> &str {
    IN_TREE.iter().find(|(old, _)| *old == provisioner).map_or(provisioner, |(_, driver)| driver)
}

fn driver_of(spec: &PersistentVolumeSpec) -> Option<&str> {
    if let Some(csi) = &spec.csi {
        return Some(&csi.driver);
    }
    let in_tree = if spec.aws_elastic_block_store.is_some() {
        "kubernetes.io/aws-ebs"
    } else if spec.azure_disk.is_some() {
        "kubernetes.io/azure-disk"
    } else if spec.azure_file.is_some() {
        "kubernetes.io/azure-file"
    } else if spec.cinder.is_some() {
        "kubernetes.io/cinder"
    } else if spec.gce_persistent_disk.is_some() {
        "kubernetes.io/gce-pd"
    } else if spec.portworx_volume.is_some() {
        "kubernetes.io/portworx-volume"
    } else if spec.vsphere_volume.is_some() {
        "kubernetes.io/vsphere-volume"
    } else {
        return None;
    };
    Some(translated(in_tree))
}

/// What a volume claim comes to.
struct ResolvedVolumeClaim<'c> {
    /// OR of terms; `None` = anywhere.
    terms: Option<Vec<&'c [Expression]>>,
    /// The same of zone labels; empty = anywhere.
    label_terms: &'c [Vec<Expression>],
    hostname_counts: bool,
}

impl<'c> Lowering<'c> {
    /// What the claims of a pod mean for it; `pod` is its name without namespace.
    pub(crate) fn reach(&mut self, claims: u32, pod: &str) -> Reach {
        if claims == NONE {
            return Reach::default();
        }
        let cluster = self.cluster;
        let claims: &'c Claims = &cluster.claim_lists[claims as usize];
        let mut reach = Reach::default();
        let mut alternatives: Vec<Vec<(joiner_core::model::KeyId, Requirement)>> = vec![Vec::new()];
        let mut constrained = false;
        for claim in &claims.list {
            let name = claim_name(claims, claim, pod);
            // A claim that is going away is still attached where it is used.
            if let Some(driver) = self.driver(&name, claim)
                && self.frame.limited_drivers.contains(driver)
            {
                let volume = self.volume_index(&name);
                let usage = VolumeUse { volume, driver: driver.into() };
                if !reach.uses.contains(&usage) {
                    reach.uses.push(usage);
                }
            }
            let resolved = match self.resolve_volume_claim(&name, claim) {
                Ok(found) => found,
                Err(reason) => {
                    reach.refused.get_or_insert(reason.into());
                    continue;
                }
            };
            let labels: Vec<&[Expression]> = resolved.label_terms.iter().map(Vec::as_slice).collect();
            for terms in [resolved.terms, (!labels.is_empty()).then_some(labels)].into_iter().flatten() {
                constrained = true;
                let mut own = Vec::with_capacity(terms.len());
                for term in terms {
                    let used = term.iter().filter(|e| resolved.hostname_counts || &*e.key != HOSTNAME_LABEL);
                    own.push(used.map(|e| self.expression(e)).collect::<Vec<_>>());
                }
                alternatives = self.combine(&alternatives, &own);
            }
        }
        if reach.refused.is_some() {
            return reach;
        }
        if constrained {
            for alternative in alternatives {
                let set = self.frame.snapshot.vocabulary.set(alternative);
                if !reach.alternatives.contains(&set) {
                    reach.alternatives.push(set);
                }
            }
            let anywhere = self.frame.snapshot.vocabulary.set([]);
            if reach.alternatives == [anywhere] {
                reach.alternatives.clear();
            }
            for set in reach.alternatives.clone() {
                self.ask_about(set);
            }
        }
        reach
    }

    /// How many volumes each driver attaches on a machine of one of these types, at least; a driver that no type limits is left out.
    pub(crate) fn type_limits(
        &self,
        class: Option<&(String, String, String)>,
        is_candidate: impl Fn(&str) -> bool,
    ) -> BTreeMap<Box<str>, u32> {
        let (group, kind, name) = class.map_or(("", "", ""), |(group, kind, name)| (group, kind, name));
        let input = self.catalogue_of((group, kind, name)).map(|at| &self.cluster.catalogues[at]);
        let mut least: BTreeMap<Box<str>, u32> = BTreeMap::new();
        let types = input.into_iter().flat_map(|input| input.types.iter());
        for candidate in types.filter(|of| !of.volume_limits.is_empty() && is_candidate(&of.name)) {
            for (driver, limit) in &candidate.volume_limits {
                let have = least.entry(driver.as_str().into()).or_insert(*limit);
                *have = (*have).min(*limit);
            }
        }
        least
    }

    /// The limits of a node: what its drivers say, and what its type says of those that do not run there yet.
    pub(crate) fn node_limits(&self, node: &str, of_type: &BTreeMap<Box<str>, u32>) -> Vec<(Box<str>, u32)> {
        let running = self.cluster.volume_limits.get(node).map_or(&[][..], Vec::as_slice);
        let mut limits: Vec<(Box<str>, u32)> =
            running.iter().filter_map(|(driver, limit)| Some((driver.clone(), (*limit)?))).collect();
        let missing = of_type.iter().filter(|(driver, _)| !running.iter().any(|(other, _)| other == *driver));
        limits.extend(missing.map(|(driver, limit)| (driver.clone(), *limit)));
        limits
    }

    fn volume_index(&mut self, name: &str) -> VolumeIdx {
        VolumeIdx(self.frame.volume_ids.intern(name.as_bytes()).0)
    }

    /// The volume and class of a claim, as far as they are named.
    fn names_of(&self, name: &str, claim: &'c ClaimRef) -> (Option<&'c str>, Option<&'c str>) {
        match (self.cluster.claims.get(name), claim) {
            (Some(object), _) => (object.volume.as_deref(), object.class.as_deref()),
            (None, ClaimRef::PerPod { class, volume, .. }) => (volume.as_deref(), class.as_deref()),
            (None, ClaimRef::Named(_)) => (None, Some("")),
        }
    }

    /// The driver that attaches a claim, where it is known.
    fn driver(&self, name: &str, claim: &'c ClaimRef) -> Option<&'c str> {
        let cluster = self.cluster;
        let (volume, class) = self.names_of(name, claim);
        if let Some(volume) = volume {
            return cluster.volumes.get(volume)?.driver.as_deref();
        }
        let class = class.or_else(|| default_class(&cluster.storage_classes))?;
        Some(&cluster.storage_classes.get(class)?.driver)
    }

    /// Looks a claim up, with the reason why a pod that names it cannot be placed.
    fn resolve_volume_claim(
        &self,
        name: &str,
        claim: &'c ClaimRef,
    ) -> Result<ResolvedVolumeClaim<'c>, String> {
        let cluster = self.cluster;
        match cluster.claims.get(name) {
            Some(object) if object.deleting => return Err(format!("volume claim `{name}` is being deleted")),
            Some(object) if object.lost => return Err(format!("volume claim `{name}` has lost its volume")),
            None if matches!(claim, ClaimRef::Named(_)) => {
                return Err(format!("volume claim `{name}` does not exist: create it"));
            }
            _ => {}
        }
        let (volume, class) = self.names_of(name, claim);
        if let Some(volume) = volume {
            let Some(object) = cluster.volumes.get(volume) else {
                return Err(format!("volume `{volume}` of claim `{name}` does not exist"));
            };
            if object.deleting {
                return Err(format!("volume `{volume}` of claim `{name}` is being deleted"));
            }
            if cluster.claims.get(name).is_some_and(|object| !object.is_bound) {
                return Err(format!(
                    "volume claim `{name}` names volume `{volume}` but is not bound to it yet: wait for annotation `{BIND_COMPLETED}`"
                ));
            }
            // As everywhere, a term without expressions matches no node.
            let terms: Option<Vec<&[Expression]>> = object.terms.as_ref().map(|terms| {
                terms.iter().map(|term| term.expressions.as_slice()).filter(|term| !term.is_empty()).collect()
            });
            if terms.as_ref().is_some_and(Vec::is_empty) {
                return Err(format!("volume `{volume}` of claim `{name}` can be reached from no node"));
            }
            let hostname_counts = !object.on_one_host;
            return Ok(ResolvedVolumeClaim { terms, label_terms: &object.label_terms, hostname_counts });
        }
        let class = match class {
            Some("") => return Err(format!("volume claim `{name}` is not bound and names no storage class")),
            Some(class) => class,
            // Admission would have filled in the default class.
            None => match default_class(&cluster.storage_classes) {
                Some(class) => class,
                None => {
                    return Err(format!(
                        "volume claim `{name}` is not bound and names no storage class, and no class is the default"
                    ));
                }
            },
        };
        let Some(object) = cluster.storage_classes.get(class) else {
            return Err(format!("storage class `{class}` of volume claim `{name}` does not exist"));
        };
        if object.immediate {
            return Err(format!(
                "volume claim `{name}` is not bound although storage class `{class}` binds immediately: wait for its volume or use `WaitForFirstConsumer`"
            ));
        }
        let terms =
            (!object.topologies.is_empty()).then(|| object.topologies.iter().map(Vec::as_slice).collect());
        Ok(ResolvedVolumeClaim { terms, label_terms: &[], hostname_counts: true })
    }

    /// Pairs that go together; all pairs if none does.
    fn combine(
        &mut self,
        have: &[Vec<(joiner_core::model::KeyId, Requirement)>],
        own: &[Vec<(joiner_core::model::KeyId, Requirement)>],
    ) -> Vec<Vec<(joiner_core::model::KeyId, Requirement)>> {
        let names = &self.frame.snapshot.vocabulary.names;
        let mut fitting = Vec::new();
        let mut all = Vec::new();
        for a in have {
            for b in own {
                let mut both = a.clone();
                let mut fits = true;
                for (key, requirement) in b {
                    match both.iter_mut().find(|(k, _)| k == key) {
                        Some((_, have)) => {
                            *have = have.intersect(requirement, names, *key);
                            fits &= !have.is_empty();
                        }
                        None => both.push((*key, requirement.clone())),
                    }
                }
                both.sort_by_key(|(key, _)| *key);
                let list = if fits { &mut fitting } else { &mut all };
                if list.len() < MOST_ALTERNATIVES && !list.contains(&both) {
                    list.push(both);
                }
            }
        }
        if fitting.is_empty() { all } else { fitting }
    }
}

pub(crate) fn claim_name(claims: &Claims, claim: &ClaimRef, pod: &str) -> String {
    match claim {
        ClaimRef::Named(name) => format!("{}/{name}", claims.namespace),
        ClaimRef::PerPod { prefix, suffix, .. } => format!("{}/{prefix}{pod}{suffix}", claims.namespace),
    }
}

/// The default class; of several the first by name counts.
fn default_class(classes: &BTreeMap<String, ClassObject>) -> Option<&str> {
    classes.iter().find(|(_, class)| class.is_default).map(|(name, _)| name.as_str())
}
