//! One clock for everything: the server, the controllers, and whoever else takes part.
//!
//! Time comes from tokio, so it runs as the runtime's time runs: really, or, in a runtime whose time is paused, in jumps to
//! the next timer whenever nobody has anything to do. A factor makes it faster.
//!
//! The loop does each piece of work at the moment for which it was due, however late it gets to it: it *holds* the clock at that
//! moment meanwhile. So what happens, and every time that is written down, is the same at any speed. Others may get a turn while the loop waits for
//! a disk; what they ask the clock and how long they sleep is measured by what it shows, so nobody wakes before the moment has come for all.
//!
//! Paused time belongs to one runtime; threads outside it would see the time of the world outside. A clock made with
//! [`Clock::at_home`] tells them the latest moment that was seen inside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use std::sync::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The clock of a simulated cluster. Clones tell the same time.
#[derive(Clone, Debug)]
pub struct Clock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    epoch: Timestamp,
    begun: Instant,
    factor: u32,
    held: Mutex<Option<Timestamp>>,
    /// Told whenever the clock goes on.
    goes_on: Notify,
    /// The thread of the runtime whose time this is, if only that can tell it.
    home: Option<ThreadId>,
    /// Nanoseconds from the epoch to the latest moment seen at home.
    seen: AtomicU64,
}

impl Clock {
    /// A clock that shows `epoch` now and goes `factor` times as fast as the runtime's time; 0 counts as 1.
    pub fn new(epoch: Timestamp, factor: u32) -> Self {
        Self::made(epoch, factor, None)
    }

    /// A clock for a runtime of one thread whose time is paused, made on that thread. Other threads may read it, too.
    pub fn at_home(epoch: Timestamp) -> Self {
        Self::made(epoch, 1, Some(std::thread::current().id()))
    }

    fn made(epoch: Timestamp, factor: u32, home: Option<ThreadId>) -> Self {
        Self {
            inner: Arc::new(Inner {
                epoch,
                begun: Instant::now(),
                factor: factor.max(1),
                held: Mutex::new(None),
                goes_on: Notify::new(),
                home,
                seen: AtomicU64::new(0),
            }),
        }
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match self.held() {
            // Work is done at the moment for which it was due, but nobody outside sees time go back for that.
            Some(held) if self.is_foreign() => held.max(self.running()),
            Some(held) => held,
            None => self.running(),
        }
    }

    /// Waits until the clock shows `time`, not counting that it may be held.
    pub async fn sleep_until(&self, time: Timestamp) {
        loop {
            let left = time.duration_since(self.running());
            if left <= SignedDuration::ZERO {
                return;
            }
            let left = Duration::try_from(left).unwrap_or_default() / self.inner.factor;
            // Shorter sleeps than this are not to be had, and a sleep of nothing would spin.
            tokio::time::sleep(left.max(Duration::from_micros(100))).await;
        }
    }

    /// Waits until the clock shows `time`, for as long as it is held, too.
    async fn sleep_until_shown(&self, time: Timestamp) {
        // Whoever sleeps in a loop gives way to others, even if each sleep is over before it begins.
        tokio::task::coop::consume_budget().await;
        loop {
            let mut goes_on = std::pin::pin!(self.inner.goes_on.notified());
            goes_on.as_mut().enable();
            if self.now() >= time {
                return;
            }
            match self.held() {
                // What runs on meanwhile is not what the sleeper sees: a timer would end before the clock shows the moment.
                Some(_) => goes_on.await,
                None => self.sleep_until(time).await,
            }
        }
    }

    /// Stops the clock at a moment, or lets it go on.
    pub(crate) fn hold(&self, time: Option<Timestamp>) {
        *self.inner.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = time;
        if time.is_none() {
            self.inner.goes_on.notify_waiters();
        }
    }

