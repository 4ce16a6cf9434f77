//! Two replicas on a real control plane: the leader is killed in the middle of a purchase and of a drain, or stands still for a minute.
//!
//! Whatever was half done, the other one finishes: no machine twice, no pod lost. What was made is followed by watches; who wrote what is read from the API
//! server's audit log, where each replica has a name of its own. `JOINER_KILLS` says how often each leader is killed; CI has time for three.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use joiner_testbed::plane::REPLICAS;
use joiner_testbed::process::Signal;
use serde_json::Value;

use crate::replica::{CLAIMS, Cluster, LEASE, NODES, PODS, Replica, text, until};

/// Three pods fit a machine, and a machine takes two seconds to join: a purchase and a drain have a middle.
const OBJECTS: &str = r#"
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {nodeRegistrationDelay: 2s}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements:
        - {key: karpenter.kwok.sh/instance-cpu, operator: In, values: ["4"]}
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  disruption: {consolidateAfter: Never}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: inflate}
spec:
  replicas: 0
  selector: {matchLabels: {app: inflate}}
  template:
    metadata: {labels: {app: inflate}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: "1"}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: inflate}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app: inflate}}
"#;

const PODS_WANTED: u64 = 18;
const PODS_PER_MACHINE: u64 = 3;
/// What a takeover may take, from the death of the leader on.
const TAKEOVER: u64 = 20;

