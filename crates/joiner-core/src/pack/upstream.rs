//! The original's strategy: one queue, largest pods first, each onto the first place that accepts it.

use std::collections::VecDeque;

use crate::model::Snapshot;
use crate::model::ids::PodIdx;
use crate::model::names::{CPU, MEMORY};
use crate::model::resources::lane_of;
use crate::pack::place::Failure;
use crate::pack::scratch::{Scratch, Spot};

/// What became of every pod.
#[derive(Debug)]
pub struct Outcome {
    /// By [`PodIdx`]: the place and the rung it was found on.
    pub placed: Vec<Option<(Spot, usize)>>,
    /// Pods without a place, in queue order, with why.
    pub failed: Vec<(PodIdx, Failure)>,
    /// A pool's limits kept some pod out to the last.
    pub held_back: bool,
}

/// The order of the queue: CPU, then memory, both descending; then age, UID, name. With `by_priority` the priority comes before all.
/// Virtual pods of buffers are not in it: see [`fill`].
pub fn queue_order(snapshot: &Snapshot, by_priority: bool) -> Vec<PodIdx> {
    ordered(snapshot, by_priority, false)
}

/// The order in which virtual pods of buffers are placed.
pub fn fill_order(snapshot: &Snapshot) -> Vec<PodIdx> {
    ordered(snapshot, false, true)
}

/// Places the virtual pods of buffers, after everything else is settled.
pub fn fill(scratch: &mut Scratch, outcome: &mut Outcome) {
    let order = fill_order(scratch.snapshot);
    if order.is_empty() {
        return;
    }
    let filled = run_to_rest(scratch, &order, &mut |_, _| {});
    for pod in order {
        outcome.placed[pod.at()] = filled.placed[pod.at()];
    }
    outcome.failed.extend(filled.failed);
    outcome.held_back |= filled.held_back;
}

fn ordered(snapshot: &Snapshot, by_priority: bool, filler: bool) -> Vec<PodIdx> {
    let size = |pod: &PodIdx| {
        let class = &snapshot.classes[snapshot.pods[pod.at()].class.at()];
        let priority = if by_priority { class.priority } else { 0 };
        (
            std::cmp::Reverse(priority),
            std::cmp::Reverse(lane_of(&class.requests, CPU)),
            std::cmp::Reverse(lane_of(&class.requests, MEMORY)),
            snapshot.pods[pod.at()].created,
        )
    };
    let mut keyed: Vec<_> = (0..snapshot.pods.len())
        .map(PodIdx::new)
        .filter(|pod| snapshot.classes[snapshot.pods[pod.at()].class.at()].filler == filler)
        .map(|pod| (size(&pod), pod))
        .collect();
    keyed.sort_unstable_by(|(a_size, a), (b_size, b)| {
        let (left, right) = (&snapshot.pods[a.at()], &snapshot.pods[b.at()]);
        a_size
            .cmp(b_size)
            .then_with(|| left.uid.cmp(&right.uid))
            .then_with(|| by_namespace(&left.name).cmp(&by_namespace(&right.name)))
            .then(a.cmp(b))
    });
    keyed.into_iter().map(|(_, pod)| pod).collect()
}

