//! Rule book §3, "Where a pod may go": the three kinds of place and the checks of each, in their order.

use std::collections::BTreeSet;

use super::limits;
use super::machine_types::{Choice, clash, enforce_min_values, fits, load_of, remaining, sum};
use super::opened::stages;
use super::pods::Rung;
use super::requirement::{Requirement, Requirements, Side};
use super::reservations;
use super::state::{OpenMachine, Run, State, Template};
use super::topology::{Rule, node_value, own_hostname, pinnings, rules};
use super::volumes;
use crate::world::{Node, Pod, Resources};

/// Why a place does not take a pod.
#[derive(Debug, Clone)]
pub(super) enum Refusal {
    /// Look elsewhere, relax.
    Ordinary(String),
    /// A reservation exists but cannot be held: no lighter pool, no relaxation.
    Reserved(String),
}

impl Refusal {
    pub fn reason(&self) -> &str {
        match self {
            Refusal::Ordinary(reason) | Refusal::Reserved(reason) => reason,
        }
    }
}

/// Why a rung failed everywhere.
#[derive(Debug)]
pub(super) struct Failure {
    pub reserved: bool,
    /// Pool and reason, in pool order.
    pub reasons: Vec<(String, String)>,
}

/// Tries existing nodes, opened machines and new machines, in this order; the first that accepts wins.
pub(super) fn place<'r>(run: &'r Run<'r>, state: &State<'r>, rung: &Rung<'r>) -> Result<State<'r>, Failure> {
    let rules = rules(run, state, rung);
    for node in &run.targets {
        if accepts(run, state, rung, &rules, node) {
            let mut next = state.clone();
            next.placed.entry(node.name.clone()).or_default().push(rung.original);
            return Ok(next);
        }
    }
    for position in 0..state.machines.len() {
        if let Ok(grown) = grow(run, state, rung, &rules, &state.machines[position]) {
            let mut next = state.clone();
            next.machines[position] = grown;
            return Ok(next);
        }
    }
    let mut failure = Failure { reserved: false, reasons: Vec::new() };
    for template in &run.templates {
        match open(run, state, rung, &rules, template, true) {
            Ok(opened) => {
                let mut next = state.clone();
                next.machines.push(opened);
                return Ok(next);
            }
            Err(refusal) => {
                failure.reserved = matches!(refusal, Refusal::Reserved(_));
                failure.reasons.push((template.pool.name.clone(), refusal.reason().to_owned()));
                if failure.reserved {
                    break;
                }
            }
        }
    }
    Err(failure)
}

/// Whether some pool would take the pod were it not for its limits.
pub(super) fn held_back_by_limits(run: &Run<'_>, state: &State<'_>, rung: &Rung<'_>) -> bool {
    let rules = rules(run, state, rung);
    run.templates.iter().any(|template| {
        open(run, state, rung, &rules, template, true).is_err()
            && open(run, state, rung, &rules, template, false).is_ok()
    })
}

/// "Existing node: taints → host ports → resources → compatible with the ask → volumes and topology → volume limits".
fn accepts(run: &Run<'_>, state: &State<'_>, rung: &Rung<'_>, rules: &[Rule], node: &Node) -> bool {
    let labels = run.node_requirements(node);
    let present: Vec<&Pod> = run.bound_to(node).chain(state.placed_on(node)).collect();
    let daemons = load_of(run.world, &node.taints, |asked| Side::RealNode.compatible(&labels, asked));

    let taken = present.iter().flat_map(|pod| &pod.ports).chain(&daemons.ports);
    let ports_clash = |mut taken: Box<dyn Iterator<Item = &crate::world::Port> + '_>| {
        taken.any(|taken| rung.pod.ports.iter().any(|port| clash(port, taken)))
    };
    let topology_ok = || {
        rules.iter().all(|rule| match node_value(run, node, &rule.key) {
            Some(value) => rule.allows(&value),
            None => rule.allows_missing(),
        })
    };
    rung.tolerates(&node.taints)
        && !ports_clash(Box::new(taken))
        && fits(&rung.pod.requests, &left_on(node, &present, &daemons.requests))
        && rung.ask().is_some_and(|ask| Side::RealNode.compatible(&labels, &ask))
        && volumes::alternatives(&rung.pod).iter().any(|volume| Side::RealNode.compatible(&labels, volume))
        && topology_ok()
        && volumes::within_limits(node, present.iter().copied(), &rung.pod)
}

/// Allocatable less requests of the pods there, less what expected daemons still lack: max(0, expected − present).
fn left_on(node: &Node, present: &[&Pod], expected: &Resources) -> Resources {
    let mut left = node.allocatable.clone();
    for (resource, amount) in sum(present.iter().map(|pod| &pod.requests)) {
        *left.entry(resource).or_insert(0) -= amount;
    }
    let there = sum(present.iter().filter(|pod| pod.is_daemon).map(|pod| &pod.requests));
    for (resource, amount) in expected {
        let lacking = amount - there.get(resource).copied().unwrap_or(0);
        *left.entry(resource.clone()).or_insert(0) -= lacking.max(0);
    }
    left
}

/// A new machine of a pool: limits, then what every machine is asked.
fn open<'r>(
    run: &'r Run<'r>,
    state: &State<'r>,
    rung: &Rung<'r>,
    rules: &[Rule],
    template: &Template<'r>,
    with_limits: bool,
) -> Result<OpenMachine<'r>, Refusal> {
    let left = limits::remaining(run, state, template);
    if with_limits && !limits::may_open(&left) {
        return Err(Refusal::Ordinary("the pool's limit of nodes is reached".to_owned()));
    }
    if let Some((key, _)) = template.requirements.iter().find(|(_, requirement)| requirement.is_empty()) {
        return Err(Refusal::Ordinary(format!("the pool's requirements on `{key}` contradict each other")));
    }
    let choices = run.choices[&template.pool.name]
        .iter()
        .filter(|choice| !with_limits || limits::within(choice, &left))
        .collect();
    let fresh = OpenMachine {
        number: state.machines.len(),
        pool: template.pool.name.clone(),
        requirements: template.requirements.clone(),
        choices,
        pods: Vec::new(),
        min_values: template.min_values.clone(),
        held: BTreeSet::new(),
        wide: None,
    };
    grow(run, state, rung, rules, &fresh)
}

