//! Machines that come from groups: no NodeClaim is made, and the cluster need not know what one is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use joiner_controllers::Settings;
use joiner_provider::{
    Error, Growth, ListedGroup, Member, MemberState, NodeGroup, NodeGroups, Registry, Resized, Terminated,
};
use joiner_record::{Outcome, Verb};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::stage::{Running, Stage, pod_node};

/// A group as the cloud keeps it: machines for two pods of 1,500m.
#[derive(Default)]
struct Kept {
    min: u32,
    max: u32,
    price: f64,
    target: u32,
    members: Vec<String>,
    made: u32,
}

#[derive(Default)]
struct State {
    groups: BTreeMap<String, Kept>,
    /// Every growth that was asked for.
    grown: Vec<(String, u32, u32)>,
    /// Answers to growths that get lost.
    lost: u32,
    /// The group that cannot grow.
    sold_out: Option<String>,
    /// Somebody else raises the target just before the next growth, by so much.
    meddling: u32,
    /// Lists fail.
    silent: bool,
}

/// A cloud whose machines are Nodes.
struct Cloud {
    state: Mutex<State>,
    nodes: Api<Node>,
}

fn node(group: &str, name: &str) -> Node {
    let room = json!({"cpu": "4", "memory": "16Gi", "pods": "30"});
    serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {
            "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name,
            "example.com/group": group}},
        "spec": {"providerID": format!("cloud://{name}")},
        "status": {"capacity": room, "allocatable": room},
    }))
    .unwrap()
}

