//! From a request to a machine.

use std::collections::BTreeSet;

use futures::StreamExt;
use joiner_api::names::{CAPACITY_TYPE_LABEL, INSTANCE_TYPE_LABEL, ZONE_LABEL};
use joiner_api::quantity::Quantity;

use super::support::{count, ensure, inject, launch, launched, launched_in_the_end, list, of_another_claim};
use super::{Cloud, Fault};
use crate::{Error, Launch, Listed};

/// Machines of a large batch.
const MANY: usize = 100;

pub(super) async fn types_are_there(cloud: &dyn Cloud) -> Result<(), String> {
    let request = cloud.request("types");
    let types = cloud.provider().watch_types(&request.claim.spec.node_class_ref).current();
    ensure(types.generation > 0, || "the generation of the first set is 0; begin with 1".to_owned())?;
    ensure(request.offerings.len() >= 2, || "give requests at least two offerings".to_owned())?;
    for offering in request.offerings.iter() {
        ensure(types.find(&offering.key).is_some(), || format!("{:?} is not in the types", offering.key))?;
    }
    ensure(types.well_known.is_sorted(), || format!("label keys are not sorted: {:?}", types.well_known))
}

pub(super) async fn first_offering_is_taken(cloud: &dyn Cloud) -> Result<(), String> {
    let mut request = cloud.request("first");
    let provider = cloud.provider();
    for round in 0..2 {
        let machine = launched(&provider, &request).await?;
        let first = &request.offerings[0].key;
        let bought = &machine.offering;
        ensure(bought == first, || format!("{bought:?} was bought, the first is {first:?}"))?;
        for (key, value) in [
            (INSTANCE_TYPE_LABEL, Some(&first.instance_type)),
            (ZONE_LABEL, first.zone.as_ref()),
            (CAPACITY_TYPE_LABEL, first.capacity_type.as_ref()),
        ] {
            let label = machine.labels.get(key);
            ensure(label == value, || format!("label `{key}` is {label:?}, bought was {value:?}"))?;
        }
        for (name, amount) in &machine.allocatable {
            let parsed = |text: &str| Quantity::parse(text).ok();
            let whole = machine.capacity.get(name).and_then(|of| parsed(&of.0));
            let fits = matches!((parsed(&amount.0), whole), (Some(part), Some(whole)) if part <= whole);
            ensure(fits, || format!("allocatable {name} is {}, capacity {whole:?}", amount.0))?;
        }
        // The order is the caller's, whatever it costs.
        request = cloud.request(&format!("first-{round}"));
        request.offerings = request.offerings.iter().rev().cloned().collect();
    }
    Ok(())
}

pub(super) async fn next_offering_is_taken(cloud: &dyn Cloud) -> Result<(), String> {
    let provider = cloud.provider();
    let mut request = cloud.request("scarce");
    let first = request.offerings[0].key.clone();
    if !cloud.inject(Fault::NoCapacity(first.clone())) {
        return Ok(());
    }
    request.offerings = request.offerings[..2].into();
    let machine = launched(&provider, &request).await?;
    let second = &request.offerings[1].key;
    ensure(machine.offering == *second, || {
        format!("{:?} was bought, {second:?} was left", machine.offering)
    })?;
    let mut request = cloud.request("none-left");
    request.offerings = request.offerings[..1].into();
    match launch(&provider, &request).await? {
        Err(Error::NoCapacity { scopes, .. }) if !scopes.is_empty() => {}
        other => return Err(format!("without capacity a launch gives {other:?}, not its scopes")),
    }
    ensure(count(cloud, &request).await == 0, || "a machine was left of it".to_owned())
}

pub(super) async fn batch_is_answered(cloud: &dyn Cloud) -> Result<(), String> {
    let requests: Vec<_> = (0..MANY).map(|number| cloud.request(&format!("many-{number}"))).collect();
    let provider = cloud.provider();
    let mut waiting: BTreeSet<String> = requests.iter().map(|request| request.token().to_owned()).collect();
    ensure(waiting.len() == MANY, || "claims of different names must have different uids".to_owned())?;
    let mut ids = BTreeSet::new();
    let mut outcomes = provider.launch(requests);
    while let Some(outcome) = outcomes.next().await {
        ensure(waiting.remove(&outcome.token), || {
            format!("`{}` is answered twice, or was not asked", outcome.token)
        })?;
        match outcome.result {
            Ok(Launch::Launched(machine)) => {
                ensure(ids.insert(machine.provider_id.clone()), || {
                    format!("`{}` comes twice", machine.provider_id)
                })?;
            }
            other => return Err(format!("a launch without faults gives {other:?}")),
        }
    }
    ensure(waiting.is_empty(), || format!("{} of {MANY} requests have no outcome", waiting.len()))?;
    let made = cloud.machines().await.len();
    ensure(made == MANY, || format!("the cloud has {made} machines for {MANY} requests"))
}

pub(super) async fn launch_is_idempotent(cloud: &dyn Cloud) -> Result<(), String> {
    let provider = cloud.provider();
    let mut request = cloud.request("again");
    let first = launched(&provider, &request).await?;
    // The order may be another one by the time of the second call; the machine is not.
    request.offerings = request.offerings.iter().rev().cloned().collect();
    let second = launched(&provider, &request).await?;
    ensure(first == second, || format!("the second launch gives {second:?}, the first gave {first:?}"))?;
    let third = launched(&cloud.provider(), &request).await?;
    let same = first.provider_id == third.provider_id && first.labels == third.labels;
    ensure(same, || format!("a new process launches {third:?}, there was {first:?}"))?;
    let made = count(cloud, &request).await;
    ensure(made == 1, || format!("the cloud has {made} machines for one claim"))
}

