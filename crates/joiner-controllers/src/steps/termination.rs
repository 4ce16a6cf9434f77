//! The end of a claim and its node: the claim's deletion deletes the node, the node is drained, the machine is ended, the finalizers go. Pure,
//! like the rest of the life of a claim.
//!
//! A finalizer leaves when the provider has said that the machine is gone, or that none was ever made: never because nobody knows of one.

use std::collections::BTreeMap;
use std::time::Duration as Length;

use jiff::{SignedDuration, Timestamp};
use joiner_api::condition::{ConditionSet, ConditionTypes, Status};
use joiner_api::duration::Duration;
use joiner_api::names::{self, conditions};
use joiner_api::{NodeClaim, NodeClaimStatus};
use joiner_provider::{GroupKind, Handle, HookPoint};
use joiner_record::Verdict;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde_json::json;

use crate::clock::Present;
use crate::command::{Command, Step};
use crate::decision::{Decided, subject_of};
use crate::hooks::HookState;
use crate::observed_times::{ObservedTimes, TimesOf, drain_deadline};
use crate::pods::{self, CachedPod};
use crate::record::{Level, Note};
use crate::settings::Settings;
use crate::steps::detaching::{Attached, attachments, leaked_told};
use crate::steps::draining::{Evictions, drain, tell_blockers};
use crate::steps::emptiness::is_ready;
use crate::steps::joining::is_open_to_pods;
use crate::steps::lifecycle::{condition, is_true, signed, status_patch, subject};

/// Keeps load balancers from sending traffic to a node that goes.
const EXCLUDE_FROM_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

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
    // A node is registered by a write of its own, before its claim says so: whatever comes in between, pods may be there by then.
    let is_registered = is_true(claim, conditions::REGISTERED);
    let mut joined = facts.nodes.iter().filter(|node| is_registered || is_open_to_pods(node)).peekable();
    if joined.peek().is_some() {
        // The nodes' own end does the rest; the claim waits for it.
        step.notes.extend(deadline_told(claim, claim));
        let standing = joined.filter(|node| node.metadata.deletion_timestamp.is_none());
        step.commands.extend(
            standing.map(|node| Command::DeleteNode {
                name: node.name_any(),
                uid: node.uid().unwrap_or_default(),
            }),
        );
        return step;
    }
    if facts.machine_gone {
        step.commands.push(without_finalizer(claim));
        step.notes.push(finalized(claim));
        step.decisions.push(Decided::new(Verdict::Terminated, vec![subject_of(claim)]));
    } else {
        step.commands.push(end_of_machine(claim));
        step.requeue_at = facts.now.checked_add(signed(facts.settings.instance_interval)).ok();
    }
    step
}

/// By what the machine of a claim is known to be gone: its provider id, what the provider calls the launch, or else the claim's uid.
pub fn machine_key(claim: &NodeClaim) -> &str {
    let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.as_ref());
    provider_id
        .filter(|id| !id.is_empty())
        .or_else(|| claim.annotations().get(names::LAUNCH_HANDLE_ANNOTATION))
        .or(claim.metadata.uid.as_ref())
        .map_or("", String::as_str)
}

/// What ends the machine of a claim, or the launch that has not made one yet. A claim that names neither may have a machine all the same: the
/// answer of its launch can have been lost.
fn end_of_machine(claim: &NodeClaim) -> Command {
    let class = GroupKind::from(&claim.spec.node_class_ref);
    let provider_id = claim.status.as_ref().and_then(|status| status.provider_id.clone());
    if let Some(provider_id) = provider_id.filter(|id| !id.is_empty()) {
        return Command::Terminate { class, provider_id };
    }
    match claim.annotations().get(names::LAUNCH_HANDLE_ANNOTATION) {
        Some(handle) => Command::CancelLaunch { class, handle: Handle(handle.clone()) },
        None => Command::EndMachineOf { class, claim_uid: claim.uid().unwrap_or_default() },
    }
}

/// Told when our finalizer leaves an object.
fn finalized<K: kube::Resource<DynamicType = ()>>(object: &K) -> Note {
    let message = format!("Finalized {}", names::TERMINATION_FINALIZER);
    Note::new(object, Level::Normal, "Finalized", message)
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
    /// Volumes attached to it.
    pub attached: Vec<Attached<'a>>,
    /// Disruption budgets of the namespaces of its pods.
    pub budgets: Vec<&'a PodDisruptionBudget>,
    /// The provider said that there is no such machine (any more).
    pub machine_gone: bool,
    /// What the provider wants to do before its machine ends.
    pub hook: HookState,
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
    pub(super) fn now(&self) -> Timestamp {
        self.present.wall
    }

    pub(super) fn times_of(&self, uid: Option<&String>) -> TimesOf<'_> {
        self.times.of(uid.map(String::as_str), self.present)
    }

    /// The time at which the drain is over whatever pods say.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let claim = self.claim?;
        drain_deadline(claim).map(|stamp| self.times_of(claim.metadata.uid.as_ref()).deadline(stamp))
    }

    /// When a pod that is being deleted has to be gone.
    pub(super) fn end_of(&self, pod: &CachedPod) -> Option<Timestamp> {
        Some(self.times.of(Some(&*pod.uid), self.present).deadline(pod.deletion()?))
    }

    /// Whether a drain waits for a pod to leave.
    pub(super) fn is_waiting_eviction(&self, pod: &CachedPod) -> bool {
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
    if facts.machine_gone && !is_ready(facts.node) {
        // There is nothing left to drain: pods and volumes went with the machine.
        step.commands.push(node_without_finalizer(facts.node));
        step.notes.push(finalized(facts.node));
        return step;
    }
    step.notes.extend(facts.claim.and_then(|claim| deadline_told(facts.node, claim)));
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
        step.commands.push(node_without_finalizer(facts.node));
        step.notes.push(finalized(facts.node));
    }
    step
}

