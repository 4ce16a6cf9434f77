//! Decisions beside the loop. A question is a snapshot and the pods that wait; a worker answers it while the loop goes on listening, and what has
//! changed meanwhile is taken out of the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use joiner_api::NodePool;
use joiner_core::decide;
use joiner_core::model::Snapshot;
use joiner_core::plan::Plan;
use kube::ResourceExt;

use crate::engine::Engine;
use crate::executor::Epoch;
use crate::metrics::{Tripped, rows};
use crate::pods::CachedPod;
use crate::provision::{self, Context, InNeed, Proposal};
use crate::queue::Key;
use crate::reports::Report;

/// By virtual time a decision takes so long, however long the machine takes for it: whoever has something to do at the same moment is done
/// when the answer comes, so two runs are equal.
const DECISION: Duration = Duration::from_millis(1);

/// What was asked.
#[derive(Debug)]
pub(crate) struct Question {
    snapshot: Arc<Snapshot>,
    /// Pods without a place.
    waiting: Vec<Arc<CachedPod>>,
    /// Pools as they were, by name.
    pools: BTreeMap<String, Arc<NodePool>>,
    /// Claims on their way out: their names are not given again so soon, their machines may still be there.
    going: BTreeSet<String>,
    /// In which epoch it was asked.
    epoch: Epoch,
}

impl Engine {
    /// Asks for a decision if pods wait for one.
    pub(crate) fn provision(&mut self) {
        let present = self.present();
        if let Some(due) = self.batch.due(&self.settings).filter(|due| *due > present.monotonic) {
            self.queue.add(Key::Provision, due);
            return;
        }
        if !self.cache.node_groups.is_current() {
            // Their list is on its way, and asks for a decision when it has come.
            return;
        }
        let in_need = self.in_need();
        self.nominations.forget(|uid| in_need.contains_key(uid));
        self.batch.decided.retain(|uid, _| in_need.contains_key(uid));
        self.batch.refused.retain(|uid| self.batch.decided.contains_key(uid));
        self.metrics.set_breaker(Tripped::Offering, self.health.paused(present.wall));
        let on_probation = self.on_probation();
        self.planning.put_on_probation(on_probation);
        let places = self.nominations.places(&self.cache, &in_need, &self.times, present, &self.settings);
        self.batch.displace(places.displaced);
        let mut expected = places.expected;
        expected.retain(|uid, _| !self.batch.displaced.contains(uid));
        let context = Context {
            registry: &self.registry,
            settings: &self.settings,
            health: &self.health,
            expected: &expected,
            provisionable: &self.provisionable,
            watches: &self.watches,
            now: present.wall,
        };
        let mut waiting = provision::waiting(&self.cache, &context);
        self.hold_runaways(&mut waiting, present.wall);
        let context = Context {
            registry: &self.registry,
            settings: &self.settings,
            health: &self.health,
            expected: &expected,
            provisionable: &self.provisionable,
            watches: &self.watches,
            now: present.wall,
        };
        let retry = self.settings.retry_interval;
        let is_due = |uid: &str| {
            self.batch.decided.get(uid).is_none_or(|time| present.monotonic.since(*time) >= retry)
        };
        let due: Vec<&str> = waiting.iter().map(|pod| &*pod.uid).filter(|uid| is_due(uid)).collect();
        let any_new = due.iter().any(|uid| !self.batch.refused.contains(*uid))
            || !due.is_empty() && self.planning.could_help(&self.cache, &context);
        if !any_new {
            // What has come helps nobody.
            self.asked = self.heard;
        }
        let in_flight = !expected.is_empty();
        let snapshot = any_new.then(|| self.planning.snapshot(&self.cache, &waiting, &context));
        self.batch.opened = None;
        self.batch.last = None;
        self.batch.again = None;
        self.batch.uids.clear();
        if !waiting.is_empty() || in_flight {
            // Pods without a place are tried again; those with one are, if they never arrive.
            self.requeue_after(&Key::Provision, self.settings.retry_interval);
        }
        let Some(snapshot) = snapshot else { return };
        self.asked = self.heard;
        for pod in &waiting {
            self.batch.decided.insert(pod.uid.to_string(), present.monotonic);
        }
        let pools = provision::pools(&self.cache, &self.registry);
        let pools = pools.map(|pool| (pool.name_any(), pool.clone())).collect();
        let claims = self.cache.claims.values();
        let going = claims.filter(|claim| claim.metadata.deletion_timestamp.is_some());
        let going = going.map(|claim| claim.name_any()).collect();
        self.decide(Question { snapshot, waiting, pools, going, epoch: self.epoch });
    }

