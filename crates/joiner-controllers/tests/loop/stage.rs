//! A cluster of a few lines: the embedded API server, the KWOK provider, the controllers, and somebody who plays scheduler and kubelet.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use joiner_api::quantity::Quantity;
use joiner_api::{KwokNodeClass, NodeClaim, NodePool};
use joiner_apiserver::service::{ApiServer, ResponseBody, Settings as ServerSettings};
use joiner_controllers::{Controllers, Fence, Inspector, Metrics, RuntimeClock, Settings, Summary};
use joiner_provider::{Clock, Provider, Registry};
use joiner_provider_kwok::Catalogue;
use joiner_provider_kwok::live::KwokProvider;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::Service;

/// Where virtual time begins.
const BEGIN: &str = "2026-01-05T08:00:00Z";
/// How often scheduler and kubelet look around.
const TICK: Duration = Duration::from_millis(500);

pub struct Stage {
    pub server: ApiServer,
    pub client: Client,
    begin: Instant,
    /// By how many seconds the clock on the wall has been set.
    wall: Arc<AtomicI64>,
    /// When the kubelet of each node began.
    booting: Mutex<BTreeMap<String, Instant>>,
    /// Nodes turn ready so long after they appear; `None` = never.
    pub boot: Option<Duration>,
    /// The scheduler binds pods.
    pub binding: bool,
}

/// Controllers at work.
pub struct Running {
    pub summary: watch::Receiver<Summary>,
    pub metrics: Arc<Metrics>,
    pub fence: Fence,
    pub inspector: Inspector,
    task: JoinHandle<()>,
    shutdown: Option<oneshot::Sender<()>>,
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
        self.task.await.unwrap();
    }
}

/// What the clock on the wall shows.
fn shown(begin: Instant, wall: &AtomicI64) -> Timestamp {
    moment(begin) + SignedDuration::from_secs(wall.load(Ordering::Relaxed))
}

fn moment(begin: Instant) -> Timestamp {
    let passed = SignedDuration::try_from(begin.elapsed()).unwrap();
    BEGIN.parse::<Timestamp>().unwrap().checked_add(passed).unwrap()
}

impl Stage {
    /// A cluster with the definitions of joiner, a node class and a pool, both called `default`.
    pub async fn new() -> Self {
        let stage = Self::bare();
        stage.apply_class(json!({})).await;
        stage.apply_pool("default", json!({})).await;
        stage
    }

    pub fn bare() -> Self {
        let begin = Instant::now();
        let wall = Arc::new(AtomicI64::new(0));
        let on_the_wall = wall.clone();
        let server = ApiServer::new(Arc::new(move || shown(begin, &on_the_wall)), &ServerSettings::default());
        for definition in joiner_api::crd::all() {
            let object = serde_json::to_value(&definition).unwrap();
            server.ensure("apiextensions.k8s.io", "customresourcedefinitions", "", object).unwrap();
        }
        let client = Client::new(server.clone(), "default");
        let booting = Mutex::default();
        Self { server, client, begin, wall, booting, boot: Some(Duration::from_secs(2)), binding: true }
    }

    /// Somebody sets the clock on the wall.
    pub fn set_wall_clock(&self, seconds: i64) {
        self.wall.fetch_add(seconds, Ordering::Relaxed);
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
        shown(self.begin, &self.wall)
    }

    pub fn kwok(&self, client: Client) -> Arc<KwokProvider> {
        Arc::new(KwokProvider::new(client, Catalogue::hypothetical(), self.clock()))
    }

    /// The clock of everybody on the stage.
    pub fn shared_clock(&self) -> Arc<dyn Clock> {
        self.clock()
    }

    fn clock(&self) -> Arc<RuntimeClock<impl Fn() -> Timestamp + Send + Sync + use<>>> {
        let (begin, wall) = (self.begin, self.wall.clone());
        Arc::new(RuntimeClock::new(move || shown(begin, &wall)))
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
        let registry = Registry::new([provider]).unwrap();
        let controllers = Controllers::new(client, registry, self.clock(), settings);
        let summary = controllers.summary();
        let (metrics, fence) = (controllers.metrics(), controllers.fence());
        let inspector = controllers.inspector();
        let (shutdown, told) = oneshot::channel::<()>();
        let task = tokio::spawn(controllers.run(async {
            let _ = told.await;
        }));
        Running { summary, metrics, fence, inspector, task, shutdown: Some(shutdown) }
    }

    /// Lets so many seconds pass, scheduler and kubelet playing along.
    pub async fn pass(&self, seconds: u64) {
        let end = Instant::now() + Duration::from_secs(seconds);
        // Nobody watches long waits closely.
        let tick = if seconds > 100 { TICK * 4 } else { TICK };
        while Instant::now() < end {
            tokio::time::sleep(tick).await;
            self.play().await;
        }
    }

