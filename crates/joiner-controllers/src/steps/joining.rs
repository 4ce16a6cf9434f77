//! How a node joins: it is made to agree with its claim, then waited for until it is ready for pods.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use joiner_api::condition::{ConditionSet, Status};
use joiner_api::names::{self, conditions};
use joiner_api::quantity::Quantity;
use joiner_api::{NodeClaim, NodeClaimStatus};
use joiner_core::model::{Effect, Taint as CoreTaint};
use joiner_provider::HookPoint;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::command::{Command, Step};
use crate::hooks::HookState;
use crate::record::{Level, Note};
use crate::steps::lifecycle::Facts;

/// What a node lacks for so long after its registration is not told yet.
const PASSING: SignedDuration = SignedDuration::from_secs(2);

/// Says that a claim waits for its node.
pub(super) fn node_not_found(condition_type: &str, set: &mut ConditionSet) {
    set.set(condition_type, Status::Unknown, "NodeNotFound", "no node has the provider id of this claim yet");
}

/// Makes the node of a launched claim agree with it, and counts it as one of ours.
pub(super) fn register(facts: &Facts, set: &mut ConditionSet, status: &mut NodeClaimStatus, step: &mut Step) {
    if set.status(conditions::LAUNCHED) != Status::True
        || set.status(conditions::REGISTERED) != Status::Unknown
    {
        return;
    }
    let node = match facts.nodes.as_slice() {
        [] => {
            node_not_found(conditions::REGISTERED, set);
            return;
        }
        [node] => *node,
        several => {
            let names: Vec<String> = several.iter().map(|node| node.name_any()).collect();
            let message = format!("several nodes have the provider id of this claim: {}", names.join(", "));
            set.set_false(conditions::REGISTERED, "MultipleNodesFound", &message);
            return;
        }
    };
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let marked = taints.iter().any(|taint| is_taint(taint, names::UNREGISTERED_TAINT, "NoExecute"));
    if facts.policy.needs_unregistered_taint && !marked && !is_open_to_pods(node) {
        let message = format!(
            "node `{}` came without the taint `{}:NoExecute`: pods may have landed on it before its labels and taints were set",
            node.name_any(),
            names::UNREGISTERED_TAINT
        );
        step.notes.push(Note::new(facts.claim, Level::Warning, "UnregisteredTaintMissing", message));
    }
    let [hook, _] = &facts.hooks;
    let may_register = passes(hook, HookPoint::Registered, step);
    if let Some(patch) = registration_patch(facts, node, taints, may_register) {
        step.commands.push(Command::PatchNode { name: node.name_any(), patch });
    }
    if !may_register {
        set.set(conditions::REGISTERED, Status::Unknown, "RegistrationHookPending", &waits_for(hook));
        return;
    }
    set.set_true(conditions::REGISTERED);
    status.node_name = Some(node.name_any());
}

/// Whether a node has been registered, whatever its claim says of it yet: from that write on pods may come.
pub fn is_open_to_pods(node: &Node) -> bool {
    node.labels().get(names::REGISTERED_LABEL).is_some_and(|value| value == "true")
}

/// Whether the provider has done its part; asks it, or again in time, if not.
fn passes(hook: &HookState, point: HookPoint, step: &mut Step) -> bool {
    match hook {
        HookState::Done => return true,
        HookState::Ask => step.hook = Some(point),
        HookState::Waits { until, .. } => until.iter().for_each(|until| step.requeue_at(*until)),
    }
    false
}

fn waits_for(hook: &HookState) -> String {
    match hook {
        HookState::Waits { why: Some(why), .. } => format!("the provider has not done its part: {why}"),
        _ => "the provider has not done its part yet".to_owned(),
    }
}

fn is_taint(taint: &Taint, key: &str, effect: &str) -> bool {
    taint.key == key && taint.effect == effect
}

