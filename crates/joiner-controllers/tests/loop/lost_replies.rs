//! The answer to each command is lost once: the object is read, everything comes to the same end, nothing is made twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use joiner_api::NodeClaim;
use joiner_api::nodepool::NodeClassReference;
use joiner_controllers::Settings;
use joiner_provider::{
    Error, Handle, Instance, Launch, LaunchOutcome, LaunchRequest, Launched, Listed, NodeClassKind, Provider,
    Terminated, TypeFeed,
};
use joiner_sim::kubelet::annotations;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::faults::{Fault, Faulty, settings, until};
use crate::stage::{Stage, pod_node};

/// Which command a call of the API is, by the name that metrics give it.
fn command_of(call: &str) -> Option<&'static str> {
    let (method, path) = call.split_once(' ')?;
    let (_, path) = path.split_once("/v1/")?;
    let path = path.strip_prefix("namespaces/default/").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').collect();
    Some(match (method, parts.as_slice()) {
        ("POST", ["nodeclaims"]) => "create_claim",
        ("PATCH", ["nodeclaims", _]) => "patch_claim",
        ("PATCH", ["nodeclaims", _, "status"]) => "patch_claim_status",
        ("DELETE", ["nodeclaims", _]) => "delete_claim",
        ("PATCH", ["nodes", _]) => "patch_node",
        ("DELETE", ["nodes", _]) => "delete_node",
        ("GET", ["pods"]) => "confirm_empty",
        ("PATCH", ["nodepools", _]) => "patch_pool",
        ("PATCH", ["nodepools", _, "status"]) => "patch_pool_status",
        ("POST", ["pods", _, "eviction"]) => "evict",
        ("DELETE", ["pods", _]) => "delete_pod",
        ("PATCH", ["configmaps", _]) => "write_record",
        ("POST", ["events"]) => "create_event",
        ("PATCH", ["events", _]) => "patch_event",
        _ => return None,
    })
}

/// From pods without a place to a node, to an empty one, to nothing; decisions are written down, and a refusal is told again and again.
async fn life(at: usize, lost: &mut BTreeSet<&'static str>) -> usize {
    let stage = Stage::new().await;
    stage.apply_pool("default", json!({"spec": {"disruption": {"consolidateAfter": "10s"}}})).await;
    let way = Faulty::new(&stage, at, Fault::ReplyLost).with_events();
    let settings = Settings { record_namespace: Some("default".to_owned()), ..settings() };
    let running = stage.start_with(way.client(), stage.kwok(way.client()), settings);
    stage.create_pod("huge", "4000", json!({})).await;
    stage.create_pods("web", 2, "1").await;
    let what = || format!("call {at}, {:?}: {:#?}", way.met.lock().unwrap(), way.log.lock().unwrap());
    let all_bound = async || stage.pods().await.iter().filter(|pod| pod_node(pod).is_some()).count() == 2;
    assert!(until(&stage, 90, all_bound).await, "pods have no place: {}", what());
    stage.delete_pod("web-0").await;
    stage.delete_pod("web-1").await;
    let none_left = async || stage.nodes().await.is_empty() && stage.claims().await.is_empty();
    assert!(until(&stage, 300, none_left).await, "machines are left: {}", what());
    assert_eq!((way.made("/nodeclaims"), way.made("/nodes")), (1, 1), "made twice: {}", what());
    stage.pass(330).await;
    // The refusal is decided on again, and told once more.
    stage
        .apply_pool("default", json!({"spec": {"weight": 2, "disruption": {"consolidateAfter": "10s"}}}))
        .await;
    stage.pass(30).await;
    assert_eq!((stage.claims().await.len(), stage.nodes().await.len()), (0, 0), "{}", what());
    running.stop().await;
    lost.extend(way.met.lock().unwrap().as_deref().and_then(command_of));
    way.calls.load(Ordering::Relaxed)
}

