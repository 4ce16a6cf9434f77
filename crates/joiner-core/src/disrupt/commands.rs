//! From the nodes that go to commands: nodes that share new machines go together, the others as one.

use super::facts::Fleet;
use super::verdict::{Command, Kind, Move, Place};
use crate::model::ids::*;
use crate::plan::Plan;

/// Cuts a result into commands. `empty` are the nodes on which nothing is worth anything.
pub(super) fn commands(fleet: &Fleet, plan: &Plan, empty: &[NodeIdx], gone: &[NodeIdx]) -> Vec<Command> {
    let places = places(fleet, plan);
    let mut commands = Vec::new();
    let single = |kind: Kind, nodes: Vec<NodeIdx>, machines: Vec<usize>| {
        command(fleet, plan, &places, kind, nodes, machines)
    };
    if !empty.is_empty() {
        commands.push(single(Kind::Empty, empty.to_vec(), Vec::new()));
    }
    let groups = Groups::new(fleet, &places, gone, plan.machines.len());
    let alone: Vec<NodeIdx> = gone.iter().copied().filter(|node| groups.of_node(*node).is_none()).collect();
    if !alone.is_empty() {
        commands.push(single(Kind::Delete, alone, Vec::new()));
    }
    for group in groups.all() {
        let nodes = gone.iter().copied().filter(|node| groups.of_node(*node) == Some(group)).collect();
        let machines = (0..plan.machines.len()).filter(|at| groups.of_machine(*at) == group).collect();
        commands.push(single(Kind::Replace, nodes, machines));
    }
    commands
}

fn command(
    fleet: &Fleet,
    plan: &Plan,
    places: &[Place],
    kind: Kind,
    nodes: Vec<NodeIdx>,
    machines: Vec<usize>,
) -> Command {
    let snapshot = &fleet.snapshot;
    let old = nodes.iter().map(|node| snapshot.nodes[node.at()].price_nano_usd.unwrap_or(0));
    let new = machines.iter().map(|at| {
        let machine = &plan.machines[*at];
        let catalogue = &snapshot.catalogues[snapshot.pools[machine.pool.at()].catalogue.at()];
        catalogue.offerings[machine.offering.at()].price_nano_usd
    });
    let saving = old.fold(0i64, i64::saturating_add) - new.fold(0i64, i64::saturating_add);
    let of_node = |node: &NodeIdx| {
        let from = *node;
        let residents = fleet.nodes[node.at()].residents.iter();
        residents.map(move |resident| Move { pod: resident.pod, from, to: places[resident.pod.at()] })
    };
    let moves = nodes.iter().flat_map(of_node).collect();
    Command { kind, nodes, machines, moves, saving_nano_usd: saving }
}

/// Where every pod of a plan goes.
fn places(fleet: &Fleet, plan: &Plan) -> Vec<Place> {
    let mut places = vec![Place::Nowhere; fleet.snapshot.pods.len()];
    for (node, pods) in plan.on_nodes.iter().chain(&plan.kept) {
        pods.iter().for_each(|pod| places[pod.at()] = Place::Node(*node));
    }
    for (at, machine) in plan.machines.iter().enumerate() {
        machine.pods.iter().for_each(|pod| places[pod.at()] = Place::Machine(at));
    }
    places
}

/// Machines, and the nodes whose pods go there: joined where they have a node or a machine in common.
struct Groups {
    /// By machine: the one that it was joined to.
    joined: Vec<usize>,
    /// By node: a machine that its pods go to.
    of_node: Vec<Option<usize>>,
}

impl Groups {
    fn new(fleet: &Fleet, places: &[Place], gone: &[NodeIdx], machines: usize) -> Self {
        let mut groups = Self { joined: (0..machines).collect(), of_node: vec![None; fleet.nodes.len()] };
        for node in gone {
            for resident in &fleet.nodes[node.at()].residents {
                let Place::Machine(machine) = places[resident.pod.at()] else { continue };
                match groups.of_node[node.at()] {
                    Some(other) => groups.join(other, machine),
                    None => groups.of_node[node.at()] = Some(machine),
                }
            }
        }
        groups
    }

    fn of_machine(&self, mut machine: usize) -> usize {
        while self.joined[machine] != machine {
            machine = self.joined[machine];
        }
        machine
    }

    fn of_node(&self, node: NodeIdx) -> Option<usize> {
        self.of_node[node.at()].map(|machine| self.of_machine(machine))
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of_machine(a), self.of_machine(b));
        // The smaller number stays: chains are short, and the order is that of machines.
        self.joined[a.max(b)] = a.min(b);
    }

    fn all(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.joined.len()).filter(|at| self.joined[*at] == *at)
    }
}
