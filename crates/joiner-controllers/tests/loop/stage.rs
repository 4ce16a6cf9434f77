//! A simulated cluster with the controllers in it: `joiner-sim` with its scheduler, kubelets and workload controllers, and the KWOK provider.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use joiner_api::{KwokNodeClass, NodeClaim, NodePool};
use joiner_apiserver::service::{ApiServer, ResponseBody, Settings as ServerSettings};
use joiner_controllers::{BusiestTurn, Controllers, Fence, Inspector, Metrics, Settings, Summary};
use joiner_provider::{Monotonic, Provider, Registry};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use joiner_sim::clock::Clock;
use joiner_sim::controller::Participant;
use joiner_sim::event::Event as Told;
use joiner_sim::kubelet::{Lifecycle, Span};
use joiner_sim::scheduler::Scheduler;
use joiner_sim::settings::Settings as WorldSettings;
use joiner_sim::world::World;
use joiner_sim::write::Write;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tower::Service;

/// Where virtual time begins.
const BEGIN: &str = "2026-01-05T08:00:00Z";
/// How long nodes take to boot, unless a test says otherwise.
const BOOT: Duration = Duration::from_secs(2);

pub struct Stage {
    pub server: ApiServer,
    pub client: Client,
    clock: WallClock,
    world: Rc<tokio::sync::Mutex<World>>,
    /// The scheduler binds pods.
    binding: Arc<AtomicBool>,
}

/// The clock of the cluster, as somebody has set it.
#[derive(Clone)]
struct WallClock {
    clock: Clock,
    /// By how many seconds the clock on the wall has been set.
    set_by: Arc<AtomicI64>,
}

impl WallClock {
    fn now(&self) -> Timestamp {
        self.clock.now() + SignedDuration::from_secs(self.set_by.load(Ordering::Relaxed))
    }
}

impl joiner_provider::Clock for WallClock {
    fn now(&self) -> Timestamp {
        WallClock::now(self)
    }

    fn monotonic(&self) -> Monotonic {
        self.clock.monotonic()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(time)
    }
}

/// The scheduler, whose bindings can be made to wait.
struct SlowToBind {
    scheduler: Scheduler,
    binding: Arc<AtomicBool>,
    waiting: Vec<Write>,
}

impl Participant for SlowToBind {
    fn name(&self) -> &'static str {
        self.scheduler.name()
    }

    fn observe(&mut self, event: &Told) {
        self.scheduler.observe(event);
    }

    fn step(&mut self, now: Timestamp) -> Vec<Write> {
        if self.binding.load(Ordering::Relaxed) {
            let mut writes = std::mem::take(&mut self.waiting);
            writes.extend(self.scheduler.step(now));
            return writes;
        }
        loop {
            let writes = self.scheduler.step(now);
            let (bindings, others): (Vec<Write>, Vec<Write>) =
                writes.into_iter().partition(|write| matches!(write, Write::Bind { .. }));
            let none = bindings.is_empty();
            self.waiting.extend(bindings);
            if none || !others.is_empty() {
                return others;
            }
        }
    }

    fn refused(&mut self, write: &Write, code: u16, message: &str) {
        self.scheduler.refused(write, code, message);
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        match self.waiting.is_empty() || !self.binding.load(Ordering::Relaxed) {
            true => self.scheduler.wakes_at(),
            false => Some(Timestamp::MIN),
        }
    }
}

/// Controllers at work.
pub struct Running {
    pub summary: watch::Receiver<Summary>,
    pub metrics: Arc<Metrics>,
    pub fence: Fence,
    pub inspector: Inspector,
    pub busiest: BusiestTurn,
    task: JoinHandle<()>,
    shutdown: Option<oneshot::Sender<()>>,
    world: Rc<tokio::sync::Mutex<World>>,
}

impl Running {
    /// As if the process were killed.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// As if the process were asked to end.
    pub async fn stop(mut self) {
        let _ = self.shutdown.take().unwrap().send(());
        let mut world = self.world.lock().await;
        tokio::select! {
            biased;
            ended = &mut self.task => ended.unwrap(),
            () = world.run_for(SignedDuration::from_mins(2)) => panic!("the controllers do not end"),
        }
    }
}

impl Stage {
    /// A cluster with the definitions of joiner, a node class and a pool, both called `default`.
    pub async fn new() -> Self {
        Self::with_boot(BOOT).await
    }

    /// The same, with nodes that take so long to boot.
    pub async fn with_boot(boot: Duration) -> Self {
        let stage = Self::with_definitions(boot, joiner_api::crd::all());
        stage.apply_class(json!({})).await;
        stage.apply_pool("default", json!({})).await;
        stage
    }