/// The end of a node with a pod that may be evicted and one that may not, until its time is over.
async fn forced_drain(at: usize, lost: &mut BTreeSet<&'static str>) -> usize {
    let stage = Stage::new().await;
    let grace = json!({"spec": {"template": {"spec": {"terminationGracePeriod": "60s"}}}});
    stage.apply_pool("default", grace).await;
    let running = stage.start();
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    stage.create_pod("kept", "1", protected).await;
    stage.create_pod("web", "1", json!({})).await;
    stage.pass(15).await;
    running.stop().await;
    let way = Faulty::new(&stage, at, Fault::ReplyLost).with_events();
    let running = stage.start_with(way.client(), stage.kwok(way.client()), settings());
    stage.pass(1).await;
    let name = stage.claims().await[0].name_any();
    let claims: Api<NodeClaim> = Api::all(stage.client.clone());
    claims.delete(&name, &DeleteParams::default()).await.unwrap();
    let what = || format!("call {at}, {:?}: {:#?}", way.met.lock().unwrap(), way.log.lock().unwrap());
    stage.pass(30).await;
    let left: Vec<String> = stage.pods().await.iter().map(|pod| pod.name_any()).collect();
    assert_eq!(left, ["kept"], "its time is not over: {}", what());
    let is_gone = async || {
        stage.pods().await.is_empty()
            && claims.get_opt(&name).await.unwrap().is_none()
            && stage.nodes().await.iter().all(|node| node.name_any() != name)
    };
    assert!(until(&stage, 120, is_gone).await, "the node stays: {}", what());
    assert!(way.made("/nodeclaims") <= 1, "a place is bought ahead once at most: {}", what());
    running.stop().await;
    lost.extend(way.met.lock().unwrap().as_deref().and_then(command_of));
    way.calls.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn the_reply_to_any_call_of_the_api_may_be_lost() {
    let mut lost = BTreeSet::new();
    for at in 1..=life(0, &mut lost).await {
        life(at, &mut lost).await;
    }
    for at in 1..=forced_drain(0, &mut lost).await {
        forced_drain(at, &mut lost).await;
    }
    let all = [
        "confirm_empty",
        "create_claim",
        "create_event",
        "delete_claim",
        "delete_node",
        "delete_pod",
        "evict",
        "patch_claim",
        "patch_claim_status",
        "patch_event",
        "patch_node",
        "patch_pool",
        "patch_pool_status",
        "write_record",
    ];
    assert_eq!(lost, BTreeSet::from(all), "each command that is a call of the API has met it");
}

/// A cloud that carries everything out, and whose answer to one call is lost. It takes its time at first: machines have no identity yet.
struct Forgetful {
    inner: Arc<dyn Provider>,
    at: usize,
    calls: AtomicUsize,
    met: Mutex<Option<&'static str>>,
    /// Launches are pending, and come to nothing.
    is_slow: AtomicBool,
    /// Launches are denied.
    is_closed: AtomicBool,
}

impl Forgetful {
    fn new(stage: &Stage, at: usize) -> Arc<Self> {
        Arc::new(Self {
            inner: stage.kwok(stage.client.clone()),
            at,
            calls: AtomicUsize::new(0),
            met: Mutex::default(),
            is_slow: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Whether the answer to this call is lost.
    fn is_lost(&self, call: &'static str) -> bool {
        let is_it = self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.at;
        if is_it {
            *self.met.lock().unwrap() = Some(call);
        }
        is_it
    }
}

fn no_answer() -> Error {
    Error::Transient("connection reset by peer".to_owned())
}

impl Provider for Forgetful {
    fn name(&self) -> &str {
        "forgetful"
    }
    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        self.inner.watch_types(class)
    }
    fn launch(&self, batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        let is_lost = self.is_lost("launch");
        let answer = |result: fn(&LaunchRequest) -> Result<Launch, Error>| {
            let answers = batch.iter().map(move |request| LaunchOutcome {
                token: request.token().to_owned(),
                result: result(request),
            });
            stream::iter(answers.collect::<Vec<_>>()).boxed()
        };
        let outcomes = if self.is_slow.load(Ordering::Relaxed) {
            answer(|request| Ok(Launch::Pending(Handle(request.claim.name_any()))))
        } else if self.is_closed.load(Ordering::Relaxed) {
            answer(|_| Err(Error::Denied("no".to_owned())))
        } else {
            self.inner.launch(batch)
        };
        outcomes.filter(move |_| ready(!is_lost)).boxed()
    }
    fn poll(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Launch, Error>>> {
        ready(handles.into_iter().map(|handle| Ok(Launch::Pending(handle))).collect()).boxed()
    }
    fn cancel(&self, handles: Vec<Handle>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        let is_lost = self.is_lost("cancel_launch");
        let answer = |_| if is_lost { Err(no_answer()) } else { Ok(Terminated::Gone) };
        ready(handles.into_iter().map(answer).collect()).boxed()
    }
    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        let is_lost = self.is_lost("find_by_claim");
        let found = self.inner.find_by_claim(uid);
        async move { if is_lost { Err(no_answer()) } else { found.await } }.boxed()
    }
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        let is_lost = self.is_lost("terminate");
        let ended = self.inner.terminate(ids);
        let answers = async move {
            ended.await.into_iter().map(|answer| if is_lost { Err(no_answer()) } else { answer }).collect()
        };
        answers.boxed()
    }
    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        match self.is_lost("find_machine") {
            true => ready(ids.iter().map(|_| Err(no_answer())).collect()).boxed(),
            false => self.inner.get(ids),
        }
    }
    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        match self.is_lost("list_machines") {
            true => stream::iter([Err(no_answer())]).boxed(),
            false => self.inner.list(),
        }
    }
}

