//! The suite itself: providers that break one rule each, and the check that catches them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "../examples/in_memory/cloud.rs"]
mod cloud;
#[path = "../examples/in_memory/provider.rs"]
mod provider;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{BoxFuture, ready};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::conformance::{self, Cloud, Fault, Machine};
use joiner_provider::{
    Error, Handle, Instance, Launch, LaunchOutcome, LaunchRequest, Launched, Listed, NodeClassKind, Provider,
    Terminated, TypeFeed,
};

use crate::cloud::MemoryCloud;

/// A rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Break {
    TokenIgnored,
    LastOfferingTaken,
    OutcomeLost,
    BatchFailsWhole,
    AllEnded,
    ListEmpty,
    EverythingFound,
    CancelDoesNothing,
    PendingIsForgotten,
    EndedIsUnknown,
}

/// Tokens that differ, whatever the claim.
static MADE: AtomicUsize = AtomicUsize::new(0);

struct Broken {
    inner: Arc<dyn Provider>,
    how: Break,
}

impl Provider for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        self.inner.watch_types(class)
    }
    fn launch(&self, mut batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        let tokens: Vec<String> = batch.iter().map(|request| request.token().to_owned()).collect();
        for request in &mut batch {
            if self.how == Break::TokenIgnored {
                let mut claim = (*request.claim).clone();
                claim.metadata.uid =
                    Some(format!("{}#{}", request.token(), MADE.fetch_add(1, Ordering::Relaxed)));
                request.claim = claim.into();
            }
            if self.how == Break::LastOfferingTaken {
                request.offerings = request.offerings.iter().rev().cloned().collect();
            }
        }
        let how = self.how;
        let inner = self.inner.launch(batch).enumerate().map(move |(at, outcome)| {
            let mut outcome = LaunchOutcome { token: tokens[at].clone(), ..outcome };
            if let (Break::PendingIsForgotten, Ok(Launch::Pending(handle))) = (how, &mut outcome.result) {
                *handle = Handle(format!("{handle}#{}", MADE.fetch_add(1, Ordering::Relaxed)));
            }
            outcome
        });
        match how {
            Break::OutcomeLost => inner.skip(1).boxed(),
            Break::BatchFailsWhole => {
                let whole = inner.collect::<Vec<_>>().map(|mut outcomes| {
                    let failed = outcomes.iter().find_map(|of| of.result.clone().err());
                    for outcome in &mut outcomes {
                        outcome.result = failed.clone().map_or(outcome.result.clone(), Err);
                    }
                    futures::stream::iter(outcomes)
                });
                whole.flatten_stream().boxed()
            }
            _ => inner.boxed(),
        }
    }
    fn poll(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Launch, Error>>> {
        self.inner.poll(handles)
    }
    fn cancel(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        match self.how {
            Break::CancelDoesNothing => ready(vec![Ok(Terminated::Gone)]).boxed(),
            _ => self.inner.cancel(handles),
        }
    }
    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        self.inner.find_by_claim(uid)
    }
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        match self.how {
            Break::AllEnded => async move {
                let all: Vec<_> = self.inner.list().collect().await;
                let all = all.into_iter().filter_map(|item| match item {
                    Ok(Listed::Instance(instance)) => Some(instance.provider_id),
                    _ => None,
                });
                let count = ids.len();
                self.inner.terminate(ids.into_iter().chain(all).collect()).await[..count].to_vec()
            }
            .boxed(),
            Break::EndedIsUnknown => ready(ids.iter().map(|_| Ok(Terminated::Gone)).collect()).boxed(),
            _ => self.inner.terminate(ids),
        }
    }
    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        if self.how != Break::EverythingFound {
            return self.inner.get(ids);
        }
        let found = |id: String| {
            let (claim, claim_uid, created) = (None, None, None);
            Ok(Some(Instance { provider_id: id, claim, claim_uid, created, terminating: false }))
        };
        ready(ids.into_iter().map(found).collect()).boxed()
    }
    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        match self.how {
            Break::ListEmpty => futures::stream::empty().boxed(),
            _ => self.inner.list(),
        }
    }
}

struct BrokenCloud {
    inner: MemoryCloud,
    how: Break,
}

