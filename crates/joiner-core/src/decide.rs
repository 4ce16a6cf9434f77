//! The one entry: a snapshot in, a plan out.

mod wishes;

use std::sync::Arc;

use crate::explain::{self, Reason};
use crate::model::Snapshot;
use crate::model::ids::{ClassIdx, PodIdx};
use crate::pack::ceilings::{self, Ceiling};
use crate::pack::cheapest;
use crate::pack::opened::Opened;
use crate::pack::prepared::Prepared;
use crate::pack::scratch::Scratch;
use crate::pack::sharing;
use crate::pack::upstream::{self, Outcome};
use crate::plan::{self, Bill, Plan, Refused};

pub(crate) use wishes::GivenUp;

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
    /// With a number, the work beyond the original's strategy is no more than is worth it: so many steps for each dollar per hour that the plan costs.
    pub steps_per_usd: Option<u64>,
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
            steps_per_usd: None,
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
    /// How many times the work is given to few pods whose rounds take long.
    const TIMES_IF_SLOW: u64 = 3;
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

    /// The most steps for so many pods: few that differ much get more, for each round of the search over them takes long.
    pub fn at_most(self, pods: u64) -> u64 {
        let times = if pods <= Self::MANY / 2 { Self::TIMES_IF_SLOW } else { 1 };
        self.of(pods).saturating_mul(times)
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
#[allow(clippy::needless_late_init, reason = "what the run refers to has to outlive it")]
pub fn decide_prepared(snapshot: &Snapshot, prepared: &Prepared, options: &Options) -> Plan {
    let shared = shared_work(snapshot, options);
    let worth;
    let mut run = Run::new(snapshot, prepared, &shared, GivenUp::default());
    if shared.packing == Packing::Upstream {
        return run.into_plan(None);
    }
    let original = First { bill: run.bill(), places: run.places() };
    worth = worth_it(snapshot, &shared, original.bill);
    run.scratch.options = &worth;
    run.improve();
    let given_up = give_up_what_is_too_dear(&mut run, snapshot, prepared, &worth, original);
    cheapest::shorten_lists(&mut run.scratch);
    Plan { given_up, ..run.into_plan(Some(original.bill)) }
}

/// Replaces a run that keeps all preferences by one that keeps those that are worth their price, if that makes a difference. Says what was given
/// up.
fn give_up_what_is_too_dear<'s>(
    run: &mut Run<'s>,
    snapshot: &'s Snapshot,
    prepared: &'s Prepared,
    options: &'s Options,
    original: First,
) -> Option<GivenUpPreferences> {
    if !has_wishes(snapshot) || run.scratch.machines.is_empty() {
        return None;
    }
    let charge = cheapest::charge_of(snapshot, options);
    let without = |given_up: GivenUp| {
        let mut run = Run::new(snapshot, prepared, options, given_up);
        run.improve();
        run
    };
    let mut plainest = without(wishes::all_given_up(snapshot));
    let premium =
        |dearer: &Run, cheaper: &Run| dearer.bill().cost(charge) / cheaper.bill().cost(charge) - 1.0;
    let would_cost = premium(run, &plainest);
    let give_up =
        plainest.places_all_of(run) && would_cost > options.preference_premium && original.allows(&plainest);
    if !give_up {
        run.scratch.work += plainest.scratch.work;
        return None;
    }
    let kept = run.bill();
    let mut work = run.scratch.work;
    let (some, trials) = wishes::too_dear(&plainest, snapshot, prepared, options);
    work += trials;
    if let Some(given_up) = some {
        let partly = without(given_up);
        let good = partly.places_all_of(&plainest)
            && premium(&partly, &plainest) <= options.preference_premium
            && original.allows(&partly);
        let other = if good { std::mem::replace(&mut plainest, partly) } else { partly };
        work += other.scratch.work;
    }
    *run = plainest;
    run.scratch.work += work;
    let classes = run.scratch.given_up.clone();
    let pods = wishes::pods_without(snapshot, &classes);
    Some(GivenUpPreferences { classes, pods, would_cost, kept })
}

/// Preferences that a plan does not keep because they cost too much.
#[derive(Debug, Clone)]
pub struct GivenUpPreferences {
    pub(crate) classes: GivenUp,
    /// How many pods had some.
    pub pods: usize,
    /// How much more it would cost to keep all preferences, charges per node included, as a share of what it costs to keep none.
    pub would_cost: f64,
    /// What would have been bought.
    pub kept: Bill,
}

