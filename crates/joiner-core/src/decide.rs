//! The one entry: a snapshot in, a plan out.

use std::rc::Rc;

use crate::explain::{self, Reason};
use crate::model::Snapshot;
use crate::model::ids::{ClassIdx, PodIdx};
use crate::pack::prepared::Prepared;
use crate::pack::scratch::Scratch;
use crate::pack::upstream::{self, Outcome};
use crate::plan::{self, Plan, Refused};

/// How to decide.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which strategy packs.
    pub packing: Packing,
    /// What happens when fewer values are there than a pool's minValues.
    pub min_values: MinValuesPolicy,
    /// What happens when reserved capacity exists but is taken.
    pub reserved: ReservedMode,
    /// Work [`lower_bound`] may cost.
    pub bound_work: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            packing: Packing::Upstream,
            min_values: MinValuesPolicy::Strict,
            reserved: ReservedMode::Strict,
            bound_work: crate::bound::DEFAULT_WORK,
        }
    }
}

/// The strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// As the original packs, its defects corrected.
    Upstream,
}

/// Karpenter's `--min-values-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// Refuse.
    Strict,
    /// Lower the number when a machine is opened.
    BestEffort,
}

/// What to do when compatible reservations are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedMode {
    /// Wait for them.
    Strict,
    /// Go on with other capacity.
    Fallback,
}

/// Decides which machines to add and where every pending pod goes.
pub fn decide(snapshot: &Snapshot, options: &Options) -> Plan {
    decide_prepared(snapshot, &Prepared::new(snapshot), options)
}

/// The same for a caller that holds what can be prepared.
pub fn decide_prepared(snapshot: &Snapshot, prepared: &Prepared, options: &Options) -> Plan {
    let mut scratch = Scratch::new(snapshot, prepared, options);
    let mut outcome = upstream::run(&mut scratch, &upstream::queue_order(snapshot, false));
    if limits_starve_priority(&mut scratch, &outcome) {
        scratch = Scratch::new(snapshot, prepared, options);
        outcome = upstream::run(&mut scratch, &upstream::queue_order(snapshot, true));
    }
    upstream::fill(&mut scratch, &mut outcome);
    let refused = refusals(&mut scratch, &outcome);
    plan::assemble(&mut scratch, outcome, refused)
}

/// Whether a pod was refused because of a limit while a pod of lower priority was placed.
fn limits_starve_priority(scratch: &mut Scratch, outcome: &Outcome) -> bool {
    let snapshot = scratch.snapshot;
    let lowest_placed = (0..snapshot.pods.len())
        .filter(|at| outcome.placed[*at].is_some())
        .map(|at| snapshot.classes[snapshot.pods[at].class.at()].priority)
        .min();
    let Some(lowest_placed) = lowest_placed else { return false };
    let mut asked: Vec<ClassIdx> = Vec::new();
    for (pod, _) in &outcome.failed {
        let class = snapshot.pods[pod.at()].class;
        if snapshot.classes[class.at()].priority > lowest_placed && !asked.contains(&class) {
            asked.push(class);
            if scratch.limits_are_to_blame(class) {
                return true;
            }
        }
    }
    false
}

/// Reasons, worked out once per class.
fn refusals(scratch: &mut Scratch, outcome: &Outcome) -> Vec<Refused> {
    let mut by_class: Vec<Option<Rc<[Reason]>>> = vec![None; scratch.snapshot.classes.len()];
    let mut refused: Vec<Refused> = Vec::new();
    for (pod, failure) in &outcome.failed {
        let class = scratch.snapshot.pods[pod.at()].class;
        if by_class[class.at()].is_none() {
            by_class[class.at()] = Some(explain::refusal(scratch, class, *failure).into());
        }
        if let Some(reasons) = &by_class[class.at()] {
            refused.push(Refused { pod: *pod, reasons: reasons.clone() });
        }
    }
    refused
        .sort_by(|a, b| scratch.snapshot.pods[a.pod.at()].name.cmp(&scratch.snapshot.pods[b.pod.at()].name));
    refused
}

/// The price no packing of a plan's pods on new machines can beat; `None` if working it out exceeds the budget of the options.
pub fn lower_bound(snapshot: &Snapshot, options: &Options, plan: &Plan) -> Option<f64> {
    let prepared = Prepared::new(snapshot);
    let mut scratch = Scratch::new(snapshot, &prepared, options);
    plan::lower_bound(&mut scratch, plan, options.bound_work)
}

/// Where a pod went and why there, worked out by deciding again and looking on.
pub fn explain_pod(snapshot: &Snapshot, options: &Options, pod: PodIdx) -> explain::Story {
    let prepared = Prepared::new(snapshot);
    let mut by_priority = false;
    loop {
        let mut scratch = Scratch::new(snapshot, &prepared, options);
        let order = upstream::queue_order(snapshot, by_priority);
        if snapshot.classes[snapshot.pods[pod.at()].class.at()].filler {
            // Buffers come last: first everything that comes before them.
            let outcome = upstream::run(&mut scratch, &order);
            if !by_priority && limits_starve_priority(&mut scratch, &outcome) {
                by_priority = true;
                continue;
            }
            return explain::follow(&mut scratch, &upstream::fill_order(snapshot), pod).0;
        }
        let (story, outcome) = explain::follow(&mut scratch, &order, pod);
        if !by_priority && limits_starve_priority(&mut scratch, &outcome) {
            by_priority = true;
            continue;
        }
        return story;
    }
}
