//! Where volumes let a pod go, and what they count against.

mod build;

use build::*;
use joiner_state::Cluster;
use serde_json::{Value, json};

fn claim(cluster: &mut Cluster, name: &str, spec: Value) {
    cluster
        .add_persistent_volume_claim(&object(
            json!({ "metadata": { "name": name, "namespace": "default", "annotations": bound() }, "spec": spec }),
        ))
        .expect("good");
}

fn bound() -> Value {
    json!({ "pv.kubernetes.io/bind-completed": "yes" })
}

fn volume(cluster: &mut Cluster, name: &str, terms: Value, source: Value) {
    let mut spec = source;
    if !terms.is_null() {
        spec["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": terms } });
    }
    cluster
        .add_persistent_volume(&object(json!({ "metadata": { "name": name }, "spec": spec })))
        .expect("good");
}

fn storage_class(cluster: &mut Cluster, name: &str, mode: &str, zones: &[&str]) {
    let topologies: Vec<Value> = zones
        .iter()
        .map(|zone| json!({ "matchLabelExpressions": [{ "key": ZONE, "values": [zone] }] }))
        .collect();
    cluster
        .add_storage_class(&object(json!({
            "metadata": { "name": name }, "provisioner": "kubernetes.io/aws-ebs", "volumeBindingMode": mode,
            "allowedTopologies": topologies,
        })))
        .expect("good");
}

fn csi(driver: &str) -> Value {
    json!({ "csi": { "driver": driver, "volumeHandle": "h" } })
}

fn alternatives(lowered: &joiner_state::Lowered, name: &str) -> Vec<String> {
    class(&lowered.snapshot, name).volume_alternatives.iter().map(|id| set(&lowered.snapshot, *id)).collect()
}

#[test]
fn a_bound_claim_goes_where_its_volume_is() {
    let mut cluster = cluster();
    claim(&mut cluster, "c", json!({ "volumeName": "v" }));
    volume(&mut cluster, "v", json!([term(ZONE, "In", &["a"]), term(ZONE, "In", &["b"])]), csi("d"));
    let lowered = lower_with(cluster, &[pod("p").claim("c")]);
    assert_eq!(
        alternatives(&lowered, "default/p"),
        ["topology.kubernetes.io/zone In [a]", "topology.kubernetes.io/zone In [b]"]
    );
}

#[test]
fn an_unbound_claim_goes_where_its_class_can_make_one() {
    let mut cluster = cluster();
    storage_class(&mut cluster, "fast", "WaitForFirstConsumer", &["a", "b"]);
    storage_class(&mut cluster, "anywhere", "WaitForFirstConsumer", &[]);
    claim(&mut cluster, "c", json!({ "storageClassName": "fast" }));
    claim(&mut cluster, "d", json!({ "storageClassName": "anywhere" }));
    let lowered = lower_with(cluster, &[pod("p").claim("c"), pod("q").claim("d")]);
    assert_eq!(alternatives(&lowered, "default/p").len(), 2);
    assert_eq!(class(&lowered.snapshot, "default/q").refused, None);
    assert!(alternatives(&lowered, "default/q").is_empty());
}

#[test]
fn the_host_of_a_local_volume_does_not_count() {
    let mut cluster = cluster();
    for (name, source) in [("local", json!({ "local": { "path": "/x" } })), ("attached", csi("d"))] {
        claim(&mut cluster, name, json!({ "volumeName": name }));
        volume(&mut cluster, name, json!([term(HOST, "In", &["n1"])]), source);
    }
    let lowered = lower_with(cluster, &[pod("p").claim("local"), pod("q").claim("attached")]);
    assert!(alternatives(&lowered, "default/p").is_empty());
    assert_eq!(alternatives(&lowered, "default/q"), ["kubernetes.io/hostname In [n1]"]);
}

