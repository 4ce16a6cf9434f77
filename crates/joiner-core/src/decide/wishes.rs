//! Which preferences are worth their price.
//!
//! A plan that keeps everything pods prefer may be far dearer than one that keeps nothing, and often a single workload is to blame: a
//! hundred replicas that would rather not share a host. The others should not pay for it with their zones. So where all preferences together are
//! too dear, workloads get theirs back, half of them at a time, as long as the plan stays within the premium.

use std::sync::Arc;

use super::{Options, PackingWork, Run};
use crate::model::Snapshot;
use crate::model::ids::ClassIdx;
use crate::pack::cheapest;
use crate::pack::prepared::Prepared;

/// The most plans worked out to learn which preferences are dear.
const TRIALS: usize = 8;
/// The share of the usual work that goes into one of them: they only have to be compared with each other.
const SHARE: f64 = 0.1;

/// Per class whether its pods are placed without regard to what they only prefer; empty: nothing is given up.
pub(crate) type GivenUp = Arc<[bool]>;

/// The classes that prefer something.
pub(super) fn with_wishes(snapshot: &Snapshot) -> impl Iterator<Item = ClassIdx> + '_ {
    let classes = snapshot.classes.iter().enumerate();
    classes.filter(|(_, class)| class.first_without_preferences() > 0).map(|(at, _)| ClassIdx::new(at))
}

/// Everything given up that could be.
pub(super) fn all_given_up(snapshot: &Snapshot) -> GivenUp {
    snapshot.classes.iter().map(|class| class.first_without_preferences() > 0).collect()
}

/// How many pods had to give something up.
pub(super) fn pods_without(snapshot: &Snapshot, given_up: &[bool]) -> usize {
    let without = |class: ClassIdx| given_up.get(class.at()).copied().unwrap_or(false);
    snapshot.pods.iter().filter(|pod| without(pod.class) && !snapshot.classes[pod.class.at()].filler).count()
}

/// What is to be given up so that the rest can be kept within the premium, and the work it took to find out; `None` if nothing can be kept, or
/// if there are so many pods that trying takes too long.
pub(super) fn too_dear<'s>(
    plainest: &Run<'s>,
    snapshot: &'s Snapshot,
    prepared: &'s Prepared,
    options: &Options,
) -> (Option<GivenUp>, u64) {
    let mut classes: Vec<ClassIdx> = with_wishes(snapshot).collect();
    if classes.len() < 2 || snapshot.pods.len() as u64 >= PackingWork::MANY {
        return (None, 0);
    }
    // In the order of the queue, which does not depend on that of the input.
    let mut turn = vec![usize::MAX; snapshot.classes.len()];
    for (at, pod) in plainest.order.iter().enumerate().rev() {
        turn[snapshot.pods[pod.at()].class.at()] = at;
    }
    classes.retain(|class| turn[class.at()] != usize::MAX);
    classes.sort_by_key(|class| turn[class.at()]);

    let options = Options { packing_work: options.packing_work.times(SHARE), ..options.clone() };
    let charge = cheapest::charge_of(snapshot, &options);
    let mut work = 0;
    let mut cost_without = |given_up: &GivenUp| -> Option<f64> {
        let mut run = Run::new(snapshot, prepared, &options, given_up.clone());
        run.improve();
        work += run.scratch.work;
        run.places_all_of(plainest).then(|| run.bill().cost(charge))
    };
    let mut given_up = all_given_up(snapshot);
    let Some(plain) = cost_without(&given_up) else { return (None, work) };
    let most = plain * (1.0 + options.preference_premium);
    // All of them together are too dear, or nobody would ask.
    let (front, back) = classes.split_at(classes.len() / 2);
    let mut to_try = vec![back, front];
    for _ in 1..TRIALS {
        let Some(some) = to_try.pop() else { break };
        let mut trial = given_up.to_vec();
        some.iter().for_each(|class| trial[class.at()] = false);
        let trial: GivenUp = trial.into();
        if cost_without(&trial).is_some_and(|cost| cost <= most) {
            given_up = trial;
        } else if some.len() > 1 {
            let (front, back) = some.split_at(some.len() / 2);
            to_try.extend([back, front]);
        }
    }
    let kept = classes.iter().any(|class| !given_up[class.at()]);
    (kept.then_some(given_up), work)
}
