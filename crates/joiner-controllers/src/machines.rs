//! Calls of the providers beside the loop: launches, lists, and what a new process takes over.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::names::conditions;
use joiner_provider::{
    Error, Launch, LaunchOutcome, LaunchRequest, Provider, RankedOffering, TypeSet, Unavailable,
    Unregistered, offerings_of_claim,
};
use kube::ResourceExt;
use tokio::sync::mpsc;

use crate::engine::Engine;
use crate::lifecycle::{self, condition, is_true, signed};
use crate::provision;
use crate::queue::Key;
use crate::reports::Report;

/// What one provider is asked for in one turn.
struct Batch {
    provider: Arc<dyn Provider>,
    requests: Vec<LaunchRequest>,
    /// Claims for which there is nothing to try.
    hopeless: Vec<(Arc<NodeClaim>, Error)>,
}

impl Engine {
    /// Hands machines that were launched and have not joined to their providers.
    pub(crate) fn adopt_unregistered(&mut self, now: Timestamp) {
        let mut machines: BTreeMap<String, (Arc<dyn Provider>, Vec<Unregistered>)> = BTreeMap::new();
        for claim in self.world.claims.values() {
            let Some(launched) = condition(claim, conditions::LAUNCHED).filter(|of| of.status == "True")
            else {
                continue;
            };
            let joined = is_true(claim, conditions::REGISTERED) || !self.world.nodes_of(claim).is_empty();
            let Some(provider) = self.registry.provider_of(&claim.spec.node_class_ref) else { continue };
            if joined || claim.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let of_provider = machines.entry(provider.name().to_owned());
            of_provider.or_insert_with(|| (provider.clone(), Vec::new())).1.push(Unregistered {
                claim: claim.clone(),
                class: provision::stored_class(&self.world, &claim.spec.node_class_ref),
                launched_at: launched.last_transition_time.0,
            });
        }
        for (provider, machines) in machines.into_values() {
            self.tasks.spawn(async move { provider.adopt(machines, now).await });
        }
    }

    /// Asks the providers what there is.
    pub(crate) fn list_instances(&mut self) {
        self.busy.insert(Key::Collect, false);
        let (providers, reports) = (self.registry.providers().to_vec(), self.reports.clone());
        self.tasks.spawn(async move {
            let mut lists = Vec::with_capacity(providers.len());
            for provider in providers {
                let listed = provider.list().try_collect().await;
                lists.push((provider.name().to_owned(), listed));
            }
            // Nobody listens any more only at the end.
            let _ = reports.send(Report::Listed(lists)).await;
        });
    }

    /// The claim is launched at the end of this turn, together with the others.
    pub(crate) fn launch_soon(&mut self, claim: Arc<NodeClaim>) {
        self.busy.insert(Key::Claim(claim.name_any()), false);
        self.to_launch.push(claim);
    }

    /// Launches all claims that are to be launched: one batch per provider, each outcome told as it comes.
    pub(crate) fn launch(&mut self) {
        let now = self.now();
        let mut batches: BTreeMap<String, Batch> = BTreeMap::new();
        for claim in std::mem::take(&mut self.to_launch) {
            let class = &claim.spec.node_class_ref;
            let Some(provider) = self.registry.provider_of(class) else {
                self.busy.remove(&Key::Claim(claim.name_any()));
                continue;
            };
            let unavailable = self.health.unavailable(provider.name(), class, now);
            let types = provider.watch_types(class).current();
            let batch = batches.entry(provider.name().to_owned()).or_insert_with(|| Batch {
                provider: provider.clone(),
                requests: Vec::new(),
                hopeless: Vec::new(),
            });
            match self.offerings_to_try(&claim, &types, &unavailable) {
                Ok(offerings) => batch.requests.push(LaunchRequest {
                    class: provision::stored_class(&self.world, class),
                    offerings,
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
            self.tasks.spawn(run(batch, self.reports.clone()));
        }
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

async fn run(batch: Batch, reports: mpsc::Sender<Report>) {
    let Batch { provider, requests, hopeless } = batch;
    let tell = async |claim: Arc<NodeClaim>, result: Result<Launch, Error>| {
        // Nobody listens any more only at the end.
        let _ = reports.send(Report::Launched(claim, result)).await;
    };
    let mut waiting: BTreeMap<String, Arc<NodeClaim>> =
        requests.iter().map(|request| (request.token().to_owned(), request.claim.clone())).collect();
    if !requests.is_empty() {
        let mut outcomes = provider.launch(requests);
        while let Some(LaunchOutcome { token, result }) = outcomes.next().await {
            if let Some(claim) = waiting.remove(&token) {
                tell(claim, result).await;
            }
        }
    }
    for claim in waiting.into_values() {
        let error = Error::Transient(format!("provider {} gave no answer", provider.name()));
        tell(claim, Err(error)).await;
    }
    for (claim, error) in hopeless {
        // An earlier launch may have made its machine, and only the answer was lost.
        let found = provider.find_by_claim(claim.metadata.uid.as_deref().unwrap_or_default()).await;
        let result = match found {
            Ok(Some(launched)) => Ok(Launch::Launched(Box::new(launched))),
            Ok(None) => Err(error),
            Err(failed) => Err(failed),
        };
        tell(claim, result).await;
    }
}
