//! Kubelets of KWOK nodes played by joiner: the cluster is simulated, but nobody in it plays kubelets.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner::autoscaler::Guarded;
use joiner::kubelets::{SimulatedKubelets, refuse_if_played};
use joiner_api::{KwokNodeClass, NodeClaim, NodePool};
use joiner_apiserver::service::{ApiServer, Settings as ServerSettings};
use joiner_controllers::{Fence, Settings};
use joiner_provider::Provider;
use joiner_provider_kwok::Catalogue;
use joiner_sim::clock::Clock;
use joiner_sim::kubelet::{Lifecycle, Managed};
use joiner_sim::scheduler::Scheduler;
use joiner_sim::settings::Settings as WorldSettings;
use joiner_sim::world::World;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::Layer;

const BEGIN: &str = "2026-01-05T08:00:00Z";

/// A cluster with all controllers and a scheduler, and without kubelets.
struct Stage {
    server: ApiServer,
    client: Client,
    clock: Clock,
    world: World,
}

impl Stage {
    fn new() -> Self {
        let begin: Timestamp = BEGIN.parse().unwrap();
        let clock = Clock::new(begin, 1);
        let server = ApiServer::new(Arc::new(clock.clone()), &ServerSettings::default());
        for definition in joiner_api::crd::all() {
            let object = serde_json::to_value(&definition).unwrap();
            server.ensure("apiextensions.k8s.io", "customresourcedefinitions", "", object).unwrap();
        }
        let client = Client::new(server.clone(), "default");
        let lifecycle = Lifecycle { managed: Managed::Nobody, ..Lifecycle::fast() };
        let settings = WorldSettings { start: begin, lifecycle, ..WorldSettings::default() };
        let mut world = World::around(server.clone(), clock.clone(), settings);
        world.join(Box::new(Scheduler::new(joiner_sim::scheduler::Settings::default())));
        Self { server, client, clock, world }
    }

    async fn pass(&mut self, seconds: i64) {
        self.world.run_for(SignedDuration::from_secs(seconds)).await;
    }

    fn shared_clock(&self) -> Arc<dyn joiner_provider::Clock> {
        Arc::new(self.clock.clone())
    }

    /// Kubelets behind a fence, and the count of their writes.
    fn play(&self, fence: &Fence) -> (JoinHandle<()>, Arc<AtomicUsize>) {
        let writes = Arc::new(AtomicUsize::new(0));
        let (count, server) = (writes.clone(), self.server.clone());
        let counting = tower::service_fn(move |request: http::Request<Body>| {
            let (count, server) = (count.clone(), server.clone());
            async move {
                if request.method() != http::Method::GET {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, std::convert::Infallible>(server.answer(request).await)
            }
        });
        let client = Client::new(counting, "default");
        let kubelets = SimulatedKubelets::new(client, fence.clone(), self.shared_clock(), 1);
        (tokio::spawn(kubelets.run()), writes)
    }

    fn open(&self) -> Fence {
        Fence::open(self.shared_clock(), 1)
    }

    async fn make_node(&self, name: &str, mark: &str) {
        let node = json!({
            "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": mark}},
            "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "20"}, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}},
        });
        let api: Api<Node> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }

    async fn make_pod(&self, name: &str, cpu: &str) {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]},
        });
        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    async fn hold_lease(&self, node: &str, holder: &str) {
        let lease = json!({
            "metadata": {"name": node},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 40, "renewTime": format!("{:.6}", self.clock.now())},
        });
        self.leases().create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), "kube-node-lease")
    }

    async fn renewed(&self, node: &str) -> (String, Timestamp) {
        let spec = self.leases().get(node).await.unwrap().spec.unwrap();
        (spec.holder_identity.unwrap(), spec.renew_time.unwrap().0)
    }

    async fn nodes(&self) -> Vec<Node> {
        Api::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    async fn pods(&self) -> Vec<Pod> {
        Api::all(self.client.clone()).list(&ListParams::default()).await.unwrap().items
    }

    async fn ready(&self, node: &str) -> Option<String> {
        let node = Api::<Node>::all(self.client.clone()).get(node).await.unwrap();
        let conditions = node.status?.conditions?;
        Some(conditions.into_iter().find(|of| of.type_ == "Ready")?.status)
    }

    async fn apply<T>(&self, object: Value)
    where
        T: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
    {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let api: Api<T> = Api::all(self.client.clone());
        api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
    }
}

fn addresses(pods: &[Pod]) -> BTreeSet<String> {
    pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect()
}

