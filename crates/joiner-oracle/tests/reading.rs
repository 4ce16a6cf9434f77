//! Reading manifests and instance types into a world.

use joiner_oracle::world::World;
use serde_json::{Value, json};

fn read(manifests: Value) -> World {
    World::from_manifests(manifests.as_array().expect("a list"), &[]).expect("readable")
}

fn template(spec: Value) -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": spec})
}

fn container(requests: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

#[test]
fn workloads_become_pods() {
    let simple = template(container(json!({"cpu": "1"})));
    let world = read(json!([
        {"kind": "List", "items": [
            {"kind": "Deployment", "metadata": {"name": "d", "namespace": "shop"}, "spec": {"replicas": 2, "template": simple}},
            {"kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": {"template": simple}},
            {"kind": "ReplicaSet", "metadata": {"name": "owned", "ownerReferences": [{"kind": "Deployment", "name": "d", "controller": true}]},
             "spec": {"template": simple}},
        ]},
        {"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 5, "completions": 3, "template": simple}},
        {"kind": "Job", "metadata": {"name": "k"}, "spec": {"template": simple}},
        {"kind": "Job", "metadata": {"name": "s"}, "spec": {"suspend": true, "template": simple}},
        {"kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": {"parallelism": 2, "template": simple}}}},
        {"kind": "PodList", "items": [{"metadata": {"name": "p"}, "spec": {"containers": []}}]},
        {"kind": "ConfigMap", "metadata": {"name": "ignored"}},
        null,
    ]));
    let mut names: Vec<String> =
        world.pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    names.sort();
    let expected = [
        "default/c-0",
        "default/c-1",
        "default/j-0",
        "default/j-1",
        "default/j-2",
        "default/k-0",
        "default/p",
        "default/r-0",
        "shop/d-0",
        "shop/d-1",
    ];
    assert_eq!(names, expected);
    assert_eq!(world.pods[1].requests["pods"], 1);
    assert_eq!(world.namespaces["shop"]["kubernetes.io/metadata.name"], "shop");
}

#[test]
fn only_pods_that_matter_stay() {
    let pod = |name: &str, metadata: Value, spec: Value, status: Value| {
        let mut object = json!({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status});
        object["metadata"]["name"] = json!(name);
        object
    };
    let daemon = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x"}]});
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let on_node = json!({"nodeName": "n"});
    let world = read(json!([
        pod("waiting", json!({}), json!({}), json!({"phase": "Pending"})),
        pod("running", json!({}), on_node.clone(), json!({"phase": "Running"})),
        pod("stopping", deleted.clone(), on_node.clone(), json!({})),
        pod("daemon", daemon.clone(), on_node.clone(), json!({})),
        pod("finished", json!({}), on_node, json!({"phase": "Failed"})),
        pod("gone", deleted, json!({}), json!({})),
        pod("gated", json!({}), json!({"schedulingGates": [{"name": "g"}]}), json!({})),
        pod("daemon-to-be", daemon, json!({}), json!({})),
    ]));
    let seen: Vec<(&str, bool, bool)> =
        world.pods.iter().map(|pod| (pod.name.as_str(), pod.terminating, pod.is_daemon)).collect();
    let expected = [
        ("waiting", false, false),
        ("running", false, false),
        ("stopping", true, false),
        ("daemon", false, true),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn claims_of_a_stateful_set() {
    let class = |mode: &str| {
        json!({"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "kubernetes.io/aws-ebs",
               "volumeBindingMode": mode,
               "allowedTopologies": [{"matchLabelExpressions": [
                   {"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a", "b"]}]}]})
    };
    let set = json!({"kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "replicas": 2, "template": template(container(json!({}))),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}]}});
    let world = read(json!([class("WaitForFirstConsumer"), set]));
    let volume = &world.pods[1].volumes[0];
    assert_eq!(volume.claim, "default/data-db-1");
    assert_eq!(volume.driver.as_deref(), Some("ebs.csi.aws.com"));
    assert_eq!(volume.alternatives.len(), 1);
    assert_eq!(volume.alternatives[0][0].key, "topology.kubernetes.io/zone");
    assert_eq!(world.pods[1].refused, None);

    let world = read(json!([class("Immediate"), set]));
    assert!(world.pods[0].refused.as_deref().is_some_and(|why| why.contains("binds at once")));
}

#[test]
fn local_volumes_forget_their_host() {
    let world = read(json!([
        {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"local": {"path": "/x"}, "nodeAffinity": {"required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]},
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["m"]}]},
                {}]}}}},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
         "spec": {"volumeName": "v"}},
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}]}},
    ]));
    let alternatives = &world.pods[0].volumes[0].alternatives;
    assert_eq!(alternatives.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0]);
}