/// Namespace and name apart: as one text, `shop-eu/a` would come before `shop/a`.
fn by_namespace(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

/// Runs the queue pass after pass, as the loop of the original would: while limits keep pods out, what was opened is bought, and the queue runs
/// again over the pods that are left. A pass that places nothing is taken back. Calls `before` ahead of each attempt.
pub fn run_to_rest(
    scratch: &mut Scratch,
    order: &[PodIdx],
    before: &mut dyn FnMut(&mut Scratch, PodIdx),
) -> Outcome {
    let outcome = run(scratch, order, before);
    go_on_to_rest(scratch, outcome, order, before)
}

/// Lifts what holds new machines down to certain sizes, and runs the queue over the pods that are left, to rest.
pub(crate) fn lift_and_run_to_rest(scratch: &mut Scratch, mut outcome: Outcome, order: &[PodIdx]) -> Outcome {
    scratch.lift_ceilings();
    run_left(scratch, &mut outcome, order, &mut |_, _| {});
    go_on_to_rest(scratch, outcome, order, &mut |_, _| {})
}

fn go_on_to_rest(
    scratch: &mut Scratch,
    mut outcome: Outcome,
    order: &[PodIdx],
    before: &mut dyn FnMut(&mut Scratch, PodIdx),
) -> Outcome {
    loop {
        outcome.held_back = limits_hold_back(scratch, &outcome.failed);
        if !outcome.held_back {
            return outcome;
        }
        let mark = scratch.mark();
        if !scratch.buy() || !run_left(scratch, &mut outcome, order, before) {
            scratch.rollback(mark);
            return outcome;
        }
        scratch.keep(mark);
    }
}

/// Runs a queue once more over those of its pods that have no place. Says whether it placed one.
pub(crate) fn run_again(scratch: &mut Scratch, outcome: &mut Outcome, order: &[PodIdx]) -> bool {
    run_left(scratch, outcome, order, &mut |_, _| {})
}

fn run_left(
    scratch: &mut Scratch,
    outcome: &mut Outcome,
    order: &[PodIdx],
    before: &mut dyn FnMut(&mut Scratch, PodIdx),
) -> bool {
    let left: Vec<PodIdx> = order.iter().copied().filter(|pod| outcome.placed[pod.at()].is_none()).collect();
    let next = run(scratch, &left, before);
    if next.failed.len() == left.len() {
        return false;
    }
    let mut tried = vec![false; outcome.placed.len()];
    for pod in left {
        tried[pod.at()] = true;
        outcome.placed[pod.at()] = next.placed[pod.at()];
    }
    // How those that are left failed now is what counts.
    outcome.failed.retain(|(pod, _)| !tried[pod.at()]);
    outcome.failed.extend(next.failed);
    true
}

/// Whether some pool would open a machine for one of these pods, were it not for its limits.
pub(crate) fn limits_hold_back(scratch: &mut Scratch, failed: &[(PodIdx, Failure)]) -> bool {
    if !scratch.any_limits() {
        return false;
    }
    let mut asked = vec![false; scratch.snapshot.classes.len()];
    failed.iter().any(|(pod, _)| {
        let class = scratch.snapshot.pods[pod.at()].class;
        !std::mem::replace(&mut asked[class.at()], true) && scratch.limits_are_to_blame(class)
    })
}

/// Runs the queue until a whole turn places nothing, calling `before` ahead of each attempt.
fn run(scratch: &mut Scratch, order: &[PodIdx], before: &mut dyn FnMut(&mut Scratch, PodIdx)) -> Outcome {
    let snapshot = scratch.snapshot;
    let mut left_in_class = vec![0u32; snapshot.classes.len()];
    for pod in order {
        left_in_class[snapshot.pods[pod.at()].class.at()] += 1;
    }
    let mut placed = vec![None; snapshot.pods.len()];
    let mut queue: VecDeque<PodIdx> = order.iter().copied().collect();
    let mut failures = vec![Failure::Refused; snapshot.pods.len()];
    let mut without_progress = 0;
    while without_progress < queue.len() {
        let Some(pod) = queue.pop_front() else { break };
        before(scratch, pod);
        match scratch.place(pod) {
            Ok(spot) => {
                placed[pod.at()] = Some(spot);
                without_progress = 0;
                let class = snapshot.pods[pod.at()].class;
                left_in_class[class.at()] -= 1;
                if left_in_class[class.at()] == 0 {
                    scratch.finish_class(class);
                }
            }
            Err(failure) => {
                failures[pod.at()] = failure;
                queue.push_back(pod);
                without_progress += 1;
            }
        }
    }
    let failed = queue.into_iter().map(|pod| (pod, failures[pod.at()])).collect();
    Outcome { placed, failed, held_back: false }
}
