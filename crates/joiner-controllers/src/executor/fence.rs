//! Who may write: a number that grows with every change of leader, and the moment up to which it holds, both checked just before each call.
//!
//! A process that was stopped and goes on late still believes that it leads. The moment is what keeps it from writing: it is reckoned by a clock that
//! goes on while the process stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use joiner_provider::{Clock, Monotonic};
use tokio::sync::watch;

/// No epoch is ever this one.
const CLOSED: u64 = 0;
/// It holds until somebody closes it.
const FOR_EVER: u64 = u64::MAX;

/// Lets writes of the present epoch through, and none while it is closed. Clones are the same fence.
#[derive(Clone)]
pub struct Fence(Arc<State>);

struct State {
    clock: Arc<dyn Clock>,
    epoch: AtomicU64,
    /// Nanoseconds of the clock.
    until: AtomicU64,
    /// It stays closed whoever wants to open it.
    retired: AtomicBool,
    moved: watch::Sender<u64>,
}

/// The time during which one process led; what was decided in it is carried out in it or not at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Epoch(u64);

impl Epoch {
    /// Whether anything decided in it may ever be written.
    pub fn may_write(self) -> bool {
        self.0 != CLOSED
    }
}

impl Fence {
    /// A fence that lets nothing through yet.
    pub fn closed(clock: Arc<dyn Clock>) -> Self {
        let (moved, _) = watch::channel(CLOSED);
        Self(Arc::new(State {
            clock,
            epoch: AtomicU64::new(CLOSED),
            until: AtomicU64::new(FOR_EVER),
            retired: AtomicBool::new(false),
            moved,
        }))
    }

    /// A fence that lets writes of an epoch through until it is moved or closed; 0 makes a closed one.
    pub fn open(clock: Arc<dyn Clock>, epoch: u64) -> Self {
        let fence = Self::closed(clock);
        fence.advance(epoch);
        fence
    }

    /// From now on only writes decided in this epoch are let through.
    pub fn advance(&self, epoch: u64) {
        self.set(epoch, FOR_EVER);
    }

    /// As [`Fence::advance`], and only until that moment unless it is put off.
    pub fn advance_until(&self, epoch: u64, until: Monotonic) {
        self.set(epoch, nanos(until));
    }

    /// Puts the moment off up to which the present epoch holds. It opens nothing that is closed.
    pub fn put_off(&self, until: Monotonic) {
        self.0.until.store(nanos(until), Ordering::SeqCst);
    }

    /// From now on nothing is let through.
    pub fn close(&self) {
        self.set(CLOSED, FOR_EVER);
    }

    /// Closes it for good: the process is ending.
    pub fn retire(&self) {
        self.0.retired.store(true, Ordering::SeqCst);
        self.close();
    }

    /// Whether it is closed for good.
    pub fn is_retired(&self) -> bool {
        self.0.retired.load(Ordering::SeqCst)
    }

    fn set(&self, epoch: u64, until: u64) {
        let epoch = if self.is_retired() { CLOSED } else { epoch };
        // Closed in between: an old epoch never meets a new moment.
        self.0.epoch.store(CLOSED, Ordering::SeqCst);
        self.0.until.store(until, Ordering::SeqCst);
        self.0.epoch.store(epoch, Ordering::SeqCst);
        self.0.moved.send_replace(epoch);
    }

    /// The epoch in which something is decided now. One that was decided behind a closed fence is never let through.
    pub fn epoch(&self) -> Epoch {
        let epoch = self.0.epoch.load(Ordering::SeqCst);
        let until = self.0.until.load(Ordering::SeqCst);
        let over = until != FOR_EVER && nanos(self.0.clock.monotonic()) >= until;
        Epoch(if over { CLOSED } else { epoch })
    }

    /// Whether a write that was decided in an epoch may be sent now.
    pub fn admits(&self, epoch: Epoch) -> bool {
        epoch.may_write() && epoch == self.epoch()
    }

    /// Tells when it is opened, moved or closed; that its moment has passed it does not tell.
    pub(crate) fn moves(&self) -> watch::Receiver<u64> {
        self.0.moved.subscribe()
    }
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fence").field(&self.epoch()).finish()
    }
}

fn nanos(moment: Monotonic) -> u64 {
    let since: Duration = moment.since(Monotonic::default());
    u64::try_from(since.as_nanos()).unwrap_or(FOR_EVER - 1).min(FOR_EVER - 1)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::clock::RuntimeClock;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(RuntimeClock::new(|| Timestamp::UNIX_EPOCH))
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_present_epoch_is_admitted() {
        let fence = Fence::open(clock(), 1);
        let first = fence.epoch();
        assert!(fence.admits(first));
        fence.close();
        assert!(!fence.admits(first));
        let behind = fence.epoch();
        assert!(!fence.admits(behind));
        fence.advance(2);
        assert!(!fence.admits(first) && !fence.admits(behind));
        assert!(fence.admits(fence.epoch()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_epoch_ends_by_itself_unless_it_is_put_off() {
        let clock = clock();
        let fence = Fence::closed(clock.clone());
        let seconds = Duration::from_secs;
        fence.advance_until(1, clock.monotonic() + seconds(10));
        let first = fence.epoch();
        tokio::time::advance(seconds(9)).await;
        assert!(fence.admits(first));
        fence.put_off(clock.monotonic() + seconds(10));
        tokio::time::advance(seconds(9)).await;
        assert!(fence.admits(first));
        tokio::time::advance(seconds(1)).await;
        assert!(!fence.admits(first) && !fence.epoch().may_write());
        fence.close();
        fence.put_off(clock.monotonic() + seconds(10));
        assert!(!fence.epoch().may_write(), "what is closed stays closed");
        fence.retire();
        fence.advance(3);
        assert!(!fence.epoch().may_write(), "and for good, if it was meant so");
    }
}
