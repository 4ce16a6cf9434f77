//! A cluster in virtual time: what takes minutes or days on a real one, and what a real one cannot be asked to do.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use joiner_sim::controller::Participant;
use joiner_sim::event::Event;
use joiner_sim::kubelet::{Lifecycle, Span};
use joiner_sim::object::{Fields, Kind};
use joiner_sim::settings::Settings;
use joiner_sim::world::World;
use joiner_sim::write::Write;
use serde_json::{Value, json};

fn start() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn world(lifecycle: Lifecycle) -> World {
    World::new(Settings { seed: 3, start: start(), lifecycle, ..Settings::default() })
}

async fn send(world: &World, method: Method, path: &str, body: &Value) -> Value {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", content);
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let answer = world.server().answer(request).await;
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert!(status.is_success(), "{path}: {answer}");
    answer
}

async fn create(world: &World, kind: Kind, mut object: Value) -> Value {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.name().into();
    let root = if kind.group().is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group()) };
    let namespace = if kind.namespaced() { "/namespaces/default" } else { "" };
    let path = format!("{root}/{}{namespace}/{}", kind.version(), kind.plural());
    send(world, Method::POST, &path, &object).await
}

async fn pass(world: &mut World, seconds: i64) {
    world.run_for(SignedDuration::from_secs(seconds)).await;
}

fn deployment(replicas: i64, spec: &Value, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}, "annotations": annotations}, "spec": spec},
        },
    })
}

