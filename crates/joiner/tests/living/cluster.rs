//! The cluster of `joiner up` in this process: the embedded API, the simulated world, the scheduler, and joiner's own loop with KWOK's
//! provider, all on one thread in time that jumps.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_apiserver::service::{ApiServer, Settings as ServerSettings};
use joiner_controllers::Controllers;
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use joiner_sim::clock::Clock;
use joiner_sim::scheduler::Scheduler;
use joiner_sim::settings::Settings as WorldSettings;
use joiner_sim::world::World;
use kube::Client;

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
        let settings = ServerSettings { seed: SEED, usage: true, ..ServerSettings::default() };
        let server = ApiServer::new(Arc::new(clock.clone()), &settings);
        for definition in joiner_api::crd::all() {
            let object = serde_json::to_value(&definition).unwrap();
            server.ensure("apiextensions.k8s.io", "customresourcedefinitions", "", object).unwrap();
        }
        let settings = WorldSettings { seed: SEED, start: morning(), ..WorldSettings::default() };
        let mut world = World::around(server.clone(), clock.clone(), settings);
        world.join(Box::new(Scheduler::new(joiner_sim::scheduler::Settings::default())));
        let client = Client::new(server, "default");
        let time: Arc<dyn joiner_provider::Clock> = Arc::new(clock.clone());
        let provider = KwokProvider::new(client.clone(), Catalogue::hypothetical(), time.clone(), SEED);
        let settings = joiner_controllers::Settings { seed: SEED, ..joiner_controllers::Settings::default() };
        let controllers = Controllers::new(client.clone(), Arc::new(provider), time, settings);
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
