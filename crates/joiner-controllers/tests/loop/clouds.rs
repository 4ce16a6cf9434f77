//! Clouds that run out of things, take their time, or change what they sell.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use joiner_api::NodeOverlay;
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{
    Error, Handle, Instance, Launch, LaunchOutcome, LaunchRequest, Launched, Listed, NodeClassKind,
    OfferingKey, Provider, Scope, Terminated, TypeFeed,
};
use joiner_provider_kwok::{Catalogue, Parameters};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::stage::{Stage, pod_node};

/// The KWOK provider in a cloud that runs out of things.
struct Scarce {
    inner: Arc<dyn Provider>,
    /// So many launches are refused.
    refusals: AtomicUsize,
    /// The offering that is out of stock, as every refusal says.
    scarce: fn(&OfferingKey) -> bool,
    /// What was asked for first.
    seen: Mutex<Vec<OfferingKey>>,
}

impl Scarce {
    fn refusal(&self, request: &LaunchRequest) -> Option<Error> {
        let first = &request.offerings[0].key;
        self.seen.lock().unwrap().push(first.clone());
        let left = self.refusals.load(Ordering::Relaxed);
        if left == 0 || !(self.scarce)(first) {
            return None;
        }
        self.refusals.store(left - 1, Ordering::Relaxed);
        let types = self.watch_types(&request.claim.spec.node_class_ref).current();
        let keys = types
            .types
            .iter()
            .flat_map(|of| of.offerings.iter().map(|offering| OfferingKey::of(of, offering)));
        let scopes = keys.filter(self.scarce).map(|offering| Scope::Offering { class: None, offering });
        Some(Error::NoCapacity {
            scopes: scopes.collect(),
            retry_after: None,
            message: "sold out".to_owned(),
        })
    }
}

impl Provider for Scarce {
    fn name(&self) -> &str {
        "scarce"
    }
    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        self.inner.watch_types(class)
    }
    fn launch(&self, batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        let each = stream::iter(batch).then(move |request| async move {
            match self.refusal(&request) {
                Some(error) => vec![LaunchOutcome { token: request.token().to_owned(), result: Err(error) }],
                None => self.inner.launch(vec![request]).collect().await,
            }
        });
        each.flat_map(stream::iter).boxed()
    }
    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        self.inner.find_by_claim(uid)
    }
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        self.inner.terminate(ids)
    }
    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        self.inner.get(ids)
    }
    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        self.inner.list()
    }
}

