//! What the loop tells besides its steps: kinds that cannot be observed, and the last decisions as an object of the API.

use jiff::Timestamp;
use joiner_record::{Disabled, Subject, Verdict};

use crate::cache::Watched;
use crate::command::{Command, Failure, Step};
use crate::decision::Decided;
use crate::engine::Engine;
use crate::queue::Key;
use crate::record::Note;
use crate::record_map;
use crate::watch_health::{WatchFailure, Why, disabled};

impl Engine {
    pub(crate) fn watch_failed(&mut self, failure: WatchFailure) {
        let (present, watched) = (self.present(), failure.watched.clone());
        let denied = matches!(failure.why, Why::Forbidden | Why::NotServed);
        let told = self.watches.failed(failure, present).cloned();
        // What is needed is waited for, whatever else does without.
        if (denied || told.is_some()) && disabled(&watched) != Disabled::Decisions {
            self.cache.set_absent(&watched);
        }
        if let Some(trouble) = told {
            self.tell_of_all(Verdict::WatchTrouble(trouble), Vec::new(), self.now());
            if disabled(&watched) == Disabled::PoolsOfClass {
                self.classes_changed();
            }
        }
    }

    pub(crate) fn watch_recovered(&mut self, watched: &Watched) {
        let now = self.present().monotonic;
        let Some((resource, after)) = self.watches.recovered(watched, now) else { return };
        let verdict = Verdict::WatchRecovered { resource, after_seconds: after.as_secs() };
        self.tell_of_all(verdict, Vec::new(), self.now());
        // Whatever was refused may have been refused for want of it.
        self.batch.decided.clear();
        self.classes_changed();
        self.enqueue(Key::Disruption);
        self.enqueue(Key::Provision);
    }

    /// An event could not be written. A pod that waits is decided on once more, and told then: otherwise it would hear of its refusal only when something changes.
    pub(crate) fn event_lost(&mut self, command: &Command, failure: &Failure) {
        let name = match command {
            Command::CreateEvent(event) => event.metadata.name.as_deref().unwrap_or_default(),
            Command::PatchEvent { name, .. } => name,
            _ => return,
        };
        let uid = self.recorder.lost(name);
        // Events give way first when there is too much to do.
        if let Some(uid) = uid.filter(|_| !matches!(failure, Failure::Overloaded | Failure::Fenced)) {
            self.batch.refused.remove(&uid);
        }
    }

    /// Tells what is about no object of the API: as an event it is about the record of decisions.
    pub(crate) fn tell_of_all(&mut self, verdict: Verdict, subjects: Vec<Subject>, now: Timestamp) {
        let namespace = self.settings.record_namespace.as_deref().unwrap_or("default");
        let about = record_map::of(self.journal.ring(), namespace);
        let notes = Note::of(&about, &verdict, None).into_iter().collect();
        let decisions = vec![Decided::new(verdict, subjects)];
        self.carry_out(Key::Record, Step { notes, decisions, ..Step::default() }, now);
    }

    /// Writes the last decisions to the API if there is news, and it was not done a short while ago.
    pub(crate) fn write_record(&mut self) {
        let Some(namespace) = self.settings.record_namespace.as_ref().filter(|_| self.leads()) else {
            return;
        };
        let (written, changes) = self.record_written;
        let now = self.present().monotonic;
        let waits = written.is_some_and(|written| now < written + self.settings.record_interval);
        if waits || changes == self.journal.ring().changes() || self.busy.contains_key(&Key::Record) {
            return;
        }
        self.record_written = (Some(now), self.journal.ring().changes());
        let map = record_map::of(self.journal.ring(), namespace);
        self.spawn(Key::Record, Vec::new(), vec![Command::WriteRecord(Box::new(map))]);
    }
}
