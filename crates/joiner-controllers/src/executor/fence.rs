//! Who may write: a number that grows with every change of leader, checked just before each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No epoch is ever this one.
const CLOSED: u64 = 0;

/// Lets writes of the present epoch through, and none while it is closed. Clones are the same fence.
#[derive(Debug, Clone)]
pub struct Fence(Arc<AtomicU64>);

/// The time during which one process led; what was decided in it is carried out in it or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(u64);

impl Fence {
    /// A fence that lets writes of an epoch through; 0 makes a closed one.
    pub fn open(epoch: u64) -> Self {
        Self(Arc::new(AtomicU64::new(epoch)))
    }

    /// From now on only writes decided in this epoch are let through.
    pub fn advance(&self, epoch: u64) {
        self.0.store(epoch, Ordering::SeqCst);
    }

    /// From now on nothing is let through.
    pub fn close(&self) {
        self.0.store(CLOSED, Ordering::SeqCst);
    }

    /// The epoch in which something is decided now. One that was decided behind a closed fence is never let through.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.0.load(Ordering::SeqCst))
    }

    /// Whether a write that was decided in an epoch may be sent now.
    pub fn admits(&self, epoch: Epoch) -> bool {
        epoch.0 != CLOSED && epoch == self.epoch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_present_epoch_is_admitted() {
        let fence = Fence::open(1);
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
}
