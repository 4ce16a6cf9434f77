//! The end of a claim and its node: the claim's deletion deletes the node, the node is drained, the machine is ended, the finalizers go. Pure,
//! like the rest of the life of a claim; only the tries of evictions are remembered between steps.

use std::collections::BTreeMap;
use std::time::Duration as Length;

use jiff::{SignedDuration, Timestamp};
use joiner_api::condition::{ConditionSet, ConditionTypes, Status};
use joiner_api::duration::Duration;
use joiner_api::names::{self, conditions};
use joiner_api::{NodeClaim, NodeClaimStatus};
use joiner_provider::{GroupKind, Handle, Monotonic};
use joiner_record::Verdict;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Taint};
use kube::ResourceExt;
use serde_json::json;

use crate::clock::Present;
use crate::command::{Command, Step};
use crate::decision::{Decided, subject_of};
use crate::observed_times::{ObservedTimes, TimesOf, drain_deadline};
use crate::pods::{self, CachedPod};
use crate::record::{Level, Note};
use crate::settings::Settings;
use crate::steps::lifecycle::{condition, is_true, signed, status_patch, subject};

/// Keeps load balancers from sending traffic to a node that goes.
const EXCLUDE_FROM_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// First and longest pause between two tries to evict a pod.
const EVICTION_PAUSES: (Length, Length) = (Length::from_millis(100), Length::from_secs(10));

/// When pods may be asked to leave again.
#[derive(Debug, Default)]
pub struct Evictions(BTreeMap<String, (Monotonic, u32)>);

impl Evictions {
    /// Whether a pod may be asked now.
    pub fn is_due(&self, uid: &str, now: Monotonic) -> bool {
        self.0.get(uid).is_none_or(|(due, _)| *due <= now)
    }

    /// An eviction was refused; when to try again.
    pub fn refused(&mut self, uid: &str, now: Monotonic) -> Monotonic {
        let entry = self.0.entry(uid.to_owned()).or_insert((now, 0));
        let pause = EVICTION_PAUSES.0.saturating_mul(1 << entry.1.min(20)).min(EVICTION_PAUSES.1);
        entry.1 += 1;
        entry.0 = now + pause;
        entry.0
    }

    /// The pod is gone or going.
    pub fn done(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

/// What there is to know about a claim that is being deleted.
#[derive(Debug)]
pub struct ClaimFacts<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Nodes with its provider id.
    pub nodes: Vec<&'a Node>,
    /// The provider said that there is no such machine (any more).
    pub machine_gone: bool,
    /// The present.
    pub now: Timestamp,
    /// Durations.
    pub settings: &'a Settings,
}

/// What is to be done for a claim that is being deleted.
pub fn claim_step(facts: &ClaimFacts) -> Step {
    let claim = facts.claim;
    let mut step = Step::default();
    if !claim.finalizers().iter().any(|of| of == names::TERMINATION_FINALIZER) {
        return step;
    }
    if let Some(patch) = deadline_patch(claim) {
        step.commands.push(patch);
        return step;
    }
    if is_true(claim, conditions::REGISTERED) && !facts.nodes.is_empty() {
        // The nodes' own end does the rest; the claim waits for it.
        let standing = facts.nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_none());
        step.commands.extend(
            standing.map(|node| Command::DeleteNode {
                name: node.name_any(),
                uid: node.uid().unwrap_or_default(),
            }),
        );
        return step;
    }
    match end_of_machine(claim).filter(|_| !facts.machine_gone) {
        Some(command) => {
            step.commands.push(command);
            step.requeue_at = facts.now.checked_add(signed(facts.settings.instance_interval)).ok();
        }
        None => {
            step.commands.push(without_finalizer(claim));
            step.decisions.push(Decided::new(Verdict::Terminated, vec![subject_of(claim)]));
        }
    }
    step
}

/// What ends the machine of a claim, or the launch that has not made one yet.
fn end_of_machine(claim: &NodeClaim) -> Option<Command> {
    let class = GroupKind::from(&claim.spec.node_class_ref);
    let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
    if let Some(provider_id) = provider_id.filter(|id| !id.is_empty()) {
        return Some(Command::Terminate { class, provider_id });
    }
    let handle = claim.annotations().get(names::LAUNCH_HANDLE_ANNOTATION)?;
    Some(Command::CancelLaunch { class, handle: Handle(handle.clone()) })
}

