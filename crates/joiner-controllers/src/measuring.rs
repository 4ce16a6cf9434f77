//! What happens, counted under the names that users of the original know. Only the process that leads counts: the sum over replicas is what happened.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::names::{self, CAPACITY_TYPE_LABEL, NODEPOOL_LABEL, ZONE_LABEL, conditions};
use joiner_api::{NodeClaim, NodePool};
use joiner_provider::Monotonic;
use joiner_record::{GaveUp, Orphan, Verdict};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use crate::cache::Change;
use crate::command::{Command, Done, Failure};
use crate::decision::Decided;
use crate::engine::Engine;
use crate::metrics::Labels;
use crate::metrics::rows;
use crate::metrics::state::{self, Condition, ConditionRows};
use crate::pods::{self, CachedPod};
use crate::steps::lifecycle::{condition, is_true};

/// What is remembered to measure how long things take.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Pods that were seen without a place and do not run yet, by uid.
    pub(crate) pods: BTreeMap<String, Seen>,
    /// Decisions so far, how many pods the present one is about, and since when it is under way.
    question: (u64, usize, Option<Monotonic>),
    /// Since when something needed has not been observed.
    unsynced: Option<Monotonic>,
}

/// A pod that was seen without a place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) seen: Monotonic,
    pub(crate) decided: bool,
}

impl Measured {
    pub(crate) fn deciding(&self, now: Monotonic) -> (u64, usize, Duration) {
        let (number, pods, since) = self.question;
        (number, pods, since.map_or(Duration::ZERO, |since| now.since(since)))
    }

    /// For how long something needed has not been observed.
    pub(crate) fn unsynced_for(&mut self, synced: bool, now: Monotonic) -> Duration {
        match synced {
            true => {
                self.unsynced = None;
                Duration::ZERO
            }
            false => now.since(*self.unsynced.get_or_insert(now)),
        }
    }
}