fn spec(more: &Value) -> Value {
    let mut spec = json!({"containers": [
        {"name": "main", "image": "one", "resources": {"requests": {"cpu": "100m"}}},
    ]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn node(name: &str, annotations: &Value) -> Value {
    json!({"metadata": {
        "name": name, "annotations": annotations,
        "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "a"},
    }})
}

fn pods(world: &World) -> Vec<&Value> {
    world.cache().all(Kind::Pod).map(|(_, pod)| &**pod).collect()
}

fn ready(world: &World) -> usize {
    pods(world).iter().filter(|pod| pod.condition_is_true("Ready")).count()
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_makes_a_job_every_minute_and_keeps_three() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n", &json!({}))).await;
    let template = json!({"spec": spec(&json!({"nodeName": "n", "restartPolicy": "Never"}))});
    let cron = json!({"metadata": {"name": "tick"}, "spec": {
        "schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}},
    }});
    create(&world, Kind::CronJob, cron).await;
    pass(&mut world, 3600 + 30).await;
    let cron = world.cache().find(Kind::CronJob, "default", "tick").unwrap();
    assert_eq!(cron.text(&["status", "lastScheduleTime"]), "2026-01-01T13:00:00Z");
    assert_eq!(cron.text(&["status", "lastSuccessfulTime"]), "2026-01-01T13:00:00Z");
    assert!(cron.items(&["status", "active"]).is_empty());
    let jobs: Vec<&str> = world.cache().all(Kind::Job).map(|(key, _)| &*key.name).collect();
    let minute = "2026-01-01T13:00:00Z".parse::<Timestamp>().unwrap().as_second() / 60;
    assert_eq!(jobs, [10, 5, 0].map(|ago| format!("tick-{}", minute - ago)));
    assert_eq!(pods(&world).len(), 3, "pods go with their jobs");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_keeps_the_time_of_its_zone() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n", &json!({}))).await;
    let template = json!({"spec": spec(&json!({"nodeName": "n", "restartPolicy": "Never"}))});
    let cron = json!({"metadata": {"name": "noon"}, "spec": {
        "schedule": "0 9 * * *", "timeZone": "America/New_York", "jobTemplate": {"spec": {"template": template}},
    }});
    create(&world, Kind::CronJob, cron).await;
    pass(&mut world, 24 * 3600).await;
    let cron = world.cache().find(Kind::CronJob, "default", "noon").unwrap();
    assert_eq!(cron.text(&["status", "lastScheduleTime"]), "2026-01-01T14:00:00Z");
    assert_eq!(world.cache().all(Kind::Job).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_an_account_and_a_certificate() {
    let mut world = world(Lifecycle::fast());
    let certificate = |world: &World, namespace: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt");
        let request = Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
        let server = world.server().clone();
        async move { server.answer(request).await.status().as_u16() }
    };
    create(&world, Kind::Namespace, json!({"metadata": {"name": "shop"}})).await;
    pass(&mut world, 1).await;
    for namespace in ["default", "kube-system", "shop"] {
        assert!(world.cache().find(Kind::ServiceAccount, namespace, "default").is_some(), "{namespace}");
        assert_eq!(certificate(&world, namespace).await, 200, "{namespace}");
    }
    assert_eq!(world.refusals(), 0);
    send(&world, Method::DELETE, "/api/v1/namespaces/shop", &json!({})).await;
    pass(&mut world, 5).await;
    assert_eq!(certificate(&world, "shop").await, 404);
    create(&world, Kind::Namespace, json!({"metadata": {"name": "shop"}})).await;
    pass(&mut world, 1).await;
    assert_eq!(certificate(&world, "shop").await, 200, "a new one of the same name has its own");
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_that_forbids_company_waits_for_its_job() {
    let lifecycle = Lifecycle { job_duration: Span::seconds(150, 150), ..Lifecycle::fast() };
    let mut world = world(lifecycle);
    create(&world, Kind::Node, node("n", &json!({}))).await;
    let template = json!({"spec": spec(&json!({"nodeName": "n", "restartPolicy": "Never"}))});
    let cron = json!({"metadata": {"name": "tick"}, "spec": {
        "schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": {"template": template}},
    }});
    create(&world, Kind::CronJob, cron).await;
    pass(&mut world, 190).await;
    assert_eq!(world.cache().all(Kind::Job).count(), 1, "the first runs from 12:01 to 12:03:30");
    pass(&mut world, 60).await;
    assert_eq!(world.cache().all(Kind::Job).count(), 2);
}

/// An autoscaler that wants half of what `web` asks for used.
fn half_used(max_replicas: u32) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "minReplicas": 1, "maxReplicas": max_replicas,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "metrics": [{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
        }}],
    }})
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_usage() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n", &json!({}))).await;
    let usage = json!({"kwok.x-k8s.io/usage-cpu": "200m"});
    create(&world, Kind::Deployment, deployment(2, &spec(&json!({"nodeName": "n"})), &usage)).await;
    let scaler = half_used(10);
    pass(&mut world, 1).await;
    create(&world, Kind::HorizontalPodAutoscaler, scaler).await;
    pass(&mut world, 5).await;
    // Four times as much as wanted; but at most four more, or twice as many, in fifteen seconds.
    assert_eq!(ready(&world), 6);
    pass(&mut world, 60).await;
    assert_eq!(ready(&world), 10, "the limit");
    let told = |world: &World, kind: &str| {
        let scaler = world.cache().find(Kind::HorizontalPodAutoscaler, "default", "web").unwrap();
        let condition = scaler.condition(kind).unwrap();
        format!("{} {}", condition.text(&["status"]), condition.text(&["reason"]))
    };
    assert_eq!(told(&world, "ScalingLimited"), "True TooManyReplicas");
    assert_eq!(told(&world, "AbleToScale"), "True ReadyForNewScale");
    let idle =
        json!({"spec": {"template": {"metadata": {"annotations": {"kwok.x-k8s.io/usage-cpu": "10m"}}}}});
    send(&world, Method::PATCH, "/apis/apps/v1/namespaces/default/deployments/web", &idle).await;
    pass(&mut world, 240).await;
    assert_eq!(ready(&world), 10, "five minutes pass before it shrinks");
    pass(&mut world, 120).await;
    assert_eq!(ready(&world), 2, "a fifth of the wanted usage");
    assert_eq!(told(&world, "ScalingLimited"), "False DesiredWithinRange");
}

/// Percents are whole, and none is lost on the way there.
#[tokio::test(start_paused = true)]
async fn usage_is_counted_in_whole_thousandths() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n", &json!({}))).await;
    let usage = json!({"kwok.x-k8s.io/usage-cpu": "90m"});
    create(&world, Kind::Deployment, deployment(3, &spec(&json!({"nodeName": "n"})), &usage)).await;
    let scaler = half_used(5);
    pass(&mut world, 1).await;
    create(&world, Kind::HorizontalPodAutoscaler, scaler).await;
    pass(&mut world, 5).await;
    let scaler = world.cache().find(Kind::HorizontalPodAutoscaler, "default", "web").unwrap();
    let current = &scaler.items(&["status", "currentMetrics"])[0]["resource"]["current"];
    assert_eq!(*current, json!({"averageUtilization": 90, "averageValue": "90m"}));
    let able = scaler.condition("AbleToScale").unwrap();
    assert_eq!(able.text(&["reason"]), "SucceededRescale");
    assert_eq!(able.text(&["message"]), "the HPA controller was able to update the target scale to 5");
    let limited = scaler.condition("ScalingLimited").unwrap();
    assert_eq!(limited.text(&["reason"]), "TooManyReplicas");
}

