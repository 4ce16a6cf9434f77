//! What happens to claims and nodes from launch to end besides the straight way: hooks, lost answers, lost machines, objects of older versions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, ready};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use joiner_api::nodepool::NodeClassReference;
use joiner_api::{NodeClaim, NodePool};
use joiner_provider::{
    Error, HookAnswer, HookPoint, Instance, LaunchOutcome, LaunchRequest, Launched, Listed, NodeClassKind,
    Provider, Terminated, TypeFeed, Unregistered,
};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::faults::{settings, until};
use crate::stage::{Spy, Stage, pod_node};

/// What a cloud does otherwise than it should.
#[derive(Default)]
pub struct Script {
    /// Points at which it wants to be asked.
    points: Vec<HookPoint>,
    /// What it answers there.
    answer: Option<Result<HookAnswer, Error>>,
    asked: Vec<HookPoint>,
    /// Launches are carried out, and their answers lost.
    loses_launches: bool,
    /// Questions about the machine of a claim fail.
    cannot_find: bool,
    /// Machines that lists lack.
    unlisted: BTreeSet<String>,
    /// Machines that are no more.
    gone: BTreeSet<String>,
    /// Questions about single machines fail.
    cannot_get: bool,
    /// Machines that it was asked to end, in this order.
    pub terminated: Vec<String>,
}

/// The KWOK provider in a cloud that follows a script.
pub struct Scripted {
    inner: Arc<dyn Provider>,
    script: Arc<Mutex<Script>>,
    points: Vec<HookPoint>,
}

impl Scripted {
    pub fn new(stage: &Stage, script: &Arc<Mutex<Script>>) -> Arc<Self> {
        let points = script.lock().unwrap().points.clone();
        Arc::new(Self { inner: stage.kwok(stage.client.clone()), script: script.clone(), points })
    }
}

fn fault() -> Error {
    Error::Transient("the cloud does not answer".to_owned())
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    fn node_class_kinds(&self) -> &[NodeClassKind] {
        self.inner.node_class_kinds()
    }
    fn watch_types(&self, class: &NodeClassReference) -> TypeFeed {
        self.inner.watch_types(class)
    }
    fn launch(&self, batch: Vec<LaunchRequest>) -> BoxStream<'_, LaunchOutcome> {
        let loses = self.script.lock().unwrap().loses_launches;
        self.inner.launch(batch).filter(move |_| ready(!loses)).boxed()
    }
    fn find_by_claim(&self, uid: &str) -> BoxFuture<'_, Result<Option<Launched>, Error>> {
        if self.script.lock().unwrap().cannot_find {
            return ready(Err(fault())).boxed();
        }
        self.inner.find_by_claim(uid)
    }
    fn adopt(&self, machines: Vec<Unregistered>, now: jiff::Timestamp) -> BoxFuture<'_, ()> {
        self.inner.adopt(machines, now)
    }
    fn terminate(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Terminated, Error>>> {
        self.script.lock().unwrap().terminated.extend(ids.clone());
        self.inner.terminate(ids)
    }
    fn get(&self, ids: Vec<String>) -> BoxFuture<'_, Vec<Result<Option<Instance>, Error>>> {
        let (cannot, gone) = {
            let script = self.script.lock().unwrap();
            (script.cannot_get, script.gone.clone())
        };
        let found = self.inner.get(ids.clone());
        let answers = async move {
            let found = found.await.into_iter().zip(ids).map(|(answer, id)| match answer {
                _ if cannot => Err(fault()),
                _ if gone.contains(&id) => Ok(None),
                answer => answer,
            });
            found.collect()
        };
        answers.boxed()
    }
    fn list(&self) -> BoxStream<'_, Result<Listed, Error>> {
        let unlisted = self.script.lock().unwrap().unlisted.clone();
        let is_listed = move |item: &Result<Listed, Error>| match item {
            Ok(Listed::Instance(instance)) => !unlisted.contains(&instance.provider_id),
            _ => true,
        };
        self.inner.list().filter(move |item| ready(is_listed(item))).boxed()
    }
    fn hook_points(&self) -> &[HookPoint] {
        &self.points
    }
    fn hook<'a>(
        &'a self,
        point: HookPoint,
        _: &'a NodeClaim,
        _: &'a Node,
    ) -> BoxFuture<'a, Result<HookAnswer, Error>> {
        let mut script = self.script.lock().unwrap();
        script.asked.push(point);
        let answer = script.answer.clone().unwrap_or(Ok(HookAnswer::Done));
        stream::iter([answer]).into_future().map(|(answer, _)| answer.unwrap()).boxed()
    }
}

