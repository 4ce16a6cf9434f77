//! What came of what was done: answers enter the cache, failures set pauses, machines launched are written down.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::names::conditions;
use joiner_core::plan::Plan;
use joiner_provider::{
    Error, HookAnswer, HookPoint, Launch, Listed, ListedGroup, Scope, Terminated, Unregistered,
};
use joiner_record::{Subject, Verb, Verdict};
use kube::ResourceExt;

use crate::collect::Examined;
use crate::command::{Command, Done, Failure, Step};
use crate::deciding::Question;
use crate::decision::{Decided, subject_of};
use crate::engine::Engine;
use crate::pods::CachedPod;
use crate::portions::Answers;
use crate::queue::Key;
use crate::record::Note;
use crate::slim;
use crate::steps::lifecycle;

/// After somebody else's change the key is reconciled again almost at once.
const AFTER_CONFLICT: Duration = Duration::from_millis(100);

/// Something that was done.
#[derive(Debug)]
pub(crate) enum Report {
    /// The commands of a step.
    Ran {
        key: Key,
        each: Vec<(Command, Result<Done, Failure>)>,
        ordered: Vec<(Command, Result<Done, Failure>)>,
    },
    /// One launch of a batch.
    Launched(Arc<NodeClaim>, Result<Launch, Failure>),
    /// The machines of all providers, by the provider's name.
    Listed(Vec<(String, Result<Vec<Listed>, Failure>)>),
    /// The node groups of all providers that keep any, by the provider's name.
    Groups(Vec<(String, Result<Vec<ListedGroup>, Failure>)>),
    /// What lost its other half was looked at once more, each by itself.
    Examined(Examined),
    /// Machines were handed over to the provider of that name, or not.
    Adopted(String, Vec<Unregistered>, Result<(), Failure>),
    /// A provider was asked whether it has done its part in the life of the claim with that name and uid.
    Hooked { claim: String, uid: String, point: HookPoint, answer: Result<HookAnswer, Failure> },
    /// A plan for the pods that were asked about.
    Decided(Question, Box<Plan>),
    /// How little the plan made at that time could have cost.
    Bounded { time: Timestamp, bound: Option<f64> },
    /// The work for these keys ended in a panic.
    Panicked { keys: Vec<Key>, message: String },
}

impl Engine {
    pub(crate) fn take_report(&mut self, report: Report) {
        self.take_in();
        let now = self.now();
        match report {
            Report::Ran { key, each, ordered } => {
                let results: Vec<_> = each.into_iter().chain(ordered).collect();
                self.journal.record_outcomes(&key, results.iter().map(|(_, result)| result), now);
                // The key stays busy until all of them have been dealt with.
                self.portions.add_answers(Answers::new(key, results));
            }
            Report::Launched(claim, outcome) => {
                self.busy.remove(&Key::Claim(claim.name_any()));
                // What became of it after the lead was lost, the next leader finds out by itself.
                if self.leads() {
                    self.launched(&claim, outcome, now);
                }
            }
            Report::Listed(lists) => {
                self.busy.remove(&Key::Collect);
                if !self.leads() {
                    return;
                }
                let mut failed = None;
                for (provider, listed) in lists {
                    match listed {
                        Ok(listed) => self.compare(&provider, &listed, now),
                        Err(failure) => failed = Some((provider, failure)),
                    }
                }
                match failed {
                    None => drop(self.pauses.remove(&Key::Collect)),
                    Some((provider, failure)) => {
                        let provider = Subject::new("Provider", provider, None);
                        self.put_back(&Key::Collect, Verb::List, provider, &failure, now);
                    }
                }
            }
            Report::Groups(lists) => self.groups_listed(lists, now),
            Report::Examined(examined) => self.clear_away(examined, now),
            Report::Adopted(_, _, Ok(())) => drop(self.pauses.remove(&Key::Adoption)),
            Report::Adopted(provider, machines, Err(failure)) => {
                let object = Subject::new("Provider", &provider, None);
                self.put_back(&Key::Adoption, Verb::Adopt, object, &failure, now);
                self.to_adopt.insert(provider, machines);
            }
            Report::Hooked { claim, uid, point, answer } => self.hooked(&claim, &uid, point, answer),
            Report::Decided(question, plan) => self.decided(&question, *plan, now),
            Report::Bounded { time, bound } => self.bounded(time, bound),
            Report::Panicked { keys, message } => {
                let lost = Err(Failure::Unknown(format!("it panicked: {message}")));
                for key in keys {
                    self.busy.remove(&key);
                    self.journal.record_outcomes(&key, std::iter::repeat(&lost), now);
                    self.panicked(&key, &message);
                }
            }
        }
    }

