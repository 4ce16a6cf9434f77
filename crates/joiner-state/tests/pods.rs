//! Pods: who is pending, who is alike, what is asked, what is given up in which order, who is refused and why.

mod build;

use build::*;
use joiner_core::model::{GroupSpec, Relaxed, names};
use joiner_state::{Cluster, Options};
use serde_json::json;

#[test]
fn only_waiting_pods_are_pending() {
    let lowered = lower(&[
        pod("waiting"),
        pod("bound").node("n"),
        pod("done").with("status.phase", json!("Succeeded")),
        pod("failed").with("status.phase", json!("Failed")),
        pod("leaving").with("metadata.deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        pod("gated").with("spec.schedulingGates", json!([{ "name": "wait" }])),
        pod("daemon").owner("DaemonSet", "logs"),
        pod("mirror").owner("Node", "n"),
        pod("owned").owner("ReplicaSet", "web-1"),
    ]);
    let names: Vec<&str> = lowered.snapshot.pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["default/waiting", "default/owned"]);
}

#[test]
fn pods_alike_share_a_class() {
    let numbered = |n: usize| {
        pod(&format!("web-{n}"))
            .cpu("500m")
            .label("app", "web")
            .label("apps.kubernetes.io/pod-index", &n.to_string())
            .with("metadata.uid", json!(format!("uid-{n}")))
            .with("metadata.creationTimestamp", json!("2026-01-02T03:04:05Z"))
            .with("spec.containers.0.image", json!(format!("image-{n}")))
            .anti_affinity(json!([{ "topologyKey": HOST, "labelSelector": app("web") }]))
    };
    let pods: Vec<PodBuilder> = (0..50).map(numbered).collect();
    let lowered = lower(&pods);
    assert_eq!((lowered.snapshot.pods.len(), lowered.snapshot.classes.len()), (50, 1));
    assert_eq!(lowered.snapshot.identities.len(), 1);
    let pod = &lowered.snapshot.pods[7];
    assert_eq!((&*pod.uid, pod.created), ("uid-7", Some(1767323045)));
    let identity = lowered.snapshot.identities.get(0);
    assert_eq!(set(&lowered.snapshot, identity.labels), "app In [web]");
}

