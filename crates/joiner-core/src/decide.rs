//! The one entry: a snapshot in, a plan out.

use std::rc::Rc;

use crate::explain::{self, Reason};
use crate::model::Snapshot;
use crate::model::ids::{ClassIdx, PodIdx};
use crate::pack::cheapest;
use crate::pack::prepared::Prepared;
use crate::pack::scratch::Scratch;
use crate::pack::upstream::{self, Outcome};
use crate::plan::{self, Bill, Plan, Refused};

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
    /// What a machine costs beyond its price when packings are compared, nano-dollars per hour; `None` = by the catalogue.
    pub node_charge_nano_usd: Option<i64>,
    /// Work [`Packing::Cheapest`] may cost beyond the original's strategy.
    pub packing_work: PackingWork,
    /// Where the search for a cheaper packing draws from.
    pub seed: u64,
    /// By what share a plan may be dearer to keep what pods only prefer.
    pub preference_premium: f64,
    /// The most instance types a machine lists under [`Packing::Cheapest`].
    pub max_types: usize,
    /// By what share of the cheapest a type that a machine lists may be dearer.
    pub type_premium: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            packing: Packing::Upstream,
            min_values: MinValuesPolicy::Strict,
            reserved: ReservedMode::Strict,
            bound_work: crate::bound::DEFAULT_WORK,
            node_charge_nano_usd: None,
            packing_work: PackingWork::default(),
            seed: 0,
            preference_premium: 0.03,
            max_types: 60,
            type_premium: 0.5,
        }
    }
}

/// The strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// As the original packs, its defects corrected.
    Upstream,
    /// The cheapest of several strategies, the original's among them.
    Cheapest,
}

/// How much looking for a cheaper packing may cost: elementary steps of a few nanoseconds, never time, so equal inputs give
/// equal plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackingWork {
    /// Whatever the number of pods.
    pub base: u64,
    /// And for every pod.
    pub per_pod: u64,
}

impl Default for PackingWork {
    fn default() -> Self {
        Self { base: 5_000_000, per_pod: 1_000 }
    }
}

impl PackingWork {
    /// So many pods take long; half of them do not.
    pub const MANY: u64 = 5_000;
    /// So many times as much.
    pub fn times(self, factor: f64) -> Self {
        let times = |steps: u64| (steps as f64 * factor) as u64;
        Self { base: times(self.base), per_pod: times(self.per_pod) }
    }

    /// Steps for so many pods. A few are decided in no time: there the base counts several times.
    pub fn of(self, pods: u64) -> u64 {
        /// How many times more the base counts for few.
        const MORE: f64 = 3.0;
        let half = Self::MANY / 2;
        let few = Self::MANY.saturating_sub(pods).min(half) as f64 / half as f64;
        self.plain(pods).saturating_add((self.base as f64 * MORE * few) as u64)
    }

    /// The same without regard to whether there are few.
    pub(crate) fn plain(self, pods: u64) -> u64 {
        self.base.saturating_add(self.per_pod.saturating_mul(pods))
    }
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
    let shared = shared_work(snapshot, options);
    let options = &shared;
    let mut run = Run::new(snapshot, prepared, options, false);
    if options.packing == Packing::Upstream {
        return run.into_plan(None);
    }
    let original = run.bill();
    cheapest::improve(&mut run.scratch, &mut run.outcome, &run.order);
    let mut preferences_would_cost = None;
    if let Some((mut plainer, premium)) = without_preferences(&run, snapshot, prepared, options) {
        let give_up = premium.is_some_and(|premium| premium > options.preference_premium)
            && plainer.bill().price_nano_usd <= original.price_nano_usd;
        if give_up {
            std::mem::swap(&mut run, &mut plainer);
            preferences_would_cost = premium;
        }
        run.scratch.work += plainer.scratch.work;
    }
    cheapest::shorten_lists(&mut run.scratch);
    Plan { preferences_would_cost, ..run.into_plan(Some(original)) }
}

