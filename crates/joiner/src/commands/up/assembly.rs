//! The parts of a simulated cluster, put together and not yet alive: server, clock, simulated controllers and scheduler, and joiner.
//!
//! `up` lives them on a thread of its own; tests and measurements live them where and how fast they like.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use joiner_apiserver::service::{ApiServer, Settings as ServerSettings};
use joiner_controllers::{Controllers, Fence};
use joiner_provider::Provider;
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::TypesOfClass;
use joiner_sim::clock::Clock;
use joiner_sim::scheduler::Scheduler;
use joiner_sim::settings::Settings as WorldSettings;
use joiner_sim::world::World;
use kube::Client;
use serde_json::Value;
use tower::Layer;

use super::api_only::Definitions;
use crate::autoscaler::Guarded;
use crate::import::restore;

/// Changes of each resource that are kept for watches. All that must not miss any live in this process and are never far behind; a busy day would
/// otherwise fill gigabytes with the past.
const HISTORY: usize = 20_000;

/// Where the last decisions are written to a ConfigMap.
const RECORD_NAMESPACE: &str = "kube-system";

/// Instance types that can be had.
#[derive(Clone)]
pub struct Offer {
    /// The types of pools of KWOK.
    pub catalogue: Catalogue,
    /// The types of pools of AWS, by their class.
    pub of_class: TypesOfClass,
}

impl From<Catalogue> for Offer {
    fn from(catalogue: Catalogue) -> Self {
        let same = catalogue.clone();
        Self { catalogue, of_class: Arc::new(move |_, _, _| same.clone()) }
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("types", &self.catalogue.types.len()).finish_non_exhaustive()
    }
}

/// How a cluster is put together.
#[derive(Debug)]
pub struct Design {
    /// The clock of all parts.
    pub clock: Clock,
    /// Where chance comes from.
    pub seed: u64,
    /// Instance types joiner can have; nothing if joiner is not in the cluster.
    pub catalogue: Option<Offer>,
    /// Where objects are kept.
    pub folder: Option<PathBuf>,
    /// Objects of another cluster, which live on in this one.
    pub restored: Vec<Value>,
    /// How long after a node is ready its startup taints go; nothing if they stay.
    pub startup_taints: Option<Duration>,
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
    /// What the user should know of the objects that were restored.
    pub notes: Vec<String>,
}

impl Design {
    /// Puts a cluster together. Call this inside the runtime that will run it.
    ///
    /// # Errors
    /// The folder cannot be used, or an object cannot be restored.
    pub fn assemble(self) -> anyhow::Result<Parts> {
        let definitions = Definitions::begin()?;
        let clock = self.clock;
        let settings = ServerSettings {
            seed: self.seed ^ restore::mark(&self.restored),
            usage: true,
            leases: true,
            history: HISTORY,
            ..ServerSettings::default()
        };
        let server = match &self.folder {
            Some(folder) => ApiServer::in_folder(Arc::new(clock.clone()), &settings, folder)?,
            None => ApiServer::new(Arc::new(clock.clone()), &settings),
        };
        definitions.install(&server)?;
        // Before anybody watches: a hundred thousand objects are no news to those who come after.
        let notes = match self.restored {
            objects if objects.is_empty() => Vec::new(),
            objects => restore::restore(&server, objects)?.notes(),
        };
        let world_settings = WorldSettings { seed: self.seed, ..WorldSettings::default() };
        let mut world = World::around(server.clone(), clock.clone(), world_settings);
        world.join(Box::new(Scheduler::new(joiner_sim::scheduler::Settings::default())));
        let client = Client::new(server.clone(), "default");
        let controllers =
            self.catalogue.map(|Offer { catalogue, of_class }| -> anyhow::Result<Controllers> {
                let clock: Arc<dyn joiner_provider::Clock> = Arc::new(clock.clone());
                // Nobody else leads here.
                let fence = Fence::open(clock.clone(), 1);
                let guarded =
                    Guarded::new(fence, clock, |layer| Client::new(layer.layer(server.clone()), "default"));
                let mut provider = guarded.kwok(catalogue).serving_aws(of_class);
                if let Some(after) = self.startup_taints {
                    provider = provider.lifting_startup_taints(after);
                }
                let settings = joiner_controllers::Settings {
                    seed: self.seed,
                    record_namespace: Some(RECORD_NAMESPACE.to_owned()),
                    ..joiner_controllers::Settings::default()
                };
                let provider: Arc<dyn Provider> = Arc::new(provider);
                guarded.controllers([provider], settings)
            });
        let controllers = controllers.transpose()?;
        Ok(Parts { server, client, clock, world, controllers, notes })
    }
}