#[test]
fn differences_that_matter_split_classes() {
    let base = || pod("x").cpu("1").label("app", "a");
    let variants = [
        base(),
        base().cpu("2"),
        base().memory("1Gi"),
        base().namespace("other"),
        base().select("team", "a"),
        base().select("team", "b"),
        base().with("spec.priority", json!(5)),
        base().with("spec.tolerations", json!([{ "key": "a", "operator": "Exists" }])),
        base().with("spec.containers.0.ports", json!([{ "containerPort": 80, "hostPort": 80 }])),
        base().spread(json!([{ "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app("a") }])),
        base().spread(json!([{ "topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app("a") }])),
        base().with("spec.overhead", json!({ "cpu": "1m" })),
        base().label("app", "b"),
    ];
    let pods: Vec<PodBuilder> = variants
        .iter()
        .enumerate()
        .map(|(n, v)| v.clone().with("metadata.name", json!(format!("p{n}"))))
        .collect();
    let lowered = lower(&pods);
    assert_eq!(lowered.snapshot.classes.len(), variants.len());
}

#[test]
fn limits_stand_in_for_missing_requests() {
    let lowered = lower(&[pod("a").cpu("100m").with(
        "spec.containers.0.resources.limits",
        json!({ "cpu": "2", "memory": "1Gi", "example.com/gpu": "1" }),
    )]);
    let class = class(&lowered.snapshot, "default/a");
    let lane = |name: &str| lowered.snapshot.vocabulary.names.known_lane(name).expect("a lane");
    assert_eq!(class.requests[names::CPU], 100);
    assert_eq!(class.requests[names::MEMORY], 1 << 30);
    assert_eq!(class.requests[names::PODS], 1);
    assert_eq!(class.requests[lane("example.com/gpu")], 1);
    assert_eq!(lowered.snapshot.vocabulary.names.lane_count(), 5);
}

#[test]
fn pod_level_limits_stand_in_where_no_container_asks() {
    let lowered = lower(&[pod("a")
        .cpu("100m")
        .with("spec.resources", json!({ "limits": { "cpu": "2", "memory": "1Gi" } }))]);
    let class = class(&lowered.snapshot, "default/a");
    assert_eq!((class.requests[names::CPU], class.requests[names::MEMORY]), (100, 1 << 30));
}

#[test]
fn absurd_requests_saturate() {
    let huge = json!({ "cpu": "9e18", "memory": "8Ei" });
    let lowered = lower(&[pod("a").with("spec.containers", json!([
        { "name": "a", "resources": { "requests": huge } }, { "name": "b", "resources": { "requests": huge } },
    ]))]);
    let class = class(&lowered.snapshot, "default/a");
    assert_eq!((class.requests[names::CPU], class.requests[names::MEMORY]), (i64::MAX, i64::MAX));
}

#[test]
fn bad_objects_are_problems() {
    for (builder, path, value) in [
        (pod("a").cpu("two"), "spec.containers[0].resources.requests.cpu", "two"),
        (pod("a").cpu("-1"), "spec.containers[0].resources.requests.cpu", "-1"),
        (pod("a").with("spec.tolerations", json!([{ "effect": "Never" }])), "spec.tolerations[0].effect", "Never"),
        (
            pod("a").spread(json!([{ "topologyKey": ZONE, "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule" }])),
            "spec.topologySpreadConstraints[0].maxSkew",
            "0",
        ),
        (
            pod("a").anti_affinity(json!([{ "topologyKey": HOST, "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "Gt", "values": ["1"] }] } }])),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchExpressions[0].operator",
            "Gt",
        ),
    ] {
        let mut cluster = cluster();
        // Twice: a spec that can't be read must not be known the second time.
        for _ in 0..2 {
            let problem = cluster.add_pod(&builder.build()).expect_err(path);
            assert_eq!((problem.object.as_str(), problem.path.as_str(), problem.value.as_str()), ("Pod default/a", path, value));
            assert!(!problem.message.is_empty() && !problem.remedy.is_empty());
        }
        assert!(cluster.finish().snapshot.pods.is_empty());
    }
}

#[test]
fn too_many_pods_are_a_problem() {
    let mut cluster = Cluster::new(Options { max_pods: 2, ..Options::default() });
    cluster.add_pod(&pod("a").build()).expect("room");
    let deployment = |replicas: i32| {
        object(
            json!({ "metadata": { "name": "d" }, "spec": { "replicas": replicas, "selector": {}, "template": { "spec": { "containers": [] } } } }),
        )
    };
    assert!(cluster.add_deployment(&deployment(2)).is_err());
    cluster.add_deployment(&deployment(1)).expect("room");
    assert!(cluster.add_pod(&pod("b").build()).is_err());
}

#[test]
fn the_last_of_equal_names_counts() {
    let lowered = lower(&[pod("a").cpu("1"), pod("b"), pod("a").cpu("2")]);
    assert_eq!(lowered.snapshot.pods.len(), 2);
    assert_eq!(class(&lowered.snapshot, "default/a").requests[names::CPU], 2000);
    assert_eq!(lowered.notes, ["Pod `default/a` was given more than once; the last one counts"]);
}

#[test]
fn an_ask_is_selector_and_first_term_and_heaviest_preference() {
    let lowered = lower(&[pod("a")
        .select("beta.kubernetes.io/arch", "amd64")
        .required(json!([
            term("failure-domain.beta.kubernetes.io/zone", "In", &["z1"]),
            term(ZONE, "In", &["z2"])
        ]))
        .preferred(json!([
            { "weight": 1, "preference": term("team", "In", &["light"]) },
            { "weight": 9, "preference": term("team", "In", &["heavy"]) },
            { "weight": 9, "preference": term("team", "In", &["second"]) },
        ]))]);
    let snapshot = &lowered.snapshot;
    // With every preference that goes, all required terms are back.
    let rung = |step: &str, team: Option<&str>, zone: &str| {
        let team = team.map(|team| format!("team In [{team}], ")).unwrap_or_default();
        format!("{step} | kubernetes.io/arch In [amd64], {team}topology.kubernetes.io/zone In [{zone}] | ")
    };
    assert_eq!(
        ladder(snapshot, "default/a"),
        [
            rung("all", Some("heavy"), "z1"),
            rung("RequiredTerm", Some("heavy"), "z2"),
            rung("NodeAffinity", Some("second"), "z1"),
            rung("RequiredTerm", Some("second"), "z2"),
            rung("NodeAffinity", Some("light"), "z1"),
            rung("RequiredTerm", Some("light"), "z2"),
            rung("NodeAffinity", None, "z1"),
            rung("RequiredTerm", None, "z2"),
        ]
    );
    let rungs = &class(snapshot, "default/a").rungs;
    assert_eq!(
        set(snapshot, rungs[0].strict),
        "kubernetes.io/arch In [amd64], topology.kubernetes.io/zone In [z1]"
    );
    for (number, rung) in rungs.iter().enumerate() {
        assert_eq!(rung.strict, rungs[6 + number % 2].ask, "without what it prefers");
    }
}

fn wishful() -> PodBuilder {
    let soft = |key: &str| json!({ "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": app("w") });
    let hard = |key: &str| json!({ "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app("w") });
    let weighted = |weight: i32, name: &str| json!({ "weight": weight, "podAffinityTerm": { "topologyKey": ZONE, "labelSelector": app(name) } });
    pod("w")
        .label("app", "w")
        .spread(json!([soft("k1"), hard("k2"), soft("k3"), hard("k4")]))
        .with(
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            json!([weighted(1, "a"), weighted(2, "b")]),
        )
        .with(
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution",
            json!([weighted(1, "c")]),
        )
        .affinity(json!([{ "topologyKey": ZONE, "labelSelector": app("always") }]))
        .preferred(json!([{ "weight": 1, "preference": term("team", "Exists", &[]) }]))
}

#[test]
fn wishes_are_given_up_in_the_fixed_order() {
    let mut cluster = cluster();
    cluster
        .add_node(&object(json!({ "metadata": { "name": "n" }, "spec": { "taints": [{ "key": "t", "effect": "PreferNoSchedule" }] } })))
        .expect("a good node");
    let lowered = lower_with(cluster, &[wishful()]);
    let z = "topology.kubernetes.io/zone";
    let keep = format!("with {z}: app In [always]");
    let (a, b, c) = (
        format!("with {z}: app In [a]"),
        format!("with {z}: app In [b]"),
        format!("without {z}: app In [c]"),
    );
    let s =
        |keys: &[&str]| keys.iter().map(|k| format!("spread {k}: app In [w]")).collect::<Vec<_>>().join("; ");
    let all = s(&["k1", "k2", "k3", "k4"]);
    assert_eq!(
        ladder(&lowered.snapshot, "default/w"),
        [
            format!("all | team Exists | {all}; {keep}; {b}; {a}; {c}"),
            format!("PodAffinity | team Exists | {all}; {keep}; {a}; {c}"),
            format!("PodAffinity | team Exists | {all}; {keep}; {c}"),
            format!("PodAntiAffinity | team Exists | {all}; {keep}"),
            format!("NodeAffinity |  | {all}; {keep}"),
            format!("Spread |  | {}; {keep}", s(&["k4", "k2", "k3"])),
            format!("Spread |  | {}; {keep}", s(&["k4", "k2"])),
            format!("PreferNoSchedule spare |  | {}; {keep}", s(&["k4", "k2"])),
        ]
    );
    assert!(lowered.snapshot.has_preferred_taints);
}

#[test]
fn ignored_preferences_are_never_there() {
    let cluster = Cluster::new(Options { respect_preferences: false, max_pods: 10, ..Options::default() });
    let lowered = lower_with(cluster, &[wishful()]);
    let rungs = &class(&lowered.snapshot, "default/w").rungs;
    assert_eq!(rungs.len(), 1);
    assert_eq!(rungs[0].groups.len(), 3);
    assert_eq!(rungs[0].relaxed, None::<Relaxed>);
}

#[test]
fn refusals_name_their_reason() {
    let required =
        |key: &str, operator: &str, values: &[&str]| pod("a").required(json!([term(key, operator, values)]));
    for (builder, part) in [
        (pod("a").select(HOST, "n1"), "`kubernetes.io/hostname` is restricted"),
        (pod("a").select("karpenter.sh/initialized", "true"), "`karpenter.sh` is restricted"),
        (pod("a").select("karpenter.kwok.sh/rack", "1"), "`karpenter.kwok.sh` is restricted"),
        (pod("a").select("a b", "x"), "`a b` is not a label key"),
        (pod("a").select("karpenter.sh/capacity-type", "cheap"), "`cheap` is not a capacity type"),
        (
            required("karpenter.sh/capacity-type", "In", &["cheap", "free"]),
            "`cheap`, `free` is not a capacity type",
        ),
        (required("team", "Like", &["x"]), "`Like` is not an operator"),
        (required("size", "Gt", &["-1"]), "`Gt` on `size` needs one whole number"),
        (required("size", "Lt", &["1", "2"]), "`Lt` on `size` needs one whole number"),
        (required("karpenter.sh/nodepool", "DoesNotExist", &[]), "without label `karpenter.sh/nodepool`"),
        (pod("a").required(json!([])), "no term that can match"),
        (pod("a").required(json!([{}])), "no term that can match"),
        (
            pod("a").required(
                json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] }]),
            ),
            "`matchFields`",
        ),
        (pod("a").with("spec.resourceClaims", json!([{ "name": "gpu" }])), "`spec.resourceClaims`"),
        (pod("a").with("spec.priorityClassName", json!("vip")), "priority class `vip` does not exist"),
        (pod("a").claim("gone"), "volume claim `default/gone` does not exist"),
    ] {
        let lowered = lower(&[builder]);
        let class = class(&lowered.snapshot, "default/a");
        let reason = class.refused.as_deref().unwrap_or("(not refused)");
        assert!(reason.contains(part), "{reason:?} lacks {part:?}");
        assert_eq!(class.rungs.len(), 1);
    }
}

#[test]
fn what_is_not_refused() {
    for builder in [
        pod("a").select("karpenter.sh/nodepool", "a"),
        pod("a").select("karpenter.sh/capacity-type", "spot"),
        pod("a").select("karpenter.kwok.sh/instance-size", "large"),
        pod("a").required(json!([term("karpenter.sh/capacity-type", "In", &["spot", "cheap"])])),
        // A contradiction is unplaceable, not a wish to stay away; one open term is enough.
        pod("a").select("karpenter.sh/nodepool", "a").required(json!([term(
            "karpenter.sh/nodepool",
            "In",
            &["b"]
        )])),
        pod("a").required(json!([
            term("karpenter.sh/nodepool", "DoesNotExist", &[]),
            term("team", "Exists", &[])
        ])),
        // Preferred terms are wishes, whatever they say.
        pod("a").preferred(json!([{ "weight": 1, "preference": term(HOST, "In", &["n"]) }])),
        pod("a").preferred(
            json!([{ "weight": 1, "preference": term("karpenter.sh/nodepool", "DoesNotExist", &[]) }]),
        ),
        // A term without expressions is skipped where others are left.
        pod("a").required(json!([{}, term("team", "Exists", &[])])),
    ] {
        let lowered = lower(&[builder]);
        assert_eq!(class(&lowered.snapshot, "default/a").refused, None);
    }
}

#[test]
fn priorities_come_from_classes() {
    let mut cluster = cluster();
    for (name, value, default) in [("vip", 1000, false), ("normal", 10, true)] {
        cluster
            .add_priority_class(&object(
                json!({ "metadata": { "name": name }, "value": value, "globalDefault": default }),
            ))
            .expect("a good class");
    }
    let lowered = lower_with(
        cluster,
        &[
            pod("plain"),
            pod("vip").with("spec.priorityClassName", json!("vip")),
            pod("system").with("spec.priorityClassName", json!("system-node-critical")),
            pod("number").with("spec.priority", json!(-5)).with("spec.priorityClassName", json!("unknown")),
            pod("unknown").with("spec.priorityClassName", json!("unknown")),
        ],
    );
    let priority = |name: &str| class(&lowered.snapshot, name).priority;
    assert_eq!(
        [
            priority("default/plain"),
            priority("default/vip"),
            priority("default/system"),
            priority("default/number")
        ],
        [10, 1000, 2_000_001_000, -5]
    );
    assert_eq!(lowered.notes, ["priority class `unknown` does not exist; pods that name it are not placed"]);
}

#[test]
fn host_ports_of_containers_and_sidecars() {
    let lowered = lower(&[pod("a")
        .with("spec.containers.0.ports", json!([
            { "containerPort": 1, "hostPort": 80, "hostIP": "0.0.0.0" }, { "containerPort": 2 },
            { "containerPort": 3, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1" },
        ]))
        .with("spec.initContainers", json!([
            { "name": "side", "restartPolicy": "Always", "ports": [{ "containerPort": 9, "hostPort": 9 }] },
            { "name": "init", "ports": [{ "containerPort": 8, "hostPort": 8 }] },
        ]))]);
    let ports: Vec<String> = class(&lowered.snapshot, "default/a")
        .ports
        .iter()
        .map(|p| format!("{}:{}/{}", p.host_ip, p.port, p.protocol))
        .collect();
    assert_eq!(ports, [":9/TCP", ":80/TCP", "10.0.0.1:53/UDP"]);
    let lowered = lower(&[pod("a")
        .with("spec.hostNetwork", json!(true))
        .with("spec.containers.0.ports", json!([{ "containerPort": 70 }]))]);
    assert_eq!(class(&lowered.snapshot, "default/a").ports[0].port, 70);
}

#[test]
fn workloads_become_pods() {
    let mut cluster = cluster();
    let template = json!({ "metadata": { "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] } });
    cluster.add_deployment(&object(json!({ "metadata": { "name": "d", "namespace": "n" }, "spec": { "replicas": 3, "selector": {}, "template": template } }))).expect("good");
    cluster
        .add_replicaset(&object(
            json!({ "metadata": { "name": "r" }, "spec": { "selector": {}, "template": template } }),
        ))
        .expect("good");
    cluster.add_statefulset(&object(json!({ "metadata": { "name": "s" }, "spec": { "replicas": 2, "selector": {}, "template": template } }))).expect("good");
    cluster.add_job(&object(json!({ "metadata": { "name": "j" }, "spec": { "parallelism": 5, "completions": 2, "template": template } }))).expect("good");
    cluster.add_cronjob(&object(json!({ "metadata": { "name": "c" }, "spec": { "schedule": "@daily", "jobTemplate": { "spec": { "template": template } } } }))).expect("good");
    let lowered = cluster.finish();
    let mut names: Vec<&str> = lowered.snapshot.pods.iter().map(|pod| &*pod.name).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "default/c-0",
            "default/j-0",
            "default/j-1",
            "default/r-0",
            "default/s-0",
            "default/s-1",
            "n/d-0",
            "n/d-1",
            "n/d-2"
        ]
    );
    assert_eq!(lowered.snapshot.classes.len(), 2);
    assert!(lowered.snapshot.pods.iter().all(|pod| pod.uid.is_empty() && pod.created.is_none()));
}

#[test]
fn pods_that_are_there_are_not_made_again() {
    let mut cluster = cluster();
    let template = json!({ "spec": { "containers": [] } });
    cluster.add_deployment(&object(json!({ "metadata": { "name": "d" }, "spec": { "replicas": 3, "selector": {}, "template": template } }))).expect("good");
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": true }]);
    cluster.add_replicaset(&object(json!({ "metadata": { "name": "d-5f7", "ownerReferences": owner }, "spec": { "replicas": 3, "selector": {}, "template": template } }))).expect("good");
    cluster.add_statefulset(&object(json!({ "metadata": { "name": "s" }, "spec": { "replicas": 2, "selector": {}, "template": template } }))).expect("good");
    let lowered = lower_with(
        cluster,
        &[
            pod("d-5f7-x").owner("ReplicaSet", "d-5f7").node("n"),
            pod("d-5f7-y").owner("ReplicaSet", "d-5f7"),
            pod("d-5f7-z").owner("ReplicaSet", "d-5f7").with("status.phase", json!("Failed")),
            pod("s-0").owner("StatefulSet", "s").node("n"),
        ],
    );
    let names: Vec<&str> = lowered.snapshot.pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["default/d-5f7-y", "default/d-0", "default/s-1"]);
}

#[test]
fn spread_groups_have_every_part_as_identity() {
    let spread = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut constraint = json!({ "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app("a") });
        change(&mut constraint);
        pod("p").label("app", "a").label("rev", "7").spread(json!([constraint]))
    };
    let variants = [
        spread(&|_| ()),
        spread(&|c| c["minDomains"] = json!(3)),
        spread(&|c| c["maxSkew"] = json!(3)),
        spread(&|c| c["topologyKey"] = json!(HOST)),
        spread(&|c| c["nodeTaintsPolicy"] = json!("Honor")),
        spread(&|c| c["matchLabelKeys"] = json!(["rev", "absent"])),
        spread(&|c| c["labelSelector"] = json!(null)),
        spread(&|c| c["labelSelector"] = json!({})),
        spread(&|_| ()).select("team", "a"),
        spread(&|_| ()).select("team", "b"),
        // These two are the first again: no selector to honour, and terms in another order.
        spread(&|c| c["nodeAffinityPolicy"] = json!("Ignore")),
        spread(&|c| c["nodeAffinityPolicy"] = json!("Ignore")).select("team", "a"),
    ];
    let pods: Vec<PodBuilder> = variants
        .iter()
        .enumerate()
        .map(|(n, v)| v.clone().with("metadata.name", json!(format!("p{n}"))))
        .collect();
    let lowered = lower(&pods);
    let snapshot = &lowered.snapshot;
    assert_eq!(snapshot.groups.len(), 10);
    let of = |n: usize| class(snapshot, &format!("default/p{n}")).rungs[0].groups[0];
    assert_eq!((of(0), of(0)), (of(10), of(11)));
    assert_eq!(group(snapshot, of(5)), "spread topology.kubernetes.io/zone: app In [a], rev In [7]");
    assert_eq!(group(snapshot, of(6)), "spread topology.kubernetes.io/zone: nothing");
    assert_eq!(group(snapshot, of(7)), "spread topology.kubernetes.io/zone: ");
    let GroupSpec::Spread { filter, .. } = snapshot.group(of(8)) else { panic!("a spread") };
    assert_eq!(filter.asks.as_ref().map(|asks| set(snapshot, asks[0])).as_deref(), Some("team In [a]"));
    assert_eq!(filter.tolerations, None);
    let GroupSpec::Spread { filter, .. } = snapshot.group(of(4)) else { panic!("a spread") };
    assert!(filter.asks.is_none() && filter.tolerations.is_some());
}

#[test]
fn affinity_terms_count_together_and_once_per_key() {
    let lowered = lower(&[pod("a").affinity(json!([
        { "topologyKey": ZONE, "labelSelector": app("x") },
        { "topologyKey": HOST, "labelSelector": app("y") },
        { "topologyKey": ZONE, "labelSelector": app("z") },
    ]))]);
    assert_eq!(
        ladder(&lowered.snapshot, "default/a"),
        ["all |  | with topology.kubernetes.io/zone: app In [x] & app In [y] & app In [z]; \
             with kubernetes.io/hostname: app In [x] & app In [y] & app In [z]"]
    );
}

#[test]
fn label_keys_are_folded_into_selectors() {
    let with = |name: &str, rev: &str| {
        pod(name).label("app", "a").label("rev", rev).anti_affinity(json!([
            { "topologyKey": HOST, "labelSelector": app("a"), "matchLabelKeys": ["rev"] },
            { "topologyKey": ZONE, "labelSelector": app("a"), "mismatchLabelKeys": ["rev"] },
        ]))
    };
    let lowered = lower(&[with("one", "1"), with("two", "2")]);
    let snapshot = &lowered.snapshot;
    let groups = |name: &str| {
        class(snapshot, name).anti_affinity.iter().map(|id| group(snapshot, *id)).collect::<Vec<_>>()
    };
    assert_eq!(
        groups("default/one"),
        [
            "without kubernetes.io/hostname: app In [a], rev In [1]",
            "without topology.kubernetes.io/zone: app In [a], rev NotIn [1]"
        ]
    );
    assert_eq!(groups("default/two")[0], "without kubernetes.io/hostname: app In [a], rev In [2]");
    assert_eq!(class(snapshot, "default/one").anti_affinity, class(snapshot, "default/one").rungs[0].groups);
}

#[test]
fn namespaces_of_terms() {
    let mut cluster = cluster();
    for (name, tier) in [("red", "a"), ("blue", "a"), ("green", "b")] {
        cluster
            .add_namespace(&object(json!({ "metadata": { "name": name, "labels": { "tier": tier } } })))
            .expect("good");
    }
    let with = |name: &str, term: serde_json::Value| {
        let mut term = term;
        term["topologyKey"] = json!(HOST);
        term["labelSelector"] = app("a");
        pod(name).anti_affinity(json!([term]))
    };
    let lowered = lower_with(
        cluster,
        &[
            with("own", json!({})),
            with("listed", json!({ "namespaces": ["red", "elsewhere"] })),
            with(
                "tier",
                json!({ "namespaceSelector": { "matchLabels": { "tier": "a" } }, "namespaces": ["green"] }),
            ),
            with(
                "named",
                json!({ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "default" } } }),
            ),
            with("all", json!({ "namespaceSelector": {} })),
            with("none", json!({ "namespaceSelector": { "matchLabels": { "tier": "c" } } })),
        ],
    );
    let snapshot = &lowered.snapshot;
    let count = |name: &str| {
        let group = snapshot.group(class(snapshot, name).anti_affinity[0]);
        group.matcher().terms[0].namespaces.as_ref().map(Vec::len)
    };
    assert_eq!(
        ["own", "listed", "tier", "named", "all", "none"].map(|name| count(&format!("default/{name}"))),
        [Some(1), Some(2), Some(3), Some(1), None, Some(0)]
    );
    assert_eq!(class(snapshot, "default/own").anti_affinity, class(snapshot, "default/named").anti_affinity);
}
