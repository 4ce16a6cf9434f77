//! The slow reference scheduler: `docs/concepts/placement.md` as plain code over strings.
//!
//! Each section of the rule book is one module here: §1 `requirement`, §2 `pods`, §3 `places`, §4 `machine_types`, §5
//! `topology`, §6 `limits`, §7 `reservations`, §8 `volumes`; the queue of §2 and the repetition of §9 are in this file.
//! Nothing is indexed or cached beyond a run's constants: a state is cloned to try a placement, and every count is taken
//! again when it is needed. The planner is fast and clever; this is what it must agree with.

mod limits;
mod machine_types;
mod opened;
mod places;
mod plan;
mod pods;
pub(crate) mod requirement;
mod reservations;
mod state;
pub(crate) mod static_pools;
mod suitors;
mod topology;
mod volumes;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use crate::world::{Pod, World};
use places::{Failure, held_back_by_limits, place};
use pods::{has_soft_taints, in_order, is_pending, ladder, pod_id, refusal};
use state::{Run, State};

pub use plan::outcome_to_plan;
pub use static_pools::Kept;

/// How a run treats wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Preference policy: `true` = Respect, `false` = Ignore.
    pub respect_preferences: bool,
    /// minValues policy: `true` = Strict, `false` = BestEffort.
    pub strict_min_values: bool,
    /// When reservations are taken: `true` = go on with other capacity (Fallback), `false` = wait (Strict).
    pub reserved_fallback: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { respect_preferences: true, strict_min_values: true, reserved_fallback: false }
    }
}

/// A machine the run wants to open.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The pool it belongs to.
    pub pool: String,
    /// `namespace/name` of its pods, in the order of placement.
    pub pods: Vec<String>,
    /// Its requirements as text, by key.
    pub requirements: Vec<String>,
    /// Type, zone, capacity type and price of its cheapest remaining offering.
    pub cheapest: (String, String, String, f64),
    /// Remaining types by their cheapest remaining offering, then name; at most 600.
    pub type_names: Vec<String>,
}

/// What the run decided.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Machines that pools of a fixed size lack.
    pub kept: Vec<Kept>,
    /// New machines in the order in which they were opened.
    pub machines: Vec<Machine>,
    /// Existing (or kept) node → pods placed there, in the order of placement.
    pub existing: BTreeMap<String, Vec<String>>,
    /// Pod → why it found no place.
    pub refused: BTreeMap<String, String>,
}

/// Places every pending pod of the world by the rule book.
pub fn schedule(world: &World, options: &Options) -> Outcome {
    let (whole, kept) = static_pools::complete(world);
    let world = &whole;
    let mut refused = BTreeMap::new();
    let mut packed: Vec<&Pod> = Vec::new();
    let mut fillers: Vec<&Pod> = Vec::new();
    for pod in world.pods.iter().filter(|pod| is_pending(pod)) {
        match refusal(world, pod) {
            Some(reason) => _ = refused.insert(pod_id(pod), reason),
            None if pod.filler => fillers.push(pod),
            None => packed.push(pod),
        }
    }
    let mut opened = Vec::new();
    let mut by_priority = false;
    loop {
        let run = Run::new(world, options, packed.clone(), opened.clone());
        let mut result = to_rest(&run, State::default(), in_order(run.packed.clone(), by_priority));
        if let Some(newly) = opened::newly(&run, &result.state) {
            opened.extend(newly);
            continue;
        }
        if !by_priority && priority_was_wronged(&run, &result) {
            by_priority = true;
            continue;
        }
        // §11: buffers come last, when everything else is settled.
        let filled = to_rest(&run, result.state, in_order(fillers.clone(), false));
        result.state = filled.state;
        limits::give_back(&run, &mut result.state);
        result.left.extend(filled.left);
        refused.extend(result.left.iter().map(|(pod, failure)| (pod_id(pod), reason_text(failure))));
        return Outcome { kept, ..outcome(result.state, refused) };
    }
}

/// What one pass over the queue ended with.
struct QueueResult<'r> {
    state: State<'r>,
    left: Vec<(&'r Pod, Failure)>,
}

