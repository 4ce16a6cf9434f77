//! So many per second, by the clock that is handed in.

use std::time::Duration;

use joiner_provider::Monotonic;

/// Tokens that come back one by one. Whoever finds none is told how long to wait, and has then taken one that is still to come.
#[derive(Debug)]
pub struct TokenBucket {
    /// Between two tokens.
    interval: Duration,
    /// How far ahead tokens may be taken at once.
    burst: Duration,
    /// When the bucket is full again.
    full: Monotonic,
}

impl TokenBucket {
    /// A full bucket that gets `per_second` tokens and holds as many; 0 counts as 1.
    pub fn new(per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { interval, burst: Duration::from_secs(1), full: Monotonic::default() }
    }

    /// Takes a token; how long to wait before using it.
    pub fn take(&mut self, now: Monotonic) -> Duration {
        self.full = self.full.max(now) + self.interval;
        self.full.since(now).saturating_sub(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Monotonic {
        Monotonic::new(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_burst_is_free_and_the_rest_is_spread() {
        let mut bucket = TokenBucket::new(10);
        for _ in 0..10 {
            assert_eq!(bucket.take(at(0)), Duration::ZERO);
        }
        assert_eq!(bucket.take(at(0)), Duration::from_millis(100));
        assert_eq!(bucket.take(at(0)), Duration::from_millis(200));
        assert_eq!(bucket.take(at(250)), Duration::from_millis(50));
        for _ in 0..10 {
            assert_eq!(bucket.take(at(5000)), Duration::ZERO, "full again, and no fuller");
        }
        assert!(bucket.take(at(5000)) > Duration::ZERO);
    }
}