fn node_without_finalizer(node: &Node) -> Command {
    let mut finalizers = node.finalizers().to_vec();
    finalizers.retain(|of| of != names::TERMINATION_FINALIZER);
    let patch = json!({"metadata": {"resourceVersion": node.resource_version(), "finalizers": finalizers}});
    Command::PatchNode { name: node.name_any(), patch }
}

/// Told about a claim or its node as long as the drain has a deadline.
fn deadline_told<K: kube::Resource<DynamicType = ()>>(object: &K, claim: &NodeClaim) -> Option<Note> {
    let deadline = drain_deadline(claim)?;
    let message = format!("All pods will be deleted by {deadline}");
    Some(Note::new(object, Level::Warning, "TerminationGracePeriodExpiring", message))
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
    let Some(claim) = facts.claim else { return leave_alone(facts, step) };
    let subject = subject(claim, facts.now());
    let mut list = std::mem::take(&mut status.conditions);
    let mut set = ConditionSet::open(ConditionTypes::NODE_CLAIM, subject, &mut list);
    let finished = leave_with(facts, claim, &mut set, step);
    status.conditions = list;
    finished
}

/// Nobody knows a machine behind the node: once its pods and volumes are gone, so may the node be.
fn leave_alone(facts: &NodeFacts, step: &mut Step) -> bool {
    if !drain(facts, step) {
        return false;
    }
    let deleted = facts.node.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let began = deleted.map(|deleted| facts.times_of(facts.node.metadata.uid.as_ref()).past(deleted));
    let found = attachments(facts, began);
    step.notes.extend(leaked_told(facts, &found.leaked));
    if found.awaited.is_empty() {
        return true;
    }
    await_volumes(facts, &found.awaited, step);
    false
}

fn await_volumes(facts: &NodeFacts, awaited: &[&str], step: &mut Step) {
    let message = format!("waits for {} to be detached", awaited.join(", "));
    step.notes.push(Note::new(facts.node, Level::Normal, "AwaitingVolumeDetachment", message));
    again_in(facts, step, facts.settings.drain_interval);
}

fn leave_with(facts: &NodeFacts, claim: &NodeClaim, set: &mut ConditionSet, step: &mut Step) -> bool {
    if set.status(conditions::DRAINED) != Status::True && !drained(facts, claim, set, step) {
        return false;
    }
    if set.status(conditions::VOLUMES_DETACHED) == Status::Unknown {
        let times = facts.times_of(claim.metadata.uid.as_ref());
        let began = set.get(conditions::VOLUMES_DETACHED).map(|of| times.past(of.last_transition_time.0));
        let found = attachments(facts, began);
        step.notes.extend(leaked_told(facts, &found.leaked));
        if found.awaited.is_empty() {
            set.set_true(conditions::VOLUMES_DETACHED);
        } else if facts.deadline().is_some_and(|deadline| facts.now() >= deadline) {
            set.set_false(conditions::VOLUMES_DETACHED, "TerminationGracePeriodElapsed", "");
        } else {
            set.set(conditions::VOLUMES_DETACHED, Status::Unknown, "AwaitingVolumeDetachment", "");
            await_volumes(facts, &found.awaited, step);
            return false;
        }
    }
    if facts.machine_gone {
        return true;
    }
    match &facts.hook {
        HookState::Done => {}
        HookState::Ask => {
            step.hook = Some(HookPoint::BeforeTermination);
            return false;
        }
        HookState::Waits { until, .. } => {
            until.iter().for_each(|until| step.requeue_at(*until));
            return false;
        }
    }
    let of_node = facts.node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    let of_claim = claim.status.as_ref().and_then(|status| status.provider_id.clone());
    let Some(provider_id) = of_node.or(of_claim).filter(|id| !id.is_empty()) else { return true };
    set.set_true(conditions::INSTANCE_TERMINATING);
    step.commands.push(Command::Terminate { class: facts.class.clone(), provider_id });
    again_in(facts, step, facts.settings.instance_interval);
    false
}

