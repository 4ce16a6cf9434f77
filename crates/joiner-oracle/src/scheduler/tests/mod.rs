//! Small worlds with the answer worked out by hand from the rule book: one file per section, one `check` for all.
//!
//! Unless a test says otherwise there is one pool, `default`, and two types in the zones `z1`, `z2`, `z3`, each as spot and
//! on-demand at the same price in every zone: `small` (2 cpu; 0.1 spot, 0.2 on-demand) and `large` (8 cpu; 0.4, 0.8).

mod generated;
mod limits_and_priority;
mod machine_types;
mod places;
mod pods;
mod requirements;
mod reservations;
mod topology;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use super::{Options, Outcome, schedule};
use crate::world::*;

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOST: &str = "kubernetes.io/hostname";
pub const CAPACITY: &str = "karpenter.sh/capacity-type";
pub const TYPE: &str = "node.kubernetes.io/instance-type";
pub const POOL: &str = "karpenter.sh/nodepool";

/// Runs the world and compares: machines as `pool type zone capacity-type: pods`, then `on node: pods`, then `refused:
/// pods`; pods without their namespace, in order of placement.
#[track_caller]
pub fn check(world: &World, expected: &[&str]) {
    check_with(world, &Options::default(), expected);
}

#[track_caller]
pub fn check_with(world: &World, options: &Options, expected: &[&str]) {
    let outcome = schedule(world, options);
    assert_eq!(summary(&outcome), expected, "refusals: {:#?}", outcome.refused);
}

