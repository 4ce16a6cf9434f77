//! What time it is, and waiting, handed in: a simulation has a clock of its own.

use std::ops::Add;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

/// Tells the time and lets it pass.
pub trait Clock: Send + Sync {
    /// The present moment as people write it. Somebody may set this clock: it is for what is written into objects.
    fn now(&self) -> Timestamp;

    /// The present moment of a clock that nobody sets. Whatever waits or measures goes by this one.
    fn monotonic(&self) -> Monotonic;

    /// Waits for so long, by the clock that nobody sets.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

/// A moment of a clock that only goes forward. It means something only beside another moment of the same clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The moment so long after the clock's own beginning.
    pub const fn new(since_beginning: Duration) -> Self {
        Self(since_beginning)
    }

    /// How long ago an earlier moment was; nothing if it was not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Monotonic {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}