    fn decide(&mut self, question: Question) {
        self.busy.insert(Key::Provision, false);
        self.measure_question(question.waiting.len());
        let metrics = self.metrics.clone();
        let (clock, options) = (self.clock.clone(), self.settings.packing.clone());
        let snapshot = question.snapshot.clone();
        self.spawn_guarded(vec![Key::Provision], async move {
            let plan = on_worker(move || {
                let begun = Instant::now();
                let plan = decide::decide(&snapshot, &options);
                metrics.decided(plan.work);
                metrics.observe(&rows::SCHEDULING_DURATION, &["provisioner"], begun.elapsed().as_secs_f64());
                plan
            })
            .await;
            clock.sleep(DECISION).await;
            Report::Decided(question, Box::new(plan))
        });
    }

    /// An answer has come: what still holds of it is done.
    pub(crate) fn decided(&mut self, question: &Question, plan: Plan, now: Timestamp) {
        let mut again = self.busy.remove(&Key::Provision) == Some(true);
        self.measure_answer();
        if !self.acts() || question.epoch != self.epoch {
            // Somebody else led meanwhile, and what was asked is no longer the question.
            return self.enqueue(Key::Provision);
        }
        let present = self.present();
        let in_need = self.in_need();
        let expected = self.nominations.expected(&self.cache, &in_need, &self.times, present, &self.settings);
        let context = Context {
            registry: &self.registry,
            settings: &self.settings,
            health: &self.health,
            expected: &expected,
            provisionable: &self.provisionable,
            watches: &self.watches,
            now,
        };
        let is_taken = |name: &str| self.cache.claims.get(name).is_some() || question.going.contains(name);
        let overlaid = match plan.machines.is_empty() {
            true => BTreeMap::new(),
            false => self.planning.overlaid(&self.cache, &context),
        };
        let mut proposal = provision::raise(
            &self.cache,
            &question.snapshot,
            &plan,
            &question.waiting,
            &context,
            &overlaid,
            is_taken,
        );
        let left_over = self.take_out_what_changed(question, &mut proposal, &in_need);
        for uid in left_over {
            // Its machine was planned for others too, who need none any more.
            self.batch.decided.remove(&uid);
            again = true;
        }
        self.one_at_a_time(&mut proposal);
        let refused: BTreeSet<&str> = proposal.refused.iter().map(|(key, _)| key.as_str()).collect();
        for pod in &question.waiting {
            match refused.contains(&*pod.key()) {
                true => drop(self.batch.refused.insert(pod.uid.to_string())),
                false => drop(self.batch.refused.remove(&*pod.uid)),
            }
        }
        let step = self.act_on(&proposal, now);
        if !(proposal.claims.is_empty() && proposal.growing.is_empty()) && self.leads() {
            self.find_bound(question.snapshot.clone(), plan, now);
        }
        self.carry_out(Key::Provision, step, now);
        match self.busy.get_mut(&Key::Provision) {
            Some(asked) => *asked |= again,
            None if again => self.enqueue(Key::Provision),
            None => {}
        }
    }

