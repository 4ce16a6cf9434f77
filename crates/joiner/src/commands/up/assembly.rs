//! The parts of a simulated cluster, put together and not yet alive: server, clock, simulated controllers and scheduler, and joiner.
//!
//! `up` lives them on a thread of its own; tests and measurements live them where and how fast they like.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use joiner_apiserver::service::{ApiServer, Settings as ServerSettings};
use joiner_controllers::Controllers;
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use joiner_sim::clock::Clock;
use joiner_sim::scheduler::Scheduler;
use joiner_sim::settings::Settings as WorldSettings;
use joiner_sim::world::World;
use kube::Client;

use super::api_only::Definitions;

/// How a cluster is put together.
#[derive(Debug)]
pub struct Design {
    /// What the clock shows at the beginning.
    pub start: Timestamp,
    /// How many times faster than the runtime's time the clock goes.
    pub factor: u32,
    /// Where chance comes from.
    pub seed: u64,
    /// Instance types joiner can have; nothing if joiner is not in the cluster.
    pub catalogue: Option<Catalogue>,
    /// Where objects are kept.
    pub folder: Option<PathBuf>,
}

/// The parts. [`World::run`] and [`Controllers::run`] bring them to life, together in one runtime.
pub struct Parts {
    /// The API.
    pub server: ApiServer,
    /// A client of it.
    pub client: Client,
    /// The clock of all parts.
    pub clock: Clock,
    /// Workload controllers, scheduler, kubelets.
    pub world: World,
    /// Joiner, if it is to be there.
    pub controllers: Option<Controllers>,
}

impl Design {
    /// Puts a cluster together. Call this inside the runtime that will run it.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn assemble(self) -> anyhow::Result<Parts> {
        let definitions = Definitions::begin()?;
        let clock = Clock::new(self.start, self.factor);
        let settings = ServerSettings { seed: self.seed, usage: true, ..ServerSettings::default() };
        let server = match &self.folder {
            Some(folder) => ApiServer::in_folder(Arc::new(clock.clone()), &settings, folder)?,
            None => ApiServer::new(Arc::new(clock.clone()), &settings),
        };
        definitions.install(&server)?;
        let world_settings = WorldSettings { seed: self.seed, ..WorldSettings::default() };
        let mut world = World::around(server.clone(), clock.clone(), world_settings);
        world.join(Box::new(Scheduler::new(joiner_sim::scheduler::Settings::default())));
        let client = Client::new(server.clone(), "default");
        let controllers = self.catalogue.map(|catalogue| {
            let clock: Arc<dyn joiner_provider::Clock> = Arc::new(clock.clone());
            let provider = KwokProvider::new(client.clone(), catalogue, clock.clone(), self.seed);
            let settings =
                joiner_controllers::Settings { seed: self.seed, ..joiner_controllers::Settings::default() };
            Controllers::new(client.clone(), Arc::new(provider), clock, settings)
        });
        Ok(Parts { server, client, clock, world, controllers })
    }
}