fn without_finalizer(claim: &NodeClaim) -> Command {
    let mut finalizers = claim.finalizers().to_vec();
    finalizers.retain(|of| of != names::TERMINATION_FINALIZER);
    let patch = json!({"metadata": {"resourceVersion": claim.resource_version(), "finalizers": finalizers}});
    Command::PatchClaim { name: claim.name_any(), patch }
}

/// Writes down once until when the drain may take.
fn deadline_patch(claim: &NodeClaim) -> Option<Command> {
    if claim.annotations().contains_key(names::TERMINATION_TIMESTAMP_ANNOTATION) {
        return None;
    }
    let grace = Duration::parse(claim.spec.termination_grace_period.as_deref()?).ok()?;
    let deleted = claim.metadata.deletion_timestamp.as_ref()?.0;
    let deadline = deleted.checked_add(grace.to_signed_duration()).ok()?;
    let deadline = Timestamp::from_second(deadline.as_second()).ok()?;
    let annotations = BTreeMap::from([(names::TERMINATION_TIMESTAMP_ANNOTATION, deadline.to_string())]);
    let patch =
        json!({"metadata": {"resourceVersion": claim.resource_version(), "annotations": annotations}});
    Some(Command::PatchClaim { name: claim.name_any(), patch })
}

/// What there is to know about a node that is being deleted.
#[derive(Debug)]
pub struct NodeFacts<'a> {
    /// The node.
    pub node: &'a Node,
    /// The kind of node class that its labels name.
    pub class: GroupKind,
    /// Its claim, if there is exactly one.
    pub claim: Option<&'a NodeClaim>,
    /// Pods on it.
    pub pods: Vec<&'a CachedPod>,
    /// Names of volumes that are attached to it, and the volumes as far as they are known.
    pub attached: Vec<(&'a str, Option<&'a PersistentVolume>)>,
    /// The provider said that there is no such machine (any more).
    pub machine_gone: bool,
    /// Tries of evictions.
    pub evictions: &'a Evictions,
    /// The times that claims and pods carry.
    pub times: &'a ObservedTimes,
    /// The present.
    pub present: Present,
    /// Durations.
    pub settings: &'a Settings,
}

impl NodeFacts<'_> {
    fn now(&self) -> Timestamp {
        self.present.wall
    }

    fn times_of(&self, uid: Option<&String>) -> TimesOf<'_> {
        self.times.of(uid.map(String::as_str), self.present)
    }

    /// The time at which the drain is over whatever pods say.
    fn deadline(&self) -> Option<Timestamp> {
        let claim = self.claim?;
        drain_deadline(claim).map(|stamp| self.times_of(claim.metadata.uid.as_ref()).deadline(stamp))
    }

    /// When a pod that is being deleted has to be gone.
    fn end_of(&self, pod: &CachedPod) -> Option<Timestamp> {
        Some(self.times.of(Some(&*pod.uid), self.present).deadline(pod.deletion()?))
    }

    /// Whether a drain waits for a pod to leave.
    fn is_waiting_eviction(&self, pod: &CachedPod) -> bool {
        // The question is about the pod's own time of deletion, so it is asked by the clock of that time.
        let said = pod.deletion();
        let set_by =
            said.zip(self.end_of(pod)).map_or(SignedDuration::ZERO, |(said, end)| end.duration_since(said));
        let now = self.now().checked_sub(set_by).unwrap_or(self.now());
        pods::is_waiting_eviction(pod, now, self.settings.stuck_after)
    }
}

/// What is to be done for a node that is being deleted and carries our finalizer.
pub fn node_step(facts: &NodeFacts) -> Step {
    let mut step = Step::default();
    if let Some(claim) = facts.claim
        && claim.metadata.deletion_timestamp.is_none()
    {
        step.commands
            .push(Command::DeleteClaim { name: claim.name_any(), uid: claim.uid().unwrap_or_default() });
    }
    if let Some(patch) = cordon(facts.node) {
        step.commands.push(patch);
        return step;
    }
    let before = facts.claim.and_then(|claim| claim.status.clone()).unwrap_or_default();
    let mut status = before.clone();
    let finished = leave(facts, &mut status, &mut step);
    if let Some(claim) = facts.claim
        && status != before
        && claim.metadata.deletion_timestamp.is_some()
    {
        step.commands.push(status_patch(claim, &before, &status));
    }
    if finished {
        let mut finalizers = facts.node.finalizers().to_vec();
        finalizers.retain(|of| of != names::TERMINATION_FINALIZER);
        let version = facts.node.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        step.commands.push(Command::PatchNode { name: facts.node.name_any(), patch });
    }
    step
}

