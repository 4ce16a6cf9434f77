//! The breakers in the loop: facts are gathered, [`steps::breakers`](crate::steps::breakers) decides, and what is to be remembered is written to pools.
//!
//! While this process leads, what it counts in memory is what pools shall say; a new leader reads it from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use joiner_api::names::{self, NODEPOOL_LABEL, conditions};
use joiner_api::{NodeClaim, NodePool};
use joiner_core::explain::Cause;
use joiner_record::{Breaker, BreakerKind, Reason, Verdict, words};
use kube::ResourceExt;

use crate::claims::planned_pods;
use crate::command::Step;
use crate::decision::{Decided, subject_of};
use crate::engine::Engine;
use crate::metrics::Tripped;
use crate::pods::{self, CachedPod};
use crate::provision;
use crate::queue::Key;
use crate::record::Note;
use crate::room;
use crate::steps::breakers::cluster_health::{ClusterHealth, Turn};
use crate::steps::breakers::registration::{self, OnProbation};
use crate::steps::breakers::runaway::{self, Count, Record};
use crate::steps::lifecycle::is_true;

/// Pods that are told one by one why no machine is bought for them; of more the decision tells.
const TOLD: usize = 16;

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Breakers {
    /// Machines that helped nobody, by pool.
    fruitless: BTreeMap<String, Record>,
    /// Kinds of pods that no machines are bought for, and how many were when that was told.
    told: BTreeMap<String, u32>,
    /// Machines in a row that did not join, by the uid of the pool.
    unregistered: BTreeMap<String, u32>,
    pub(crate) cluster_health: ClusterHealth,
}

impl Breakers {
    fn record_of(&mut self, pool: &NodePool) -> &mut Record {
        self.fruitless.entry(pool.name_any()).or_insert_with(|| Record::of(pool))
    }

    fn unregistered(&mut self, pool: &NodePool) -> &mut u32 {
        let uid = pool.uid().unwrap_or_default();
        self.unregistered.entry(uid).or_insert_with(|| registration::stored(pool))
    }

    /// What a pool is to remember, by annotation; nothing for those that it is not to have.
    pub(crate) fn annotations(&mut self, pool: &NodePool) -> [(&'static str, Option<String>); 2] {
        let record = self.record_of(pool);
        record.follow(pool);
        let fruitless = record.text();
        let failures = registration::text(*self.unregistered(pool));
        [
            (names::FRUITLESS_MACHINES_ANNOTATION, fruitless),
            (names::REGISTRATION_FAILURES_ANNOTATION, failures),
        ]
    }

    /// A pool is gone.
    pub(crate) fn forget(&mut self, pool: &NodePool) {
        self.fruitless.remove(&pool.name_any());
        self.unregistered.remove(&pool.uid().unwrap_or_default());
    }

    fn counted(&self, kind: &str) -> Count {
        runaway::count(self.fruitless.values(), kind)
    }
}

impl Engine {
    /// Counts machines that came up and helped none of the pods they were bought for, and takes out pods for which too many were.
    pub(crate) fn hold_runaways(&mut self, waiting: &mut Vec<Arc<CachedPod>>, now: Timestamp) {
        let pools: Vec<Arc<NodePool>> = provision::pools(&self.cache, &self.registry).cloned().collect();
        for pool in &pools {
            self.breakers.record_of(pool).follow(pool);
        }
        let last_claim = self.count_fruitless(waiting, now);
        if self.breakers.fruitless.values().all(Record::is_empty) {
            self.metrics.set_breaker(Tripped::Runaway, 0);
            return;
        }
        let mut held: BTreeMap<String, (Timestamp, Vec<Arc<CachedPod>>)> = BTreeMap::new();
        let settings = self.settings.breakers;
        waiting.retain(|pod| {
            let kind = pods::kind(pod);
            let until = self.breakers.counted(&kind).held_until(&settings, now);
            if let Some(until) = until {
                held.entry(kind).or_insert((until, Vec::new())).1.push(pod.clone());
            }
            until.is_none()
        });
        self.metrics.set_breaker(Tripped::Runaway, held.len());
        self.breakers.told.retain(|kind, _| held.contains_key(kind));
        for (kind, (until, pods)) in held {
            self.hold(&kind, until, &pods, last_claim.get(&kind), now);
        }
    }