/// With pods that prefer something there are two plans to work out. Where these take long, each has to do with a part of the work: the first
/// steps bring the most.
fn shared_work(snapshot: &Snapshot, options: &Options) -> Options {
    const SHARE: f64 = 0.15;
    let two = snapshot.pods.len() as u64 >= PackingWork::MANY && has_wishes(snapshot);
    let packing_work = if two { options.packing_work.times(SHARE) } else { options.packing_work };
    Options { packing_work, ..options.clone() }
}

/// Work in step with the money at stake: a search that costs more than it can save is not worth it, and whoever decides on few pods all the time
/// does so often.
fn worth_it(snapshot: &Snapshot, options: &Options, bill: Bill) -> Options {
    /// Whatever the price: some milliseconds.
    const LEAST: f64 = 1_000_000.0;
    let Some(per_usd) = options.steps_per_usd else { return options.clone() };
    let steps = LEAST + per_usd as f64 * (bill.price_nano_usd as f64 / 1e9);
    let all = options.packing_work.of(snapshot.pods.len() as u64) as f64;
    let packing_work =
        if steps < all { options.packing_work.times(steps / all) } else { options.packing_work };
    Options { packing_work, ..options.clone() }
}

fn has_wishes(snapshot: &Snapshot) -> bool {
    wishes::with_wishes(snapshot).next().is_some()
}

/// What came of the original's strategy.
#[derive(Clone, Copy)]
struct First {
    bill: Bill,
    places: usize,
}

impl First {
    /// Whether a run is no dearer, or places more for its price.
    fn allows(self, run: &Run) -> bool {
        run.bill().price_nano_usd <= self.bill.price_nano_usd || run.places() > self.places
    }
}

/// A finished run of the queue.
struct Run<'s> {
    prepared: &'s Prepared,
    scratch: Scratch<'s>,
    outcome: Outcome,
    order: Vec<PodIdx>,
    refused: Vec<Refused>,
    /// Where ceilings of its machines would begin.
    tops: Vec<Option<Ceiling>>,
}

/// What a pass over the queue takes for granted, learnt from the passes before.
#[derive(Debug, Clone, Default)]
struct Premise {
    /// Domains that machines open for pods that can't go there.
    opened: Opened,
    by_priority: bool,
}

impl Premise {
    /// What the next pass has to take for granted; `None` if this one may stay as it is.
    fn next(&self, scratch: &mut Scratch, outcome: &Outcome) -> Option<Self> {
        let newly = scratch.newly_opened();
        if !newly.is_empty() {
            let mut opened = self.opened.clone();
            opened.extend(newly);
            opened.sort_unstable();
            opened.dedup();
            return Some(Self { opened, ..self.clone() });
        }
        let starved = !self.by_priority && limits_starve_priority(scratch, outcome);
        starved.then(|| Self { by_priority: true, ..self.clone() })
    }
}

impl<'s> Run<'s> {
    fn new(snapshot: &'s Snapshot, prepared: &'s Prepared, options: &'s Options, given_up: GivenUp) -> Self {
        Self::below(snapshot, prepared, options, given_up, &[])
    }

    /// The same with new machines held down by ceilings, if there are any, until the queue is at rest.
    fn below(
        snapshot: &'s Snapshot,
        prepared: &'s Prepared,
        options: &'s Options,
        given_up: GivenUp,
        ceilings: &[Option<Ceiling>],
    ) -> Self {
        let run = |premise: &Premise| {
            let mut scratch = Scratch::with_opened(snapshot, prepared, options, &premise.opened);
            scratch.given_up = given_up.clone();
            let order = upstream::queue_order(snapshot, premise.by_priority);
            scratch.ceilings.iter_mut().zip(ceilings).for_each(|(row, ceiling)| *row = *ceiling);
            let mut outcome = upstream::run_to_rest(&mut scratch, &order, &mut |_, _| {});
            if !ceilings.is_empty() {
                outcome = upstream::lift_and_run_to_rest(&mut scratch, outcome, &order);
            }
            (scratch, outcome, order)
        };
        let mut premise = Premise::default();
        let (mut scratch, mut outcome, mut order) = run(&premise);
        while let Some(next) = premise.next(&mut scratch, &outcome) {
            premise = next;
            (scratch, outcome, order) = run(&premise);
        }
        upstream::fill(&mut scratch, &mut outcome);
        let tops = if outcome.held_back { scratch.tops() } else { Vec::new() };
        scratch.give_back();
        let refused = refusals(&mut scratch, &outcome);
        Self { prepared, scratch, outcome, order, refused, tops }
    }

