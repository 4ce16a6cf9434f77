//! What time it is, handed in: a simulation has a clock of its own.

use jiff::Timestamp;

/// Tells the controllers what time it is.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

impl<F: Fn() -> Timestamp + Send + Sync> Clock for F {
    fn now(&self) -> Timestamp {
        self()
    }
}
