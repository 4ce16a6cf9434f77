//! The record of what is decided: every decision gets an id, is kept for a while, told to the log and to whoever follows, and learns what came of
//! its commands.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use joiner_api::names::kinds;
use joiner_record::decision::MOST_NAMED;
use joiner_record::{
    Alternative, Command as Told, Completed, Decision, DecisionId, Entry, Outcome, PriceChange, Ring,
    Subject, Verb, Verdict, words,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use tokio::sync::mpsc;

use crate::command::{Command, Done, Failure};
use crate::pods::CachedPod;
use crate::queue::Key;

/// So many decisions of a dry run are remembered.
const MOST_TOLD: usize = 4096;

/// Something decided in a step, before it has an id.
#[derive(Debug, Clone)]
pub struct Decided {
    /// What.
    pub verdict: Verdict,
    /// About which objects.
    pub subjects: Vec<Subject>,
    /// What could have been decided too.
    pub alternatives: Vec<Alternative>,
    /// By how much it changes what all machines cost, if it does.
    pub change_usd_per_hour: Option<f64>,
}

impl Decided {
    /// A decision that changes no price and had no alternatives.
    pub fn new(verdict: Verdict, subjects: Vec<Subject>) -> Self {
        Self { verdict, subjects, alternatives: Vec::new(), change_usd_per_hour: None }
    }
}

/// An object as the subject of a decision.
pub fn subject_of<K: Referable>(object: &K) -> Subject {
    let ObjectReference { kind, namespace, name, uid, .. } = object.reference();
    Subject { kind: kind.unwrap_or_default(), namespace, name: name.unwrap_or_default(), uid }
}

/// What decisions and events can be about: an object, or what is kept of one.
pub trait Referable {
    /// A reference to it.
    fn reference(&self) -> ObjectReference;
}

impl<K: kube::Resource<DynamicType = ()>> Referable for K {
    fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(self.name_any()),
            namespace: self.namespace(),
            uid: self.uid(),
            ..ObjectReference::default()
        }
    }
}

impl Referable for CachedPod {
    fn reference(&self) -> ObjectReference {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ObjectReference {
            api_version: text("v1"),
            kind: text("Pod"),
            name: Some(self.name.to_string()),
            namespace: text(&self.common.namespace),
            uid: text(&self.uid),
            ..ObjectReference::default()
        }
    }
}

/// What a key is about; one that is about no single object goes by its own name.
pub fn subject_of_key(key: &Key) -> Subject {
    match key {
        Key::Claim(name) => Subject::new(kinds::NODE_CLAIM, name, None),
        Key::Node(name) => Subject::new("Node", name, None),
        Key::Pool(name) | Key::StaticPool(name) => Subject::new(kinds::NODE_POOL, name, None),
        Key::Machine(id) => Subject::new("Machine", id, None),
        Key::Provision
        | Key::Displaced
        | Key::Disruption
        | Key::Collect
        | Key::NodeGroups
        | Key::Adoption
        | Key::Event(_)
        | Key::Record => Subject::new("Key", key.to_string(), None),
    }
}

/// What a decision is made in.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// When.
    pub now: Timestamp,
    /// The generation of what was known.
    pub snapshot: u64,
    /// What all machines cost before it.
    pub usd_per_hour: f64,
}

/// All decisions of a process.
#[derive(Debug)]
pub struct Journal {
    ring: Ring,
    run: i64,
    /// Decisions whose commands are under way.
    under_way: BTreeMap<Key, DecisionId>,
    /// Nothing is carried out: what has been told already would be decided again and again.
    dry_run: bool,
    told: BTreeSet<String>,
    follower: Option<mpsc::Sender<Entry>>,
    /// Entries that the follower had no room for.
    lost: u64,
}

impl Journal {
    /// An empty one that keeps so many decisions of about so many bytes together. In a dry run each decision is one of what would be done, and is
    /// recorded once.
    pub fn new(most: usize, most_bytes: usize, begin: Timestamp, dry_run: bool) -> Self {
        Self {
            ring: Ring::new(most, most_bytes),
            run: begin.as_second(),
            under_way: BTreeMap::new(),
            dry_run,
            told: BTreeSet::new(),
            follower: None,
            lost: 0,
        }
    }

