//! The autoscaler put together: the same parts for a real cluster and for a simulated one.

use std::sync::Arc;

use joiner_controllers::{Controllers, Fence, GuardLayer, Metrics, Settings};
use joiner_provider::{Clock, Provider, Registry};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use kube::Client;

use crate::kubelets::SimulatedKubelets;

/// What all writes pass, and a client that sends none while it is closed.
pub struct Guarded {
    /// Whoever decides who leads moves it.
    pub fence: Fence,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The way to the API server.
    pub client: Client,
    /// Tells the time, and waits.
    pub clock: Arc<dyn Clock>,
}

impl Guarded {
    /// A client behind a fence; `make` puts the layer around the connection.
    pub fn new(fence: Fence, clock: Arc<dyn Clock>, make: impl FnOnce(&GuardLayer) -> Client) -> Self {
        let metrics = Arc::new(Metrics::default());
        let client = make(&GuardLayer::new(fence.clone(), metrics.clone()));
        Self { fence, metrics, client, clock }
    }

    /// The KWOK provider.
    pub fn kwok(&self, catalogue: Catalogue) -> KwokProvider {
        KwokProvider::new(self.client.clone(), catalogue, self.clock.clone())
    }

    /// Kubelets of KWOK nodes. They act while the fence is open.
    pub fn kubelets(&self, seed: u64) -> SimulatedKubelets {
        SimulatedKubelets::new(self.client.clone(), self.fence.clone(), self.clock.clone(), seed)
    }

    /// Controllers for the pools of these providers.
    ///
    /// # Errors
    /// Two of the providers serve the same pools.
    pub fn controllers(
        &self,
        providers: impl IntoIterator<Item = Arc<dyn Provider>>,
        settings: Settings,
    ) -> anyhow::Result<Controllers> {
        let (fence, client, clock) = (self.fence.clone(), self.client.clone(), self.clock.clone());
        let registry = Registry::new(providers)?;
        Ok(Controllers::behind(fence, client, registry, clock, settings, self.metrics.clone()))
    }
}
