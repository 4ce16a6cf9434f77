//! The suite of all providers, on the embedded API server: a call is a request, and a crash cuts a client off.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use joiner_api::NodeClaim;
use joiner_apiserver::service::{ApiServer, ResponseBody, Settings};
use joiner_provider::conformance::{self, Cloud, Fault, Machine};
use joiner_provider::{Clock, LaunchRequest, Monotonic, Provider, Unavailable, offerings_of_claim};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::launch::claim_uid;
use joiner_provider_kwok::live::KwokProvider;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::client::Body;
use serde_json::json;
use tokio::time::Instant;
use tower::Service;

/// Virtual time.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.0.elapsed()).unwrap();
        Timestamp::from_second(1_800_000_000).unwrap().checked_add(passed).unwrap()
    }

    fn monotonic(&self) -> Monotonic {
        Monotonic::new(self.0.elapsed())
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(time).boxed()
    }
}

#[derive(Default)]
struct State {
    process: usize,
    fault: Option<Fault>,
}

/// A cluster whose Nodes are machines.
struct KwokCloud {
    server: ApiServer,
    clock: Arc<PausedClock>,
    state: Arc<Mutex<State>>,
}

impl KwokCloud {
    async fn new() -> Self {
        let clock = Arc::new(PausedClock(Instant::now()));
        let of_server = clock.clone();
        let server = ApiServer::new(Arc::new(move || of_server.now()), &Settings::default());
        Self { server, clock, state: Arc::default() }
    }
}

/// The server as one process reaches it.
#[derive(Clone)]
struct Connection {
    server: ApiServer,
    state: Arc<Mutex<State>>,
    process: usize,
}

impl Connection {
    async fn answer(self, request: Request<Body>) -> io::Result<Response<ResponseBody>> {
        // A watch says nothing that a list does not.
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            return Ok(self.server.answer(request).await);
        }
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await.map_err(io::Error::other)?;
        let name = match parts.method == Method::POST {
            true => serde_json::from_slice::<Node>(&bytes)?.metadata.name,
            false => parts.uri.path().strip_prefix("/api/v1/nodes/").map(str::to_owned),
        };
        let is_last = {
            let mut state = self.state.lock().unwrap();
            let is_past = state.process != self.process;
            match &mut state.fault {
                _ if is_past => return Err(io::Error::other("the process is past")),
                Some(Fault::Crash { after_calls: 0 }) => return Err(io::Error::other("cut off")),
                Some(Fault::Crash { after_calls }) => {
                    *after_calls -= 1;
                    *after_calls == 0
                }
                Some(Fault::LostAnswer { after_calls: 0 }) => {
                    state.fault = None;
                    true
                }
                Some(Fault::LostAnswer { after_calls }) => {
                    *after_calls -= 1;
                    false
                }
                Some(Fault::BrokenFor(broken)) if name.as_ref() == Some(broken) => {
                    return Err(io::Error::other("broken"));
                }
                _ => false,
            }
        };
        let answer = self.server.answer(Request::from_parts(parts, Body::from(bytes.to_vec()))).await;
        if is_last { Err(io::Error::other("the answer is lost")) } else { Ok(answer) }
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

impl Cloud for KwokCloud {
    fn provider(&self) -> Arc<dyn Provider> {
        let process = {
            let mut state = self.state.lock().unwrap();
            *state = State { process: state.process + 1, fault: None };
            state.process
        };
        let connection = Connection { server: self.server.clone(), state: self.state.clone(), process };
        let client = Client::new(connection, "default");
        Arc::new(KwokProvider::new(client, Catalogue::hypothetical(), self.clock.clone()))
    }