#[tokio::test(start_paused = true)]
async fn an_offering_without_capacity_is_left_alone_for_a_while() {
    let stage = Stage::new().await;
    let scarce = Arc::new(Scarce {
        inner: stage.kwok(stage.client.clone()),
        refusals: AtomicUsize::new(1),
        scarce: |offering| offering.capacity_type.as_deref() == Some("spot"),
        seen: Mutex::default(),
    });
    let running = stage.start_over(stage.client.clone(), scarce.clone());
    stage.create_pods("web", 1, "1").await;
    stage.pass(15).await;
    let nodes = stage.nodes().await;
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].labels()["karpenter.sh/capacity-type"], "on-demand");
    assert_eq!(stage.claims().await.len(), 1, "the claim without capacity is gone");
    assert_eq!(scarce.seen.lock().unwrap().len(), 2, "refused once, launched once");
    let events = stage.events().await;
    assert!(events.iter().any(|event| event.contains("InsufficientCapacityError: sold out")), "{events:?}");
    // After the pause spot is tried again.
    stage.pass(180).await;
    stage.create_pods("more", 1, "1").await;
    stage.pass(15).await;
    let mut kinds: Vec<String> =
        stage.nodes().await.iter().map(|node| node.labels()["karpenter.sh/capacity-type"].clone()).collect();
    kinds.sort();
    assert_eq!(kinds, ["on-demand", "spot"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_capacity_are_planned_for_again_within_a_second_while_others_keep_a_batch_open() {
    let stage = Stage::new().await;
    let scarce = Arc::new(Scarce {
        inner: stage.kwok(stage.client.clone()),
        refusals: AtomicUsize::new(1),
        scarce: |offering| offering.capacity_type.as_deref() == Some("spot"),
        seen: Mutex::default(),
    });
    let running = stage.start_over(stage.client.clone(), scarce.clone());
    let asked = || scarce.seen.lock().unwrap().len();
    stage.create_pods("first", 1, "1").await;
    let (mut tenths, mut refused_at) = (0, None);
    while asked() < 2 {
        // A pod every half second: the batch would close after ten.
        if tenths % 5 == 0 && tenths >= 10 {
            stage.create_pods(&format!("late-{tenths}"), 1, "1").await;
        }
        stage.pass_millis(100).await;
        tenths += 1;
        if asked() == 1 {
            refused_at.get_or_insert(tenths);
        }
        assert!(tenths < 300, "never asked again");
    }
    let waited = tenths - refused_at.unwrap();
    assert!(waited <= 10, "{waited} tenths of a second from the answer to the next launch");
    assert_eq!(scarce.seen.lock().unwrap()[1].capacity_type.as_deref(), Some("on-demand"));
    running.stop().await;
}

/// The KWOK provider in a cloud that takes its time.
struct Late {
    inner: Arc<dyn Provider>,
    in_time: AtomicBool,
    cancelled: Mutex<Vec<Handle>>,
}

impl Provider for Late {
    fn name(&self) -> &str {
        "late"
    }
    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        self.inner.watch_types(class)
    }
    fn launch(&self, batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        if self.in_time.load(Ordering::Relaxed) {
            return self.inner.launch(batch);
        }
        let pending = |request: LaunchRequest| LaunchOutcome {
            token: request.token().to_owned(),
            result: Ok(Launch::Pending(Handle(format!("ticket of {}", request.claim.name_any())))),
        };
        stream::iter(batch).map(pending).boxed()
    }
    fn cancel(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        let answers = handles.iter().map(|_| Ok(Terminated::Gone)).collect();
        self.cancelled.lock().unwrap().extend(handles);
        ready(answers).boxed()
    }
    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        self.inner.find_by_claim(uid)
    }
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        self.inner.terminate(ids)
    }
    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        self.inner.get(ids)
    }
    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        self.inner.list()
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_an_identity_is_waited_for_and_given_back_if_its_claim_goes() {
    let stage = Stage::new().await;
    let late = Arc::new(Late {
        inner: stage.kwok(stage.client.clone()),
        in_time: AtomicBool::new(false),
        cancelled: Mutex::default(),
    });
    let running = stage.start_over(stage.client.clone(), late.clone());
    stage.create_pods("web", 1, "1").await;
    stage.pass(20).await;
    let claim = stage.claims().await.remove(0);
    let handle = format!("ticket of {}", claim.name_any());
    assert_eq!(claim.annotations()["joiner.sh/launch-handle"], handle);
    assert_eq!(stage.claims().await.len(), 1, "a machine on its way is not bought again");
    // The handle is on the claim: a process that never saw the launch gives it back.
    running.kill().await;
    let running = stage.start_over(stage.client.clone(), late.clone());
    stage.delete_claim(&claim.name_any()).await;
    stage.pass(10).await;
    assert_eq!(*late.cancelled.lock().unwrap(), [Handle(handle)]);
    let next = stage.claims().await.remove(0);
    assert_ne!(next.uid(), claim.uid());
    late.in_time.store(true, Ordering::Relaxed);
    stage.pass(15).await;
    assert_eq!((stage.claims().await.len(), stage.nodes().await.len()), (1, 1));
    assert!(pod_node(&stage.pods().await[0]).is_some());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_order_of_the_plan_reaches_the_provider() {
    let stage = Stage::new().await;
    // By the provider's list spot is cheaper; the plan goes by the overlay.
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "agreed"},
        "spec": {"price": "0.0001", "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]},
    });
    let overlays: Api<NodeOverlay> = Api::all(stage.client.clone());
    overlays.create(&PostParams::default(), &serde_json::from_value(overlay).unwrap()).await.unwrap();
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(15).await;
    let nodes = stage.nodes().await;
    assert_eq!(nodes[0].labels()["karpenter.sh/capacity-type"], "on-demand");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn new_types_are_used_as_soon_as_they_are_published() {
    let stage = Stage::new().await;
    let kwok = stage.kwok(stage.client.clone());
    let running = stage.start_over(stage.client.clone(), kwok.clone());
    stage.create_pod("large", "300", json!({})).await;
    stage.pass(15).await;
    assert_eq!(running.summary.borrow().refused_pods, 1);
    let parameters = Parameters { cpus: vec![512], ..Parameters::default() };
    kwok.set_catalogue(Catalogue::generated(&parameters).unwrap());
    stage.pass(4).await;
    assert_eq!(stage.types().await, ["c-512x-amd64-linux"]);
    running.stop().await;
}
