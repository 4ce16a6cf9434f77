//! Volumes: which nodes can reach a pod's claims, which volumes would be bound, how many a node can still attach.
//!
//! Claims that are bound already restrict a pod to nodes from where their volumes can be reached. Claims that wait for a first consumer are
//! matched with volumes that are there, the smallest that will do, or left to their class's provisioner. In-tree disks that only
//! one pod may have (EBS, GCE, iSCSI and RBD written into a pod's spec) and storage capacity objects are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use joiner_api::quantity::Quantity;
use joiner_core::filter;
use joiner_core::model::{KeyId, Names, ValueId};
use k8s_openapi::api::core::v1::NodeSelectorTerm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::{Value, json};

use super::class::{ClaimRef, Class};
use super::terms::{Labels, NodeTerm, Selector, labels, value_of};
use crate::object::{Fields, Key, Kind};
use crate::write::Write;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
const TOPOLOGY: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

#[derive(Debug, Clone)]
struct Claim {
    uid: String,
    volume: String,
    complete: bool,
    lost: bool,
    deleting: bool,
    class: String,
    modes: Vec<String>,
    request: i128,
    block: bool,
    selector: Option<Selector>,
    selected_node: Option<String>,
    /// The uid of the pod it was made for.
    owner: String,
}

#[derive(Debug, Clone)]
struct Volume {
    claim: Option<(String, String, String)>,
    capacity: i128,
    class: String,
    modes: Vec<String>,
    block: bool,
    available: bool,
    deleting: bool,
    labels: Labels,
    terms: Option<Vec<NodeTerm>>,
    /// CSI driver and handle.
    handle: Option<(String, String)>,
    zones: Vec<(KeyId, KeyId, Vec<String>)>,
}

#[derive(Debug, Clone)]
struct StorageClass {
    provisioner: String,
    waits: bool,
    topologies: Vec<Vec<(KeyId, Vec<ValueId>)>>,
}

/// Everything about volumes.
#[derive(Debug, Default)]
pub(crate) struct Volumes {
    /// By `namespace/name`.
    claims: BTreeMap<String, Claim>,
    volumes: BTreeMap<String, Volume>,
    classes: BTreeMap<String, StorageClass>,
    /// Node → driver → most volumes.
    limits: BTreeMap<String, BTreeMap<String, u32>>,
    /// Attachment → node, driver, volume.
    attachments: BTreeMap<String, (String, String, String)>,
    /// Pods on nodes per claim.
    in_use: BTreeMap<String, u32>,
    topology: Vec<KeyId>,
}

/// Why a pod is not even held against nodes.
#[derive(Debug)]
pub(crate) enum Objection {
    /// It cannot be scheduled now.
    Unschedulable(String),
    /// Something is wrong.
    Error(String),
}

/// What matters of a pod's claims in one attempt.
#[derive(Debug, Default)]
pub(crate) struct PodVolumes {
    /// All claims, by `namespace/name`.
    pub claims: Vec<String>,
    /// Volumes of bound claims.
    bound: Vec<String>,
    /// Claims that wait for their first consumer, smallest first.
    waiting: Vec<String>,
    /// Claims for one pod only that others use.
    pub taken: Vec<String>,
    /// What it attaches: name and driver.
    attaches: BTreeMap<String, String>,
    zones: Vec<(KeyId, KeyId, Vec<String>)>,
}

/// What binding on a node will do.
#[derive(Debug, Default)]
pub(crate) struct Binding {
    /// Claim and volume.
    matched: Vec<(String, String)>,
    /// Claims to be provisioned.
    provisioned: Vec<String>,
}

/// Reasons of one node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unreachable {
    pub node_conflict: bool,
    pub bind_conflict: bool,
    pub volume_missing: bool,
}

impl Unreachable {
    /// Whether there is no reason.
    pub(crate) fn none(self) -> bool {
        !(self.node_conflict || self.bind_conflict || self.volume_missing)
    }
}

/// A node, as far as volumes go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site<'a> {
    pub name: &'a str,
    pub labels: &'a [(KeyId, ValueId)],
}

