//! The life of a claim until its node is ready for pods: finalizer, launch, registration, initialisation, and giving up. Pure: a claim, its
//! nodes and a moment in, commands out.

use jiff::{SignedDuration, Timestamp};
use joiner_api::condition::{ConditionSet, ConditionTypes, Status, Subject};
use joiner_api::duration::NillableDuration;
use joiner_api::names::{self, conditions};
use joiner_api::{NodeClaim, NodeClaimStatus, NodePool};
use joiner_provider::{Error, Handle, Launched, RegistrationPolicy};
use joiner_record::{GaveUp, Verdict};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use serde_json::{Map, json};

use crate::command::{Command, Step};
use crate::decision::{Decided, subject_of};
use crate::hooks::HookState;
use crate::observed_times::TimesOf;
use crate::record::{Note, cut};
use crate::settings::Settings;
use crate::steps::consistency::compare;
use crate::steps::hydration;
use crate::steps::joining::{initialise, node_not_found, register};

/// Longer messages of the provider are cut.
const LONGEST_MESSAGE: usize = 300;
/// The schema of conditions allows 32768 bytes.
const LONGEST_CONDITION: usize = 32_000;

/// What there is to know about a claim.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The claim.
    pub claim: &'a NodeClaim,
    /// Nodes with its provider id.
    pub nodes: Vec<&'a Node>,
    /// Its pool.
    pub pool: Option<&'a NodePool>,
    /// When a pod last came to or left its node, as seen by this process.
    pub pod_event: Option<Timestamp>,
    /// How its node joins.
    pub policy: RegistrationPolicy,
    /// What the provider wants to do before it counts as registered, and as initialised.
    pub hooks: [HookState; 2],
    /// It is time to compare it with its node.
    pub compare: bool,
    /// The times that the claim carries.
    pub times: TimesOf<'a>,
    /// The present.
    pub now: Timestamp,
    /// Durations.
    pub settings: &'a Settings,
}

/// A length of the standard library as one that instants understand.
pub fn signed(length: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX)
}

fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// When an object was made.
pub fn created(claim: &NodeClaim, now: Timestamp) -> Timestamp {
    claim.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0)
}

/// What the rules of conditions need to know about a claim.
pub fn subject(claim: &NodeClaim, now: Timestamp) -> Subject {
    Subject {
        created: created(claim, now),
        generation: claim.metadata.generation.unwrap_or_default(),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        now,
    }
}

/// What a claim says before anybody has launched it, if it says nothing yet.
pub fn unsaid(claim: &NodeClaim, now: Timestamp) -> Vec<Condition> {
    let mut conditions = Vec::new();
    if claim.status.as_ref().is_none_or(|status| status.conditions.is_empty()) {
        ConditionSet::open(ConditionTypes::NODE_CLAIM, subject(claim, now), &mut conditions);
    }
    conditions
}

/// A condition of a claim as stored.
pub fn condition<'a>(claim: &'a NodeClaim, condition_type: &str) -> Option<&'a Condition> {
    claim.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == condition_type)
}

/// Whether a condition of a claim is True.
pub fn is_true(claim: &NodeClaim, condition_type: &str) -> bool {
    condition(claim, condition_type).is_some_and(|condition| Status::of(condition) == Status::True)
}

/// What is to be done for a claim that is not being deleted.
pub fn step(facts: &Facts) -> Step {
    let claim = facts.claim;
    let mut step = Step::default();
    if !claim.finalizers().iter().any(|of| of == names::TERMINATION_FINALIZER) {
        // Nothing is launched that nobody would end.
        let mut finalizers = claim.finalizers().to_vec();
        finalizers.push(names::TERMINATION_FINALIZER.to_owned());
        let patch =
            json!({"metadata": {"resourceVersion": claim.resource_version(), "finalizers": finalizers}});
        step.commands.push(Command::PatchClaim { name: claim.name_any(), patch });
        return step;
    }
    if expire(facts, &mut step) {
        return step;
    }
    if let Some(patch) = hydration::claim_patch(claim) {
        step.commands.push(patch);
        return step;
    }
    let before = claim.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let mut list = std::mem::take(&mut status.conditions);
    let mut set = ConditionSet::open(ConditionTypes::NODE_CLAIM, subject(claim, facts.now), &mut list);
    step.launch = set.status(conditions::LAUNCHED) == Status::Unknown;
    register(facts, &mut set, &mut status, &mut step);
    initialise(facts, &mut set, &mut step);
    compare(facts, &mut set, &mut step);
    consolidatable(facts, &mut set, &mut status, &mut step);
    let gives_up = liveness(facts, &set, &mut step);
    status.conditions = list;
    if gives_up {
        step.launch = false;
        return step;
    }
    // A claim that nobody has launched says nothing yet but that it is new: the launch writes all of it at once. One whose launch takes its time says so.
    let says_nothing = step.launch && !claim.annotations().contains_key(names::LAUNCH_HANDLE_ANNOTATION);
    if status != before && !says_nothing {
        step.commands.push(status_patch(claim, &before, &status));
    }
    step
}

