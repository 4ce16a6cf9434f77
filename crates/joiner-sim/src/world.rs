//! The loop that makes a cluster of it all.
//!
//! A [`World`] holds the API server, the clock, the cache and the participants. It takes one key at a time from an ordered queue, asks its
//! controller what to do, sends the writes to the server in order, and takes in every event that follows before it turns to the next key.
//! Nothing else decides an order, so equal input and an equal seed give equal results, byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::service::{ApiServer, Settings as ServerSettings};

use crate::cache::Cache;
use crate::clock::Clock;
use crate::connection::Connection;
use crate::controller::{Controller, Participant};
use crate::event::{Change, Event};
use crate::object::{Key, Kind};
use crate::queue::{Owner, Queue};
use crate::recorder::Recorder;
use crate::settings::Settings;
use crate::write::Write;

/// The name under which the loop writes entries.
const RECORDER: &str = "event-recorder";

/// After so many pieces of work the loop lets others run: requests from outside must not wait for the end of a long day.
const WORK_WITHOUT_PAUSE: usize = 64;

/// More events than this at a time come when a large cluster is loaded.
const AT_ONCE: usize = 10_000;

/// The first wait after a refusal, and the longest.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_millis(5);
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_secs(1000);

/// A simulated cluster.
pub struct World {
    connection: Connection,
    clock: Clock,
    cache: Cache,
    queue: Queue,
    controllers: Vec<Box<dyn Controller>>,
    participants: Vec<Seat>,
    recorder: Option<Recorder>,
    failures: BTreeMap<(Owner, Key), u32>,
    /// The moment of the latest work: time does not go back.
    moment: Timestamp,
    trace: Option<Vec<String>>,
    refusals: u64,
}

/// A participant, and whether it has said that it has nothing to do at this moment.
struct Seat {
    participant: Box<dyn Participant>,
    resting: bool,
}

/// What is due next, and when.
enum Due {
    Key,
    Participant(usize),
    Recorder,
}

impl World {
    /// A cluster with nothing in it but what every cluster has. Call this inside the runtime that will run it.
    pub fn new(settings: Settings) -> Self {
        let clock = Clock::new(settings.start, settings.speed);
        let server = ApiServer::new(
            Arc::new(clock.clone()),
            &ServerSettings { seed: settings.seed, usage: true, leases: true, ..ServerSettings::default() },
        );
        Self::around(server, clock, settings)
    }

    /// A cluster around a server that is there already; it must tell the time of `clock`.
    pub fn around(server: ApiServer, clock: Clock, settings: Settings) -> Self {
        let controllers = crate::controllers(&settings);
        Self {
            moment: clock.now(),
            connection: Connection::new(server),
            clock,
            cache: Cache::default(),
            queue: Queue::default(),
            controllers,
            participants: Vec::new(),
            recorder: settings.record_events.then(Recorder::default),
            failures: BTreeMap::new(),
            trace: None,
            refusals: 0,
        }
    }

    /// Adds a participant with a view of its own, such as the scheduler.
    pub fn join(&mut self, participant: Box<dyn Participant>) {
        self.participants.push(Seat { participant, resting: false });
    }

    /// The API server, for clients and listeners.
    pub fn server(&self) -> &ApiServer {
        self.connection.server()
    }

    /// The clock that everything in this cluster goes by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What the controllers see.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// How many writes the server has refused so far.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }

    /// Begins to keep a line for every event, for comparisons between runs.
    pub fn keep_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// The lines kept so far.
    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// Lives on until the future is dropped.
    pub async fn run(&mut self) {
        self.live(None).await;
    }

    /// Lives until nothing is left to do before or at `until`, and stops the clock there until the next call.
    pub async fn run_until(&mut self, until: Timestamp) {
        self.clock.hold(None);
        self.live(Some(until)).await;
    }

    /// As [`World::run_until`], for so long from now.
    pub async fn run_for(&mut self, time: SignedDuration) {
        let until = self.clock.now().saturating_add(time).unwrap_or(Timestamp::MAX);
        self.run_until(until).await;
    }