    /// Half a second, at the end of which scheduler and kubelet look around.
    pub async fn tick(&self) {
        tokio::time::sleep(TICK).await;
        self.play().await;
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

    /// One look of kubelet and scheduler.
    async fn play(&self) {
        let mut nodes = self.nodes().await;
        for node in &nodes {
            self.boot_node(node).await;
        }
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        let all = self.pods().await;
        nodes.sort_by_key(|node| node.name_any());
        let mut free: Vec<(Node, i64)> = nodes
            .into_iter()
            .map(|node| {
                let used: i64 =
                    all.iter().filter(|pod| pod_node(pod) == Some(&*node.name_any())).map(cpu_of).sum();
                let has = node
                    .status
                    .as_ref()
                    .and_then(|s| s.allocatable.as_ref())
                    .map_or(0, |of| milli(&of["cpu"].0));
                (node, has - used)
            })
            .collect();
        for pod in &all {
            let name = pod.name_any();
            if pod.metadata.deletion_timestamp.is_some() {
                let _ = api.delete(&name, &DeleteParams::default().grace_period(0)).await;
                continue;
            }
            if pod_node(pod).is_some() {
                continue;
            }
            let mut places = free.iter_mut();
            let place =
                places.find(|(node, room)| self.binding && *room >= cpu_of(pod) && accepts(node, pod));
            if let Some((node, room)) = place {
                *room -= cpu_of(pod);
                let binding =
                    json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node.name_any()}});
                let request = Request::post(format!("/api/v1/namespaces/default/pods/{name}/binding"))
                    .header("content-type", "application/json")
                    .body(binding.to_string().into_bytes());
                self.client.request::<Value>(request.unwrap()).await.unwrap();
                let running = json!({"status": {"phase": "Running", "startTime": self.now().to_string(),
                    "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]}});
                api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(running)).await.unwrap();
            } else if pod.status.as_ref().is_none_or(|status| status.conditions.is_none()) {
                let refused = json!({"status": {"conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes"}]}});
                api.patch_status(&name, &PatchParams::default(), &Patch::Strategic(refused)).await.unwrap();
            }
        }
    }

    async fn boot_node(&self, node: &Node) {
        let ready = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        if ready.is_some_and(|conditions| conditions.iter().any(|of| of.type_ == "Ready")) {
            return;
        }
        let Some(boot) = self.boot else { return };
        // As far as a time in seconds tells: the node may be up to a second older than it looks.
        let age = self.now().duration_since(node.metadata.creation_timestamp.as_ref().unwrap().0);
        let age = Duration::try_from(age).unwrap_or_default().min(Duration::from_secs(1));
        let begun = Instant::now() - age;
        let begun = *self.booting.lock().unwrap().entry(node.uid().unwrap()).or_insert(begun);
        if begun.elapsed() < boot {
            return;
        }
        let api: Api<Node> = Api::all(self.client.clone());
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        api.patch_status(&node.name_any(), &PatchParams::default(), &Patch::Strategic(status)).await.unwrap();
        let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        taints.retain(|taint| taint.key != "node.kubernetes.io/not-ready");
        let patch = json!({"metadata": {"resourceVersion": null}, "spec": {"taints": taints}});
        api.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

pub fn pod_node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn milli(text: &str) -> i64 {
    Quantity::parse(text).unwrap().milli_saturating()
}

fn cpu_of(pod: &Pod) -> i64 {
    let containers = &pod.spec.as_ref().unwrap().containers;
    let requests = containers.iter().filter_map(|of| of.resources.as_ref()?.requests.as_ref()?.get("cpu"));
    requests.map(|cpu| milli(&cpu.0)).sum()
}

fn accepts(node: &Node, pod: &Pod) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let tolerated: Vec<String> =
        pod.spec.as_ref().unwrap().tolerations.iter().flatten().filter_map(|of| of.key.clone()).collect();
    let minds =
        taints.iter().any(|taint| taint.effect != "PreferNoSchedule" && !tolerated.contains(&taint.key));
    !minds && node.metadata.deletion_timestamp.is_none()
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
    begin: Instant,
    pub writes: Arc<AtomicUsize>,
    pub log: Arc<Mutex<Vec<String>>>,
    last: usize,
}

impl Spy {
    pub fn new(stage: &Stage, last: usize) -> Self {
        Self {
            server: stage.server.clone(),
            begin: stage.begin,
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
            let line = format!("{} {} {}", moment(spy.begin), request.method(), request.uri().path());
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