/// §6 "Passes": while limits keep pods out, machines are bought and the queue runs again over the pods that are left; a pass that places nothing
/// is taken back.
fn to_rest<'r>(run: &'r Run<'r>, state: State<'r>, order: Vec<&'r Pod>) -> QueueResult<'r> {
    let soft_taints = has_soft_taints(run.world);
    let mut result = turn_queue(run, state, order.clone());
    loop {
        let held_back = result.left.iter().any(|(pod, _)| {
            ladder(pod, run.options.respect_preferences, soft_taints)
                .iter()
                .any(|rung| held_back_by_limits(run, &result.state, rung))
        });
        if !held_back {
            return result;
        }
        let mut bought = result.state.clone();
        limits::buy(run, &mut bought);
        let is_left = |pod: &&Pod| result.left.iter().any(|(left, _)| std::ptr::eq(*left, *pod));
        let next = turn_queue(run, bought, order.iter().copied().filter(is_left).collect());
        if next.left.len() == result.left.len() {
            return result;
        }
        result = next;
    }
}

/// §2 "Queue": take the first pod, try its rungs in order, push it to the back if all fail, and end when a whole turn
/// places nothing.
fn turn_queue<'r>(run: &'r Run<'r>, mut state: State<'r>, order: Vec<&'r Pod>) -> QueueResult<'r> {
    let soft_taints = has_soft_taints(run.world);
    let mut queue: VecDeque<(&Pod, Failure)> =
        order.into_iter().map(|pod| (pod, Failure { reserved: false, reasons: Vec::new() })).collect();
    let mut failed_in_a_row = 0;
    while failed_in_a_row < queue.len() {
        let Some((pod, _)) = queue.pop_front() else { break };
        state.sort_machines();
        match climb_down(run, &state, pod, soft_taints) {
            Ok(next) => {
                state = next;
                failed_in_a_row = 0;
            }
            Err(failure) => {
                queue.push_back((pod, failure));
                failed_in_a_row += 1;
            }
        }
    }
    QueueResult { state, left: queue.into() }
}

/// Tries the rungs of a pod in order. A reservation that cannot be held ends the attempt without relaxation. The
/// failure handed back is that of the first rung: it names what the pod really asked for.
fn climb_down<'r>(
    run: &'r Run<'r>,
    state: &State<'r>,
    pod: &'r Pod,
    soft_taints: bool,
) -> Result<State<'r>, Failure> {
    let mut first_failure = None;
    for rung in ladder(pod, run.options.respect_preferences, soft_taints) {
        match place(run, state, &rung) {
            Ok(next) => return Ok(next),
            Err(failure) => {
                let reserved = failure.reserved;
                first_failure.get_or_insert(failure);
                if reserved {
                    break;
                }
            }
        }
    }
    Err(first_failure.unwrap_or(Failure { reserved: false, reasons: Vec::new() }))
}

/// §9 "Priority": a pod refused because of a pool's limit outranks some placed pod.
fn priority_was_wronged(run: &Run<'_>, result: &QueueResult<'_>) -> bool {
    let Some(lowest) = result.state.all_placed().map(|pod| pod.priority).min() else { return false };
    let soft_taints = has_soft_taints(run.world);
    result.left.iter().any(|(pod, _)| {
        pod.priority > lowest
            && ladder(pod, run.options.respect_preferences, soft_taints)
                .iter()
                .any(|rung| held_back_by_limits(run, &result.state, rung))
    })
}

/// A price in whole nano-dollars: what is compared.
pub(crate) fn nano(price: f64) -> i128 {
    (price * 1e9).round() as i128
}

fn reason_text(failure: &Failure) -> String {
    if failure.reasons.is_empty() {
        return "no pool can open a node".to_owned();
    }
    let text = |(pool, reason): &(String, String)| format!("pool `{pool}`: {reason}");
    failure.reasons.iter().map(text).collect::<Vec<_>>().join("; ")
}

fn outcome(mut state: State<'_>, refused: BTreeMap<String, String>) -> Outcome {
    state.machines.sort_by_key(|machine| machine.number);
    let ids = |pods: &[&Pod]| pods.iter().map(|pod| pod_id(pod)).collect::<Vec<_>>();
    let mut machines = Vec::new();
    for machine in &mut state.machines {
        reservations::narrow_to_held(machine);
        machines.push(Machine {
            pool: machine.pool.clone(),
            pods: ids(&machine.pods),
            requirements: places::rendered(&machine.requirements),
            cheapest: machine_types::cheapest(machine),
            type_names: machine_types::type_names(machine),
        });
    }
    let existing = state.placed.iter().map(|(node, pods)| (node.clone(), ids(pods))).collect();
    Outcome { kept: Vec::new(), machines, existing, refused }
}