    /// What the clock would show if it were not held.
    pub(crate) fn running(&self) -> Timestamp {
        let elapsed = if self.is_foreign() {
            Duration::from_nanos(self.inner.seen.load(Ordering::Acquire))
        } else {
            let elapsed = self.inner.begun.elapsed().saturating_mul(self.inner.factor);
            if self.inner.home.is_some() {
                let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
                self.inner.seen.fetch_max(nanos, Ordering::Release);
            }
            elapsed
        };
        let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
        self.inner.epoch.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Whether this thread cannot tell the time by itself.
    fn is_foreign(&self) -> bool {
        self.inner.home.is_some_and(|home| home != std::thread::current().id())
    }

    fn held(&self) -> Option<Timestamp> {
        *self.inner.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl joiner_apiserver::clock::Clock for Clock {
    fn now(&self) -> Timestamp {
        Clock::now(self)
    }
}

impl joiner_provider::Clock for Clock {
    fn now(&self) -> Timestamp {
        Clock::now(self)
    }

    /// Nobody sets a simulated clock: one time serves both.
    fn monotonic(&self) -> joiner_provider::Monotonic {
        let passed = Clock::now(self).duration_since(self.inner.epoch);
        joiner_provider::Monotonic::new(Duration::try_from(passed).unwrap_or_default())
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        let until = clock.now().saturating_add(time).unwrap_or(Timestamp::MAX);
        async move { clock.sleep_until_shown(until).await }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_jumps_to_the_moment_waited_for() {
        let clock = Clock::new(noon(), 1);
        let tomorrow = noon() + SignedDuration::from_hours(24);
        clock.sleep_until(tomorrow).await;
        assert!(clock.now().duration_since(tomorrow) < SignedDuration::from_millis(2));
        assert!(clock.now() >= tomorrow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_factor_shortens_sleeps() {
        let clock = Clock::new(noon(), 60);
        let before = Instant::now();
        clock.sleep_until(noon() + SignedDuration::from_mins(10)).await;
        let slept = before.elapsed();
        assert!(slept >= Duration::from_secs(10) && slept < Duration::from_millis(10_010), "{slept:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_clock_stands_still() {
        let clock = Clock::new(noon(), 1);
        clock.hold(Some(noon()));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(clock.now(), noon());
        clock.hold(None);
        assert_eq!(clock.now(), noon() + SignedDuration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_lasts_while_the_clock_is_held() {
        let clock = Clock::at_home(noon());
        tokio::time::sleep(Duration::from_secs(60)).await;
        // Work is late: the clock shows its moment, and time runs on.
        clock.hold(Some(noon()));
        let until = noon() + SignedDuration::from_secs(10);
        let sleep = joiner_provider::Clock::sleep(&clock, Duration::from_secs(10));
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                sleep.await;
                clock.now()
            }
        });
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!sleeper.is_finished(), "the clock has not moved");
        // The next piece of work follows at once, and is late as well.
        clock.hold(None);
        clock.hold(Some(noon() + SignedDuration::from_secs(5)));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!sleeper.is_finished(), "the clock has not moved far enough");
        clock.hold(None);
        assert!(sleeper.await.unwrap() >= until);
    }

    #[tokio::test(start_paused = true)]
    async fn sleeps_of_nothing_let_others_run() {
        let clock = Clock::at_home(noon());
        let other = tokio::spawn(async {});
        let mut sleeps = 0;
        while !other.is_finished() {
            joiner_provider::Clock::sleep(&clock, Duration::ZERO).await;
            sleeps += 1;
            assert!(sleeps < 10_000, "nobody else gets a turn");
        }
    }

    /// What another thread reads.
    fn elsewhere(clock: &Clock) -> Timestamp {
        std::thread::scope(|scope| scope.spawn(|| clock.now()).join().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn other_threads_see_the_latest_moment_at_home() {
        let clock = Clock::at_home(noon());
        assert_eq!(elsewhere(&clock), noon());
        let tomorrow = noon() + SignedDuration::from_hours(24);
        clock.sleep_until(tomorrow).await;
        assert_eq!(elsewhere(&clock), clock.now());
        // Work that is done late must not turn the clock back for those who have read it.
        clock.hold(Some(noon()));
        assert_eq!(clock.now(), noon());
        assert!(elsewhere(&clock) >= tomorrow);
        clock.hold(Some(tomorrow + SignedDuration::from_hours(1)));
        assert_eq!(elsewhere(&clock), tomorrow + SignedDuration::from_hours(1));
    }
}