    /// The decisions kept.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Everything from now on is told to a receiver with room for so many entries. What it has no room for is counted, and nobody waits.
    pub fn follow(&mut self, room: usize) -> mpsc::Receiver<Entry> {
        let (sender, receiver) = mpsc::channel(room);
        self.follower = Some(sender);
        receiver
    }

    /// Records a decision; `commands` are those of its step, carried out under a key.
    pub fn record(
        &mut self,
        decided: Decided,
        key: &Key,
        commands: &[&Command],
        moment: Moment,
    ) -> DecisionId {
        let id = DecisionId { run: self.run, number: self.ring.total() + 1 };
        if self.dry_run && !self.is_news(&decided) {
            return id;
        }
        let mut subjects = decided.subjects;
        let more_subjects = subjects.len().saturating_sub(MOST_NAMED) as u64;
        subjects.truncate(MOST_NAMED);
        let carried_out = decided.verdict.is_carried_out() && !commands.is_empty();
        let count = if carried_out { commands.len() } else { 0 };
        let commands = commands.iter().take(count.min(MOST_NAMED)).map(|command| {
            let (verb, object) = described(command);
            Told { verb, object, completed: None }
        });
        let before = moment.usd_per_hour;
        let decision = Decision {
            id,
            time: moment.now,
            snapshot: moment.snapshot,
            verdict: decided.verdict,
            subjects,
            more_subjects,
            price: decided.change_usd_per_hour.map(|change| PriceChange {
                before_usd_per_hour: rounded(before),
                after_usd_per_hour: rounded(before + change),
            }),
            alternatives: decided.alternatives,
            commands: commands.collect(),
            more_commands: count.saturating_sub(MOST_NAMED) as u64,
            dry_run: self.dry_run,
        };
        if carried_out && !self.dry_run {
            self.under_way.insert(key.clone(), id);
        }
        log(&decision);
        self.tell(|| Entry::Decided(decision.clone()));
        self.ring.push(decision);
        id
    }

    /// Whether the same has not been decided about the same objects before. Names of claims follow from their pods, so the same machines for the same
    /// pods are the same.
    fn is_news(&mut self, decided: &Decided) -> bool {
        if self.told.len() >= MOST_TOLD {
            self.told.clear();
        }
        let objects: Vec<String> = decided
            .subjects
            .iter()
            .map(|of| format!("{}/{}/{}", of.kind, of.key(), of.uid.as_deref().unwrap_or_default()))
            .collect();
        self.told.insert(format!("{} {}", decided.verdict.code(), objects.join(" ")))
    }

    /// The commands of a step have been carried out, in order; those that are missing at the end were not tried.
    pub fn record_outcomes<'r>(
        &mut self,
        key: &Key,
        results: impl Iterator<Item = &'r Result<Done, Failure>>,
        now: Timestamp,
    ) {
        let Some(id) = self.under_way.remove(key) else { return };
        let mut outcomes = results.map(outcome);
        for command in 0..MOST_NAMED {
            let outcome = outcomes.next().unwrap_or(Outcome::NotTried);
            let completed = Completed { time: now, outcome };
            if !self.ring.complete(id, command, completed.clone()) {
                break;
            }
            self.tell(|| Entry::Completed { id, command: command as u64, completed });
        }
    }

    fn tell(&mut self, entry: impl FnOnce() -> Entry) {
        let Some(follower) = &self.follower else { return };
        // Where a gap was, it is told before anything that follows it.
        if self.lost > 0 && follower.try_send(Entry::Lost { count: self.lost }).is_ok() {
            self.lost = 0;
        }
        if self.lost > 0 || follower.try_send(entry()).is_err() {
            self.lost += 1;
        }
    }
}

/// Prices are sums of billionths; what rounding adds is noise.
fn rounded(usd: f64) -> f64 {
    (usd * 1e9).round() / 1e9
}

