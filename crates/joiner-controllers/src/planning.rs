//! The cluster as planning sees it, kept up to date change by change: a decision costs what has changed since the last one, not what the
//! cluster holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_api::instance_type::InstanceType;
use joiner_api::nodepool::NodeClassReference;
use joiner_api::{NodeClaim, NodeOverlay};
use joiner_core::model::Snapshot;
use joiner_provider::{NodeGroup, NodeGroupKey, TypeSet, Unavailable};
use joiner_state::{Cluster, Options, PodIntent, Problem};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::ResourceExt;

use crate::cache::{Change, ClusterCache};
use crate::group_planning::{class_of, offering_of, pool_of, type_of};
use crate::node_groups::upcoming_name;
use crate::offerings::{unavailable, with_stock};
use crate::pods::{self, CachedPod};
use crate::provision::{self, Context};
use crate::steps::nodepools;

/// What planning knows.
#[derive(Debug)]
pub struct Planning {
    cluster: Cluster,
    /// Pods that were to be planned for, or expected somewhere, at the last decision.
    intended: BTreeSet<String>,
    /// By class: the generation of its types, and the offerings that were left out.
    types: BTreeMap<NodeClassReference, (u64, Unavailable)>,
    pools: BTreeSet<String>,
    /// Node groups as they were lowered: whether each may grow, and its machines that are still to come.
    node_groups: BTreeMap<NodeGroupKey, (Arc<NodeGroup>, bool, u32)>,
    /// What overlays make of the types of pools, as the cluster and as providers have it.
    overlaid: BTreeMap<String, (Arc<[InstanceType]>, Arc<TypeSet>)>,
    /// Objects that cannot be read, and why.
    problems: BTreeMap<String, String>,
}

impl Planning {
    /// Nothing known yet.
    pub fn new(respect_preferences: bool) -> Self {
        let options = Options { respect_preferences, note_duplicates: false, ..Options::default() };
        Self {
            cluster: Cluster::new(options),
            intended: BTreeSet::new(),
            types: BTreeMap::new(),
            pools: BTreeSet::new(),
            node_groups: BTreeMap::new(),
            overlaid: BTreeMap::new(),
            problems: BTreeMap::new(),
        }
    }

    /// A pod has changed. One that waits is left out until somebody asks for it.
    pub fn pod(&mut self, change: &Change<CachedPod>, whole: Option<&Pod>) {
        self.follow("Pod", &change.key, whole, Cluster::add_pod, Cluster::remove_pod);
        if change.new.as_deref().is_some_and(|pod| pods::node_name(pod).is_none()) {
            let is_new = change.old.as_ref().map(|pod| &pod.uid) != change.new.as_ref().map(|pod| &pod.uid);
            if is_new || !self.intended.contains(&change.key) {
                self.cluster.intend(&change.key, PodIntent::LeftOut);
            }
        }
    }

    /// A node has changed.
    pub fn node(&mut self, change: &Change<Node>) {
        let remove = |cluster: &mut Cluster, _: &str, name: &str| cluster.remove_node(name);
        self.follow("Node", &change.key, change.new.as_deref(), Cluster::add_node, remove);
    }

    /// A claim has changed.
    pub fn claim(&mut self, change: &Change<NodeClaim>) {
        let remove = |cluster: &mut Cluster, _: &str, name: &str| cluster.remove_nodeclaim(name);
        self.follow("NodeClaim", &change.key, change.new.as_deref(), Cluster::add_nodeclaim, remove);
    }

    /// Overlays have changed.
    pub fn overlays(&mut self, changes: &[Change<NodeOverlay>]) {
        let remove = |cluster: &mut Cluster, _: &str, name: &str| cluster.remove_node_overlay(name);
        self.follow_all("NodeOverlay", changes, Cluster::add_node_overlay, remove);
    }

    /// DaemonSets have changed.
    pub fn daemon_sets(&mut self, changes: &[Change<DaemonSet>]) {
        self.follow_all("DaemonSet", changes, Cluster::add_daemonset, Cluster::remove_daemonset);
    }

    /// Namespaces have changed.
    pub fn namespaces(&mut self, changes: &[Change<Namespace>]) {
        let remove = |cluster: &mut Cluster, _: &str, name: &str| cluster.remove_namespace(name);
        self.follow_all("Namespace", changes, Cluster::add_namespace, remove);
    }

    /// Volumes have changed.
    pub fn volumes(&mut self, changes: &[Change<PersistentVolume>]) {
        let remove = |cluster: &mut Cluster, _: &str, name: &str| cluster.remove_persistent_volume(name);
        self.follow_all("PersistentVolume", changes, Cluster::add_persistent_volume, remove);
    }

    /// Volume claims have changed.
    pub fn volume_claims(&mut self, changes: &[Change<PersistentVolumeClaim>]) {
        let (add, remove) = (Cluster::add_persistent_volume_claim, Cluster::remove_persistent_volume_claim);
        self.follow_all("PersistentVolumeClaim", changes, add, remove);
    }

