//! From a machine to none.

use super::support::{MOST_TRIES, count, ensure, gone_in_the_end, inject, launch, launched, terminate};
use super::{Cloud, Fault};
use crate::{Handle, Launch, Terminated};

pub(super) async fn cancel_leaves_nothing(cloud: &dyn Cloud) -> Result<(), String> {
    let unknown = cloud.provider().cancel(vec![Handle("nobody knows me".to_owned())]).await;
    ensure(unknown == [Ok(Terminated::Gone)], || format!("cancelling what is not there gives {unknown:?}"))?;
    let provider = cloud.provider();
    if !cloud.inject(Fault::LateIdentity) {
        return Ok(());
    }
    for waits in [false, true] {
        let request = cloud.request(&format!("cancelled-{waits}"));
        let handle = match launch(&provider, &request).await? {
            Ok(Launch::Pending(handle)) => handle,
            other => return Err(format!("a launch that takes its time gives {other:?}")),
        };
        if waits {
            // It may have become a machine by the time its claim goes.
            cloud.settle().await;
        }
        let mut gone = false;
        for _ in 0..MOST_TRIES {
            gone = provider.cancel(vec![handle.clone()]).await == [Ok(Terminated::Gone)];
            if gone {
                break;
            }
            cloud.settle().await;
        }
        ensure(gone, || format!("`{handle}` is not cancelled after {MOST_TRIES} calls"))?;
        cloud.settle().await;
        let left = count(cloud, &request).await;
        ensure(left == 0, || format!("{left} machines are left of a cancelled launch"))?;
    }
    Ok(())
}

pub(super) async fn exactly_the_named_is_ended(cloud: &dyn Cloud) -> Result<(), String> {
    let provider = cloud.provider();
    let requests = ["goes", "goes-not"].map(|name| cloud.request(name));
    let machine = launched(&provider, &requests[0]).await?;
    launched(&provider, &requests[1]).await?;
    cloud.settle().await;
    for unknown in ["", "no such machine", &format!("{}0", machine.provider_id)] {
        let answer = terminate(&provider, unknown).await?;
        ensure(answer == Ok(Terminated::Gone), || {
            format!("ending the unknown `{unknown}` gives {answer:?}")
        })?;
    }
    gone_in_the_end(cloud, &provider, &machine.provider_id).await?;
    // Asked again, also by a new process.
    gone_in_the_end(cloud, &cloud.provider(), &machine.provider_id).await?;
    cloud.settle().await;
    let left = [count(cloud, &requests[0]).await, count(cloud, &requests[1]).await];
    ensure(left == [0, 1], || format!("machines left of the one ended and of the other: {left:?}"))
}

pub(super) async fn ending_survives_crashes(cloud: &dyn Cloud) -> Result<(), String> {
    ending_survives(cloud, |after_calls| Fault::Crash { after_calls }).await
}

pub(super) async fn ending_survives_lost_answers(cloud: &dyn Cloud) -> Result<(), String> {
    ending_survives(cloud, |after_calls| Fault::LostAnswer { after_calls }).await
}

/// Ends machines with a fault at each call in turn, until one comes through untouched.
async fn ending_survives(cloud: &dyn Cloud, fault: fn(usize) -> Fault) -> Result<(), String> {
    for calls in 0.. {
        let requests = ["end", "stay"].map(|name| cloud.request(&format!("{name}-{calls}")));
        let machine = launched(&cloud.provider(), &requests[0]).await?;
        launched(&cloud.provider(), &requests[1]).await?;
        cloud.settle().await;
        let mut provider = cloud.provider();
        inject(cloud, fault(calls))?;
        let came_through = terminate(&provider, &machine.provider_id).await?.is_ok();
        if matches!(fault(calls), Fault::Crash { .. }) {
            provider = cloud.provider();
        }
        gone_in_the_end(cloud, &provider, &machine.provider_id).await?;
        cloud.settle().await;
        let left = [count(cloud, &requests[0]).await, count(cloud, &requests[1]).await];
        ensure(left == [0, 1], || format!("machines left after {:?}: {left:?}", fault(calls)))?;
        if came_through {
            return ensure(calls > 0, || format!("an ending does not notice {:?}", fault(calls)));
        }
    }
    Ok(())
}

pub(super) async fn failures_are_per_item(cloud: &dyn Cloud) -> Result<(), String> {
    let provider = cloud.provider();
    let requests = ["sound-1", "broken", "sound-2"].map(|name| cloud.request(name));
    let mut ids = Vec::new();
    for request in &requests {
        ids.push(launched(&provider, request).await?.provider_id);
    }
    cloud.settle().await;
    inject(cloud, Fault::BrokenFor("broken".to_owned()))?;
    let got = provider.get(ids.clone()).await;
    let sound: Vec<bool> = got.iter().map(Result::is_ok).collect();
    ensure(sound == [true, false, true], || format!("getting three, one of them broken, gives {got:?}"))?;
    let ended = provider.terminate(ids).await;
    let sound: Vec<bool> = ended.iter().map(Result::is_ok).collect();
    ensure(sound == [true, false, true], || format!("ending three, one of them broken, gives {ended:?}"))
}