    /// One command's answer; what is returned still has to be dealt with.
    pub(crate) fn took(
        &mut self,
        key: &Key,
        command: &Command,
        result: Result<Done, Failure>,
        now: Timestamp,
    ) -> Option<Failure> {
        match result {
            Ok(Done::Claim(mut claim)) => {
                slim::object(&mut *claim);
                if let Some(change) = self.cache.claims.written(*claim) {
                    self.claim_changed(&change);
                }
            }
            Ok(Done::Node(mut node)) => {
                slim::node(&mut node);
                if let Some(change) = self.cache.nodes.written(*node) {
                    self.node_changed(&change);
                }
            }
            Ok(Done::Pool(mut pool)) => {
                slim::object(&mut *pool);
                if let Some(change) = self.cache.pools.written(*pool) {
                    self.tell_transitions_of_pool(&change);
                    self.measure_pool(&change);
                }
            }
            Ok(Done::Group(group_key, group)) => self.group_grew(group_key, *group),
            Ok(Done::Machine(Terminated::Gone)) => {
                match command {
                    Command::RemoveMember { group, .. } => self.groups_outdated(&group.provider),
                    Command::Terminate { provider_id, .. } => {
                        self.gone.insert(provider_id.clone());
                        self.times.forget(provider_id);
                    }
                    Command::CancelLaunch { handle, .. } => drop(self.gone.insert(handle.0.clone())),
                    Command::EndMachineOf { claim_uid, .. } => drop(self.gone.insert(claim_uid.clone())),
                    _ => {}
                }
                self.enqueue(key.clone());
            }
            Ok(Done::Machine(Terminated::Terminating)) => {}
            Ok(Done::Found(found)) => self.machine_found(command, found),
            Ok(Done::Nothing) => self.pod_left(command, now),
            Err(failure) => return self.failed(key, command, failure),
        }
        None
    }

    fn pod_left(&mut self, command: &Command, now: Timestamp) {
        if let Command::Evict { namespace, name, uid } = command {
            // Until the watch shows it going, nobody asks again.
            let present = self.present();
            self.evictions.asked(uid, present.monotonic);
            if let Some(pod) = self.cache.pods.get(&format!("{namespace}/{name}")) {
                let verdict = Verdict::Evicted { reason: self.why_evicted(pod) };
                let notes = Note::of(&**pod, &verdict, None).into_iter().collect();
                self.carry_out(Key::Event(uid.clone()), Step { notes, ..Step::default() }, now);
            }
        }
    }

    pub(crate) fn why_evicted(&self, pod: &CachedPod) -> String {
        let node = crate::pods::node_name(pod).and_then(|node| self.cache.nodes.get(node));
        let Some(claim) = node.and_then(|node| self.cache.claim_of(node)) else { return String::new() };
        let reason = lifecycle::condition(claim, conditions::DISRUPTION_REASON);
        reason.map_or("Forceful Termination", |condition| condition.reason.as_str()).to_owned()
    }

    fn failed(&mut self, key: &Key, command: &Command, failure: Failure) -> Option<Failure> {
        match (command, &failure) {
            (Command::Evict { uid, .. } | Command::DeletePod { uid, .. }, _) => {
                match failure {
                    Failure::Gone | Failure::Conflict => self.evictions.done(uid),
                    _ => {
                        let now = self.present().monotonic;
                        let due = match (command, &failure) {
                            (Command::Evict { .. }, Failure::Later(why)) => {
                                self.tell_refused_eviction(command, why);
                                self.evictions.refused(uid, why.clone(), now)
                            }
                            _ => self.evictions.asked(uid, now),
                        };
                        self.queue.add(key.clone(), due);
                    }
                }
                None
            }
            // Tried again with the next news; a decision about it would be news itself.
            (Command::WriteRecord(_), failure) => {
                tracing::warn!(?failure, "the record of decisions is not written");
                None
            }
            // An event that is not written is no reason to do anything again.
            (Command::CreateEvent(_) | Command::PatchEvent { .. }, _) => None,
            (Command::GrowGroup { provider, growth }, _) => {
                self.growth_failed(provider, growth, &failure);
                Some(failure)
            }
            // What was to be taken away is gone, and what is gone needs no patch; the watch will tell the same.
            (_, Failure::Gone) => None,
            _ => Some(failure),
        }
    }