/// A launch that is given up, then one that makes a node, then its end. How many calls of the cloud there were.
async fn cloud(at: usize, lost: &mut BTreeSet<&'static str>) -> usize {
    let stage = Stage::new().await;
    stage.apply_pool("default", json!({"spec": {"disruption": {"consolidateAfter": "10s"}}})).await;
    let provider = Forgetful::new(&stage, at);
    provider.is_slow.store(true, Ordering::Relaxed);
    let running = stage.start_with(stage.client.clone(), provider.clone(), settings());
    stage.create_pods("web", 2, "1").await;
    stage.pass(15).await;
    let what = format!("call {at}");
    assert_eq!((stage.claims().await.len(), stage.nodes().await.len()), (1, 0), "{what}");
    // A claim whose machine has no identity goes: what was begun for it is given back.
    stage.delete_claim(&stage.claims().await[0].name_any()).await;
    stage.pass(10).await;
    provider.is_slow.store(false, Ordering::Relaxed);
    let all_bound = async || stage.pods().await.iter().all(|pod| pod_node(pod).is_some());
    assert!(
        until(&stage, 120, all_bound).await,
        "pods have no place: {what}, {:?}",
        provider.met.lock().unwrap()
    );
    assert_eq!(stage.nodes().await.len(), 1, "made twice: {what}");
    stage.delete_pod("web-0").await;
    stage.delete_pod("web-1").await;
    let none_left = async || stage.nodes().await.is_empty() && stage.claims().await.is_empty();
    assert!(
        until(&stage, 400, none_left).await,
        "machines are left: {what}, {:?}",
        provider.met.lock().unwrap()
    );
    running.stop().await;
    lost.extend(*provider.met.lock().unwrap());
    provider.calls.load(Ordering::Relaxed)
}

/// A node whose kubelet has stopped is taken away, then a claim that was never launched. How many calls of the cloud there were.
async fn trouble(at: usize, lost: &mut BTreeSet<&'static str>) -> usize {
    let stage = Stage::new().await;
    let provider = Forgetful::new(&stage, at);
    let running = stage.start_with(stage.client.clone(), provider.clone(), settings());
    stage.create_pods("web", 1, "1").await;
    let claims: Api<NodeClaim> = Api::all(stage.client.clone());
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let is_bound = async || stage.pods().await.iter().any(|pod| pod_node(pod).is_some());
    assert!(until(&stage, 120, is_bound).await, "the pod has no place: call {at}");
    let name = stage.claims().await[0].name_any();
    let stopped = json!({"metadata": {"annotations": {annotations::KUBELET: "stopped"}}});
    nodes.patch(&name, &PatchParams::default(), &Patch::Merge(stopped)).await.unwrap();
    stage.pass(60).await;
    provider.is_closed.store(true, Ordering::Relaxed);
    stage.delete_claim(&name).await;
    let is_gone = async || claims.get_opt(&name).await.unwrap().is_none();
    assert!(
        until(&stage, 600, is_gone).await,
        "the node stays: call {at}, {:?}",
        provider.met.lock().unwrap()
    );
    stage.create_pod("late", "1", json!({})).await;
    let is_made = async || !stage.claims().await.is_empty();
    assert!(until(&stage, 60, is_made).await, "no claim: call {at}");
    let name = stage.claims().await[0].name_any();
    stage.delete_pod("late").await;
    stage.delete_claim(&name).await;
    let is_gone = async || claims.get_opt(&name).await.unwrap().is_none();
    assert!(
        until(&stage, 120, is_gone).await,
        "the claim stays: call {at}, {:?}",
        provider.met.lock().unwrap()
    );
    assert!(stage.nodes().await.is_empty(), "call {at}");
    running.stop().await;
    lost.extend(*provider.met.lock().unwrap());
    provider.calls.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn the_reply_to_any_call_of_a_cloud_may_be_lost() {
    let mut lost = BTreeSet::new();
    for at in 1..=cloud(0, &mut lost).await {
        cloud(at, &mut lost).await;
    }
    for at in 1..=trouble(0, &mut lost).await {
        trouble(at, &mut lost).await;
    }
    for call in ["launch", "cancel_launch", "terminate", "list_machines", "find_machine", "find_by_claim"] {
        assert!(lost.contains(call), "{call} is not among {lost:?}");
    }
}
