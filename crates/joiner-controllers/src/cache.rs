//! The cluster as the controllers know it: objects by name, each at the newest version seen.
//!
//! Objects come from watches and from the answers to our own writes, in any order. A version already known to be past is dropped,
//! and an object whose end was seen does not come back, so after a write the cache holds it at once and never forgets it again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use joiner_api::names::NODEPOOL_LABEL;
use joiner_api::nodepool::NodeClassReference;
use joiner_api::{NodeClaim, NodeOverlay, NodePool};
use joiner_provider::{GroupKind, ListedGroup, NodeGroup, NodeGroupKey};
use joiner_state::machines::{ClaimKey, NodeKey, is_machine_of};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::Event;

use crate::claims;
use crate::node_groups::NodeGroupTable;
use crate::pods::{CachedPod, CommonParts};
use crate::watch_health::WatchFailure;

/// Ends remembered per kind. An answer to a write is never so many deletions late.
const REMEMBERED: usize = 4096;

/// What a [`Store`] asks of an object.
pub trait Cached {
    /// Its name, with the namespace in front where there is one.
    fn key(&self) -> String;
    /// Its uid, if it has one.
    fn uid(&self) -> Option<&str>;
    /// Versions count up; one that is no number is taken as new.
    fn version(&self) -> Option<u64>;
}

impl<K: kube::Resource> Cached for K {
    fn key(&self) -> String {
        key_of(self)
    }

    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    fn version(&self) -> Option<u64> {
        self.meta().resource_version.as_deref()?.parse().ok()
    }
}

impl Cached for CachedPod {
    fn key(&self) -> String {
        CachedPod::key(self)
    }

    fn uid(&self) -> Option<&str> {
        Some(&*self.uid).filter(|uid| !uid.is_empty())
    }

    fn version(&self) -> Option<u64> {
        self.version
    }
}

/// Objects of one kind.
#[derive(Debug)]
pub struct Store<K> {
    objects: BTreeMap<String, Arc<K>>,
    /// While a list comes in: the keys that are not to be dropped at its end.
    listing: Option<BTreeSet<String>>,
    filled: bool,
    ended: BTreeSet<String>,
    ended_order: VecDeque<String>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            listing: None,
            filled: false,
            ended: BTreeSet::new(),
            ended_order: VecDeque::new(),
        }
    }
}

/// What became of an object.
#[derive(Debug)]
pub struct Change<K> {
    /// Its key.
    pub key: String,
    /// Before.
    pub old: Option<Arc<K>>,
    /// Now; `None` = gone.
    pub new: Option<Arc<K>>,
    /// It was part of a list: nothing has happened to it just now.
    pub listed: bool,
}

impl<K: Cached> Store<K> {
    /// An object by its key: the name, with the namespace in front where there is one.
    pub fn get(&self, key: &str) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// All objects, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Arc<K>)> {
        self.objects.iter()
    }

    /// All objects, by key.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// The objects of a namespace, by key.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        // The next character after the slash ends the range.
        self.objects.range(format!("{namespace}/")..format!("{namespace}0")).map(|(_, object)| object)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether a whole list has been seen.
    pub fn is_filled(&self) -> bool {
        self.filled
    }

    /// There is nothing to wait for.
    pub fn set_absent(&mut self) {
        self.filled = true;
    }

    /// Takes in what a watch tells.
    pub fn observe(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listing = Some(BTreeSet::new());
                Vec::new()
            }
            Event::InitApply(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(object.key());
                }
                self.put(object, true).into_iter().collect()
            }
            Event::InitDone => {
                self.filled = true;
                let Some(listed) = self.listing.take() else { return Vec::new() };
                let lost: Vec<String> =
                    self.objects.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                lost.into_iter().filter_map(|key| self.take(key)).collect()
            }
            Event::Apply(object) => self.put(object, false).into_iter().collect(),
            Event::Delete(object) => {
                self.remember(object.uid());
                let key = object.key();
                let same = self.objects.get(&key).is_some_and(|have| have.uid() == object.uid());
                if same { self.take(key).into_iter().collect() } else { Vec::new() }
            }
        }
    }

    /// Takes in the answer to a write of ours.
    pub fn written(&mut self, object: K) -> Option<Change<K>> {
        if let Some(listing) = &mut self.listing {
            // The list under way may be older than the write.
            listing.insert(object.key());
        }
        self.put(object, false)
    }

    fn put(&mut self, object: K, listed: bool) -> Option<Change<K>> {
        if object.uid().is_some_and(|uid| self.ended.contains(uid)) {
            return None;
        }
        let key = object.key();
        if let Some(have) = self.objects.get(&key)
            && have.uid() == object.uid()
            && object.version().zip(have.version()).is_some_and(|(new, have)| new <= have)
        {
            return None;
        }
        let new = Arc::new(object);
        let old = self.objects.insert(key.clone(), new.clone());
        Some(Change { key, old, new: Some(new), listed })
    }

    fn take(&mut self, key: String) -> Option<Change<K>> {
        let old = self.objects.remove(&key)?;
        self.remember(old.uid());
        Some(Change { key, old: Some(old), new: None, listed: false })
    }

    fn remember(&mut self, uid: Option<&str>) {
        let Some(uid) = uid else { return };
        if self.ended.insert(uid.to_owned()) {
            self.ended_order.push_back(uid.to_owned());
        }
        if self.ended_order.len() > REMEMBERED
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
}

