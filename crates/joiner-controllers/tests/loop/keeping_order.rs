//! A process that may not write, a step that panics, a provider that cannot list, an end while things are under way.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Method, Request, Response};
use jiff::Timestamp;
use joiner_api::nodepool::NodeClassReference;
use joiner_apiserver::service::{ApiServer, ResponseBody};
use joiner_provider::{
    Error, Instance, LaunchOutcome, LaunchRequest, Launched, Listed, NodeClassKind, Provider, Terminated,
    TypeFeed, Unregistered,
};
use joiner_record::words;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::time::Instant;
use tower::{BoxError, Service};

use crate::stage::{Spy, Stage, pod_node};

/// A provider that panics or fails so many times.
struct Troubled {
    inner: Arc<dyn Provider>,
    /// Asking for the types of the class `bad` panics so often.
    type_panics: AtomicUsize,
    /// Launching panics so often.
    launch_panics: AtomicUsize,
    /// Listing fails so often.
    list_failures: AtomicUsize,
}

impl Troubled {
    fn new(stage: &Stage) -> Self {
        Self {
            inner: stage.kwok(stage.client.clone()),
            type_panics: AtomicUsize::new(0),
            launch_panics: AtomicUsize::new(0),
            list_failures: AtomicUsize::new(0),
        }
    }
}

/// Whether there is one more to come.
fn one_more(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl Provider for Troubled {
    fn name(&self) -> &'static str {
        "troubled"
    }
    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        assert!(class.name != "bad" || !one_more(&self.type_panics), "the types of a bad class");
        self.inner.watch_types(class)
    }
    fn launch(&self, requests: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        assert!(!one_more(&self.launch_panics), "a bad launch");
        self.inner.launch(requests)
    }
    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        self.inner.find_by_claim(uid)
    }
    fn adopt(&self, machines: Vec<Unregistered>, now: Timestamp) -> BoxFuture<'_, ()> {
        self.inner.adopt(machines, now)
    }
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        self.inner.terminate(ids)
    }
    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        self.inner.get(ids)
    }
    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        if one_more(&self.list_failures) {
            let closed = Error::Transient("the cloud is closed".to_owned());
            return futures::stream::iter([Err(closed)]).boxed();
        }
        self.inner.list()
    }
}