fn running(pods: &[Pod]) -> usize {
    pods.iter()
        .filter(|pod| pod.status.as_ref().and_then(|of| of.phase.as_deref()) == Some("Running"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_node_lives_from_its_launch_to_its_end() {
    let mut stage = Stage::new();
    stage
        .apply::<KwokNodeClass>(json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}))
        .await;
    stage
        .apply::<NodePool>(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {
                "template": {"spec": {
                    "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                    "startupTaints": [{"key": "example.com/agent", "effect": "NoSchedule"}],
                }},
                "disruption": {"consolidateAfter": "Never"},
            },
        }))
        .await;
    let server = stage.server.clone();
    let guarded =
        Guarded::new(stage.open(), stage.shared_clock(), |layer| Client::new(layer.layer(server), "default"));
    let kwok = guarded.kwok(Catalogue::hypothetical()).lifting_startup_taints(Duration::from_secs(5));
    let provider: Arc<dyn Provider> = Arc::new(kwok);
    let controllers = guarded.controllers([provider], Settings::default()).unwrap();
    tokio::spawn(controllers.run(std::future::pending()));
    tokio::spawn(guarded.kubelets(1).run());
    for number in 0..3 {
        stage.make_pod(&format!("p{number}"), "1").await;
    }
    stage.pass(30).await;
    let (nodes, pods) = (stage.nodes().await, stage.pods().await);
    assert!(!nodes.is_empty());
    assert_eq!(running(&pods), 3, "{pods:#?}");
    assert_eq!(addresses(&pods).len(), 3, "each has its own");
    for node in &nodes {
        let taints = node.spec.as_ref().unwrap().taints.clone().unwrap_or_default();
        assert!(taints.is_empty(), "the startup taint is off: {taints:?}");
        assert_eq!(node.labels().get("karpenter.sh/initialized").map(String::as_str), Some("true"));
        let lease = stage.leases().get(&node.name_any()).await.unwrap();
        assert_eq!(lease.owner_references()[0].uid, node.uid().unwrap(), "it goes with its node");
        let (holder, first) = stage.renewed(&node.name_any()).await;
        assert_eq!(holder, node.name_any());
        stage.pass(30).await;
        let age = stage.clock.now().duration_since(stage.renewed(&node.name_any()).await.1);
        assert!(stage.renewed(&node.name_any()).await.1 > first && age.as_secs() <= 11, "{age:?}");
    }
    // A person takes a node: its pods end, and so does everything of it.
    let claims: Api<NodeClaim> = Api::all(stage.client.clone());
    let name = nodes[0].name_any();
    claims.delete(&name, &DeleteParams::default()).await.unwrap();
    stage.pass(120).await;
    assert!(stage.nodes().await.iter().all(|node| node.name_any() != name));
    assert!(
        stage.pods().await.iter().all(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() != Some(&*name))
    );
    assert!(stage.leases().get_opt(&name).await.unwrap().is_none(), "the lease was collected");
}

