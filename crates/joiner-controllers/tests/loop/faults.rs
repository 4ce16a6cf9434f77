//! Every call of a scenario meets every fault once: all comes to the same end, nothing is made twice, and somebody is told.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use joiner_api::NodeClaim;
use joiner_apiserver::service::{ApiServer, ResponseBody};
use joiner_controllers::{Metrics, Settings};
use kube::api::{Api, DeleteParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tower::{BoxError, Service};

use crate::stage::{Stage, pod_node};

/// What a call meets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Not carried out, and this status instead.
    Instead(u16),
    /// Not carried out: nobody there knows the path.
    KindMissing,
    /// Carried out, then this status.
    After(u16),
    /// Carried out, then the connection breaks.
    ReplyLost,
    /// Carried out, then nothing.
    Silence,
}

const REFUSALS: [Fault; 5] =
    [Fault::Instead(403), Fault::KindMissing, Fault::Instead(409), Fault::Instead(410), Fault::Instead(429)];
const DOUBTS: [Fault; 5] =
    [Fault::Instead(500), Fault::Instead(503), Fault::After(504), Fault::ReplyLost, Fault::Silence];

/// The way to a server on which one call meets a fault.
#[derive(Clone)]
pub struct Faulty {
    server: ApiServer,
    fault: Fault,
    /// Which call.
    at: usize,
    /// Which calls are counted.
    counts: fn(&Request<Body>) -> bool,
    pub calls: Arc<AtomicUsize>,
    /// Calls that were carried out and went well.
    pub log: Arc<Mutex<Vec<String>>>,
    pub met: Arc<Mutex<Option<String>>>,
}

impl Faulty {
    pub fn new(stage: &Stage, at: usize, fault: Fault) -> Self {
        let server = stage.server.clone();
        let (calls, log, met) = Default::default();
        Self { server, fault, at, counts, calls, log, met }
    }

    /// Counts events, too.
    pub fn with_events(self) -> Self {
        Self { counts: |request| !follows(request), ..self }
    }

    pub fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    pub fn made(&self, kind: &str) -> usize {
        let log = self.log.lock().unwrap();
        log.iter().filter(|line| line.starts_with("POST ") && line.ends_with(kind)).count()
    }
}

/// Watches and their lists have faults of their own, and an event that is lost is no loss.
fn counts(request: &Request<Body>) -> bool {
    !follows(request) && !request.uri().path().contains("/events")
}

fn follows(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::GET && (query.contains("watch=") || query.contains("limit="))
}

fn status(code: u16) -> Response<ResponseBody> {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("a fault: {reason}")});
    answer(code, body.to_string())
}

fn answer(code: u16, text: String) -> Response<ResponseBody> {
    let body = ResponseBody::new(http_body_util::Full::from(text.into_bytes()));
    Response::builder().status(StatusCode::from_u16(code).unwrap()).body(body).unwrap()
}

impl Service<Request<Body>> for Faulty {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let faulty = self.clone();
        Box::pin(async move {
            if !(faulty.counts)(&request) {
                return Ok(faulty.server.answer(request).await);
            }
            let number = faulty.calls.fetch_add(1, Ordering::Relaxed) + 1;
            let line = format!("{} {}", request.method(), request.uri().path());
            if number == faulty.at {
                *faulty.met.lock().unwrap() = Some(line.clone());
                match faulty.fault {
                    Fault::Instead(code) => return Ok(status(code)),
                    Fault::KindMissing => return Ok(answer(404, "404 page not found\n".to_owned())),
                    Fault::After(_) | Fault::ReplyLost | Fault::Silence => {}
                }
            }
            let answered = faulty.server.answer(request).await;
            if answered.status().is_success() {
                faulty.log.lock().unwrap().push(line);
            }
            match faulty.fault {
                _ if number != faulty.at => Ok(answered),
                Fault::After(code) => Ok(status(code)),
                Fault::ReplyLost => Err("connection reset by peer".into()),
                _ => std::future::pending().await,
            }
        })
    }
}

pub fn settings() -> Settings {
    let (call_timeout, provider_timeout) = (Duration::from_secs(5), Duration::from_secs(10));
    Settings { call_timeout, provider_timeout, ..Settings::default() }
}

/// Whether anything went otherwise than it should.
fn is_told(metrics: &Metrics) -> bool {
    let text = metrics.text();
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0"));
    let mut odd = samples.filter(|line| {
        let failed = line.starts_with("joiner_commands_total") && !line.contains("outcome=\"done\"");
        failed || line.starts_with("joiner_retries_total")
    });
    odd.next().is_some()
}