    /// Notes machines that came up for pods that still wait. The last such claim of each kind.
    fn count_fruitless(
        &mut self,
        waiting: &[Arc<CachedPod>],
        now: Timestamp,
    ) -> BTreeMap<String, Arc<NodeClaim>> {
        // In the order in which they were made. A name may be given again, a uid is not.
        let mut found: BTreeMap<(String, Option<Timestamp>, String), Arc<NodeClaim>> = BTreeMap::new();
        for pod in waiting.iter().filter(|pod| pods::node_name(pod).is_none()) {
            for claim in self.cache.planned_for(&pod.uid) {
                let up = is_true(claim, conditions::INITIALIZED) && self.is_ours(claim);
                if up && !self.runs_there(&pods::kind(pod), claim) && !self.is_used_by_others(pod, claim) {
                    let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
                    let uid = claim.uid().unwrap_or_default();
                    found.insert((pods::kind(pod), created, uid), claim.clone());
                }
            }
        }
        let mut last: BTreeMap<String, Arc<NodeClaim>> = BTreeMap::new();
        for ((kind, _, uid), claim) in found {
            let pool =
                claim.labels().get(NODEPOOL_LABEL).and_then(|pool| self.cache.pools.get(pool)).cloned();
            if let Some(pool) = pool
                && self.breakers.record_of(&pool).add(&pool, &kind, &uid, now)
            {
                let claims = self.cache.claims_in_pool(pool.metadata.name.as_deref().unwrap_or_default());
                let there: BTreeSet<&str> =
                    claims.filter_map(|claim| claim.metadata.uid.as_deref()).collect();
                self.breakers.record_of(&pool).tidy(|claim| there.contains(claim));
                self.enqueue(Key::Pool(pool.name_any()));
            }
            last.insert(kind, claim);
        }
        last
    }

    /// Whether a machine has no room left for the pod it was bought for: it did help, others.
    fn is_used_by_others(&self, pod: &CachedPod, claim: &NodeClaim) -> bool {
        let nodes = self.cache.nodes_of(claim);
        nodes.iter().any(|node| room::is_taken(&self.cache, &node.name_any(), pod))
    }

    /// Whether a pod of a kind runs on the machine that was bought for it.
    fn runs_there(&self, kind: &str, claim: &NodeClaim) -> bool {
        let planned: BTreeSet<&str> = planned_pods(claim).collect();
        let nodes = self.cache.nodes_of(claim);
        nodes.iter().any(|node| {
            let mut on = self.cache.pods_on(&node.name_any());
            on.any(|pod| planned.contains(&*pod.uid) && pods::kind(pod) == kind)
        })
    }

    /// Buys nothing for pods until then, and says so once.
    fn hold(
        &mut self,
        kind: &str,
        until: Timestamp,
        pods: &[Arc<CachedPod>],
        claim: Option<&Arc<NodeClaim>>,
        now: Timestamp,
    ) {
        let wait = std::time::Duration::try_from(until.duration_since(now)).unwrap_or_default();
        self.requeue_after(&Key::Provision, wait);
        let machines = self.breakers.counted(kind).machines;
        let is_told = self.breakers.told.insert(kind.to_owned(), machines) == Some(machines);
        let new = |pod: &&Arc<CachedPod>| !self.refused.contains_key(&pod.key());
        if is_told && !pods.iter().any(|pod| new(&pod)) {
            return;
        }
        let node = claim.and_then(|claim| self.cache.nodes_of(claim).first().copied().cloned());
        let breaker = Breaker::Runaway {
            machines: u64::from(machines),
            difference: claim.zip(node.as_ref()).and_then(|(claim, node)| runaway::difference(claim, node)),
            node: node.map_or_else(|| "gone".to_owned(), |node| node.name_any()),
            pods: pods.len() as u64,
            retry_after_seconds: wait.as_secs(),
        };
        let reasons: Arc<[Reason]> =
            [Reason::new(None, Cause::Pod { message: words::tripped(&breaker) })].into_iter().collect();
        for pod in pods {
            self.refused.insert(pod.key(), reasons.clone());
        }
        if is_told {
            return;
        }
        self.metrics.breaker_tripped(Tripped::Runaway);
        let verdict = Verdict::BreakerTripped { breaker };
        let notes = pods.iter().take(TOLD).filter_map(|pod| Note::of(&**pod, &verdict, None)).collect();
        let decisions = vec![Decided::new(verdict, pods.iter().map(|pod| subject_of(&**pod)).collect())];
        self.carry_out(Key::Provision, Step { notes, decisions, ..Step::default() }, now);
    }

    /// A pod has just been bound: if it runs where it was planned to, machines help its kind.
    pub(crate) fn helped(&mut self, pod: &CachedPod, now: Timestamp) {
        if self.breakers.fruitless.values().all(Record::is_empty) {
            return;
        }
        let kind = pods::kind(pod);
        let node = pods::node_name(pod).and_then(|node| self.cache.nodes.get(node));
        let claim = node.and_then(|node| self.cache.claim_of(node));
        if !claim.is_some_and(|claim| planned_pods(claim).any(|uid| *uid == *pod.uid)) {
            return;
        }
        let machines = self.breakers.counted(&kind).machines;
        let pools: Vec<String> = self
            .breakers
            .fruitless
            .iter()
            .filter(|(_, of)| of.has(&kind))
            .map(|(pool, _)| pool.clone())
            .collect();
        for pool in pools {
            if let Some(record) = self.breakers.fruitless.get_mut(&pool) {
                record.forget(&kind);
            }
            self.enqueue(Key::Pool(pool));
        }
        let most = self.settings.breakers.runaway_machines;
        if most > 0 && machines >= most {
            let verdict = Verdict::BreakerReset { breaker: BreakerKind::Runaway };
            let notes = Note::of(pod, &verdict, None).into_iter().collect();
            let decisions = vec![Decided::new(verdict, vec![subject_of(pod)])];
            self.carry_out(Key::Provision, Step { notes, decisions, ..Step::default() }, now);
            self.enqueue(Key::Provision);
        }
    }