pub fn summary(outcome: &Outcome) -> Vec<String> {
    let short = |pods: &[String]| {
        pods.iter()
            .map(|pod| pod.split_once('/').map_or(pod.as_str(), |(_, name)| name))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut lines = Vec::new();
    for machine in &outcome.machines {
        let (ty, zone, capacity, _) = &machine.cheapest;
        lines.push(format!("{} {ty} {zone} {capacity}: {}", machine.pool, short(&machine.pods)));
    }
    for (node, pods) in &outcome.existing {
        lines.push(format!("on {node}: {}", short(pods)));
    }
    let refused: Vec<String> = outcome.refused.keys().cloned().collect();
    if !refused.is_empty() {
        lines.push(format!("refused: {}", short(&refused)));
    }
    lines
}

pub fn world(pods: Vec<Pod>) -> World {
    World {
        pools: vec![pool("default")],
        types: vec![ty("small", 2000, 0.1), ty("large", 8000, 0.4)],
        pods,
        namespaces: BTreeMap::from([namespace("default", "main"), namespace("other", "side")]),
        well_known: well_known(),
        ..World::default()
    }
}

pub fn well_known() -> BTreeSet<String> {
    let keys = [
        POOL,
        CAPACITY,
        ZONE,
        TYPE,
        "topology.kubernetes.io/region",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "karpenter.kwok.sh/instance-cpu",
    ];
    keys.into_iter().map(str::to_owned).collect()
}

fn namespace(name: &str, team: &str) -> (String, Labels) {
    (name.to_owned(), labels(&[("kubernetes.io/metadata.name", name), ("team", team)]))
}

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn resources(pairs: &[(&str, i128)]) -> Resources {
    pairs.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

pub fn expr(key: &str, operator: &str, values: &[&str]) -> Expr {
    Expr {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

pub fn pool(name: &str) -> Pool {
    Pool {
        name: name.to_owned(),
        weight: 0,
        labels: Labels::new(),
        requirements: Vec::new(),
        taints: Vec::new(),
        limits: Resources::new(),
        replicas: None,
        node_class: ("karpenter.kwok.sh".to_owned(), "KWOKNodeClass".to_owned(), "default".to_owned()),
    }
}

/// A type in three zones as spot at `price` and on-demand at twice that; memory 4 per millicore, 10 pods.
pub fn ty(name: &str, cpu: i128, price: f64) -> InstanceType {
    let mut offerings = Vec::new();
    for zone in ["z1", "z2", "z3"] {
        offerings.push(offering(zone, "spot", price));
        offerings.push(offering(zone, "on-demand", price * 2.0));
    }
    let capacity = resources(&[("cpu", cpu), ("memory", cpu * 4), ("pods", 10)]);
    InstanceType {
        name: name.to_owned(),
        requirements: vec![
            expr(TYPE, "In", &[name]),
            expr("kubernetes.io/arch", "In", &["amd64"]),
            expr("kubernetes.io/os", "In", &["linux"]),
            expr(ZONE, "In", &["z1", "z2", "z3"]),
            expr(CAPACITY, "In", &["spot", "on-demand"]),
            expr("karpenter.kwok.sh/instance-cpu", "In", &[&(cpu / 1000).to_string()]),
        ],
        allocatable: capacity.clone(),
        capacity,
        offerings,
        volume_limits: Default::default(),
    }
}

pub fn offering(zone: &str, capacity_type: &str, price: f64) -> Offering {
    Offering {
        requirements: vec![expr(ZONE, "In", &[zone]), expr(CAPACITY, "In", &[capacity_type])],
        price,
        available: true,
        reservation: None,
    }
}

/// A node of 2 cpu in `z1`.
pub fn node(name: &str) -> Node {
    let capacity = resources(&[("cpu", 2000), ("memory", 8000), ("pods", 10)]);
    Node {
        name: name.to_owned(),
        labels: labels(&[(ZONE, "z1"), (HOST, name)]),
        taints: Vec::new(),
        allocatable: capacity.clone(),
        capacity,
        cordoned: false,
        leaving: false,
        deleting: false,
        initialised: true,
        volume_limits: BTreeMap::new(),
    }
}

pub fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), value: String::new(), effect: effect.to_owned() }
}

pub fn tolerate(key: &str) -> Toleration {
    Toleration {
        key: Some(key.to_owned()),
        operator: "Exists".to_owned(),
        value: String::new(),
        effect: None,
    }
}

/// A pod of 1 cpu with the label `app=<name>`.
pub fn pod(name: &str) -> Pod {
    Pod {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        labels: labels(&[("app", name)]),
        requests: resources(&[("cpu", 1000), ("memory", 1000), ("pods", 1)]),
        ..Pod::default()
    }
}

/// Pods of 1 cpu, all labelled `app=<app>`, each changed by `change`.
pub fn pods(names: &str, app: &str, change: impl Fn(&mut Pod)) -> Vec<Pod> {
    names
        .split(' ')
        .map(|name| {
            let mut made = pod(name).with(|pod| pod.labels = labels(&[("app", app)]));
            change(&mut made);
            made
        })
        .collect()
}

/// Changes a value in passing.
pub trait With: Sized {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl<T> With for T {}

pub fn cpu(pod: &mut Pod, millicores: i128) {
    pod.requests.insert("cpu".to_owned(), millicores);
}

pub fn bound(name: &str, node: &str) -> Pod {
    pod(name).with(|pod| pod.node_name = Some(node.to_owned()))
}

pub fn app(name: &str) -> Option<Selector> {
    Some(Selector { expressions: vec![expr("app", "In", &[name])] })
}

pub fn spread(key: &str, app_name: &str) -> Spread {
    Spread {
        key: key.to_owned(),
        max_skew: 1,
        min_domains: None,
        hard: true,
        selector: app(app_name),
        honor_affinity: true,
        honor_taints: false,
    }
}

pub fn term(key: &str, app_name: &str) -> AffinityTerm {
    AffinityTerm {
        key: key.to_owned(),
        selector: app(app_name),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

pub fn select(pod: &mut Pod, key: &str, value: &str) {
    pod.node_selector.insert(key.to_owned(), value.to_owned());
}

pub fn require(pod: &mut Pod, terms: Vec<Vec<Expr>>) {
    pod.required_terms = Some(terms);
}