/// With pods that prefer something there are two plans to work out. Where these take long, each has to do with a part of the work: the first
/// steps bring the most.
fn shared_work(snapshot: &Snapshot, options: &Options) -> Options {
    const SHARE: f64 = 0.15;
    let two = snapshot.pods.len() as u64 >= PackingWork::MANY && has_wishes(snapshot);
    let packing_work = if two { options.packing_work.times(SHARE) } else { options.packing_work };
    Options { packing_work, ..options.clone() }
}

fn has_wishes(snapshot: &Snapshot) -> bool {
    snapshot.classes.iter().any(|class| class.first_without_preferences() > 0)
}

/// The same decision with all preferences given up, and how much more it costs to keep them, if every pod still has a place.
fn without_preferences<'s>(
    kept: &Run<'s>,
    snapshot: &'s Snapshot,
    prepared: &'s Prepared,
    options: &'s Options,
) -> Option<(Run<'s>, Option<f64>)> {
    if !has_wishes(snapshot) || kept.scratch.machines.is_empty() {
        return None;
    }
    let mut run = Run::new(snapshot, prepared, options, true);
    cheapest::improve(&mut run.scratch, &mut run.outcome, &run.order);
    let places_all = (0..snapshot.pods.len())
        .all(|at| kept.outcome.placed[at].is_none() || run.outcome.placed[at].is_some());
    let charge = cheapest::charge_of(snapshot, options);
    let (with, without) = (kept.bill(), run.bill());
    let premium = with.cost(charge) / without.cost(charge) - 1.0;
    Some((run, places_all.then_some(premium)))
}

/// A finished run of the queue.
struct Run<'s> {
    scratch: Scratch<'s>,
    outcome: Outcome,
    order: Vec<PodIdx>,
    refused: Vec<Refused>,
}

impl<'s> Run<'s> {
    fn new(
        snapshot: &'s Snapshot,
        prepared: &'s Prepared,
        options: &'s Options,
        give_up_preferences: bool,
    ) -> Self {
        let run = |by_priority: bool| {
            let mut scratch = Scratch::new(snapshot, prepared, options);
            scratch.give_up_preferences = give_up_preferences;
            let order = upstream::queue_order(snapshot, by_priority);
            let outcome = upstream::run(&mut scratch, &order);
            (scratch, outcome, order)
        };
        let (mut scratch, mut outcome, mut order) = run(false);
        if limits_starve_priority(&mut scratch, &outcome) {
            (scratch, outcome, order) = run(true);
        }
        upstream::fill(&mut scratch, &mut outcome);
        let refused = refusals(&mut scratch, &outcome);
        Self { scratch, outcome, order, refused }
    }

    fn bill(&self) -> Bill {
        plan::bill(&self.scratch, &self.scratch.machines)
    }

    fn into_plan(mut self, original: Option<Bill>) -> Plan {
        plan::assemble(&mut self.scratch, self.outcome, self.refused, original)
    }
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
    let plan = match options.packing {
        Packing::Upstream => None,
        Packing::Cheapest => Some(decide_prepared(snapshot, &prepared, options)),
    };
    let mut by_priority = false;
    loop {
        let mut scratch = Scratch::new(snapshot, &prepared, options);
        scratch.give_up_preferences = plan.as_ref().is_some_and(|plan| plan.preferences_would_cost.is_some());
        let order = upstream::queue_order(snapshot, by_priority);
        if snapshot.classes[snapshot.pods[pod.at()].class.at()].filler {
            // Buffers come last: first everything that comes before them.
            let outcome = upstream::run(&mut scratch, &order);
            if !by_priority && limits_starve_priority(&mut scratch, &outcome) {
                by_priority = true;
                continue;
            }
            let mut story = explain::follow(&mut scratch, &upstream::fill_order(snapshot), pod).0;
            if let Some(plan) = &plan {
                story.end_in(plan);
            }
            return story;
        }
        let (mut story, outcome) = explain::follow(&mut scratch, &order, pod);
        if !by_priority && limits_starve_priority(&mut scratch, &outcome) {
            by_priority = true;
            continue;
        }
        if let Some(plan) = &plan {
            story.end_in(plan);
        }
        return story;
    }
}
