//! Rule book §5, "Choosing a value": pods of the run that want to be with, or away from, the pod at hand.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::pods::{HOSTNAME, Rung, has_soft_taints, ladder, pod_id};
use super::requirement::stable_key;
use super::state::Run;
use super::topology::future_values;
use crate::world::Pod;

/// Where pods could go, by the keys of required affinity and anti-affinity of the run: values on new machines, whatever they give up.
pub(super) fn reach(run: &Run<'_>) -> BTreeMap<(String, String), Rc<BTreeSet<String>>> {
    let soft_taints = has_soft_taints(run.world);
    let mut known: BTreeMap<String, Rc<BTreeSet<String>>> = BTreeMap::new();
    let mut reach = BTreeMap::new();
    let terms = run.world.pods.iter().flat_map(|pod| pod.affinity.iter().chain(&pod.anti_affinity));
    let keys: BTreeSet<&str> =
        terms.map(|term| stable_key(&term.key)).filter(|key| *key != HOSTNAME).collect();
    for owner in run.packed.iter().copied() {
        for key in keys.iter().copied() {
            let alike =
                format!("{key} {:?}", (&owner.node_selector, &owner.required_terms, &owner.tolerations));
            let values =
                known.entry(alike).or_insert_with(|| Rc::new(everything(run, owner, key, soft_taints)));
            reach.insert((pod_id(owner), key.to_owned()), values.clone());
        }
    }
    reach
}

fn everything(run: &Run<'_>, owner: &Pod, key: &str, soft_taints: bool) -> BTreeSet<String> {
    let of_rung = |rung: &Rung<'_>| future_values(run, rung, key);
    ladder(owner, run.options.respect_preferences, soft_taints).iter().flat_map(of_rung).collect()
}

/// What the owner of a rule wants of the pod at hand.
#[derive(Debug)]
pub(super) struct Suitor {
    pub owner: String,
    /// Company; otherwise distance.
    pub together: bool,
    pub reach: Rc<BTreeSet<String>>,
}

impl Suitor {
    /// Whether nothing the owner can reach serves it now, and this value would.
    pub fn waits_for(&self, value: &str, count: impl Fn(&str) -> i64) -> bool {
        self.together && self.reach.contains(value) && self.reach.iter().all(|other| count(other) == 0)
    }

    /// Whether this value is the last that is free to the owner.
    pub fn loses(&self, value: &str, count: impl Fn(&str) -> i64) -> bool {
        !self.together
            && self.reach.contains(value)
            && count(value) == 0
            && self.reach.iter().all(|other| other == value || count(other) > 0)
    }
}

/// Whom a required anti-affinity term of the pod at hand keeps away.
#[derive(Debug, Default)]
pub(super) struct KeptAway {
    /// Where each of them could go.
    pub targets: Vec<Rc<BTreeSet<String>>>,
    /// Value → owners of such a term there.
    pub owners: BTreeMap<String, i64>,
}

impl KeptAway {
    /// How many would have an owner at every value they can reach.
    pub fn barred(&self, value: &str) -> usize {
        let taken = |other: &String| other == value || self.owners.contains_key(other);
        self.targets.iter().filter(|reach| reach.contains(value) && reach.iter().all(taken)).count()
    }
}