    /// When a key whose step is done comes next.
    pub(crate) fn requeue_after_step(
        &mut self,
        key: &Key,
        worst: Option<((Verb, Subject), Failure)>,
        again: bool,
        now: Timestamp,
    ) {
        if worst.is_some() {
            self.stay_after_all(key);
        }
        match worst {
            None => {
                self.pauses.remove(key);
                if again {
                    self.enqueue(key.clone());
                }
            }
            Some((_, Failure::Conflict)) => {
                self.metrics.retry("conflict");
                self.requeue_after(key, AFTER_CONFLICT);
            }
            Some((_, Failure::NotEmpty)) => self.enqueue(Key::Disruption),
            Some(((verb, object), failure)) => {
                self.put_back(key, verb, object, &failure, now);
                if *key == Key::Provision {
                    self.batch.decided.clear();
                }
            }
        }
    }

    pub(crate) fn launched(&mut self, asked: &NodeClaim, outcome: Result<Launch, Failure>, now: Timestamp) {
        let name = asked.name_any();
        let key = Key::Claim(name.clone());
        let current = self.cache.claims.get(&name).filter(|claim| claim.uid() == asked.uid()).cloned();
        let Some(claim) = current else {
            // The claim went while its machine was being made; comparing finds the machine.
            self.enqueue(Key::Collect);
            return;
        };
        let class = &claim.spec.node_class_ref;
        let provider = self.registry.provider_of(class).map_or("", |provider| provider.name()).to_owned();
        match outcome {
            Ok(Launch::Pending(handle)) => {
                self.pauses.remove(&key);
                self.requeue_after(&key, self.settings.instance_interval);
                let commands = lifecycle::launch_pending(&claim, &handle);
                self.carry_out(key, Step { commands, ..Step::default() }, now);
            }
            Ok(Launch::Launched(machine)) => {
                self.pauses.remove(&key);
                self.planned_offerings.remove(&name);
                self.health.succeeded(&provider, class, &machine.offering);
                let commands = lifecycle::launched(&claim, &machine, now);
                let label = |key: &str| machine.labels.get(key).cloned();
                let verdict = Verdict::Launched {
                    instance_type: label(joiner_api::names::INSTANCE_TYPE_LABEL),
                    zone: label(joiner_api::names::ZONE_LABEL),
                    capacity_type: label(joiner_api::names::CAPACITY_TYPE_LABEL),
                };
                let decisions = vec![Decided::new(verdict, vec![subject_of(&*claim)])];
                self.carry_out(key, Step { commands, decisions, ..Step::default() }, now);
            }
            Err(Failure::Provider(error)) => {
                let (scopes, retry_after): (&[Scope], _) = match &error {
                    Error::NoCapacity { scopes, retry_after, .. } => (scopes, *retry_after),
                    Error::Quota { scope, retry_after, .. } => (std::slice::from_ref(scope), *retry_after),
                    _ => (&[], None),
                };
                for scope in scopes {
                    self.health.failed(&provider, scope.clone(), retry_after, now);
                }
                let step = lifecycle::launch_failed(&claim, &error, now);
                // A claim that is given up says so by itself.
                if step.decisions.is_empty() {
                    self.launch_later(&claim, &Failure::Provider(error), now);
                }
                self.carry_out(key, step, now);
            }
            Err(failure) => self.launch_later(&claim, &failure, now),
        }
    }

    fn launch_later(&mut self, claim: &NodeClaim, failure: &Failure, now: Timestamp) {
        let key = Key::Claim(claim.name_any());
        self.put_back(&key, Verb::Launch, subject_of(claim), failure, now);
        if let Failure::Provider(Error::Throttled { retry_after }) = failure {
            let due = self.present().monotonic + *retry_after;
            self.pauses.insert(key, (due, 0));
        }
    }
}