/// "New or opened machine: taints → compatible → volume alternative → topology → instance types left → volume limits →
/// minValues → reservations". Returns the machine with the pod on it.
fn grow<'r>(
    run: &'r Run<'r>,
    state: &State<'r>,
    rung: &Rung<'r>,
    rules: &[Rule],
    machine: &OpenMachine<'r>,
) -> Result<OpenMachine<'r>, Refusal> {
    let ordinary = |reason: &str| Err(Refusal::Ordinary(reason.to_owned()));
    let Some(template) = run.template(&machine.pool) else { return ordinary("unknown pool") };
    if !rung.tolerates(&template.pool.taints) {
        return ordinary("a taint is not tolerated");
    }
    let mut taken = machine.pods.iter().flat_map(|pod| &pod.ports);
    if taken.any(|taken| rung.pod.ports.iter().any(|port| clash(port, taken))) {
        return ordinary("a host port is taken");
    }
    let Some(ask) = rung.ask() else { return ordinary("the required node affinity matches nothing") };
    let asked = match run.template_side().narrow(&machine.requirements, &ask) {
        Ok(asked) => asked,
        Err(key) => return ordinary(&format!("label `{key}` does not match")),
    };
    let mut last = Refusal::Ordinary("the volumes cannot be attached".to_owned());
    for volume in volumes::alternatives(&rung.pod) {
        let Ok(requirements) = run.template_side().narrow(&asked, &volume) else { continue };
        let stages = match machine.pods.is_empty() {
            true => stages(run, rung, &template.pool.taints, &requirements, &machine.choices),
            false => vec![machine.choices.clone()],
        };
        for choices in stages {
            let machine = OpenMachine { choices, ..machine.clone() };
            match settle(run, state, rung, rules, &machine, template, &requirements) {
                Err(Refusal::Ordinary(reason)) => last = Refusal::Ordinary(reason),
                settled_or_reserved => return settled_or_reserved,
            }
        }
    }
    Err(last)
}

/// The checks after a volume alternative was chosen: topology, instance types, minValues, reservations.
fn settle<'r>(
    run: &'r Run<'r>,
    state: &State<'r>,
    rung: &Rung<'r>,
    rules: &[Rule],
    machine: &OpenMachine<'r>,
    template: &Template<'_>,
    requirements: &Requirements,
) -> Result<OpenMachine<'r>, Refusal> {
    let ordinary = |reason: &str| Err(Refusal::Ordinary(reason.to_owned()));
    let itself = own_hostname(machine.number);
    if rules.iter().any(|rule| rule.key == super::pods::HOSTNAME && !rule.allows(&itself)) {
        return ordinary("topology by hostname does not allow it");
    }
    let mut pods = machine.pods.clone();
    pods.push(rung.original);

    let left = remaining(run, template, requirements, &machine.choices, &pods);
    let can_be_had = |choice: &Choice<'_>| reservations::can_be_had(run, state, machine, choice);
    let pinned = pinnings(rules, requirements, &left, &state.machines, &can_be_had);
    if pinned.is_empty() {
        return ordinary("topology leaves no value");
    }
    let mut last = Refusal::Ordinary("no instance type is left".to_owned());
    for requirements in pinned {
        let choices: Vec<&Choice<'_>> = remaining(run, template, &requirements, &left, &pods);
        if choices.is_empty() {
            continue;
        }
        match finish(run, state, machine, requirements, choices, &pods) {
            Err(Refusal::Ordinary(reason)) => last = Refusal::Ordinary(reason),
            settled_or_reserved => return settled_or_reserved,
        }
    }
    Err(last)
}

/// What is asked once every key has its value: volume limits, minValues, reservations.
fn finish<'r>(
    run: &'r Run<'r>,
    state: &State<'r>,
    machine: &OpenMachine<'r>,
    requirements: Requirements,
    mut choices: Vec<&'r Choice<'r>>,
    pods: &[&'r Pod],
) -> Result<OpenMachine<'r>, Refusal> {
    let ordinary = |reason: &str| Err(Refusal::Ordinary(reason.to_owned()));
    choices.retain(|choice| volumes::attaches(choice.ty, pods));
    if choices.is_empty() {
        return ordinary("no instance type left attaches that many volumes");
    }

    let opening = machine.pods.is_empty();
    let lower = opening && !run.options.strict_min_values;
    let min_values =
        enforce_min_values(&requirements, &choices, &machine.min_values, lower).map_err(Refusal::Ordinary)?;
    let held = reservations::hold(run, state, machine, &choices).map_err(Refusal::Reserved)?;
    let choices = reservations::without_untaken(run, choices, &held);
    if choices.is_empty() {
        return ordinary("only reservations that are taken are left");
    }
    Ok(OpenMachine {
        number: machine.number,
        pool: machine.pool.clone(),
        requirements,
        choices,
        pods: pods.to_vec(),
        min_values,
        held,
        wide: machine.wide.clone(),
    })
}

/// The machine's requirements as text.
pub(super) fn rendered(requirements: &Requirements) -> Vec<String> {
    let text = |(key, requirement): (&String, &Requirement)| format!("{key} {requirement}");
    requirements.iter().map(text).collect()
}