    fn request(&self, name: &str) -> LaunchRequest {
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
        let types = ["c-1x-amd64-linux", "c-2x-amd64-linux"];
        let requirement =
            json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types});
        let claim: NodeClaim = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": format!("uid-of-{name}")},
            "spec": {"requirements": [requirement], "nodeClassRef": class},
        }))
        .unwrap();
        let client = Client::new(self.server.clone(), "default");
        let provider = KwokProvider::new(client, Catalogue::hypothetical(), self.clock.clone());
        let types = provider.watch_types(&claim.spec.node_class_ref).current();
        let offerings = offerings_of_claim(&claim, &types, &Unavailable::default()).unwrap();
        LaunchRequest {
            claim: claim.into(),
            class: Some(Arc::new(json!({"metadata": {"name": "default"}, "spec": {}}))),
            offerings: offerings.into(),
            overlaid: None,
            unavailable_subnets: Default::default(),
            deadline: Timestamp::MAX,
        }
    }

    fn machines(&self) -> BoxFuture<'_, Vec<Machine>> {
        let nodes: Api<Node> = Api::all(Client::new(self.server.clone(), "default"));
        async move {
            let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
            let machine = |node: Node| Machine {
                claim_uid: claim_uid(&node).unwrap_or_default().to_owned(),
                provider_id: node.spec.and_then(|spec| spec.provider_id),
            };
            nodes.into_iter().map(machine).collect()
        }
        .boxed()
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        tokio::time::sleep(Duration::from_secs(5)).boxed()
    }

    fn inject(&self, fault: Fault) -> bool {
        if matches!(fault, Fault::NoCapacity(_) | Fault::LateIdentity) {
            return false;
        }
        self.state.lock().unwrap().fault = Some(fault);
        true
    }
}

#[tokio::test(start_paused = true)]
async fn kwok_conforms() {
    conformance::assert_conforms(KwokCloud::new).await;
}

/// How many requests are under way together.
#[derive(Clone)]
struct Slow {
    server: ApiServer,
    under_way: Arc<Mutex<(usize, usize)>>,
}