impl Volumes {
    /// Takes in a claim, or forgets it.
    pub(crate) fn set_claim(&mut self, names: &mut Names, key: &Key, object: Option<&Value>) {
        let name = format!("{}/{}", key.namespace, key.name);
        let Some(object) = object else {
            self.claims.remove(&name);
            return;
        };
        let selector = LabelSelector::deserialize(object.at(&["spec", "selector"])).ok();
        let owner = object.manager().filter(|manager| manager.kind == "Pod").map(|manager| manager.uid);
        let claim = Claim {
            uid: object.uid().to_owned(),
            volume: object.text(&["spec", "volumeName"]).to_owned(),
            complete: object.annotation(BIND_COMPLETED).is_some(),
            lost: object.text(&["status", "phase"]) == "Lost",
            deleting: object.is_deleting(),
            class: class_name(object),
            modes: texts(object.items(&["spec", "accessModes"])),
            request: amount(object.text(&["spec", "resources", "requests", "storage"])),
            block: object.text(&["spec", "volumeMode"]) == "Block",
            selector: selector.and_then(|selector| Selector::read(names, Some(&selector))),
            selected_node: object.annotation(SELECTED_NODE).map(str::to_owned),
            owner: owner.unwrap_or_default().to_owned(),
        };
        self.claims.insert(name, claim);
    }

