//! Judges a plan by every hard rule there is.
//!
//! [`check`] takes the world a plan was made for and the plan as it is printed, and returns what is wrong with it. It knows nothing of
//! how plans are made: a plan is a claim that certain pods can run on certain nodes, and each rule is held against that claim.
//!
//! | rule | a violation means |
//! |---|---|
//! | `format` | the plan cannot be read |
//! | `pod-unknown`, `pod-twice`, `pod-forgotten` | every waiting pod is placed once or listed as unschedulable, and no other pod is |
//! | `pod-refused` | a pod that must be turned away was placed |
//! | `reason-missing` | an unschedulable pod without a reason |
//! | `node-unknown`, `node-twice`, `node-empty`, `node-mismatch` | an existing node that does not exist, a name used twice, a new node for nothing, a wrong description |
//! | `node-closed` | pods on a cordoned or leaving node |
//! | `pool-unknown`, `type-unknown`, `offering-unknown`, `offering-unavailable`, `price` | a new node that cannot be bought as stated |
//! | `pool-requirements` | the type or offering is not one the pool allows |
//! | `resources`, `daemon-room` | too much for the node, or only enough if its daemons did not run |
//! | `taints`, `host-ports` | as in kube-scheduler |
//! | `node-affinity` | node selector or every required term fails |
//! | `volume-topology`, `volume-limits` | a volume cannot be reached, or one too many is attached |
//! | `joint-requirements` | each pod fits alone, but no choice of open labels suits all pods of the machine |
//! | `anti-affinity`, `pod-affinity`, `spread`, `spread-missing-key` | required terms and hard constraints, for some order of binding |
//! | `options-missing`, `option-unknown`, `option-unfit`, `option-order`, `not-cheapest` | `instanceTypeOptions` |
//! | `min-values` | fewer distinct values left than a pool demands |
//! | `limits`, `limits-options` | the pool's limits, with the chosen types or with the largest candidates |
//! | `reservations` | more nodes than reserved units |
//! | `static-count`, `static-cheapest`, `static-stray` | a pool of a fixed size gets more or fewer machines than it lacks, or dearer ones |
//! | `buffers` | a buffer with another number of virtual pods, or numbers that do not add up |
//! | `totals`, `lower-bound` | sums that do not add up, a bound above the price |
//! | `undecided` | the search for a consistent choice was given up; not known to be wrong |
//!
//! One more rule, `weights`, needs a second plan to compare with: [`check_weights`]. Another, `limit-has-room`, is about pods that are refused, and slow:
//! [`check_refusals`].
//!
//! What is weaker than the real rule is said where it is checked; in short: order of binding is searched per rule and not for
//! all rules at once, and spread is exact only where all selected pods share one constraint.

mod affinity;
mod limits;
mod machines;
mod placement;
mod plan;
mod predicates;
mod refusals;
mod roster;
mod seats;
mod spread;
mod static_pools;
mod surface;
mod topology;
mod totals;
mod weights;

use std::fmt;

use serde_json::Value;

use crate::world::World;

pub use self::predicates::covers;
pub use self::refusals::check_refusals;
pub use self::weights::{Looked, check_weights};

/// One rule broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule, see the table above.
    pub rule: &'static str,
    /// `namespace/name` of the pod concerned.
    pub pod: Option<String>,
    /// The node concerned.
    pub node: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.message)?;
        if let Some(pod) = &self.pod {
            write!(f, " (pod `{pod}`)")?;
        }
        if let Some(node) = &self.node {
            write!(f, " (node `{node}`)")?;
        }
        Ok(())
    }
}

impl Violation {
    fn new(rule: &'static str, message: impl Into<String>) -> Violation {
        Violation { rule, pod: None, node: None, message: message.into() }
    }

    fn pod(mut self, pod: &str) -> Violation {
        self.pod = Some(pod.to_owned());
        self
    }

    fn node(mut self, node: &str) -> Violation {
        self.node = Some(node.to_owned());
        self
    }
}

/// Settings of the planner that change what is allowed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    /// `minValues` may be undercut where no more is to be had, so it is not checked.
    pub best_effort_min_values: bool,
}

/// What is wrong with a plan (the JSON of `joiner plan -o json`) under strict policies; empty if nothing is.
pub fn check(world: &World, plan: &Value) -> Vec<Violation> {
    check_with(world, plan, Policy::default())
}

/// As [`check`], under other policies.
pub fn check_with(world: &World, plan: &Value, policy: Policy) -> Vec<Violation> {
    let plan = match plan::read(plan) {
        Ok(plan) => plan,
        Err(errors) => return errors.into_iter().map(|error| Violation::new("format", error)).collect(),
    };
    let facts = seats::Facts::of(world, &plan);
    let mut violations = Vec::new();
    let roster = roster::call(world, &plan, &mut violations);
    let seats = seats::resolve(world, &plan, &facts, &roster, &mut violations);
    placement::check(world, &seats, &mut violations);
    machines::check(world, &facts, &seats, policy, &mut violations);
    topology::check(world, &facts, &seats, policy, &mut violations);
    limits::check(world, &seats, &mut violations);
    static_pools::check(world, &seats, &mut violations);
    totals::check(&plan, &mut violations);
    totals::buffers(world, &plan, &mut violations);
    violations
}
