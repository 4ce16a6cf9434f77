//! Calls of the providers beside the loop: launches, lists, and what a new process takes over.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::names::{NODEPOOL_LABEL, conditions};
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{
    Error, LaunchRequest, Provider, RankedOffering, TypeSet, Unavailable, Unregistered, offerings_of_claim,
};
use kube::ResourceExt;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::command::Failure;
use crate::engine::Engine;
use crate::executor::{Epoch, Executor};
use crate::offerings::unavailable_now;
use crate::provision::{self, Context};
use crate::queue::Key;
use crate::reports::Report;
use crate::steps::lifecycle::{self, condition, is_true, signed};
use crate::tasks::panic_message;

/// What one provider is asked for in one turn.
struct Batch {
    provider: Arc<dyn Provider>,
    requests: Vec<LaunchRequest>,
    /// Claims for which there is nothing to try.
    hopeless: Vec<(Arc<NodeClaim>, Error)>,
}

/// What the launches of one node class have in common.
struct OfClass {
    stored: Option<Arc<Value>>,
    types: Arc<TypeSet>,
    unavailable: Unavailable,
}

impl Engine {
    /// Hands machines that were launched and have not joined to their providers.
    pub(crate) fn adopt_unregistered(&mut self) {
        let mut machines: BTreeMap<String, Vec<Unregistered>> = BTreeMap::new();
        for claim in self.cache.claims.values() {
            let Some(launched) = condition(claim, conditions::LAUNCHED).filter(|of| of.status == "True")
            else {
                continue;
            };
            let joined = is_true(claim, conditions::REGISTERED) || !self.cache.nodes_of(claim).is_empty();
            let Some(provider) = self.registry.provider_of(&claim.spec.node_class_ref) else { continue };
            if joined || claim.metadata.deletion_timestamp.is_some() {
                continue;
            }
            machines.entry(provider.name().to_owned()).or_default().push(Unregistered {
                claim: claim.clone(),
                class: provision::stored_class(&self.cache, &claim.spec.node_class_ref),
                launched_at: launched.last_transition_time.0,
            });
        }
        self.adopt(machines);
    }

    /// Tells providers, by name, of machines that were launched by another process.
    pub(crate) fn adopt(&mut self, machines: BTreeMap<String, Vec<Unregistered>>) {
        for (name, machines) in machines {
            let Some(provider) = self.registry.providers().iter().find(|of| of.name() == name).cloned()
            else {
                continue;
            };
            let (executor, epoch, now) = (self.executor.clone(), self.executor.fence().epoch(), self.now());
            self.spawn_guarded(Vec::new(), async move {
                let adopted = executor.adopt(epoch, &*provider, machines.clone(), now).await;
                Report::Adopted(name, machines, adopted)
            });
        }
    }

    /// Asks the providers what there is.
    pub(crate) fn list_instances(&mut self) {
        self.busy.insert(Key::Collect, false);
        let (providers, executor) = (self.registry.providers().to_vec(), self.executor.clone());
        self.spawn_guarded(vec![Key::Collect], async move {
            let mut lists = Vec::with_capacity(providers.len());
            for provider in providers {
                lists.push((provider.name().to_owned(), executor.list(&*provider).await));
            }
            Report::Listed(lists)
        });
    }

    /// The claim is launched at the end of this turn, together with the others.
    pub(crate) fn launch_soon(&mut self, claim: Arc<NodeClaim>) {
        if !self.leads() {
            return;
        }
        self.busy.insert(Key::Claim(claim.name_any()), false);
        self.to_launch.push(claim);
    }