    /// A cluster that knows nothing of joiner's kinds.
    pub fn bare(boot: Duration) -> Self {
        Self::with_definitions(boot, Vec::new())
    }

    fn with_definitions(boot: Duration, definitions: Vec<CustomResourceDefinition>) -> Self {
        let clock = WallClock { clock: Clock::new(BEGIN.parse().unwrap(), 1), set_by: Arc::default() };
        let on_the_wall = clock.clone();
        let server = ApiServer::new(Arc::new(move || on_the_wall.now()), &ServerSettings::default());
        for definition in definitions {
            let object = serde_json::to_value(&definition).unwrap();
            server.ensure("apiextensions.k8s.io", "customresourcedefinitions", "", object).unwrap();
        }
        let client = Client::new(server.clone(), "default");
        let lifecycle = Lifecycle {
            node_boot: Span::exactly(SignedDuration::try_from(boot).unwrap()),
            termination: Span::millis(500, 500),
            ..Lifecycle::fast()
        };
        let settings = WorldSettings { start: BEGIN.parse().unwrap(), lifecycle, ..WorldSettings::default() };
        let mut world = World::around(server.clone(), clock.clock.clone(), settings);
        let binding = Arc::new(AtomicBool::new(true));
        let scheduler = Scheduler::new(joiner_sim::scheduler::Settings::default());
        world.join(Box::new(SlowToBind { scheduler, binding: binding.clone(), waiting: Vec::new() }));
        Self { server, client, clock, world: Rc::new(tokio::sync::Mutex::new(world)), binding }
    }

    /// Lets the scheduler bind pods, or not yet.
    pub fn set_binding(&self, binding: bool) {
        self.binding.store(binding, Ordering::Relaxed);
    }

    /// Somebody sets the clock on the wall.
    pub fn set_wall_clock(&self, seconds: i64) {
        self.clock.set_by.fetch_add(seconds, Ordering::Relaxed);
    }