    /// Storage classes have changed.
    pub fn storage_classes(&mut self, changes: &[Change<StorageClass>]) {
        let remove = |cluster: &mut Cluster, _: &str, name: &str| cluster.remove_storage_class(name);
        self.follow_all("StorageClass", changes, Cluster::add_storage_class, remove);
    }

    /// Priority classes have changed.
    pub fn priority_classes(&mut self, changes: &[Change<PriorityClass>]) {
        let remove = |cluster: &mut Cluster, _: &str, name: &str| cluster.remove_priority_class(name);
        self.follow_all("PriorityClass", changes, Cluster::add_priority_class, remove);
    }

    /// What drivers say of nodes has changed.
    pub fn csi_nodes(&mut self, changes: &[Change<CSINode>]) {
        let remove = |cluster: &mut Cluster, _: &str, name: &str| cluster.remove_csi_node(name);
        self.follow_all("CSINode", changes, Cluster::add_csi_node, remove);
    }

    fn follow_all<K: ResourceExt>(
        &mut self,
        kind: &str,
        changes: &[Change<K>],
        add: impl Fn(&mut Cluster, &K) -> Result<(), Problem>,
        remove: impl Fn(&mut Cluster, &str, &str),
    ) {
        for change in changes {
            self.follow(kind, &change.key, change.new.as_deref(), &add, &remove);
        }
    }

