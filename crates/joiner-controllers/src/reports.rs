//! What came of what was done: answers enter the world, failures set pauses, machines launched are written down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::names::conditions;
use joiner_provider::{Error, Instance, Launch, Listed, Provider, Scope, Terminated};
use joiner_record::{Orphan, Subject, Verb, Verdict};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::command::{Command, Done, Failure, Step};
use crate::decision::{Decided, described, subject_of};
use crate::emptiness;
use crate::engine::Engine;
use crate::lifecycle::{self, is_true, signed};
use crate::queue::Key;
use crate::record::Note;

/// First and longest pause of a key after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// After somebody else's change the key is looked at again almost at once.
const AFTER_CONFLICT: Duration = Duration::from_millis(100);
/// A list that lacks more machines than this at once, and more than a fifth, is not believed.
const MOST_LOST: usize = 3;

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
    Launched(Arc<NodeClaim>, Result<Launch, Error>),
    /// The machines of all providers, by the provider's name.
    Listed(Vec<(String, Result<Vec<Listed>, Error>)>),
}

impl Engine {
    pub(crate) fn take_report(&mut self, report: Report) {
        self.take_in();
        let now = self.now();
        match report {
            Report::Ran { key, each, ordered } => {
                let again = self.busy.remove(&key) == Some(true);
                let results = each.iter().chain(&ordered).map(|(_, result)| result);
                self.journal.settle(&key, results, now);
                let mut worst: Option<((Verb, Subject), Failure)> = None;
                for (command, result) in each.into_iter().chain(ordered) {
                    if let Some(failure) = self.took(&key, &command, result, now) {
                        worst.get_or_insert((described(&command), failure));
                    }
                }
                self.settle(&key, worst, again, now);
            }
            Report::Launched(claim, outcome) => {
                self.busy.remove(&Key::Claim(claim.name_any()));
                self.launched(&claim, outcome, now);
            }
            Report::Listed(lists) => {
                self.busy.remove(&Key::Collect);
                for (provider, listed) in lists {
                    match listed {
                        Ok(listed) => self.compare(&provider, &listed, now),
                        Err(error) => self.list_failed(&provider, &error, now),
                    }
                }
            }
        }
    }

    /// One command's answer; what is returned still has to be dealt with.
    fn took(
        &mut self,
        key: &Key,
        command: &Command,
        result: Result<Done, Failure>,
        now: Timestamp,
    ) -> Option<Failure> {
        match result {
            Ok(Done::Claim(claim)) => {
                if let Some(change) = self.world.claims.written(*claim) {
                    self.claim_changed(&change);
                }
            }
            Ok(Done::Node(node)) => {
                if let Some(change) = self.world.nodes.written(*node) {
                    self.node_changed(&change);
                }
            }
            Ok(Done::Pool(pool)) => drop(self.world.pools.written(*pool)),
            Ok(Done::Machine(Terminated::Gone)) => {
                match command {
                    Command::Terminate { provider_id, .. } => drop(self.gone.insert(provider_id.clone())),
                    Command::CancelLaunch { handle, .. } => drop(self.gone.insert(handle.0.clone())),
                    _ => {}
                }
                self.queue.add(key.clone(), now);
            }
            Ok(Done::Machine(Terminated::Terminating)) => {}
            Ok(Done::Nothing) => self.pod_left(command, now),
            Err(failure) => return self.failed(key, command, failure, now),
        }
        None
    }

    fn pod_left(&mut self, command: &Command, now: Timestamp) {
        if let Command::Evict { namespace, name, uid } = command {
            // Until the watch shows it going, nobody asks again.
            self.evictions.refused(uid, now);
            if let Some(pod) = self.world.pods.get(&format!("{namespace}/{name}")) {
                let verdict = Verdict::Evicted { reason: self.why_evicted(pod) };
                let notes = Note::of(&**pod, &verdict, None).into_iter().collect();
                self.carry_out(Key::Event(uid.clone()), Step { notes, ..Step::default() }, now);
            }
        }
    }