#[tokio::test(start_paused = true)]
async fn writes_are_few() {
    let mut stage = Stage::new();
    let (_playing, writes) = stage.play(&stage.open());
    for name in ["a", "b"] {
        stage.make_node(name, "fake").await;
    }
    for number in 0..5 {
        stage.make_pod(&format!("p{number}"), "1").await;
    }
    stage.pass(8).await;
    assert_eq!(running(&stage.pods().await), 5);
    assert_eq!(
        writes.load(Ordering::Relaxed),
        2 * 2 + 5,
        "a lease and a status for each node, a status for each pod"
    );
    stage.pass(60).await;
    assert_eq!(writes.load(Ordering::Relaxed), 9 + 2 * 6, "and then the leases, every ten seconds");
    let pods: Api<Pod> = Api::default_namespaced(stage.client.clone());
    pods.delete("p0", &DeleteParams::default()).await.unwrap();
    stage.pass(3).await;
    assert_eq!(stage.pods().await.len(), 4, "what is to go goes before its grace is over");
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_hands_are_left_alone() {
    let mut stage = Stage::new();
    stage.make_node("theirs", "fake").await;
    stage.hold_lease("theirs", "kwok-7").await;
    stage.make_node("real", "real").await;
    let refused = refuse_if_played(&stage.client, &*stage.shared_clock()).await.unwrap_err().to_string();
    assert!(refused.contains("`kwok-7` holds the lease of the node `theirs`"), "{refused}");
    let (_playing, writes) = stage.play(&stage.open());
    stage.pass(30).await;
    assert_eq!(stage.ready("theirs").await.as_deref(), None);
    assert_eq!(writes.load(Ordering::Relaxed), 0);
    // Its holder is gone and renews it no more.
    refuse_if_played(&stage.client, &*stage.shared_clock()).await.unwrap_err();
    stage.pass(15).await;
    refuse_if_played(&stage.client, &*stage.shared_clock()).await.unwrap();
    stage.pass(15).await;
    assert_eq!(stage.ready("theirs").await.as_deref(), Some("True"));
    assert_eq!(stage.renewed("theirs").await.0, "theirs");
    assert_ne!(stage.ready("real").await.as_deref(), Some("True"));
}

#[tokio::test(start_paused = true)]
async fn a_kwok_controller_in_the_cluster_is_named() {
    let stage = Stage::new();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "kwok-controller", "namespace": "kube-system", "labels": {"app": "kwok-controller"}},
        "spec": {"selector": {"matchLabels": {"app": "kwok-controller"}}, "template": {
            "metadata": {"labels": {"app": "kwok-controller"}}, "spec": {"containers": [{"name": "main", "image": "kwok"}]}}},
    });
    let api: Api<k8s_openapi::api::apps::v1::Deployment> =
        Api::namespaced(stage.client.clone(), "kube-system");
    api.create(&PostParams::default(), &serde_json::from_value(deployment).unwrap()).await.unwrap();
    let clock = stage.shared_clock();
    let refused = refuse_if_played(&stage.client, &*clock).await.unwrap_err().to_string();
    assert!(
        refused.contains("`kube-system/kwok-controller`") && refused.contains("scale it to 0"),
        "{refused}"
    );
    let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
    api.patch("kwok-controller", &PatchParams::default(), &patch).await.unwrap();
    refuse_if_played(&stage.client, &*clock).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_who_leads_plays_and_the_next_goes_on() {
    let mut stage = Stage::new();
    let (first, second) = (stage.open(), Fence::closed(stage.shared_clock()));
    let (playing, _) = stage.play(&first);
    let (_waiting, writes_of_second) = stage.play(&second);
    stage.make_node("a", "fake").await;
    for number in 0..3 {
        stage.make_pod(&format!("p{number}"), "1").await;
    }
    stage.pass(20).await;
    assert_eq!((running(&stage.pods().await), writes_of_second.load(Ordering::Relaxed)), (3, 0));
    let before: Vec<_> = stage.pods().await.iter().map(|pod| (pod.uid(), pod.status.clone())).collect();
    // Killed; the next leads a while later, and writes nothing but the lease.
    playing.abort();
    first.close();
    stage.pass(20).await;
    second.advance(2);
    stage.pass(5).await;
    let after: Vec<_> = stage.pods().await.iter().map(|pod| (pod.uid(), pod.status.clone())).collect();
    assert_eq!(after, before);
    assert_eq!(writes_of_second.load(Ordering::Relaxed), 1);
    let age = stage.clock.now().duration_since(stage.renewed("a").await.1);
    assert!(age.as_secs() <= 5, "{age:?}");
    // What comes now gets addresses that nobody has.
    stage.make_pod("late", "1").await;
    stage.pass(5).await;
    assert_eq!(addresses(&stage.pods().await).len(), 4);
    second.close();
    let written = writes_of_second.load(Ordering::Relaxed);
    stage.pass(30).await;
    assert_eq!(writes_of_second.load(Ordering::Relaxed), written, "who leads no more writes no more");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_meets_another_is_made_again() {
    let mut stage = Stage::new();
    stage.make_node("a", "fake").await;
    let agent = json!({"key": "example.com/agent", "effect": "NoSchedule"});
    let late = json!({"key": "example.com/late", "effect": "NoSchedule"});
    let change = json!({
        "metadata": {"annotations": {"joiner.sh/startup-taints": "example.com/agent"}},
        "spec": {"taints": [agent]},
    });
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.patch("a", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    // Just before the kubelet takes its taint off, somebody else puts one on.
    let (tries, server, theirs) = (Arc::new(AtomicUsize::new(0)), stage.server.clone(), nodes.clone());
    let count = tries.clone();
    let meeting = tower::service_fn(move |request: http::Request<Body>| {
        let (count, server, theirs) = (count.clone(), server.clone(), theirs.clone());
        let both = json!({"spec": {"taints": [agent, late]}});
        async move {
            let takes_off =
                request.method() == http::Method::PATCH && request.uri().path() == "/api/v1/nodes/a";
            if takes_off && count.fetch_add(1, Ordering::Relaxed) == 0 {
                theirs.patch("a", &PatchParams::default(), &Patch::Merge(both)).await.unwrap();
            }
            Ok::<_, std::convert::Infallible>(server.answer(request).await)
        }
    });
    let client = Client::new(meeting, "default");
    tokio::spawn(SimulatedKubelets::new(client, stage.open(), stage.shared_clock(), 1).run());
    stage.pass(5).await;
    let taints = nodes.get("a").await.unwrap().spec.unwrap().taints.unwrap();
    let keys: Vec<&str> = taints.iter().map(|taint| &*taint.key).collect();
    assert!(keys.contains(&"example.com/late") && !keys.contains(&"example.com/agent"), "{keys:?}");
    assert_eq!(tries.load(Ordering::Relaxed), 2);
}