/// The patch that keeps new pods away, if it is still needed.
fn cordon(node: &Node) -> Option<Command> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let (taints, changed) = disrupted_taints(taints);
    let labelled = node.labels().contains_key(EXCLUDE_FROM_BALANCERS);
    (changed || !labelled).then(|| {
        let labels = BTreeMap::from([(EXCLUDE_FROM_BALANCERS, "karpenter")]);
        let version = node.resource_version();
        let patch =
            json!({"metadata": {"resourceVersion": version, "labels": labels}, "spec": {"taints": taints}});
        Command::PatchNode { name: node.name_any(), patch }
    })
}

/// Taints of a node that goes, and whether they differ from those it has.
pub fn disrupted_taints(taints: Vec<Taint>) -> (Vec<Taint>, bool) {
    let is_it = |taint: &Taint| taint.key == names::DISRUPTED_TAINT;
    let right = |taint: &Taint| taint.effect == "NoSchedule";
    if taints.iter().any(|taint| is_it(taint) && right(taint))
        && taints.iter().all(|taint| !is_it(taint) || right(taint))
    {
        return (taints, false);
    }
    let mut taints = taints;
    taints.retain(|taint| !is_it(taint));
    taints.push(Taint {
        key: names::DISRUPTED_TAINT.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    });
    (taints, true)
}

/// Drain, volumes, machine, in this order; true when nothing is left to wait for.
fn leave(facts: &NodeFacts, status: &mut NodeClaimStatus, step: &mut Step) -> bool {
    let Some(claim) = facts.claim else {
        // Nobody knows a machine behind it: once its pods are gone, so may the node be.
        return drain(facts, step) && volumes_left(facts).is_empty();
    };
    let subject = subject(claim, facts.now());
    let mut list = std::mem::take(&mut status.conditions);
    let mut set = ConditionSet::open(ConditionTypes::NODE_CLAIM, subject, &mut list);
    let finished = leave_with(facts, claim, &mut set, step);
    status.conditions = list;
    finished
}

fn leave_with(facts: &NodeFacts, claim: &NodeClaim, set: &mut ConditionSet, step: &mut Step) -> bool {
    let drained = |set: &ConditionSet| set.status(conditions::DRAINED) == Status::True;
    if !drained(set) {
        if set.get(conditions::DRAINED).is_none() {
            set.set(conditions::DRAINED, Status::Unknown, "Draining", "");
        }
        if !drain(facts, step) {
            return false;
        }
        let times = facts.times_of(claim.metadata.uid.as_ref());
        let since = condition(claim, conditions::DRAINED)
            .map(|condition| times.past(condition.last_transition_time.0));
        let earliest = since.and_then(|since| since.checked_add(signed(facts.settings.least_drain)).ok());
        match earliest {
            Some(earliest) if facts.now() >= earliest => {}
            Some(earliest) => {
                step.requeue_at(earliest);
                return false;
            }
            // The condition is written first; its time counts.
            None => return false,
        }
        set.set_true(conditions::DRAINED);
    }
    if set.status(conditions::VOLUMES_DETACHED) == Status::Unknown {
        let left = volumes_left(facts);
        if left.is_empty() {
            set.set_true(conditions::VOLUMES_DETACHED);
        } else if facts.deadline().is_some_and(|deadline| facts.now() >= deadline) {
            set.set_false(conditions::VOLUMES_DETACHED, "TerminationGracePeriodElapsed", "");
        } else {
            set.set(conditions::VOLUMES_DETACHED, Status::Unknown, "AwaitingVolumeDetachment", "");
            let message = format!("waits for {} to be detached", left.join(", "));
            step.notes.push(Note::new(facts.node, Level::Normal, "AwaitingVolumeDetachment", message));
            again_in(facts, step, facts.settings.drain_interval);
            return false;
        }
    }
    if facts.machine_gone {
        return true;
    }
    let provider_id = facts.node.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
    if provider_id.is_empty() {
        return true;
    }
    set.set_true(conditions::INSTANCE_TERMINATING);
    step.commands.push(Command::Terminate { class: facts.class.clone(), provider_id });
    again_in(facts, step, facts.settings.instance_interval);
    false
}