    async fn live(&mut self, until: Option<Timestamp>) {
        let mut worked = 0;
        // What came from outside since the last call came at the moment at which that call ended.
        self.clock.hold(Some(self.moment.max(self.resume_at(until))));
        self.take_in().await;
        self.clock.hold(None);
        loop {
            let next = self.next().filter(|(time, _)| until.is_none_or(|until| *time <= until));
            match next {
                Some((time, due)) if time <= self.clock.running() => {
                    self.work(time, due).await;
                    worked += 1;
                    if worked % WORK_WITHOUT_PAUSE == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                next => {
                    let time = next.map(|(time, _)| time).or(until);
                    let told = self.wait(time).await;
                    if told {
                        self.take_in().await;
                    } else if let Some(until) = until
                        && time == Some(until)
                        && self.next().is_none_or(|(time, _)| time > until)
                    {
                        self.moment = self.moment.max(until);
                        self.clock.hold(Some(self.moment));
                        return;
                    }
                }
            }
        }
    }

    /// The moment at which outside changes of a pause between two calls are taken to have happened.
    fn resume_at(&self, until: Option<Timestamp>) -> Timestamp {
        match until {
            Some(_) => self.moment,
            None => self.clock.running(),
        }
    }

    /// Waits for an event from outside or for a moment; says whether there is an event.
    async fn wait(&mut self, time: Option<Timestamp>) -> bool {
        let Self { connection, clock, .. } = self;
        tokio::select! {
            biased;
            () = connection.changed() => true,
            () = async {
                match time {
                    Some(time) => clock.sleep_until(time).await,
                    None => std::future::pending().await,
                }
            } => false,
        }
    }

    /// What is due next. At the same moment controllers come before participants, and the recorder last.
    fn next(&self) -> Option<(Timestamp, Due)> {
        let mut next = self.queue.next_at().map(|time| (time.max(self.moment), Due::Key));
        let mut offer = |time: Timestamp, due: Due| {
            let time = time.max(self.moment);
            if next.as_ref().is_none_or(|(earlier, _)| time < *earlier) {
                next = Some((time, due));
            }
        };
        for (index, seat) in self.participants.iter().enumerate() {
            if let Some(time) = seat.participant.wakes_at()
                && !(seat.resting && time <= self.moment)
            {
                offer(time, Due::Participant(index));
            }
        }
        if let Some(time) = self.recorder.as_ref().and_then(Recorder::wakes_at) {
            offer(time, Due::Recorder);
        }
        next
    }

    /// One piece of work, at its moment.
    async fn work(&mut self, time: Timestamp, due: Due) {
        if time > self.moment {
            self.moment = time;
            for seat in &mut self.participants {
                seat.resting = false;
            }
        }
        self.clock.hold(Some(time));
        let wrote = match due {
            Due::Key => self.reconcile(time).await,
            Due::Participant(index) => self.step(index, time).await,
            Due::Recorder => {
                let writes = self.recorder.as_mut().map(|recorder| recorder.forget(time)).unwrap_or_default();
                for write in writes {
                    self.send(RECORDER, &write, time).await.ok();
                }
                false
            }
        };
        if wrote {
            self.take_in().await;
        }
        self.clock.hold(None);
    }

    async fn reconcile(&mut self, now: Timestamp) -> bool {
        let Some((_, owner, key)) = self.queue.pop() else { return false };
        let controller = &mut self.controllers[owner];
        let name = controller.name();
        let outcome = controller.reconcile(&key, &self.cache, now);
        self.cache.touched(&key);
        if let Some(time) = outcome.again_at {
            self.queue.add(owner, key.clone(), time.max(now));
        }
        for write in &outcome.writes {
            if let Err(refusal) = self.send(name, write, now).await {
                self.controllers[owner].refused(&key, write, &refusal);
                let failures = self.failures.entry((owner, key.clone())).or_default();
                *failures = failures.saturating_add(1);
                let wait = FIRST_BACKOFF.saturating_mul(1_i32.checked_shl(*failures - 1).unwrap_or(i32::MAX));
                let wait = if wait.is_negative() { LONGEST_BACKOFF } else { wait.min(LONGEST_BACKOFF) };
                self.queue.add(owner, key, now.saturating_add(wait).unwrap_or(Timestamp::MAX));
                return true;
            }
        }
        if !outcome.writes.is_empty() {
            self.failures.remove(&(owner, key));
        }
        !outcome.writes.is_empty()
    }

    async fn step(&mut self, index: usize, now: Timestamp) -> bool {
        let seat = &mut self.participants[index];
        let writes = seat.participant.step(now);
        if writes.is_empty() {
            seat.resting = true;
            return false;
        }
        let name = seat.participant.name();
        for write in &writes {
            if let Err(refusal) = self.send(name, write, now).await {
                self.participants[index].participant.refused(write, refusal.code, &refusal.message);
            }
        }
        true
    }

    /// Sends one write. That something to be deleted is gone already is as good as success.
    async fn send(
        &mut self,
        manager: &str,
        write: &Write,
        now: Timestamp,
    ) -> Result<(), crate::connection::Refusal> {
        let sent = match (write, &mut self.recorder) {
            (Write::Event(note), Some(recorder)) => {
                let kept = recorder.record(note, now);
                // Nobody repeats a decision because an entry could not be kept.
                self.connection.apply(manager, &kept).await.ok();
                return Ok(());
            }
            (Write::Event(_), None) => return Ok(()),
            _ => self.connection.apply(manager, write).await,
        };
        match sent {
            Err(refusal) if refusal.code == 404 && matches!(write, Write::Delete { .. }) => Ok(()),
            Err(refusal) => {
                self.refusals += 1;
                if let Some(trace) = &mut self.trace {
                    trace.push(format!(
                        "{now} {manager} refused {}: {} for {write:?}",
                        refusal.code, refusal.message
                    ));
                }
                Err(refusal)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Takes in all events there are, and queues the keys they touch.
    async fn take_in(&mut self) {
        let now = self.clock.now();
        let mut keys = Vec::new();
        self.connection.saved().await;
        let told = self.connection.drain();
        if !told.is_empty() {
            // What follows from an event comes after it, also where nobody had anything to do for hours.
            self.moment = self.moment.max(now);
        }
        let many = told.len() > AT_ONCE;
        for told in told {
            let Some(event) = self.cache.take(told.change, told.key, told.object, told.revision) else {
                continue;
            };
            if let Some(trace) = &mut self.trace {
                trace.push(trace_line(&event, now));
            }
            for (owner, controller) in self.controllers.iter_mut().enumerate() {
                controller.interested(&event, &self.cache, &mut keys);
                let time = now.saturating_add(controller.patience()).unwrap_or(Timestamp::MAX);
                for key in keys.drain(..) {
                    self.queue.add(owner, key, time);
                }
            }
            // Participants may keep events for a while: of very many, not in their parsed form.
            let event = if many { event.cold() } else { event };
            for seat in &mut self.participants {
                seat.participant.observe(&event);
                seat.resting = false;
            }
        }
    }
}

fn trace_line(event: &Event, now: Timestamp) -> String {
    let change = match event.change {
        Change::Added => "added",
        Change::Modified => "modified",
        Change::Deleted => "deleted",
    };
    let unwatched = event.key.kind == Kind::Event;
    debug_assert!(!unwatched, "entries are not watched");
    format!("{now} {change} {} {}", event.key, event.object)
}