pub async fn until<F: AsyncFnMut() -> bool>(stage: &Stage, seconds: u64, mut is_over: F) -> bool {
    for _ in 0..seconds / 5 {
        if is_over().await {
            return true;
        }
        stage.pass(5).await;
    }
    is_over().await
}

/// From pods without a place to a node, and from a node without pods to nothing. How many calls there were.
async fn live(at: usize, fault: Fault) -> usize {
    let stage = Stage::new().await;
    stage.apply_pool("default", json!({"spec": {"disruption": {"consolidateAfter": "10s"}}})).await;
    let way = Faulty::new(&stage, at, fault);
    let running = stage.start_with(way.client(), stage.kwok(way.client()), settings());
    stage.create_pods("web", 2, "1").await;
    stage.pass(10).await;
    let what =
        || format!("{fault:?} at call {at}, {:?}: {:#?}", way.met.lock().unwrap(), way.log.lock().unwrap());
    let all_bound = async || stage.pods().await.iter().all(|pod| pod_node(pod).is_some());
    assert!(until(&stage, 90, all_bound).await, "pods have no place: {}", what());
    assert_eq!((stage.claims().await.len(), stage.nodes().await.len()), (1, 1), "{}", what());
    stage.pass(5).await;
    stage.delete_pod("web-0").await;
    stage.delete_pod("web-1").await;
    let none_left = async || stage.nodes().await.is_empty() && stage.claims().await.is_empty();
    assert!(until(&stage, 300, none_left).await, "machines are left: {}", what());
    assert_eq!((way.made("/nodeclaims"), way.made("/nodes")), (1, 1), "made twice: {}", what());
    // A call that is never answered is noticed when its time is over.
    stage.pass(12).await;
    let met = way.met.lock().unwrap().clone();
    if let Some(met) = met {
        // What the simulated cloud makes of its own calls is its own affair where it can still do what it was asked.
        let of_cloud = met.contains("/nodes/") && (met.starts_with("GET") || met.starts_with("DELETE"));
        let of_cloud = of_cloud || met == "POST /api/v1/nodes";
        assert!(
            of_cloud || is_told(&running.metrics),
            "nobody was told: {}\n{}",
            what(),
            running.metrics.text()
        );
    }
    running.stop().await;
    way.calls.load(Ordering::Relaxed)
}

/// A node with pods is taken away. How many calls there were.
async fn drain(at: usize, fault: Fault) -> usize {
    let stage = Stage::new().await;
    let running = stage.start();
    stage.create_pods("web", 2, "1").await;
    stage.pass(15).await;
    running.stop().await;
    let way = Faulty::new(&stage, at, fault);
    let running = stage.start_with(way.client(), stage.kwok(way.client()), settings());
    stage.pass(1).await;
    let name = stage.claims().await[0].name_any();
    let claims: Api<NodeClaim> = Api::all(stage.client.clone());
    claims.delete(&name, &DeleteParams::default()).await.unwrap();
    let what =
        || format!("{fault:?} at call {at}, {:?}: {:#?}", way.met.lock().unwrap(), way.log.lock().unwrap());
    let is_gone = async || {
        let node_is_there = stage.nodes().await.iter().any(|node| node.name_any() == name);
        stage.pods().await.is_empty() && !node_is_there && claims.get_opt(&name).await.unwrap().is_none()
    };
    assert!(until(&stage, 300, is_gone).await, "the node stays: {}", what());
    assert!(way.made("/nodeclaims") <= 1, "a place is bought ahead once at most: {}", what());
    let evictions = way.made("/eviction");
    assert!((1..=3).contains(&evictions), "{evictions} evictions: {}", what());
    running.stop().await;
    way.calls.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_life_goes_on_after_a_refusal() {
    let calls = live(0, Fault::Silence).await;
    assert!(calls > 15, "{calls}");
    for at in 1..=calls {
        for fault in REFUSALS {
            live(at, fault).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_life_goes_on_without_an_answer() {
    let calls = live(0, Fault::Silence).await;
    for at in 1..=calls {
        for fault in DOUBTS {
            live(at, fault).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_after_any_fault() {
    let calls = drain(0, Fault::Silence).await;
    assert!(calls > 6, "{calls}");
    for at in 1..=calls {
        for fault in REFUSALS.into_iter().chain(DOUBTS) {
            drain(at, fault).await;
        }
    }
}
