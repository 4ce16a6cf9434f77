//! Several joiners on one cluster: who leads, what the others do, and that nobody writes who does not lead.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::Timestamp;
use joiner_api::NodeClaim;
use joiner_api::nodepool::NodeClassReference;
use joiner_apiserver::service::{ApiServer, ResponseBody};
use joiner_controllers::{
    Controllers, Fence, GuardLayer, Leadership, LeaseSettings, Metrics, Settings, Summary, lease,
};
use joiner_provider::{
    Clock, Error, Instance, LaunchOutcome, LaunchRequest, Launched, Listed, Monotonic, NodeClassKind,
    Provider, Registry, Terminated, TypeFeed, Unregistered,
};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::stage::Stage;

/// A process that can be stopped and goes on late: nothing of it is woken and nothing reaches it meanwhile, but time passes.
#[derive(Clone)]
struct Frozen(watch::Sender<bool>);

impl Frozen {
    fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    fn set(&self, frozen: bool) {
        self.0.send_replace(frozen);
    }

    fn thaw(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut state = self.0.subscribe();
        async move {
            let _ = state.wait_for(|frozen| !frozen).await;
        }
    }
}

/// The clock of a process that can be stopped.
struct StoppableClock {
    clock: Arc<dyn Clock>,
    frozen: Frozen,
}

impl Clock for StoppableClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
    fn monotonic(&self) -> Monotonic {
        self.clock.monotonic()
    }
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        let (sleep, frozen) = (self.clock.sleep(time), self.frozen.clone());
        async move {
            sleep.await;
            frozen.thaw().await;
        }
        .boxed()
    }
}

/// Writes of all replicas, as they reached the server: when, whose, what.
type Log = Arc<Mutex<Vec<(Instant, &'static str, String)>>>;

/// The way to the server: it notes writes, and can be cut.
#[derive(Clone)]
struct Wire {
    server: ApiServer,
    whose: &'static str,
    log: Log,
    cut: watch::Sender<bool>,
}

impl Service<Request<Body>> for Wire {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let wire = self.clone();
        async move {
            if *wire.cut.borrow() {
                return std::future::pending().await;
            }
            let path = request.uri().path().to_owned();
            if request.method() != Method::GET && !path.contains("/leases") {
                let line = format!("{} {path}", request.method());
                wire.log.lock().unwrap().push((Instant::now(), wire.whose, line));
            }
            Ok(wire.server.answer(request).await)
        }
        .boxed()
    }
}

/// What stands before a service while its process is stopped: neither requests nor answers pass.
#[derive(Clone)]
struct Stoppable<S> {
    inner: S,
    frozen: Frozen,
}

impl<S> Service<Request<Body>> for Stoppable<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut inner, frozen) = (self.inner.clone(), self.frozen.clone());
        async move {
            frozen.thaw().await;
            let answer = inner.call(request).await;
            frozen.thaw().await;
            answer
        }
        .boxed()
    }
}

/// One joiner of several.
struct Replica {
    whose: &'static str,
    frozen: Frozen,
    cut: watch::Sender<bool>,
    leadership: watch::Receiver<Leadership>,
    summary: watch::Receiver<Summary>,
    metrics: Arc<Metrics>,
    work: JoinHandle<()>,
    keeper: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
    release: Option<oneshot::Sender<()>>,
}

impl Replica {
    fn start(stage: &Stage, log: &Log, whose: &'static str) -> Self {
        Self::of(stage, log, whose, "karpenter-leader-election", |client, clock| {
            Arc::new(KwokProvider::new(client, Catalogue::hypothetical(), clock))
        })
    }

