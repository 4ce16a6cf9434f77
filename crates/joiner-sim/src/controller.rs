//! The two shapes of a participant.
//!
//! A [`Controller`] is a pure reconciler: told of every event it names keys, and for a key it says what to write, from nothing but the
//! cache and the time. A [`Participant`] keeps a view of its own and takes one step at a time; the scheduler is one. Neither does I/O,
//! asks a clock or rolls dice that are not handed in.

use jiff::{SignedDuration, Timestamp};

use crate::cache::Cache;
use crate::connection::Refusal;
use crate::event::Event;
use crate::object::Key;
use crate::write::Write;

/// What a reconciliation asks for.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Changes, to be made in this order. When one is refused those after it are not tried and the key comes again.
    pub writes: Vec<Write>,
    /// When the key is to come again without an event.
    pub again_at: Option<Timestamp>,
}

impl Outcome {
    /// Nothing to do.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// These changes and nothing later.
    pub fn writes(writes: Vec<Write>) -> Self {
        Self { writes, again_at: None }
    }

    /// Makes the key come again at `time`, or earlier if that was asked for already.
    pub fn again(&mut self, time: Timestamp) {
        self.again_at = Some(self.again_at.map_or(time, |earlier| earlier.min(time)));
    }
}

/// A pure reconciler.
pub trait Controller {
    /// The name under which it writes, as field manager and in entries: `replicaset-controller`.
    fn name(&self) -> &'static str;

    /// Keys to look at because of an event. The cache holds the state after the event.
    fn interested(&mut self, event: &Event, cache: &Cache, keys: &mut Vec<Key>);

    /// What to do about a key.
    fn reconcile(&mut self, key: &Key, cache: &Cache, now: Timestamp) -> Outcome;

    /// Told that a write for a key was refused, before the key comes again.
    fn refused(&mut self, _key: &Key, _write: &Write, _refusal: &Refusal) {}

    /// How long after an event the key is looked at. A moment of patience turns a thousand events into one look.
    fn patience(&self) -> SignedDuration {
        SignedDuration::from_millis(2)
    }
}

/// A participant with a view of its own, driven after the controllers have nothing left to do at a moment.
pub trait Participant {
    /// The name under which it writes.
    fn name(&self) -> &'static str;

    /// Told of every event, in order.
    fn observe(&mut self, event: &Event);

    /// One step at `now`: what to write because of it. An empty answer means that there is nothing to do at this moment.
    fn step(&mut self, now: Timestamp) -> Vec<Write>;

    /// Told that a write of the last step was refused, with the HTTP status and its message.
    fn refused(&mut self, write: &Write, code: u16, message: &str);

    /// When it wants a step even if no event comes.
    fn wakes_at(&self) -> Option<Timestamp>;
}
