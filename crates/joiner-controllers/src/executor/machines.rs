//! Calls of the provider, in its own lane.

use std::collections::BTreeSet;

use jiff::Timestamp;
use joiner_provider::{Error, Instance, LaunchRequest, Launched, Unregistered};
use kube::ResourceExt;

use super::{Epoch, Executor, Lane};
use crate::command::{Done, Failure};

impl Executor {
    /// Launches machines; one answer per request, in their order. A launch of which nobody knows what became is looked up.
    pub async fn launch(&self, epoch: Epoch, requests: Vec<LaunchRequest>) -> Vec<Result<Launched, Failure>> {
        let mut answers = self.launch_once(epoch, requests.clone()).await;
        let in_doubt = |answer: &Result<Launched, Failure>| {
            matches!(answer, Err(Failure::Provider(Error::Transient(_))))
        };
        if answers.iter().any(in_doubt)
            && let Ok(instances) = self.list().await
        {
            let standing = instances.iter().filter(|instance| !instance.terminating);
            let there: BTreeSet<&str> = standing.filter_map(|instance| instance.claim.as_deref()).collect();
            let found: Vec<usize> = (0..requests.len())
                .filter(|at| in_doubt(&answers[*at]) && there.contains(&*requests[*at].claim.name_any()))
                .collect();
            if !found.is_empty() {
                // The claim's uid is the token: the provider finds what it launched, and says what it is.
                let again = found.iter().map(|at| requests[*at].clone()).collect();
                let answers_again = self.launch_once(epoch, again).await;
                self.shared.metrics.retry("launch");
                for (at, answer) in found.into_iter().zip(answers_again) {
                    answers[at] = answer;
                }
            }
        }
        for answer in &answers {
            self.shared.metrics.command("launch", answer.as_ref().err().map_or("done", Failure::name));
        }
        answers
    }

    async fn launch_once(
        &self,
        epoch: Epoch,
        requests: Vec<LaunchRequest>,
    ) -> Vec<Result<Launched, Failure>> {
        let (count, limit) = (requests.len(), self.shared.provider_timeout);
        let call = self.shared.provider.launch(requests);
        let mut answers: Vec<Result<Launched, Failure>> =
            match self.pass(Lane::Provider, Some(epoch), limit, call).await {
                Ok(Some(outcomes)) => {
                    outcomes.into_iter().map(|outcome| outcome.map_err(Failure::Provider)).collect()
                }
                Ok(None) => Vec::new(),
                Err(failure) => vec![Err(failure); count],
            };
        answers.resize_with(count, || Err(no_answer()));
        answers
    }

    /// All machines of this cluster.
    ///
    /// # Errors
    /// The provider failed or did not answer.
    pub async fn list(&self) -> Result<Vec<Instance>, Failure> {
        let limit = self.shared.provider_timeout;
        let listed = match self.pass(Lane::Provider, None, limit, self.shared.provider.list()).await {
            Ok(Some(listed)) => listed.map_err(Failure::Provider),
            Ok(None) => Err(no_answer()),
            Err(failure) => Err(failure),
        };
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
        machines: Vec<Unregistered>,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let call = self.shared.provider.adopt(machines, now);
        let adopted = match self.pass(Lane::Provider, Some(epoch), self.shared.provider_timeout, call).await {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(no_answer()),
            Err(failure) => Err(failure),
        };
        self.shared.metrics.command("adopt", adopted.as_ref().err().map_or("done", Failure::name));
        adopted
    }

    pub(super) async fn terminate(&self, epoch: Epoch, provider_id: &str) -> Result<Done, Failure> {
        let call = self.shared.provider.terminate(vec![provider_id.to_owned()]);
        let outcomes = self.pass(Lane::Provider, Some(epoch), self.shared.provider_timeout, call).await?;
        match outcomes.into_iter().flatten().next() {
            Some(Ok(terminated)) => Ok(Done::Machine(terminated)),
            Some(Err(error)) => Err(Failure::Provider(error)),
            None => Err(no_answer()),
        }
    }
}

fn no_answer() -> Failure {
    Failure::Provider(Error::Transient("the provider gave no answer".to_owned()))
}