    /// A machine of a pool has joined, or has not in time.
    pub(crate) fn count_joined(&mut self, pool: &Arc<NodePool>, joined: bool) {
        let now = self.now();
        let failures = self.breakers.unregistered(pool);
        let before = std::mem::replace(failures, if joined { 0 } else { failures.saturating_add(1) });
        let after = *failures;
        self.enqueue(Key::Pool(pool.name_any()));
        let tripped = |failures| registration::is_tripped(failures, &self.settings.breakers);
        let verdict = match (tripped(before), tripped(after)) {
            (false, true) => {
                self.metrics.breaker_tripped(Tripped::Registration);
                Verdict::BreakerTripped { breaker: Breaker::Registration { failures: u64::from(after) } }
            }
            (true, false) => Verdict::BreakerReset { breaker: BreakerKind::Registration },
            _ => return,
        };
        let notes = Note::of(&**pool, &verdict, None).into_iter().collect();
        let decisions = vec![Decided::new(verdict, vec![subject_of(&**pool)])];
        self.carry_out(Key::Pool(pool.name_any()), Step { notes, decisions, ..Step::default() }, now);
        // Pods that were held back for it, or would have gone there, are decided on anew.
        self.batch.decided.clear();
        self.enqueue(Key::Provision);
    }

    /// Whether machines of a pool do not join.
    pub(crate) fn is_on_probation(&mut self, pool: &NodePool) -> bool {
        registration::is_tripped(*self.breakers.unregistered(pool), &self.settings.breakers)
    }

    /// Pools whose machines do not join, and those of them that are just trying.
    pub(crate) fn on_probation(&mut self) -> OnProbation {
        let pools: Vec<Arc<NodePool>> = provision::pools(&self.cache, &self.registry).cloned().collect();
        let mut all = OnProbation::default();
        for pool in &pools {
            if self.is_on_probation(pool) {
                let name = pool.name_any();
                let claims = self.cache.claims_in_pool(&name).map(|claim| &**claim);
                registration::probation(pool, claims, &mut all);
            }
        }
        self.metrics.set_breaker(Tripped::Registration, all.last.len());
        all
    }

    /// Whether so many nodes are not ready that none may go by joiner's own will.
    pub(crate) fn too_many_unready(&mut self, now: Timestamp) -> bool {
        let settings = self.settings.breakers;
        let (nodes, monotonic) = (self.roster.nodes(), self.clock.monotonic());
        let quiet = crate::steps::lifecycle::signed(settings.unready_quiet);
        let mut health = std::mem::take(&mut self.breakers.cluster_health);
        let lately = || {
            let claims = self.cache.claims.values().filter(|claim| self.is_ours(claim));
            claims.filter(|claim| self.became_ready_again(claim, now, quiet)).count()
        };
        let turn = health.observe(nodes, lately, monotonic, &settings);
        self.breakers.cluster_health = health;
        let verdict = match turn {
            Some(Turn::Worse) => {
                self.metrics.breaker_tripped(Tripped::ClusterHealth);
                let (unready, nodes) = (nodes.unready as u64, nodes.all as u64);
                Some(Verdict::BreakerTripped { breaker: Breaker::ClusterHealth { unready, nodes } })
            }
            Some(Turn::Better) => Some(Verdict::BreakerReset { breaker: BreakerKind::ClusterHealth }),
            None => None,
        };
        if let Some(verdict) = verdict {
            self.tell_of_all(verdict, Vec::new(), now);
        }
        let tripped = self.breakers.cluster_health.is_tripped();
        self.metrics.set_breaker(Tripped::ClusterHealth, usize::from(tripped));
        tripped
    }

    /// Whether the node of a claim became ready within that time, and not for the first time.
    fn became_ready_again(&self, claim: &NodeClaim, now: Timestamp, within: jiff::SignedDuration) -> bool {
        let up = crate::steps::lifecycle::condition(claim, conditions::INITIALIZED);
        let Some(up) = up.filter(|of| of.status == "True") else { return false };
        let nodes = self.cache.nodes_of(claim);
        let conditions = nodes.iter().filter_map(|node| node.status.as_ref()?.conditions.as_ref()).flatten();
        let ready = conditions.into_iter().find(|of| of.type_ == "Ready" && of.status == "True");
        let since = ready.and_then(|of| of.last_transition_time.as_ref()).map(|time| time.0);
        since.is_some_and(|since| since > up.last_transition_time.0 && now.duration_since(since) < within)
    }
}
