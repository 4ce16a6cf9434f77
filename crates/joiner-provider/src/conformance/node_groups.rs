//! The suite for clouds that keep machines in groups.
//!
//! A provider's tests implement [`GroupCloud`] over a simulation of the cloud and call [`assert_conforms`] with a function that makes a new one.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::support::{MOST_TRIES, ensure};
use super::{Fault, Violation};
use crate::{Error, Growth, ListedGroup, NodeGroup, NodeGroups, Resized, Terminated};

/// A simulated cloud of groups, as the suite sees it from behind the provider's back.
pub trait GroupCloud: Send + Sync {
    /// A new process: a provider that remembers nothing but what the cloud keeps. Faults of the process before are over.
    fn provider(&self) -> Arc<dyn NodeGroups>;

    /// The name of a group that has two machines more than its least, and room for at least four.
    fn group(&self) -> String;

    /// What the cloud itself has on that group.
    fn books(&self) -> BoxFuture<'_, Books>;

    /// Lets pass as much time as it takes until nothing happens by itself any more.
    fn settle(&self) -> BoxFuture<'_, ()>;

    /// Makes the cloud fail from now on, instead of as before; false if this cloud cannot fail so. Every cloud can play [`Fault::Crash`] and
    /// [`Fault::LostAnswer`].
    fn inject(&self, fault: Fault) -> bool;
}

/// A group by the cloud's own books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Books {
    /// How many machines it is to have.
    pub target: u32,
    /// Provider ids of those it has.
    pub members: BTreeSet<String>,
}

type Check = for<'c> fn(&'c dyn GroupCloud) -> BoxFuture<'c, Result<(), String>>;

/// All checks with the rules they hold.
const CHECKS: [(&str, Check); 12] = [
    ("a group is listed whole", |cloud| Box::pin(is_listed_whole(cloud))),
    ("growing makes as many machines as were wanted", |cloud| Box::pin(grows(cloud))),
    ("growing repeated is growing once", |cloud| Box::pin(growing_is_idempotent(cloud))),
    ("a target that is not as it was is left alone", |cloud| Box::pin(another_target_is_left(cloud))),
    ("a group has no more machines than its most", |cloud| Box::pin(most_is_held(cloud))),
    ("a crash at any call of growing makes no machine twice", |cloud| {
        Box::pin(growing_survives(cloud, |after_calls| Fault::Crash { after_calls }))
    }),
    ("an answer lost at any call of growing makes no machine twice", |cloud| {
        Box::pin(growing_survives(cloud, |after_calls| Fault::LostAnswer { after_calls }))
    }),
    ("exactly the named member goes, and the target with it", |cloud| Box::pin(named_member_goes(cloud))),
    ("removing repeated is removing once", |cloud| Box::pin(removing_is_idempotent(cloud))),
    ("a group has no fewer machines than its least", |cloud| Box::pin(least_is_held(cloud))),
    ("a crash at any call of removing takes no other machine", |cloud| {
        Box::pin(removing_survives(cloud, |after_calls| Fault::Crash { after_calls }))
    }),
    ("an answer lost at any call of removing takes no other machine", |cloud| {
        Box::pin(removing_survives(cloud, |after_calls| Fault::LostAnswer { after_calls }))
    }),
];

/// Runs all checks, each on a new cloud; what is returned was not passed.
pub async fn violations<C, F>(new_cloud: impl Fn() -> F) -> Vec<Violation>
where
    C: GroupCloud,
    F: Future<Output = C>,
{
    let mut found = Vec::new();
    for (check, run) in CHECKS {
        let cloud = new_cloud().await;
        if let Err(message) = run(&cloud).await {
            found.push(Violation { check, message });
        }
    }
    found
}

/// Fails the calling test unless all checks pass.
///
/// # Panics
/// Some check does not pass; all that do not are named.
pub async fn assert_conforms<C, F>(new_cloud: impl Fn() -> F)
where
    C: GroupCloud,
    F: Future<Output = C>,
{
    let found = violations(new_cloud).await;
    let lines: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert!(found.is_empty(), "{} of {} checks fail:\n{}", found.len(), CHECKS.len(), lines.join("\n"));
}

/// The group as the provider gives it.
async fn get(cloud: &dyn GroupCloud, provider: &Arc<dyn NodeGroups>) -> Result<NodeGroup, String> {
    match provider.get(&cloud.group()).await {
        Ok(Some(group)) => Ok(group),
        other => Err(format!("asked for the group `{}`, the provider gives {other:?}", cloud.group())),
    }
}

