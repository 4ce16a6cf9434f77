//! What a run knows at its start and what it has decided so far. Everything is found again by looking, nothing is kept
//! up to date on the side: counts, usage and remaining limits are worked out from here each time they are asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::Options;
use super::machine_types::{Choice, DaemonLoad, daemon_load};
use super::opened::{Opened, Watched};
use super::pods::NODEPOOL;
use super::requirement::{Requirements, Side, both, conjunction, from_selector, stable_key, stable_labels};
use crate::world::{InstanceType, Labels, Node, Pod, Pool, World};

/// A pool as it offers future machines.
#[derive(Debug)]
pub(super) struct Template<'w> {
    pub pool: &'w Pool,
    /// Pool requirements ∧ pool labels ∧ the pool's name and node class.
    pub requirements: Requirements,
    /// Key → minValues.
    pub min_values: BTreeMap<String, u32>,
}

/// What does not change during a run.
#[derive(Debug)]
pub(super) struct Run<'w> {
    pub world: &'w World,
    pub options: &'w Options,
    /// In order of §3: weight descending, then name descending.
    pub templates: Vec<Template<'w>>,
    /// Pool → every available offering of every type, as the pool sees it.
    pub choices: BTreeMap<String, Vec<Choice<'w>>>,
    /// (pool, type) → its daemons.
    pub daemon_loads: BTreeMap<(String, String), DaemonLoad>,
    /// Nodes that take pods, in order of §3.
    pub targets: Vec<&'w Node>,
    /// Node name → its labels under stable names.
    pub node_labels: BTreeMap<String, Labels>,
    /// The pods to pack: their terms are the affinity and anti-affinity groups of the run.
    pub packed: Vec<&'w Pod>,
    /// What machines of earlier passes were: their values count as domains.
    pub opened: Vec<Opened>,
    /// Hard spreads of the pods to pack, and the domains they have on each rung.
    pub watched: Vec<Watched<'w>>,
    /// (pod, key) of owners of required affinity and anti-affinity → values they could get on a new machine.
    pub reach: BTreeMap<(String, String), Rc<BTreeSet<String>>>,
}

/// A machine opened in this run.
#[derive(Debug, Clone)]
pub(super) struct OpenMachine<'r> {
    /// Opening order, from 0.
    pub number: usize,
    pub pool: String,
    pub requirements: Requirements,
    /// The remaining offerings.
    pub choices: Vec<&'r Choice<'r>>,
    pub pods: Vec<&'r Pod>,
    /// Key → minValues, lowered where the policy is BestEffort.
    pub min_values: BTreeMap<String, u32>,
    /// Ids of the reservations it holds one unit of.
    pub held: BTreeSet<String>,
    /// What it could be before it was trimmed to what it is bought as, if it was.
    pub wide: Option<Vec<&'r Choice<'r>>>,
}

/// What has been decided so far.
#[derive(Debug, Clone, Default)]
pub(super) struct State<'r> {
    /// Node name → pods placed there in this run.
    pub placed: BTreeMap<String, Vec<&'r Pod>>,
    /// In the order in which they are offered pods.
    pub machines: Vec<OpenMachine<'r>>,
}

impl<'w> Run<'w> {
    pub fn new(world: &'w World, options: &'w Options, packed: Vec<&'w Pod>, opened: Vec<Opened>) -> Self {
        let mut pools: Vec<&Pool> = world.pools.iter().filter(|pool| pool.replicas.is_none()).collect();
        pools.sort_by(|a, b| b.weight.cmp(&a.weight).then(b.name.cmp(&a.name)));
        let templates: Vec<Template<'w>> = pools.into_iter().map(template).collect();

        let mut choices = BTreeMap::new();
        let mut daemon_loads = BTreeMap::new();
        for template in &templates {
            let mut types: Vec<&InstanceType> = world.types_of(&template.pool.name).iter().collect();
            types.sort_by(|a, b| a.name.cmp(&b.name));
            let offered = types
                .iter()
                .flat_map(|ty| ty.offerings.iter().map(move |offering| (ty, offering)))
                .filter(|(_, offering)| offering.available)
                .map(|(ty, offering)| Choice {
                    ty,
                    type_requirements: conjunction(&ty.requirements),
                    offering,
                    offering_requirements: conjunction(&offering.requirements),
                });
            choices.insert(template.pool.name.clone(), offered.collect());
            for ty in &types {
                let load = daemon_load(world, template, ty);
                daemon_loads.insert((template.pool.name.clone(), ty.name.clone()), load);
            }
        }

        let mut targets: Vec<&Node> =
            world.nodes.iter().filter(|node| !node.leaving && !node.cordoned).collect();
        targets.sort_by_key(|node| (!node.initialised, node.name.clone()));
        let node_labels =
            world.nodes.iter().map(|node| (node.name.clone(), stable_labels(&node.labels))).collect();
        let mut run = Run {
            world,
            options,
            templates,
            choices,
            daemon_loads,
            targets,
            node_labels,
            packed,
            opened,
            watched: Vec::new(),
            reach: BTreeMap::new(),
        };
        run.watched = super::opened::watched(&run);
        run.reach = super::suitors::reach(&run);
        run
    }

    /// The side of future machines.
    pub fn template_side(&self) -> Side<'w> {
        Side::Template { well_known: &self.world.well_known }
    }

    /// A real node's labels as requirements.
    pub fn node_requirements(&self, node: &Node) -> Requirements {
        self.node_labels.get(&node.name).map(from_selector).unwrap_or_default()
    }

    /// The template of a pool that is known to exist.
    pub fn template(&self, pool: &str) -> Option<&Template<'w>> {
        self.templates.iter().find(|template| template.pool.name == pool)
    }

    /// Pods bound to the node before the run.
    pub fn bound_to(&self, node: &Node) -> impl Iterator<Item = &'w Pod> {
        let name = node.name.clone();
        self.world.pods.iter().filter(move |pod| pod.node_name.as_deref() == Some(name.as_str()))
    }
}

impl<'r> State<'r> {
    /// Pods placed on the node in this run.
    pub fn placed_on(&self, node: &Node) -> impl Iterator<Item = &'r Pod> {
        self.placed.get(&node.name).into_iter().flatten().copied()
    }

    /// "Machines opened in this run, fewest pods first": a stable sort, repeated before every pod.
    pub fn sort_machines(&mut self) {
        self.machines.sort_by_key(|machine| machine.pods.len());
    }

    /// Every pod placed in this run.
    pub fn all_placed(&self) -> impl Iterator<Item = &'r Pod> {
        let on_nodes = self.placed.values().flatten().copied();
        on_nodes.chain(self.machines.iter().flat_map(|machine| machine.pods.iter().copied()))
    }
}

/// A pool's template.
pub(super) fn template(pool: &Pool) -> Template<'_> {
    let (group, kind, class) = &pool.node_class;
    let mut labels = pool.labels.clone();
    labels.insert(NODEPOOL.to_owned(), pool.name.clone());
    if !kind.is_empty() {
        labels.insert(format!("{group}/{}", kind.to_lowercase()), class.clone());
    }
    let mut min_values = BTreeMap::new();
    for expr in &pool.requirements {
        if let Some(number) = expr.min_values {
            let entry = min_values.entry(stable_key(&expr.key).to_owned()).or_insert(0);
            *entry = number.max(*entry);
        }
    }
    let requirements = both(&conjunction(&pool.requirements), &from_selector(&labels));
    Template { pool, requirements, min_values }
}
