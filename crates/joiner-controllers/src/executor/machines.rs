//! Calls of the providers, in their own lane.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_provider::{
    Error, GroupKind, Handle, HookAnswer, HookPoint, Instance, Launch, LaunchOutcome, LaunchRequest, Listed,
    Monotonic, Provider, Terminated, Unregistered,
};
use k8s_openapi::api::core::v1::Node;
use tokio::sync::mpsc::UnboundedSender;

use super::{Epoch, Executor, Lane, Problem};
use crate::collect::still_unclaimed;
use crate::command::{Done, Failure};

/// What became of the launch of a claim.
pub type Launching = (Arc<NodeClaim>, Result<Launch, Failure>);

impl Executor {
    /// Launches machines and tells each outcome as it comes, one per request. A launch of which nobody knows what became is looked up before it is
    /// told.
    pub async fn launch(
        &self,
        epoch: Epoch,
        provider: &dyn Provider,
        requests: Vec<LaunchRequest>,
        outcomes: &UnboundedSender<Launching>,
    ) {
        let mut waiting: BTreeMap<String, Arc<NodeClaim>> =
            requests.iter().map(|request| (request.token().to_owned(), request.claim.clone())).collect();
        let mut in_doubt: Vec<(Arc<NodeClaim>, Failure)> = Vec::new();
        let call = async {
            let mut answers = provider.launch(requests);
            while let Some(LaunchOutcome { token, result }) = answers.next().await {
                let Some(claim) = waiting.remove(&token) else { continue };
                if let Err(error) = &result {
                    let failure = Failure::Provider(error.clone());
                    self.shared.metrics.provider_error(
                        ["nodeclaim.lifecycle", "Create"],
                        provider.name(),
                        &failure,
                    );
                }
                match result.map_err(Failure::Provider) {
                    Err(failure @ Failure::Provider(Error::Transient(_))) => in_doubt.push((claim, failure)),
                    result => self.tell(outcomes, claim, result),
                }
            }
        };
        let limit = self.shared.provider_timeout;
        let begun = self.shared.clock.monotonic();
        let passed = self.pass(Lane::Provider, Some(epoch), limit, call).await;
        self.measure(["nodeclaim.lifecycle", "Create"], provider.name(), begun, passed.as_ref().err());
        match passed {
            Ok(_) => in_doubt.extend(waiting.into_values().map(|claim| (claim, no_answer()))),
            Err(failure) => {
                waiting.into_values().for_each(|claim| self.tell(outcomes, claim, Err(failure.clone())));
            }
        }
        for (claim, failure) in in_doubt {
            self.look_up(provider, claim, failure, outcomes).await;
        }
    }

    /// Tells of a machine that an earlier launch may have made although its answer was lost; if there is none, the failure.
    pub async fn look_up(
        &self,
        provider: &dyn Provider,
        claim: Arc<NodeClaim>,
        failure: Failure,
        outcomes: &UnboundedSender<Launching>,
    ) {
        let question = provider.find_by_claim(claim.metadata.uid.as_deref().unwrap_or_default());
        let begun = self.shared.clock.monotonic();
        let found = match self.pass(Lane::Provider, None, self.shared.provider_timeout, question).await {
            Ok(Some(found)) => found.map_err(Failure::Provider),
            Ok(None) => Err(no_answer()),
            Err(failure) => Err(failure),
        };
        self.measure(["nodeclaim.lifecycle", "Get"], provider.name(), begun, found.as_ref().err());
        let result = match found {
            Ok(Some(launched)) => {
                self.shared.metrics.retry("launch");
                Ok(Launch::Launched(Box::new(launched)))
            }
            Ok(None) => Err(failure),
            Err(failed) => Err(failed),
        };
        self.tell(outcomes, claim, result);
    }

