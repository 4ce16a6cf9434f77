//! Rule book §5, "Opened domains": what machines of the plan do to spreads of pods that can't use them.

use std::collections::{BTreeMap, BTreeSet};

use super::machine_types::Choice;
use super::pods::{HOSTNAME, Rung, has_soft_taints, ladder, listed};
use super::requirement::{Requirements, stable_key};
use super::state::{Run, State};
use super::topology::{domains, filter_admits};
use crate::world::{Pod, Spread, Taint};

/// A machine of an earlier pass.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub pool: String,
    pub requirements: Requirements,
    /// Topology key → values it may have.
    pub values: BTreeMap<String, BTreeSet<String>>,
}

/// A hard spread of a pod that waits.
#[derive(Debug)]
pub(super) struct Watched<'w> {
    owner: &'w Pod,
    spread: &'w Spread,
    key: String,
    /// What are domains on every rung.
    known: BTreeSet<String>,
}

/// The hard spreads of the run, one for all pods alike.
pub(super) fn watched<'w>(run: &Run<'w>) -> Vec<Watched<'w>> {
    let soft_taints = has_soft_taints(run.world);
    let mut watched: BTreeMap<String, Watched<'w>> = BTreeMap::new();
    for owner in run.packed.iter().copied() {
        for spread in owner.spread.iter().filter(|spread| spread.hard) {
            let key = stable_key(&spread.key).to_owned();
            let alike =
                (&owner.namespace, spread, &owner.node_selector, &owner.required_terms, &owner.tolerations);
            let alike = format!("{alike:?}");
            if key == HOSTNAME || watched.contains_key(&alike) {
                continue;
            }
            let of_rung = |rung: &Rung<'_>| domains(run, rung, spread, &key);
            let rungs = ladder(owner, run.options.respect_preferences, soft_taints);
            let known = rungs.iter().map(of_rung).reduce(|a, b| a.intersection(&b).cloned().collect());
            watched.insert(alike, Watched { owner, spread, key, known: known.unwrap_or_default() });
        }
    }
    watched.into_values().collect()
}

/// The offerings to try for a new machine of these requirements, one list after the other: without those that open a domain for pods that can't go
/// there, then all. A virtual pod opens none.
pub(super) fn stages<'r>(
    run: &Run<'_>,
    rung: &Rung<'_>,
    taints: &[Taint],
    requirements: &Requirements,
    choices: &[&'r Choice<'r>],
) -> Vec<Vec<&'r Choice<'r>>> {
    let looking: Vec<&Watched<'_>> = run
        .watched
        .iter()
        .filter(|watched| filter_admits(run, watched.owner, watched.spread, requirements, taints))
        .collect();
    let opens = |choice: &Choice<'_>| {
        looking.iter().any(|watched| {
            values(choice, requirements, &watched.key).iter().any(|value| !watched.known.contains(value))
        })
    };
    let closed: Vec<&Choice<'_>> = choices.iter().copied().filter(|choice| !opens(choice)).collect();
    if closed.len() == choices.len() {
        return vec![closed];
    }
    if rung.original.filler { vec![closed] } else { vec![closed, choices.to_vec()] }
}

/// The machines of a pass, if one of them opens a domain that does not count yet.
pub(super) fn newly(run: &Run<'_>, state: &State<'_>) -> Option<Vec<Opened>> {
    let spreads = run.world.pods.iter().flat_map(|pod| &pod.spread);
    let keys: BTreeSet<String> = spreads.map(|spread| stable_key(&spread.key).to_owned()).collect();
    let machines: Vec<Opened> = state
        .machines
        .iter()
        .map(|machine| {
            // What was trimmed may come back.
            let choices = machine.wide.as_ref().unwrap_or(&machine.choices);
            let of_key = |key: &String| {
                let all = choices.iter().flat_map(|choice| values(choice, &machine.requirements, key));
                (key.clone(), all.collect())
            };
            let values = keys.iter().map(of_key).collect();
            Opened { pool: machine.pool.clone(), requirements: machine.requirements.clone(), values }
        })
        .collect();
    let is_new = |machine: &Opened| {
        run.watched.iter().any(|watched| {
            let taints = run.template(&machine.pool).map(|template| template.pool.taints.as_slice());
            filter_admits(
                run,
                watched.owner,
                watched.spread,
                &machine.requirements,
                taints.unwrap_or_default(),
            ) && !machine.values[&watched.key].is_subset(&watched.known)
        })
    };
    machines.iter().any(is_new).then_some(machines)
}

/// The values of a key that a machine of these requirements may have with an offering.
fn values(choice: &Choice<'_>, requirements: &Requirements, key: &str) -> BTreeSet<String> {
    choice
        .values_within(requirements, key)
        .unwrap_or_else(|| listed(requirements.get(key)).into_iter().collect())
}