impl Cloud {
    fn new(stage: &Stage) -> Arc<Self> {
        let mut groups = BTreeMap::new();
        for (name, price) in [("web", 0.1), ("spare", 0.3)] {
            groups.insert(name.to_owned(), Kept { max: 5, price, ..Kept::default() });
        }
        let state = Mutex::new(State { groups, ..State::default() });
        Arc::new(Self { state, nodes: Api::all(stage.client.clone()) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn target(&self, group: &str) -> u32 {
        self.state().groups[group].target
    }

    fn describe(name: &str, kept: &Kept) -> NodeGroup {
        let member = |id: &String| Member { provider_id: id.clone(), state: MemberState::Running };
        NodeGroup {
            name: name.to_owned(),
            min: kept.min,
            max: kept.max,
            target: kept.target,
            template: node(name, "template").into(),
            price: Some(kept.price),
            members: kept.members.iter().map(member).collect(),
        }
    }

    /// Makes the machines that are missing.
    async fn make(&self) {
        let mut made = Vec::new();
        for (group, kept) in &mut self.state().groups {
            while kept.members.len() < kept.target as usize {
                kept.made += 1;
                let name = format!("{group}-{}", kept.made);
                kept.members.push(format!("cloud://{name}"));
                made.push(node(group, &name));
            }
        }
        for node in made {
            self.nodes.create(&PostParams::default(), &node).await.unwrap();
        }
    }

    fn decide_growth(&self, growth: &Growth) -> Result<(), Result<Resized, Error>> {
        let mut state = self.state();
        state.grown.push((growth.group.clone(), growth.from, growth.to));
        if state.sold_out.as_ref() == Some(&growth.group) {
            let message = "no machines of that kind".to_owned();
            return Err(Err(Error::NoCapacity { scopes: Vec::new(), retry_after: None, message }));
        }
        let meddling = std::mem::take(&mut state.meddling);
        let kept = state.groups.get_mut(&growth.group).unwrap();
        kept.target += meddling;
        if kept.target != growth.from && kept.target < growth.to {
            return Err(Ok(Resized::Changed(Self::describe(&growth.group, kept))));
        }
        assert!(growth.to <= kept.max, "{growth:?}");
        kept.target = kept.target.max(growth.to);
        Ok(())
    }
}

impl NodeGroups for Cloud {
    fn name(&self) -> &str {
        "cloud"
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<ListedGroup>, Error>> {
        async move {
            let state = self.state();
            match state.silent {
                true => Err(Error::Transient("the cloud is silent".to_owned())),
                false => {
                    let groups = state.groups.iter();
                    Ok(groups.map(|(name, kept)| ListedGroup::Group(Self::describe(name, kept))).collect())
                }
            }
        }
        .boxed()
    }

    fn get<'a>(&'a self, group: &'a str) -> BoxFuture<'a, Result<Option<NodeGroup>, Error>> {
        async move { Ok(self.state().groups.get(group).map(|kept| Self::describe(group, kept))) }.boxed()
    }

    fn grow(&self, growth: Growth) -> BoxFuture<'_, Result<Resized, Error>> {
        async move {
            let decided = self.decide_growth(&growth);
            self.make().await;
            if let Err(answer) = decided {
                return answer;
            }
            let mut state = self.state();
            if state.lost > 0 {
                state.lost -= 1;
                return Err(Error::Transient("the answer is lost".to_owned()));
            }
            Ok(Resized::Done(Self::describe(&growth.group, &state.groups[&growth.group])))
        }
        .boxed()
    }

    fn remove<'a>(&'a self, group: &'a str, id: &'a str) -> BoxFuture<'a, Result<Terminated, Error>> {
        async move {
            {
                let mut state = self.state();
                let kept = state.groups.get_mut(group).unwrap();
                let before = kept.members.len();
                assert!(kept.target > kept.min, "below the least");
                kept.members.retain(|member| member != id);
                if kept.members.len() == before {
                    return Ok(Terminated::Gone);
                }
                kept.target -= 1;
            }
            let name = id.trim_start_matches("cloud://");
            self.nodes.delete(name, &DeleteParams::default()).await.unwrap();
            Ok(Terminated::Gone)
        }
        .boxed()
    }
}

fn start(stage: &Stage, cloud: &Arc<Cloud>) -> Running {
    let groups: Arc<dyn NodeGroups> = cloud.clone();
    let registry = Registry::new([]).unwrap().with_node_groups([groups]).unwrap();
    stage.start_registry(stage.client.clone(), registry, Settings::default())
}

async fn bound(stage: &Stage) -> usize {
    stage.pods().await.iter().filter(|pod| pod_node(pod).is_some()).count()
}

/// Growths as `group from to`.
fn grown(cloud: &Cloud) -> Vec<String> {
    cloud.state().grown.iter().map(|(group, from, to)| format!("{group} {from} {to}")).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_make_a_group_grow_and_its_empty_machines_go() {
    let stage = Stage::bare(Duration::from_secs(30));
    let cloud = Cloud::new(&stage);
    let running = start(&stage, &cloud);
    stage.create_pods("web", 6, "1500m").await;
    stage.pass(10).await;
    let summary = running.summary.borrow().clone();
    assert_eq!((summary.nodes, summary.starting, summary.refused_pods), (0, 3, 0));
    stage.pass(60).await;
    assert_eq!(grown(&cloud), ["web 0 3"], "the cheapest group, once, by all it takes");
    assert_eq!((bound(&stage).await, stage.nodes().await.len()), (6, 3));
    let summary = running.summary.borrow().clone();
    assert_eq!((summary.nodes, summary.starting), (3, 0));
    assert!((summary.dollars_per_hour - 0.3).abs() < 1e-9, "{}", summary.dollars_per_hour);

    // One machine is no longer needed: it goes, and no other.
    let leaves = stage.pods().await.iter().find_map(pod_node).map(str::to_owned).unwrap();
    for pod in stage.pods().await.iter().filter(|pod| pod_node(pod) == Some(&leaves)) {
        stage.delete_pod(&pod.name_any()).await;
    }
    stage.pass(9 * 60).await;
    assert_eq!(stage.nodes().await.len(), 3, "not before its time");
    stage.pass(2 * 60).await;
    let left: Vec<String> = stage.nodes().await.iter().map(|node| node.name_any()).collect();
    assert!(left.len() == 2 && !left.contains(&leaves), "{left:?} without {leaves}");
    assert_eq!((cloud.target("web"), bound(&stage).await), (2, 4));
    let told: Vec<String> =
        running.summary.borrow().journal.iter().map(|decision| decision.verdict.code().to_owned()).collect();
    assert!(["provisioned", "emptied"].iter().all(|code| told.iter().any(|of| of == code)), "{told:?}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bounds_hold_in_both_directions() {
    let stage = Stage::bare(Duration::from_secs(2));
    let cloud = Cloud::new(&stage);
    cloud.state().groups.remove("spare");
    cloud.state().groups.get_mut("web").unwrap().min = 4;
    let running = start(&stage, &cloud);
    stage.create_pods("web", 12, "1500m").await;
    stage.pass(60).await;
    assert_eq!((cloud.target("web"), bound(&stage).await), (5, 10), "and two pods too many");
    assert_eq!(running.summary.borrow().refused_pods, 2);
    for pod in stage.pods().await {
        stage.delete_pod(&pod.name_any()).await;
    }
    stage.pass(15 * 60).await;
    assert_eq!((cloud.target("web"), stage.nodes().await.len()), (4, 4));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_growth_whose_answer_is_lost_is_read_back() {
    let stage = Stage::bare(Duration::from_secs(2));
    let cloud = Cloud::new(&stage);
    cloud.state().lost = 1;
    let running = start(&stage, &cloud);
    stage.create_pods("web", 6, "1500m").await;
    stage.pass(40).await;
    assert_eq!(grown(&cloud), ["web 0 3"]);
    assert_eq!((bound(&stage).await, stage.nodes().await.len()), (6, 3));
    // What became of it is known, not guessed: nothing is told as failed.
    let journal = running.summary.borrow().journal.clone();
    assert!(journal.iter().all(|of| of.verdict.code() != "failed"));
    let bought = journal.iter().find(|of| of.verdict.code() == "provisioned").unwrap();
    let outcome = bought.commands[0].completed.as_ref().map(|completed| completed.outcome.clone());
    assert_eq!((bought.commands[0].verb, outcome), (Verb::Resize, Some(Outcome::Done)));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_on_their_way_are_not_asked_for_again_after_a_crash() {
    let stage = Stage::bare(Duration::from_secs(60));
    let cloud = Cloud::new(&stage);
    let running = start(&stage, &cloud);
    stage.create_pods("web", 6, "1500m").await;
    stage.pass(5).await;
    assert_eq!(grown(&cloud), ["web 0 3"]);
    running.kill().await;
    let running = start(&stage, &cloud);
    stage.pass(120).await;
    assert_eq!(grown(&cloud), ["web 0 3"], "what is still to come is the group's target");
    assert_eq!((bound(&stage).await, stage.nodes().await.len()), (6, 3));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_grow_is_left_alone_and_another_grows_at_once() {
    let stage = Stage::bare(Duration::from_secs(2));
    let cloud = Cloud::new(&stage);
    cloud.state().sold_out = Some("web".to_owned());
    let running = start(&stage, &cloud);
    stage.create_pods("web", 2, "1500m").await;
    stage.pass(6).await;
    assert_eq!(grown(&cloud), ["web 0 1", "spare 0 1"]);
    stage.pass(20).await;
    assert_eq!(bound(&stage).await, 2);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_group_that_somebody_else_has_grown_is_read_again() {
    let stage = Stage::bare(Duration::from_secs(2));
    let cloud = Cloud::new(&stage);
    cloud.state().meddling = 2;
    let running = start(&stage, &cloud);
    stage.create_pods("web", 6, "1500m").await;
    stage.pass(40).await;
    assert_eq!(grown(&cloud), ["web 0 3", "web 2 3"], "what came without us counts");
    assert_eq!((cloud.target("web"), bound(&stage).await), (3, 6));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_cannot_be_listed_holds_up_no_other_pools() {
    let stage = Stage::new().await;
    let cloud = Cloud::new(&stage);
    cloud.state().silent = true;
    let groups: Arc<dyn NodeGroups> = cloud.clone();
    let registry = Registry::new([stage.kwok(stage.client.clone()) as _]).unwrap();
    let registry = registry.with_node_groups([groups]).unwrap();
    let running = stage.start_registry(stage.client.clone(), registry, Settings::default());
    stage.create_pods("web", 2, "1500m").await;
    stage.pass(20).await;
    assert_eq!((bound(&stage).await, stage.claims().await.len()), (2, 1));
    let told = running.summary.borrow().journal.iter().any(|of| of.verdict.code() == "failed");
    assert!(told, "and it is told");
    // When it can be, its groups are cheaper than a pool's machines or not: either way they are there.
    cloud.state().silent = false;
    stage.create_pod("picky", "1", json!({"spec": {"nodeSelector": {"example.com/group": "spare"}}})).await;
    stage.pass(90).await;
    assert_eq!((cloud.target("spare"), bound(&stage).await), (1, 3));
    running.stop().await;
}
