//! What there is.

use super::support::{ensure, gone_in_the_end, launched, list};
use super::{Cloud, Fault};
use crate::Listed;

pub(super) async fn machines_are_got_by_id(cloud: &dyn Cloud) -> Result<(), String> {
    let request = cloud.request("got");
    let machine = launched(&cloud.provider(), &request).await?;
    cloud.settle().await;
    let provider = cloud.provider();
    let ids = vec![machine.provider_id.clone(), "no such machine".to_owned()];
    match &provider.get(ids).await[..] {
        [Ok(Some(instance)), Ok(None)] => {
            ensure(instance.provider_id == machine.provider_id, || {
                format!("got {instance:?} for {machine:?}")
            })?;
            let uid = instance.claim_uid.as_deref();
            ensure(uid.is_none_or(|uid| uid == request.token()), || {
                format!("its claim is said to be {uid:?}")
            })?;
        }
        other => return Err(format!("one that is there and one that is not give {other:?}")),
    }
    gone_in_the_end(cloud, &provider, &machine.provider_id).await?;
    cloud.settle().await;
    let answers = provider.get(vec![machine.provider_id]).await;
    let ended = matches!(&answers[..], [Ok(None)])
        || matches!(&answers[..], [Ok(Some(instance))] if instance.terminating);
    ensure(ended, || format!("a machine that was ended gives {answers:?}"))
}

pub(super) async fn list_agrees_in_the_end(cloud: &dyn Cloud) -> Result<(), String> {
    let provider = cloud.provider();
    let mut ids = Vec::new();
    for name in ["listed-1", "listed-2", "broken"] {
        ids.push(launched(&provider, &cloud.request(name)).await?.provider_id);
    }
    ids.sort();
    // What is not visible yet may be missing, what was never there may not appear.
    for item in list(&provider).await? {
        let known = matches!(&item, Listed::Instance(of) if ids.contains(&of.provider_id));
        ensure(known, || format!("the list has {item:?}"))?;
    }
    cloud.settle().await;
    let listed = async |expected: &[String]| {
        let mut found: Vec<String> = Vec::new();
        for item in list(&provider).await? {
            match item {
                Listed::Instance(instance) if instance.terminating => {}
                Listed::Instance(instance) => found.push(instance.provider_id),
                Listed::Unreadable { provider_id, .. } => found.extend(provider_id),
            }
        }
        found.sort();
        ensure(found == expected, || format!("the list has {found:?}, the cloud {expected:?}"))
    };
    listed(&ids).await?;
    // A machine that cannot be read is still there, and takes no other with it.
    cloud.inject(Fault::BrokenFor("broken".to_owned()));
    listed(&ids).await?;
    cloud.inject(Fault::Nothing);
    let ended = ids.remove(0);
    gone_in_the_end(cloud, &provider, &ended).await?;
    cloud.settle().await;
    listed(&ids).await
}