fn label(metadata: &ObjectMeta, key: &str) -> String {
    metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

impl Engine {
    /// A decision on pods was asked for.
    pub(crate) fn measure_question(&mut self, waiting: usize) {
        let now = self.clock.monotonic();
        self.measured.question = (self.measured.question.0 + 1, waiting, Some(now));
        self.pulse.decides(true);
    }

    /// It was answered.
    pub(crate) fn measure_answer(&mut self) {
        self.pulse.decides(false);
        self.measured.question = (self.measured.question.0, 0, None);
        let now = self.clock.monotonic();
        for key in &self.provisionable {
            let Some(pod) = self.cache.pods.get(key) else { continue };
            let Some(seen) = self.measured.pods.get_mut(&*pod.uid) else { continue };
            if self.batch.decided.contains_key(&*pod.uid) && !std::mem::replace(&mut seen.decided, true) {
                self.metrics.observe(&rows::PODS_DECISION, &[], now.since(seen.seen).as_secs_f64());
            }
        }
    }

    pub(crate) fn measure_pod(&mut self, change: &Change<CachedPod>) {
        let Some(pod) = change.new.as_deref() else {
            if let Some(old) = &change.old {
                self.measured.pods.remove(&*old.uid);
            }
            return;
        };
        let now = self.clock.monotonic();
        if pods::is_provisionable(pod) {
            self.measured.pods.entry(pod.uid.to_string()).or_insert(Seen { seen: now, decided: false });
        }
        let old = change.old.as_deref();
        let became = |is: fn(&CachedPod) -> bool| is(pod) && !old.is_some_and(is);
        let (bound, runs) = (became(|pod| pods::node_name(pod).is_some()), became(pods::is_running));
        if (bound || runs) && self.leads() && !change.listed {
            let created = pod.created().map(|created| seconds(created, self.now()));
            let waited = self.measured.pods.get(&*pod.uid).map(|of| now.since(of.seen).as_secs_f64());
            let told = [
                (bound, &rows::PODS_BOUND, created),
                (bound, &rows::PODS_PROVISIONING_BOUND, waited),
                (runs, &rows::PODS_STARTUP, created),
                (runs, &rows::PODS_PROVISIONING_STARTUP, waited),
            ];
            for (_, row, passed) in told.into_iter().filter(|(happened, ..)| *happened) {
                if let Some(passed) = passed {
                    self.metrics.observe(row, &[], passed);
                }
            }
        }
        if pods::is_running(pod) || pods::is_terminal(pod) {
            self.measured.pods.remove(&*pod.uid);
        }
    }

    pub(crate) fn measure_claim(&mut self, change: &Change<NodeClaim>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(claim) = new.or(old).filter(|claim| self.leads() && self.is_ours(claim)) else { return };
        let (pool, now) = (label(&claim.metadata, NODEPOOL_LABEL), self.now());
        let of = |claim: Option<&NodeClaim>, kind: &str| claim.is_some_and(|claim| is_true(claim, kind));
        let became = |kind: &str| of(new, kind) && !of(old, kind);
        if became(conditions::REGISTERED) {
            self.metrics.count(&rows::NODES_CREATED, &[&pool, &label(&claim.metadata, ZONE_LABEL)]);
        }
        if became(conditions::DRAINED) {
            self.metrics.count(&rows::NODES_DRAINED, &[&pool]);
        }
        let before = old.map(state::of_claim).unwrap_or_default();
        let after = new.map(state::of_claim).unwrap_or_default();
        self.measure_conditions(&state::CLAIMS, &claim.metadata, &before, &after);
        if new.is_none() {
            let labels =
                [&label(&claim.metadata, CAPACITY_TYPE_LABEL), &pool, &label(&claim.metadata, ZONE_LABEL)];
            self.metrics.count(&rows::NODECLAIMS_TERMINATED, &labels.map(String::as_str));
            if let Some(deleted) = &claim.metadata.deletion_timestamp {
                let passed = seconds(deleted.0, now);
                self.metrics.observe(&rows::NODECLAIMS_TERMINATION_DURATION, &[&pool], passed);
            }
            if let Some(order) = condition(claim, conditions::INSTANCE_TERMINATING) {
                let passed = seconds(order.last_transition_time.0, now);
                self.metrics.observe(&rows::INSTANCE_TERMINATION_DURATION, &[&pool], passed);
            }
            self.measure_end(&state::CLAIMS, &claim.metadata);
        }
    }

    pub(crate) fn measure_pool(&mut self, change: &Change<NodePool>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let ours = |pool: &&NodePool| self.registry.serves(&pool.spec.template.spec.node_class_ref);
        let Some(pool) = new.or(old).filter(|pool| self.leads() && ours(pool)) else { return };
        let before = old.map(state::of_pool).unwrap_or_default();
        let after = new.map(state::of_pool).unwrap_or_default();
        self.measure_conditions(&state::POOLS, &pool.metadata, &before, &after);
        if new.is_none() {
            self.measure_end(&state::POOLS, &pool.metadata);
        }
    }

    pub(crate) fn measure_node(&mut self, change: &Change<Node>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(node) = new.or(old).filter(|_| self.leads()) else { return };
        let before = old.map(state::of_node).unwrap_or_default();
        let after = new.map(state::of_node).unwrap_or_default();
        self.measure_conditions(&state::NODES, &node.metadata, &before, &after);
        if new.is_some() {
            return;
        }
        self.measure_end(&state::NODES, &node.metadata);
        if self.registry.kind_of_node(node).is_none() {
            return;
        }
        let (pool, now) = (label(&node.metadata, NODEPOOL_LABEL), self.now());
        self.metrics.count(&rows::NODES_TERMINATED, &[&pool, &label(&node.metadata, ZONE_LABEL)]);
        if let Some(created) = &node.metadata.creation_timestamp {
            self.metrics.observe(&rows::NODES_LIFETIME, &[&pool], seconds(created.0, now));
        }
        if let Some(deleted) = &node.metadata.deletion_timestamp {
            self.metrics.observe(&rows::NODES_TERMINATION_DURATION, &[&pool], seconds(deleted.0, now));
        }
    }

    fn extras(&self, of: &ConditionRows, metadata: &ObjectMeta) -> Labels {
        let keys: Vec<String> = self.registry.kinds().map(|(kind, _)| kind.label()).collect();
        state::extras(of, metadata, &keys)
    }

    fn measure_conditions(
        &self,
        of: &ConditionRows,
        metadata: &ObjectMeta,
        before: &[Condition],
        after: &[Condition],
    ) {
        for now in after {
            let then = before.iter().find(|then| then.kind == now.kind);
            let first = then.is_none() && now.status == "Unknown";
            if first || then.is_some_and(|then| then.status == now.status) {
                continue;
            }
            let extras = self.extras(of, metadata);
            let with = |more: &[(&'static str, &str)]| {
                let mut labels = extras.clone();
                labels.extend(more.iter().map(|(key, value)| ((*key).into(), (*value).to_owned())));
                labels
            };
            let Condition { kind, status, reason, .. } = now;
            self.metrics.count_by(
                of.transitions,
                with(&[("reason", reason), ("status", status), ("type", kind)]),
                1,
            );
            if of.older {
                self.metrics.count(&rows::TRANSITIONS_OLD, &[names::GROUP, of.kind, reason, status, kind]);
            }
            if let Some((then, (from, to))) = then.and_then(|then| Some((then, then.since.zip(now.since)?))) {
                let labels = with(&[("status", then.status), ("type", kind)]);
                self.metrics.observe_as(of.transition_seconds, labels, seconds(from, to));
                if of.older {
                    let labels = [names::GROUP, of.kind, then.status, kind];
                    self.metrics.observe(&rows::TRANSITION_SECONDS_OLD, &labels, seconds(from, to));
                }
            }
        }
    }

    /// An object is gone.
    fn measure_end(&self, of: &ConditionRows, metadata: &ObjectMeta) {
        let Some(deleted) = &metadata.deletion_timestamp else { return };
        let passed = seconds(deleted.0, self.now());
        self.metrics.observe_as(of.termination_duration, self.extras(of, metadata), passed);
        if of.older {
            self.metrics.observe(&rows::TERMINATION_DURATION_OLD, &[names::GROUP, of.kind], passed);
        }
    }

    /// Something was decided, and is about to be carried out.
    pub(crate) fn measure_decision(&self, decided: &Decided) {
        let reason = match &decided.verdict {
            Verdict::Emptied { .. } => "empty",
            Verdict::Expired { .. } => "expired",
            Verdict::Collected { orphan: Orphan::Claim } => "garbage_collected",
            Verdict::GaveUp { why } => match why {
                GaveUp::NoCapacity { .. } => "insufficient_capacity",
                GaveUp::ClassNotReady { .. } => "nodeclass_not_ready",
                GaveUp::NotLaunched { .. } => "launch_timeout",
                GaveUp::NotRegistered { .. } => "registration_timeout",
            },
            _ => return,
        };
        let subject = decided.subjects.iter().find(|subject| subject.kind == names::kinds::NODE_CLAIM);
        let Some(claim) = subject.and_then(|subject| self.cache.claims.get(&subject.name)) else { return };
        let pool = label(&claim.metadata, NODEPOOL_LABEL);
        let empty = reason == "empty";
        let policy = self.cache.pools.get(&pool).filter(|_| empty);
        let policy = policy.map_or(String::new(), |pool| policy_of(pool));
        let capacity = label(&claim.metadata, CAPACITY_TYPE_LABEL);
        let labels = [&capacity, policy.as_str(), &pool, reason, termination_mode(claim)];
        self.metrics.count(&rows::NODECLAIMS_DISRUPTED, &labels);
        let nodes = self.cache.nodes_of(claim);
        let pods = nodes
            .iter()
            .flat_map(|node| self.cache.pods_on(node.metadata.name.as_deref().unwrap_or_default()));
        let pods = pods.filter(|pod| pods::is_active(pod)).count() as u64;
        let labels = rows::PODS_DISRUPTION_INITIATED.labelled(&labels);
        self.metrics.count_by(&rows::PODS_DISRUPTION_INITIATED, labels, pods);
        if empty {
            self.metrics.count(&rows::DISRUPTION_DECISIONS, &["empty", "delete", reason]);
            self.metrics.count(&rows::DISRUPTION_DECISIONS_BY_POOL, &["empty", "delete", &pool, reason]);
        }
    }

    /// A command was carried out, or not.
    pub(crate) fn measure_command(&self, command: &Command, result: &Result<Done, Failure>) {
        match (command, result) {
            (Command::CreateClaim(claim), Ok(_)) => {
                let annotation = claim.annotations().get(names::MIN_VALUES_RELAXED_ANNOTATION);
                let relaxed = annotation.map_or("false", String::as_str);
                let pool = label(&claim.metadata, NODEPOOL_LABEL);
                self.metrics.count(&rows::NODECLAIMS_CREATED, &[relaxed, &pool, "provisioned"]);
            }
            (Command::Evict { namespace, name, .. }, result) => {
                let code = match result {
                    Ok(_) => "200",
                    Err(Failure::Gone) => "404",
                    Err(Failure::Conflict) => "409",
                    Err(Failure::Later(_)) => "429",
                    // It was not sent.
                    Err(Failure::Fenced | Failure::Overloaded) => return,
                    Err(_) => "500",
                };
                self.metrics.count(&rows::EVICTIONS, &[code]);
                let pod = self.cache.pods.get(&format!("{namespace}/{name}"));
                if let (Some(pod), Ok(_)) = (pod, result) {
                    let reason = self.why_evicted(pod).to_lowercase().replace(' ', "_");
                    self.metrics.count(&rows::PODS_DRAINED, &[&reason]);
                }
            }
            (Command::ConfirmEmpty { .. }, Err(Failure::NotEmpty)) => {
                self.metrics.count(&rows::DISRUPTION_FAILED_VALIDATIONS, &["empty"]);
            }
            (Command::ConfirmEmpty { .. }, Err(failure)) if !matches!(failure, Failure::Fenced) => {
                self.metrics.count(&rows::DISRUPTION_QUEUE_FAILURES, &["empty", "delete", "empty"]);
            }
            _ => {}
        }
    }
}

/// A pool's policy as metrics name it.
fn policy_of(pool: &NodePool) -> String {
    let policy = serde_json::to_value(&pool.spec.disruption).ok();
    let policy = policy.and_then(|of| of["consolidationPolicy"].as_str().map(str::to_owned));
    let mut words = String::new();
    for letter in policy.unwrap_or_else(|| "WhenEmptyOrUnderutilized".to_owned()).chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// How much a node's end respects its pods.
fn termination_mode(claim: &NodeClaim) -> &'static str {
    let grace = claim.spec.termination_grace_period.as_deref();
    match grace.and_then(|text| joiner_api::duration::Duration::parse(text).ok()) {
        None => "graceful",
        Some(grace) if grace.nanos() <= 0 => "forceful",
        Some(_) => "eventual",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_ages_while_it_is_under_way() {
        let begun = Monotonic::default();
        let mut measured = Measured { question: (3, 17, Some(begun)), ..Measured::default() };
        assert_eq!(measured.deciding(begun + Duration::from_secs(2)), (3, 17, Duration::from_secs(2)));
        measured.question = (3, 0, None);
        assert_eq!(measured.deciding(begun + Duration::from_secs(2)), (3, 0, Duration::ZERO));
    }
}