fn again_in(facts: &NodeFacts, step: &mut Step, wait: Length) {
    if let Ok(time) = facts.now().checked_add(signed(wait)) {
        step.requeue_at(time);
    }
}

/// Asks the pods of the first tier that is not empty to leave; true when there is none.
fn drain(facts: &NodeFacts, step: &mut Step) -> bool {
    let now = facts.now();
    let deadline = facts.deadline();
    let waiting: Vec<&CachedPod> =
        facts.pods.iter().copied().filter(|pod| facts.is_waiting_eviction(pod)).collect();
    if waiting.is_empty() {
        return true;
    }
    let (forced, rest): (Vec<&CachedPod>, Vec<&CachedPod>) = waiting
        .iter()
        .copied()
        .partition(|pod| deadline.is_some_and(|deadline| is_forced(facts, pod, deadline)));
    for pod in forced {
        let uid = pod.uid.to_string();
        let over = facts.end_of(pod).zip(deadline).is_none_or(|(end, deadline)| end > deadline);
        if over && facts.evictions.is_due(&uid, facts.present.monotonic) {
            let left = deadline.map_or(0, |deadline| deadline.duration_since(now).as_secs());
            step.notes.push(Note::new(
                pod,
                Level::Normal,
                "Disrupted",
                "deleted: the time its node had to drain is over",
            ));
            step.each.push(Command::DeletePod {
                namespace: pod.common.namespace.clone(),
                name: pod.name.to_string(),
                uid,
                grace_seconds: u32::try_from(left).unwrap_or(0).max(1),
            });
        }
    }
    let tier = |pod: &CachedPod| (pods::is_critical(pod), pods::is_daemon(pod));
    if let Some(first) = rest.iter().map(|pod| tier(pod)).min() {
        for pod in rest.iter().filter(|pod| tier(pod) == first && pods::is_evictable(pod, now)) {
            let uid = pod.uid.to_string();
            if facts.evictions.is_due(&uid, facts.present.monotonic) {
                step.each.push(Command::Evict {
                    namespace: pod.common.namespace.clone(),
                    name: pod.name.to_string(),
                    uid,
                });
            }
        }
    }
    let message = match waiting.len() {
        1 => "1 pod is waiting to be evicted".to_owned(),
        count => format!("{count} pods are waiting to be evicted"),
    };
    step.notes.push(Note::new(facts.node, Level::Warning, "FailedDraining", message));
    again_in(facts, step, facts.settings.drain_interval);
    false
}

/// Whether a pod must be deleted now so that it is gone at the deadline.
fn is_forced(facts: &NodeFacts, pod: &CachedPod, deadline: Timestamp) -> bool {
    if let Some(end) = facts.end_of(pod) {
        return end > deadline;
    }
    let grace = SignedDuration::from_secs(pod.common.grace_seconds);
    let latest = deadline.checked_sub(grace).unwrap_or(Timestamp::MIN);
    facts.now() > latest
}

/// Volumes still attached that somebody will detach.
fn volumes_left(facts: &NodeFacts) -> Vec<String> {
    let stays = |pod: &&&CachedPod| !facts.is_waiting_eviction(pod) && !pods::is_terminal(pod);
    let mut kept: Vec<(&str, String)> = Vec::new();
    for pod in facts.pods.iter().filter(stays) {
        kept.extend(pod.volume_claims().map(|claim| (pod.common.namespace.as_str(), claim)));
    }
    let mut left = Vec::new();
    for (name, volume) in &facts.attached {
        let claim = volume.and_then(|volume| volume.spec.as_ref()?.claim_ref.as_ref());
        let held = claim.is_some_and(|claim| {
            kept.iter().any(|(namespace, name)| {
                claim.namespace.as_deref() == Some(*namespace) && claim.name.as_ref() == Some(name)
            })
        });
        if !held {
            left.push((*name).to_owned());
        }
    }
    left
}