async fn is_listed_whole(cloud: &dyn GroupCloud) -> Result<(), String> {
    let provider = cloud.provider();
    let group = get(cloud, &provider).await?;
    let listed = provider.list().await.map_err(|error| format!("the list fails: {error}"))?;
    let same = |item: &&ListedGroup| matches!(item, ListedGroup::Group(of) if of.name == group.name);
    let found: Vec<&ListedGroup> = listed.iter().filter(same).collect();
    ensure(found == [&ListedGroup::Group(group.clone())], || {
        format!("listed is {found:?}, asked for by its name it is {group:?}")
    })?;
    let books = cloud.books().await;
    let ids: BTreeSet<String> = group.members.iter().map(|member| member.provider_id.clone()).collect();
    ensure(ids.len() == group.members.len(), || "two members have one provider id".to_owned())?;
    ensure(group.target == books.target && ids == books.members, || {
        format!("the provider gives a target of {} and {ids:?}, the cloud has {books:?}", group.target)
    })?;
    let roomy = group.spare() >= 2 && group.room() >= 4;
    ensure(roomy, || "give a group with two machines more than its least, and room for four".to_owned())?;
    let status = group.template.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    ensure(allocatable.is_some_and(|of| of.contains_key("cpu") && of.contains_key("pods")), || {
        format!("the template's allocatable is {allocatable:?}: pods could not be planned for it")
    })?;
    let unknown = provider.get("no-group-of-that-name").await;
    ensure(unknown == Ok(None), || format!("a group that is not there is {unknown:?}"))
}

async fn grow(provider: &Arc<dyn NodeGroups>, group: &str, from: u32, to: u32) -> Result<Resized, Error> {
    provider.grow(Growth { group: group.to_owned(), from, to }).await
}

async fn grows(cloud: &dyn GroupCloud) -> Result<(), String> {
    let provider = cloud.provider();
    let before = get(cloud, &provider).await?;
    let to = before.target + 2;
    match grow(&provider, &before.name, before.target, to).await {
        Ok(Resized::Done(group)) if group.target == to => {}
        other => return Err(format!("growing from {} to {to} gives {other:?}", before.target)),
    }
    cloud.settle().await;
    let after = get(cloud, &cloud.provider()).await?;
    let stayed = before.members.iter().all(|member| after.member(&member.provider_id).is_some());
    ensure(after.members.len() == before.members.len() + 2 && stayed, || {
        format!("growing by 2 makes of {:?} {:?}", before.members, after.members)
    })
}

async fn growing_is_idempotent(cloud: &dyn GroupCloud) -> Result<(), String> {
    let provider = cloud.provider();
    let before = get(cloud, &provider).await?;
    let to = before.target + 2;
    for round in 0..2 {
        let grown = grow(&provider, &before.name, before.target, to).await;
        ensure(matches!(grown, Ok(Resized::Done(_))), || format!("round {round} gives {grown:?}"))?;
        cloud.settle().await;
    }
    let books = cloud.books().await;
    ensure(books.target == to && books.members.len() == to as usize, || {
        format!("grown twice to {to}, the cloud has {books:?}")
    })
}

async fn another_target_is_left(cloud: &dyn GroupCloud) -> Result<(), String> {
    let provider = cloud.provider();
    let before = get(cloud, &provider).await?;
    let grown = grow(&provider, &before.name, before.target + 1, before.target + 3).await;
    ensure(matches!(&grown, Ok(Resized::Changed(group)) if group.target == before.target), || {
        format!("growing from a target that it has not gives {grown:?}")
    })?;
    let books = cloud.books().await;
    ensure(books.target == before.target, || format!("the target is {} all the same", books.target))
}

async fn most_is_held(cloud: &dyn GroupCloud) -> Result<(), String> {
    let provider = cloud.provider();
    let before = get(cloud, &provider).await?;
    let grown = grow(&provider, &before.name, before.target, before.max + 1).await;
    ensure(grown.is_err(), || format!("growing past the most gives {grown:?}"))?;
    let books = cloud.books().await;
    ensure(books.target == before.target, || format!("the target is {} all the same", books.target))
}

/// Grows with a fault at each call in turn, as its caller would: what became of it is read before it is tried again.
async fn growing_survives(cloud: &dyn GroupCloud, fault: fn(usize) -> Fault) -> Result<(), String> {
    for calls in 0..MOST_TRIES {
        let mut provider = cloud.provider();
        let mut before = get(cloud, &provider).await?;
        if before.room() == 0 {
            gone_in_the_end(cloud, &provider, &last_member(&before)?).await?;
            cloud.settle().await;
            before = get(cloud, &provider).await?;
        }
        let to = before.target + 1;
        ensure(cloud.inject(fault(calls)), || {
            format!("this cloud must be able to fail by {:?}", fault(calls))
        })?;
        let came_through = grow(&provider, &before.name, before.target, to).await.is_ok();
        match fault(calls) {
            Fault::Crash { .. } => provider = cloud.provider(),
            _ => drop(cloud.inject(Fault::Nothing)),
        }
        let repeated = grow(&provider, &before.name, before.target, to).await;
        ensure(matches!(repeated, Ok(Resized::Done(_))), || format!("repeated it gives {repeated:?}"))?;
        cloud.settle().await;
        let books = cloud.books().await;
        ensure(books.target == to && books.members.len() == to as usize, || {
            format!("grown to {to} with {:?}, the cloud has {books:?}", fault(calls))
        })?;
        if came_through {
            return ensure(calls > 0, || format!("growing does not notice {:?}", fault(calls)));
        }
    }
    Err("growing never comes through".to_owned())
}

