//! Which constraints pods without any get, and what they count.

mod build;

use build::*;
use joiner_state::{Cluster, Lowered, Options};
use serde_json::{Value, json};

fn zone() -> Value {
    json!({ "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule" })
}

fn set_default(cluster: &mut Cluster, constraints: Value) -> Result<(), String> {
    let constraints: Vec<_> =
        constraints.as_array().expect("a list").iter().map(|value| object(value.clone())).collect();
    cluster.set_default_spread(&constraints, "defaults").map_err(|problem| {
        format!("`{}` is `{}`: {}; {}", problem.path, problem.value, problem.message, problem.remedy)
    })
}

fn with_defaults(constraints: Value) -> Cluster {
    let mut cluster = cluster();
    set_default(&mut cluster, constraints).expect("good");
    cluster
}

fn service(cluster: &mut Cluster, namespace: &str, name: &str, selector: Value) {
    let metadata = json!({ "namespace": namespace, "name": name });
    cluster
        .add_service(&object(json!({ "metadata": metadata, "spec": { "selector": selector } })))
        .expect("good");
}

fn groups(lowered: &Lowered, name: &str) -> Vec<String> {
    let class = class(&lowered.snapshot, name);
    class.rungs[0].groups.iter().map(|group_id| group(&lowered.snapshot, *group_id)).collect()
}

fn owned(name: &str, api_version: &str, kind: &str, controller: bool) -> PodBuilder {
    pod(name).label("app", "web").with(
        "metadata.ownerReferences",
        json!([{ "apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": controller }]),
    )
}

#[test]
fn services_of_the_namespace_that_match_are_merged() {
    let mut cluster = with_defaults(json!([zone()]));
    service(&mut cluster, "default", "a", json!({ "app": "web" }));
    service(&mut cluster, "default", "b", json!({ "tier": "front" }));
    service(&mut cluster, "default", "c", json!({ "app": "api" }));
    service(&mut cluster, "default", "d", json!(null));
    service(&mut cluster, "other", "e", json!({ "id": "1" }));
    let lowered = lower_with(
        cluster,
        &[
            pod("one").label("app", "web").label("tier", "front").label("id", "1"),
            pod("two").label("app", "web").label("id", "2"),
            pod("none").label("id", "3"),
        ],
    );
    let [one] = &groups(&lowered, "default/one")[..] else { panic!("one group") };
    assert!(one.contains("app In [web]") && one.contains("tier In [front]") && !one.contains("id"), "{one}");
    let [two] = &groups(&lowered, "default/two")[..] else { panic!("one group") };
    assert!(two.contains("app In [web]") && !two.contains("tier"), "{two}");
    assert!(groups(&lowered, "default/none").is_empty());
}

#[test]
fn controllers_in_control_add_their_selector() {
    for (api_version, kind, controller, expected) in [
        ("apps/v1", "ReplicaSet", true, 1),
        ("apps/v1", "ReplicaSet", false, 0),
        ("apps.example.com/v1", "ReplicaSet", true, 0),
        ("apps/v1", "StatefulSet", true, 0),
    ] {
        let mut cluster = with_defaults(json!([zone()]));
        cluster
            .add_replicaset(&object(json!({
                "metadata": { "namespace": "default", "name": "web" },
                "spec": {
                    "replicas": 1, "selector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] },
                    "template": { "spec": { "containers": [] } },
                },
            })))
            .expect("good");
        let lowered = lower_with(cluster, &[owned("p", api_version, kind, controller)]);
        assert_eq!(groups(&lowered, "default/p").len(), expected, "{api_version} {kind} {controller}");
    }
}

#[test]
fn a_replication_controllers_map_replaces_values_of_services() {
    let mut cluster = with_defaults(json!([zone()]));
    service(&mut cluster, "default", "a", json!({ "app": "web" }));
    cluster
        .add_replication_controller(&object(json!({
            "metadata": { "namespace": "default", "name": "web" },
            "spec": { "replicas": 0, "selector": { "app": "api" }, "template": { "spec": { "containers": [] } } },
        })))
        .expect("good");
    let lowered = lower_with(cluster, &[owned("p", "v1", "ReplicationController", true)]);
    let [only] = &groups(&lowered, "default/p")[..] else { panic!("one group") };
    assert!(only.contains("app In [api]"), "{only}");
}