/// Drains the node; true when it has been empty for long enough.
fn drained(facts: &NodeFacts, claim: &NodeClaim, set: &mut ConditionSet, step: &mut Step) -> bool {
    if set.get(conditions::DRAINED).is_none() {
        set.set(conditions::DRAINED, Status::Unknown, "Draining", "");
    }
    let times = facts.times_of(claim.metadata.uid.as_ref());
    let since =
        condition(claim, conditions::DRAINED).map(|condition| times.past(condition.last_transition_time.0));
    let is_empty = drain(facts, step);
    tell_blockers(facts, set, since);
    if !is_empty {
        return false;
    }
    // The condition is written first; its time counts.
    let Some(since) = since else { return false };
    let earliest = since.checked_add(signed(facts.settings.least_drain)).unwrap_or(Timestamp::MAX);
    if facts.now() < earliest {
        step.requeue_at(earliest);
        return false;
    }
    set.set_true(conditions::DRAINED);
    true
}

pub(super) fn again_in(facts: &NodeFacts, step: &mut Step, wait: Length) {
    if let Ok(time) = facts.now().checked_add(signed(wait)) {
        step.requeue_at(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn claim(change: Value) -> NodeClaim {
        let mut claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "a", "uid": "1", "finalizers": ["karpenter.sh/termination"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}});
        for (path, value) in change.as_object().unwrap() {
            let (parent, field) = path.rsplit_once('/').unwrap();
            if claim.pointer(parent).is_none() {
                claim[&parent[1..]] = json!({});
            }
            claim.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        serde_json::from_value(claim).unwrap()
    }

    fn done(change: Value, nodes: Vec<&Node>, machine_gone: bool) -> Vec<String> {
        let (claim, settings) = (claim(change), Settings::default());
        let now = "2026-01-01T00:00:30Z".parse().unwrap();
        let step = claim_step(&ClaimFacts { claim: &claim, nodes, machine_gone, now, settings: &settings });
        step.commands.iter().map(|command| format!("{} {}", command.kind(), command.object())).collect()
    }

    #[test]
    fn a_claim_goes_when_its_node_and_its_machine_have() {
        let node = Node {
            metadata: kube::core::ObjectMeta { name: Some("n".to_owned()), ..Default::default() },
            ..Node::default()
        };
        let registered = json!([{"type": "Registered", "status": "True", "reason": "Registered", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let id = || json!({"/status/providerID": "m-1"});
        let of_node = || json!({"/status/providerID": "m-1", "/status/conditions": registered.clone()});
        assert_eq!(done(of_node(), vec![&node], false), ["delete_node n"]);
        assert_eq!(done(of_node(), vec![&node], true), ["delete_node n"], "the node goes first");
        assert_eq!(done(of_node(), Vec::new(), false), ["terminate m-1"]);
        assert_eq!(
            done(id(), vec![&node], false),
            ["terminate m-1"],
            "a node of a claim that never registered stays"
        );
        let mut open = node.clone();
        open.metadata.labels =
            Some(BTreeMap::from([("karpenter.sh/registered".to_owned(), "true".to_owned())]));
        assert_eq!(
            done(id(), vec![&node, &open], false),
            ["delete_node n"],
            "the node is registered, though the claim does not say so yet: it is drained"
        );
        assert_eq!(done(id(), Vec::new(), true), ["patch_claim a"], "the finalizer leaves");
        let handle = json!({"/metadata/annotations": {"joiner.sh/launch-handle": "h"}});
        assert_eq!(done(handle, Vec::new(), false), ["cancel_launch h"]);
        assert_eq!(
            done(json!({}), Vec::new(), false),
            ["end_machine_of_claim 1"],
            "nobody was told of a machine"
        );
        assert_eq!(done(json!({}), Vec::new(), true), ["patch_claim a"]);
        assert!(done(json!({"/metadata/finalizers": []}), Vec::new(), false).is_empty());
    }

    #[test]
    fn the_deadline_of_a_drain_is_written_once() {
        let grace = || json!({"/spec/terminationGracePeriod": "10m"});
        assert_eq!(done(grace(), Vec::new(), false), ["patch_claim a"]);
        let mut written = grace();
        written["/metadata/annotations"] =
            json!({"karpenter.sh/nodeclaim-termination-timestamp": "2026-01-01T00:01:00Z"});
        assert_eq!(done(written, Vec::new(), false), ["end_machine_of_claim 1"]);
    }

    #[test]
    fn a_machine_is_known_by_its_id_its_launch_or_its_claim() {
        assert_eq!(machine_key(&claim(json!({}))), "1");
        assert_eq!(machine_key(&claim(json!({"/status/providerID": ""}))), "1");
        let handle = json!({"/metadata/annotations": {"joiner.sh/launch-handle": "h"}});
        assert_eq!(machine_key(&claim(handle)), "h");
        assert_eq!(machine_key(&claim(json!({"/status/providerID": "m-1"}))), "m-1");
    }
}
