//! A clock that waits as the runtime does, and the present by both of its hands.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use joiner_provider::{Clock, Monotonic};
use tokio::time::Instant;

/// Tells the time of day by a function; waiting and measuring are the runtime's.
pub struct RuntimeClock<F> {
    wall: F,
    began: Instant,
}

impl<F: Fn() -> Timestamp + Send + Sync> RuntimeClock<F> {
    /// A clock whose time of day is what the function says.
    pub fn new(wall: F) -> Self {
        Self { wall, began: Instant::now() }
    }
}

impl<F: Fn() -> Timestamp + Send + Sync> Clock for RuntimeClock<F> {
    fn now(&self) -> Timestamp {
        (self.wall)()
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::new(self.began.elapsed())
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(time).boxed()
    }
}

/// The present by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Present {
    /// By the clock on the wall, which may be set.
    pub wall: Timestamp,
    /// By the clock that nobody sets.
    pub monotonic: Monotonic,
}

impl Present {
    /// The present of a clock.
    pub fn of(clock: &dyn Clock) -> Self {
        Self { wall: clock.now(), monotonic: clock.monotonic() }
    }

    /// What a clock on the wall that was always right as it is now would have shown so long ago.
    pub fn before(&self, time: Duration) -> Timestamp {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.wall.checked_sub(time).unwrap_or(Timestamp::MIN)
    }
}