#[test]
fn several_claims_give_the_pairs_that_go_together() {
    let build = |second: Value| {
        let mut cluster = cluster();
        claim(&mut cluster, "c", json!({ "volumeName": "v" }));
        claim(&mut cluster, "d", json!({ "volumeName": "w" }));
        volume(&mut cluster, "v", json!([term(ZONE, "In", &["a", "b"]), term(ZONE, "In", &["c"])]), csi("d"));
        volume(&mut cluster, "w", second, csi("d"));
        let both = json!([
            { "name": "1", "persistentVolumeClaim": { "claimName": "c" } },
            { "name": "2", "persistentVolumeClaim": { "claimName": "d" } },
        ]);
        lower_with(cluster, &[pod("p").with("spec.volumes", both)])
    };
    let lowered = build(json!([term(ZONE, "In", &["b", "c"]), term("rack", "In", &["1"])]));
    assert_eq!(
        alternatives(&lowered, "default/p"),
        [
            "topology.kubernetes.io/zone In [b]",
            "rack In [1], topology.kubernetes.io/zone In [a b]",
            "topology.kubernetes.io/zone In [c]",
            "rack In [1], topology.kubernetes.io/zone In [c]",
        ]
    );
    // Nothing goes together: all pairs stay, and none can be met.
    let lowered = build(json!([term(ZONE, "In", &["x"])]));
    assert_eq!(lowered.snapshot.classes[0].refused, None);
    assert!(!alternatives(&lowered, "default/p").is_empty());
    for id in &lowered.snapshot.classes[0].volume_alternatives {
        assert!(lowered.snapshot.vocabulary.set_items(*id).any(|(_, rq)| rq.is_empty()));
    }
}

#[test]
fn broken_claims_refuse_their_pods() {
    let now = json!("2026-01-01T00:00:00Z");
    let mut cluster = cluster();
    storage_class(&mut cluster, "now", "Immediate", &[]);
    claim(&mut cluster, "unbound", json!({}));
    claim(&mut cluster, "no-class", json!({ "storageClassName": "" }));
    claim(&mut cluster, "unknown-class", json!({ "storageClassName": "gone" }));
    claim(&mut cluster, "immediate", json!({ "storageClassName": "now" }));
    claim(&mut cluster, "no-volume", json!({ "volumeName": "gone" }));
    claim(&mut cluster, "dying-volume", json!({ "volumeName": "dying" }));
    claim(&mut cluster, "nowhere", json!({ "volumeName": "nowhere" }));
    volume(&mut cluster, "nowhere", json!([{}]), csi("d"));
    for (name, part) in [("lost", json!({ "status": { "phase": "Lost" } })), ("dying", json!({}))] {
        let mut value = json!({ "metadata": { "name": name }, "spec": { "volumeName": "v" } });
        value["status"] = part["status"].clone();
        if name == "dying" {
            value["metadata"]["deletionTimestamp"] = now.clone();
        }
        cluster.add_persistent_volume_claim(&object(value)).expect("good");
    }
    cluster
        .add_persistent_volume(&object(
            json!({ "metadata": { "name": "dying", "deletionTimestamp": now }, "spec": csi("d") }),
        ))
        .expect("good");
    let cases = [
        ("missing", "volume claim `default/missing` does not exist"),
        ("unbound", "no class is the default"),
        ("no-class", "`default/no-class` is not bound and names no storage class"),
        ("unknown-class", "storage class `gone` of volume claim `default/unknown-class` does not exist"),
        ("immediate", "storage class `now` binds immediately"),
        ("no-volume", "volume `gone` of claim `default/no-volume` does not exist"),
        ("dying-volume", "volume `dying` of claim `default/dying-volume` is being deleted"),
        ("nowhere", "volume `nowhere` of claim `default/nowhere` can be reached from no node"),
        ("lost", "`default/lost` has lost its volume"),
        ("dying", "`default/dying` is being deleted"),
    ];
    let pods: Vec<PodBuilder> = cases.iter().map(|(name, _)| pod(name).claim(name)).collect();
    let lowered = lower_with(cluster, &pods);
    for (name, part) in cases {
        let reason =
            class(&lowered.snapshot, &format!("default/{name}")).refused.as_deref().unwrap_or_default();
        assert!(reason.contains(part), "{name}: {reason:?}");
    }
}