impl Cloud for BrokenCloud {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(Broken { inner: self.inner.provider(), how: self.how })
    }
    fn request(&self, name: &str) -> LaunchRequest {
        self.inner.request(name)
    }
    fn machines(&self) -> BoxFuture<'_, Vec<Machine>> {
        let machines = self.inner.machines().map(|machines| {
            let of_claim = |uid: String| uid.split('#').next().unwrap_or_default().to_owned();
            let machine = |of: Machine| Machine { claim_uid: of_claim(of.claim_uid), ..of };
            machines.into_iter().map(machine).collect()
        });
        machines.boxed()
    }
    fn settle(&self) -> BoxFuture<'_, ()> {
        self.inner.settle()
    }
    fn inject(&self, fault: Fault) -> bool {
        self.inner.inject(fault)
    }
}

#[tokio::test]
async fn each_broken_rule_is_caught_by_its_check() {
    for (how, check) in [
        (Break::TokenIgnored, "a launch repeated is one machine"),
        (Break::TokenIgnored, "a crash at any call of a launch leaves one machine"),
        (Break::TokenIgnored, "an answer lost at any call of a launch leaves one machine"),
        (Break::LastOfferingTaken, "the first offering is taken"),
        (Break::OutcomeLost, "every request of a batch gets one outcome"),
        (Break::BatchFailsWhole, "a request that fails takes no other with it"),
        (Break::AllEnded, "exactly the named machine is ended"),
        (Break::EndedIsUnknown, "exactly the named machine is ended"),
        (Break::ListEmpty, "the list comes to agree with the cloud"),
        (Break::EverythingFound, "machines are got by id"),
        (Break::CancelDoesNothing, "a cancelled launch leaves nothing"),
        (Break::PendingIsForgotten, "a pending launch resolves"),
    ] {
        let found =
            conformance::violations(async || BrokenCloud { inner: MemoryCloud::default(), how }).await;
        assert!(found.iter().any(|violation| violation.check == check), "{how:?}: {found:#?}");
    }
}

#[test]
fn providers_share_neither_names_nor_kinds() {
    use joiner_provider::{GroupKind, Registry, RegistryError};

    let cloud = MemoryCloud::default();
    let refused = Registry::new([cloud.provider(), cloud.provider()]).err();
    assert_eq!(refused, Some(RegistryError::NameTaken("memory".to_owned())));
    let other: Arc<dyn Provider> = Arc::new(Broken { inner: cloud.provider(), how: Break::ListEmpty });
    let refused = Registry::new([cloud.provider(), other]).err().unwrap().to_string();
    let expected = "node class kind `MemoryNodeClass.memory.example.com` is served by the providers `memory` and `broken`";
    assert!(refused.starts_with(expected), "{refused}");
    let registry = Registry::new([cloud.provider()]).unwrap();
    let class = cloud.request("a").claim.spec.node_class_ref.clone();
    assert!(registry.serves(&class));
    assert_eq!(registry.types(&class).types.len(), 1);
    let other = NodeClassReference { group: "example.com".to_owned(), ..class };
    assert!(!registry.serves(&other) && registry.types(&other).types.is_empty());
    let mut node = k8s_openapi::api::core::v1::Node::default();
    assert_eq!(registry.kind_of_node(&node), None);
    let label = ("memory.example.com/memorynodeclass".to_owned(), "default".to_owned());
    node.metadata.labels = Some([label].into());
    assert_eq!(registry.kind_of_node(&node), Some(GroupKind::new("memory.example.com", "MemoryNodeClass")));
}

#[tokio::test]
async fn a_feed_has_the_newest_set_and_wakes_only_for_changes() {
    use joiner_provider::TypePublisher;

    let publisher = TypePublisher::new(Vec::new(), Vec::new());
    let mut feed = publisher.feed();
    assert_eq!(feed.current().generation, 1);
    publisher.publish(Vec::new(), Vec::new());
    assert!(feed.changed().now_or_never().is_none(), "an equal set is no news");
    publisher.publish(Vec::new(), vec!["example.com/a".to_owned()]);
    publisher.publish(Vec::new(), vec!["example.com/b".to_owned()]);
    let newest = feed.changed().await;
    assert_eq!((newest.generation, newest.well_known[0].as_str()), (3, "example.com/b"));
    assert!(feed.changed().now_or_never().is_none(), "both were told at once");
    drop(publisher);
    assert!(feed.changed().now_or_never().is_none(), "of a provider that is gone none will come");
    assert_eq!(feed.current().generation, 3);
}
