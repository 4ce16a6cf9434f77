//! What happened to an object: the input of every participant.

use crate::object::{Key, Object};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object is new.
    Added,
    /// The object has another state.
    Modified,
    /// The object is gone.
    Deleted,
}

/// One change of one object, in the order in which the server made it.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// To which object.
    pub key: Key,
    /// The object after the change; the last state of one that is gone.
    pub object: Object,
    /// The object before the change, nothing for a new one.
    pub previous: Option<Object>,
    /// The server's version of the change.
    pub revision: u64,
}

impl Event {
    /// The same with objects that are not parsed.
    pub(crate) fn cold(self) -> Self {
        Self { object: self.object.cold(), previous: self.previous.map(|object| object.cold()), ..self }
    }

    /// The object as it is now, nothing when it is gone.
    pub fn present(&self) -> Option<&Object> {
        (self.change != Change::Deleted).then_some(&self.object)
    }
}