#[test]
fn the_default_class_stands_in() {
    let mut cluster = cluster();
    cluster
        .add_storage_class(&object(json!({
            "metadata": { "name": "std", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
            "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
        })))
        .expect("good");
    claim(&mut cluster, "c", json!({}));
    let lowered = lower_with(cluster, &[pod("p").claim("c")]);
    assert_eq!(class(&lowered.snapshot, "default/p").refused, None);
}

fn limit(cluster: &mut Cluster, node_name: &str, driver: &str, count: i32) {
    cluster
        .add_csi_node(&object(json!({ "metadata": { "name": node_name }, "spec": { "drivers": [
            { "name": driver, "nodeID": "x", "allocatable": { "count": count } }, { "name": "free", "nodeID": "x" },
        ] } })))
        .expect("good");
}

#[test]
fn a_claim_that_is_going_away_is_still_attached() {
    let mut cluster = cluster();
    cluster.add_node(&node("n", json!({}))).expect("good");
    limit(&mut cluster, "n", "d", 2);
    volume(&mut cluster, "v", json!(null), csi("d"));
    cluster
        .add_persistent_volume_claim(&object(json!({
            "metadata": { "name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "volumeName": "v" },
        })))
        .expect("good");
    let lowered = lower_with(cluster, &[pod("p").claim("c").node("n"), pod("q").claim("c")]);
    assert_eq!(placed(&lowered.snapshot, "n").volumes.len(), 1);
    assert!(class(&lowered.snapshot, "default/q").refused.is_some());
}

#[test]
fn limited_drivers_count_distinct_claims() {
    let mut cluster = cluster();
    cluster.add_node(&node("n", json!({}))).expect("good");
    limit(&mut cluster, "n", "ebs.csi.aws.com", 2);
    storage_class(&mut cluster, "ebs", "WaitForFirstConsumer", &[]);
    claim(&mut cluster, "unbound", json!({ "storageClassName": "ebs" }));
    claim(&mut cluster, "in-tree", json!({ "volumeName": "v" }));
    volume(&mut cluster, "v", json!(null), json!({ "awsElasticBlockStore": { "volumeID": "vol-1" } }));
    claim(&mut cluster, "other", json!({ "volumeName": "w" }));
    volume(&mut cluster, "w", json!(null), csi("other.example.com"));
    let lowered = lower_with(
        cluster,
        &[
            pod("bound-1").claim("in-tree").node("n"),
            pod("bound-2").claim("in-tree").node("n"),
            pod("shares").claim("in-tree"),
            pod("new").claim("unbound"),
            pod("other").claim("other"),
        ],
    );
    let snapshot = &lowered.snapshot;
    let on = placed(snapshot, "n");
    assert_eq!(on.volume_limits, [("ebs.csi.aws.com".into(), 2)]);
    assert_eq!(on.volumes.len(), 1);
    assert_eq!(class(snapshot, "default/shares").volumes[0].volume, on.volumes[0].1);
    assert_ne!(class(snapshot, "default/new").volumes[0].volume, on.volumes[0].1);
    assert!(class(snapshot, "default/other").volumes.is_empty());
}

fn stateful_set(replicas: i32) -> Value {
    json!({
        "metadata": { "name": "db" },
        "spec": {
            "replicas": replicas, "selector": {},
            "template": { "spec": { "containers": [] } },
            "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "storageClassName": "ebs" } }],
        },
    })
}

#[test]
fn claims_of_a_stateful_set_are_named_after_its_pods() {
    let mut cluster = cluster();
    storage_class(&mut cluster, "ebs", "WaitForFirstConsumer", &[]);
    claim(&mut cluster, "data-db-1", json!({ "volumeName": "v" }));
    volume(&mut cluster, "v", json!([term(ZONE, "In", &["a"])]), csi("ebs.csi.aws.com"));
    cluster.add_statefulset(&object(stateful_set(40))).expect("good");
    let lowered = cluster.finish();
    // Nothing limits the driver, so all but the one bound to a zone are alike.
    assert_eq!((lowered.snapshot.pods.len(), lowered.snapshot.classes.len()), (40, 2));
    assert_eq!(alternatives(&lowered, "default/db-1"), ["topology.kubernetes.io/zone In [a]"]);
    assert!(alternatives(&lowered, "default/db-0").is_empty());
}

#[test]
fn limited_claims_tell_pods_apart() {
    let mut cluster = cluster();
    storage_class(&mut cluster, "ebs", "WaitForFirstConsumer", &[]);
    let mut limited = instance_type("a", 2, 0.1);
    limited.volume_limits.insert("ebs.csi.aws.com".to_owned(), 5);
    cluster.add_catalogue(None, [limited], &[]);
    cluster.add_statefulset(&object(stateful_set(3))).expect("good");
    let lowered = cluster.finish();
    let mut volumes: Vec<u32> = lowered.snapshot.classes.iter().map(|c| c.volumes[0].volume.0).collect();
    volumes.sort();
    assert_eq!(volumes, [0, 1, 2]);
    assert_eq!(&*lowered.snapshot.catalogues[0].types[0].volume_limits[0].0, "ebs.csi.aws.com");
}

#[test]
fn ephemeral_volumes_need_no_claim_object() {
    let mut cluster = cluster();
    storage_class(&mut cluster, "ebs", "WaitForFirstConsumer", &["a"]);
    let volumes = |class: &str| json!([{ "name": "tmp", "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": class } } } }]);
    let lowered = lower_with(
        cluster,
        &[pod("p").with("spec.volumes", volumes("ebs")), pod("q").with("spec.volumes", volumes("gone"))],
    );
    assert_eq!(alternatives(&lowered, "default/p"), ["topology.kubernetes.io/zone In [a]"]);
    let reason = class(&lowered.snapshot, "default/q").refused.as_deref().unwrap_or_default();
    assert!(reason.contains("`default/q-tmp`"), "{reason}");
}