async fn bound(stage: &Stage) -> usize {
    stage.pods().await.iter().filter(|pod| pod_node(pod).is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_behind_a_closed_fence() {
    let stage = Stage::new().await;
    let spy = Spy::new(&stage, usize::MAX);
    let running = stage.start_over(spy.client(), stage.kwok(spy.client()));
    stage.pass(3).await;
    running.fence.close();
    let before = spy.writes.load(Ordering::Relaxed);
    stage.create_pods("web", 2, "1").await;
    stage.pass(30).await;
    assert_eq!(spy.writes.load(Ordering::Relaxed), before, "{:#?}", spy.log.lock().unwrap());
    assert!(!running.summary.borrow().leads);
    assert_eq!(running.metrics.commands("create_claim", "fenced"), 0, "nobody decides what nobody may do");
    running.fence.advance(2);
    stage.pass(20).await;
    assert_eq!((stage.claims().await.len(), bound(&stage).await), (1, 2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_panics_takes_down_only_its_key() {
    let stage = Stage::new().await;
    let troubled = Arc::new(Troubled::new(&stage));
    let class = json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": "bad"}}}}});
    stage.apply_pool("bad", class).await;
    troubled.type_panics.store(4, Ordering::Relaxed);
    let running = stage.start_over(stage.client.clone(), troubled.clone());
    stage.create_pods("web", 2, "1").await;
    stage.pass(60).await;
    assert_eq!(running.metrics.step_panics(), 4, "{}", running.metrics.text());
    assert_eq!((stage.claims().await.len(), bound(&stage).await), (1, 2), "the others go on");
    assert!(stage.pool("bad").await.status.is_some(), "and so does the one, later");
    let journal = running.summary.borrow().journal.clone();
    assert!(
        journal.iter().any(|of| words::summary(of).contains("panicked: the types of a bad class")),
        "{journal:#?}"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_command_that_panics_is_tried_again() {
    let stage = Stage::new().await;
    let troubled = Arc::new(Troubled::new(&stage));
    troubled.launch_panics.store(2, Ordering::Relaxed);
    let running = stage.start_over(stage.client.clone(), troubled.clone());
    stage.create_pods("web", 2, "1").await;
    stage.pass(30).await;
    assert_eq!(running.metrics.step_panics(), 2);
    assert_eq!((stage.claims().await.len(), stage.nodes().await.len(), bound(&stage).await), (1, 1, 2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_told_and_repeated() {
    let stage = Stage::new().await;
    let troubled = Arc::new(Troubled::new(&stage));
    troubled.list_failures.store(3, Ordering::Relaxed);
    let running = stage.start_over(stage.client.clone(), troubled.clone());
    stage.pass(10).await;
    let journal = running.summary.borrow().journal.clone();
    let told: Vec<String> = journal.iter().map(|of| words::summary(of)).collect();
    assert_eq!(
        told,
        [1, 2, 4].map(|seconds| {
            format!("cannot list the machines of provider troubled: the cloud is closed; tried again in {seconds} s")
        })
    );
    let listed = |outcome| running.metrics.commands("list_machines", outcome);
    assert_eq!(
        (listed("transient"), listed("done")),
        (3, 1),
        "not after two minutes, but after seven seconds"
    );
    running.stop().await;
}

/// A way to a server that answers writes late, or not at all.
#[derive(Clone)]
struct Slow {
    server: ApiServer,
    delay: Option<Duration>,
    begun: Arc<AtomicBool>,
}

impl Service<Request<Body>> for Slow {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let slow = self.clone();
        Box::pin(async move {
            if request.method() == Method::POST && request.uri().path().ends_with("/nodeclaims") {
                slow.begun.store(true, Ordering::Relaxed);
                match slow.delay {
                    Some(delay) => tokio::time::sleep(delay).await,
                    None => std::future::pending().await,
                }
            }
            Ok(slow.server.answer(request).await)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_what_is_under_way_but_not_for_ever() {
    for (delay, claims, seconds) in [(Some(Duration::from_secs(8)), 1, 3..9), (None, 0, 25..26)] {
        let stage = Stage::new().await;
        let slow = Slow { server: stage.server.clone(), delay, begun: Arc::default() };
        let client = Client::new(slow.clone(), "default");
        let running = stage.start_over(client.clone(), stage.kwok(client));
        stage.create_pods("web", 1, "1").await;
        while !slow.begun.load(Ordering::Relaxed) {
            stage.pass(1).await;
        }
        let told = Instant::now();
        running.stop().await;
        assert!(seconds.contains(&told.elapsed().as_secs()), "{:?} with {delay:?}", told.elapsed());
        assert_eq!(stage.claims().await.len(), claims, "what was sent is finished");
        assert_eq!(stage.nodes().await.len(), 0, "what was not sent is not");
        let running = stage.start();
        stage.pass(20).await;
        assert_eq!((stage.claims().await.len(), bound(&stage).await), (1, 1), "whoever comes next goes on");
        running.stop().await;
    }
}

/// What is done between two looks at what has come: events, keys, answers and notes.
#[tokio::test(start_paused = true)]
async fn a_burst_is_worked_off_in_portions() {
    let mut busiest = Vec::new();
    for pods in [600, 1200] {
        let stage = Stage::new().await;
        let running = stage.start();
        stage.create_pods("web", pods, "3").await;
        stage.pass(40).await;
        assert_eq!(bound(&stage).await, pods);
        busiest.push(running.busiest.pieces());
        running.stop().await;
    }
    // It does not grow with the burst: 64 of each kind.
    assert!(busiest.iter().all(|pieces| (64..=256).contains(pieces)), "{busiest:?}");
}