/// Pods that do not say what they use are as busy as their autoscaler wants them: nothing changes because of it.
#[tokio::test(start_paused = true)]
async fn without_usage_replicas_stay_as_they_are() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n", &json!({}))).await;
    create(&world, Kind::Deployment, deployment(3, &spec(&json!({"nodeName": "n"})), &json!({}))).await;
    let mut scaler = half_used(10);
    let memory = json!({"name": "memory", "target": {"type": "AverageValue", "averageValue": "300Mi"}});
    let metrics = scaler["spec"]["metrics"].as_array_mut().unwrap();
    metrics.push(json!({"type": "Resource", "resource": memory}));
    pass(&mut world, 1).await;
    create(&world, Kind::HorizontalPodAutoscaler, scaler).await;
    pass(&mut world, 1200).await;
    assert_eq!(ready(&world), 3);
    let scaler = world.cache().find(Kind::HorizontalPodAutoscaler, "default", "web").unwrap();
    let current = &scaler.items(&["status", "currentMetrics"])[0]["resource"]["current"];
    assert_eq!(*current, json!({"averageUtilization": 50, "averageValue": "50m"}));
    assert_eq!(scaler.condition("ScalingActive").unwrap().text(&["reason"]), "ValidMetricFound");
}

/// A taint of the same key with another effect is there to stay.
#[tokio::test(start_paused = true)]
async fn startup_taints_go_by_key_and_effect_some_time_after_the_node_is_ready() {
    let mut world = world(Lifecycle::fast());
    let mut starting = node(
        "n",
        &json!({"joiner.sh/startup-taints": "a:NoSchedule, b", "joiner.sh/startup-taints-time": "30s"}),
    );
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    starting["spec"]["taints"] =
        json!([taint("a", "NoSchedule"), taint("a", "NoExecute"), taint("b", "NoExecute")]);
    create(&world, Kind::Node, starting).await;
    let taints = |world: &World| {
        let node = world.cache().find(Kind::Node, "", "n").unwrap();
        let taints = node.items(&["spec", "taints"]).iter();
        let told = taints.map(|taint| format!("{}:{}", taint.text(&["key"]), taint.text(&["effect"])));
        told.filter(|taint| !taint.starts_with("node.kubernetes.io/")).collect::<Vec<_>>().join(" ")
    };
    pass(&mut world, 29).await;
    assert_eq!(taints(&world), "a:NoSchedule a:NoExecute b:NoExecute");
    pass(&mut world, 3).await;
    assert_eq!(taints(&world), "a:NoExecute");
}