    /// Measures a call of a provider that began then.
    fn measure(&self, call: [&'static str; 2], provider: &str, begun: Monotonic, failure: Option<&Failure>) {
        let time = self.shared.clock.monotonic().since(begun);
        self.shared.metrics.provider_call(call, provider, time, failure);
    }

    fn tell(
        &self,
        outcomes: &UnboundedSender<Launching>,
        claim: Arc<NodeClaim>,
        result: Result<Launch, Failure>,
    ) {
        self.shared.metrics.command("launch", result.as_ref().err().map_or("done", Failure::name));
        // Nobody listens any more only at the end.
        let _ = outcomes.send((claim, result));
    }

    /// All machines of this cluster that a provider has.
    ///
    /// # Errors
    /// The provider failed or did not answer.
    pub async fn list(&self, provider: &dyn Provider) -> Result<Vec<Listed>, Failure> {
        let begun = self.shared.clock.monotonic();
        let call = provider.list().try_collect::<Vec<Listed>>();
        let listed = match self.pass(Lane::Provider, None, self.shared.provider_timeout, call).await {
            Ok(Some(listed)) => listed.map_err(Failure::Provider),
            Ok(None) => Err(no_answer()),
            Err(failure) => Err(failure),
        };
        self.measure(["nodeclaim.garbagecollection", "List"], provider.name(), begun, listed.as_ref().err());
        self.shared.metrics.command("list_machines", listed.as_ref().err().map_or("done", Failure::name));
        listed
    }

    /// Hands machines over that were launched before a restart.
    ///
    /// # Errors
    /// It is no longer ours to do, or the provider did not answer.
    pub async fn adopt(
        &self,
        epoch: Epoch,
        provider: &dyn Provider,
        machines: Vec<Unregistered>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let call = provider.adopt(machines, now);
        let adopted = match self.pass(Lane::Provider, Some(epoch), self.shared.provider_timeout, call).await {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(no_answer()),
            Err(failure) => Err(failure),
        };
        self.shared.metrics.command("adopt", adopted.as_ref().err().map_or("done", Failure::name));
        adopted
    }

    pub(super) async fn terminate(
        &self,
        epoch: Epoch,
        class: &GroupKind,
        provider_id: &str,
    ) -> Result<Done, Failure> {
        let (provider, begun) = (self.provider_of(class)?, self.shared.clock.monotonic());
        let call = provider.terminate(vec![provider_id.to_owned()]);
        let passed = self.pass(Lane::Provider, Some(epoch), self.shared.provider_timeout, call).await;
        let done = passed.and_then(machine_done);
        self.measure(["node.termination", "Delete"], provider.name(), begun, done.as_ref().err());
        done
    }

    pub(super) async fn cancel(
        &self,
        epoch: Epoch,
        class: &GroupKind,
        handle: &Handle,
    ) -> Result<Done, Failure> {
        let call = self.provider_of(class)?.cancel(vec![handle.clone()]);
        machine_done(self.pass(Lane::Provider, Some(epoch), self.shared.provider_timeout, call).await?)
    }

    /// Ends the machine that was made for a claim, if there is one; the provider is asked again until it finds none.
    pub(super) async fn end_machine_of(
        &self,
        epoch: Epoch,
        class: &GroupKind,
        claim_uid: &str,
    ) -> Result<Done, Failure> {
        let question = self.provider_of(class)?.find_by_claim(claim_uid);
        match self.pass(Lane::Provider, Some(epoch), self.shared.provider_timeout, question).await? {
            Some(Ok(None)) => Ok(Done::Machine(Terminated::Gone)),
            Some(Ok(Some(machine))) => self.terminate(epoch, class, &machine.provider_id).await,
            Some(Err(error)) => Err(Failure::Provider(error)),
            None => Err(no_answer()),
        }
    }

    /// Of machines that seem to have no claim, those that have none by the API server's own word.
    ///
    /// # Errors
    /// The claims could not be read.
    pub async fn unclaimed(&self, machines: Vec<Instance>) -> Result<Vec<String>, Failure> {
        let question = self.shared.calls.all_claims();
        match self.pass(Lane::Reads, None, self.shared.call_timeout, question).await? {
            Some(Ok(claims)) => Ok(still_unclaimed(machines, &claims)),
            Some(Err(Problem::Refused(failure))) => Err(failure),
            Some(Err(Problem::Unanswered(why))) => Err(Failure::Other(why)),
            None => Err(Failure::Other("the API server gave no answer".to_owned())),
        }
    }

    /// Lets a provider do its part before the life of a machine goes on.
    ///
    /// # Errors
    /// It failed, it did not answer, or it is no longer ours to ask.
    pub async fn hook(
        &self,
        epoch: Epoch,
        provider: &dyn Provider,
        point: HookPoint,
        claim: &NodeClaim,
        node: &Node,
    ) -> Result<HookAnswer, Failure> {
        let call = provider.hook(point, claim, node);
        let answer = match self.pass(Lane::Provider, Some(epoch), self.shared.provider_timeout, call).await {
            Ok(Some(answer)) => answer.map_err(Failure::Provider),
            Ok(None) => Err(no_answer()),
            Err(failure) => Err(failure),
        };
        self.shared.metrics.command("hook", answer.as_ref().err().map_or("done", Failure::name));
        answer
    }

    pub(super) async fn find_machine(&self, class: &GroupKind, provider_id: &str) -> Result<Done, Failure> {
        let found = self.get(self.provider_of(class)?.as_ref(), vec![provider_id.to_owned()]).await;
        match found.into_iter().next() {
            Some((_, Ok(found))) => Ok(Done::Found(found)),
            Some((_, Err(failure))) => Err(failure),
            None => Err(no_answer()),
        }
    }

    /// Whether a provider has machines, each asked for by its id; those of which it says nothing count as failed.
    pub async fn get(
        &self,
        provider: &dyn Provider,
        ids: Vec<String>,
    ) -> Vec<(String, Result<bool, Failure>)> {
        let call = provider.get(ids.clone());
        let answers = match self.pass(Lane::Provider, None, self.shared.provider_timeout, call).await {
            Ok(Some(answers)) => answers,
            Ok(None) => Vec::new(),
            Err(failure) => return ids.into_iter().map(|id| (id, Err(failure.clone()))).collect(),
        };
        let mut answers = answers.into_iter();
        let found = ids.into_iter().map(|id| {
            let found = match answers.next() {
                Some(Ok(machine)) => Ok(machine.is_some()),
                Some(Err(error)) => Err(Failure::Provider(error)),
                None => Err(no_answer()),
            };
            (id, found)
        });
        found.collect()
    }

    fn provider_of(&self, class: &GroupKind) -> Result<&Arc<dyn Provider>, Failure> {
        let provider = self.shared.registry.provider_of_kind(class);
        provider.ok_or_else(|| Failure::Other(format!("node classes of kind `{class}` are not served here")))
    }
}

fn machine_done(outcomes: Option<Vec<Result<Terminated, Error>>>) -> Result<Done, Failure> {
    match outcomes.into_iter().flatten().next() {
        Some(Ok(terminated)) => Ok(Done::Machine(terminated)),
        Some(Err(error)) => Err(Failure::Provider(error)),
        None => Err(no_answer()),
    }
}

fn no_answer() -> Failure {
    Failure::Provider(Error::Transient("the provider gave no answer".to_owned()))
}