/// The key of an object: its name, with the namespace in front where there is one.
pub fn key_of<K: ResourceExt>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// What one watch follows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Objects of one of the kinds every cluster has.
    Objects(Kind),
    /// Node classes of a kind that a provider serves.
    Classes(GroupKind),
}

macro_rules! kinds {
    ($($variant:ident, $field:ident, $kind:ty as $kept:ty, $what:literal;)*) => {
        /// Something a watch tells.
        #[derive(Debug)]
        pub enum WatchEvent {
            $(#[doc = $what] $variant(Event<$kind>),)*
            /// Node classes of a kind.
            Class(GroupKind, Event<DynamicObject>),
            /// The machine types of a class have changed.
            Types(NodeClassReference),
            /// Objects cannot be observed.
            WatchFailed(WatchFailure),
            /// They can again.
            WatchRecovered(Watched),
        }

        /// The kinds that are watched.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $(#[doc = $what] $variant,)* }

        /// All objects that matter.
        #[derive(Debug, Default)]
        pub struct ClusterCache {
            $(#[doc = $what] pub $field: Store<$kept>,)*
            /// Node classes by kind; every kind that is followed is in it from the start.
            pub classes: BTreeMap<GroupKind, Store<DynamicObject>>,
            /// Pods by the node they are on.
            pods_on: BTreeMap<String, BTreeSet<String>>,
            /// Nodes by provider id.
            nodes_of: BTreeMap<String, BTreeSet<String>>,
            /// Claims by provider id.
            claims_of: BTreeMap<String, BTreeSet<String>>,
            /// Claims by the node they name.
            claims_naming: BTreeMap<String, BTreeSet<String>>,
            /// Claims by the pods they were made for.
            planned_for: BTreeMap<String, BTreeSet<String>>,
            /// Nodes that go, or whose claim does.
            going: BTreeSet<String>,
            /// Claims by pool.
            claims_in_pool: BTreeMap<String, BTreeSet<String>>,
            /// Attachments of volumes by node.
            attachments_to: BTreeMap<String, BTreeSet<String>>,
            /// Node groups, as their providers have told.
            pub node_groups: NodeGroupTable,
            /// What pods have in common.
            parts: CommonParts,
        }

        impl ClusterCache {
            /// Whether every kind has been listed once.
            pub fn is_filled(&self) -> bool {
                self.classes.values().all(Store::is_filled) $(&& self.$field.is_filled())*
            }

            /// Notes that objects are not waited for: they cannot be observed.
            pub fn set_absent(&mut self, watched: &Watched) {
                match watched {
                    $(Watched::Objects(Kind::$variant) => self.$field.set_absent(),)*
                    Watched::Classes(kind) => self.classes.entry(kind.clone()).or_default().set_absent(),
                }
            }
        }
    };
}

kinds! {
    Pod, pods, Pod as CachedPod, "Pods.";
    Node, nodes, Node as Node, "Nodes.";
    Claim, claims, NodeClaim as NodeClaim, "Claims.";
    Pool, pools, NodePool as NodePool, "Pools.";
    Overlay, overlays, NodeOverlay as NodeOverlay, "Overlays.";
    DaemonSet, daemon_sets, DaemonSet as DaemonSet, "DaemonSets.";
    Budget, budgets, PodDisruptionBudget as PodDisruptionBudget, "PodDisruptionBudgets.";
    Namespace, namespaces, Namespace as Namespace, "Namespaces.";
    Volume, volumes, PersistentVolume as PersistentVolume, "PersistentVolumes.";
    VolumeClaim, volume_claims, PersistentVolumeClaim as PersistentVolumeClaim, "PersistentVolumeClaims.";
    StorageClass, storage_classes, StorageClass as StorageClass, "StorageClasses.";
    PriorityClass, priority_classes, PriorityClass as PriorityClass, "PriorityClasses.";
    CsiNode, csi_nodes, CSINode as CSINode, "CSINodes.";
    Attachment, attachments, VolumeAttachment as VolumeAttachment, "VolumeAttachments.";
}

impl ClusterCache {
    /// Takes in what a watch tells of pods: what is to be kept of them, and a pod that has come or changed as a whole.
    pub fn observe_pod(&mut self, event: Event<Pod>) -> (Vec<Change<CachedPod>>, Option<Box<Pod>>) {
        let (event, whole) = match event {
            Event::Init => (Event::Init, None),
            Event::InitDone => (Event::InitDone, None),
            Event::InitApply(pod) => (Event::InitApply(self.cached(&pod)), Some(Box::new(pod))),
            Event::Apply(pod) => (Event::Apply(self.cached(&pod)), Some(Box::new(pod))),
            Event::Delete(pod) => (Event::Delete(self.cached(&pod)), None),
        };
        (self.pods.observe(event), whole)
    }

    fn cached(&mut self, pod: &Pod) -> CachedPod {
        let mut pod = CachedPod::new(pod);
        self.parts.share(&mut pod);
        pod
    }

    /// Keeps the index of pods by node.
    pub fn index_pod(&mut self, change: &Change<CachedPod>) {
        let node = |pod: &Arc<CachedPod>| pod.node.as_deref().map(str::to_owned);
        let (old, new) = (change.old.as_ref().and_then(node), change.new.as_ref().and_then(node));
        reindex(&mut self.pods_on, old, new, &change.key);
    }

    /// Keeps the index of nodes by provider id.
    pub fn index_node(&mut self, change: &Change<Node>) {
        let id = |node: &Arc<Node>| node.spec.as_ref()?.provider_id.clone().filter(|id| !id.is_empty());
        let (old, new) = (change.old.as_ref().and_then(id), change.new.as_ref().and_then(id));
        let ids: BTreeSet<String> = old.iter().chain(&new).cloned().collect();
        reindex(&mut self.nodes_of, old, new, &change.key);
        self.follow_going(&change.key);
        for id in ids {
            let is_there = self.nodes_of.contains_key(&id);
            self.node_groups.node_changed(&id, is_there, has_joined(&self.nodes_of, &self.nodes, &id));
        }
    }

    /// Takes in what a provider tells of its node groups; whether that changes anything.
    pub fn take_groups(&mut self, provider: &str, listed: Vec<ListedGroup>) -> bool {
        let (index, nodes) = (&self.nodes_of, &self.nodes);
        self.node_groups.take_list(provider, listed, |id| has_joined(index, nodes, id))
    }

    /// Takes in one group as it is now.
    pub fn take_group(&mut self, key: NodeGroupKey, group: NodeGroup) {
        let (index, nodes) = (&self.nodes_of, &self.nodes);
        self.node_groups.take(key, group, |id| has_joined(index, nodes, id));
    }

    /// Keeps the index of claims by provider id.
    pub fn index_claim(&mut self, change: &Change<NodeClaim>) {
        let id =
            |claim: &Arc<NodeClaim>| claim.status.as_ref()?.provider_id.clone().filter(|id| !id.is_empty());
        let (old, new) = (change.old.as_ref().and_then(id), change.new.as_ref().and_then(id));
        reindex(&mut self.claims_of, old, new, &change.key);
        let named = |claim: &Arc<NodeClaim>| claim.status.as_ref()?.node_name.clone();
        let (old, new) = (change.old.as_ref().and_then(named), change.new.as_ref().and_then(named));
        reindex(&mut self.claims_naming, old, new, &change.key);
        let pool = |claim: &Arc<NodeClaim>| claim.labels().get(NODEPOOL_LABEL).cloned();
        let (old, new) = (change.old.as_ref().and_then(pool), change.new.as_ref().and_then(pool));
        reindex(&mut self.claims_in_pool, old, new, &change.key);
        for claim in change.old.iter().chain(&change.new) {
            let nodes: Vec<String> = self.nodes_of(claim).into_iter().map(|node| node.name_any()).collect();
            nodes.iter().for_each(|node| self.follow_going(node));
        }
        let planned = |claim: &Option<Arc<NodeClaim>>| -> BTreeSet<String> {
            claim.iter().flat_map(|claim| claims::planned_pods(claim)).map(str::to_owned).collect()
        };
        let (old, new) = (planned(&change.old), planned(&change.new));
        for uid in old.difference(&new) {
            reindex(&mut self.planned_for, Some(uid.clone()), None, &change.key);
        }
        for uid in new.difference(&old) {
            reindex(&mut self.planned_for, None, Some(uid.clone()), &change.key);
        }
    }

    /// Takes in what a watch tells of attachments, with their index by node.
    pub fn observe_attachment(&mut self, event: Event<VolumeAttachment>) {
        for change in self.attachments.observe(event) {
            let node = |of: &Arc<VolumeAttachment>| Some(of.spec.node_name.clone());
            let (old, new) = (change.old.as_ref().and_then(node), change.new.as_ref().and_then(node));
            reindex(&mut self.attachments_to, old, new, &change.key);
        }
    }

    fn follow_going(&mut self, name: &str) {
        let going = self.nodes.get(name).is_some_and(|node| {
            let claim = self.claim_of(node);
            node.metadata.deletion_timestamp.is_some()
                || claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
        });
        if going {
            self.going.insert(name.to_owned());
        } else {
            self.going.remove(name);
        }
    }

    /// Nodes that go, or whose claim does, by name.
    pub fn going(&self) -> impl Iterator<Item = &str> {
        self.going.iter().map(String::as_str)
    }

    /// Claims that were made for a pod, by name.
    pub fn planned_for<'w>(
        &'w self,
        uid: &str,
    ) -> impl DoubleEndedIterator<Item = &'w Arc<NodeClaim>> + use<'w> {
        self.planned_for.get(uid).into_iter().flatten().filter_map(|name| self.claims.get(name))
    }

    /// Attachments of volumes to a node.
    pub fn attachments_to(&self, node: &str) -> impl Iterator<Item = &Arc<VolumeAttachment>> {
        self.attachments_to.get(node).into_iter().flatten().filter_map(|name| self.attachments.get(name))
    }

    /// Claims of a pool, by name.
    pub fn claims_in_pool(&self, pool: &str) -> impl Iterator<Item = &Arc<NodeClaim>> {
        self.claims_in_pool.get(pool).into_iter().flatten().filter_map(|name| self.claims.get(name))
    }

    /// Pods on a node.
    pub fn pods_on<'w>(&'w self, node: &str) -> impl Iterator<Item = &'w Arc<CachedPod>> + use<'w> {
        self.pods_on.get(node).into_iter().flatten().filter_map(|key| self.pods.get(key))
    }

    /// Nodes of a claim.
    pub fn nodes_of(&self, claim: &NodeClaim) -> Vec<&Arc<Node>> {
        let key = claim_key(claim);
        let mut names: BTreeSet<&str> = key.node_name.into_iter().collect();
        let same = key.provider_id.and_then(|id| self.nodes_of.get(id));
        names.extend(same.into_iter().flatten().map(String::as_str));
        let nodes = names.into_iter().filter_map(|name| self.nodes.get(name));
        nodes.filter(|node| is_machine_of(key, node_key(node))).collect()
    }

    /// Whether a claim names this provider id.
    pub fn has_claim_with_id(&self, id: &str) -> bool {
        self.claims_of.contains_key(id)
    }

    /// Nodes with a provider id.
    pub fn nodes_with_id<'w>(&'w self, id: &str) -> impl Iterator<Item = &'w Arc<Node>> + use<'w> {
        self.nodes_of.get(id).into_iter().flatten().filter_map(|name| self.nodes.get(name))
    }

    /// Claims of a node.
    pub fn claims_of(&self, node: &Node) -> Vec<&Arc<NodeClaim>> {
        let key = node_key(node);
        let same = key.provider_id.and_then(|id| self.claims_of.get(id));
        let naming = self.claims_naming.get(key.name);
        let names: BTreeSet<&String> = same.into_iter().chain(naming).flatten().collect();
        let claims = names.into_iter().filter_map(|name| self.claims.get(name));
        claims.filter(|claim| is_machine_of(claim_key(claim), key)).collect()
    }

    /// The one claim of a node.
    pub fn claim_of(&self, node: &Node) -> Option<&Arc<NodeClaim>> {
        match self.claims_of(node).as_slice() {
            [claim] => Some(claim),
            _ => None,
        }
    }
}