/// Removes a member, time passing in between.
async fn gone_in_the_end(
    cloud: &dyn GroupCloud,
    provider: &Arc<dyn NodeGroups>,
    id: &str,
) -> Result<(), String> {
    let group = cloud.group();
    for _ in 0..MOST_TRIES {
        if provider.remove(&group, id).await == Ok(Terminated::Gone) {
            return Ok(());
        }
        cloud.settle().await;
    }
    Err(format!("`{id}` is not gone after {MOST_TRIES} calls"))
}

/// A member that is not the first: whoever takes any machine at all takes another.
fn last_member(group: &NodeGroup) -> Result<String, String> {
    let last = group.members.last().map(|member| member.provider_id.clone());
    last.ok_or_else(|| "the group has no members".to_owned())
}

fn without(books: &Books, id: &str) -> Books {
    let members = books.members.iter().filter(|member| *member != id).cloned().collect();
    Books { target: books.target - 1, members }
}

async fn named_member_goes(cloud: &dyn GroupCloud) -> Result<(), String> {
    let provider = cloud.provider();
    let id = last_member(&get(cloud, &provider).await?)?;
    let expected = without(&cloud.books().await, &id);
    gone_in_the_end(cloud, &provider, &id).await?;
    cloud.settle().await;
    let books = cloud.books().await;
    ensure(books == expected, || format!("without `{id}` the cloud has {books:?}, not {expected:?}"))
}

async fn removing_is_idempotent(cloud: &dyn GroupCloud) -> Result<(), String> {
    let provider = cloud.provider();
    let id = last_member(&get(cloud, &provider).await?)?;
    let expected = without(&cloud.books().await, &id);
    gone_in_the_end(cloud, &provider, &id).await?;
    for (new_process, id) in [(false, &*id), (true, &*id), (true, "nobody")] {
        let another = new_process.then(|| cloud.provider());
        let again = another.as_ref().unwrap_or(&provider).remove(&cloud.group(), id).await;
        ensure(again == Ok(Terminated::Gone), || format!("removing `{id}`, which is gone, gives {again:?}"))?;
        cloud.settle().await;
    }
    let books = cloud.books().await;
    ensure(books == expected, || format!("removed more than once it is {books:?}, not {expected:?}"))
}

async fn least_is_held(cloud: &dyn GroupCloud) -> Result<(), String> {
    let provider = cloud.provider();
    let spare = get(cloud, &provider).await?.spare();
    for _ in 0..spare {
        gone_in_the_end(cloud, &provider, &last_member(&get(cloud, &provider).await?)?).await?;
        cloud.settle().await;
    }
    let before = cloud.books().await;
    let Some(id) = before.members.last() else { return Ok(()) };
    let removed = provider.remove(&cloud.group(), id).await;
    ensure(removed.is_err(), || format!("removing one of the least gives {removed:?}"))?;
    cloud.settle().await;
    let books = cloud.books().await;
    ensure(books == before, || format!("of {before:?} it leaves {books:?}"))
}

/// Removes with a fault at each call in turn, and then until the member is gone.
async fn removing_survives(cloud: &dyn GroupCloud, fault: fn(usize) -> Fault) -> Result<(), String> {
    for calls in 0..MOST_TRIES {
        let mut provider = cloud.provider();
        let group = get(cloud, &provider).await?;
        if group.spare() == 0 {
            let grown = grow(&provider, &group.name, group.target, group.target + 1).await;
            ensure(grown.is_ok(), || format!("growing gives {grown:?}"))?;
            cloud.settle().await;
        }
        let id = last_member(&get(cloud, &provider).await?)?;
        let expected = without(&cloud.books().await, &id);
        ensure(cloud.inject(fault(calls)), || {
            format!("this cloud must be able to fail by {:?}", fault(calls))
        })?;
        let came_through = provider.remove(&group.name, &id).await.is_ok();
        match fault(calls) {
            Fault::Crash { .. } => provider = cloud.provider(),
            _ => drop(cloud.inject(Fault::Nothing)),
        }
        gone_in_the_end(cloud, &provider, &id).await?;
        cloud.settle().await;
        let books = cloud.books().await;
        ensure(books == expected, || {
            format!("without `{id}` and with {:?} the cloud has {books:?}, not {expected:?}", fault(calls))
        })?;
        if came_through {
            return ensure(calls > 0, || format!("removing does not notice {:?}", fault(calls)));
        }
    }
    Err("removing never comes through".to_owned())
}
