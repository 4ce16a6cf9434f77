//! A clock that waits as the runtime does.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use joiner_provider::Clock;

/// Tells the time by a function; waiting is the runtime's.
pub struct RuntimeClock<F>(
    /// What time it is.
    pub F,
);

impl<F: Fn() -> Timestamp + Send + Sync> Clock for RuntimeClock<F> {
    fn now(&self) -> Timestamp {
        self.0()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(time).boxed()
    }
}
