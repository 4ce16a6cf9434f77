//! A speed for time that would jump.
//!
//! In a runtime whose time is paused nothing takes time but waiting: whatever is to be done at a moment is done at that moment, however long the
//! machine works on it, and then time jumps to the next timer. That makes two runs equal. [`keep`] leaves all of that as it is and only says how far
//! time may jump by now: it stops the jumps for a short while of real time, then lets time go on to where it should be by then,
//! timer by timer. So a cluster at 60x lives through the same moments as one without any waiting, and no timeout runs out because a machine
//! is slow: a machine that cannot keep up is late, nothing else.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;

/// Between two looks at the time outside.
const BEAT: Duration = Duration::from_millis(10);

/// Makes time go `factor` times as fast as outside, for as long as it is polled. The runtime must have one thread and paused time.
///
/// Best polled as a task of its own: then nobody else is woken by it.
pub async fn keep(clock: Clock, factor: u32) {
    let (start, begun) = (clock.now(), Instant::now());
    loop {
        // While a blocking task is under way, paused time stands still. An error means that the runtime ends.
        if tokio::task::spawn_blocking(|| std::thread::sleep(BEAT)).await.is_err() {
            return;
        }
        let passed = begun.elapsed().saturating_mul(factor.max(1));
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        clock.sleep_until(start.saturating_add(passed).unwrap_or(Timestamp::MAX)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn time_goes_as_fast_as_told_and_stops_at_each_timer() {
        let clock = Clock::at_home(noon());
        let pacer = tokio::spawn(keep(clock.clone(), 1000));
        let begun = Instant::now();
        for minute in 1..=5 {
            let due = noon() + SignedDuration::from_mins(minute);
            clock.sleep_until(due).await;
            // Without a pace the clock would show the same.
            assert!(clock.now().duration_since(due) < SignedDuration::from_millis(2));
        }
        let real = begun.elapsed();
        assert!(real >= Duration::from_millis(290), "{real:?}");
        pacer.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn work_takes_no_time_however_long_it_takes() {
        let clock = Clock::at_home(noon());
        let pacer = tokio::spawn(keep(clock.clone(), 100_000));
        clock.sleep_until(noon() + SignedDuration::from_secs(60)).await;
        let before = clock.now();
        std::thread::sleep(Duration::from_millis(30));
        tokio::task::yield_now().await;
        assert_eq!(clock.now(), before, "fifty minutes at this speed");
        pacer.abort();
    }
}
