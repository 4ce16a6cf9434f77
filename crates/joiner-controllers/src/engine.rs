//! The loop itself: what wakes it, what it keeps, how steps become writes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::duration::NillableDuration;
use joiner_api::names::{NODEPOOL_LABEL, conditions};
use joiner_provider::{Clock, Health, Monotonic, RankedOffering, Registry, Unregistered};
use joiner_record::{Entry, Reason};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Client, ResourceExt};
use tokio::sync::{mpsc, watch as signal};
use tokio::task::JoinSet;

use crate::breakers::Breakers;
use crate::cache::{Change, ClusterCache, Kind, Store, WatchEvent, Watched};
use crate::clock::Present;
use crate::command::{Command, Step};
use crate::decision::{Journal, Moment};
use crate::executor::{Epoch, Executor, Fence};
use crate::inspect::{Asked, Inspector};
use crate::interruptions;
use crate::lives::Lives;
use crate::measuring::Measured;
use crate::metrics::Metrics;
use crate::observed_times::ObservedTimes;
use crate::planning::Planning;
use crate::pods::{self, CachedPod};
use crate::portions::{BusiestTurn, PORTION, Portions};
use crate::provision::Nominations;
use crate::pulse::Pulse;
use crate::queue::{Key, Queue};
use crate::record::Recorder;
use crate::reports::Report;
use crate::roster::{Roster, Totals};
use crate::settings::Settings;
use crate::steps::draining::Evictions;
use crate::steps::emptiness;
use crate::steps::lifecycle;
use crate::steps::nodepools;
use crate::summary::{Awaited, LastPlan, Summary};
use crate::watch;
use crate::watch_health::WatchHealth;

/// Reports that may wait.
const ROOM: usize = 4096;
/// So many launches are not kept waiting for others.
const LAUNCHES: usize = 256;
/// Answers that come within this time after a launch that failed are planned for together.
const REPLAN_PAUSE: Duration = Duration::from_millis(200);
/// The loop wakes at least so often.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// Decisions a summary carries.
const JOURNAL_TAIL: usize = 50;
/// Refused pods of which a summary tells why.
const REFUSALS: usize = 20;

/// The controllers of a cluster.
pub struct Controllers {
    engine: Engine,
    summary: signal::Receiver<Summary>,
}

impl Controllers {
    /// Controllers over a client and providers, alone with their cluster: nobody else leads. They do nothing before [`Controllers::run`].
    pub fn new(client: Client, registry: Registry, clock: Arc<dyn Clock>, settings: Settings) -> Self {
        let fence = Fence::open(clock.clone(), 1);
        Self::behind(fence, client, registry, clock, settings, Arc::default())
    }

    /// Controllers that only observe while the fence is closed, and act while it is open. Whoever decides who leads moves it.
    pub fn behind(
        fence: Fence,
        client: Client,
        registry: Registry,
        clock: Arc<dyn Clock>,
        settings: Settings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (publisher, summary) = signal::channel(Summary::default());
        Self { engine: Engine::new(fence, client, registry, clock, settings, publisher, metrics), summary }
    }

    /// The present state in numbers, renewed as things happen.
    pub fn summary(&self) -> signal::Receiver<Summary> {
        self.summary.clone()
    }

    /// Every decision from now on, and what comes of its commands. Who does not keep up with so many entries misses some, and is told how many.
    pub fn follow_decisions(&mut self, room: usize) -> mpsc::Receiver<Entry> {
        self.engine.journal.follow(room)
    }

    /// Lets writes through or not.
    pub fn fence(&self) -> Fence {
        self.engine.executor.fence().clone()
    }

    /// What is counted.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.engine.metrics.clone()
    }

    /// Asks the loop for what it knows, from wherever.
    pub fn inspector(&self) -> Inspector {
        self.engine.inspector.clone()
    }

    /// Whether the loop gets on.
    pub fn pulse(&self) -> Pulse {
        self.engine.pulse.clone()
    }

    /// How much has been done at most before the loop listened again.
    pub fn busiest_turn(&self) -> BusiestTurn {
        self.engine.portions.busiest.clone()
    }

    /// Runs until told to end. Writes that are under way are finished first, if that does not take too long.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        self.engine.run(shutdown).await;
    }
}

