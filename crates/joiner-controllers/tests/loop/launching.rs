//! From pending pods to nodes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use joiner_api::nodepool::NodeClassReference;
use joiner_provider::{
    Error, Handle, Instance, Launch, LaunchOutcome, LaunchRequest, Launched, Listed, NodeClassKind,
    OfferingKey, Provider, Scope, Terminated, TypeFeed,
};
use joiner_provider_kwok::{Catalogue, Parameters};
use kube::ResourceExt;
use serde_json::json;

use crate::stage::{Stage, pod_node};

#[tokio::test(start_paused = true)]
async fn pending_pods_get_the_nodes_of_the_plan() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pods("web", 10, "1").await;
    stage.pass(15).await;
    // What `joiner plan` says for ten pods of one CPU each.
    assert_eq!(stage.types().await, ["c-4x-amd64-linux", "c-8x-amd64-linux"]);
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()));
    let claims = stage.claims().await;
    assert_eq!(claims.len(), 2);
    for claim in &claims {
        let status = claim.status.as_ref().unwrap();
        let mut states: Vec<String> =
            status.conditions.iter().map(|of| format!("{}={}", of.type_, of.status)).collect();
        states.sort();
        assert_eq!(
            states,
            ["Initialized=True", "Launched=True", "Ready=True", "Registered=True"],
            "{claim:?}"
        );
        assert_eq!(status.node_name.as_deref(), Some(&*claim.name_any()));
    }
    let summary = running.summary.borrow().clone();
    assert_eq!((summary.nodes, summary.pending_pods, summary.refused_pods), (2, 0, 0));
    assert!((summary.dollars_per_hour - 0.228).abs() < 0.001, "{}", summary.dollars_per_hour);
    let plan = summary.last_plan.unwrap();
    assert_eq!((plan.machines, plan.pods), (2, 10));
    assert!(plan.gap.is_some_and(|gap| (gap - 0.2).abs() < 0.01), "{plan:?}");
    let pool = stage.pool("default").await;
    assert!(pool.annotations().contains_key("karpenter.sh/nodepool-hash"));
    let status = pool.status.unwrap();
    assert_eq!(status.nodes, Some(2));
    assert_eq!(status.resources.unwrap()["cpu"].0, "12");
    let states: BTreeSet<String> =
        status.conditions.iter().map(|of| format!("{}={}", of.type_, of.status)).collect();
    let expected = ["NodeClassReady=True", "Ready=True", "ValidationSucceeded=True"];
    assert_eq!(states, expected.map(str::to_owned).into());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_batch_buys_nothing_twice() {
    let mut stage = Stage::new().await;
    stage.boot = Some(Duration::from_secs(60));
    let running = stage.start();
    stage.create_pods("first", 3, "1").await;
    stage.pass(5).await;
    assert_eq!(stage.types().await, ["c-4x-amd64-linux"]);
    // The node is still starting: its pods have their room, and nobody else gets it.
    stage.create_pods("second", 1, "1").await;
    stage.pass(30).await;
    assert_eq!(stage.types().await, ["c-2x-amd64-linux", "c-4x-amd64-linux"]);
    // Room that is free on a starting node is used.
    stage.create_pods("third", 1, "500m").await;
    stage.pass(60).await;
    assert_eq!(stage.types().await, ["c-2x-amd64-linux", "c-4x-amd64-linux"]);
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_startup_taints_waits_for_them() {
    let stage = Stage::new().await;
    stage
        .apply_pool(
            "default",
            json!({"spec": {"template": {"spec": {
            "taints": [{"key": "example.com/team", "value": "web", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]}}}}),
        )
        .await;
    let running = stage.start();
    let tolerates = json!({"spec": {"tolerations": [{"key": "example.com/team", "operator": "Exists"}]}});
    stage.create_pod("web", "1", tolerates).await;
    stage.pass(40).await;
    let claim = stage.claims().await.remove(0);
    let initialised = |claim: &joiner_api::NodeClaim| {
        let conditions = claim.status.as_ref().unwrap().conditions.clone();
        conditions.into_iter().find(|of| of.type_ == "Initialized").map(|of| (of.status, of.reason)).unwrap()
    };
    assert_eq!(initialised(&claim), ("Unknown".to_owned(), "StartupTaintsExist".to_owned()));
    let node = stage.nodes().await.remove(0);
    let mut keys: Vec<String> =
        node.spec.unwrap().taints.unwrap().into_iter().map(|taint| taint.key).collect();
    keys.sort();
    assert_eq!(keys, ["example.com/starting", "example.com/team"]);
    assert_eq!(stage.claims().await.len(), 1, "a starting node is not bought again");
    stage
        .set_taints(
            &claim.name_any(),
            json!([{"key": "example.com/team", "value": "web", "effect": "NoSchedule"}]),
        )
        .await;
    stage.pass(2).await;
    assert_eq!(initialised(&stage.claims().await[0]).0, "True");
    assert!(stage.pods().await.iter().all(|pod| pod_node(pod).is_some()));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_does_not_register_is_replaced() {
    let stage = Stage::new().await;
    stage.apply_class(json!({"nodeRegistrationDelay": "20m"})).await;
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(10).await;
    let first = stage.claims().await.remove(0).name_any();
    stage.pass(14 * 60).await;
    assert_eq!(stage.claims().await[0].name_any(), first, "not before its time");
    stage.apply_class(json!({})).await;
    stage.pass(90).await;
    let claims = stage.claims().await;
    assert_eq!(claims.len(), 1);
    assert_ne!(claims[0].name_any(), first);
    assert_eq!(pod_node(&stage.pods().await[0]), Some(&*claims[0].name_any()));
    stage.pass(10 * 60).await;
    assert_eq!(stage.nodes().await.len(), 1, "the first machine never appears");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_machine_helps_is_told_why() {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pod("large", "300", json!({})).await;
    stage.create_pod("small", "1", json!({})).await;
    stage.pass(15).await;
    assert_eq!(stage.nodes().await.len(), 1);
    let events = stage.events().await;
    let told: Vec<&String> = events.iter().filter(|event| event.contains("FailedScheduling")).collect();
    assert_eq!(told.len(), 1, "{events:?}");
    assert!(told[0].starts_with("Pod/large FailedScheduling: ") && told[0].contains("300 cpu"), "{told:?}");
    assert_eq!(running.summary.borrow().refused_pods, 1);
    // A pool that is not ready takes no pods, and says so.
    stage.delete_class().await;
    stage.create_pod("late", "2", json!({})).await;
    stage.pass(15).await;
    assert_eq!(stage.nodes().await.len(), 1);
    let conditions = stage.pool("default").await.status.unwrap().conditions;
    let class = conditions.iter().find(|of| of.type_ == "NodeClassReady").unwrap();
    assert_eq!((class.status.as_str(), class.reason.as_str()), ("False", "NodeClassNotFound"));
    // What was missing comes back: the pod is served without being touched.
    stage.apply_class(json!({})).await;
    stage.pass(30).await;
    assert_eq!(stage.nodes().await.len(), 2);
    running.stop().await;
}

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
