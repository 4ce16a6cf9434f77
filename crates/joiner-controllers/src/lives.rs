//! What is remembered of the lives of claims, nodes and pools between steps, how changes of theirs are told, and what providers are asked about them.
//!
//! None of it is needed for what is right: a new process asks hooks again, compares claims with their nodes once more, and takes the health of a pool from
//! its condition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_api::names::{NODEPOOL_LABEL, conditions, kinds};
use joiner_api::{NodeClaim, NodePool};
use joiner_provider::{GroupKind, HookAnswer, HookPoint, MatchBy, Monotonic};
use joiner_record::{GaveUp, Verdict};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::cache::Change;
use crate::collect::Distrust;
use crate::command::{Command, Failure, Step};
use crate::engine::Engine;
use crate::hooks::{HookState, Hooks};
use crate::queue::Key;
use crate::record::{Level, Note};
use crate::reports::Report;
use crate::steps::lifecycle::{self, condition, is_true};
use crate::steps::registration_health::{Failed, Results};
use crate::steps::{termination, transitions};

/// Why a machine did not join that was launched.
const REGISTRATION_FAILED: &str = "RegistrationFailed";

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    /// What providers answered before lives went on.
    hooks: Hooks,
    /// When claims were last compared with their nodes, by uid.
    compared: BTreeMap<String, Monotonic>,
    /// How the last machines of pools fared, by the uid of the pool.
    registrations: BTreeMap<String, Results>,
    /// Claims whose machines did not join, as far as they have been counted, by uid.
    counted: BTreeSet<String>,
    /// When providers were last asked for machines of nodes that are not ready, by provider id.
    asked: BTreeMap<String, Monotonic>,
    /// Machines of which the provider said then that there are none.
    absent: BTreeSet<String>,
    /// Which providers' lists are not believed for now.
    pub(crate) distrust: Distrust,
}

impl Lives {
    /// How the last machines of a pool fared, its own condition and class considered.
    pub(crate) fn registrations(&mut self, pool: &NodePool, class_generation: Option<i64>) -> &Results {
        let results = self.registrations.entry(pool.uid().unwrap_or_default()).or_default();
        results.follow(pool, class_generation);
        results
    }

    /// Whether the provider has said that there is no such machine, its node being as silent as then.
    pub(crate) fn is_absent(&self, provider_id: &str) -> bool {
        self.absent.contains(provider_id)
    }

    /// The node of a machine is ready: whatever was said of the machine, it is there.
    pub(crate) fn is_back(&mut self, provider_id: &str) {
        self.absent.remove(provider_id);
    }
}

impl Engine {
    /// Takes note of what has become of a claim.
    pub(crate) fn follow_life(&mut self, change: &Change<NodeClaim>) {
        match (change.old.as_deref(), change.new.as_deref()) {
            (Some(old), Some(new)) if old.uid() == new.uid() => {
                if !is_true(old, conditions::REGISTERED) && is_true(new, conditions::REGISTERED) {
                    self.count_registration(new, Ok(()));
                }
                let lists = [old, new].map(|claim| claim.status.iter().flat_map(|status| &status.conditions));
                let [before, after] = lists;
                let unsaid = lifecycle::unsaid(old, self.now());
                self.tell_all(transitions::told(new, before.chain(&unsaid), after));
            }
            (Some(old), _) => {
                let uid = old.uid().unwrap_or_default();
                self.lives.hooks.forget(&uid);
                self.lives.compared.remove(&uid);
                self.lives.counted.remove(&uid);
                self.gone.remove(termination::machine_key(old));
                self.gone.remove(&uid);
            }
            (None, _) => {}
        }
    }