#[test]
fn refusals() {
    let cases: &[(&str, Value)] = &[
        ("resourceClaims", json!({"resourceClaims": [{"name": "g"}]})),
        ("may not be asked for", json!({"nodeSelector": {"kubernetes.io/hostname": "n"}})),
        ("may not be asked for", json!({"nodeSelector": {"karpenter.sh/registered": "true"}})),
        ("may not be asked for", json!({"nodeSelector": {"sub.karpenter.sh/x": "true"}})),
        ("may not be asked for", json!({"nodeSelector": {"karpenter.kwok.sh/kwoknodeclass": "default"}})),
        ("malformed", json!({"nodeSelector": {"a b": "c"}})),
        ("not a capacity type", json!({"nodeSelector": {"karpenter.sh/capacity-type": "cheap"}})),
        (
            "does not exist",
            json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}),
        ),
    ];
    for (why, spec) in cases {
        let world = read(json!([{"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}]));
        let refused = world.pods[0].refused.clone().unwrap_or_default();
        assert!(refused.contains(why), "{spec}: `{refused}`");
    }
    let terms: &[(Option<&str>, Value)] = &[
        (
            Some("matchFields"),
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]),
        ),
        (
            Some("one whole number"),
            json!([{"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["-1"]}]}]),
        ),
        (Some("unknown"), json!([{"matchExpressions": [{"key": "k", "operator": "Near", "values": ["1"]}]}])),
        (
            Some("keeps away"),
            json!([{"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}]),
        ),
        (
            None,
            json!([
            {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]},
            {"matchExpressions": [{"key": "k", "operator": "Exists"}]}]),
        ),
        (None, json!([{"matchExpressions": [{"key": "xkarpenter.sh/k", "operator": "Exists"}]}])),
        (
            None,
            json!([{"matchExpressions": [{"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["8"]}]}]),
        ),
    ];
    for (why, terms) in terms {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        let world = read(json!([{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"affinity": affinity}}]));
        let refused = &world.pods[0].refused;
        match why {
            Some(why) => {
                assert!(refused.as_deref().is_some_and(|text| text.contains(why)), "{terms}: {refused:?}")
            }
            None => assert_eq!(*refused, None, "{terms}"),
        }
    }
}

#[test]
fn priorities() {
    let world = read(json!([
        {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100},
        {"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 7, "globalDefault": true},
        {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"priorityClassName": "high"}},
        {"kind": "Pod", "metadata": {"name": "b"}, "spec": {"priority": 3, "priorityClassName": "high"}},
        {"kind": "Pod", "metadata": {"name": "c"}, "spec": {}},
        {"kind": "Pod", "metadata": {"name": "d"}, "spec": {"priorityClassName": "system-node-critical"}},
    ]));
    let priorities: Vec<i32> = world.pods.iter().map(|pod| pod.priority).collect();
    assert_eq!(priorities, [100, 3, 7, 2_000_001_000]);
}

#[test]
fn selectors_with_label_keys() {
    let world = read(json!([{"kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "x", "rev": "2"}},
        "spec": {"topologySpreadConstraints": [
            {"topologyKey": "beta.kubernetes.io/arch", "maxSkew": 2, "labelSelector": {"matchLabels": {"rev": "2", "app": "x"}},
             "matchLabelKeys": ["rev", "absent"]},
            {"topologyKey": "k", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"}],
         "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "k", "labelSelector": {}, "mismatchLabelKeys": ["rev"], "namespaceSelector": {}}]}}}}]));
    let pod = &world.pods[0];
    let selector = pod.spread[0].selector.as_ref().expect("a selector");
    assert_eq!(pod.spread[0].key, "kubernetes.io/arch");
    assert_eq!(selector.expressions.len(), 2, "a key named twice counts once");
    assert!(pod.spread[0].hard && !pod.spread[1].hard && pod.spread[1].honor_taints);
    assert_eq!(pod.spread[1].selector, None);
    let term = &pod.anti_affinity[0];
    assert_eq!(term.selector.as_ref().map(|s| s.expressions[0].operator.as_str()), Some("NotIn"));
    assert_eq!(term.namespace_selector.as_ref().map(|s| s.expressions.len()), Some(0));
}

#[test]
fn nodes_and_pools() {
    let world = read(json!([
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {
            "weight": 5, "limits": {"cpu": "1500m", "memory": "1Gi", "nodes": 3},
            "template": {"metadata": {"labels": {"team": "x"}}, "spec": {
                "requirements": [{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["amd64"], "minValues": 1}],
                "taints": [{"key": "t", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "s", "value": "v", "effect": "NoExecute"}],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c"}}}}},
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "fixed"},
         "spec": {"replicas": 2, "template": {"spec": {"requirements": []}}}},
        {"kind": "Node", "metadata": {"name": "starting", "labels": {"karpenter.sh/nodepool": "p"}}, "spec": {"taints": [
            {"key": "s", "value": "v", "effect": "NoExecute"}, {"key": "t", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}},
        {"kind": "Node", "metadata": {"name": "up", "labels": {"karpenter.sh/nodepool": "p", "karpenter.sh/initialized": "true"}},
         "spec": {"taints": [{"key": "s", "value": "v", "effect": "NoExecute"}]}},
        {"kind": "Node", "metadata": {"name": "own", "labels": {"beta.kubernetes.io/arch": "arm64"}},
         "spec": {"unschedulable": true}, "status": {"capacity": {"cpu": "2"}}},
        {"kind": "CSINode", "metadata": {"name": "own"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 5}}, {"name": "e"}]}},
    ]));
    let sizes: Vec<Option<i64>> = world.pools.iter().map(|pool| pool.replicas).collect();
    assert_eq!(sizes.iter().filter(|size| size.is_none()).count(), 1, "pools of fixed size open nothing");
    assert_eq!(sizes.len(), 2);
    let pool = &world.pools[0];
    assert_eq!(
        (pool.weight, pool.limits["cpu"], pool.limits["memory"], pool.limits["nodes"]),
        (5, 1500, 1 << 30, 3)
    );
    assert_eq!(
        (pool.requirements[0].key.as_str(), pool.requirements[0].min_values),
        ("kubernetes.io/arch", Some(1))
    );
    let keys =
        |node: usize| world.nodes[node].taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>();
    assert_eq!((keys(0), keys(1)), (vec!["t"], vec!["s"]));
    assert_eq!(world.nodes.iter().map(|node| node.initialised).collect::<Vec<_>>(), [false, true, true]);
    let own = &world.nodes[2];
    assert!(own.cordoned && own.labels["kubernetes.io/arch"] == "arm64");
    assert_eq!((own.allocatable["cpu"], own.volume_limits.clone()), (2000, [("d".to_owned(), 5)].into()));
}

#[test]
fn instance_types() {
    let types = json!([
        {"Name": "m5.2xlarge", "architecture": "amd64", "operatingSystems": ["linux"],
         "resources": {"cpu": "8", "memory": "2048Gi", "hugepages-2Mi": "1Gi"},
         "offerings": [{"price": 1.5, "zone": "a", "capacityType": "spot"},
                       {"Price": 0.1, "Available": false, "ReservationCapacity": 2, "Requirements": [
                           {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved"]},
                           {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]},
                           {"key": "example.com/block", "operator": "In", "values": ["x"]}]}]},
        {"name": "odd", "resources": {"cpu": 2, "memory": "4Gi", "pods": "7"}, "offerings": []},
    ]);
    let world = World::from_manifests(&[], types.as_array().expect("a list")).expect("readable");
    let first = &world.types[0];
    let label = |type_index: usize, key: &str| {
        let exprs = &world.types[type_index].requirements;
        exprs.iter().find(|expr| expr.key == key).map(|expr| expr.values.clone()).unwrap_or_default()
    };
    assert_eq!((first.capacity["pods"], first.allocatable["cpu"]), (110, 7900));
    assert_eq!(first.allocatable["memory"], (2048i128 << 30) - (10 << 20) - (1 << 30));
    assert_eq!(label(0, "karpenter.kwok.sh/instance-memory"), ["2Ti"]);
    assert_eq!(label(0, "karpenter.kwok.sh/instance-size"), ["2xlarge"]);
    assert_eq!(label(0, "topology.kubernetes.io/zone"), ["a", "b"]);
    assert_eq!(label(1, "karpenter.kwok.sh/instance-size"), ["2"]);
    assert_eq!(label(1, "karpenter.kwok.sh/instance-family"), ["o"]);
    assert_eq!(first.offerings[1].reservation, Some(("m5.2xlarge/b".to_owned(), 2)));
    assert!(first.offerings[0].available && !first.offerings[1].available);
    assert!(world.well_known.contains("example.com/block") && world.well_known.contains("kubernetes.io/os"));
}

#[test]
fn bad_input_is_named() {
    let cases: &[(&str, Value)] = &[
        ("`kind`", json!({"metadata": {"name": "x"}})),
        (
            "pod `default/p`: request of `cpu`",
            json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": container(json!({"cpu": "lots"}))}),
        ),
        (
            "NodePool `p`: `apiVersion`",
            json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": "p"}}),
        ),
        (
            "Deployment `d`: the pod template",
            json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {}}),
        ),
        (
            "priority class `none`",
            json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priorityClassName": "none"}}),
        ),
        ("must be a list", json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"tolerations": {}}})),
    ];
    for (part, manifest) in cases {
        let error = World::from_manifests(std::slice::from_ref(manifest), &[]).expect_err("malformed");
        assert!(error.contains(part), "{manifest}: {error}");
    }
    let error = World::from_manifests(&[], &[json!({"name": "t", "offerings": [{"Price": "free"}]})]);
    assert!(error.is_err_and(|why| why.contains("instance type `t`") && why.contains("`Price`")));
}
