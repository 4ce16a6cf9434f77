//! What rules look at: pools with the offerings they leave, pods with what they ask for, overlays, nodes.
//!
//! Everything that needs the catalogue's words is worked out here once, so that rules only read.

use std::collections::BTreeMap;

use joiner_api::names::{NODEPOOL_LABEL, node_class_label};
use joiner_api::{CapacityBuffer, NodeOverlay, NodePool};
use joiner_core::model::{Effect, KeyId, Requirement, Taint};
use joiner_manifest::Object;
use k8s_openapi::api::core::v1::Taint as TaintObject;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::input::{Input, Loaded};
use super::pods::{self, PodView};
use super::shelf::{Clause, Offers, Shelf, and_into, is_empty, stable_key};

/// A pool.
#[derive(Debug)]
pub struct PoolView<'i> {
    /// The object, by number.
    pub object: usize,
    /// Its name.
    pub name: &'i str,
    /// The pool itself.
    pub pool: &'i NodePool,
    /// Its requirements, in order.
    pub clauses: Vec<Clause>,
    /// Its template's labels.
    pub labels: Vec<Clause>,
    /// What a fresh machine of it says, by key: requirements, labels, its own name and its class.
    pub template: BTreeMap<KeyId, Requirement>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// The offerings that match all of this.
    pub offers: Offers,
    /// The same, but without requirements that leave nothing: what its limits and `minValues` are held against, so that one mistake
    /// does not hide another.
    pub judged: Offers,
    /// The offerings of its catalogue.
    pub catalogue: Offers,
}

impl PoolView<'_> {
    /// Requirements and labels.
    pub fn all_clauses(&self) -> impl Iterator<Item = &Clause> {
        self.clauses.iter().chain(&self.labels)
    }

    /// The offerings of its catalogue that a requirement leaves.
    pub fn leaves(&self, key: KeyId, requirement: &Requirement, shelf: &Shelf) -> Offers {
        let mut offers = shelf.leaves(key, requirement);
        and_into(&mut offers, &self.catalogue);
        offers
    }

    /// Whether it follows pending pods.
    pub fn is_dynamic(&self) -> bool {
        self.pool.spec.replicas.is_none()
    }
}

/// An overlay.
#[derive(Debug)]
pub struct OverlayView<'i> {
    /// The object, by number.
    pub object: usize,
    /// Its name.
    pub name: &'i str,
    /// The overlay itself.
    pub overlay: &'i NodeOverlay,
    /// Its requirements.
    pub clauses: Vec<Clause>,
}

/// A node that is there.
#[derive(Debug)]
pub struct NodeView {
    /// Its labels under their stable keys.
    pub labels: BTreeMap<KeyId, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
}