#[test]
fn pods_of_workloads_go_by_their_workload() {
    let mut cluster = with_defaults(json!([zone()]));
    let workload = |name: &str| {
        json!({
            "metadata": { "namespace": "default", "name": name },
            "spec": {
                "replicas": 1, "selector": { "matchLabels": { "app": name } },
                "template": { "metadata": { "labels": { "app": name } }, "spec": { "containers": [] } },
            },
        })
    };
    cluster.add_deployment(&object(workload("d"))).expect("good");
    cluster.add_statefulset(&object(workload("s"))).expect("good");
    let mut job = workload("j");
    job["spec"].as_object_mut().expect("a map").remove("replicas");
    cluster.add_job(&object(job)).expect("good");
    let lowered = cluster.finish();
    assert!(groups(&lowered, "default/d-0")[0].contains("app In [d]"));
    assert!(groups(&lowered, "default/s-0")[0].contains("app In [s]"));
    assert!(groups(&lowered, "default/j-0").is_empty());
}

#[test]
fn labels_that_no_selector_names_make_no_classes() {
    let mut cluster = with_defaults(json!([zone()]));
    service(&mut cluster, "default", "a", json!({ "app": "web" }));
    let pods: Vec<PodBuilder> =
        (0..20).map(|n| pod(&format!("p{n}")).label("app", "web").label("id", &n.to_string())).collect();
    assert_eq!(lower_with(cluster, &pods).snapshot.classes.len(), 1);
}

#[test]
fn soft_defaults_are_relaxed_and_own_constraints_win() {
    let soft = json!({ "maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway" });
    let mut cluster = with_defaults(json!([zone(), soft]));
    service(&mut cluster, "default", "a", json!({ "app": "web" }));
    let own = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": app("web"),
    }]);
    let pods = [pod("p").label("app", "web"), pod("q").label("app", "web").spread(own)];
    let lowered = lower_with(cluster, &pods);
    let rungs = &class(&lowered.snapshot, "default/p").rungs;
    assert_eq!(rungs.iter().map(|rung| rung.groups.len()).collect::<Vec<_>>(), [2, 1]);
    assert!(groups(&lowered, "default/q")[0].contains("hostname"));
    assert_eq!(groups(&lowered, "default/q").len(), 1);
}

#[test]
fn ignored_preferences_leave_hard_defaults() {
    let soft = json!({ "maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway" });
    let mut cluster = Cluster::new(Options { respect_preferences: false, ..Options::default() });
    set_default(&mut cluster, json!([soft, zone()])).expect("good");
    service(&mut cluster, "default", "a", json!({ "app": "web" }));
    let lowered = lower_with(cluster, &[pod("p").label("app", "web")]);
    assert_eq!(groups(&lowered, "default/p").len(), 1);
}

#[test]
fn faults_name_field_value_and_remedy() {
    let changed = |field: &str, value: Value| {
        let mut constraint = zone();
        constraint[field] = value;
        set_default(&mut cluster(), json!([constraint])).expect_err("bad")
    };
    assert_eq!(
        changed("maxSkew", json!(0)),
        "`defaults[0].maxSkew` is `0`: the largest difference must be positive; write 1 or more"
    );
    assert_eq!(
        changed("whenUnsatisfiable", json!("Maybe")),
        "`defaults[0].whenUnsatisfiable` is `Maybe`: not a known answer; use `DoNotSchedule` or `ScheduleAnyway`"
    );
    assert!(changed("topologyKey", json!("")).contains("a topology key is needed"));
    assert!(
        changed("labelSelector", json!({})).contains("deduced from Services and controllers; leave it out")
    );
    assert!(changed("matchLabelKeys", json!(["app"])).starts_with("`defaults[0].matchLabelKeys` is `app`"));
    assert!(changed("minDomains", json!(0)).contains("must be positive"));
    assert!(changed("nodeAffinityPolicy", json!("x")).contains("use `Honor` or `Ignore`"));
    let twice = set_default(&mut cluster(), json!([zone(), zone()])).expect_err("bad");
    assert!(
        twice.starts_with("`defaults[1].topologyKey` is `topology.kubernetes.io/zone`: an earlier"),
        "{twice}"
    );
}
