//! Whether the loop gets on. A process that answers and decides nothing is worse than one that ends: nobody notices it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the loop is doing, for whoever asks from another thread. Clones tell the same.
#[derive(Debug, Clone, Default)]
pub struct Pulse(Arc<Mutex<Beat>>);

#[derive(Debug, Default)]
struct Beat {
    /// Since when the loop has been busy without listening.
    working: Option<Instant>,
    /// Since when a decision has been under way.
    deciding: Option<Instant>,
}

impl Pulse {
    fn set(&self, change: impl FnOnce(&mut Beat)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The loop listens.
    pub fn rests(&self) {
        self.set(|beat| beat.working = None);
    }

    /// The loop does something.
    pub fn works(&self) {
        self.set(|beat| {
            beat.working.get_or_insert_with(Instant::now);
        });
    }

    /// A decision has begun, or ended.
    pub fn decides(&self, begins: bool) {
        self.set(|beat| beat.deciding = begins.then(Instant::now));
    }

    /// Whether everything gets on.
    ///
    /// # Errors
    /// Something takes longer than it may; the text says what and how long.
    pub fn check(&self, turn: Duration, decision: Duration) -> Result<(), String> {
        let beat = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = |since: Option<Instant>, most: Duration| {
            since.map(|since| since.elapsed()).filter(|passed| *passed > most)
        };
        if let Some(passed) = over(beat.working, turn) {
            return Err(format!(
                "the loop has not listened for {} s, {} s are allowed",
                passed.as_secs(),
                turn.as_secs()
            ));
        }
        if let Some(passed) = over(beat.deciding, decision) {
            return Err(format!(
                "a decision has been under way for {} s, {} s are allowed",
                passed.as_secs(),
                decision.as_secs()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_named() {
        let (pulse, long) = (Pulse::default(), Duration::from_secs(3600));
        assert_eq!(pulse.check(Duration::ZERO, Duration::ZERO), Ok(()), "nothing to do is no fault");
        pulse.works();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(pulse.check(long, long), Ok(()));
        assert!(pulse.check(Duration::ZERO, long).unwrap_err().contains("has not listened"));
        pulse.rests();
        pulse.decides(true);
        std::thread::sleep(Duration::from_millis(2));
        assert!(pulse.check(long, Duration::ZERO).unwrap_err().contains("a decision has been under way"));
        pulse.decides(false);
        assert_eq!(pulse.check(Duration::ZERO, Duration::ZERO), Ok(()));
    }
}