    /// Makes the best of it: cheaper machines, and places for pods that limits kept out, beside these machines or on smaller ones.
    fn improve(&mut self) {
        self.divide_anew();
        if !self.outcome.held_back || !upstream::limits_hold_back(&mut self.scratch, &self.outcome.failed) {
            return;
        }
        if let Some(mut other) = self.with_smaller_machines() {
            other.divide_anew();
            if other.places_all_of(self) && other.places() > self.places() {
                other.scratch.work += self.scratch.work;
                *self = other;
            }
        }
    }

    /// A run that places more than this one because its machines count as less; the first of those that place the most.
    fn with_smaller_machines(&self) -> Option<Self> {
        let Scratch { snapshot, options, .. } = self.scratch;
        let mut best: Option<Self> = None;
        if self.tops.iter().all(Option::is_none) {
            return None;
        }
        for times in 1..=ceilings::LEVELS {
            let ceilings = ceilings::halved(&self.tops, times);
            let other =
                Self::below(snapshot, self.prepared, options, self.scratch.given_up.clone(), &ceilings);
            let known = best.as_ref().map_or_else(|| self.places(), Self::places);
            if other.places() > known && other.places_all_of(self) {
                let all = !other.outcome.held_back;
                best = Some(other);
                if all {
                    break;
                }
            }
        }
        best
    }

    /// Divides pods over machines anew, and serves those that limits kept out beside the machines of the first pass, as long as that goes on.
    fn divide_anew(&mut self) {
        /// How often pods that found room are divided over machines together with the others.
        const AGAIN: usize = 1;
        cheapest::improve(&mut self.scratch, &mut self.outcome, &self.order);
        if !self.outcome.held_back {
            return;
        }
        let mut again = 0;
        while sharing::serve(&mut self.scratch, self.prepared, &mut self.outcome, &self.order)
            && again < AGAIN
        {
            cheapest::improve(&mut self.scratch, &mut self.outcome, &self.order);
            again += 1;
        }
        self.refused = refusals(&mut self.scratch, &self.outcome);
    }

    /// Whether every pod that has a place in another run has one in this.
    fn places_all_of(&self, other: &Run) -> bool {
        let placed = self.outcome.placed.iter().zip(&other.outcome.placed);
        placed.into_iter().all(|(here, there)| there.is_none() || here.is_some())
    }

    /// How many pods have a place.
    fn places(&self) -> usize {
        self.outcome.placed.iter().flatten().count()
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
    let mut by_class: Vec<Option<Arc<[Reason]>>> = vec![None; scratch.snapshot.classes.len()];
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
    let mut premise = Premise::default();
    loop {
        let mut scratch = Scratch::with_opened(snapshot, &prepared, options, &premise.opened);
        if let Some(given_up) = plan.as_ref().and_then(|plan| plan.given_up.as_ref()) {
            scratch.given_up = given_up.classes.clone();
        }
        let order = upstream::queue_order(snapshot, premise.by_priority);
        if snapshot.classes[snapshot.pods[pod.at()].class.at()].filler {
            // Buffers come last: first everything that comes before them.
            let outcome = upstream::run_to_rest(&mut scratch, &order, &mut |_, _| {});
            if let Some(next) = premise.next(&mut scratch, &outcome) {
                premise = next;
                continue;
            }
            let mut story = explain::follow(&mut scratch, &upstream::fill_order(snapshot), pod).0;
            if let Some(plan) = &plan {
                story.end_in(plan);
            }
            return story;
        }
        let (mut story, outcome) = explain::follow(&mut scratch, &order, pod);
        if let Some(next) = premise.next(&mut scratch, &outcome) {
            premise = next;
            continue;
        }
        if let Some(plan) = &plan {
            story.end_in(plan);
        }
        return story;
    }
}