    fn of(
        stage: &Stage,
        log: &Log,
        whose: &'static str,
        name: &str,
        provider: impl FnOnce(Client, Arc<dyn Clock>) -> Arc<dyn Provider>,
    ) -> Self {
        let frozen = Frozen::new();
        let clock: Arc<dyn Clock> =
            Arc::new(StoppableClock { clock: stage.shared_clock(), frozen: frozen.clone() });
        let cut = watch::Sender::new(false);
        let wire = Wire { server: stage.server.clone(), whose, log: log.clone(), cut: cut.clone() };
        let (fence, metrics) = (Fence::closed(clock.clone()), Arc::new(Metrics::default()));
        // A request waits in the client's queue while the process is stopped, and meets the guard late.
        let guarded = GuardLayer::new(fence.clone(), metrics.clone()).layer(wire.clone());
        let client = Client::new(Stoppable { inner: guarded, frozen: frozen.clone() }, "default");
        let plain = Client::new(Stoppable { inner: wire, frozen: frozen.clone() }, "default");
        let provider = provider(client.clone(), clock.clone());
        let registry = Registry::new([provider]).unwrap();
        let (fenced, counted) = (fence.clone(), metrics.clone());
        let controllers =
            Controllers::behind(fenced, client, registry, clock.clone(), Settings::default(), counted);
        let summary = controllers.summary();
        let (tell, leadership) = watch::channel(Leadership::default());
        let settings = LeaseSettings::new("kube-system", name, whose);
        let (release, released) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let keeper = tokio::spawn(lease::run(plain, settings, fence, clock, tell, released));
        let work = tokio::spawn(controllers.run(async {
            let _ = stopped.await;
        }));
        let (stop, release) = (Some(stop), Some(release));
        Self { whose, frozen, cut, leadership, summary, metrics, work, keeper, stop, release }
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().leads
    }

    /// As SIGTERM: first the controllers end, then the lease is given back.
    async fn end(mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.work.await.unwrap();
        let _ = self.release.take().unwrap().send(());
        self.keeper.await.unwrap();
    }

    /// As SIGKILL.
    async fn kill(self) {
        self.work.abort();
        self.keeper.abort();
        let _ = (self.work.await, self.keeper.await);
    }

    fn wrote_since(&self, log: &Log, since: Instant) -> Vec<String> {
        let log = log.lock().unwrap();
        let own = log.iter().filter(|(when, whose, _)| *when >= since && *whose == self.whose);
        own.map(|(_, _, line)| line.clone()).collect()
    }
}

/// Every claim has its node and every node its claim: nothing was bought twice.
async fn no_machine_twice(stage: &Stage, machines: usize) {
    let claims: BTreeSet<String> = stage.claims().await.iter().map(ResourceExt::name_any).collect();
    let nodes: BTreeSet<String> = stage.nodes().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(claims, nodes);
    assert_eq!(claims.len(), machines, "{claims:?}");
    let pods = stage.pods().await;
    assert!(pods.iter().all(|pod| crate::stage::pod_node(pod).is_some()), "every pod has its place");
}

