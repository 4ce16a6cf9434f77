//! What the checks share: single calls of the batch methods, and judgements in words.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use super::{Cloud, Fault};
use crate::{Error, Launch, LaunchRequest, Launched, Listed, Provider, Terminated};

/// Repetitions after which something that should end has not.
pub(super) const MOST_TRIES: usize = 50;

pub(super) fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Launches one machine; there must be one outcome, of this request.
pub(super) async fn launch(
    provider: &Arc<dyn Provider>,
    request: &LaunchRequest,
) -> Result<Result<Launch, Error>, String> {
    let outcomes: Vec<_> = provider.launch(vec![request.clone()]).collect().await;
    match <[_; 1]>::try_from(outcomes) {
        Ok([outcome]) if outcome.token == request.token() => Ok(outcome.result),
        Ok([outcome]) => Err(format!("the outcome is of token `{}`, not of the request's", outcome.token)),
        Err(outcomes) => Err(format!("{} outcomes for one request", outcomes.len())),
    }
}

/// Launches one machine that must come at once.
pub(super) async fn launched(
    provider: &Arc<dyn Provider>,
    request: &LaunchRequest,
) -> Result<Launched, String> {
    match launch(provider, request).await? {
        Ok(Launch::Launched(machine)) => Ok(*machine),
        other => Err(format!("a launch without faults gives {other:?}")),
    }
}

/// Launches until there is a machine, time passing in between.
pub(super) async fn launched_in_the_end(
    cloud: &dyn Cloud,
    provider: &Arc<dyn Provider>,
    request: &LaunchRequest,
) -> Result<Launched, String> {
    let mut last = String::new();
    for _ in 0..MOST_TRIES {
        match launch(provider, request).await? {
            Ok(Launch::Launched(machine)) => return Ok(*machine),
            other => last = format!("{other:?}"),
        }
        cloud.settle().await;
    }
    Err(format!("{MOST_TRIES} launches give no machine; the last gave {last}"))
}

pub(super) async fn terminate(
    provider: &Arc<dyn Provider>,
    id: &str,
) -> Result<Result<Terminated, Error>, String> {
    let mut answers = provider.terminate(vec![id.to_owned()]).await;
    match (answers.pop(), answers.pop()) {
        (Some(answer), None) => Ok(answer),
        _ => Err("not one answer for one id".to_owned()),
    }
}

/// Ends a machine, time passing in between.
pub(super) async fn gone_in_the_end(
    cloud: &dyn Cloud,
    provider: &Arc<dyn Provider>,
    id: &str,
) -> Result<(), String> {
    for _ in 0..MOST_TRIES {
        if let Ok(Terminated::Gone) = terminate(provider, id).await? {
            return Ok(());
        }
        cloud.settle().await;
    }
    Err(format!("`{id}` is not gone after {MOST_TRIES} calls"))
}

/// How many machines the cloud has for a request.
pub(super) async fn count(cloud: &dyn Cloud, request: &LaunchRequest) -> usize {
    cloud.machines().await.iter().filter(|machine| machine.claim_uid == request.token()).count()
}

/// The provider's list, which must be whole.
pub(super) async fn list(provider: &Arc<dyn Provider>) -> Result<Vec<Listed>, String> {
    provider
        .list()
        .try_collect()
        .await
        .map_err(|error: Error| format!("the list ends with an error: {error}"))
}

/// A fault that every cloud can play.
pub(super) fn inject(cloud: &dyn Cloud, fault: Fault) -> Result<(), String> {
    ensure(cloud.inject(fault.clone()), || format!("this cloud must be able to fail by {fault:?}"))
}

/// The request of another claim of the same name.
pub(super) fn of_another_claim(request: &LaunchRequest) -> LaunchRequest {
    let mut claim = (*request.claim).clone();
    claim.metadata.uid = Some(format!("{}-again", request.token()));
    LaunchRequest { claim: claim.into(), ..request.clone() }
}
