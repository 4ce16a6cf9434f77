//! Nodes of a plan matched with what the world says about them: real nodes, or a pool, a type and an offering.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::plan::{Plan, PlanNode};
use super::predicates::untolerated;
use super::roster::Roster;
use super::surface::{Ask, Surface};
use crate::world::{Expr, InstanceType, Labels, Node, Offering, Pod, Pool, Taint, World};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub(super) const POOL: &str = "karpenter.sh/nodepool";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
pub(super) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Expressions implied by labels and names, kept here so that surfaces can borrow them.
pub(super) struct Facts {
    /// Per node of the world, in its order.
    pub node_labels: Vec<Vec<Expr>>,
    /// Per pool of the world, in its order: template labels, pool and class names, and the labels every machine gets when it is up.
    pub pool_labels: Vec<Vec<Expr>>,
    /// Per node of the plan, in its order.
    pub host_names: Vec<Vec<Expr>>,
}

fn is(key: &str, value: &str) -> Expr {
    Expr { key: key.to_owned(), operator: "In".to_owned(), values: vec![value.to_owned()], min_values: None }
}

fn as_expressions(labels: &Labels) -> Vec<Expr> {
    labels.iter().map(|(key, value)| is(key, value)).collect()
}

impl Facts {
    pub(super) fn of(world: &World, plan: &Plan) -> Facts {
        let pool_labels = world.pools.iter().map(|pool| {
            let mut exprs = as_expressions(&pool.labels);
            exprs.push(is(POOL, &pool.name));
            let (group, kind, name) = &pool.node_class;
            if !group.is_empty() {
                exprs.push(is(&format!("{group}/{}", kind.to_lowercase()), name));
            }
            exprs.push(is("karpenter.sh/registered", "true"));
            exprs.push(is("karpenter.sh/initialized", "true"));
            exprs
        });
        Facts {
            node_labels: world.nodes.iter().map(|node| as_expressions(&node.labels)).collect(),
            pool_labels: pool_labels.collect(),
            host_names: plan.nodes.iter().map(|node| vec![is(HOSTNAME, &node.name)]).collect(),
        }
    }

    /// A machine of a pool about which nothing has been decided.
    pub(super) fn template<'w>(&'w self, world: &'w World, pool: usize) -> Surface<'w> {
        let layers: Vec<&[Expr]> = vec![&self.pool_labels[pool], &world.pools[pool].requirements];
        Surface::future(layers, &world.well_known)
    }

    /// A machine of a pool bought as one offering.
    pub(super) fn bought<'w>(
        &'w self,
        world: &'w World,
        pool: usize,
        instance_type: &'w InstanceType,
        offering: &'w Offering,
    ) -> Surface<'w> {
        let layers: Vec<&[Expr]> = vec![
            &self.pool_labels[pool],
            &world.pools[pool].requirements,
            &instance_type.requirements,
            &offering.requirements,
        ];
        Surface::future(layers, &world.well_known)
    }
}

/// What a node of the plan is.
pub(super) enum Kind<'w> {
    Real(&'w Node),
    New { pool: usize, instance_type: &'w InstanceType, offering: &'w Offering },
}

/// A node of the plan with everything known about it.
pub(super) struct Seat<'w> {
    pub plan: &'w PlanNode,
    pub kind: Kind<'w>,
    pub surface: Surface<'w>,
    /// Pods the plan puts here, with their full names.
    pub pods: Vec<(&'w str, &'w Pod)>,
    /// Pods already bound here.
    pub bound: Vec<&'w Pod>,
    /// Daemons that belong here.
    pub daemons: Vec<&'w Pod>,
}

impl<'w> Seat<'w> {
    pub(super) fn taints(&self, world: &'w World) -> &'w [Taint] {
        match self.kind {
            Kind::Real(node) => &node.taints,
            Kind::New { pool, .. } => &world.pools[pool].taints,
        }
    }

    /// What the pods here ask of the labels of their node, equal asks once.
    pub(super) fn asks(&self) -> Vec<Ask> {
        let mut asks: BTreeMap<String, Ask> = BTreeMap::new();
        for (_, pod) in &self.pods {
            let volumes = pod.volumes.iter().filter(|volume| !volume.alternatives.is_empty());
            let of_volumes = volumes.map(|volume| Ask(volume.alternatives.clone()));
            for ask in std::iter::once(Ask::of_pod(pod)).chain(of_volumes) {
                asks.insert(format!("{ask:?}"), ask);
            }
        }
        asks.into_values().collect()
    }
}

/// The one value an offering gives a label.
pub(super) fn offered<'o>(offering: &'o Offering, key: &str) -> Option<&'o str> {
    offering.requirements.iter().find(|expr| expr.key == key && expr.operator == "In").and_then(|expr| {
        match expr.values.as_slice() {
            [one] => Some(one.as_str()),
            _ => None,
        }
    })
}

/// Daemons that would run on a node with these labels and taints.
pub(super) fn daemons_on<'w>(world: &'w World, surface: &Surface<'_>, taints: &[Taint]) -> Vec<&'w Pod> {
    world
        .daemons
        .iter()
        .filter(|daemon| {
            untolerated(taints, &daemon.tolerations).is_none() && Ask::of_pod(daemon).fits(surface)
        })
        .collect()
}