fn all<K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>>(stage: &Stage) -> Api<K> {
    Api::all(stage.client.clone())
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

async fn patch<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str, change: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
}

fn stated(conditions: &[Condition], kind: &str) -> Option<(String, String)> {
    let found = conditions.iter().find(|of| of.type_ == kind)?;
    Some((found.status.clone(), found.reason.clone()))
}

fn of_claim(claim: &NodeClaim, kind: &str) -> Option<(String, String)> {
    stated(&claim.status.as_ref()?.conditions, kind)
}

fn of_pool(pool: &NodePool, kind: &str) -> Option<(String, String)> {
    stated(&pool.status.as_ref()?.conditions, kind)
}

fn is(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

/// Nodes are no longer ready, as if nobody had heard of their kubelets.
async fn silence(stage: &Stage, names: &[String]) {
    for name in names {
        let stopped = json!({"metadata": {"annotations": {"joiner.sh/kubelet": "stopped"}}});
        patch(&all::<Node>(stage), name, stopped).await;
        let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]);
        let unknown = Patch::Strategic(json!({"status": {"conditions": unknown}}));
        all::<Node>(stage).patch_status(name, &PatchParams::default(), &unknown).await.unwrap();
    }
}

/// A node and its claim, both called so.
async fn one_node(stage: &Stage) -> String {
    stage.create_pods("web", 1, "1").await;
    stage.pass(15).await;
    assert!(pod_node(&stage.pods().await[0]).is_some());
    stage.claims().await[0].name_any()
}