/// All that the loop knows.
pub(crate) struct Engine {
    client: Client,
    pub(crate) registry: Registry,
    pub(crate) executor: Executor,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) cache: ClusterCache,
    pub(crate) planning: Planning,
    pub(crate) queue: Queue,
    pub(crate) recorder: Recorder,
    pub(crate) journal: Journal,
    pub(crate) nominations: Nominations,
    pub(crate) evictions: Evictions,
    pub(crate) batch: Batch,
    /// Keys with a step under way; true if they are to be reconciled again when it is done.
    pub(crate) busy: BTreeMap<Key, bool>,
    /// Keys that failed: not before then, and how often.
    pub(crate) pauses: BTreeMap<Key, (Monotonic, u32)>,
    /// Keys whose steps have panicked: not before then, whatever happens.
    pub(crate) held: BTreeMap<Key, Monotonic>,
    /// Pods that the scheduler found no place for.
    pub(crate) provisionable: BTreeSet<String>,
    /// Of those, the ones that no machine helps, and why.
    pub(crate) refused: BTreeMap<String, Arc<[Reason]>>,
    /// Kinds that cannot be observed.
    pub(crate) watches: WatchHealth,
    /// Counts what was taken in: the generation of what decisions are made from.
    generation: u64,
    /// Counts what was observed.
    pub(crate) heard: u64,
    /// What was observed when a decision was last asked for.
    pub(crate) asked: u64,
    /// What decisions of this turn change in what all machines cost.
    decided_usd_per_hour: f64,
    /// When decisions were last written to the API, and all up to which change.
    pub(crate) record_written: (Option<Monotonic>, u64),
    /// When pods last came to or left the node of a claim.
    pub(crate) pod_events: BTreeMap<String, Monotonic>,
    /// Since when a claim's node has been empty and free to go.
    pub(crate) empty_since: BTreeMap<String, Monotonic>,
    /// Claims whose nodes are just being taken out.
    pub(crate) leaving: BTreeSet<String>,
    /// Machines that are no more, by what their claims know them by.
    pub(crate) gone: BTreeSet<String>,
    /// Since when machines of groups have been empty and free to go, by provider id.
    pub(crate) unneeded_since: BTreeMap<String, Monotonic>,
    /// What is remembered of the lives of claims and their machines.
    pub(crate) lives: Lives,
    /// What could not be had of late.
    pub(crate) health: Health,
    /// What claims on their way may be launched as, as it was planned; a claim that is not in it is ranked anew.
    pub(crate) planned_offerings: BTreeMap<String, Arc<[RankedOffering]>>,
    pub(crate) last_plan: Option<LastPlan>,
    pub(crate) roster: Roster,
    /// The times that claims and pods of draining nodes carry.
    pub(crate) times: ObservedTimes,
    /// When keys that read many objects were last reconciled.
    reconciled: BTreeMap<Key, Monotonic>,
    pub(crate) to_launch: Vec<Arc<NodeClaim>>,
    pub(crate) portions: Portions,
    /// Machines that their providers could not be told of, by the provider's name.
    pub(crate) to_adopt: BTreeMap<String, Vec<Unregistered>>,
    pub(crate) reports: mpsc::Sender<Report>,
    inbox: Option<mpsc::Receiver<Report>>,
    inspector: Inspector,
    questions: Option<mpsc::Receiver<Asked>>,
    pub(crate) pulse: Pulse,
    pub(crate) tasks: JoinSet<()>,
    publisher: signal::Sender<Summary>,
    pub(crate) started: bool,
    /// The epoch in which this process acts now; none that may write while it only observes.
    pub(crate) epoch: Epoch,
    /// Without leading: everything has been looked at once.
    pub(crate) looked_around: bool,
    pub(crate) measured: Measured,
    pub(crate) breakers: Breakers,
}

/// Pods that wait for the next decision.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) opened: Option<Monotonic>,
    pub(crate) last: Option<Monotonic>,
    pub(crate) uids: BTreeSet<String>,
    /// When pods were last decided on.
    pub(crate) decided: BTreeMap<String, Monotonic>,
    /// Of those, the ones that found no place.
    pub(crate) refused: BTreeSet<String>,
    /// Pods whose machine could not be had are planned for again by then: they have waited for a batch before.
    pub(crate) again: Option<Monotonic>,
    /// Since when the scheduler has been binding pods while others wait, and when it last did.
    binding: Option<(Monotonic, Monotonic)>,
    /// It has bound all it can, and nobody has looked yet whom it left over.
    settled: bool,
    /// Pods that are no longer expected where they were to go: others are there.
    pub(crate) displaced: BTreeSet<String>,
}

