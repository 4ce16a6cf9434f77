//! The cluster of `joiner up` in this process: the embedded API, the simulated world, the scheduler, and joiner's own loop with KWOK's
//! provider, all on one thread in time that jumps.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner::commands::up::assembly::{Design, Parts};
use joiner_provider_kwok::Catalogue;
use joiner_sim::clock::Clock;

use crate::deeds::Hands;
use crate::log::Log;

/// Chance comes from this in every run.
const SEED: u64 = 11;

/// How fast time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Waiting is skipped.
    Jumps,
    /// So many times as fast as outside.
    Times(u32),
}

/// When every cluster begins: six o'clock on a Monday.
pub(crate) fn morning() -> Timestamp {
    "2026-03-02T06:00:00Z".parse().unwrap()
}

/// Lives until the script is over; what is left is the log of every change to every object.
pub(crate) fn live(pace: Pace, log: Log, script: impl AsyncFnOnce(&mut Hands)) -> Log {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    builder.build().unwrap().block_on(async move {
        let clock = Clock::at_home(morning());
        if let Pace::Times(factor) = pace {
            tokio::spawn(joiner_sim::pace::keep(clock.clone(), factor));
        }
        let catalogue = Some(Catalogue::hypothetical().into());
        let design =
            Design { clock, seed: SEED, catalogue, folder: None, restored: Vec::new(), startup_taints: None };
        let Parts { client, clock, mut world, controllers, .. } = design.assemble().unwrap();
        let controllers = controllers.unwrap();
        let mut hands = Hands { client, clock, log };
        hands.note().await;
        tokio::select! {
            biased;
            () = script(&mut hands) => {}
            () = world.run() => unreachable!("it lives for ever"),
            () = controllers.run(std::future::pending()) => unreachable!("so does joiner"),
        }
        hands.note().await;
        hands.log
    })
}

impl Hands {
    /// Lets time pass.
    pub(crate) async fn wait(&self, time: Duration) {
        let time = SignedDuration::try_from(time).unwrap();
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    /// Lets time pass until so long after the beginning.
    pub(crate) async fn wait_until(&self, after: Duration) {
        self.clock.sleep_until(morning() + SignedDuration::try_from(after).unwrap()).await;
    }
}
