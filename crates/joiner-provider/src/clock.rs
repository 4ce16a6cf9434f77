//! What time it is, and waiting, handed in: a simulation has a clock of its own.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

/// Tells the time and lets it pass.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;

    /// Waits for so long, by this clock.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}