fn log(decision: &Decision) {
    let (id, kind, summary) = (decision.id, decision.verdict.code(), words::summary(decision));
    match &decision.verdict {
        Verdict::WatchTrouble(_) | Verdict::Failed { .. } => {
            tracing::warn!(decision = %id, kind, summary, "decided");
        }
        _ => tracing::info!(decision = %id, kind, summary, "decided"),
    }
}

/// What a command does, and to what.
pub fn described(command: &Command) -> (Verb, Subject) {
    let named = |kind: &str, name: &str| Subject::new(kind, name, None);
    let exactly = |kind: &str, name: &str, uid: &str| Subject::new(kind, name, Some(uid.to_owned()));
    match command {
        Command::CreateClaim(claim) => (Verb::Create, subject_of(&**claim)),
        Command::PatchClaim { name, .. } => (Verb::Update, named("NodeClaim", name)),
        Command::PatchClaimStatus { name, .. } => (Verb::UpdateStatus, named("NodeClaim", name)),
        Command::DeleteClaim { name, uid } => (Verb::Delete, exactly("NodeClaim", name, uid)),
        Command::PatchNode { name, .. } => (Verb::Update, named("Node", name)),
        Command::DeleteNode { name, uid } => (Verb::Delete, exactly("Node", name, uid)),
        Command::ConfirmEmpty { node } => (Verb::ListPods, named("Node", node)),
        Command::PatchPool { name, .. } => (Verb::Update, named("NodePool", name)),
        Command::PatchPoolStatus { name, .. } => (Verb::UpdateStatus, named("NodePool", name)),
        Command::Evict { namespace, name, uid } => {
            (Verb::Evict, Subject::within("Pod", namespace, name, Some(uid.clone())))
        }
        Command::DeletePod { namespace, name, uid, .. } => {
            (Verb::Delete, Subject::within("Pod", namespace, name, Some(uid.clone())))
        }
        Command::Terminate { provider_id, .. } => (Verb::Terminate, named("Machine", provider_id)),
        Command::CancelLaunch { handle, .. } => (Verb::CancelLaunch, named("Launch", &handle.0)),
        Command::EndMachineOf { claim_uid, .. } => {
            (Verb::Terminate, named("Machine", &format!("of the claim with uid {claim_uid}")))
        }
        Command::FindMachine { provider_id, .. } => (Verb::FindMachine, named("Machine", provider_id)),
        Command::GrowGroup { .. } => (Verb::Resize, named("NodeGroup", &command.object())),
        Command::RemoveMember { provider_id, .. } => (Verb::Terminate, named("Machine", provider_id)),
        Command::CreateEvent(event) => (Verb::WriteEvent, subject_of(&**event)),
        Command::PatchEvent { namespace, name, .. } => {
            (Verb::WriteEvent, Subject::within("Event", namespace, name, None))
        }
        Command::WriteRecord(map) => (Verb::WriteRecord, subject_of(&**map)),
    }
}