    /// Takes out what no longer holds: pods that have gone or found a place, and machines that were planned for them or for pools that are
    /// others now. Gives back the pods of those machines that still wait.
    fn take_out_what_changed(
        &self,
        question: &Question,
        proposal: &mut Proposal,
        in_need: &InNeed,
    ) -> Vec<String> {
        let uids = question.waiting.iter().map(|pod| (pod.key(), pod.uid.to_string()));
        let waits: BTreeMap<String, String> = uids.filter(|(_, uid)| in_need.contains_key(uid)).collect();
        let is_same_pool = |name: Option<&String>| {
            let Some(then) = name.and_then(|name| question.pools.get(name)) else { return false };
            let now = self.cache.pools.get(&then.name_any());
            now.is_some_and(|now| {
                now.metadata.deletion_timestamp.is_none() && now.uid() == then.uid() && now.spec == then.spec
            })
        };
        let mut left_over = Vec::new();
        proposal.claims.retain(|planned| {
            let pool = planned.claim.labels().get(joiner_api::names::NODEPOOL_LABEL);
            let holds = is_same_pool(pool) && planned.pods.iter().all(|pod| waits.contains_key(pod));
            if !holds {
                left_over.extend(planned.pods.iter().filter_map(|pod| waits.get(pod).cloned()));
            }
            holds
        });
        for group in &mut proposal.growing {
            let target = self.cache.node_groups.get(&group.key).map(|of| of.target);
            let is_same = target == Some(group.from);
            group.machines.retain(|(_, pods)| {
                let holds = is_same && pods.iter().all(|pod| waits.contains_key(pod));
                if !holds {
                    left_over.extend(pods.iter().filter_map(|pod| waits.get(pod).cloned()));
                }
                holds
            });
        }
        proposal.growing.retain(|group| !group.machines.is_empty());
        for (_, pods) in &mut proposal.on_nodes {
            pods.retain(|pod| waits.contains_key(pod));
        }
        proposal.on_nodes.retain(|(_, pods)| !pods.is_empty());
        proposal.refused.retain(|(pod, _)| waits.contains_key(pod));
        proposal.price = provision::price(&proposal.claims, &proposal.growing);
        left_over
    }

    /// Of the machines of a pool whose last ones did not join, one is tried. The pods of the others wait for what comes of it.
    fn one_at_a_time(&mut self, proposal: &mut Proposal) {
        let on_probation = self.on_probation();
        let mut tried = on_probation.closed;
        proposal.claims.retain(|planned| {
            let pool = planned.claim.labels().get(joiner_api::names::NODEPOOL_LABEL);
            let Some(pool) = pool.filter(|pool| on_probation.last.contains(*pool)) else { return true };
            tried.insert(pool.clone())
        });
        proposal.price = proposal.claims.iter().map(|planned| planned.price).sum();
    }

    /// Works out at leisure how much cheaper any plan could have been; only screens ask.
    fn find_bound(&mut self, snapshot: Arc<Snapshot>, plan: Plan, time: Timestamp) {
        let (clock, options) = (self.clock.clone(), self.settings.packing.clone());
        if options.bound_work == 0 {
            return;
        }
        self.spawn_guarded(Vec::new(), async move {
            let bound = on_worker(move || decide::lower_bound(&snapshot, &options, &plan)).await;
            clock.sleep(DECISION).await;
            Report::Bounded { time, bound }
        });
    }

    /// How much cheaper the last plan could have been is known.
    pub(crate) fn bounded(&mut self, time: Timestamp, bound: Option<f64>) {
        if let Some(last) = self.last_plan.as_mut().filter(|last| last.time == time) {
            last.gap = bound.filter(|bound| *bound > 0.0).map(|bound| last.price / bound - 1.0);
        }
    }
}

/// Runs something that takes long on a thread of its own. While it is under way, paused time stands still.
async fn on_worker<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // A panic goes on where it is caught for its key; nobody cancels such work.
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(cancelled) => std::panic::panic_any(cancelled.to_string()),
        },
    }
}