    pub(crate) fn tell_transitions_of_pool(&mut self, change: &Change<NodePool>) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else {
            let gone = change.old.as_ref().and_then(|pool| pool.uid());
            gone.iter().for_each(|uid| drop(self.lives.registrations.remove(uid)));
            change.old.iter().for_each(|pool| self.breakers.forget(pool));
            return;
        };
        let [before, after] = [old, new].map(|pool| pool.status.iter().flat_map(|status| &status.conditions));
        let notes = transitions::told(&**new, before, after);
        self.tell_all(notes);
    }

    pub(crate) fn tell_transitions_of_node(&mut self, change: &Change<Node>) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else {
            let id = change.old.as_ref().and_then(|node| node.spec.as_ref()?.provider_id.as_ref());
            if let Some(id) = id {
                self.lives.asked.remove(id);
                self.lives.absent.remove(id);
                self.pauses.remove(&Key::Machine(id.clone()));
                // A claim that is left still has to see its machine's end.
                if !self.cache.has_claim_with_id(id) {
                    self.gone.remove(id);
                }
            }
            let uid = change.old.as_ref().and_then(|node| node.uid());
            uid.iter().for_each(|uid| self.times.forget(uid));
            return;
        };
        let [before, after] = [old, new].map(|node| {
            let status = node.status.as_ref();
            status.and_then(|status| status.conditions.as_ref()).into_iter().flatten()
        });
        let notes = transitions::told(&**new, before, after);
        self.tell_all(notes);
    }

    fn tell_all(&mut self, notes: Vec<Note>) {
        if self.settings.tell_transitions && !notes.is_empty() {
            let now = self.now();
            self.carry_out(Key::Disruption, Step { notes, ..Step::default() }, now);
        }
    }

    /// The pool that a claim belongs to, if it is still the one that the claim was made for.
    fn owner_of(&self, claim: &NodeClaim) -> Option<&Arc<NodePool>> {
        let pool = self.cache.pools.get(claim.labels().get(NODEPOOL_LABEL)?)?;
        let mut owners = claim.owner_references().iter();
        owners
            .any(|owner| owner.kind == kinds::NODE_POOL && Some(&owner.uid) == pool.metadata.uid.as_ref())
            .then_some(pool)
    }

    fn count_registration(&mut self, claim: &NodeClaim, result: Result<(), Failed>) {
        let Some(pool) = self.owner_of(claim).cloned() else { return };
        // A machine that was never launched cannot join: the provider says what is wrong.
        let never_launched = matches!(&result, Err(failed) if failed.reason != REGISTRATION_FAILED);
        if !never_launched {
            self.count_joined(&pool, result.is_ok());
        }
        self.lives.registrations.entry(pool.uid().unwrap_or_default()).or_default().add(result);
        self.enqueue(Key::Pool(pool.name_any()));
    }

    /// Counts a claim whose machine did not join in time, once.
    pub(crate) fn count_failure(&mut self, claim: &NodeClaim, step: &Step) {
        let gave_up = step.decisions.iter().find_map(|decided| match &decided.verdict {
            Verdict::GaveUp { why } => Some(why),
            _ => None,
        });
        let failed = match gave_up {
            Some(GaveUp::NotLaunched { message, .. }) => Failed {
                reason: condition(claim, conditions::LAUNCHED)
                    .map_or_else(|| "LaunchFailed".to_owned(), |of| of.reason.clone()),
                message: message.clone(),
            },
            Some(GaveUp::NotRegistered { message, .. }) => {
                Failed { reason: REGISTRATION_FAILED.to_owned(), message: message.clone() }
            }
            _ => return,
        };
        if self.lives.counted.insert(claim.uid().unwrap_or_default()) {
            self.count_registration(claim, Err(failed));
        }
    }

    /// Whether a claim is to be compared with its node now; it is looked at again when it next is.
    pub(crate) fn is_to_compare(&mut self, claim: &NodeClaim, nodes: usize) -> bool {
        let now = self.clock.monotonic();
        let named = claim.status.as_ref().and_then(|status| status.provider_id.as_ref());
        if nodes != 1 || named.is_none_or(String::is_empty) {
            return false;
        }
        let (uid, interval) = (claim.uid().unwrap_or_default(), self.settings.compare_interval);
        let last = self.lives.compared.get(&uid).copied().filter(|last| now < *last + interval);
        self.queue.add(Key::Claim(claim.name_any()), last.unwrap_or(now) + interval);
        if last.is_none() {
            self.lives.compared.insert(uid, now);
        }
        last.is_none()
    }

    /// Nodes of a claim, those included that its provider knows by the claim's name.
    pub(crate) fn machines_of(&self, claim: &NodeClaim) -> Vec<Arc<Node>> {
        let nodes: Vec<Arc<Node>> = self.cache.nodes_of(claim).into_iter().cloned().collect();
        let provider = self.registry.provider_of(&claim.spec.node_class_ref);
        let by_name = provider.is_some_and(|of| of.registration_policy().match_by == MatchBy::NodeName);
        if !nodes.is_empty() || !by_name {
            return nodes;
        }
        let has_no_id = |node: &&Arc<Node>| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref());
            id.is_none_or(str::is_empty)
        };
        self.cache.nodes.get(&claim.name_any()).filter(has_no_id).cloned().into_iter().collect()
    }

    /// How far the provider of a claim is with a point of its machine's life.
    pub(crate) fn hook_state(&self, claim: &NodeClaim, point: HookPoint) -> HookState {
        let provider = self.registry.provider_of(&claim.spec.node_class_ref);
        if !provider.is_some_and(|provider| provider.hook_points().contains(&point)) {
            return HookState::Done;
        }
        self.lives.hooks.state(claim.metadata.uid.as_deref().unwrap_or_default(), point, self.present())
    }

    /// Asks the provider of a claim to do its part.
    pub(crate) fn ask_hook(&mut self, claim: &Arc<NodeClaim>, node: &Arc<Node>, point: HookPoint) {
        let Some(provider) = self.registry.provider_of(&claim.spec.node_class_ref).cloned() else { return };
        let (claim, node) = (claim.clone(), node.clone());
        let uid = claim.uid().unwrap_or_default();
        self.lives.hooks.asked(&uid, point);
        let (executor, epoch) = (self.executor.clone(), self.executor.fence().epoch());
        self.spawn_guarded(vec![Key::Claim(claim.name_any())], async move {
            let answer = executor.hook(epoch, &*provider, point, &claim, &node).await;
            Report::Hooked { claim: claim.name_any(), uid, point, answer }
        });
    }

    pub(crate) fn hooked(
        &mut self,
        claim: &str,
        uid: &str,
        point: HookPoint,
        answer: Result<HookAnswer, Failure>,
    ) {
        let now = self.present().monotonic;
        let Some(of) = self.cache.claims.get(claim).filter(|of| of.metadata.uid.as_deref() == Some(uid))
        else {
            return;
        };
        let nodes: Vec<String> = self.machines_of(of).iter().map(|node| node.name_any()).collect();
        self.lives.hooks.answered(uid, point, answer, now);
        self.enqueue(Key::Claim(claim.to_owned()));
        nodes.into_iter().for_each(|node| self.enqueue(Key::Node(node)));
    }

    /// A node that goes is not ready: perhaps its machine is no more. The provider is asked every few seconds.
    pub(crate) fn doubt_machine(&mut self, node: &Node, class: &GroupKind) {
        let now = self.clock.monotonic();
        let Some(id) = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()) else { return };
        let interval = self.settings.instance_interval;
        let due = self.lives.asked.get(&id).map_or(now, |last| *last + interval);
        let key = Key::Machine(id.clone());
        if id.is_empty() || self.lives.is_absent(&id) || self.busy.contains_key(&key) {
            return;
        }
        if now < due {
            return self.queue.add(Key::Node(node.name_any()), due);
        }
        self.lives.asked.insert(id.clone(), now);
        self.spawn(key, Vec::new(), vec![Command::FindMachine { class: class.clone(), provider_id: id }]);
        self.queue.add(Key::Node(node.name_any()), now + interval);
    }

    /// The provider has said whether there still is a machine.
    pub(crate) fn machine_found(&mut self, command: &Command, found: bool) {
        let Command::FindMachine { provider_id, .. } = command else { return };
        if found {
            return;
        }
        let nodes: Vec<String> = self.cache.nodes_with_id(provider_id).map(|node| node.name_any()).collect();
        // Nobody would ever forget what nobody carries.
        if !nodes.is_empty() {
            self.lives.absent.insert(provider_id.clone());
        }
        nodes.into_iter().for_each(|node| self.enqueue(Key::Node(node)));
    }

    /// Says on the node why a pod cannot be evicted.
    pub(crate) fn tell_refused_eviction(&mut self, command: &Command, why: &str) {
        let Command::Evict { namespace, name, .. } = command else { return };
        let pod = self.cache.pods.get(&format!("{namespace}/{name}"));
        let node = pod.and_then(|pod| self.cache.nodes.get(crate::pods::node_name(pod)?));
        let Some(node) = node else { return };
        let message = format!("Failed to evict pod {namespace}/{name}: {why}");
        let note = Note::new(&**node, Level::Warning, "FailedDraining", message);
        let now = self.now();
        self.carry_out(Key::Disruption, Step { notes: vec![note], ..Step::default() }, now);
    }
}