/// What makes a node agree with its claim; nothing if it does already.
fn registration_patch(
    facts: &Facts,
    node: &Node,
    mut taints: Vec<Taint>,
    may_register: bool,
) -> Option<Value> {
    let claim = facts.claim;
    let mut finalizers = node.finalizers().to_vec();
    if !finalizers.iter().any(|of| of == names::TERMINATION_FINALIZER) {
        finalizers.push(names::TERMINATION_FINALIZER.to_owned());
    }
    let mut owners = node.owner_references().to_vec();
    let uid = claim.uid().unwrap_or_default();
    if !owners.iter().any(|owner| owner.uid == uid) {
        owners.push(k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
            api_version: names::API_VERSION.to_owned(),
            kind: names::kinds::NODE_CLAIM.to_owned(),
            name: claim.name_any(),
            uid,
            block_owner_deletion: Some(true),
            controller: None,
        });
    }
    let mut labels: BTreeMap<String, String> = claim.labels().clone();
    if may_register {
        labels.insert(names::REGISTERED_LABEL.to_owned(), "true".to_owned());
    }
    labels.retain(|key, value| node.labels().get(key) != Some(value));
    let mut annotations: BTreeMap<String, String> = claim.annotations().clone();
    annotations.retain(|key, value| {
        key != names::PLANNED_PODS_ANNOTATION && node.annotations().get(key) != Some(value)
    });
    let before = taints.clone();
    let keeps_own = node.labels().get(names::DO_NOT_SYNC_TAINTS_LABEL).is_some_and(|value| value == "true");
    if facts.policy.sync_taints && !keeps_own {
        let wanted = claim.spec.taints.iter().flatten().chain(claim.spec.startup_taints.iter().flatten());
        for taint in wanted {
            if !taints.iter().any(|have| is_taint(have, &taint.key, &taint.effect)) {
                taints.push(taint.clone());
            }
        }
    }
    taints.retain(|taint| !may_register || !is_taint(taint, names::UNREGISTERED_TAINT, "NoExecute"));
    let unchanged = finalizers == node.finalizers()
        && owners == node.owner_references()
        && labels.is_empty()
        && annotations.is_empty()
        && taints == before;
    (!unchanged).then(|| {
        json!({
            "metadata": {
                "resourceVersion": node.resource_version(),
                "finalizers": finalizers,
                "ownerReferences": owners,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": {"taints": taints},
        })
    })
}

/// Counts a node as ready for pods once nothing is missing any more. It stays so whatever comes later.
pub(super) fn initialise(facts: &Facts, set: &mut ConditionSet, step: &mut Step) {
    if !step.commands.is_empty() {
        // The node at hand is the one before its registration: it lacks taints that are just being put on.
        return;
    }
    if set.status(conditions::REGISTERED) != Status::True
        || set.status(conditions::INITIALIZED) != Status::Unknown
    {
        return;
    }
    let [node] = facts.nodes.as_slice() else {
        node_not_found(conditions::INITIALIZED, set);
        return;
    };
    if let Some((reason, message)) = not_initialised(facts.claim, node) {
        // A node that has just registered lacks one thing after the other for a moment; only what lasts is worth a write.
        let registered =
            set.get(conditions::REGISTERED).map(|of| facts.times.past(of.last_transition_time.0));
        let due = registered.and_then(|time| time.checked_add(PASSING).ok());
        if let Some(due) = due.filter(|due| facts.now < *due) {
            step.requeue_at(due);
            return;
        }
        set.set(conditions::INITIALIZED, Status::Unknown, reason, &message);
        return;
    }
    let [_, hook] = &facts.hooks;
    if !passes(hook, HookPoint::Initialized, step) {
        set.set(conditions::INITIALIZED, Status::Unknown, "InitializationHookPending", &waits_for(hook));
        return;
    }
    if node.labels().get(names::INITIALIZED_LABEL).is_none_or(|value| value != "true") {
        let label = BTreeMap::from([(names::INITIALIZED_LABEL, "true")]);
        let patch = json!({"metadata": {"labels": label}});
        step.commands.push(Command::PatchNode { name: node.name_any(), patch });
    }
    set.set_true(conditions::INITIALIZED);
}

/// What a registered node still lacks, the first thing only.
fn not_initialised(claim: &NodeClaim, node: &Node) -> Option<(&'static str, String)> {
    let status = node.status.as_ref();
    let ready = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    if !ready.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
        return Some(("NodeNotReady", "the node is not ready".to_owned()));
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let startup = claim.spec.startup_taints.iter().flatten();
    for taint in startup {
        if taints.iter().any(|have| is_taint(have, &taint.key, &taint.effect)) {
            let message = format!("startup taint `{}:{}` is still there", taint.key, taint.effect);
            return Some(("StartupTaintsExist", message));
        }
    }
    for taint in taints {
        let Some(effect) = Effect::parse(&taint.effect) else { continue };
        let core = CoreTaint { key: taint.key.as_str().into(), value: "".into(), effect };
        if joiner_state::is_ephemeral(&core) {
            let message = format!("taint `{}:{}` is still there", taint.key, taint.effect);
            return Some(("KnownEphemeralTaintsExist", message));
        }
    }
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    for (resource, amount) in requests.into_iter().flatten() {
        let is_zero = |text: &str| Quantity::parse(text).map_or(true, |amount| amount.signum() == 0);
        let there = allocatable.and_then(|all| all.get(resource)).is_some_and(|amount| !is_zero(&amount.0));
        if !is_zero(&amount.0) && !there {
            return Some((
                "ResourceNotRegistered",
                format!("the node does not offer `{resource}`, which was asked for"),
            ));
        }
    }
    None
}