/// Whoever deletes a pod can still see it, and see it go, before another takes its name.
#[tokio::test(start_paused = true)]
async fn a_deleted_pod_takes_a_moment_to_go() {
    for late in [0, 400, 999] {
        let mut world = world(Lifecycle::default());
        create(&world, Kind::Node, node("n", &json!({}))).await;
        let pod = |name: &str, more: &Value| json!({"metadata": {"name": name}, "spec": spec(more)});
        create(&world, Kind::Pod, pod("usual", &json!({"nodeName": "n"}))).await;
        create(&world, Kind::Pod, pod("hasty", &json!({"nodeName": "n"}))).await;
        pass(&mut world, 5).await;
        world.run_for(SignedDuration::from_millis(late)).await;
        send(&world, Method::DELETE, "/api/v1/namespaces/default/pods/usual", &json!({})).await;
        let now = json!({"gracePeriodSeconds": 0});
        send(&world, Method::DELETE, "/api/v1/namespaces/default/pods/hasty", &now).await;
        world.run_for(SignedDuration::from_millis(490)).await;
        let left: Vec<&str> = pods(&world).iter().map(|pod| pod.name()).collect();
        assert_eq!(left, ["usual"], "{late} ms into a second");
        world.run_for(SignedDuration::from_millis(520)).await;
        assert_eq!(pods(&world).len(), 0, "{late} ms into a second");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_take_their_time_to_start_and_to_end() {
    let mut world = world(Lifecycle { termination: Span::seconds(60, 60), ..Lifecycle::general() });
    create(&world, Kind::Node, node("n", &json!({"joiner.sh/boot-time": "30s"}))).await;
    let template = spec(&json!({"nodeName": "n", "terminationGracePeriodSeconds": 20}));
    create(&world, Kind::Deployment, deployment(20, &template, &json!({}))).await;
    pass(&mut world, 29).await;
    assert_eq!((pods(&world).len(), ready(&world)), (20, 0), "nothing runs on a node that boots");
    pass(&mut world, 5).await;
    let some = ready(&world);
    assert!(some > 0 && some < 20, "{some} of 20 after some seconds");
    pass(&mut world, 10).await;
    assert_eq!(ready(&world), 20);
    let none = json!({"spec": {"replicas": 0}});
    send(&world, Method::PATCH, "/apis/apps/v1/namespaces/default/deployments/web", &none).await;
    pass(&mut world, 19).await;
    assert_eq!(pods(&world).len(), 20, "all are still ending");
    pass(&mut world, 2).await;
    assert_eq!(pods(&world).len(), 0, "nobody gets more than its grace");
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_given_up() {
    let mut world = world(Lifecycle::fast());
    for name in ["a", "b"] {
        create(&world, Kind::Node, node(name, &json!({}))).await;
    }
    create(&world, Kind::Pod, json!({"metadata": {"name": "p"}, "spec": spec(&json!({"nodeName": "a"}))}))
        .await;
    pass(&mut world, 5).await;
    assert_eq!(ready(&world), 1);
    let stopped = json!({"metadata": {"annotations": {"joiner.sh/kubelet": "stopped"}}});
    send(&world, Method::PATCH, "/api/v1/nodes/a", &stopped).await;
    pass(&mut world, 49).await;
    assert_eq!(ready(&world), 1);
    pass(&mut world, 2).await;
    let lost = world.cache().find(Kind::Node, "", "a").unwrap();
    assert_eq!(lost.condition("Ready").unwrap()["status"], "Unknown");
    let taints: Vec<String> = lost
        .items(&["spec", "taints"])
        .iter()
        .map(|taint| format!("{}:{}", taint.text(&["key"]), taint.text(&["effect"])))
        .collect();
    let unreachable = "node.kubernetes.io/unreachable";
    assert_eq!(taints, [format!("{unreachable}:NoSchedule"), format!("{unreachable}:NoExecute")]);
    assert_eq!(ready(&world), 0);
    pass(&mut world, 295).await;
    assert!(!pods(&world)[0].is_deleting(), "five minutes are tolerated");
    pass(&mut world, 10).await;
    assert!(pods(&world)[0].is_deleting(), "but no kubelet is there to end it");
    let back = json!({"metadata": {"annotations": {"joiner.sh/kubelet": null}}});
    send(&world, Method::PATCH, "/api/v1/nodes/a", &back).await;
    pass(&mut world, 5).await;
    assert!(pods(&world).is_empty());
    let back = world.cache().find(Kind::Node, "", "a").unwrap();
    assert!(back.condition_is_true("Ready") && back.items(&["spec", "taints"]).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_where_the_consumer_will_be() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n", &json!({}))).await;
    let class = json!({
        "metadata": {"name": "fast"}, "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    create(&world, Kind::StorageClass, class).await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    create(&world, Kind::PersistentVolumeClaim, claim).await;
    pass(&mut world, 5).await;
    let claim = world.cache().find(Kind::PersistentVolumeClaim, "default", "data").unwrap();
    assert_eq!(claim.text(&["status", "phase"]), "Pending");
    let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
    let path = "/api/v1/namespaces/default/persistentvolumeclaims/data";
    send(&world, Method::PATCH, path, &chosen).await;
    pass(&mut world, 5).await;
    let claim = world.cache().find(Kind::PersistentVolumeClaim, "default", "data").unwrap();
    assert_eq!(claim.text(&["status", "phase"]), "Bound");
    let (_, volume) = world.cache().all(Kind::PersistentVolume).next().unwrap();
    let terms = volume.at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["a"]));
    send(&world, Method::DELETE, path, &json!({})).await;
    pass(&mut world, 5).await;
    assert_eq!(world.cache().all(Kind::PersistentVolume).count(), 0, "its policy is Delete");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_takes_everything_along() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n", &json!({}))).await;
    create(&world, Kind::Namespace, json!({"metadata": {"name": "shop"}})).await;
    pass(&mut world, 1).await;
    let mut web = deployment(5, &spec(&json!({"nodeName": "n"})), &json!({}));
    web["apiVersion"] = "apps/v1".into();
    web["kind"] = "Deployment".into();
    send(&world, Method::POST, "/apis/apps/v1/namespaces/shop/deployments", &web).await;
    pass(&mut world, 5).await;
    assert_eq!(ready(&world), 5);
    send(&world, Method::DELETE, "/api/v1/namespaces/shop", &json!({})).await;
    pass(&mut world, 5).await;
    assert!(world.cache().find(Kind::Namespace, "", "shop").is_none());
    assert!(pods(&world).is_empty() && world.cache().all(Kind::ReplicaSet).next().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_tried_again() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n", &json!({}))).await;
    let template = spec(&json!({"nodeName": "n", "priorityClassName": "later"}));
    create(&world, Kind::Deployment, deployment(2, &template, &json!({}))).await;
    pass(&mut world, 10).await;
    assert!(pods(&world).is_empty() && world.refusals() > 2);
    let (_, set) = world.cache().all(Kind::ReplicaSet).next().unwrap();
    let failure = set.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "FailedCreate");
    assert!(failure.text(&["message"]).contains("no PriorityClass with name later"), "{failure}");
    let web = world.cache().find(Kind::Deployment, "default", "web").unwrap();
    assert!(web.condition_is_true("ReplicaFailure"));
    create(&world, Kind::PriorityClass, json!({"metadata": {"name": "later"}, "value": 5})).await;
    pass(&mut world, 60).await;
    assert_eq!(ready(&world), 2);
    let (_, set) = world.cache().all(Kind::ReplicaSet).next().unwrap();
    assert!(set.condition("ReplicaFailure").is_none());
}

#[tokio::test(start_paused = true)]
async fn chaos_comes_when_it_is_asked_for() {
    let mut world = world(Lifecycle::fast());
    for name in ["a", "b"] {
        create(&world, Kind::Node, node(name, &json!({}))).await;
    }
    let stage = "pod-container-running-failed.stage.kwok.x-k8s.io";
    let pod = json!({
        "metadata": {"name": "p", "labels": {stage: "true"}, "annotations": {
            format!("{stage}/delay"): "10s", format!("{stage}/jitter-delay"): "10s",
            format!("{stage}/reason"): "OutOfPaper", format!("{stage}/exit-code"): "42",
        }},
        "spec": spec(&json!({"nodeName": "a"})),
    });
    create(&world, Kind::Pod, pod).await;
    pass(&mut world, 9).await;
    assert_eq!(pods(&world)[0].text(&["status", "phase"]), "Running");
    pass(&mut world, 2).await;
    let failed = pods(&world)[0];
    assert_eq!(failed.text(&["status", "phase"]), "Failed");
    let state = &failed.items(&["status", "containerStatuses"])[0]["state"]["terminated"];
    assert_eq!((&state["reason"], &state["exitCode"]), (&json!("OutOfPaper"), &json!(42)));

    let stage = "node-not-ready.stage.kwok.x-k8s.io";
    let ill = json!({"metadata": {"labels": {stage: "true"}, "annotations": {format!("{stage}/type"): "DiskPressure"}}});
    send(&world, Method::PATCH, "/api/v1/nodes/b", &ill).await;
    pass(&mut world, 5).await;
    let lost = world.cache().find(Kind::Node, "", "b").unwrap();
    assert_eq!(lost.condition("Ready").unwrap()["reason"], "nodeFailed");
    assert!(lost.condition_is_true("DiskPressure"));
    let taints = lost.items(&["spec", "taints"]).iter().map(|taint| taint.text(&["key"]).to_owned());
    let taints: std::collections::BTreeSet<String> = taints.collect();
    assert!(
        taints.contains("node.kubernetes.io/not-ready")
            && taints.contains("node.kubernetes.io/disk-pressure")
    );
    let well = json!({"metadata": {"labels": {stage: null}}});
    send(&world, Method::PATCH, "/api/v1/nodes/b", &well).await;
    pass(&mut world, 5).await;
    let back = world.cache().find(Kind::Node, "", "b").unwrap();
    assert!(back.condition_is_true("Ready") && back.items(&["spec", "taints"]).is_empty());
}

/// A thousand pods made and removed: every pod costs a few writes, whatever the number of the others.
#[tokio::test(start_paused = true)]
async fn a_thousand_pods_cost_a_thousand_times_as_much_as_one() {
    let mut world = world(Lifecycle::fast());
    create(&world, Kind::Node, node("n0", &json!({}))).await;
    create(&world, Kind::Deployment, deployment(1000, &spec(&json!({"nodeName": "n0"})), &json!({}))).await;
    pass(&mut world, 5).await;
    assert_eq!(ready(&world), 1000);
    let before = world.cache().revision();
    let none = json!({"spec": {"replicas": 0}});
    send(&world, Method::PATCH, "/apis/apps/v1/namespaces/default/deployments/web", &none).await;
    pass(&mut world, 5).await;
    assert!(pods(&world).is_empty());
    let writes = world.cache().revision() - before;
    // Each pod is marked, told that its grace is over, and removed; and there is an entry about it.
    assert!(writes < 4200, "{writes} versions for a thousand removals and as many entries");
    assert_eq!(world.refusals(), 0);
}

/// Binds every pod three seconds after it has seen it, and once more, which is refused.
#[derive(Default)]
struct Binder {
    due: std::collections::BTreeMap<joiner_sim::object::Key, (String, Option<Timestamp>)>,
    log: std::rc::Rc<std::cell::RefCell<Vec<String>>>,
}

impl Participant for Binder {
    fn name(&self) -> &'static str {
        "binder"
    }

    fn observe(&mut self, event: &Event) {
        if event.key.kind == Kind::Pod && event.object.text(&["spec", "nodeName"]).is_empty() {
            self.due.insert(event.key.clone(), (event.object.uid().to_owned(), None));
        }
    }

    fn step(&mut self, now: Timestamp) -> Vec<Write> {
        for (_, due) in self.due.values_mut() {
            due.get_or_insert(now + SignedDuration::from_secs(3));
        }
        let ripe = self.due.iter().find(|(_, (_, due))| due.is_some_and(|due| due <= now));
        let Some(pod) = ripe.map(|(pod, _)| pod.clone()) else { return Vec::new() };
        let (uid, _) = self.due.remove(&pod).unwrap();
        self.log.borrow_mut().push(format!("{} {now}", pod.name));
        let bind = Write::Bind { pod, uid, node: "n".to_owned() };
        vec![bind.clone(), bind]
    }

    fn refused(&mut self, write: &Write, code: u16, _: &str) {
        self.log.borrow_mut().push(format!("refused {code} {}", matches!(write, Write::Bind { .. })));
    }

    fn wakes_at(&self) -> Option<Timestamp> {
        self.due.values().map(|(_, due)| due.unwrap_or(Timestamp::MIN)).min()
    }
}

#[tokio::test(start_paused = true)]
async fn a_participant_is_asked_when_it_wants_to_be() {
    let mut world = world(Lifecycle::fast());
    let log = std::rc::Rc::default();
    world.join(Box::new(Binder { log: std::rc::Rc::clone(&log), ..Binder::default() }));
    create(&world, Kind::Node, node("n", &json!({}))).await;
    pass(&mut world, 10).await;
    create(&world, Kind::Pod, json!({"metadata": {"name": "p"}, "spec": spec(&json!({}))})).await;
    pass(&mut world, 2).await;
    assert_eq!(ready(&world), 0);
    pass(&mut world, 2).await;
    assert_eq!(ready(&world), 1);
    assert_eq!(*log.borrow(), ["p 2026-01-01T12:00:13Z", "refused 409 true"]);
    assert_eq!(world.refusals(), 1);
}

/// `run` goes on until it is dropped, beside others on the same runtime.
#[tokio::test(start_paused = true)]
async fn a_cluster_lives_beside_its_clients() {
    let mut world = world(Lifecycle::fast());
    let (server, clock) = (world.server().clone(), world.clock().clone());
    let client = async {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        let request = Request::builder().method(Method::POST).uri("/api/v1/nodes");
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(node.to_string()))).unwrap();
        assert_eq!(server.answer(request).await.status(), 201);
        clock.sleep_until(start() + SignedDuration::from_secs(10)).await;
        let request = Request::builder().uri("/api/v1/nodes/n").body(Full::new(Bytes::new())).unwrap();
        let body = server.answer(request).await.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()
    };
    let node = tokio::select! {
        () = world.run() => unreachable!(),
        node = client => node,
    };
    assert!(node.condition_is_true("Ready"));
    assert!(node.items(&["spec", "taints"]).is_empty());
}