/// Whether a machine has a Node that has been up: it says that it is ready, or it no longer says anything. One that is still starting holds no pods
/// yet, and its place in the group stands for it.
fn has_joined(index: &BTreeMap<String, BTreeSet<String>>, nodes: &Store<Node>, id: &str) -> bool {
    let nodes = index.get(id).into_iter().flatten().filter_map(|name| nodes.get(name));
    let conditions = nodes.filter_map(|node| node.status.as_ref()?.conditions.as_ref()).flatten();
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.any(|condition| match condition.status.as_str() {
        "True" => true,
        "Unknown" => condition.reason.as_deref() != Some("NodeStatusNeverUpdated"),
        _ => false,
    })
}

fn claim_key(claim: &NodeClaim) -> ClaimKey<'_> {
    let status = claim.status.as_ref();
    ClaimKey {
        name: claim.metadata.name.as_deref().unwrap_or_default(),
        provider_id: status.and_then(|status| status.provider_id.as_deref()),
        node_name: status.and_then(|status| status.node_name.as_deref()),
    }
}

fn node_key(node: &Node) -> NodeKey<'_> {
    NodeKey {
        name: node.metadata.name.as_deref().unwrap_or_default(),
        provider_id: node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()),
    }
}

fn reindex(
    index: &mut BTreeMap<String, BTreeSet<String>>,
    old: Option<String>,
    new: Option<String>,
    key: &str,
) {
    if old == new {
        return;
    }
    if let Some(old) = old
        && let Some(keys) = index.get_mut(&old)
    {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(&old);
        }
    }
    if let Some(new) = new {
        index.entry(new).or_default().insert(key.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str, version: u64) -> CachedPod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.namespace = Some("default".to_owned());
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.resource_version = Some(version.to_string());
        CachedPod::new(&pod)
    }

    #[test]
    fn a_namespace_is_not_the_one_whose_name_is_longer() {
        let mut store = Store::default();
        for (number, namespace) in ["a", "a-b", "a0", "b"].into_iter().enumerate() {
            let mut pod = Pod::default();
            pod.metadata.name = Some("web".to_owned());
            pod.metadata.namespace = Some(namespace.to_owned());
            pod.metadata.uid = Some(number.to_string());
            store.observe(Event::Apply(CachedPod::new(&pod)));
        }
        let keys = |namespace: &str| store.in_namespace(namespace).map(|pod| pod.key()).collect::<Vec<_>>();
        assert_eq!(keys("a"), ["a/web"]);
        assert_eq!(keys("a-b"), ["a-b/web"]);
        assert!(keys("c").is_empty());
    }

    fn names(store: &Store<CachedPod>) -> Vec<&str> {
        store.iter().map(|(key, _)| key.as_str()).collect()
    }

    #[test]
    fn an_older_version_does_not_come_back() {
        let mut store = Store::default();
        assert!(store.written(pod("a", "1", 7)).is_some());
        assert!(store.observe(Event::Apply(pod("a", "1", 5))).is_empty());
        assert!(store.observe(Event::Apply(pod("a", "1", 7))).is_empty());
        assert_eq!(store.observe(Event::Apply(pod("a", "1", 8))).len(), 1);
    }

    #[test]
    fn what_has_ended_stays_gone() {
        let mut store = Store::default();
        store.observe(Event::Delete(pod("a", "1", 9)));
        assert!(store.written(pod("a", "1", 8)).is_none(), "an answer that came late");
        assert!(store.written(pod("a", "2", 10)).is_some(), "another object of that name");
        assert!(store.observe(Event::Delete(pod("a", "1", 11))).is_empty());
        assert_eq!(names(&store), ["default/a"]);
    }

    #[test]
    fn a_new_list_drops_what_it_lacks_but_not_what_was_written_meanwhile() {
        let mut store = Store::default();
        store.observe(Event::Apply(pod("old", "1", 1)));
        store.observe(Event::Apply(pod("kept", "2", 2)));
        store.observe(Event::Init);
        store.observe(Event::InitApply(pod("kept", "2", 2)));
        store.written(pod("ours", "3", 5));
        assert!(!store.is_filled());
        let changes = store.observe(Event::InitDone);
        assert_eq!((changes.len(), changes[0].key.as_str()), (1, "default/old"));
        assert!(store.is_filled());
        assert_eq!(names(&store), ["default/kept", "default/ours"]);
    }
}