async fn until(what: &str, stage: &Stage, seconds: u64, mut is_so: impl AsyncFnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(seconds), "{what}: not within {seconds} s");
        stage.pass_millis(500).await;
    }
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_observes() {
    let (stage, log) = (Stage::new().await, Log::default());
    let first = Replica::start(&stage, &log, "a_1");
    stage.pass(3).await;
    let second = Replica::start(&stage, &log, "b_2");
    stage.pass(3).await;
    assert!(first.leads() && !second.leads());
    assert_eq!(second.leadership.borrow().holder.as_deref(), Some("a_1"));
    stage.create_pods("web", 10, "1").await;
    stage.pass(20).await;
    no_machine_twice(&stage, 2).await;
    assert!(second.wrote_since(&log, Instant::now() - Duration::from_secs(60)).is_empty());
    let summary = second.summary.borrow().clone();
    assert!(summary.ready && !summary.leads, "{summary:?}");
    assert_eq!((summary.nodes, summary.decisions), (2, 0), "it sees everything and decides nothing");
    let lease: Lease =
        Api::namespaced(stage.client.clone(), "kube-system").get("karpenter-leader-election").await.unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
    assert_eq!(spec.holder_identity.as_deref(), Some("a_1"));
    // The sum over replicas is what happened.
    let made = "karpenter_nodeclaims_created_total{min_values_relaxed=\"false\",nodepool=\"default\",reason=\"provisioned\"} 2";
    assert!(first.metrics.text().contains(made), "{}", first.metrics.text());
    assert!(!second.metrics.text().contains("karpenter_nodeclaims_created_total"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_given_back_is_taken_at_once() {
    let (stage, log) = (Stage::new().await, Log::default());
    let first = Replica::start(&stage, &log, "a_1");
    stage.pass(3).await;
    let second = Replica::start(&stage, &log, "b_2");
    stage.create_pods("web", 10, "1").await;
    stage.pass(1).await;
    let begun = Instant::now();
    first.end().await;
    let mut leadership = second.leadership.clone();
    leadership.wait_for(|told| told.leads).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    stage.pass(20).await;
    no_machine_twice(&stage, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_followed_within_its_lease() {
    let (stage, log) = (Stage::new().await, Log::default());
    let first = Replica::start(&stage, &log, "a_1");
    stage.pass(3).await;
    let second = Replica::start(&stage, &log, "b_2");
    stage.pass(3).await;
    stage.create_pods("web", 10, "1").await;
    // In the middle of the purchase.
    stage.pass_millis(1100).await;
    first.kill().await;
    let took = until("the other leads", &stage, 20, async || second.leads()).await;
    assert!(took >= Duration::from_secs(12), "nobody takes it early: {took:?}");
    stage.pass(30).await;
    no_machine_twice(&stage, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_leader_that_goes_on_late_writes_nothing() {
    // Stopped at one moment or another of its batch, its decision, its writes and its launches.
    for milliseconds in [0, 400, 999, 1000, 1001, 1002, 1003, 1500, 2600, 3200] {
        let (stage, log) = (Stage::new().await, Log::default());
        let first = Replica::start(&stage, &log, "a_1");
        stage.pass(3).await;
        let second = Replica::start(&stage, &log, "b_2");
        stage.pass(3).await;
        assert!(first.leads());
        stage.create_pods("web", 10, "1").await;
        // The scheduler says that there is no place.
        stage.pass_millis(10).await;
        stage.pass_millis(milliseconds).await;
        first.frozen.set(true);
        let frozen = Instant::now();
        stage.pass(60).await;
        assert!(second.leads(), "stopped after {milliseconds} ms");
        assert!(first.wrote_since(&log, frozen).is_empty(), "nothing leaves a stopped process");
        stage.create_pods("more", 3, "3").await;
        stage.pass(1).await;
        let thawed = Instant::now();
        first.frozen.set(false);
        stage.pass(40).await;
        let late = first.wrote_since(&log, thawed);
        assert!(late.is_empty(), "stopped after {milliseconds} ms: {late:?}");
        assert!(second.leads() && !first.leads());
        no_machine_twice(&stage, stage.claims().await.len()).await;
        assert_eq!(first.leadership.borrow().holder.as_deref(), Some("b_2"), "it stands by");
        // And it is as good a leader as ever.
        second.kill().await;
        until("the first leads again", &stage, 20, async || first.leads()).await;
        let before = stage.claims().await.len();
        stage.create_pods("last", 1, "7").await;
        stage.pass(20).await;
        no_machine_twice(&stage, before + 1).await;
        first.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_way_to_the_server_stops_before_another_begins() {
    let (stage, log) = (Stage::new().await, Log::default());
    let first = Replica::start(&stage, &log, "a_1");
    stage.pass(3).await;
    let second = Replica::start(&stage, &log, "b_2");
    stage.pass(3).await;
    first.cut.send_replace(true);
    let stopped = until("the first stops", &stage, 20, async || !first.leads()).await;
    assert!(stopped <= Duration::from_secs(11) && !second.leads(), "{stopped:?}");
    let begins = until("the second begins", &stage, 20, async || second.leads()).await;
    assert!(begins >= Duration::from_secs(3), "in between nobody leads: {begins:?}");
    stage.create_pods("web", 10, "1").await;
    stage.pass(20).await;
    no_machine_twice(&stage, 2).await;
    second.end().await;
    first.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_on_its_way_comes_once_whoever_leads() {
    let (stage, log) = (Stage::new().await, Log::default());
    stage.apply_class(json!({"nodeRegistrationDelay": "40s"})).await;
    let first = Replica::start(&stage, &log, "a_1");
    stage.pass(3).await;
    let second = Replica::start(&stage, &log, "b_2");
    stage.pass(3).await;
    stage.create_pods("web", 2, "1").await;
    stage.pass(5).await;
    assert_eq!((stage.claims().await.len(), stage.nodes().await.len()), (1, 0), "the node comes later");
    first.cut.send_replace(true);
    stage.pass(20).await;
    first.cut.send_replace(false);
    assert!(second.leads());
    let since = Instant::now();
    stage.pass(60).await;
    no_machine_twice(&stage, 1).await;
    assert!(first.wrote_since(&log, since).is_empty(), "who leads no more writes no node either");
}

/// The KWOK provider for one kind of node class.
struct OneKind {
    inner: KwokProvider,
    name: &'static str,
    kinds: Vec<NodeClassKind>,
}

impl Provider for OneKind {
    fn name(&self) -> &str {
        self.name
    }
    fn node_class_kinds(&self) -> &[NodeClassKind] {
        &self.kinds
    }
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        self.inner.watch_types(class)
    }
    fn launch(&self, batch: Vec<LaunchRequest>) -> futures::stream::BoxStream<'_, LaunchOutcome> {
        self.inner.launch(batch)
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
    fn list(&self) -> futures::stream::BoxStream<'_, Result<Listed, Error>> {
        self.inner.list()
    }
}

#[tokio::test(start_paused = true)]
async fn joiners_for_different_classes_share_a_cluster() {
    let (stage, log) = (Stage::new().await, Log::default());
    let definitions = joiner_api::crd::of_others();
    for definition in definitions {
        let object = serde_json::to_value(&definition).unwrap();
        stage.server.ensure("apiextensions.k8s.io", "customresourcedefinitions", "", object).unwrap();
    }
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "node",
            "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    let request = Request::post("/apis/karpenter.k8s.aws/v1/ec2nodeclasses")
        .header("content-type", "application/json")
        .body(class.to_string().into_bytes());
    stage.client.request::<serde_json::Value>(request.unwrap()).await.unwrap();
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let template = json!({"metadata": {"labels": {"cloud": "other"}}, "spec": {"nodeClassRef": reference}});
    stage.apply_pool("other", json!({"spec": {"template": template}})).await;
    let of_kind = |kind: &'static str| {
        move |client: Client, clock: Arc<dyn Clock>| -> Arc<dyn Provider> {
            let inner = KwokProvider::new(client, Catalogue::hypothetical(), clock)
                .serving_aws(Arc::new(|_, _, _| Catalogue::hypothetical()));
            let all = inner.node_class_kinds().iter();
            let kinds = all.filter(|of| of.kind == kind).cloned().collect();
            Arc::new(OneKind { inner, name: kind, kinds })
        }
    };
    let kwok = Replica::of(&stage, &log, "kwok", "joiner-kwok", of_kind("KWOKNodeClass"));
    let other = Replica::of(&stage, &log, "other", "joiner-other", of_kind("EC2NodeClass"));
    stage.pass(3).await;
    assert!(kwok.leads() && other.leads(), "each has a lease of its own");
    stage
        .create_pod("here", "1", json!({"spec": {"nodeSelector": {"karpenter.sh/nodepool": "default"}}}))
        .await;
    stage.create_pod("there", "1", json!({"spec": {"nodeSelector": {"cloud": "other"}}})).await;
    stage.pass(20).await;
    let claims = stage.claims().await;
    let mut pools: BTreeMap<String, usize> = BTreeMap::new();
    for claim in &claims {
        *pools.entry(claim.labels()["karpenter.sh/nodepool"].clone()).or_default() += 1;
    }
    assert_eq!(pools, BTreeMap::from([("default".to_owned(), 1), ("other".to_owned(), 1)]));
    let touches = |whose: &str, pool: &str| {
        let of_pool: Vec<String> = claims
            .iter()
            .filter(|claim| claim.labels()["karpenter.sh/nodepool"] == pool)
            .map(ResourceExt::name_any)
            .collect();
        let log = log.lock().unwrap();
        log.iter().any(|(_, of, line)| {
            *of == whose && of_pool.iter().any(|name| line.ends_with(&format!("/{name}")))
        })
    };
    assert!(touches("kwok", "default") && touches("other", "other"));
    assert!(!touches("kwok", "other") && !touches("other", "default"), "each leaves the other's alone");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_it_would_do_and_writes_nothing() {
    let (stage, log) = (Stage::new().await, Log::default());
    // Somebody else is at work: an empty node that it made is there.
    let made = stage.start();
    stage.apply_pool("default", json!({"spec": {"disruption": {"consolidateAfter": "0s"}}})).await;
    stage.create_pods("early", 1, "1").await;
    stage.pass(20).await;
    made.kill().await;
    stage.delete_pod("early-0").await;
    let wire =
        Wire { server: stage.server.clone(), whose: "dry", log: log.clone(), cut: watch::Sender::new(false) };
    let clock = stage.shared_clock();
    let (fence, metrics) = (Fence::closed(clock.clone()), Arc::new(Metrics::default()));
    // Without the guard: the controllers themselves must not even try.
    let client = Client::new(wire, "default");
    let provider: Arc<dyn Provider> =
        Arc::new(KwokProvider::new(client.clone(), Catalogue::hypothetical(), clock.clone()));
    let settings = Settings { dry_run: true, ..Settings::default() };
    let registry = Registry::new([provider]).unwrap();
    let mut controllers = Controllers::behind(fence, client, registry, clock, settings, metrics);
    let mut told = controllers.follow_decisions(1000);
    let summary = controllers.summary();
    let work = tokio::spawn(controllers.run(std::future::pending()));
    stage.create_pods("big", 4, "7").await;
    stage.pass(120).await;
    assert_eq!(log.lock().unwrap().as_slice(), []);
    let mut said: Vec<String> = Vec::new();
    while let Ok(entry) = told.try_recv() {
        let joiner_record::Entry::Decided(decision) = entry else { panic!("{entry:?}") };
        assert!(decision.dry_run && decision.commands.iter().all(|command| command.completed.is_none()));
        said.push(joiner_record::words::summary(&decision));
    }
    let bought: Vec<&String> =
        said.iter().filter(|line| line.starts_with("would: ") && line.contains("for 4 pods")).collect();
    assert_eq!(bought.len(), 1, "told once, however often it is looked at: {said:?}");
    assert_eq!(said.iter().collect::<BTreeSet<_>>().len(), said.len(), "{said:?}");
    assert_eq!(summary.borrow().pending_pods, 4);
    work.abort();
    let _ = work.await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_another_program_is_waited_out() {
    let (stage, log) = (Stage::new().await, Log::default());
    // Somebody else holds the lease, and is gone.
    let lease = json!({
        "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
        "spec": {"holderIdentity": "karpenter-0_x", "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "renewTime": "2026-01-05T08:00:00.000000Z", "acquireTime": "2026-01-05T08:00:00.000000Z"},
    });
    let leases: Api<Lease> = Api::namespaced(stage.client.clone(), "kube-system");
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let replica = Replica::start(&stage, &log, "a_1");
    stage.create_pods("web", 1, "1").await;
    stage.pass(10).await;
    assert!(!replica.leads() && stage.claims().await.is_empty());
    stage.pass(30).await;
    let claims: Vec<NodeClaim> = stage.claims().await;
    assert!(replica.leads() && claims.len() == 1);
    let spec = leases.get("karpenter-leader-election").await.unwrap().spec.unwrap();
    assert_eq!(spec.lease_transitions, Some(4), "the count goes on");
    replica.end().await;
    let spec = leases.get("karpenter-leader-election").await.unwrap().spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
}