pub(super) async fn names_are_no_tokens(cloud: &dyn Cloud) -> Result<(), String> {
    let provider = cloud.provider();
    let request = cloud.request("namesake");
    let first = launched(&provider, &request).await?;
    match launch(&provider, &of_another_claim(&request)).await? {
        Ok(Launch::Launched(second)) => ensure(first.provider_id != second.provider_id, || {
            format!("`{}` was launched for an earlier claim of that name", first.provider_id)
        }),
        // It may be that no two machines can have that name; then the second waits for the end of the first.
        _ => Ok(()),
    }
}

pub(super) async fn launch_survives_crashes(cloud: &dyn Cloud) -> Result<(), String> {
    launch_survives(cloud, |after_calls| Fault::Crash { after_calls }).await
}

pub(super) async fn launch_survives_lost_answers(cloud: &dyn Cloud) -> Result<(), String> {
    launch_survives(cloud, |after_calls| Fault::LostAnswer { after_calls }).await
}

/// Launches with a fault at each call in turn, until one comes through untouched.
async fn launch_survives(cloud: &dyn Cloud, fault: fn(usize) -> Fault) -> Result<(), String> {
    for calls in 0.. {
        let request = cloud.request(&format!("fault-{calls}"));
        let mut provider = cloud.provider();
        inject(cloud, fault(calls))?;
        let came_through = launch(&provider, &request).await?.is_ok();
        if matches!(fault(calls), Fault::Crash { .. }) {
            provider = cloud.provider();
        }
        let machine = launched_in_the_end(cloud, &provider, &request).await?;
        cloud.settle().await;
        let made = count(cloud, &request).await;
        ensure(made == 1, || format!("{made} machines after {:?}", fault(calls)))?;
        let listed = list(&cloud.provider()).await?;
        let is_it =
            |item: &Listed| matches!(item, Listed::Instance(of) if of.provider_id == machine.provider_id);
        ensure(listed.iter().any(is_it), || format!("`{}` is not listed", machine.provider_id))?;
        if came_through {
            return ensure(calls > 0, || format!("a launch does not notice {:?}", fault(calls)));
        }
    }
    Ok(())
}

pub(super) async fn failures_are_per_item(cloud: &dyn Cloud) -> Result<(), String> {
    let provider = cloud.provider();
    inject(cloud, Fault::BrokenFor("broken".to_owned()))?;
    let requests = ["sound-1", "broken", "sound-2"].map(|name| cloud.request(name));
    let broken = requests[1].token().to_owned();
    let outcomes: Vec<_> = provider.launch(requests.to_vec()).collect().await;
    ensure(outcomes.len() == 3, || format!("{} outcomes for three requests", outcomes.len()))?;
    for outcome in outcomes {
        let expected = outcome.token != broken;
        ensure(outcome.result.is_ok() == expected, || {
            format!("`{}` gives {:?}", outcome.token, outcome.result)
        })?;
    }
    Ok(())
}

pub(super) async fn machine_is_found_by_claim(cloud: &dyn Cloud) -> Result<(), String> {
    let request = cloud.request("found");
    let machine = launched(&cloud.provider(), &request).await?;
    cloud.settle().await;
    let provider = cloud.provider();
    let found = provider.find_by_claim(request.token()).await.map_err(|error| error.to_string())?;
    let id = found.map(|found| found.provider_id);
    ensure(id.as_ref() == Some(&machine.provider_id), || {
        format!("found {id:?}, launched {}", machine.provider_id)
    })?;
    let other = of_another_claim(&request);
    let found = provider.find_by_claim(other.token()).await.map_err(|error| error.to_string())?;
    ensure(found.is_none(), || format!("a claim without a machine has {found:?}"))
}

pub(super) async fn pending_resolves(cloud: &dyn Cloud) -> Result<(), String> {
    if !cloud.inject(Fault::LateIdentity) {
        return Ok(());
    }
    let provider = cloud.provider();
    cloud.inject(Fault::LateIdentity);
    let request = cloud.request("late");
    let pending = async || match launch(&provider, &request).await? {
        Ok(Launch::Pending(handle)) => Ok(handle),
        other => Err(format!("a launch that takes its time gives {other:?}")),
    };
    let handle = pending().await?;
    let again = pending().await?;
    ensure(handle == again, || format!("the handle was `{handle}`, now it is `{again}`"))?;
    cloud.settle().await;
    let polled = provider.poll(vec![handle.clone()]).await;
    let [Ok(Launch::Launched(polled))] = &polled[..] else {
        return Err(format!("polling `{handle}` gives {polled:?}"));
    };
    let repeated = launched(&cloud.provider(), &request).await?;
    ensure(polled.provider_id == repeated.provider_id, || {
        format!("polled {polled:?}, launched {repeated:?}")
    })?;
    let made = count(cloud, &request).await;
    ensure(made == 1, || format!("the cloud has {made} machines for one claim"))
}