/// Finds what each node of the plan is. Nodes that cannot be identified are reported and left out.
pub(super) fn resolve<'w>(
    world: &'w World,
    plan: &'w Plan,
    facts: &'w Facts,
    roster: &Roster<'w>,
    violations: &mut Vec<Violation>,
) -> Vec<Seat<'w>> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut seats = Vec::new();
    for (index, node) in plan.nodes.iter().enumerate() {
        let real = world.nodes.iter().position(|real| real.name == node.name);
        if !names.insert(&node.name) || (!node.existing && real.is_some()) {
            violations.push(Violation::new("node-twice", "another node has this name").node(&node.name));
        }
        let mut bound = Vec::new();
        let (kind, surface) = if node.existing {
            let Some(real) = real else {
                violations.push(Violation::new("node-unknown", "no such node exists").node(&node.name));
                continue;
            };
            let surface = Surface::real(&facts.node_labels[real]);
            bound.extend(world.pods.iter().filter(|pod| pod.node_name.as_ref() == Some(&node.name)));
            let real = &world.nodes[real];
            describe(node, real, violations);
            (Kind::Real(real), surface)
        } else {
            let Some((pool, instance_type, offering)) = purchase(world, node, violations) else { continue };
            let mut layers: Vec<&[Expr]> = vec![&facts.host_names[index], &facts.pool_labels[pool]];
            layers.extend([
                world.pools[pool].requirements.as_slice(),
                &instance_type.requirements,
                &offering.requirements,
            ]);
            if node.pods.is_empty() && node.virtual_pods.is_empty() && !node.kept {
                violations.push(Violation::new("node-empty", "a new node has no pods").node(&node.name));
            }
            let surface = Surface::future(layers, &world.well_known);
            (Kind::New { pool, instance_type, offering }, surface)
        };
        let pods = node
            .pods
            .iter()
            .chain(&node.virtual_pods)
            .filter_map(|name| roster.get(name).map(|pod| (name.as_str(), *pod)))
            .collect();
        let mut seat = Seat { plan: node, kind, surface, pods, bound, daemons: Vec::new() };
        seat.daemons = daemons_on(world, &seat.surface, seat.taints(world));
        seats.push(seat);
    }
    seats
}

/// An existing node must not be described as something else.
fn describe(node: &PlanNode, real: &Node, violations: &mut Vec<Violation>) {
    let stated = [
        (POOL, &node.pool),
        (INSTANCE_TYPE, &node.instance_type),
        (ZONE, &node.zone),
        (CAPACITY_TYPE, &node.capacity_type),
    ];
    for (key, stated) in stated {
        if let (Some(stated), Some(actual)) = (stated, real.labels.get(key))
            && stated != actual
        {
            let message = format!("label `{key}` is `{actual}`, the plan says `{stated}`");
            violations.push(Violation::new("node-mismatch", message).node(&node.name));
        }
    }
}

/// What a new node is bought as.
fn purchase<'w>(
    world: &'w World,
    node: &PlanNode,
    violations: &mut Vec<Violation>,
) -> Option<(usize, &'w InstanceType, &'w Offering)> {
    let stated = |field: &Option<String>| field.clone().unwrap_or_default();
    let pool_named = |pool: &Pool| Some(&pool.name) == node.pool.as_ref();
    let Some(pool) = world.pools.iter().position(pool_named) else {
        let message = format!("pool `{}` does not exist", stated(&node.pool));
        violations.push(Violation::new("pool-unknown", message).node(&node.name));
        return None;
    };
    let types = world.types_of(&world.pools[pool].name);
    let Some(instance_type) = types.iter().find(|t| Some(&t.name) == node.instance_type.as_ref()) else {
        let message = format!("instance type `{}` does not exist", stated(&node.instance_type));
        violations.push(Violation::new("type-unknown", message).node(&node.name));
        return None;
    };
    let same_place = |offering: &&Offering| {
        offered(offering, ZONE) == node.zone.as_deref()
            && offered(offering, CAPACITY_TYPE) == node.capacity_type.as_deref()
    };
    let matching: Vec<&Offering> = instance_type.offerings.iter().filter(same_place).collect();
    if matching.is_empty() {
        let message = format!(
            "`{}` is not offered in zone `{}` as `{}`",
            instance_type.name,
            stated(&node.zone),
            stated(&node.capacity_type)
        );
        violations.push(Violation::new("offering-unknown", message).node(&node.name));
        return None;
    }
    let same_price = |offering: &&Offering| node.price.is_some_and(|price| close(price, offering.price));
    // Several offerings may share zone and capacity type (reservations); the price then tells them apart.
    let chosen = matching
        .iter()
        .find(|offering| offering.available && same_price(offering))
        .or_else(|| matching.iter().find(|offering| offering.available))
        .or_else(|| matching.first())?;
    if !chosen.available {
        violations.push(
            Violation::new("offering-unavailable", "the offering cannot be bought now").node(&node.name),
        );
    } else if !same_price(chosen) {
        let message = format!("the offering costs {}, the plan says {:?}", chosen.price, node.price);
        violations.push(Violation::new("price", message).node(&node.name));
    }
    Some((pool, instance_type, chosen))
}

/// Equal prices, however they were added up.
pub(super) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}
