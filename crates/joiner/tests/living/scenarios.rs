//! Ten stories of a cluster. Each says what is done and when, and what must have become of it, so that a story in which nothing happens
//! does not pass for one that happens twice alike.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::deeds::{Hands, name_of};
use crate::log::Log;

const POOL: &str = r"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: { name: default }
spec:
  template:
    spec:
      requirements:
        - { key: kubernetes.io/arch, operator: In, values: [amd64] }
        - { key: kubernetes.io/os, operator: In, values: [linux] }
        - { key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand] }
        - { key: karpenter.kwok.sh/instance-cpu, operator: In, values: ['4', '8', '16'] }
      nodeClassRef: { group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default }
      expireAfter: Never
  disruption: { consolidationPolicy: WhenEmpty, consolidateAfter: 1m }
---
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: { name: default }
spec: { nodeRegistrationDelay: 20s }
";

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A template of pods of one container.
fn template(app: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{
            "name": "main", "image": "example.com/app:1",
            "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}},
        }]},
    })
}

fn deployment(app: &str, replicas: usize, cpu: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app, cpu),
        },
    })
}

fn budget(app: &str, most: u32) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
        "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": app}}},
    })
}

/// Two services grow step by step.
pub(crate) async fn growth(hands: &mut Hands) {
    hands.apply(POOL).await;
    hands.apply_one(&deployment("web", 2, "1")).await;
    hands.apply_one(&deployment("api", 1, "500m")).await;
    for (minute, web, api) in [(3, 5, 4), (8, 14, 9), (15, 30, 20)] {
        hands.wait_until(minutes(minute)).await;
        hands.scale("Deployment", "web", web).await;
        hands.wait(Duration::from_millis(1500)).await;
        hands.scale("Deployment", "api", api).await;
    }
    hands.wait(minutes(5)).await;
    assert_eq!(hands.ready().await, 50);
    assert!(hands.nodes().await.len() >= 3);
}

/// Many pods at once, and then few: the nodes go again.
pub(crate) async fn spike(hands: &mut Hands) {
    hands.apply(POOL).await;
    hands.apply_one(&deployment("web", 3, "1")).await;
    hands.wait(minutes(4)).await;
    let before = hands.nodes().await.len();
    hands.scale("Deployment", "web", 60).await;
    hands.wait(minutes(10)).await;
    assert_eq!(hands.ready().await, 60);
    let during = hands.nodes().await.len();
    hands.scale("Deployment", "web", 3).await;
    hands.wait(minutes(15)).await;
    assert_eq!(hands.ready().await, 3);
    let after = hands.nodes().await.len();
    assert!(during > before && after < during, "{before}, {during}, {after} nodes");
}

/// Everything sleeps for eight hours.
pub(crate) async fn night(hands: &mut Hands) {
    hands.apply(POOL).await;
    hands.apply_one(&deployment("web", 12, "1")).await;
    hands.apply_one(&deployment("batch", 5, "2")).await;
    hands.wait(minutes(10)).await;
    assert_eq!(hands.ready().await, 17);
    hands.scale("Deployment", "web", 0).await;
    hands.scale("Deployment", "batch", 0).await;
    hands.wait(minutes(8 * 60)).await;
    assert_eq!(hands.nodes().await.len(), 0);
    hands.scale("Deployment", "web", 12).await;
    hands.wait(minutes(5)).await;
    assert_eq!(hands.ready().await, 12);
}

/// The cloud takes two spot machines back.
pub(crate) async fn interruption(hands: &mut Hands) {
    hands.apply(POOL).await;
    hands.apply_one(&deployment("web", 20, "1")).await;
    hands.apply_one(&budget("web", 4)).await;
    hands.wait(minutes(5)).await;
    for _ in 0..2 {
        let claims = hands.list("NodeClaim").await;
        let spot =
            claims.iter().find(|claim| claim["metadata"]["labels"]["karpenter.sh/capacity-type"] == "spot");
        let name = name_of(spot.unwrap());
        hands.delete("NodeClaim", &name).await;
        hands.wait(minutes(10)).await;
        assert!(!hands.nodes().await.contains(&name));
    }
    assert_eq!(hands.ready().await, 20);
}

/// A node falls silent, and is given up.
pub(crate) async fn loss(hands: &mut Hands) {
    hands.apply(POOL).await;
    hands.apply_one(&deployment("web", 24, "1")).await;
    hands.wait(minutes(5)).await;
    let node = hands.nodes().await[0].clone();
    let lost = hands.pods_on(&node).await;
    assert!(!lost.is_empty());
    hands.patch("Node", &node, &json!({"metadata": {"annotations": {"joiner.sh/kubelet": "stopped"}}})).await;
    hands.wait(minutes(20)).await;
    assert_eq!(hands.ready().await, 24, "others have taken their place");
}

/// A new template while the old one is still being scaled up.
pub(crate) async fn rollout(hands: &mut Hands) {
    hands.apply(POOL).await;
    hands.apply_one(&deployment("web", 6, "1")).await;
    hands.wait(minutes(4)).await;
    hands.scale("Deployment", "web", 30).await;
    hands.wait(seconds(25)).await;
    let image =
        json!([{"name": "main", "image": "example.com/app:2", "resources": {"requests": {"cpu": "1500m"}}}]);
    hands.patch("Deployment", "web", &json!({"spec": {"template": {"spec": {"containers": image}}}})).await;
    hands.wait(seconds(40)).await;
    hands.scale("Deployment", "web", 34).await;
    hands.wait(minutes(15)).await;
    assert_eq!(hands.ready().await, 34);
    let pods = hands.list("Pod").await;
    assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "example.com/app:2"));
}