    /// Launches all claims that are to be launched: one batch per provider, each outcome told as it comes.
    pub(crate) fn launch(&mut self) {
        let now = self.now();
        let mut batches: BTreeMap<String, Batch> = BTreeMap::new();
        let mut classes: BTreeMap<NodeClassReference, OfClass> = BTreeMap::new();
        let to_launch = std::mem::take(&mut self.to_launch);
        if to_launch.is_empty() {
            return;
        }
        let overlaid = self.overlaid(now);
        for claim in to_launch {
            let class = &claim.spec.node_class_ref;
            let Some(provider) = self.registry.provider_of(class) else {
                self.busy.remove(&Key::Claim(claim.name_any()));
                continue;
            };
            let OfClass { stored, types, unavailable } =
                classes.entry(class.clone()).or_insert_with(|| OfClass {
                    stored: provision::stored_class(&self.cache, class),
                    types: provider.watch_types(class).current(),
                    unavailable: unavailable_now(&self.registry, &self.health, &self.settings, class, now),
                });
            let batch = batches.entry(provider.name().to_owned()).or_insert_with(|| Batch {
                provider: provider.clone(),
                requests: Vec::new(),
                hopeless: Vec::new(),
            });
            let overlaid = claim.labels().get(NODEPOOL_LABEL).and_then(|pool| overlaid.get(pool)).cloned();
            match self.offerings_to_try(&claim, overlaid.as_deref().unwrap_or(types), unavailable) {
                Ok(offerings) => batch.requests.push(LaunchRequest {
                    class: stored.clone(),
                    offerings,
                    overlaid,
                    unavailable_subnets: unavailable.subnets().clone(),
                    deadline: lifecycle::created(&claim, now)
                        .checked_add(signed(self.settings.launch_timeout))
                        .unwrap_or(Timestamp::MAX),
                    claim,
                }),
                Err(error) => batch.hopeless.push((claim, error)),
            }
        }
        for batch in batches.into_values() {
            let (executor, epoch) = (self.executor.clone(), self.executor.fence().epoch());
            self.tasks.spawn(run(batch, executor, epoch, self.reports.clone()));
        }
    }

    /// The types of pools as overlays make them now.
    fn overlaid(&mut self, now: Timestamp) -> BTreeMap<String, Arc<TypeSet>> {
        let context = Context {
            registry: &self.registry,
            settings: &self.settings,
            health: &self.health,
            expected: &BTreeMap::new(),
            provisionable: &self.provisionable,
            watches: &self.watches,
            now,
        };
        self.planning.overlaid(&self.cache, &context)
    }

    /// The offerings of the plan that can still be had. After a restart, or when none is left of them, the claim itself tells: it allows
    /// what the plan did.
    fn offerings_to_try(
        &self,
        claim: &NodeClaim,
        types: &TypeSet,
        unavailable: &Unavailable,
    ) -> Result<Arc<[RankedOffering]>, Error> {
        let planned = self.planned_offerings.get(&claim.name_any());
        match planned {
            Some(planned) if unavailable.is_empty() => return Ok(planned.clone()),
            Some(planned) => {
                let can_be_had = planned.iter().filter(|of| !unavailable.contains(&of.key));
                let left: Vec<RankedOffering> = can_be_had.cloned().collect();
                if !left.is_empty() {
                    return Ok(left.into());
                }
            }
            None => {}
        }
        Ok(offerings_of_claim(claim, types, unavailable)?.into())
    }
}

/// Launches a batch, and passes each outcome on as it comes.
async fn run(batch: Batch, executor: Executor, epoch: Epoch, reports: mpsc::Sender<Report>) {
    let Batch { provider, requests, hopeless } = batch;
    let claims = requests.iter().map(|request| &request.claim).chain(hopeless.iter().map(|(claim, _)| claim));
    let keys: Vec<Key> = claims.map(|claim| Key::Claim(claim.name_any())).collect();
    let (outcomes, mut told) = mpsc::unbounded_channel();
    let work = async move {
        if !requests.is_empty() {
            executor.launch(epoch, &*provider, requests, &outcomes).await;
        }
        for (claim, error) in hopeless {
            // An earlier launch may have made its machine, and only the answer was lost.
            executor.look_up(&*provider, claim, Failure::Provider(error), &outcomes).await;
        }
    };
    let pass_on = async {
        while let Some((claim, result)) = told.recv().await {
            // Nobody listens any more only at the end.
            let _ = reports.send(Report::Launched(claim, result)).await;
        }
    };
    let (done, ()) = futures::future::join(AssertUnwindSafe(work).catch_unwind(), pass_on).await;
    if let Err(panic) = done {
        let _ = reports.send(Report::Panicked { keys, message: panic_message(&*panic) }).await;
    }
}
