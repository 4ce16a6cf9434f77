//! Ways to the outside, each with a bound on what is under way, on what waits, and on how many set out per second. A slow cloud fills
//! its own lane and no other; events, which matter least, have the narrowest.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use joiner_provider::Clock;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::command::{Command, Failure};
use crate::executor::rate::TokenBucket;
use crate::metrics::Metrics;
use crate::settings::{LaneLimits, LaneSettings};

/// A way to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Writes of claims, nodes and pools.
    Objects,
    /// Evictions and deletions of pods.
    Evictions,
    /// Calls of the provider.
    Provider,
    /// Questions to the API server.
    Reads,
    /// Events and the record of decisions: what is written for people.
    Events,
}

impl Lane {
    /// All lanes.
    pub const ALL: [Self; 5] = [Self::Objects, Self::Evictions, Self::Provider, Self::Reads, Self::Events];

    /// The lane of a command.
    pub fn of(command: &Command) -> Self {
        match command {
            Command::CreateClaim(_)
            | Command::PatchClaim { .. }
            | Command::PatchClaimStatus { .. }
            | Command::DeleteClaim { .. }
            | Command::PatchNode { .. }
            | Command::DeleteNode { .. }
            | Command::PatchPool { .. }
            | Command::PatchPoolStatus { .. } => Self::Objects,
            Command::Evict { .. } | Command::DeletePod { .. } => Self::Evictions,
            Command::Terminate { .. }
            | Command::CancelLaunch { .. }
            | Command::EndMachineOf { .. }
            | Command::FindMachine { .. }
            | Command::GrowGroup { .. }
            | Command::RemoveMember { .. } => Self::Provider,
            Command::ConfirmEmpty { .. } => Self::Reads,
            Command::WriteRecord(_) | Command::CreateEvent(_) | Command::PatchEvent { .. } => Self::Events,
        }
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Evictions => "evictions",
            Self::Provider => "provider",
            Self::Reads => "reads",
            Self::Events => "events",
        }
    }
}

/// All lanes of an executor.
pub struct Lanes {
    lanes: [Way; Lane::ALL.len()],
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

struct Way {
    limits: LaneLimits,
    under_way: Semaphore,
    waiting: AtomicUsize,
    bucket: Option<Mutex<TokenBucket>>,
}

impl Way {
    fn new(limits: LaneLimits) -> Self {
        Self {
            limits,
            under_way: Semaphore::new(limits.at_once.max(1)),
            waiting: AtomicUsize::new(0),
            bucket: limits.per_second.map(|per_second| Mutex::new(TokenBucket::new(per_second))),
        }
    }
}

/// Leave to make one call. Its end makes room for the next.
pub struct Pass<'a> {
    _permit: SemaphorePermit<'a>,
}

impl Lanes {
    /// Lanes with their limits.
    pub fn new(settings: &LaneSettings, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Self {
        let LaneSettings { objects, evictions, provider, reads, events } = *settings;
        let lanes = [objects, evictions, provider, reads, events].map(Way::new);
        Self { lanes, clock, metrics }
    }

    /// Waits for leave to make a call.
    ///
    /// # Errors
    /// Too many wait already, or the lane was shut.
    pub async fn enter(&self, lane: Lane) -> Result<Pass<'_>, Failure> {
        let way = &self.lanes[lane as usize];
        let waiting = Waiting::begin(way, lane, &self.metrics)?;
        let permit = way.under_way.acquire().await.map_err(|_| Failure::Fenced)?;
        drop(waiting);
        let wait = way
            .bucket
            .as_ref()
            .map(|bucket| bucket.lock().unwrap_or_else(PoisonError::into_inner).take(self.clock.monotonic()));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            self.clock.sleep(wait).await;
        }
        Ok(Pass { _permit: permit })
    }

    /// How many commands of one step may be sent at once.
    pub fn width(&self, lane: Lane) -> usize {
        self.lanes[lane as usize].limits.at_once.max(1)
    }

    /// Turns away everybody who waits or comes, except those who only ask the API server.
    pub fn shut(&self) {
        for lane in Lane::ALL.into_iter().filter(|lane| *lane != Lane::Reads) {
            self.lanes[lane as usize].under_way.close();
        }
    }
}

/// Somebody who waits, counted until it ends.
struct Waiting<'a> {
    way: &'a Way,
    lane: Lane,
    metrics: &'a Metrics,
}

impl<'a> Waiting<'a> {
    fn begin(way: &'a Way, lane: Lane, metrics: &'a Metrics) -> Result<Self, Failure> {
        let before = way.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Self { way, lane, metrics };
        metrics.set_waiting(lane, before + 1);
        // Those who find room at once do not wait.
        if before >= way.limits.queued && way.under_way.available_permits() == 0 {
            return Err(Failure::Overloaded);
        }
        Ok(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let before = self.way.waiting.fetch_sub(1, Ordering::Relaxed);
        self.metrics.set_waiting(self.lane, before.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use tokio::time::Instant;

    use super::*;
    use crate::clock::RuntimeClock;

    fn lanes(limits: LaneLimits) -> Arc<Lanes> {
        let settings = LaneSettings { objects: limits, ..LaneSettings::default() };
        let clock = Arc::new(RuntimeClock::new(|| Timestamp::UNIX_EPOCH));
        Arc::new(Lanes::new(&settings, clock, Arc::default()))
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_at_once_so_many_wait_the_rest_is_turned_away() {
        let lanes = lanes(LaneLimits { at_once: 2, queued: 1, per_second: None });
        let first = lanes.enter(Lane::Objects).await.unwrap();
        let _second = lanes.enter(Lane::Objects).await.unwrap();
        let other = lanes.clone();
        let third = tokio::spawn(async move { other.enter(Lane::Objects).await.map(drop) });
        tokio::task::yield_now().await;
        assert_eq!(lanes.enter(Lane::Objects).await.err(), Some(Failure::Overloaded));
        assert!(lanes.enter(Lane::Provider).await.is_ok(), "another lane is another matter");
        assert!(!third.is_finished());
        drop(first);
        assert_eq!(third.await.unwrap(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_set_out_in_a_second() {
        let lanes = lanes(LaneLimits { at_once: 4, queued: 9, per_second: Some(10) });
        let begun = Instant::now();
        for _ in 0..30 {
            lanes.enter(Lane::Objects).await.unwrap();
        }
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(2) && took < Duration::from_millis(2100), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_enters_a_lane_that_is_shut() {
        let lanes = lanes(LaneLimits { at_once: 1, queued: 9, per_second: None });
        let _pass = lanes.enter(Lane::Objects).await.unwrap();
        let other = lanes.clone();
        let waiting = tokio::spawn(async move { other.enter(Lane::Objects).await.map(drop) });
        tokio::task::yield_now().await;
        lanes.shut();
        assert_eq!(waiting.await.unwrap(), Err(Failure::Fenced));
        assert_eq!(lanes.enter(Lane::Objects).await.err(), Some(Failure::Fenced));
        assert!(lanes.enter(Lane::Reads).await.is_ok());
    }
}