fn outcome(result: &Result<Done, Failure>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(Failure::Conflict) => Outcome::Conflict,
        Err(Failure::Gone) => Outcome::Gone,
        Err(Failure::NotEmpty) => Outcome::NotEmpty,
        Err(failure @ (Failure::Later(_) | Failure::Fenced | Failure::Overloaded)) => {
            Outcome::Postponed { message: failure.to_string() }
        }
        Err(
            failure @ (Failure::Provider(_) | Failure::NotDone(_) | Failure::Unknown(_) | Failure::Other(_)),
        ) => Outcome::Failed { message: failure.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Moment {
        let now = Timestamp::from_second(second).unwrap();
        Moment { now, snapshot: 3, usd_per_hour: 1.5 }
    }

    fn emptied() -> Decided {
        let verdict = Verdict::Emptied { usd_per_hour: 0.25 };
        let subjects = vec![Subject::new("Node", "a", None)];
        Decided { change_usd_per_hour: Some(-0.25), ..Decided::new(verdict, subjects) }
    }

    fn commands() -> Vec<Command> {
        vec![
            Command::ConfirmEmpty { node: "a".to_owned() },
            Command::DeleteNode { name: "a".to_owned(), uid: "1".to_owned() },
        ]
    }

    #[test]
    fn outcomes_come_to_the_decision_of_their_key() {
        let mut journal = Journal::new(8, usize::MAX, at(60).now, false);
        let mut told = journal.follow(16);
        let key = Key::Claim("a".to_owned());
        let commands = commands();
        let id = journal.record(emptied(), &key, &commands.iter().collect::<Vec<_>>(), at(61));
        assert_eq!(id.to_string(), "19700101T000100-1");
        let price = journal.ring().get(id).unwrap().price.unwrap();
        assert_eq!((price.before_usd_per_hour, price.after_usd_per_hour), (1.5, 1.25));
        journal.record_outcomes(&Key::Disruption, [].iter(), at(62).now);
        journal.record_outcomes(&key, [Err(Failure::NotEmpty)].iter(), at(62).now);
        let outcomes: Vec<Outcome> = journal
            .ring()
            .get(id)
            .unwrap()
            .commands
            .iter()
            .map(|of| of.completed.clone().unwrap().outcome)
            .collect();
        assert_eq!(outcomes, [Outcome::NotEmpty, Outcome::NotTried]);
        let kinds: Vec<bool> = std::iter::from_fn(|| told.try_recv().ok())
            .map(|entry| matches!(entry, Entry::Completed { .. }))
            .collect();
        assert_eq!(kinds, [false, true, true]);
    }

    #[test]
    fn a_decision_that_only_tells_has_no_commands() {
        let mut journal = Journal::new(8, usize::MAX, at(0).now, false);
        let refused = Decided::new(Verdict::Refused { reasons: Vec::new(), pods: 1 }, Vec::new());
        let commands = commands();
        let id = journal.record(refused, &Key::Provision, &commands.iter().collect::<Vec<_>>(), at(1));
        assert!(journal.ring().get(id).unwrap().commands.is_empty());
        assert!(journal.under_way.is_empty());
    }

    #[test]
    fn a_dry_run_tells_once_what_it_would_do() {
        let mut journal = Journal::new(8, usize::MAX, at(0).now, true);
        let key = Key::Claim("a".to_owned());
        let commands = commands();
        for _ in 0..3 {
            journal.record(emptied(), &key, &commands.iter().collect::<Vec<_>>(), at(1));
        }
        assert_eq!(journal.ring().total(), 1);
        let told = journal.ring().newest_first().next().unwrap();
        assert!(told.dry_run && words::summary(told).starts_with("would: a is empty"), "{told:?}");
        assert!(journal.under_way.is_empty(), "nothing is carried out");
        let mut other = emptied();
        other.subjects[0].name = "b".to_owned();
        journal.record(other, &key, &[], at(2));
        assert_eq!(journal.ring().total(), 2);
    }

    #[test]
    fn a_slow_follower_is_told_what_it_missed() {
        let mut journal = Journal::new(8, usize::MAX, at(0).now, false);
        let mut told = journal.follow(2);
        for _ in 0..5 {
            journal.record(emptied(), &Key::Disruption, &[], at(1));
        }
        assert!(matches!(told.try_recv(), Ok(Entry::Decided(_))));
        assert!(matches!(told.try_recv(), Ok(Entry::Decided(_))));
        journal.record(emptied(), &Key::Disruption, &[], at(1));
        assert_eq!(told.try_recv(), Ok(Entry::Lost { count: 3 }));
        assert!(matches!(told.try_recv(), Ok(Entry::Decided(decision)) if decision.id.number == 6));
    }

    #[test]
    fn long_lists_are_named_in_part() {
        let mut journal = Journal::new(8, usize::MAX, at(0).now, false);
        let subjects = (0..100).map(|number| Subject::new("NodeClaim", number.to_string(), None)).collect();
        let many: Vec<Command> = (0..100).flat_map(|_| commands()).collect();
        let many: Vec<&Command> = many.iter().collect();
        let id = journal.record(Decided::new(Verdict::Terminated, subjects), &Key::Provision, &many, at(1));
        let decision = journal.ring().get(id).unwrap();
        assert_eq!((decision.subjects.len(), decision.more_subjects), (MOST_NAMED, 36));
        assert_eq!((decision.commands.len(), decision.more_commands), (MOST_NAMED, 136));
    }
}