/// Members of a set come and go in order, and find their volumes again.
pub(crate) async fn volumes(hands: &mut Hands) {
    hands.apply(POOL).await;
    hands
        .apply(
            r"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: { name: disks }
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: db }
spec:
  replicas: 3
  serviceName: db
  selector: { matchLabels: { app: db } }
  template:
    metadata: { labels: { app: db } }
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - topologyKey: kubernetes.io/hostname
              labelSelector: { matchLabels: { app: db } }
      containers:
        - name: main
          image: example.com/db:1
          resources: { requests: { cpu: '2', memory: 1Gi } }
          volumeMounts: [{ name: data, mountPath: /data }]
  volumeClaimTemplates:
    - metadata: { name: data }
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: disks
        resources: { requests: { storage: 10Gi } }
",
        )
        .await;
    hands.wait(minutes(8)).await;
    assert_eq!(hands.ready().await, 3);
    hands.scale("StatefulSet", "db", 5).await;
    hands.wait(minutes(8)).await;
    assert_eq!(hands.ready().await, 5);
    hands.scale("StatefulSet", "db", 1).await;
    hands.wait(minutes(15)).await;
    hands.scale("StatefulSet", "db", 4).await;
    hands.wait(minutes(10)).await;
    assert_eq!(hands.ready().await, 4);
    assert_eq!(hands.list("PersistentVolumeClaim").await.len(), 5, "claims outlive members");
}

/// Work every ten minutes, and one large job beside it.
pub(crate) async fn jobs(hands: &mut Hands) {
    hands.apply(POOL).await;
    let work = |app: &str, duration: &str| {
        let mut template = template(app, "1");
        template["metadata"]["annotations"] = json!({"joiner.sh/duration": duration});
        template["spec"]["restartPolicy"] = "Never".into();
        template
    };
    hands
        .apply_one(&json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
            "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {
                "parallelism": 4, "completions": 4, "template": work("tick", "90s"),
            }}},
        }))
        .await;
    hands.wait(minutes(12)).await;
    hands
        .apply_one(&json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "large"},
            "spec": {"parallelism": 15, "completions": 40, "completionMode": "Indexed", "template": work("large", "4m")},
        }))
        .await;
    hands.wait(minutes(55)).await;
    let jobs = hands.list("Job").await;
    let large = jobs.iter().find(|job| name_of(job) == "large").unwrap();
    assert_eq!(large["status"]["succeeded"], 40);
    let ticks = jobs
        .iter()
        .filter(|job| name_of(job).starts_with("tick-") && job["status"]["succeeded"] == 4)
        .count();
    assert!(ticks >= 3, "{ticks} of the cron job's");
}

/// A node with a daemon and budgeted pods is emptied by hand, as kubectl drains.
pub(crate) async fn drain(hands: &mut Hands) {
    hands.apply(POOL).await;
    hands
        .apply_one(&json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent", "100m")},
        }))
        .await;
    hands.apply_one(&deployment("web", 20, "1")).await;
    hands.apply_one(&budget("web", 2)).await;
    hands.wait(minutes(6)).await;
    let node = hands.nodes().await[0].clone();
    hands.patch("Node", &node, &json!({"spec": {"unschedulable": true}})).await;
    let mut refused = 0;
    for _ in 0..60 {
        let pods: Vec<String> =
            hands.pods_on(&node).await.into_iter().filter(|pod| pod.starts_with("web-")).collect();
        if pods.is_empty() {
            break;
        }
        for pod in pods {
            refused += usize::from(!hands.evict(&pod).await);
        }
        hands.wait(seconds(5)).await;
    }
    assert!(refused > 0, "the budget was never in the way");
    assert!(hands.pods_on(&node).await.iter().all(|pod| pod.starts_with("agent-")));
    hands.wait(minutes(10)).await;
    let nodes = hands.nodes().await.len();
    let daemons = hands.list("Pod").await.iter().filter(|pod| name_of(pod).starts_with("agent-")).count();
    assert_eq!(hands.ready().await, 20 + nodes);
    assert_eq!(daemons, nodes);
    assert!(!hands.nodes().await.contains(&node), "an empty node goes");
}

/// Replicas follow usage, and nodes follow replicas.
pub(crate) async fn autoscaling(hands: &mut Hands) {
    hands.apply(POOL).await;
    let mut web = deployment("web", 2, "1");
    web["spec"]["template"]["metadata"]["annotations"] = json!({"kwok.x-k8s.io/usage-cpu": "900m"});
    hands.apply_one(&web).await;
    hands
        .apply_one(&json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
            "spec": {
                "minReplicas": 2, "maxReplicas": 16,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60},
                }}],
            },
        }))
        .await;
    hands.wait(minutes(10)).await;
    assert_eq!(hands.ready().await, 16);
    let calm = json!({"metadata": {"annotations": {"kwok.x-k8s.io/usage-cpu": "50m"}}});
    for pod in hands.list("Pod").await {
        hands.patch("Pod", &name_of(&pod), &calm).await;
    }
    hands.wait(minutes(25)).await;
    assert_eq!(hands.ready().await, 2);
}

/// Something must have happened in every story.
pub(crate) fn assert_lively(name: &str, log: &Log) {
    let told = log.told();
    let mut text = String::new();
    told.iter().for_each(|(what, count)| write!(text, "{what} {count}; ").unwrap());
    assert!(log.len() > 200, "{name}: {} changes", log.len());
    assert!(log.count("ADDED", "nodeclaims") >= 2, "{name}: joiner adds machines");
    for what in ["default-scheduler FailedScheduling", "default-scheduler Scheduled", "karpenter Nominated"] {
        assert!(told.contains_key(what), "{name}: nobody tells `{what}`: {text}");
    }
}