impl Batch {
    /// When the batch closes, if one is open.
    pub(crate) fn due(&self, settings: &Settings) -> Option<Monotonic> {
        let closes = (self.last? + settings.batch_idle).min(self.opened? + settings.batch_max);
        Some(self.again.map_or(closes, |again| again.min(closes)))
    }

    /// By when the scheduler has probably bound all it can, if it is binding.
    fn settles(&self, settings: &Settings) -> Option<Monotonic> {
        let (first, last) = self.binding?;
        Some((last + settings.batch_idle).min(first + settings.batch_max))
    }

    /// Takes note of pods that have no room in their places. While the scheduler is binding that may pass; those it leaves over are due
    /// for a decision, and stay so until they have a place.
    pub(crate) fn displace(&mut self, without_room: BTreeSet<String>) {
        if std::mem::take(&mut self.settled) {
            self.decided.retain(|uid, _| !without_room.contains(uid));
            self.displaced = without_room;
        } else {
            self.displaced.retain(|uid| without_room.contains(uid));
        }
    }
}

impl Engine {
    fn new(
        fence: Fence,
        client: Client,
        registry: Registry,
        clock: Arc<dyn Clock>,
        settings: Settings,
        publisher: signal::Sender<Summary>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (reports, inbox) = mpsc::channel(ROOM);
        let (inspector, questions) = Inspector::new();
        let executor =
            Executor::new(client.clone(), registry.clone(), clock.clone(), metrics.clone(), &settings, fence);
        let mut cache = ClusterCache::default();
        if !watch::follows_pools(&registry) {
            for kind in [Kind::Claim, Kind::Pool, Kind::Overlay] {
                cache.set_absent(&Watched::Objects(kind));
            }
        }
        registry.node_groups().iter().for_each(|groups| cache.node_groups.outdated(groups.name()));
        cache.classes = registry.kinds().map(|(kind, _)| (kind.group_kind(), Store::default())).collect();
        Self {
            executor,
            metrics,
            client,
            registry,
            journal: Journal::new(settings.journal, settings.journal_bytes, clock.now(), settings.dry_run),
            clock,
            planning: Planning::new(&settings),
            health: Health::new(settings.offering_pause),
            planned_offerings: BTreeMap::new(),
            settings,
            cache,
            queue: Queue::default(),
            recorder: Recorder::default(),
            nominations: Nominations::default(),
            evictions: Evictions::default(),
            batch: Batch::default(),
            busy: BTreeMap::new(),
            pauses: BTreeMap::new(),
            held: BTreeMap::new(),
            provisionable: BTreeSet::new(),
            refused: BTreeMap::new(),
            watches: WatchHealth::default(),
            generation: 0,
            heard: 0,
            asked: 0,
            decided_usd_per_hour: 0.0,
            record_written: (None, 0),
            pod_events: BTreeMap::new(),
            empty_since: BTreeMap::new(),
            leaving: BTreeSet::new(),
            gone: BTreeSet::new(),
            unneeded_since: BTreeMap::new(),
            lives: Lives::default(),
            last_plan: None,
            roster: Roster::default(),
            times: ObservedTimes::default(),
            reconciled: BTreeMap::new(),
            to_launch: Vec::new(),
            portions: Portions::default(),
            to_adopt: BTreeMap::new(),
            reports,
            inbox: Some(inbox),
            inspector,
            questions: Some(questions),
            pulse: Pulse::default(),
            tasks: JoinSet::new(),
            publisher,
            started: false,
            epoch: Epoch::default(),
            looked_around: false,
            measured: Measured::default(),
            breakers: Breakers::default(),
        }
    }