#[tokio::test(start_paused = true)]
async fn a_hook_holds_a_life_until_it_is_done() {
    let stage = Stage::new().await;
    let script = Arc::new(Mutex::new(Script { points: HookPoint::ALL.to_vec(), ..Script::default() }));
    script.lock().unwrap().answer = Some(Ok(HookAnswer::Wait(Duration::from_secs(3))));
    let running = stage.start_over(stage.client.clone(), Scripted::new(&stage, &script));
    stage.create_pods("web", 1, "1").await;
    stage.pass(10).await;
    let claim = stage.claims().await.remove(0);
    assert_eq!(of_claim(&claim, "Registered"), is("Unknown", "RegistrationHookPending"));
    let node = stage.nodes().await.remove(0);
    let taints = node.spec.as_ref().unwrap().taints.clone().unwrap();
    assert!(taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered"), "{taints:?}");
    assert!(
        node.finalizers().contains(&"karpenter.sh/termination".to_owned()),
        "the rest is written already"
    );
    let asked = script.lock().unwrap().asked.len();
    assert!((2..=4).contains(&asked), "asked every three seconds: {asked}");
    script.lock().unwrap().answer = Some(Err(fault()));
    stage.pass(10).await;
    let claim = stage.claims().await.remove(0);
    let text =
        claim.status.unwrap().conditions.iter().find(|of| of.type_ == "Registered").unwrap().message.clone();
    assert!(text.contains("the cloud does not answer"), "{text}");
    script.lock().unwrap().answer = None;
    stage.pass(20).await;
    let claim = stage.claims().await.remove(0);
    assert_eq!(of_claim(&claim, "Initialized"), is("True", "Initialized"));
    assert!(pod_node(&stage.pods().await[0]).is_some());
    // The end waits as well: the machine is there until the provider has done its part.
    script.lock().unwrap().answer = Some(Ok(HookAnswer::Wait(Duration::from_secs(3))));
    stage.delete_claim(&claim.name_any()).await;
    stage.pass(30).await;
    assert!(script.lock().unwrap().terminated.is_empty());
    script.lock().unwrap().answer = None;
    stage.pass(10).await;
    let ids = script.lock().unwrap().terminated.clone();
    assert_eq!(ids[0], format!("kwok://{}", claim.name_any()));
    assert!(stage.claims().await.iter().all(|of| of.uid() != claim.uid()));
    running.stop().await;
}

/// A claim goes whose machine was made, though nobody was told; the process dies after so many writes. How many writes there were.
async fn end_unanswered(last: usize) -> usize {
    let stage = Stage::new().await;
    let script =
        Arc::new(Mutex::new(Script { loses_launches: true, cannot_find: true, ..Script::default() }));
    let running = stage.start_with(stage.client.clone(), Scripted::new(&stage, &script), settings());
    stage.create_pods("web", 1, "1").await;
    stage.pass(20).await;
    let claim = stage.claims().await.remove(0);
    assert_eq!(of_claim(&claim, "Launched").unwrap().0, "Unknown");
    assert_eq!(stage.nodes().await.len(), 1, "the machine is there");
    running.kill().await;
    stage.delete_pod("web-0").await;
    let spy = Spy::new(&stage, last);
    let running = stage.start_with(spy.client(), Scripted::new(&stage, &script), settings());
    stage.delete_claim(&claim.name_any()).await;
    stage.pass(60).await;
    assert_eq!(stage.claims().await.len(), 1, "nobody knows whether there is a machine");
    script.lock().unwrap().cannot_find = false;
    stage.pass(70).await;
    let running = match last {
        usize::MAX => running,
        _ => {
            running.kill().await;
            stage.start_with(stage.client.clone(), Scripted::new(&stage, &script), settings())
        }
    };
    let none_left = async || stage.nodes().await.is_empty() && stage.claims().await.is_empty();
    assert!(until(&stage, 200, none_left).await, "crash after write {last}");
    assert_eq!(script.lock().unwrap().terminated[0], format!("kwok://{}", claim.name_any()));
    running.stop().await;
    spy.writes.load(std::sync::atomic::Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_the_machine_along_of_which_nobody_was_told() {
    let writes = end_unanswered(usize::MAX).await;
    assert!(writes >= 1, "{writes}");
    for last in 1..=writes {
        end_unanswered(last).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_machine_is_gone_goes_without_a_drain() {
    let stage = Stage::new().await;
    let script = Arc::<Mutex<Script>>::default();
    let running = stage.start_over(stage.client.clone(), Scripted::new(&stage, &script));
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    stage.create_pod("kept", "1", protected).await;
    stage.pass(15).await;
    let name = stage.claims().await[0].name_any();
    all::<Node>(&stage).delete(&name, &DeleteParams::default()).await.unwrap();
    let id = format!("kwok://{name}");
    let there = async || all::<Node>(&stage).get_opt(&name).await.unwrap().is_some();
    script.lock().unwrap().gone.insert(id.clone());
    stage.pass(20).await;
    assert!(there().await, "a node that is ready has a machine, whatever the cloud says");
    script.lock().unwrap().cannot_get = true;
    silence(&stage, std::slice::from_ref(&name)).await;
    stage.pass(20).await;
    assert!(there().await, "a question that fails is no answer");
    script.lock().unwrap().cannot_get = false;
    stage.pass(10).await;
    assert!(!there().await);
    assert!(all::<NodeClaim>(&stage).get_opt(&name).await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_goes_with_its_machine_when_a_second_look_agrees() {
    let stage = Stage::new().await;
    let script = Arc::<Mutex<Script>>::default();
    let running = stage.start_over(stage.client.clone(), Scripted::new(&stage, &script));
    let name = one_node(&stage).await;
    let uid = stage.claims().await[0].uid();
    let id = format!("kwok://{name}");
    let there = async || stage.claims().await.iter().any(|claim| claim.uid() == uid);
    script.lock().unwrap().unlisted.insert(id.clone());
    script.lock().unwrap().gone.insert(id.clone());
    stage.pass(250).await;
    assert!(there().await, "its node is ready");
    silence(&stage, std::slice::from_ref(&name)).await;
    script.lock().unwrap().cannot_get = true;
    stage.pass(250).await;
    assert!(there().await, "a question that fails is no answer");
    script.lock().unwrap().cannot_get = false;
    script.lock().unwrap().gone.clear();
    stage.pass(250).await;
    assert!(there().await, "the list was incomplete");
    script.lock().unwrap().gone.insert(id);
    assert!(until(&stage, 250, async || !there().await).await);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_lacks_most_machines_is_not_believed_at_once() {
    let stage = Stage::new().await;
    let script = Arc::<Mutex<Script>>::default();
    let running = stage.start_over(stage.client.clone(), Scripted::new(&stage, &script));
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]}}}});
    for number in 0..5 {
        stage.create_pod(&format!("web-{number}"), "1", apart.clone()).await;
    }
    stage.pass(20).await;
    let names: Vec<String> = stage.claims().await.iter().map(|claim| claim.name_any()).collect();
    assert_eq!(names.len(), 5);
    silence(&stage, &names).await;
    {
        let mut script = script.lock().unwrap();
        script.unlisted.extend(names.iter().map(|name| format!("kwok://{name}")));
        script.gone.extend(names.iter().map(|name| format!("kwok://{name}")));
    }
    let left = async || stage.claims().await.iter().filter(|claim| names.contains(&claim.name_any())).count();
    let told = || running.summary.borrow().journal.iter().any(|of| of.verdict.code() == "listDoubted");
    assert!(until(&stage, 150, async || told()).await, "the list is doubted");
    assert_eq!(left().await, 5, "found gone once");
    assert!(until(&stage, 200, async || left().await == 0).await, "found gone twice");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_machine_of_a_claim_is_ended() {
    let stage = Stage::new().await;
    let script = Arc::<Mutex<Script>>::default();
    let running = stage.start_over(stage.client.clone(), Scripted::new(&stage, &script));
    let name = one_node(&stage).await;
    let uid = stage.claims().await[0].uid().unwrap();
    let second = json!({"metadata": {"name": "second", "labels": {"karpenter.kwok.sh/kwoknodeclass": "default"},
        "annotations": {"joiner.sh/nodeclaim-uid": uid}}, "spec": {"providerID": "kwok://second"}});
    create(&all::<Node>(&stage), second).await;
    stage.pass(200).await;
    assert_eq!(*script.lock().unwrap().terminated, ["kwok://second"]);
    let nodes: Vec<String> = stage.nodes().await.iter().map(|node| node.name_any()).collect();
    assert_eq!(nodes, [name]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_nodes_with_one_id_make_the_claim_wait_and_stay() {
    let stage = Stage::new().await;
    stage.apply_class(json!({"nodeRegistrationDelay": "20s"})).await;
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(5).await;
    let claim = stage.claims().await.remove(0);
    let id = claim.status.as_ref().unwrap().provider_id.clone().unwrap();
    running.kill().await;
    for name in ["first", "second"] {
        let node = json!({"metadata": {"name": name}, "spec": {"providerID": id}});
        create(&all::<Node>(&stage), node).await;
    }
    let running = stage.start();
    // Before its own node comes: two strangers that say they were it.
    stage.pass(10).await;
    let waiting = all::<NodeClaim>(&stage).get(&claim.name_any()).await.unwrap();
    assert_eq!(of_claim(&waiting, "Registered"), is("False", "MultipleNodesFound"));
    assert_eq!(of_claim(&waiting, "Ready"), is("False", "UnhealthyDependents"));
    stage.pass(14 * 60).await;
    assert!(
        all::<NodeClaim>(&stage).get_opt(&claim.name_any()).await.unwrap().is_some(),
        "not before its time"
    );
    stage.pass(120).await;
    let uids: Vec<_> = stage.claims().await.iter().map(|of| of.uid()).collect();
    assert!(!uids.contains(&claim.uid()), "given up");
    for name in ["first", "second"] {
        let node = all::<Node>(&stage).get(name).await.unwrap();
        assert!(!node.labels().contains_key("karpenter.sh/registered"), "{name} is not touched");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_machines_do_not_join_says_so_also_after_a_restart() {
    let stage = Stage::new().await;
    stage.apply_class(json!({"nodeRegistrationDelay": "20m"})).await;
    let running = stage.start();
    stage.create_pods("web", 1, "1").await;
    stage.pass(10).await;
    let healthy = |pool: &NodePool| of_pool(pool, "NodeRegistrationHealthy");
    assert_eq!(healthy(&stage.pool("default").await), is("Unknown", "AwaitingReconciliation"));
    stage.pass(32 * 60).await;
    assert_eq!(healthy(&stage.pool("default").await), is("False", "RegistrationFailed"));
    let ready = of_pool(&stage.pool("default").await, "Ready");
    assert_eq!(ready, is("True", "Ready"), "the pool may be used all the same");
    running.kill().await;
    let running = stage.start();
    stage.pass(10).await;
    assert_eq!(healthy(&stage.pool("default").await), is("False", "RegistrationFailed"), "as it was");
    // Another class begins anew, and the next machine joins.
    stage.apply_class(json!({})).await;
    stage.pass(5).await;
    assert_eq!(healthy(&stage.pool("default").await), is("Unknown", "AwaitingReconciliation"));
    stage.create_pods("more", 1, "1").await;
    stage.pass(20 * 60).await;
    assert_eq!(healthy(&stage.pool("default").await), is("True", "NodeRegistrationHealthy"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_way_to_hash_makes_nothing_drift() {
    let stage = Stage::new().await;
    let running = stage.start();
    one_node(&stage).await;
    let apart = json!({"spec": {"nodeSelector": {"topology.kubernetes.io/zone": "test-zone-b"}}});
    stage.create_pod("other", "1", apart).await;
    stage.pass(15).await;
    running.stop().await;
    let claims = stage.claims().await;
    assert_eq!(claims.len(), 2);
    let right = claims[0].annotations()["karpenter.sh/nodepool-hash"].clone();
    let old = json!({"metadata": {"annotations": {"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v2"}}});
    for claim in &claims {
        patch(&all::<NodeClaim>(&stage), &claim.name_any(), old.clone()).await;
    }
    patch(&all::<NodePool>(&stage), "default", old).await;
    let mut conditions = json!(claims[1].status.as_ref().unwrap().conditions);
    conditions
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted",
        "message": "", "lastTransitionTime": "2026-01-05T08:00:00Z"}));
    let drifted = Patch::Merge(json!({"status": {"conditions": conditions}}));
    let api = all::<NodeClaim>(&stage);
    api.patch_status(&claims[1].name_any(), &PatchParams::default(), &drifted).await.unwrap();
    let running = stage.start();
    stage.pass(5).await;
    let read = |annotations: &std::collections::BTreeMap<String, String>| {
        ["karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"]
            .map(|key| annotations[key].clone())
    };
    let pool = stage.pool("default").await;
    assert_eq!(read(pool.annotations()), [right.as_str(), "v3"]);
    let now = stage.claims().await;
    assert_eq!(read(now[0].annotations()), [right.as_str(), "v3"]);
    assert_eq!(read(now[1].annotations()), ["1", "v3"], "drift that was found stays found");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_older_versions_get_the_label_of_their_class() {
    let stage = Stage::new().await;
    let running = stage.start();
    let name = one_node(&stage).await;
    running.stop().await;
    let bare = json!({"metadata": {"labels": {"karpenter.kwok.sh/kwoknodeclass": null}}});
    patch(&all::<NodeClaim>(&stage), &name, bare.clone()).await;
    patch(&all::<Node>(&stage), &name, bare).await;
    // Without the label nobody would know whose node it is, and its end would never come.
    all::<Node>(&stage).delete(&name, &DeleteParams::default()).await.unwrap();
    let running = stage.start();
    stage.pass(2).await;
    let label = "karpenter.kwok.sh/kwoknodeclass";
    assert_eq!(all::<Node>(&stage).get(&name).await.unwrap().labels()[label], "default");
    assert_eq!(all::<NodeClaim>(&stage).get(&name).await.unwrap().labels()[label], "default");
    stage.pass(20).await;
    assert!(all::<Node>(&stage).get_opt(&name).await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_less_than_its_claim_is_told_of() {
    let stage = Stage::new().await;
    let running = stage.start();
    let name = one_node(&stage).await;
    let found =
        async || of_claim(&all::<NodeClaim>(&stage).get(&name).await.unwrap(), "ConsistentStateFound");
    assert_eq!(found().await, is("True", "ConsistentStateFound"));
    let less = Patch::Merge(json!({"status": {"capacity": {"cpu": "500m"}}}));
    all::<Node>(&stage).patch_status(&name, &PatchParams::default(), &less).await.unwrap();
    stage.pass(60).await;
    assert_eq!(found().await, is("True", "ConsistentStateFound"), "looked at every ten minutes");
    stage.pass(600).await;
    assert_eq!(found().await, is("False", "ConsistencyCheckFailed"));
    let events = stage.events().await;
    let told = format!("NodeClaim/{name} FailedConsistencyCheck: the node has 500m of resource `cpu`");
    assert!(events.iter().any(|event| event.starts_with(&told)), "{events:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_holds_a_drain_stands_on_the_claim_until_it_lets_go() {
    let stage = Stage::new().await;
    let running = stage.start();
    let name = one_node(&stage).await;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(stage.client.clone());
    let budget = json!({"metadata": {"name": "keep"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    create(&budgets, budget).await;
    stage.pass(1).await;
    stage.delete_claim(&name).await;
    stage.pass(5).await;
    let blocked = async || {
        let claim = all::<NodeClaim>(&stage).get(&name).await.unwrap();
        let status = claim.status.unwrap();
        status.conditions.into_iter().find(|of| of.type_ == "DrainBlocked").map(|of| of.message)
    };
    assert_eq!(blocked().await, None, "most refusals are over in a moment");
    stage.pass(20).await;
    assert_eq!(blocked().await.unwrap(), "default/web-0: PodDisruptionBudget `keep`");
    let version = all::<NodeClaim>(&stage).get(&name).await.unwrap().resource_version();
    stage.pass(60).await;
    assert_eq!(all::<NodeClaim>(&stage).get(&name).await.unwrap().resource_version(), version, "said once");
    budgets.delete("keep", &DeleteParams::default()).await.unwrap();
    stage.pass(30).await;
    assert!(all::<NodeClaim>(&stage).get_opt(&name).await.unwrap().is_none());
    let events = stage.events().await;
    for told in [
        "Pod/web-0 Evicted: Evicted pod: Forceful Termination".to_owned(),
        format!("Node/{name} Finalized: Finalized karpenter.sh/termination"),
        format!("NodeClaim/{name} Finalized: Finalized karpenter.sh/termination"),
    ] {
        assert!(events.contains(&told), "{told} is not among {events:#?}");
    }
    running.stop().await;
}

async fn attach(stage: &Stage, node: &str, volume: &str) {
    let attachment = json!({"metadata": {"name": format!("attached-{volume}")},
        "spec": {"attacher": "disk.example.com", "nodeName": node, "source": {"persistentVolumeName": volume}}});
    create(&all::<VolumeAttachment>(stage), attachment).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_nobody_can_detach_is_not_waited_for_for_ever() {
    let stage = Stage::new().await;
    let running = stage.start();
    let name = one_node(&stage).await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(stage.client.clone());
    let storage = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "used"});
    create(&claims, json!({"metadata": {"name": "data"}, "spec": storage})).await;
    let volume = json!({"metadata": {"name": "used"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "disk.example.com", "volumeHandle": "1"}, "claimRef": {"namespace": "default", "name": "data"}}});
    create(&all::<PersistentVolume>(&stage), volume).await;
    attach(&stage, &name, "used").await;
    attach(&stage, &name, "lost").await;
    stage.delete_claim(&name).await;
    stage.pass(8 * 60).await;
    let claim = all::<NodeClaim>(&stage).get(&name).await.unwrap();
    assert_eq!(
        of_claim(&claim, "VolumesDetached"),
        is("Unknown", "AwaitingVolumeDetachment"),
        "one is in use"
    );
    let events = stage.events().await;
    assert!(
        events.iter().any(|event| event.contains("VolumeAttachmentLeaked: does not wait for lost")),
        "{events:?}"
    );
    all::<VolumeAttachment>(&stage).delete("attached-used", &DeleteParams::default()).await.unwrap();
    stage.pass(20).await;
    assert!(all::<NodeClaim>(&stage).get_opt(&name).await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_claim_is_drained_and_let_go() {
    let stage = Stage::new().await;
    let script = Arc::<Mutex<Script>>::default();
    let running = stage.start_over(stage.client.clone(), Scripted::new(&stage, &script));
    let name = one_node(&stage).await;
    running.stop().await;
    // Somebody takes the claim away by force.
    patch(&all::<NodeClaim>(&stage), &name, json!({"metadata": {"finalizers": null}})).await;
    stage.delete_claim(&name).await;
    all::<Node>(&stage).delete(&name, &DeleteParams::default()).await.unwrap();
    attach(&stage, &name, "data").await;
    let running = stage.start_over(stage.client.clone(), Scripted::new(&stage, &script));
    stage.pass(10).await;
    assert_eq!(stage.pods().await.len(), 0, "drained");
    let node = all::<Node>(&stage).get(&name).await.unwrap();
    assert!(node.metadata.deletion_timestamp.is_some(), "its volume is still there");
    all::<VolumeAttachment>(&stage).delete("attached-data", &DeleteParams::default()).await.unwrap();
    stage.pass(5).await;
    assert!(all::<Node>(&stage).get_opt(&name).await.unwrap().is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn conditions_that_change_are_told() {
    let stage = Stage::new().await;
    let running = stage.start();
    let name = one_node(&stage).await;
    let events = stage.events().await;
    for kind in ["Launched", "Registered", "Initialized", "Ready"] {
        let told = format!(
            "NodeClaim/{name} {kind}: Status condition transitioned, Type: {kind}, Status: Unknown -> True, Reason: {kind}"
        );
        assert_eq!(events.iter().filter(|event| **event == told).count(), 1, "{told}: {events:#?}");
    }
    assert!(!events.iter().any(|event| event.contains("ConsistentStateFound")), "a first sight is no change");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_starts_no_timer_anew_and_a_change_in_it_does() {
    let stage = Stage::new().await;
    let running = stage.start();
    let name = one_node(&stage).await;
    let event =
        async || all::<NodeClaim>(&stage).get(&name).await.unwrap().status.unwrap().last_pod_event_time;
    let first = event().await.unwrap();
    running.stop().await;
    stage.pass(60).await;
    let running = stage.start();
    stage.pass(30).await;
    assert_eq!(event().await, Some(first.clone()), "a restart is no event");
    stage.create_pods("more", 1, "500m").await;
    stage.pass(15).await;
    assert!(event().await.unwrap().0 > first.0);
    running.stop().await;
}