fn kills() -> usize {
    std::env::var("JOINER_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Two replicas, one of which leads.
struct Pair {
    leader: Replica,
    standby: Replica,
}

impl Pair {
    async fn start(cluster: &Cluster) -> Self {
        let leader = cluster.replica(REPLICAS[0]);
        until("the first leads", 60, async || leader.said("leads") == 1).await;
        let standby = cluster.replica(REPLICAS[1]);
        until("the second stands by", 60, async || standby.said("stands by") == 1).await;
        Self { leader, standby }
    }

    /// Kills the leader; the other one takes over in time, and a new one stands by.
    async fn kill_the_leader(self, cluster: &Cluster) -> (Self, Duration) {
        let Self { leader, standby } = self;
        let before = standby.said("leads");
        leader.signal(Signal::Kill);
        let took = until("the other one leads", TAKEOVER, async || standby.said("leads") > before).await;
        let user = leader.user.clone();
        drop(leader);
        let new = cluster.replica(&user);
        until("a new one stands by", 60, async || new.said("stands by") == 1).await;
        (Self { leader: standby, standby: new }, took)
    }
}

async fn ready(test: &str) -> Option<(Cluster, Pair)> {
    let cluster = Cluster::start(test).await?;
    cluster.kubectl(&["apply", "-f", "-"], OBJECTS);
    let pair = Pair::start(&cluster).await;
    Some((cluster, pair))
}

/// All pods run, each claim has its node and each node its claim; how many there are.
async fn at_rest(cluster: &Cluster, pods: u64) -> usize {
    until("all pods run and every claim has its node", 180, async || {
        let claims = cluster.list(CLAIMS).await;
        let up = claims.values().all(|claim| {
            let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Initialized" && one["status"] == "True")
        });
        up && cluster.running_pods().await as u64 == pods
    })
    .await;
    let (claims, nodes) = (cluster.list(CLAIMS).await, cluster.list(NODES).await);
    let of_claims: BTreeSet<&str> = claims.values().map(|claim| text(claim, "/status/providerID")).collect();
    let of_nodes: BTreeSet<&str> = nodes.values().map(|node| text(node, "/spec/providerID")).collect();
    assert_eq!(of_claims, of_nodes);
    assert_eq!((of_claims.len(), of_nodes.len()), (claims.len(), nodes.len()), "a machine twice");
    claims.len()
}

/// No pod runs any more, and the machines are gone: the next round begins.
async fn cleared(cluster: &Cluster) {
    cluster.scale("inflate", 0).await;
    until("no pod is left", 60, async || cluster.list(PODS).await.is_empty()).await;
    cluster.delete(CLAIMS).await;
    until("no machine is left", 60, async || {
        cluster.list(CLAIMS).await.is_empty() && cluster.list(NODES).await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_while_it_buys_is_followed() {
    let Some((cluster, mut pair)) = ready("a_leader_killed_while_it_buys_is_followed").await else { return };
    for round in 0..kills() {
        let (claims, nodes) = (cluster.follow(CLAIMS).await, cluster.follow(NODES).await);
        cluster.scale("inflate", PODS_WANTED).await;
        let wanted = usize::try_from(PODS_WANTED / PODS_PER_MACHINE).unwrap();
        let moment = ["a claim is there", "a machine is launched", "a node has joined"][round % 3];
        until(moment, 60, async || {
            let claims = cluster.list(CLAIMS).await;
            match round % 3 {
                0 => !claims.is_empty(),
                1 => claims.values().any(|claim| !text(claim, "/status/providerID").is_empty()),
                _ => !cluster.list(NODES).await.is_empty(),
            }
        })
        .await;
        let running = cluster.running_pods().await;
        assert!((running as u64) < PODS_WANTED, "{moment}: too late, everything is done");
        let took;
        (pair, took) = pair.kill_the_leader(&cluster).await;
        println!("killed when {moment}: the other one led after {took:.1?}");
        assert_eq!(at_rest(&cluster, PODS_WANTED).await, wanted, "{moment}");
        assert_eq!(claims.names().len(), wanted, "killed when {moment}: claims made");
        assert_eq!(nodes.names().len(), wanted, "killed when {moment}: machines made");
        cleared(&cluster).await;
    }
    pair.leader.check();
    assert!(!pair.leader.log().contains("panicked"), "{}", pair.leader.log());
}

/// Where each pod runs, by uid.
async fn places(cluster: &Cluster) -> BTreeMap<String, String> {
    let place = |pod: &Value| (text(pod, "/metadata/uid").to_owned(), text(pod, "/spec/nodeName").to_owned());
    cluster.list(PODS).await.values().map(place).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_while_it_drains_is_followed() {
    let Some((cluster, mut pair)) = ready("a_leader_killed_while_it_drains_is_followed").await else {
        return;
    };
    cluster.scale("inflate", PODS_WANTED).await;
    let wanted = at_rest(&cluster, PODS_WANTED).await;
    for round in 0..kills() {
        let (claims, nodes) = (cluster.follow(CLAIMS).await, cluster.follow(NODES).await);
        let before = places(&cluster).await;
        let leaving: BTreeSet<String> = cluster.names(NODES).await.into_iter().take(2).collect();
        for node in &leaving {
            cluster.delete(&format!("{NODES}/{node}")).await;
        }
        let moment = ["a node is tainted", "a pod is evicted", "a node is empty"][round % 3];
        until(moment, 60, async || {
            let nodes = cluster.list(NODES).await;
            let tainted = nodes
                .values()
                .any(|node| node["spec"]["taints"].to_string().contains("karpenter.sh/disrupted"));
            let places = places(&cluster).await;
            let left = before.keys().filter(|uid| places.contains_key(*uid)).count();
            match round % 3 {
                0 => tainted,
                1 => left < before.len(),
                _ => leaving.iter().any(|node| !places.values().any(|place| place == node)),
            }
        })
        .await;
        let there = cluster.names(NODES).await;
        assert!(leaving.iter().any(|node| there.contains(node)), "{moment}: too late, everything is done");
        let took;
        (pair, took) = pair.kill_the_leader(&cluster).await;
        println!("killed when {moment}: the other one led after {took:.1?}");
        until("the nodes are gone", 180, async || cluster.names(NODES).await.is_disjoint(&leaving)).await;
        assert_eq!(at_rest(&cluster, PODS_WANTED).await, wanted, "{moment}");
        assert_eq!(claims.names().len(), leaving.len(), "killed when {moment}: claims made");
        assert_eq!(nodes.names().len(), leaving.len(), "killed when {moment}: machines made");
        let after = places(&cluster).await;
        for (uid, node) in before.iter().filter(|(_, node)| !leaving.contains(*node)) {
            assert_eq!(after.get(uid), Some(node), "killed when {moment}: a pod of another node was lost");
        }
    }
    pair.leader.check();
    assert!(!pair.leader.log().contains("panicked"), "{}", pair.leader.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_wakes_late_writes_nothing() {
    let Some((cluster, pair)) = ready("a_leader_that_wakes_late_writes_nothing").await else { return };
    let Pair { leader: mut frozen, standby: mut other } = pair;
    cluster.scale("inflate", PODS_WANTED).await;
    until("a claim is there", 60, async || !cluster.list(CLAIMS).await.is_empty()).await;
    frozen.signal(Signal::Stop);
    let stopped = std::time::Instant::now();
    until("the other one leads", TAKEOVER, async || other.said("leads") == 1).await;
    let machines = at_rest(&cluster, PODS_WANTED).await as u64;
    assert_eq!(machines, PODS_WANTED / PODS_PER_MACHINE);
    // Something that the sleeper knows nothing of, and would undo or do again.
    let gone = cluster.names(NODES).await.into_iter().next().unwrap();
    cluster.delete(&format!("{NODES}/{gone}")).await;
    until("the node is gone", 120, async || !cluster.names(NODES).await.contains(&gone)).await;
    at_rest(&cluster, PODS_WANTED).await;
    let minute = Duration::from_secs(60).saturating_sub(stopped.elapsed());
    tokio::time::sleep(minute).await;

    let (_, lease) = cluster.bed.client.get(LEASE).await.unwrap();
    let holder = text(&lease, "/spec/holderIdentity").to_owned();
    // Whatever is answered from here on came in after this request.
    cluster.bed.client.get("/api/v1/namespaces/default/configmaps/it-wakes-now").await.unwrap();
    let woken = cluster.requests().into_iter().find(|request| request.name == "it-wakes-now").unwrap();
    let stood_by = frozen.said("stands by");
    frozen.signal(Signal::Continue);
    until("it notices that it does not lead", 30, async || frozen.said("stands by") > stood_by).await;
    // Anything it still had in hand would be on its way by now.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (_, lease) = cluster.bed.client.get(LEASE).await.unwrap();
    assert_eq!(text(&lease, "/spec/holderIdentity"), holder, "it took the lease back");
    let requests = cluster.requests();
    let later: Vec<_> = requests
        .iter()
        .filter(|request| request.user == frozen.user && request.received > woken.received)
        .collect();
    let writes: Vec<_> = later.iter().filter(|request| request.is_write()).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    assert!(!later.is_empty(), "it has not looked at anything: it has not woken");

    // It is as good a standby as any.
    other.check();
    other.signal(Signal::Kill);
    let before = frozen.said("leads");
    until("the woken one leads", TAKEOVER, async || frozen.said("leads") > before).await;
    cluster.scale("inflate", PODS_WANTED + PODS_PER_MACHINE).await;
    let after = at_rest(&cluster, PODS_WANTED + PODS_PER_MACHINE).await as u64;
    assert_eq!(after, machines + 1);
    frozen.check();
}