#[test]
fn a_claim_that_is_still_being_bound_refuses_its_pods() {
    let mut cluster = cluster();
    let metadata = json!({ "name": "c", "namespace": "default" });
    let half = json!({ "metadata": metadata, "spec": { "volumeName": "v" } });
    cluster.add_persistent_volume_claim(&object(half)).expect("good");
    volume(&mut cluster, "v", json!(null), csi("d"));
    let lowered = lower_with(cluster, &[pod("p").claim("c")]);
    let refused = class(&lowered.snapshot, "default/p").refused.as_deref().expect("refused");
    assert!(refused.contains("`default/c` names volume `v` but is not bound to it yet"), "{refused}");
}

fn labelled(labels: Value, terms: Value) -> Vec<String> {
    let mut cluster = cluster();
    claim(&mut cluster, "c", json!({ "volumeName": "v" }));
    let mut spec = csi("d");
    if !terms.is_null() {
        spec["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": terms } });
    }
    let volume = json!({ "metadata": { "name": "v", "labels": labels }, "spec": spec });
    cluster.add_persistent_volume(&object(volume)).expect("good");
    alternatives(&lower_with(cluster, &[pod("p").claim("c")]), "default/p")
}

#[test]
fn zone_labels_of_a_volume_hold_like_node_affinity() {
    let unlabelled = "topology.kubernetes.io/region DoesNotExist, topology.kubernetes.io/zone DoesNotExist";
    let sorted = |text: &str| {
        let mut parts: Vec<&str> = text.split(", ").collect();
        parts.sort();
        parts.join(", ")
    };
    let found = labelled(json!({ ZONE: "a" }), json!(null));
    assert_eq!(found[0], "topology.kubernetes.io/zone In [a]");
    assert_eq!((found.len(), sorted(&found[1])), (2, unlabelled.to_owned()));
    let old = labelled(json!({ "failure-domain.beta.kubernetes.io/zone": "b__a" }), json!(null));
    assert_eq!(old[0], "topology.kubernetes.io/zone In [a b]");
    let both = labelled(json!({ ZONE: "a__b" }), json!([term(ZONE, "In", &["b", "c"])]));
    assert_eq!(both, ["topology.kubernetes.io/zone In [b]"]);
    assert!(labelled(json!({ ZONE: "a__" }), json!(null)).is_empty());
    assert!(labelled(json!({ "app": "a" }), json!(null)).is_empty());
}

#[test]
fn machines_on_their_way_have_the_limits_of_their_type() {
    let with = |labels: Value, requirements: Value, drivers: Value| {
        let mut cluster = cluster();
        let mut types = [instance_type("small", 2, 0.1), instance_type("large", 4, 0.2)];
        types[0].volume_limits.insert("ebs.csi.aws.com".to_owned(), 2);
        types[1].volume_limits.insert("ebs.csi.aws.com".to_owned(), 5);
        cluster.add_catalogue(None, types, &[]);
        let mut value = claim_json("c", "general");
        for (key, label) in labels.as_object().expect("a map") {
            value["metadata"]["labels"][key] = label.clone();
        }
        value["spec"]["requirements"] = requirements;
        cluster.add_nodeclaim(&build::claim(value)).expect("good");
        if !drivers.is_null() {
            let csi = json!({ "metadata": { "name": "c" }, "spec": { "drivers": drivers } });
            cluster.add_csi_node(&object(csi)).expect("good");
        }
        let lowered = cluster.finish();
        lowered.snapshot.nodes[0].volume_limits.iter().map(|(_, limit)| *limit).collect::<Vec<_>>()
    };
    let named = |values: &[&str]| json!([{ "key": TYPE, "operator": "In", "values": values }]);
    assert_eq!(with(json!({ TYPE: "large" }), json!([]), json!(null)), [5]);
    assert_eq!(with(json!({}), named(&["small", "large"]), json!(null)), [2]);
    assert_eq!(with(json!({}), json!([]), json!(null)), [0; 0]);
    let driver = |count: Value| json!([{ "name": "ebs.csi.aws.com", "nodeID": "c", "allocatable": { "count": count } }]);
    assert_eq!(with(json!({ TYPE: "large" }), json!([]), driver(json!(3))), [3]);
    assert_eq!(with(json!({ TYPE: "large" }), json!([]), driver(json!(null))), [0; 0]);
}