    /// An object that cannot be read counts as if it were not there, and its problem is told.
    fn follow<K>(
        &mut self,
        kind: &str,
        key: &str,
        new: Option<&K>,
        add: impl Fn(&mut Cluster, &K) -> Result<(), Problem>,
        remove: impl Fn(&mut Cluster, &str, &str),
    ) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let problem = new.and_then(|object| add(&mut self.cluster, object).err());
        if new.is_none() || problem.is_some() {
            remove(&mut self.cluster, namespace, name);
        }
        if problem.is_some() || !self.problems.is_empty() {
            self.note(format!("{kind} {key}"), problem);
        }
    }

    fn note(&mut self, object: String, problem: Option<Problem>) {
        match problem {
            Some(problem) => drop(self.problems.insert(object, problem.to_string())),
            None if self.problems.is_empty() => {}
            None => drop(self.problems.remove(&object)),
        }
    }

    /// Objects that are left out because they cannot be read.
    pub fn problems(&self) -> impl Iterator<Item = &String> {
        self.problems.values()
    }

    /// The cluster as it is, with these pods waiting and those expected where they were told to go.
    pub fn snapshot(
        &mut self,
        cache: &ClusterCache,
        waiting: &[Arc<CachedPod>],
        context: &Context,
    ) -> Arc<Snapshot> {
        self.renew_types(cache, context);
        self.renew_pools(cache, context);
        self.renew_groups(cache, context);
        self.renew_intents(cache, waiting, context);
        self.cluster.snapshot()
    }

    /// The types of pools as overlays make them, by pool; those that see what their provider offers are not in it.
    pub fn overlaid(&mut self, cache: &ClusterCache, context: &Context) -> BTreeMap<String, Arc<TypeSet>> {
        let mut before = std::mem::take(&mut self.overlaid);
        if cache.overlays.values().next().is_none() {
            return BTreeMap::new();
        }
        self.renew_types(cache, context);
        self.renew_pools(cache, context);
        for pool in &self.pools {
            let Some(types) = self.cluster.changed_types_of(pool) else { continue };
            // Hundreds of types are copied only when they have changed.
            let kept = before.remove(pool).filter(|(of, _)| Arc::ptr_eq(of, &types));
            let made = kept.unwrap_or_else(|| {
                let set = TypeSet { types: types.to_vec(), ..TypeSet::default() };
                (types, Arc::new(set))
            });
            self.overlaid.insert(pool.clone(), made);
        }
        self.overlaid.iter().map(|(pool, (_, set))| (pool.clone(), set.clone())).collect()
    }

    /// Whether anything has changed since the last snapshot that could help pods that had no place in it.
    pub fn could_help(&mut self, cache: &ClusterCache, context: &Context) -> bool {
        self.renew_types(cache, context);
        self.renew_pools(cache, context);
        self.renew_groups(cache, context);
        self.cluster.could_help()
    }

    fn renew_types(&mut self, cache: &ClusterCache, context: &Context) {
        let pools = provision::pools(cache, context.registry);
        let classes: BTreeSet<&NodeClassReference> =
            pools.map(|pool| &pool.spec.template.spec.node_class_ref).collect();
        let name_of =
            |class: &NodeClassReference| (class.group.clone(), class.kind.clone(), class.name.clone());
        let gone: Vec<NodeClassReference> =
            self.types.keys().filter(|class| !classes.contains(class)).cloned().collect();
        for class in gone {
            self.types.remove(&class);
            self.cluster.remove_catalogue(&name_of(&class));
        }
        for class in classes {
            let set = context.registry.types(class);
            let state = (set.generation, unavailable(context, class));
            if self.types.get(class) != Some(&state) {
                let types = with_stock(&set, &state.1);
                self.cluster.add_catalogue(Some(name_of(class)), types, &set.well_known);
                self.types.insert(class.clone(), state);
            }
        }
    }

    fn renew_pools(&mut self, cache: &ClusterCache, context: &Context) {
        let pools: Vec<_> = provision::pools(cache, context.registry).collect();
        let classes: BTreeSet<&NodeClassReference> =
            pools.iter().map(|pool| &pool.spec.template.spec.node_class_ref).collect();
        let well_known: BTreeSet<String> =
            classes.into_iter().flat_map(|class| context.registry.types(class).well_known.clone()).collect();
        let mut there = BTreeSet::new();
        for pool in pools {
            let class = provision::class_of(cache, pool);
            let facts = nodepools::Readiness {
                pool,
                class: class.as_deref(),
                class_trouble: context.watches.of_class(&pool.spec.template.spec.node_class_ref),
                well_known: &well_known,
                now: context.now,
            };
            let problem = self.cluster.add_nodepool(&nodepools::with_conditions(&facts)).err();
            if problem.is_some() {
                self.cluster.remove_nodepool(&pool.name_any());
            } else {
                there.insert(pool.name_any());
            }
            self.note(format!("NodePool {}", pool.name_any()), problem);
        }
        for gone in self.pools.difference(&there) {
            self.cluster.remove_nodepool(gone);
        }
        self.pools = there;
    }

    /// A group is a pool with one offering, and its machines that are still to come stand beside the nodes.
    fn renew_groups(&mut self, cache: &ClusterCache, context: &Context) {
        let there: BTreeSet<NodeGroupKey> = cache.node_groups.iter().map(|(key, _)| key.clone()).collect();
        let gone: Vec<NodeGroupKey> =
            self.node_groups.keys().filter(|key| !there.contains(*key)).cloned().collect();
        for key in gone {
            let (class, upcoming) = (class_of(&key), self.node_groups.remove(&key).map_or(0, |of| of.2));
            self.cluster.remove_nodepool(&key.to_string());
            self.cluster.remove_catalogue(&(class.group, class.kind, class.name));
            (1..=upcoming).for_each(|number| self.cluster.remove_upcoming(&upcoming_name(&key, number)));
        }
        for (key, group) in cache.node_groups.iter() {
            let class = class_of(key);
            let out = context.health.unavailable(&key.provider, &class, context.now);
            let can_grow = group.room() > 0 && !out.contains(&offering_of(key, group));
            let upcoming = cache.node_groups.upcoming(key);
            let before = self.node_groups.insert(key.clone(), (group.clone(), can_grow, upcoming));
            let (known, upcoming_before) = match &before {
                Some((of, could_grow, count)) => (Arc::ptr_eq(of, group) && *could_grow == can_grow, *count),
                None => (false, 0),
            };
            if known && upcoming_before == upcoming {
                continue;
            }
            let mut problem = None;
            if !known {
                let types = vec![type_of(key, group, can_grow)];
                self.cluster.add_catalogue(Some((class.group, class.kind, class.name)), types, &[]);
                problem = self.cluster.add_group_pool(&pool_of(key, group)).err();
                if problem.is_some() {
                    self.cluster.remove_nodepool(&key.to_string());
                }
            }
            for number in 1..=upcoming {
                problem =
                    self.cluster.add_upcoming(&upcoming_name(key, number), &group.template).err().or(problem);
            }
            for number in upcoming + 1..=upcoming_before {
                self.cluster.remove_upcoming(&upcoming_name(key, number));
            }
            self.note(format!("node group {key}"), problem);
        }
    }

    fn renew_intents(&mut self, cache: &ClusterCache, waiting: &[Arc<CachedPod>], context: &Context) {
        let mut wanted: BTreeMap<String, PodIntent> = BTreeMap::new();
        for key in context.provisionable {
            let place = cache.pods.get(key).and_then(|pod| context.expected.get(&*pod.uid));
            if let Some(place) = place {
                wanted.insert(key.clone(), PodIntent::Expected(place));
            }
        }
        for pod in waiting {
            let is_bound = pods::node_name(pod).is_some();
            wanted.insert(pod.key(), if is_bound { PodIntent::Moving } else { PodIntent::AsSeen });
        }
        for key in self.intended.iter().filter(|key| !wanted.contains_key(*key)) {
            self.cluster.intend(key, PodIntent::LeftOut);
        }
        for (key, intent) in &wanted {
            self.cluster.intend(key, *intent);
        }
        self.intended = wanted.into_keys().collect();
    }
}