    fn why_evicted(&self, pod: &Pod) -> String {
        let node = crate::pods::node_name(pod).and_then(|node| self.world.nodes.get(node));
        let claim = node.and_then(|node| self.world.claim_of(node));
        let reason = claim.and_then(|claim| lifecycle::condition(claim, conditions::DISRUPTION_REASON));
        reason.map_or("Forceful Termination", |condition| condition.reason.as_str()).to_owned()
    }

    fn failed(&mut self, key: &Key, command: &Command, failure: Failure, now: Timestamp) -> Option<Failure> {
        match (command, &failure) {
            (Command::Evict { uid, .. } | Command::DeletePod { uid, .. }, _) => {
                match failure {
                    Failure::Gone | Failure::Conflict => self.evictions.done(uid),
                    _ => {
                        let due = self.evictions.refused(uid, now);
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
            // What was to be taken away is gone, and what is gone needs no patch; the watch will tell the same.
            (_, Failure::Gone) => None,
            _ => Some(failure),
        }
    }

    /// Sets the next look at a key whose step is done.
    fn settle(&mut self, key: &Key, worst: Option<((Verb, Subject), Failure)>, again: bool, now: Timestamp) {
        if let Key::Claim(name) = key
            && worst.is_some()
        {
            self.leaving.remove(name);
        }
        match worst {
            None => {
                self.pauses.remove(key);
                if again {
                    self.queue.add(key.clone(), now);
                }
            }
            Some((_, Failure::Conflict)) => self.look_in(key, now, AFTER_CONFLICT),
            Some((_, Failure::NotEmpty)) => self.queue.add(Key::Disruption, now),
            Some(((verb, object), failure)) => {
                let pause = self.pause(key, now);
                self.look_in(key, now, pause);
                let message = match failure {
                    Failure::Provider(error) => error.to_string(),
                    Failure::Later(message) | Failure::Other(message) => message,
                    Failure::Conflict | Failure::Gone | Failure::NotEmpty => String::new(),
                };
                let failed = Verdict::Failed { verb, message, retry_after_seconds: pause.as_secs() };
                let decisions = vec![Decided::new(failed, vec![object])];
                self.carry_out(key.clone(), Step { decisions, ..Step::default() }, now);
                if *key == Key::Provision {
                    self.batch.decided.clear();
                }
            }
        }
    }

    fn look_in(&mut self, key: &Key, now: Timestamp, wait: Duration) {
        if let Ok(time) = now.checked_add(signed(wait)) {
            self.queue.add(key.clone(), time);
        }
    }

    /// The next pause of a key that failed: twice as long each time.
    fn pause(&mut self, key: &Key, now: Timestamp) -> Duration {
        let entry = self.pauses.entry(key.clone()).or_insert((now, 0));
        let pause = PAUSES.0.saturating_mul(1 << entry.1.min(20)).min(PAUSES.1);
        entry.1 += 1;
        entry.0 = now.checked_add(signed(pause)).unwrap_or(Timestamp::MAX);
        pause
    }

    pub(crate) fn launched(&mut self, asked: &NodeClaim, outcome: Result<Launch, Error>, now: Timestamp) {
        let name = asked.name_any();
        let key = Key::Claim(name.clone());
        let current = self.world.claims.get(&name).filter(|claim| claim.uid() == asked.uid()).cloned();
        let Some(claim) = current else {
            // The claim went while its machine was being made; comparing finds the machine.
            self.queue.add(Key::Collect, now);
            return;
        };
        let class = &claim.spec.node_class_ref;
        let provider = self.registry.provider_of(class).map_or("", |provider| provider.name()).to_owned();
        match outcome {
            Ok(Launch::Pending(handle)) => {
                self.pauses.remove(&key);
                self.look_in(&key, now, self.settings.instance_interval);
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
            Err(error) => {
                let (scopes, retry_after): (&[Scope], _) = match &error {
                    Error::NoCapacity { scopes, retry_after, .. } => (scopes, *retry_after),
                    Error::Quota { scope, retry_after, .. } => (std::slice::from_ref(scope), *retry_after),
                    _ => (&[], None),
                };
                for scope in scopes {
                    self.health.failed(&provider, scope.clone(), retry_after, now);
                }
                let pause = match &error {
                    Error::Throttled { retry_after } => {
                        let due = now.checked_add(signed(*retry_after)).unwrap_or(Timestamp::MAX);
                        self.pauses.insert(key.clone(), (due, 0));
                        *retry_after
                    }
                    _ => self.pause(&key, now),
                };
                self.look_in(&key, now, pause);
                let step = lifecycle::launch_failed(&claim, &error, now);
                self.carry_out(key, step, now);
            }
        }
    }

    fn list_failed(&mut self, provider: &str, error: &Error, now: Timestamp) {
        let failed = Verdict::Failed {
            verb: Verb::List,
            message: error.to_string(),
            retry_after_seconds: self.settings.collect_interval.as_secs(),
        };
        let decisions = vec![Decided::new(failed, vec![Subject::new("Provider", provider, None)])];
        self.carry_out(Key::Collect, Step { decisions, ..Step::default() }, now);
    }

    /// Clears away what lost its other half: machines without a claim, and claims whose machine is gone.
    fn compare(&mut self, provider: &str, listed: &[Listed], now: Timestamp) {
        let of_provider = |of: &&Arc<dyn Provider>| of.name() == provider;
        let kind =
            self.registry.providers().iter().find(of_provider).and_then(|of| of.node_class_kinds().first());
        let Some(class) = kind.map(|kind| kind.group_kind()) else { return };
        let (mut instances, mut ids, mut is_whole) = (Vec::<&Instance>::new(), BTreeSet::<&str>::new(), true);
        for item in listed {
            match item {
                Listed::Instance(instance) => {
                    instances.push(instance);
                    ids.insert(&instance.provider_id);
                }
                Listed::Unreadable { provider_id: Some(id), .. } => drop(ids.insert(id)),
                Listed::Unreadable { provider_id: None, .. } => is_whole = false,
            }
        }
        let mut claims: BTreeMap<&str, &Arc<NodeClaim>> = BTreeMap::new();
        for claim in self.world.claims.values() {
            if let Some(id) = claim.status.as_ref().and_then(|status| status.provider_id.as_deref()) {
                claims.insert(id, claim);
            }
        }
        let mut steps: Vec<(Key, Step)> = Vec::new();
        for instance in instances {
            let known = claims.contains_key(instance.provider_id.as_str())
                || instance.claim.as_deref().is_some_and(|name| self.world.claims.get(name).is_some());
            let young = instance
                .created
                .is_some_and(|created| now.duration_since(created) < signed(self.settings.collect_age));
            if known || young || instance.terminating {
                continue;
            }
            steps.push((
                Key::Event(instance.provider_id.clone()),
                collected(
                    Command::Terminate { class: class.clone(), provider_id: instance.provider_id.clone() },
                    Orphan::Machine,
                    Subject::new("Machine", &instance.provider_id, None),
                ),
            ));
        }
        let standing = claims.iter().filter(|(_, claim)| {
            claim.metadata.deletion_timestamp.is_none()
                && is_true(claim, conditions::REGISTERED)
                && self
                    .registry
                    .provider_of(&claim.spec.node_class_ref)
                    .is_some_and(|of| of.name() == provider)
        });
        let (mut total, mut lost) = (0usize, Vec::new());
        for (id, claim) in standing {
            total += 1;
            if !ids.contains(id) && !self.world.nodes_of(claim).iter().any(|node| emptiness::is_ready(node)) {
                lost.push(*claim);
            }
        }
        if is_whole && lost.len() <= MOST_LOST.max(total / 5) {
            for claim in lost {
                let (name, uid) = (claim.name_any(), claim.uid().unwrap_or_default());
                let key = Key::Claim(name.clone());
                let command = Command::DeleteClaim { name, uid };
                steps.push((key, collected(command, Orphan::Claim, subject_of(&**claim))));
            }
        }
        for (key, step) in steps {
            if !self.busy.contains_key(&key) {
                self.carry_out(key, step, now);
            }
        }
    }
}

fn collected(command: Command, orphan: Orphan, object: Subject) -> Step {
    let decisions = vec![Decided::new(Verdict::Collected { orphan }, vec![object])];
    Step { commands: vec![command], decisions, ..Step::default() }
}