/// The patch from one status to another; lists go with the version they were made from.
pub fn status_patch(claim: &NodeClaim, before: &NodeClaimStatus, after: &NodeClaimStatus) -> Command {
    let mut fields = Map::new();
    let (old, new) = (json!(before), json!(after));
    if let (Some(old), Some(new)) = (old.as_object(), new.as_object()) {
        for (key, value) in new {
            if old.get(key) != Some(value) {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
    let patch = json!({"metadata": {"resourceVersion": claim.resource_version()}, "status": fields});
    Command::PatchClaimStatus { name: claim.name_any(), patch }
}

/// Deletes a claim whose time is over.
fn expire(facts: &Facts, step: &mut Step) -> bool {
    let claim = facts.claim;
    let age = claim.spec.expire_after.as_deref().and_then(|text| NillableDuration::parse(text).ok());
    let Some(age) = age.and_then(|age| age.duration()) else { return false };
    let due = later(facts.times.past(created(claim, facts.now)), age.to_signed_duration());
    if facts.now < due {
        step.requeue_at(due);
        return false;
    }
    step.commands.push(delete(claim));
    let verdict = Verdict::Expired { expire_after: age.to_string() };
    step.decisions.push(Decided::new(verdict, vec![subject_of(claim)]));
    true
}

fn delete(claim: &NodeClaim) -> Command {
    Command::DeleteClaim { name: claim.name_any(), uid: claim.uid().unwrap_or_default() }
}

/// What a claim lacks to take pods, as its conditions say; nothing if it takes them.
pub fn lacks(claim: &NodeClaim) -> Option<String> {
    let steps = [conditions::LAUNCHED, conditions::REGISTERED, conditions::INITIALIZED];
    let open = steps.into_iter().find(|step| !is_true(claim, step))?;
    // Before it is first looked at there is nothing but the name of the step.
    let message = condition(claim, open).map(|condition| condition.message.clone());
    let usual = || match open {
        conditions::LAUNCHED => "the machine is being launched".to_owned(),
        conditions::REGISTERED => "its node has not appeared yet".to_owned(),
        _ => "the node is not ready yet".to_owned(),
    };
    Some(message.filter(|message| message.contains(' ')).unwrap_or_else(usual))
}

/// Whether the claim has been quiet for long enough to be considered for consolidation.
fn consolidatable(facts: &Facts, set: &mut ConditionSet, status: &mut NodeClaimStatus, step: &mut Step) {
    let stored = status.last_pod_event_time.as_ref().map(|time| facts.times.past(time.0));
    // Pods that came while the node was made ready are told together with that.
    let ready = set.status(conditions::INITIALIZED) == Status::True;
    if let Some(event) = facts.pod_event.filter(|_| ready) {
        let stale = stored
            .is_none_or(|stored| event.duration_since(stored) >= signed(facts.settings.pod_event_interval));
        if stale {
            status.last_pod_event_time = Some(Time(event));
        }
    }
    let clear = |set: &mut ConditionSet| {
        // Only conditions that readiness depends on cannot be cleared.
        let _ = set.clear(conditions::CONSOLIDATABLE);
    };
    let Some(pool) = facts.pool.filter(|pool| pool.spec.replicas.is_none()) else { return };
    let wait = pool.spec.disruption.consolidate_after.as_deref().unwrap_or("0s");
    let wait = NillableDuration::parse(wait).ok().and_then(|wait| wait.duration());
    let (Some(wait), true) = (wait, set.status(conditions::INITIALIZED) == Status::True) else {
        clear(set);
        return;
    };
    let initialised =
        set.get(conditions::INITIALIZED).map(|condition| facts.times.past(condition.last_transition_time.0));
    let Some(since) = stored.max(facts.pod_event).or(initialised) else { return };
    let due = later(since, wait.to_signed_duration());
    if facts.now >= due {
        set.set_true(conditions::CONSOLIDATABLE);
    } else {
        clear(set);
        step.requeue_at(due);
    }
}

/// Gives up a claim that does not come up.
fn liveness(facts: &Facts, set: &ConditionSet, step: &mut Step) -> bool {
    let claim = facts.claim;
    if set.status(conditions::REGISTERED) == Status::True {
        return false;
    }
    let launched = set.status(conditions::LAUNCHED) == Status::True;
    let (condition_type, limit) = if launched {
        (conditions::REGISTERED, facts.settings.registration_timeout)
    } else {
        (conditions::LAUNCHED, facts.settings.launch_timeout)
    };
    let since = set
        .get(condition_type)
        .map_or(facts.now, |condition| facts.times.past(condition.last_transition_time.0));
    let due = later(since, signed(limit));
    if facts.now < due {
        step.requeue_at(due);
        return false;
    }
    step.commands.clear();
    step.commands.push(delete(claim));
    let within_seconds = limit.as_secs();
    let message = set.get(condition_type).map(|condition| condition.message.clone()).unwrap_or_default();
    let why = match launched {
        true => GaveUp::NotRegistered { within_seconds, message },
        false => GaveUp::NotLaunched { within_seconds, message },
    };
    step.decisions.push(Decided::new(Verdict::GaveUp { why }, vec![subject_of(claim)]));
    true
}

/// What is written when a machine was launched.
pub fn launched(claim: &NodeClaim, machine: &Launched, now: Timestamp) -> Vec<Command> {
    // What the claim says about itself wins over what the provider says.
    let mut labels = machine.labels.clone();
    labels.extend(claim.labels().clone());
    labels.retain(|key, value| claim.labels().get(key) != Some(value));
    let mut annotations = machine.annotations.clone();
    annotations.retain(|key, value| claim.annotations().get(key) != Some(value));
    let mut commands = Vec::new();
    if !labels.is_empty() || !annotations.is_empty() {
        let version = claim.resource_version();
        let patch =
            json!({"metadata": {"resourceVersion": version, "labels": labels, "annotations": annotations}});
        commands.push(Command::PatchClaim { name: claim.name_any(), patch });
    }
    let before = claim.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.provider_id = Some(machine.provider_id.clone());
    status.image_id = machine.image_id.clone().or(status.image_id);
    status.capacity = Some(machine.capacity.clone());
    status.allocatable = Some(machine.allocatable.clone());
    let mut set = ConditionSet::open(ConditionTypes::NODE_CLAIM, subject(claim, now), &mut status.conditions);
    set.set_true(conditions::LAUNCHED);
    if set.status(conditions::REGISTERED) == Status::Unknown {
        // It would be said in a patch of its own right after this one.
        node_not_found(conditions::REGISTERED, &mut set);
    }
    if status != before {
        commands.push(status_patch(claim, &before, &status));
    }
    commands
}

/// What is written when a launch was accepted and has no machine to show yet: with the handle on the claim it can be given up, whoever
/// remembers it.
pub fn launch_pending(claim: &NodeClaim, handle: &Handle) -> Vec<Command> {
    if claim.annotations().get(names::LAUNCH_HANDLE_ANNOTATION) == Some(&handle.0) {
        return Vec::new();
    }
    let patch = json!({"metadata": {
        "resourceVersion": claim.resource_version(),
        "annotations": {names::LAUNCH_HANDLE_ANNOTATION: handle.0},
    }});
    vec![Command::PatchClaim { name: claim.name_any(), patch }]
}

fn give_up(claim: &NodeClaim, why: GaveUp) -> Step {
    let verdict = Verdict::GaveUp { why };
    Step {
        commands: vec![delete(claim)],
        notes: Note::of(claim, &verdict, None).into_iter().collect(),
        decisions: vec![Decided::new(verdict, vec![subject_of(claim)])],
        ..Step::default()
    }
}

/// What follows from a launch that failed.
pub fn launch_failed(claim: &NodeClaim, error: &Error, now: Timestamp) -> Step {
    let mut step = Step::default();
    let cut_at = |message: String, longest: usize| match message.len() {
        length if length < longest => message,
        _ => format!("{}...", cut(&message, longest)),
    };
    let (reason, message) = match error {
        Error::NoCapacity { message, .. } | Error::Quota { message, .. } => {
            return give_up(claim, GaveUp::NoCapacity { message: message.clone() });
        }
        Error::ClassNotReady(message) => {
            return give_up(claim, GaveUp::ClassNotReady { message: message.clone() });
        }
        // What a provider words itself is told as it stands, as far as the API server takes it.
        Error::Invalid { reason, message } => (reason.as_str(), cut_at(message.clone(), LONGEST_CONDITION)),
        Error::Throttled { .. } | Error::Denied(_) | Error::Transient(_) => {
            ("LaunchFailed", cut_at(error.to_string(), LONGEST_MESSAGE))
        }
    };
    let before = claim.status.clone().unwrap_or_default();
    let mut status = before.clone();
    ConditionSet::open(ConditionTypes::NODE_CLAIM, subject(claim, now), &mut status.conditions).set(
        conditions::LAUNCHED,
        Status::Unknown,
        reason,
        &message,
    );
    if status != before {
        step.commands.push(status_patch(claim, &before, &status));
    }
    step
}