    async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut watches = JoinSet::new();
        let mut events = watch::start(&self.client, &self.registry, &mut watches);
        let (Some(mut inbox), Some(mut questions)) = (self.inbox.take(), self.questions.take()) else {
            return;
        };
        interruptions::listen(&self.registry, self.executor.fence(), &self.reports, &mut watches);
        let mut moves = self.executor.fence().moves();
        let mut shutdown = std::pin::pin!(shutdown);
        let mut woke = Instant::now();
        loop {
            let now = self.clock.monotonic();
            let due = self.queue.next_due().filter(|_| self.acts());
            let pause = match self.portions.is_empty() {
                true => due.map_or(LONGEST_SLEEP, |due| due.since(now).min(LONGEST_SLEEP)),
                false => Duration::ZERO,
            };
            self.portions.rest();
            self.metrics.set_queue_depth(self.queue.len());
            self.metrics.stalled(woke.elapsed());
            self.pulse.rests();
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Ok(()) = moves.changed() => woke = self.wakes(),
                Some(answer) = questions.recv() => {
                    woke = self.wakes();
                    // Who asked may have gone away.
                    let _ = answer.send(self.view());
                }
                Some(report) = inbox.recv() => {
                    woke = self.wakes();
                    self.take_report(report);
                }
                event = events.recv() => {
                    woke = self.wakes();
                    let Some(event) = event else { break };
                    self.take_event(event);
                    for _ in 1..PORTION {
                        let Ok(event) = events.try_recv() else { break };
                        self.take_event(event);
                    }
                }
                () = self.rest(pause) => woke = self.wakes(),
            }
            while self.tasks.try_join_next().is_some() {}
            self.go_on(self.now());
            self.started |= self.cache.is_filled();
            self.follow_fence();
            if self.acts() {
                self.turn();
            }
            self.write_record();
            self.publish(self.now());
        }
        watches.abort_all();
        self.finish(inbox).await;
    }

    fn wakes(&self) -> Instant {
        self.pulse.works();
        Instant::now()
    }

    /// Lets others get on, and time pass.
    async fn rest(&self, time: Duration) {
        match time.is_zero() {
            true => tokio::task::yield_now().await,
            false => self.clock.sleep(time).await,
        }
    }

    /// What is known changes.
    pub(crate) fn take_in(&mut self) {
        self.generation += 1;
        self.portions.count();
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn present(&self) -> Present {
        Present::of(&*self.clock)
    }

    /// Reconciles what is due, a portion of it at a time.
    fn turn(&mut self) {
        let Present { wall: now, monotonic } = self.present();
        self.roster.refresh(&self.cache, &self.registry);
        self.decided_usd_per_hour = 0.0;
        for _ in 0..PORTION {
            let Some(key) = self.queue.pop(monotonic) else { break };
            self.portions.count();
            if let Some(again) = self.busy.get_mut(&key) {
                *again = true;
                continue;
            }
            if let Some(due) = self.not_before(&key, monotonic) {
                self.queue.add(key, due);
                continue;
            }
            self.reconcile_safely(&key, now);
        }
        // Machines are asked for together, even if their claims are due in several portions.
        let more = self.queue.next_due().is_some_and(|due| due <= monotonic);
        if !more || self.to_launch.len() >= LAUNCHES {
            self.launch();
        }
    }

    /// When a key may be reconciled, if not now. Reading all machines costs as much as there are machines, and in busy times each change
    /// of one asks for it: so many changes share one.
    fn not_before(&mut self, key: &Key, now: Monotonic) -> Option<Monotonic> {
        if let Some(due) = self.held.get(key).filter(|due| **due > now) {
            return Some(*due);
        }
        if !matches!(key, Key::Pool(_) | Key::Disruption) {
            return None;
        }
        let due = self.reconciled.get(key).map(|last| *last + self.settings.reconcile_interval);
        if due.is_some_and(|due| due > now) {
            return due;
        }
        self.reconciled.insert(key.clone(), now);
        None
    }

    /// Carries a step out.
    pub(crate) fn carry_out(&mut self, key: Key, step: Step, now: Timestamp) {
        if !self.leads() && key != Key::Record {
            // Whoever leads finds the same and acts on it.
            let usd_per_hour = self.roster.totals().dollars_per_hour;
            return self.imagine(key, step, Moment { now, snapshot: self.generation, usd_per_hour });
        }
        self.portions.add_notes(step.notes, now);
        let commands: Vec<&Command> = step.each.iter().chain(&step.commands).collect();
        for decided in step.decisions {
            let before = self.roster.totals().dollars_per_hour + self.decided_usd_per_hour;
            self.decided_usd_per_hour += decided.change_usd_per_hour.unwrap_or(0.0);
            let moment = Moment { now, snapshot: self.generation, usd_per_hour: before };
            self.measure_decision(&decided);
            self.journal.record(decided, &key, &commands, moment);
        }
        if let Some(again) = step.requeue_at {
            // What was found is by the wall clock of that moment; how far away it is counts.
            let wait = Duration::try_from(again.duration_since(now)).unwrap_or_default();
            let due = self.clock.monotonic() + wait;
            self.queue.add(key.clone(), due);
        }
        if step.commands.is_empty() && step.each.is_empty() {
            return;
        }
        self.spawn(key, step.each, step.commands);
    }

    /// Whether a claim is of a node class that is served here.
    pub(crate) fn is_ours(&self, claim: &NodeClaim) -> bool {
        self.registry.serves(&claim.spec.node_class_ref)
    }

    fn take_event(&mut self, event: WatchEvent) {
        self.take_in();
        self.heard += 1;
        match event {
            WatchEvent::Pod(event) => {
                let (changes, whole) = self.cache.observe_pod(event);
                changes.iter().for_each(|change| self.pod_changed(change, whole.as_deref()));
            }
            WatchEvent::Node(event) => {
                self.cache.nodes.observe(event).into_iter().for_each(|of| self.node_changed(&of));
            }
            WatchEvent::Claim(event) => {
                self.cache.claims.observe(event).into_iter().for_each(|of| self.claim_changed(&of));
            }
            WatchEvent::Pool(event) => {
                for change in self.cache.pools.observe(event) {
                    self.tell_transitions_of_pool(&change);
                    self.measure_pool(&change);
                    self.pool_changed(&change.key);
                    if change.new.is_none() {
                        self.reconciled.remove(&Key::Pool(change.key));
                    }
                }
            }
            WatchEvent::Class(kind, event) => {
                self.cache.classes.entry(kind).or_default().observe(event);
                self.classes_changed();
            }
            // A decision reads the newest types, so it only has to be made; what was refused may be possible now.
            WatchEvent::Types(_) => {
                self.batch.decided.clear();
                self.classes_changed();
            }
            WatchEvent::Overlay(_) if !self.settings.node_overlays => self.cache.overlays.set_absent(),
            WatchEvent::Overlay(event) => self.planning.overlays(&self.cache.overlays.observe(event)),
            WatchEvent::DaemonSet(event) => self.planning.daemon_sets(&self.cache.daemon_sets.observe(event)),
            WatchEvent::Budget(event) => drop(self.cache.budgets.observe(event)),
            WatchEvent::Namespace(event) => self.planning.namespaces(&self.cache.namespaces.observe(event)),
            WatchEvent::Volume(event) => self.planning.volumes(&self.cache.volumes.observe(event)),
            WatchEvent::VolumeClaim(event) => {
                self.planning.volume_claims(&self.cache.volume_claims.observe(event))
            }
            WatchEvent::StorageClass(event) => {
                self.planning.storage_classes(&self.cache.storage_classes.observe(event))
            }
            WatchEvent::PriorityClass(event) => {
                self.planning.priority_classes(&self.cache.priority_classes.observe(event))
            }
            WatchEvent::CsiNode(event) => self.planning.csi_nodes(&self.cache.csi_nodes.observe(event)),
            WatchEvent::Attachment(event) => self.cache.observe_attachment(event),
            WatchEvent::WatchFailed(failure) => self.watch_failed(failure),
            WatchEvent::WatchRecovered(watched) => self.watch_recovered(&watched),
        }
    }

    pub(crate) fn classes_changed(&mut self) {
        let pools: Vec<String> = self.cache.pools.iter().map(|(name, _)| name.clone()).collect();
        pools.iter().for_each(|pool| self.pool_changed(pool));
    }

    pub(crate) fn enqueue(&mut self, key: Key) {
        let now = self.clock.monotonic();
        self.queue.add(key, now);
    }

    /// `whole` is the pod itself, if it has come or changed.
    fn pod_changed(&mut self, change: &Change<CachedPod>, whole: Option<&Pod>) {
        self.cache.index_pod(change);
        self.planning.pod(change, whole);
        self.measure_pod(change);
        let key = &change.key;
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let nodes: BTreeSet<&str> = [old, new].into_iter().flatten().filter_map(pods::node_name).collect();
        for node in nodes {
            self.pod_on_node_changed(node, change.listed, old, new);
        }
        if new.is_some_and(pods::is_provisionable) {
            self.provisionable.insert(key.clone());
            self.pod_waits(new.map(|pod| pod.uid.to_string()).unwrap_or_default());
        } else if self.provisionable.remove(key) {
            self.refused.remove(key);
            if let Some(pod) = old {
                self.batch.decided.remove(&*pod.uid);
            }
        }
        if let Some(pod) = new.filter(|pod| pods::node_name(pod).is_some())
            && old.is_some_and(|old| pods::node_name(old).is_none())
        {
            self.helped(pod, self.now());
        }
        let is_bound = |pod: &CachedPod| pods::node_name(pod).is_some();
        if new.is_some_and(is_bound) && !old.is_some_and(is_bound) && !change.listed {
            self.pod_placed();
        }
        if new.is_none()
            && let Some(pod) = old
        {
            self.evictions.done(&pod.uid);
            self.times.forget(&pod.uid);
        }
    }

    /// A pod asks for a decision, unless there was one a short while ago.
    fn pod_waits(&mut self, uid: String) {
        let now = self.clock.monotonic();
        let decided = self.batch.decided.get(&uid);
        let recently = decided.is_some_and(|time| now.since(*time) < self.settings.retry_interval);
        if recently || !self.batch.uids.insert(uid) {
            return;
        }
        self.batch.opened.get_or_insert(now);
        self.batch.last = Some(now);
        if let Some(due) = self.batch.due(&self.settings) {
            self.queue.add(Key::Provision, due);
        }
    }

    /// A pod has a node now, perhaps the place of another.
    fn pod_placed(&mut self) {
        // Pods that were refused have no place to lose.
        if self.provisionable.len() <= self.refused.len() {
            return;
        }
        let now = self.clock.monotonic();
        self.batch.binding.get_or_insert((now, now)).1 = now;
        if let Some(due) = self.batch.settles(&self.settings) {
            self.queue.add(Key::Displaced, due);
        }
    }

    /// Once the scheduler has bound all it can, those whose places others have taken are decided on again.
    pub(crate) fn look_for_displaced(&mut self) {
        let Some(due) = self.batch.settles(&self.settings) else { return };
        if due > self.clock.monotonic() {
            return self.queue.add(Key::Displaced, due);
        }
        self.batch.binding = None;
        self.batch.settled = true;
        self.enqueue(Key::Provision);
    }

    /// Pods of a claim that came to nothing are planned for again, whatever batch is open. Launches of one decision fail close together, and
    /// one decision is enough for all of them.
    fn plan_again_soon(&mut self) {
        let due = self.clock.monotonic() + REPLAN_PAUSE;
        let due = *self.batch.again.get_or_insert(due);
        self.queue.add(Key::Provision, due);
    }

    fn pod_on_node_changed(
        &mut self,
        name: &str,
        listed: bool,
        old: Option<&CachedPod>,
        new: Option<&CachedPod>,
    ) {
        let Some(node) = self.cache.nodes.get(name).cloned() else { return };
        for claim in self.cache.claims_of(&node) {
            self.roster.touch(claim.name_any());
        }
        if node.metadata.deletion_timestamp.is_some() {
            self.enqueue(Key::Node(name.to_owned()));
        }
        self.touch_member(&node);
        let Some(claim) = self.cache.claim_of(&node).map(|claim| claim.name_any()) else { return };
        let now = self.clock.monotonic();
        let became = |is: fn(&CachedPod) -> bool| new.is_some_and(is) && !old.is_some_and(is);
        let of_daemon = new.or(old).is_some_and(pods::is_daemon);
        let moved = became(|pod| pods::node_name(pod).is_some())
            || became(pods::is_terminal)
            || became(pods::is_terminating);
        // The first list tells what is, not what happened: it starts no timer anew.
        if moved && !of_daemon && !(listed && old.is_none()) {
            self.pod_events.insert(claim.clone(), now);
            self.enqueue(Key::Claim(claim));
        }
        self.enqueue(Key::Disruption);
    }

    pub(crate) fn node_changed(&mut self, change: &Change<Node>) {
        self.cache.index_node(change);
        self.node_of_group_changed(change);
        self.planning.node(change);
        self.tell_transitions_of_node(change);
        self.measure_node(change);
        self.enqueue(Key::Node(change.key.clone()));
        self.enqueue(Key::Disruption);
        let nodes = [change.old.as_deref(), change.new.as_deref()];
        // What a pool says of its machines follows from these fields only.
        let size = |node: &Node| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
            let pool = node.labels().get(NODEPOOL_LABEL).cloned();
            (id, pool, emptiness::is_initialised(node), nodepools::capacity(node).cloned())
        };
        let resized = change.old.as_deref().map(size) != change.new.as_deref().map(size);
        let mut claims = BTreeSet::new();
        for node in nodes.into_iter().flatten() {
            claims.extend(self.cache.claims_of(node).into_iter().map(|claim| claim.name_any()));
            if let (true, Some(pool)) = (resized, node.labels().get(NODEPOOL_LABEL)) {
                self.queue.add(Key::Pool(pool.clone()), self.clock.monotonic());
            }
        }
        for claim in claims {
            self.roster.touch(claim.clone());
            self.enqueue(Key::Claim(claim));
        }
        let going = |node: &Node| node.metadata.deletion_timestamp.is_some();
        if change.new.is_none()
            || change.new.as_deref().is_some_and(going) != change.old.as_deref().is_some_and(going)
        {
            self.enqueue(Key::Provision);
        }
    }

    pub(crate) fn claim_changed(&mut self, change: &Change<NodeClaim>) {
        self.measure_claim(change);
        self.cache.index_claim(change);
        self.planning.claim(change);
        self.follow_life(change);
        self.roster.touch(change.key.clone());
        self.enqueue(Key::Claim(change.key.clone()));
        self.enqueue(Key::Disruption);
        let claims = [change.old.as_deref(), change.new.as_deref()];
        // What a pool says of its machines follows from these fields only.
        let size = |claim: &NodeClaim| {
            let status = claim.status.as_ref();
            let capacity = status.and_then(|status| status.capacity.clone());
            let pool = claim.labels().get(NODEPOOL_LABEL).cloned();
            let going = claim.metadata.deletion_timestamp.is_some();
            (pool, going, status.and_then(|status| status.provider_id.clone()), capacity)
        };
        let resized = change.old.as_deref().map(size) != change.new.as_deref().map(size);
        for claim in claims.into_iter().flatten().filter(|_| resized) {
            if let Some(pool) = claim.labels().get(NODEPOOL_LABEL) {
                self.queue.add(Key::Pool(pool.clone()), self.clock.monotonic());
            }
        }
        let nodes: Vec<String> = claims
            .into_iter()
            .flatten()
            .flat_map(|claim| self.cache.nodes_of(claim))
            .map(|node| node.name_any())
            .collect();
        nodes.into_iter().for_each(|node| self.enqueue(Key::Node(node)));
        let going = |claim: &NodeClaim| claim.metadata.deletion_timestamp.is_some();
        let goes = change.new.as_deref().is_none_or(going) && !change.old.as_deref().is_some_and(going);
        if goes {
            // Pods that were to go there need another place.
            let planned =
                change.old.iter().chain(&change.new).flat_map(|claim| crate::claims::planned_pods(claim));
            for uid in planned.map(str::to_owned).collect::<BTreeSet<_>>() {
                self.batch.decided.remove(&uid);
            }
            let launched =
                change.old.as_deref().is_some_and(|of| lifecycle::is_true(of, conditions::LAUNCHED));
            if launched {
                self.enqueue(Key::Provision);
            } else {
                self.plan_again_soon();
            }
        }
        if change.new.is_none() {
            for map in [&mut self.pod_events, &mut self.empty_since] {
                map.remove(&change.key);
            }
            self.leaving.remove(&change.key);
            self.planned_offerings.remove(&change.key);
            if let Some(uid) = change.old.as_ref().and_then(|claim| claim.metadata.uid.as_ref()) {
                self.times.forget(uid);
            }
            self.pauses.remove(&Key::Claim(change.key.clone()));
        }
    }

    pub(crate) fn pool_changed(&mut self, pool: &str) {
        self.enqueue(Key::Pool(pool.to_owned()));
        self.enqueue(Key::Disruption);
        self.enqueue(Key::Provision);
        let claims: Vec<String> = self.cache.claims_in_pool(pool).map(|claim| claim.name_any()).collect();
        claims.into_iter().for_each(|claim| self.enqueue(Key::Claim(claim)));
    }

    /// Where pods wait to go, of the first that were given a place.
    fn awaited(&self) -> BTreeMap<String, Awaited> {
        // Thousands of refused pods are not to be gone through each turn to find nobody.
        if self.provisionable.len() == self.refused.len() {
            return BTreeMap::new();
        }
        let given = self.provisionable.iter().filter(|pod| !self.refused.contains_key(*pod));
        let pods =
            given.take(REFUSALS).filter_map(|key| Some((self.cache.pods.get(key)?.uid.to_string(), key)));
        let pods: BTreeMap<String, &String> = pods.collect();
        if pods.is_empty() {
            return BTreeMap::new();
        }
        let of = |(uid, key): (&String, &&String)| Some((uid.clone(), self.cache.pods.get(key)?.clone()));
        let in_need = pods.iter().filter_map(of).collect();
        let (present, settings) = (self.present(), &self.settings);
        let places = self.nominations.expected(&self.cache, &in_need, &self.times, present, settings);
        let awaited = places.into_iter().filter_map(|(uid, place)| {
            let node = self.cache.nodes.get(&place);
            let claim = self.cache.claims.get(&place).or_else(|| self.cache.claim_of(node?));
            let lacks = claim.and_then(|claim| lifecycle::lacks(claim));
            Some(((*pods.get(&uid)?).clone(), Awaited { place, lacks }))
        });
        awaited.collect()
    }

    /// How long empty machines may still be there.
    fn empty_go_within(&self) -> Duration {
        let waits = self.roster.pools_with_empty().filter_map(|pool| {
            let after = self.cache.pools.get(pool)?.spec.disruption.consolidate_after.as_deref();
            let after = NillableDuration::parse(after.unwrap_or("0s")).ok()?.duration()?;
            let after = Duration::from_nanos(after.nanos().max(0).unsigned_abs());
            // A few looks at them, and the wait between finding them empty and believing it.
            Some(after + self.settings.validation_wait + 2 * self.settings.retry_interval)
        });
        waits.max().unwrap_or_default()
    }

    /// Whether anything is about to be done, as far as is known now.
    fn is_under_way(&self, Totals { starting, leaving, .. }: Totals) -> bool {
        let undecided = self.provisionable.len() > self.refused.len();
        // What was refused is tried again once after everything that has happened since.
        let untried = !self.refused.is_empty() && self.asked != self.heard;
        let begins = !self.started || self.batch.opened.is_some() || !self.to_launch.is_empty();
        begins || undecided || untried || starting > 0 || leaving > 0 || !self.busy.is_empty()
    }

    fn publish(&mut self, now: Timestamp) {
        self.roster.refresh(&self.cache, &self.registry);
        let totals = self.roster.totals();
        let (joined, upcoming, cost) = self.cache.node_groups.totals();
        let Totals { nodes, starting, leaving, dollars_per_hour } = Totals {
            nodes: totals.nodes + joined,
            starting: totals.starting + upcoming,
            dollars_per_hour: totals.dollars_per_hour + cost,
            ..totals
        };
        let (awaited, under_way, empty_go_within) =
            (self.awaited(), self.is_under_way(totals), self.empty_go_within());
        let leads = self.leads();
        let journal = self.journal.ring();
        let refusals = self.refused.iter().take(REFUSALS);
        let refusals = refusals.map(|(pod, why)| (pod.clone(), why.clone())).collect();
        self.publisher.send_if_modified(|have| {
            // Every change of the journal is counted: it need not be compared.
            let mut told = std::mem::take(&mut have.journal);
            if journal.changes() != have.journal_changes {
                told = journal.tail(JOURNAL_TAIL);
            }
            let summary = Summary {
                time: have.time,
                ready: self.started && !self.watches.blocks(),
                leads,
                nodes,
                starting,
                leaving,
                pending_pods: self.provisionable.len(),
                refused_pods: self.refused.len(),
                refusals,
                awaited,
                under_way,
                empty_go_within,
                dollars_per_hour,
                last_plan: self.last_plan,
                watch_troubles: self.watches.troubles().cloned().collect(),
                journal: Vec::new(),
                decisions: journal.total(),
                journal_changes: journal.changes(),
            };
            let same = *have == summary;
            let time = if same { have.time } else { Some(now) };
            *have = Summary { time, journal: told, ..summary };
            !same
        });
    }
}
