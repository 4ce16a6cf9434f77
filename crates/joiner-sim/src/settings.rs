//! How a simulated cluster is set up.

use jiff::Timestamp;

use crate::kubelet::Lifecycle;

/// Settings of a [`World`](crate::world::World).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Uids, generated names and every other chance come from this.
    pub seed: u64,
    /// What the clock shows at the beginning.
    pub start: Timestamp,
    /// How many times faster than the runtime's time the clock goes.
    pub speed: u32,
    /// How nodes and pods live.
    pub lifecycle: Lifecycle,
    /// Whether entries for `kubectl get events` are kept.
    pub record_events: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            start: Timestamp::UNIX_EPOCH,
            speed: 1,
            lifecycle: Lifecycle::default(),
            record_events: true,
        }
    }
}