    /// Takes in a volume, or forgets it.
    pub(crate) fn set_volume(&mut self, names: &mut Names, key: &Key, object: Option<&Value>) {
        let Some(object) = object else {
            self.volumes.remove(&*key.name);
            return;
        };
        let reference = object.at(&["spec", "claimRef"]);
        let terms =
            object.at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).as_array().map(|terms| {
                let terms = terms.iter().filter_map(|term| NodeSelectorTerm::deserialize(term).ok());
                terms.map(|term| NodeTerm::read(names, &term)).collect()
            });
        let zones = TOPOLOGY
            .iter()
            .filter_map(|(label, stable)| {
                let values = object.label(label)?.split("__").map(str::to_owned).collect();
                Some((names.key(label), names.key(stable), values))
            })
            .collect();
        let handle = object.text(&["spec", "csi", "driver"]);
        let volume = Volume {
            claim: reference.is_object().then(|| {
                let part = |field: &str| reference.text(&[field]).to_owned();
                (part("namespace"), part("name"), part("uid"))
            }),
            capacity: amount(object.text(&["spec", "capacity", "storage"])),
            class: class_name(object),
            modes: texts(object.items(&["spec", "accessModes"])),
            block: object.text(&["spec", "volumeMode"]) == "Block",
            available: object.text(&["status", "phase"]) == "Available",
            deleting: object.is_deleting(),
            labels: labels(names, object.entries(&["metadata", "labels"])),
            terms,
            handle: (!handle.is_empty())
                .then(|| (handle.to_owned(), object.text(&["spec", "csi", "volumeHandle"]).to_owned())),
            zones,
        };
        if self.topology.is_empty() {
            self.topology = TOPOLOGY.iter().map(|(label, _)| names.key(label)).collect();
        }
        self.volumes.insert(key.name.to_string(), volume);
    }

    /// Takes in a storage class, or forgets it.
    pub(crate) fn set_class(&mut self, names: &mut Names, key: &Key, object: Option<&Value>) {
        let Some(object) = object else {
            self.classes.remove(&*key.name);
            return;
        };
        let topologies = object.items(&["allowedTopologies"]).iter().map(|term| {
            let expressions = term.items(&["matchLabelExpressions"]).iter();
            let mut read = |expression: &Value| {
                let key = names.key(expression.text(&["key"]));
                let values = expression.items(&["values"]).iter().filter_map(Value::as_str);
                (key, values.map(|value| names.value(key, value)).collect())
            };
            expressions.map(&mut read).collect()
        });
        let class = StorageClass {
            provisioner: object.text(&["provisioner"]).to_owned(),
            waits: object.text(&["volumeBindingMode"]) == "WaitForFirstConsumer",
            topologies: topologies.collect(),
        };
        self.classes.insert(key.name.to_string(), class);
    }

    /// Takes in what drivers say about a node, or forgets it.
    pub(crate) fn set_drivers(&mut self, key: &Key, object: Option<&Value>) {
        let Some(object) = object else {
            self.limits.remove(&*key.name);
            return;
        };
        let drivers = object.items(&["spec", "drivers"]).iter().filter_map(|driver| {
            let count = driver.number(&["allocatable", "count"])?;
            Some((driver.text(&["name"]).to_owned(), u32::try_from(count).unwrap_or(0)))
        });
        self.limits.insert(key.name.to_string(), drivers.collect());
    }

    /// Takes in an attachment, or forgets it.
    pub(crate) fn set_attachment(&mut self, key: &Key, object: Option<&Value>) {
        let Some(object) = object else {
            self.attachments.remove(&*key.name);
            return;
        };
        let entry = (
            object.text(&["spec", "nodeName"]).to_owned(),
            object.text(&["spec", "attacher"]).to_owned(),
            object.text(&["spec", "source", "persistentVolumeName"]).to_owned(),
        );
        self.attachments.insert(key.name.to_string(), entry);
    }

    /// A pod with claims comes to a node (1) or goes (-1).
    pub(crate) fn use_claims(&mut self, claims: &[String], by: i32) {
        for claim in claims {
            let count = self.in_use.entry(claim.clone()).or_insert(0);
            *count = count.saturating_add_signed(by);
            if *count == 0 {
                self.in_use.remove(claim);
            }
        }
    }

    /// The claims of a pod.
    pub(crate) fn claims_of(class: &Class, namespace: &str, pod: &str) -> Vec<String> {
        let name = |claim: &ClaimRef| match claim {
            ClaimRef::Named(name) => format!("{namespace}/{name}"),
            ClaimRef::Ephemeral(volume) => format!("{namespace}/{pod}-{volume}"),
        };
        class.claims.iter().map(name).collect()
    }

    /// Whether all claims of a pod are bound; `None` if one has been taken from the node it was meant for.
    pub(crate) fn all_bound(&self, claims: &[String], node: &str) -> Option<bool> {
        let mut all = true;
        for name in claims {
            let claim = self.claims.get(name)?;
            if claim.complete && !claim.volume.is_empty() {
                continue;
            }
            all = false;
            let matched = self.volumes.values().any(|volume| is_for(volume, name, claim) == Some(true));
            if !matched && claim.selected_node.as_deref() != Some(node) {
                return None;
            }
        }
        Some(all)
    }

    /// What an attempt needs to know of a pod's claims.
    pub(crate) fn prepare(
        &self,
        class: &Class,
        claims: &[String],
        uid: &str,
    ) -> Result<PodVolumes, Objection> {
        let mut out = PodVolumes { claims: claims.to_vec(), ..PodVolumes::default() };
        for (name, reference) in claims.iter().zip(&class.claims) {
            if matches!(reference, ClaimRef::Ephemeral(_)) {
                continue;
            }
            let Some(claim) = self.claims.get(name) else {
                return Err(Objection::Unschedulable(format!(
                    "persistentvolumeclaim {:?} not found",
                    short(name)
                )));
            };
            if claim.modes.iter().any(|mode| mode == "ReadWriteOncePod") && self.in_use.contains_key(name) {
                out.taken.push(name.clone());
            }
        }
        for (name, reference) in claims.iter().zip(&class.claims) {
            let ephemeral = matches!(reference, ClaimRef::Ephemeral(_));
            let Some(claim) = self.claims.get(name) else {
                return Err(Objection::Unschedulable(format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {:?}",
                    short(name)
                )));
            };
            let short = short(name);
            if claim.lost {
                let volume = &claim.volume;
                return Err(Objection::Unschedulable(format!(
                    "persistentvolumeclaim {short:?} bound to non-existent persistentvolume {volume:?}"
                )));
            }
            if claim.deleting {
                return Err(Objection::Unschedulable(format!(
                    "persistentvolumeclaim {short:?} is being deleted"
                )));
            }
            if ephemeral && claim.owner != uid {
                let (namespace, _) = name.split_once('/').unwrap_or_default();
                return Err(Objection::Error(format!(
                    "PVC {namespace}/{short} was not created for pod (pod is not owner)"
                )));
            }
        }
        self.sort_claims(&mut out)?;
        self.find_zones(&mut out)?;
        Ok(out)
    }

    fn sort_claims(&self, out: &mut PodVolumes) -> Result<(), Objection> {
        let mut immediate = false;
        for name in out.claims.clone() {
            let Some(claim) = self.claims.get(&name) else { continue };
            let class = self.classes.get(&claim.class);
            if claim.complete && !claim.volume.is_empty() {
                out.bound.push(claim.volume.clone());
            } else if class.is_some_and(|class| class.waits) && claim.volume.is_empty() {
                out.waiting.push(name.clone());
            } else {
                immediate = true;
            }
            let attached = match self.volumes.get(&claim.volume).and_then(|volume| volume.handle.clone()) {
                Some((driver, handle)) => Some((format!("{driver}/{handle}"), driver)),
                None if claim.volume.is_empty() => {
                    let provisioner = class.map(|class| class.provisioner.clone());
                    provisioner
                        .filter(|driver| driver != NO_PROVISIONER)
                        .map(|driver| (format!("{driver}/{name}"), driver))
                }
                None => None,
            };
            out.attaches.extend(attached);
        }
        if immediate {
            return Err(Objection::Unschedulable(
                "pod has unbound immediate PersistentVolumeClaims".to_owned(),
            ));
        }
        out.waiting.sort_by_key(|name| self.claims.get(name).map_or(0, |claim| claim.request));
        Ok(())
    }

    fn find_zones(&self, out: &mut PodVolumes) -> Result<(), Objection> {
        for name in &out.bound {
            let Some(volume) = self.volumes.get(name) else {
                return Err(Objection::Unschedulable(format!("persistentvolume {name:?} not found")));
            };
            out.zones.extend(volume.zones.iter().cloned());
        }
        Ok(())
    }

    /// Whether a node can attach what a pod brings, given the claims of the pods that are there.
    pub(crate) fn attaches<'a>(
        &self,
        pod: &PodVolumes,
        node: &str,
        there: impl Iterator<Item = &'a String>,
    ) -> bool {
        let Some(limits) = self.limits.get(node).filter(|limits| !limits.is_empty()) else { return true };
        if pod.attaches.is_empty() {
            return true;
        }
        let mut attached: BTreeMap<String, String> = BTreeMap::new();
        for name in there {
            let Some(claim) = self.claims.get(name) else { continue };
            let bound = self.volumes.get(&claim.volume).and_then(|volume| volume.handle.clone());
            if let Some((driver, handle)) = bound {
                attached.insert(format!("{driver}/{handle}"), driver);
            } else if let Some(class) = self.classes.get(&claim.class)
                && claim.volume.is_empty()
            {
                attached.insert(format!("{}/{name}", class.provisioner), class.provisioner.clone());
            }
        }
        for (_, driver, volume) in self.attachments.values().filter(|(at, ..)| at == node) {
            if let Some((driver, handle)) = self.volumes.get(volume).and_then(|volume| volume.handle.clone())
            {
                attached.insert(format!("{driver}/{handle}"), driver);
            } else {
                attached.insert(format!("{driver}/{volume}"), driver.clone());
            }
        }
        limits.iter().all(|(driver, limit)| {
            let before = attached.values().filter(|other| *other == driver).count();
            let new =
                pod.attaches.iter().filter(|(name, other)| *other == driver && !attached.contains_key(*name));
            filter::volumes_ok(before, new.count(), *limit)
        })
    }

    /// What keeps a node from a pod's volumes, and what binding there would do.
    pub(crate) fn reach(&self, names: &Names, pod: &PodVolumes, site: Site) -> (Unreachable, Binding) {
        let (mut why, mut binding) = (Unreachable::default(), Binding::default());
        for name in &pod.bound {
            match self.volumes.get(name) {
                None => {
                    why.volume_missing = true;
                    break;
                }
                Some(volume) if !reaches(names, volume, site) => {
                    why.node_conflict = true;
                    break;
                }
                Some(_) => {}
            }
        }
        let mut chosen: BTreeSet<&str> = BTreeSet::new();
        let mut provision: Vec<&str> = Vec::new();
        for name in &pod.waiting {
            let Some(claim) = self.claims.get(name) else { continue };
            match &claim.selected_node {
                Some(node) if node != site.name => {
                    why.bind_conflict = true;
                    return (why, binding);
                }
                Some(_) => provision.push(name),
                None => match self.find(names, name, claim, site, &chosen) {
                    Some(volume) => {
                        chosen.insert(volume);
                        binding.matched.push((name.clone(), volume.to_owned()));
                    }
                    None => provision.push(name),
                },
            }
        }
        for name in provision {
            let class = self.claims.get(name).and_then(|claim| self.classes.get(&claim.class));
            let provisions = class.is_some_and(|class| {
                !class.provisioner.is_empty()
                    && class.provisioner != NO_PROVISIONER
                    && (class.topologies.is_empty() || class.topologies.iter().any(|term| within(term, site)))
            });
            if provisions {
                binding.provisioned.push(name.to_owned());
            } else {
                why.bind_conflict = true;
            }
        }
        (why, binding)
    }

    fn find<'v>(
        &'v self,
        names: &Names,
        name: &str,
        claim: &Claim,
        site: Site,
        chosen: &BTreeSet<&str>,
    ) -> Option<&'v str> {
        let mut best: Option<(&str, i128)> = None;
        for (volume_name, volume) in &self.volumes {
            let own = is_for(volume, name, claim);
            let fits = !chosen.contains(volume_name.as_str())
                && own != Some(false)
                && volume.capacity >= claim.request
                && volume.block == claim.block
                && !volume.deleting;
            if !fits {
                continue;
            }
            let reached = reaches(names, volume, site);
            if own == Some(true) {
                return reached.then_some(volume_name);
            }
            let matches = volume.available
                && claim.selector.as_ref().is_none_or(|selector| selector.matches(names, &volume.labels))
                && volume.class == claim.class
                && reached
                && claim.modes.iter().all(|mode| volume.modes.contains(mode));
            if matches && best.is_none_or(|(_, smallest)| volume.capacity < smallest) {
                best = Some((volume_name, volume.capacity));
            }
        }
        best.map(|(name, _)| name)
    }

    /// Whether a node is in the zones of a pod's volumes. A node without any zone label is in all of them.
    pub(crate) fn in_zone(&self, names: &Names, pod: &PodVolumes, site: Site) -> bool {
        if pod.zones.is_empty() || !self.topology.iter().any(|key| value_of(site.labels, *key).is_some()) {
            return true;
        }
        pod.zones.iter().all(|(label, stable, values)| {
            let found = value_of(site.labels, *label).map(|value| names.value_text(*label, value));
            let found = found
                .or_else(|| value_of(site.labels, *stable).map(|value| names.value_text(*stable, value)));
            found.is_some_and(|value| values.iter().any(|other| other == value))
        })
    }

    /// The changes that begin a binding.
    pub(crate) fn writes(&self, binding: &Binding, node: &str) -> Vec<Write> {
        let mut out = Vec::new();
        for (name, volume) in &binding.matched {
            let Some(claim) = self.claims.get(name) else { continue };
            let (namespace, short) = name.split_once('/').unwrap_or_default();
            let reference = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": namespace, "name": short, "uid": claim.uid,
            });
            let patch = json!({
                "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {"claimRef": reference},
            });
            out.push(Write::merge(Key::new(Kind::PersistentVolume, "", volume), patch));
        }
        for name in &binding.provisioned {
            let already =
                self.claims.get(name).and_then(|claim| claim.selected_node.as_deref()) == Some(node);
            let (namespace, short) = name.split_once('/').unwrap_or_default();
            let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
            if !already {
                out.push(Write::merge(Key::new(Kind::PersistentVolumeClaim, namespace, short), patch));
            }
        }
        out
    }
}

/// Whether a volume is for a claim: `None` if it is for nobody yet.
fn is_for(volume: &Volume, name: &str, claim: &Claim) -> Option<bool> {
    let (namespace, short, uid) = volume.claim.as_ref()?;
    Some(name == format!("{namespace}/{short}") && (uid.is_empty() || *uid == claim.uid))
}

fn reaches(names: &Names, volume: &Volume, site: Site) -> bool {
    let matches = |term: &NodeTerm| term.matches(names, site.name, site.labels);
    volume.terms.as_ref().is_none_or(|terms| terms.iter().any(matches))
}

fn within(term: &[(KeyId, Vec<ValueId>)], site: Site) -> bool {
    term.iter().all(|(key, values)| value_of(site.labels, *key).is_some_and(|value| values.contains(&value)))
}

fn class_name(object: &Value) -> String {
    let old = object.annotation("volume.beta.kubernetes.io/storage-class");
    old.unwrap_or_else(|| object.text(&["spec", "storageClassName"])).to_owned()
}

fn amount(text: &str) -> i128 {
    Quantity::parse(text).map_or(0, |quantity| quantity.nano_saturating())
}

fn texts(list: &[Value]) -> Vec<String> {
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn short(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, short)| short)
}
