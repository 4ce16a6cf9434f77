//! Keys that failed: how long they wait, and who is told.

use std::time::Duration;

use jiff::Timestamp;
use joiner_provider::Error;
use joiner_record::{Subject, Verb, Verdict};

use crate::command::{Failure, Step};
use crate::decision::{Decided, subject_of_key};
use crate::engine::Engine;
use crate::queue::Key;

/// First and longest pause of a key after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// What was not sent because somebody else leads is decided again so soon.
const AFTER_FENCED: Duration = Duration::from_secs(5);

impl Engine {
    /// A step of a key, or its commands, ended in a panic: the key is left alone for a while, the others go on.
    pub(crate) fn panicked(&mut self, key: &Key, message: &str) {
        tracing::error!(%key, message, "a step panicked");
        self.metrics.step_panicked();
        self.metrics.retry("panic");
        self.stay_after_all(key);
        let pause = self.pause(key);
        let due = self.present().monotonic + pause;
        self.held.insert(key.clone(), due);
        self.queue.add(key.clone(), due);
        let message = format!("the step panicked: {message}");
        self.tell_failure(key, Verb::Reconcile, subject_of_key(key), message, pause, self.now());
    }

    /// The node of a claim was to go, and something failed on the way. Nothing else would ask about it again.
    pub(crate) fn stay_after_all(&mut self, key: &Key) {
        if let Key::Claim(name) = key
            && self.leaving.remove(name)
        {
            self.requeue_after(&Key::Disruption, PAUSES.0);
        }
    }

    /// Tries again later, and says so.
    pub(crate) fn put_back(
        &mut self,
        key: &Key,
        verb: Verb,
        object: Subject,
        failure: &Failure,
        now: Timestamp,
    ) {
        let pause = match failure {
            Failure::Fenced => AFTER_FENCED,
            Failure::Provider(Error::Throttled { retry_after }) => *retry_after,
            _ => self.pause(key),
        };
        self.metrics.retry(failure.name());
        self.metrics.put_back(key, failure);
        self.requeue_after(key, pause);
        // Neither is a fault: somebody else leads, or there is much to do.
        if matches!(failure, Failure::Fenced | Failure::Overloaded) {
            tracing::debug!(%key, ?verb, %failure, "put back");
            return;
        }
        self.tell_failure(key, verb, object, failure.to_string(), pause, now);
    }

    fn tell_failure(
        &mut self,
        key: &Key,
        verb: Verb,
        object: Subject,
        message: String,
        pause: Duration,
        now: Timestamp,
    ) {
        let failed = Verdict::Failed { verb, message, retry_after_seconds: pause.as_secs() };
        let decisions = vec![Decided::new(failed, vec![object])];
        self.carry_out(key.clone(), Step { decisions, ..Step::default() }, now);
    }

    /// The key is reconciled again after a while.
    pub(crate) fn requeue_after(&mut self, key: &Key, wait: Duration) {
        let due = self.present().monotonic + wait;
        self.queue.add(key.clone(), due);
    }

    /// The next pause of a key that failed: twice as long each time.
    pub(crate) fn pause(&mut self, key: &Key) -> Duration {
        let now = self.present().monotonic;
        let entry = self.pauses.entry(key.clone()).or_insert((now, 0));
        let pause = PAUSES.0.saturating_mul(1 << entry.1.min(20)).min(PAUSES.1);
        entry.1 += 1;
        entry.0 = now + pause;
        pause
    }
}