/// All that rules look at.
#[derive(Debug)]
pub struct Subject<'i> {
    /// Every object.
    pub objects: &'i [Loaded],
    /// Pools whose requirements can be read.
    pub pools: Vec<PoolView<'i>>,
    /// Whether these are all pools of the input, and there are some: only then can a pod's chances be told.
    pub knows_all_pools: bool,
    /// Pods and templates of pods.
    pub pods: Vec<PodView<'i>>,
    /// Overlays whose requirements can be read.
    pub overlays: Vec<OverlayView<'i>>,
    /// Buffers.
    pub buffers: Vec<(usize, &'i CapacityBuffer)>,
    /// Nodes.
    pub nodes: Vec<NodeView>,
    /// PodDisruptionBudgets.
    pub pod_budgets: Vec<(usize, &'i PodDisruptionBudget)>,
    /// The catalogues.
    pub shelf: Shelf,
}

impl<'i> Subject<'i> {
    /// Looks at the input over catalogues; `number_of` tells which one a pool launches from.
    pub fn new(input: &'i Input, mut shelf: Shelf, number_of: &dyn Fn(&str) -> Option<usize>) -> Self {
        let (mut pools, mut overlays, mut buffers, mut nodes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut all_pools = 0;
        for (object, loaded) in input.objects.iter().enumerate() {
            match &loaded.object {
                Object::NodePool(pool) => {
                    all_pools += 1;
                    if requirements_are_sound(loaded) {
                        let name = pool.metadata.name.as_deref().unwrap_or_default();
                        let catalogue = shelf.part(number_of(name));
                        pools.push(pool_view(object, pool, catalogue, &mut shelf));
                    }
                }
                Object::NodeOverlay(overlay) if requirements_are_sound(loaded) => {
                    overlays.push(OverlayView {
                        object,
                        name: overlay.metadata.name.as_deref().unwrap_or_default(),
                        overlay,
                        clauses: overlay
                            .spec
                            .requirements
                            .iter()
                            .enumerate()
                            .map(|(at, r)| {
                                shelf.clause(
                                    format!("spec.requirements[{at}]"),
                                    &r.key,
                                    &r.operator,
                                    &r.values,
                                )
                            })
                            .collect(),
                    });
                }
                Object::CapacityBuffer(buffer) => buffers.push((object, &**buffer)),
                Object::Node(node) => {
                    let labels = node.metadata.labels.iter().flatten();
                    let spec = node.spec.as_ref();
                    nodes.push(NodeView {
                        labels: labels
                            .map(|(key, value)| (shelf.names.key(stable_key(key)), value.clone()))
                            .collect(),
                        taints: taints(spec.and_then(|spec| spec.taints.as_deref())),
                    });
                }
                _ => {}
            }
        }
        let pods = pods::views(&input.objects, &mut shelf);
        let budgets = input.objects.iter().enumerate();
        let pod_budgets = budgets.filter_map(|(at, loaded)| Some((at, loaded.pod_budget.as_deref()?)));
        Self {
            objects: &input.objects,
            knows_all_pools: all_pools > 0 && pools.len() == all_pools,
            pools,
            pods,
            overlays,
            buffers,
            nodes,
            pod_budgets: pod_budgets.collect(),
            shelf,
        }
    }

    /// The pool of a name.
    pub fn pool(&self, name: &str) -> Option<&PoolView<'i>> {
        self.pools.iter().find(|pool| pool.name == name)
    }
}

/// Whether the API takes the requirements and labels of an object.
fn requirements_are_sound(loaded: &Loaded) -> bool {
    let touches = |path: &str| path.contains("requirements") || path.contains("metadata");
    !loaded.problems.iter().any(|problem| touches(&problem.path))
}

fn pool_view<'i>(object: usize, pool: &'i NodePool, catalogue: Offers, shelf: &mut Shelf) -> PoolView<'i> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let spec = &pool.spec.template.spec;
    let clauses: Vec<Clause> = spec
        .requirements
        .iter()
        .enumerate()
        .map(|(at, r)| {
            let path = format!("spec.template.spec.requirements[{at}]");
            shelf.clause(path, &r.key, &r.operator, &r.values)
        })
        .collect();
    let mut label = |path: String, key: &str, value: &str| shelf.clause(path, key, "In", &[value.to_owned()]);
    let labels: Vec<Clause> = pool
        .spec
        .template
        .metadata
        .labels
        .iter()
        .flatten()
        .map(|(key, value)| label(format!("spec.template.metadata.labels[{key}]"), key, value))
        .collect();
    let class = &spec.node_class_ref;
    let own = [
        label("metadata.name".to_owned(), NODEPOOL_LABEL, name),
        label(
            "spec.template.spec.nodeClassRef".to_owned(),
            &node_class_label(&class.group, &class.kind),
            &class.name,
        ),
    ];
    let mut template: BTreeMap<KeyId, Requirement> = BTreeMap::new();
    for clause in clauses.iter().chain(&labels).chain(&own) {
        let met = match template.get(&clause.key) {
            Some(have) => have.intersect(&clause.requirement, &shelf.names, clause.key),
            None => clause.requirement.clone(),
        };
        template.insert(clause.key, met);
    }
    let (mut offers, mut judged) = (catalogue.clone(), catalogue.clone());
    for (key, requirement) in &template {
        let mut leaves = shelf.leaves(*key, requirement);
        and_into(&mut leaves, &catalogue);
        if requirement.is_empty() {
            offers.fill(false);
        }
        and_into(&mut offers, &leaves);
        if !requirement.is_empty() && !is_empty(&leaves) {
            and_into(&mut judged, &leaves);
        }
    }
    let taints = taints(spec.taints.as_deref());
    PoolView { object, name, pool, clauses, labels, template, taints, offers, judged, catalogue }
}

/// Taints that can be read.
pub fn taints(list: Option<&[TaintObject]>) -> Vec<Taint> {
    let taints = list.into_iter().flatten();
    taints
        .filter_map(|taint| {
            Some(Taint {
                key: taint.key.as_str().into(),
                value: taint.value.as_deref().unwrap_or_default().into(),
                effect: Effect::parse(&taint.effect)?,
            })
        })
        .collect()
}