impl Service<Request<Body>> for Slow {
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let slow = self.clone();
        Box::pin(async move {
            {
                let mut under_way = slow.under_way.lock().unwrap();
                under_way.0 += 1;
                under_way.1 = under_way.1.max(under_way.0);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            slow.under_way.lock().unwrap().0 -= 1;
            Ok(slow.server.answer(request).await)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_launched_side_by_side_and_within_bounds() {
    use futures::StreamExt;

    let cloud = KwokCloud::new().await;
    let slow = Slow { server: cloud.server.clone(), under_way: Arc::default() };
    let client = Client::new(slow.clone(), "default");
    let provider = KwokProvider::new(client, Catalogue::hypothetical(), cloud.clock.clone());
    let requests: Vec<_> = (0..100).map(|number| cloud.request(&format!("m-{number}"))).collect();
    let begun = Instant::now();
    let mut outcomes = provider.launch(requests);
    assert!(outcomes.next().await.is_some_and(|first| first.result.is_ok()));
    let first = begun.elapsed();
    assert_eq!(outcomes.count().await, 99);
    // Two round trips each: one after the other they would take 20 s.
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(first < Duration::from_millis(250), "the first outcome does not wait for the last: {first:?}");
    let most = slow.under_way.lock().unwrap().1;
    // Machines, and what the provider observes besides.
    assert!((10..=32 + 2).contains(&most), "{most} at once");
}

/// A request under a class with this spec.
fn under(cloud: &KwokCloud, name: &str, spec: serde_json::Value) -> LaunchRequest {
    let mut request = cloud.request(name);
    request.class = Some(Arc::new(json!({"metadata": {"name": "default"}, "spec": spec})));
    request
}

async fn one(
    provider: &Arc<dyn Provider>,
    request: LaunchRequest,
) -> Result<joiner_provider::Launched, joiner_provider::Error> {
    use futures::StreamExt;
    match provider.launch(vec![request]).next().await.unwrap().result? {
        joiner_provider::Launch::Launched(launched) => Ok(*launched),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stock_ends_and_what_is_ended_can_be_had_again() {
    use futures::StreamExt;

    let cloud = KwokCloud::new().await;
    let provider = cloud.provider();
    let spec = json!({"chaos": {"capacity": [
        {"instanceType": "c-1x-amd64-linux", "machines": 3},
        {"instanceType": "c-2x-amd64-linux", "machines": 2},
    ]}});
    let requests = (0..8).map(|number| under(&cloud, &format!("m-{number}"), spec.clone())).collect();
    let outcomes: Vec<_> = provider.launch(requests).collect().await;
    let bought: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.result.as_ref().ok()).collect();
    assert_eq!((bought.len(), cloud.machines().await.len()), (5, 5), "{outcomes:?}");
    assert!(outcomes.iter().any(|outcome| matches!(
        &outcome.result,
        Err(joiner_provider::Error::NoCapacity { scopes, .. }) if !scopes.is_empty()
    )));

    // Another process counts what stands.
    let provider = cloud.provider();
    assert!(one(&provider, under(&cloud, "late", spec.clone())).await.is_err());
    let nodes: Api<Node> = Api::all(Client::new(cloud.server.clone(), "default"));
    let first = nodes.list(&ListParams::default()).await.unwrap().items.remove(0);
    let id = first.spec.unwrap().provider_id.unwrap();
    provider.terminate(vec![id]).await.remove(0).unwrap();
    cloud.settle().await;
    one(&provider, under(&cloud, "late", spec)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn launches_fail_on_purpose_and_nodes_never_appear() {
    let cloud = KwokCloud::new().await;
    let provider = cloud.provider();
    let failing = json!({"chaos": {"launchFailurePercent": 50}});
    let mut failures = 0;
    for number in 0..20 {
        while let Err(error) = one(&provider, under(&cloud, &format!("m-{number}"), failing.clone())).await {
            assert!(matches!(error, joiner_provider::Error::Transient(_)), "{error}");
            failures += 1;
            assert!(failures < 100, "no launch ever succeeds");
        }
    }
    assert!(failures > 5, "{failures} failures of 20 launches at a half");

    let silent = json!({"chaos": {"neverRegisterPercent": 100}});
    let launched = one(&provider, under(&cloud, "silent", silent)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(cloud.machines().await.len(), 20, "its Node never appears");
    let found = provider.get(vec![launched.provider_id.clone()]).await.remove(0).unwrap();
    assert_eq!(found.and_then(|machine| machine.claim).as_deref(), Some("silent"), "the machine is there");
    provider.terminate(vec![launched.provider_id.clone()]).await.remove(0).unwrap();
    assert_eq!(provider.get(vec![launched.provider_id]).await.remove(0).unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_id_somebody_else_chose_joins_under_that_id() {
    let cloud = KwokCloud::new().await;
    let mut claim = (*cloud.request("default-x2b4z").claim).clone();
    claim.status = Some(
        serde_json::from_value(json!({"providerID": "kwok://kwok-default-x2b4z-happy-otter-1"})).unwrap(),
    );
    let class =
        Some(Arc::new(json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "30s"}})));
    let now = cloud.clock.now();
    let provider = cloud.provider();
    let machine = joiner_provider::Unregistered { claim: Arc::new(claim), class, launched_at: now };
    provider.adopt(vec![machine], now).await;
    let id = "kwok://kwok-default-x2b4z-happy-otter-1";
    assert!(provider.get(vec![id.to_owned()]).await.remove(0).unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(31)).await;
    let nodes: Api<Node> = Api::all(Client::new(cloud.server.clone(), "default"));
    let node = nodes.get("kwok-default-x2b4z-happy-otter-1").await.unwrap();
    assert_eq!(node.spec.unwrap().provider_id.as_deref(), Some(id));
    assert_eq!(
        provider.terminate(vec![id.to_owned()]).await.remove(0).unwrap(),
        joiner_provider::Terminated::Gone
    );
    cloud.settle().await;
    assert!(cloud.machines().await.is_empty());
}