    pub async fn apply_class(&self, spec: Value) {
        let api: Api<KwokNodeClass> = Api::all(self.client.clone());
        let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}, "spec": spec});
        api.patch("default", &PatchParams::apply("test").force(), &Patch::Apply(class)).await.unwrap();
    }

    pub async fn delete_class(&self) {
        let api: Api<KwokNodeClass> = Api::all(self.client.clone());
        api.delete("default", &DeleteParams::default()).await.unwrap();
    }

    pub async fn delete_pool(&self, name: &str) {
        let api: Api<NodePool> = Api::all(self.client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn delete_claim(&self, name: &str) {
        let api: Api<NodeClaim> = Api::all(self.client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn set_taints(&self, node: &str, taints: Value) {
        let api: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"spec": {"taints": taints}});
        api.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// A node says that it is ready, or that it is not.
    pub async fn set_ready(&self, node: &str, ready: bool) {
        let api: Api<Node> = Api::all(self.client.clone());
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "reason": "Test", "lastTransitionTime": self.now().to_string()});
        let patch = json!({"status": {"conditions": [condition]}});
        api.patch_status(node, &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    }

    /// Writes a pool of linux machines; `change` is merged over it.
    pub async fn apply_pool(&self, name: &str, change: Value) {
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {
                "template": {"spec": {
                    "requirements": [
                        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                    ],
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                }},
                "disruption": {"consolidateAfter": "Never"},
            },
        });
        merge(&mut pool, &change);
        let api: Api<NodePool> = Api::all(self.client.clone());
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(pool)).await.unwrap();
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn kwok(&self, client: Client) -> Arc<KwokProvider> {
        Arc::new(KwokProvider::new(client, Catalogue::hypothetical(), Arc::new(self.clock.clone())))
    }

    /// The clock of everybody on the stage.
    pub fn shared_clock(&self) -> Arc<dyn joiner_provider::Clock> {
        Arc::new(self.clock.clone())
    }

    /// Starts controllers with the KWOK provider.
    pub fn start(&self) -> Running {
        self.start_over(self.client.clone(), self.kwok(self.client.clone()))
    }

    /// As [`Stage::start`], with decisions written to a ConfigMap.
    pub fn start_recording(&self, namespace: &str) -> Running {
        let settings = Settings { record_namespace: Some(namespace.to_owned()), ..Settings::default() };
        self.start_with(self.client.clone(), self.kwok(self.client.clone()), settings)
    }

    pub fn start_over(&self, client: Client, provider: Arc<dyn Provider>) -> Running {
        self.start_with(client, provider, Settings::default())
    }

    pub fn start_with(&self, client: Client, provider: Arc<dyn Provider>, settings: Settings) -> Running {
        self.start_registry(client, Registry::new([provider]).unwrap(), settings)
    }

    /// Starts controllers over whatever providers there are.
    pub fn start_registry(&self, client: Client, registry: Registry, settings: Settings) -> Running {
        let controllers = Controllers::new(client, registry, Arc::new(self.clock.clone()), settings);
        let summary = controllers.summary();
        let (metrics, fence, busiest) =
            (controllers.metrics(), controllers.fence(), controllers.busiest_turn());
        let inspector = controllers.inspector();
        let (shutdown, told) = oneshot::channel::<()>();
        let task = tokio::spawn(controllers.run(async {
            let _ = told.await;
        }));
        Running {
            summary,
            metrics,
            fence,
            busiest,
            inspector,
            task,
            shutdown: Some(shutdown),
            world: self.world.clone(),
        }
    }

    /// Lets so many seconds pass.
    pub async fn pass(&self, seconds: u64) {
        self.pass_millis(1000 * seconds).await;
    }

    pub async fn pass_millis(&self, millis: u64) {
        let time = SignedDuration::from_millis(i64::try_from(millis).unwrap());
        self.world.lock().await.run_for(time).await;
    }

    pub async fn pods(&self) -> Vec<Pod> {
        let api: Api<Pod> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn nodes(&self) -> Vec<Node> {
        let api: Api<Node> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn claims(&self) -> Vec<NodeClaim> {
        let api: Api<NodeClaim> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn pool(&self, name: &str) -> NodePool {
        let api: Api<NodePool> = Api::all(self.client.clone());
        api.get(name).await.unwrap()
    }

    /// Events as `kind/name reason: message`, in the order of their first writing.
    pub async fn events(&self) -> Vec<String> {
        let api: Api<Event> = Api::all(self.client.clone());
        let mut events = api.list(&ListParams::default()).await.unwrap().items;
        events.sort_by_key(|event| event.resource_version().unwrap().parse::<u64>().unwrap());
        let text = |event: &Event| {
            let about = &event.involved_object;
            format!(
                "{}/{} {}: {}",
                about.kind.as_deref().unwrap(),
                about.name.as_deref().unwrap(),
                event.reason.as_deref().unwrap(),
                event.message.as_deref().unwrap()
            )
        };
        events.iter().map(text).collect()
    }

    /// Types of all nodes, sorted.
    pub async fn types(&self) -> Vec<String> {
        let mut types: Vec<String> = self
            .nodes()
            .await
            .iter()
            .map(|node| node.labels()["node.kubernetes.io/instance-type"].clone())
            .collect();
        types.sort();
        types
    }

    /// Creates pods that ask for so much CPU.
    pub async fn create_pods(&self, prefix: &str, count: usize, cpu: &str) {
        for number in 0..count {
            self.create_pod(&format!("{prefix}-{number}"), cpu, json!({})).await;
        }
    }

    pub async fn create_pod(&self, name: &str, cpu: &str, change: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]},
        });
        merge(&mut pod, &change);
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    pub async fn delete_pod(&self, name: &str) {
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        api.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

pub fn pod_node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Merges objects; everything else is replaced.
fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// A way to the server that keeps a log of writes and can be shut after so many of them: the last one is carried out, its answer lost.
#[derive(Clone)]
pub struct Spy {
    server: ApiServer,
    clock: Clock,
    pub writes: Arc<AtomicUsize>,
    pub log: Arc<Mutex<Vec<String>>>,
    last: usize,
}

impl Spy {
    pub fn new(stage: &Stage, last: usize) -> Self {
        Self {
            server: stage.server.clone(),
            clock: stage.clock.clock.clone(),
            writes: Arc::default(),
            log: Arc::default(),
            last,
        }
    }

    pub fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }
}

impl Service<Request<Body>> for Spy {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let spy = self.clone();
        Box::pin(async move {
            // An event that is lost is no loss: those are let through and not counted.
            let writes = request.method() != Method::GET && !request.uri().path().contains("/events");
            let number = match writes {
                true => spy.writes.fetch_add(1, Ordering::Relaxed) + 1,
                false => spy.writes.load(Ordering::Relaxed),
            };
            if number > spy.last || (!writes && number == spy.last) {
                return std::future::pending().await;
            }
            let line = format!("{} {} {}", spy.clock.now(), request.method(), request.uri().path());
            let answer = spy.server.answer(request).await;
            if writes {
                spy.log.lock().unwrap().push(format!("{line} {}", answer.status().as_u16()));
                if number == spy.last {
                    return std::future::pending().await;
                }
            }
            Ok(answer)
        })
    }
}
