//! Older objects, field by field, and whole manifests of three generations.

#![allow(clippy::unwrap_used)]

use joiner_api::convert::{Converted, Error, NodeClassKind, Note, Options, to_v1};
use joiner_api::{NodeClaim, NodePool, validation};
use serde_json::{Value, json};

const PROVISIONER: &str = include_str!("data/convert/provisioner-addon.yaml");
const CLUSTER_API_POOL: &str = include_str!("data/convert/nodepool-cluster-api.yaml");
const KWOK_POOL: &str = include_str!("data/convert/nodepool-kwok.yaml");

fn manifest(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[track_caller]
fn convert(value: Value) -> Converted {
    to_v1(value, &Options::default()).unwrap()
}

fn error(value: Value) -> String {
    to_v1(value, &Options::default()).unwrap_err().to_string()
}

fn paths(notes: &[Note]) -> Vec<&str> {
    notes.iter().map(|note| note.path.as_str()).collect()
}

/// The objects and notes as one text, for snapshots.
fn shown(converted: &Converted) -> String {
    let objects: Vec<_> =
        converted.objects.iter().map(|object| serde_json::to_string_pretty(object).unwrap()).collect();
    let notes: Vec<_> = converted.notes.iter().map(Note::to_string).collect();
    format!("{}\n\n{}", objects.join("\n---\n"), notes.join("\n"))
}

/// A converted pool loads, validates, and keeps every field our types know.
#[track_caller]
fn valid_pool(value: &Value) -> NodePool {
    let pool: NodePool = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(validation::validate_nodepool(&pool), []);
    pool
}

// Whole manifests.

#[test]
fn provisioner_of_the_addon() {
    let converted = convert(manifest(PROVISIONER));
    assert_eq!(converted.objects.len(), 2);
    valid_pool(&converted.objects[0]);
    insta::assert_snapshot!(shown(&converted));
}

#[test]
fn pool_of_the_cluster_api_provider() {
    let converted = convert(manifest(CLUSTER_API_POOL));
    valid_pool(&converted.objects[0]);
    insta::assert_snapshot!(shown(&converted));
}

#[test]
fn pool_of_the_kwok_introduction() {
    let converted = convert(manifest(KWOK_POOL));
    let pool = valid_pool(&converted.objects[0]);
    assert_eq!(validation::remarks_on_nodepool(&pool), [], "nothing is left to remark");
    insta::assert_snapshot!(shown(&converted));
}

// v1.

#[test]
fn v1_passes_through() {
    for value in [
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": { "name": "a" }, "spec": {
            "template": { "spec": { "requirements": [{ "key": "team", "operator": "Exists" }] } },
            "disruption": { "consolidationPolicy": "WhenEmpty" }, "unknown": 1 } }),
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "spec": "odd" }),
        json!({ "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "spec": { "requirements": [] } }),
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "annotations": { "karpenter.sh/do-not-evict": "true" } } }),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": { "consolidationPolicy": "WhenUnderutilized" } }),
    ] {
        assert_eq!(convert(value.clone()), Converted { objects: vec![value], notes: vec![] });
    }
}

#[test]
fn paper_labels_are_read_as_the_real_ones() {
    for (kind, api_version) in [("NodeClaim", "karpenter.sh/v1"), ("NodeOverlay", "karpenter.sh/v1alpha1")] {
        let converted = convert(json!({ "apiVersion": api_version, "kind": kind, "spec": { "requirements": [
            { "key": "team", "operator": "Exists" },
            { "key": "karpenter.sh/instance-memory", "operator": "Exists" },
        ] } }));
        assert_eq!(
            converted.objects[0]["spec"]["requirements"][1]["key"],
            "karpenter.kwok.sh/instance-memory"
        );
        assert_eq!(
            converted.notes[0].to_string(),
            "`spec.requirements[1].key`: no node carries `karpenter.sh/instance-memory`, read as `karpenter.kwok.sh/instance-memory`"
        );
    }
}

#[test]
fn lists_are_converted_item_by_item() {
    let converted = convert(json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Pod" },
        manifest(PROVISIONER),
        manifest(KWOK_POOL),
    ] }));
    let kinds: Vec<_> = converted.objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Pod", "NodePool", "EC2NodeClass", "NodePool"]);
    assert!(converted.notes.iter().any(|note| note.path == "items[2].spec.disruption.consolidationPolicy"));

    let mut item = manifest(CLUSTER_API_POOL);
    item.as_object_mut().unwrap().retain(|field, _| field != "apiVersion" && field != "kind");
    let typed = json!({ "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePoolList", "items": [item] });
    assert_eq!(convert(typed).objects[0]["apiVersion"], "karpenter.sh/v1");
}

#[test]
fn what_is_no_object_is_refused() {
    assert_eq!(
        error(json!({ "kind": "NodePool" })),
        "not a Kubernetes object: `apiVersion` is missing or not text; every object names its `apiVersion` and `kind`"
    );
    for (value, missing) in [
        (json!([]), "apiVersion"),
        (json!("x"), "apiVersion"),
        (json!({ "apiVersion": "v1", "kind": 1 }), "kind"),
    ] {
        assert_eq!(to_v1(value, &Options::default()), Err(Error::NotAnObject(missing)));
    }
}

// v1beta1.

fn beta_pool(spec: Value) -> Value {
    let mut value = json!({
        "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": { "name": "default" },
        "spec": { "template": { "spec": {
            "requirements": [],
            "nodeClassRef": { "apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "default" },
        } } },
    });
    for (field, inner) in spec.as_object().unwrap() {
        value["spec"][field] = inner.clone();
    }
    value
}

#[test]
fn v1beta1_disruption() {
    let cases = [
        (json!({}), Value::Null, Value::Null, 0),
        (json!({ "expireAfter": "24h" }), Value::Null, json!("24h"), 0),
        (json!({ "expireAfter": "Never" }), Value::Null, json!("Never"), 0),
        (
            json!({ "consolidationPolicy": "WhenUnderutilized" }),
            json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s" }),
            Value::Null,
            0,
        ),
        (
            json!({ "consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "30s" }),
            json!({ "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s" }),
            Value::Null,
            1,
        ),
        (
            json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s" }),
            json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s" }),
            Value::Null,
            0,
        ),
        (
            json!({ "consolidationPolicy": "WhenEmpty" }),
            json!({ "consolidationPolicy": "WhenEmpty" }),
            Value::Null,
            1,
        ),
        (
            json!({ "budgets": [{ "nodes": "3", "schedule": "@daily", "duration": "1h" }] }),
            json!({ "budgets": [{ "nodes": "3", "schedule": "@daily", "duration": "1h" }] }),
            Value::Null,
            0,
        ),
    ];
    for (old, disruption, expire_after, notes) in cases {
        let converted = convert(beta_pool(json!({ "disruption": old })));
        let spec = &converted.objects[0]["spec"];
        assert_eq!(spec["disruption"], disruption, "{old}");
        assert_eq!(spec["template"]["spec"]["expireAfter"], expire_after, "{old}");
        assert_eq!(converted.notes.len(), notes, "{old}: {:?}", converted.notes);
        valid_pool(&converted.objects[0]);
    }
}

#[test]
fn v1beta1_unchanged_fields() {
    let converted = convert(json!({
        "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool",
        "metadata": { "name": "default", "uid": "u", "labels": { "a": "b" } },
        "spec": {
            "template": {
                "metadata": { "labels": { "team": "web" }, "annotations": { "x": "y" } },
                "spec": {
                    "requirements": [{ "key": "team", "operator": "Exists", "minValues": 2 }],
                    "taints": [{ "key": "a", "effect": "NoSchedule" }],
                    "startupTaints": [{ "key": "b", "effect": "NoExecute" }],
                    "nodeClassRef": { "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "name": "c" },
                },
            },
            "limits": { "cpu": 10 },
            "weight": 7,
        },
        "status": { "resources": { "cpu": "4" }, "conditions": [
            { "type": "Ready", "status": "True", "severity": "Warning", "lastTransitionTime": "2024-01-01T00:00:00Z" },
        ] },
    }));
    assert_eq!(converted.notes, []);
    assert_eq!(
        converted.objects,
        [json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": { "name": "default", "uid": "u", "labels": { "a": "b" } },
            "spec": {
                "template": {
                    "metadata": { "labels": { "team": "web" }, "annotations": { "x": "y" } },
                    "spec": {
                        "requirements": [{ "key": "team", "operator": "Exists", "minValues": 2 }],
                        "taints": [{ "key": "a", "effect": "NoSchedule" }],
                        "startupTaints": [{ "key": "b", "effect": "NoExecute" }],
                        "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "c" },
                    },
                },
                "limits": { "cpu": 10 },
                "weight": 7,
            },
            "status": { "resources": { "cpu": "4" }, "conditions": [
                { "type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z" },
            ] },
        })]
    );
}

#[test]
fn v1beta1_kubelet_resources_and_unknown_fields() {
    let mut value = beta_pool(json!({ "surprise": true }));
    value["spec"]["template"]["spec"]["kubelet"] = json!({ "maxPods": 20, "clusterDNS": ["10.0.0.10"] });
    value["spec"]["template"]["spec"]["resources"] = json!({ "requests": {} });
    let converted = convert(value);
    let object = &converted.objects[0];
    assert_eq!(
        object["metadata"]["annotations"]["compatibility.karpenter.sh/v1beta1-kubelet-conversion"],
        r#"{"clusterDNS":["10.0.0.10"],"maxPods":20}"#
    );
    assert_eq!(object["spec"]["template"]["spec"].get("kubelet"), None);
    assert_eq!(object["spec"]["template"]["spec"].get("resources"), None);
    assert_eq!(
        paths(&converted.notes),
        ["spec.template.spec.kubelet", "spec.template.spec.resources", "spec.surprise"]
    );
}

#[test]
fn v1beta1_node_class_reference() {
    let with = |reference: Value| {
        let mut value = beta_pool(json!({}));
        value["spec"]["template"]["spec"]["nodeClassRef"] = reference;
        value
    };
    let options = Options {
        default_node_class: Some(NodeClassKind { group: "g.example".into(), kind: "GClass".into() }),
        ..Options::default()
    };
    let reference = |value: Value| {
        to_v1(value, &options).unwrap().objects[0]["spec"]["template"]["spec"]["nodeClassRef"].clone()
    };
    for (old, now) in [
        (json!({ "name": "a" }), json!({ "group": "g.example", "kind": "GClass", "name": "a" })),
        (json!({ "name": "a", "kind": "K" }), json!({ "group": "g.example", "kind": "K", "name": "a" })),
        (
            json!({ "name": "a", "apiVersion": "h/v1" }),
            json!({ "group": "h", "kind": "GClass", "name": "a" }),
        ),
        (
            json!({ "name": "a", "kind": "K", "apiVersion": "h/v1" }),
            json!({ "group": "h", "kind": "K", "name": "a" }),
        ),
        (
            json!({ "name": "a", "kind": "K", "group": "h" }),
            json!({ "group": "h", "kind": "K", "name": "a" }),
        ),
    ] {
        assert_eq!(reference(with(old)), now);
    }
    for (bad, part) in [
        (json!({ "name": "a" }), "say which node class is the default"),
        (json!({ "name": "a", "apiVersion": "h/v1" }), "nodeClassRef.kind"),
        (json!({ "name": "a", "kind": "K", "apiVersion": "v1" }), "`v1` has no group"),
        (json!({ "kind": "K", "apiVersion": "h/v1" }), "nodeClassRef.name"),
        (Value::Null, "it is missing"),
        (json!("default"), "expected an object"),
    ] {
        let text = error(with(bad));
        assert!(text.starts_with("NodePool `default`: `spec.template.spec.nodeClassRef"), "{text}");
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn v1beta1_claim() {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1beta1", "kind": "NodeClaim",
        "metadata": { "name": "default-x", "labels": { "karpenter.sh/nodepool": "default" } },
        "spec": {
            "requirements": [{ "key": "team", "operator": "Exists" }],
            "resources": { "requests": { "cpu": "1" } },
            "kubelet": { "maxPods": 5 },
            "nodeClassRef": { "name": "default", "kind": "EC2NodeClass", "apiVersion": "karpenter.k8s.aws/v1beta1" },
        },
        "status": { "providerID": "aws:///a/i-1", "conditions": [
            { "type": "Ready", "status": "True", "severity": "Error", "lastTransitionTime": "2024-01-01T00:00:00Z" },
        ] },
    });
    let converted = convert(claim.clone());
    let object = &converted.objects[0];
    let loaded: NodeClaim = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(validation::validate_nodeclaim(&loaded), []);
    assert_eq!(paths(&converted.notes), ["spec.kubelet", "spec.expireAfter"]);
    assert_eq!(
        object["metadata"]["annotations"]["compatibility.karpenter.sh/v1beta1-nodeclass-reference"],
        r#"{"apiVersion":"karpenter.k8s.aws/v1beta1","kind":"EC2NodeClass","name":"default"}"#
    );
    assert_eq!(object["spec"]["resources"], json!({ "requests": { "cpu": "1" } }));
    assert_eq!(
        object["spec"]["nodeClassRef"],
        json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" })
    );
    assert_eq!(object["status"]["conditions"][0].get("severity"), None);
    assert_eq!(object["status"]["providerID"], "aws:///a/i-1");
    assert_eq!(object["spec"].get("expireAfter"), None);

    let options = Options {
        expire_after_by_pool: [("default".to_owned(), "48h".to_owned())].into(),
        ..Options::default()
    };
    let converted = to_v1(claim, &options).unwrap();
    assert_eq!(converted.objects[0]["spec"]["expireAfter"], "48h");
    assert_eq!(paths(&converted.notes), ["spec.kubelet"]);
}

// v1alpha5.

fn provisioner(spec: Value) -> Value {
    let mut value = json!({
        "apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": { "name": "default" },
        "spec": { "providerRef": { "name": "nodes" } },
    });
    for (field, inner) in spec.as_object().unwrap() {
        value["spec"][field] = inner.clone();
    }
    value
}

fn skipping() -> Options {
    Options { skip_aws_defaults: true, ..Options::default() }
}

#[test]
fn provisioner_consolidation() {
    for (old, policy, after) in [
        (json!({ "ttlSecondsAfterEmpty": 30 }), "WhenEmpty", "30s"),
        (json!({ "ttlSecondsAfterEmpty": 0 }), "WhenEmpty", "0s"),
        (json!({ "ttlSecondsAfterEmpty": 30, "consolidation": { "enabled": false } }), "WhenEmpty", "30s"),
        (json!({ "consolidation": { "enabled": true } }), "WhenEmptyOrUnderutilized", "0s"),
        (json!({ "consolidation": { "enabled": false } }), "WhenEmpty", "Never"),
        (json!({ "consolidation": {} }), "WhenEmpty", "Never"),
        (json!({}), "WhenEmpty", "Never"),
    ] {
        let converted = to_v1(provisioner(old.clone()), &skipping()).unwrap();
        assert_eq!(
            converted.objects[0]["spec"]["disruption"],
            json!({ "consolidationPolicy": policy, "consolidateAfter": after }),
            "{old}"
        );
        valid_pool(&converted.objects[0]);
        let off = converted.notes.iter().any(|note| note.path == "spec.consolidation");
        assert_eq!(off, after == "Never", "{old}");
    }
    assert_eq!(
        error(provisioner(json!({ "ttlSecondsAfterEmpty": 30, "consolidation": { "enabled": true } }))),
        "Provisioner `default`: `spec.ttlSecondsAfterEmpty` cannot be converted: \
         `spec.consolidation.enabled` is set too; keep one of the two"
    );
}

#[test]
fn provisioner_expiry_limits_and_weight() {
    let converted = to_v1(
        provisioner(json!({
            "ttlSecondsUntilExpired": 2592000,
            "limits": { "resources": { "cpu": "1000", "memory": "1000Gi" } },
            "weight": 50,
        })),
        &skipping(),
    )
    .unwrap();
    let spec = &converted.objects[0]["spec"];
    assert_eq!(spec["template"]["spec"]["expireAfter"], "2592000s");
    assert_eq!(spec["limits"], json!({ "cpu": "1000", "memory": "1000Gi" }));
    assert_eq!(spec["weight"], 50);
    let converted = to_v1(provisioner(json!({})), &skipping()).unwrap();
    assert_eq!(converted.objects[0]["spec"]["template"]["spec"]["expireAfter"], "Never");
    assert_eq!(converted.objects[0]["spec"].get("limits"), None);
    assert_eq!(
        paths(&converted.notes),
        ["spec.ttlSecondsUntilExpired", "spec.consolidation", "spec.disruption.budgets"]
    );
}

#[test]
fn provisioner_metadata_labels_and_taints() {
    let mut value = provisioner(json!({
        "labels": { "team": "web" },
        "annotations": { "karpenter.sh/do-not-consolidate": "true" },
        "taints": [{ "key": "a", "value": "b", "effect": "NoSchedule" }],
        "startupTaints": [{ "key": "c", "effect": "NoExecute" }],
        "requirements": [{ "key": "team", "operator": "Exists" }],
        "surprise": 1,
    }));
    value["metadata"] = json!({
        "name": "default", "uid": "u", "resourceVersion": "1", "generation": 3,
        "labels": { "karpenter.sh/provisioner-name": "default", "a": "b" },
        "annotations": { "karpenter.sh/do-not-evict": "true", "kubectl.kubernetes.io/last-applied-configuration": "{}" },
        "finalizers": ["example.com/keep"],
    });
    value["status"] = json!({ "resources": { "cpu": "1" } });
    let converted = to_v1(value, &skipping()).unwrap();
    let object = &converted.objects[0];
    assert_eq!(
        object["metadata"],
        json!({
            "name": "default",
            "labels": { "karpenter.sh/nodepool": "default", "a": "b" },
            "annotations": { "karpenter.sh/do-not-disrupt": "true" },
            "finalizers": ["example.com/keep"],
        })
    );
    assert_eq!(object.get("status"), None);
    let template = &object["spec"]["template"];
    assert_eq!(
        template["metadata"],
        json!({ "labels": { "team": "web" }, "annotations": { "karpenter.sh/do-not-disrupt": "true" } })
    );
    assert_eq!(template["spec"]["taints"], json!([{ "key": "a", "value": "b", "effect": "NoSchedule" }]));
    assert_eq!(template["spec"]["startupTaints"], json!([{ "key": "c", "effect": "NoExecute" }]));
    assert_eq!(template["spec"]["requirements"], json!([{ "key": "team", "operator": "Exists" }]));
    assert!(
        converted
            .notes
            .iter()
            .any(|note| note.to_string() == "`spec.surprise`: dropped: v1 has no such field")
    );
}

#[test]
fn aws_defaults() {
    let requirements = |spec: Value, options: &Options| -> Vec<String> {
        let converted = to_v1(provisioner(spec), options).unwrap();
        valid_pool(&converted.objects[0]);
        converted.objects[0]["spec"]["template"]["spec"]["requirements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|requirement| {
                let values: Vec<_> = requirement["values"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .collect();
                let (key, operator) =
                    (requirement["key"].as_str().unwrap(), requirement["operator"].as_str().unwrap());
                format!("{key} {operator} {}", values.join(",")).trim_end().to_owned()
            })
            .collect()
    };
    let (os, arch, on_demand) = (
        "kubernetes.io/os In linux",
        "kubernetes.io/arch In amd64",
        "karpenter.sh/capacity-type In on-demand",
    );
    let category = "karpenter.k8s.aws/instance-category In c,m,r";
    let generation = "karpenter.k8s.aws/instance-generation Gt 2";
    let defaults = Options::default();
    assert_eq!(requirements(json!({}), &defaults), [os, arch, on_demand, category, generation]);
    assert_eq!(requirements(json!({}), &skipping()), [""; 0]);
    for key in [
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "karpenter.k8s.aws/instance-family",
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/instance-generation",
    ] {
        let given = json!({ "requirements": [{ "key": key, "operator": "Exists" }] });
        assert_eq!(requirements(given, &defaults), [&format!("{key} Exists"), os, arch, on_demand]);
    }
    let given = json!({
        "labels": { "kubernetes.io/os": "windows" },
        "requirements": [
            { "key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"] },
            { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] },
        ],
    });
    assert_eq!(
        requirements(given, &defaults),
        ["beta.kubernetes.io/arch In arm64", "karpenter.sh/capacity-type In spot", category, generation]
    );
    let elsewhere = json!({ "providerRef": { "name": "n", "kind": "KClass", "apiVersion": "k.example/v1" } });
    assert_eq!(requirements(elsewhere, &defaults), [""; 0], "they were defaults of the AWS provider");
}

#[test]
fn provider_references() {
    let reference = |spec: Value| {
        let converted = to_v1(provisioner(spec), &skipping()).unwrap();
        converted.objects[0]["spec"]["template"]["spec"]["nodeClassRef"].clone()
    };
    let aws = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "nodes" });
    assert_eq!(reference(json!({ "providerRef": { "name": "nodes" } })), aws);
    assert_eq!(reference(json!({ "providerRef": { "name": "nodes", "kind": "AWSNodeTemplate" } })), aws);
    let other = json!({ "providerRef": { "name": "n", "kind": "K", "apiVersion": "k.example/v1" } });
    assert_eq!(reference(other), json!({ "group": "k.example", "kind": "K", "name": "n" }));

    for (bad, part) in [
        (json!({ "provider": {} }), "`spec.provider` cannot be converted: `spec.providerRef` is set too"),
        (json!({ "providerRef": null }), "neither `providerRef` nor `provider` is set"),
        (json!({ "providerRef": {} }), "`spec.providerRef.name`"),
        (json!({ "providerRef": { "name": "n", "kind": "K" } }), "`` has no group"),
    ] {
        let text = error(provisioner(bad));
        assert!(text.contains(part), "{text}");
    }
    let options = Options {
        default_node_class: Some(NodeClassKind { group: "g".into(), kind: "K".into() }),
        ..Options::default()
    };
    let converted = to_v1(provisioner(json!({ "providerRef": null })), &options).unwrap();
    assert_eq!(
        converted.objects[0]["spec"]["template"]["spec"]["nodeClassRef"],
        json!({ "group": "g", "kind": "K", "name": "default" })
    );
}

#[test]
fn kubelet_configuration() {
    let kubelet = json!({ "maxPods": 20, "containerRuntime": "dockerd" });
    let converted = to_v1(provisioner(json!({ "kubeletConfiguration": kubelet })), &skipping()).unwrap();
    assert_eq!(
        converted.objects[0]["metadata"]["annotations"]["compatibility.karpenter.sh/v1beta1-kubelet-conversion"],
        r#"{"maxPods":20}"#
    );
    assert_eq!(
        paths(&converted.notes)[..2],
        ["spec.kubeletConfiguration.containerRuntime", "spec.kubeletConfiguration"]
    );
    let inline = json!({ "kubeletConfiguration": kubelet, "providerRef": null, "provider": { "instanceProfile": "p" } });
    let converted = to_v1(provisioner(inline), &skipping()).unwrap();
    assert_eq!(converted.objects[1]["spec"]["kubelet"], json!({ "maxPods": 20 }));
    assert_eq!(converted.objects[0]["metadata"].get("annotations"), None);
}

fn class_of(provider: Value, options: &Options) -> Result<(Value, Vec<Note>), Error> {
    let converted = to_v1(provisioner(json!({ "providerRef": null, "provider": provider })), options)?;
    assert_eq!(converted.objects[1]["apiVersion"], "karpenter.k8s.aws/v1");
    assert_eq!(converted.objects[1]["metadata"]["name"], "default");
    assert_eq!(converted.objects[0]["spec"]["template"]["spec"]["nodeClassRef"]["name"], "default");
    Ok((converted.objects[1]["spec"].clone(), converted.notes))
}

#[test]
fn inline_provider() {
    let (spec, _) = class_of(
        json!({
            "apiVersion": "extensions.karpenter.sh/v1alpha1", "kind": "AWS",
            "instanceProfile": "profile",
            "amiFamily": "Bottlerocket",
            "subnetSelector": { "karpenter.sh/discovery": "prod" },
            "securityGroupSelector": { "aws-ids": "sg-1, sg-2" },
            "tags": { "team": "web" },
            "metadataOptions": { "httpTokens": "required" },
            "blockDeviceMappings": [{ "deviceName": "/dev/xvda" }],
            "context": "c",
        }),
        &skipping(),
    )
    .unwrap();
    assert_eq!(
        spec,
        json!({
            "instanceProfile": "profile",
            "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }],
            "subnetSelectorTerms": [{ "tags": { "karpenter.sh/discovery": "prod" } }],
            "securityGroupSelectorTerms": [{ "id": "sg-1" }, { "id": "sg-2" }],
            "tags": { "team": "web" },
            "metadataOptions": { "httpTokens": "required" },
            "blockDeviceMappings": [{ "deviceName": "/dev/xvda" }],
            "context": "c",
        })
    );
}

#[test]
fn launch_templates_cannot_be_converted() {
    for field in ["launchTemplate", "launchTemplateName"] {
        let text = class_of(json!({ field: "mine" }), &Options::default()).unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("Provisioner `default`: `spec.provider.{field}` cannot be converted")),
            "{text}"
        );
    }
    assert!(class_of(json!({ "launchTemplate": null }), &Options::default()).is_ok());
}

#[test]
fn what_an_inline_provider_leaves_out() {
    let (spec, notes) = class_of(json!({}), &skipping()).unwrap();
    let tagged = json!([{ "tags": { "kubernetes.io/cluster/${CLUSTER_NAME}": "*" } }]);
    assert_eq!(spec["subnetSelectorTerms"], tagged);
    assert_eq!(spec["securityGroupSelectorTerms"], tagged);
    assert_eq!(spec["role"], "KarpenterNodeRole-${CLUSTER_NAME}");
    assert_eq!(spec["amiSelectorTerms"], json!([{ "alias": "al2@latest" }]));
    for path in ["amiFamily", "subnetSelector", "securityGroupSelector", "instanceProfile"] {
        let path = format!("spec.provider.{path}");
        assert!(notes.iter().any(|note| note.path == path), "{path} in {notes:?}");
    }
    let options =
        Options { cluster_name: Some("prod".to_owned()), kubernetes_minor: Some(33), ..Options::default() };
    let (spec, _) = class_of(json!({}), &options).unwrap();
    assert_eq!(spec["subnetSelectorTerms"], json!([{ "tags": { "kubernetes.io/cluster/prod": "*" } }]));
    assert_eq!(spec["role"], "KarpenterNodeRole-prod");
    assert_eq!(spec["amiSelectorTerms"], json!([{ "alias": "al2023@latest" }]));
    let (spec, _) =
        class_of(json!({}), &Options { kubernetes_minor: Some(32), ..Options::default() }).unwrap();
    assert_eq!(spec["amiSelectorTerms"], json!([{ "alias": "al2@latest" }]));
}

#[test]
fn node_templates() {
    let template = |spec: Value| json!({ "apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": { "name": "n", "uid": "u" }, "spec": spec });
    let converted = convert(template(json!({
        "amiFamily": "Bottlerocket",
        "amiSelector": { "aws::name": "image", "aws::owners": "self,amazon", "stage": "*" },
        "subnetSelector": { "a": "1,2", "b": "*" },
        "securityGroupSelector": { "aws::ids": "sg-1", "a": "1" },
        "instanceProfile": "p",
        "userData": "text",
        "detailedMonitoring": true,
    })));
    assert_eq!(
        converted.objects,
        [json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": { "name": "n" },
            "spec": {
                "amiFamily": "Bottlerocket",
                "amiSelectorTerms": [
                    { "name": "image", "owner": "self", "tags": { "stage": "*" } },
                    { "name": "image", "owner": "amazon", "tags": { "stage": "*" } },
                ],
                "subnetSelectorTerms": [{ "tags": { "a": "1", "b": "*" } }, { "tags": { "a": "2", "b": "*" } }],
                "securityGroupSelectorTerms": [{ "id": "sg-1" }],
                "instanceProfile": "p",
                "metadataOptions": { "httpPutResponseHopLimit": 2 },
                "userData": "text",
                "detailedMonitoring": true,
            },
        })]
    );
    assert_eq!(
        paths(&converted.notes),
        ["spec.securityGroupSelector", "spec.metadataOptions.httpPutResponseHopLimit"],
        "the tag beside the id is lost"
    );
    let given = convert(template(json!({ "metadataOptions": { "httpTokens": "optional" } })));
    assert_eq!(given.objects[0]["spec"]["metadataOptions"], json!({ "httpTokens": "optional" }));
    let own = json!({ "team": "a", "kubernetes.io/cluster/x": "owned", "eks:eks-cluster-name": "x" });
    let tagged = convert(template(json!({ "tags": own })));
    assert_eq!(tagged.objects[0]["spec"]["tags"], json!({ "team": "a" }));
    assert_eq!(tagged.notes.iter().filter(|note| note.path == "spec.tags").count(), 2);

    let family = |family: &str, selector: Value| {
        let mut value = template(
            json!({ "amiFamily": family, "instanceProfile": "p", "subnetSelector": { "a": "b" }, "securityGroupSelector": { "a": "b" } }),
        );
        value["spec"]["amiSelector"] = selector;
        to_v1(value, &Options::default())
    };
    let by_id = json!({ "aws::ids": "ami-1" });
    for (name, alias) in [("AL2", "al2"), ("Windows2019", "windows2019"), ("Windows2022", "windows2022")] {
        let spec = family(name, Value::Null).unwrap().objects[0]["spec"].clone();
        assert_eq!(spec["amiSelectorTerms"], json!([{ "alias": format!("{alias}@latest") }]));
    }
    for name in ["Ubuntu", "Custom", "Other"] {
        let text = family(name, Value::Null).unwrap_err().to_string();
        assert!(text.contains(&format!("family `{name}` has no default image today")), "{text}");
    }
    assert_eq!(family("Custom", by_id.clone()).unwrap().objects[0]["spec"]["amiFamily"], "Custom");
    let ubuntu = family("Ubuntu", by_id).unwrap();
    assert_eq!(ubuntu.objects[0]["spec"]["amiFamily"], "AL2");
    assert_eq!(
        paths(&ubuntu.notes),
        ["spec.amiFamily", "spec.blockDeviceMappings", "spec.metadataOptions.httpPutResponseHopLimit"]
    );
    assert_eq!(ubuntu.objects[0]["spec"]["blockDeviceMappings"][0]["deviceName"], "/dev/sda1");
    let text = family("AL2", json!({ "aws::owners": "self" })).unwrap_err().to_string();
    assert!(
        text.contains("an owner alone selects nothing today; add `aws::name` or a tag of the image"),
        "{text}"
    );

    let list: Vec<_> = (0..31).map(|i| i.to_string()).collect();
    let text = error(template(json!({ "subnetSelector": { "a": list.join(",") } })));
    assert!(text.contains("it would need 31 terms, more than 30"), "{text}");
}

#[test]
fn classes_of_v1beta1() {
    let class = |spec: Value| json!({ "apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "metadata": { "name": "n" }, "spec": spec });
    let spec = |given: Value| convert(class(given)).objects[0]["spec"].clone();
    let terms = json!([{ "id": "ami-1" }]);
    for (family, alias) in
        [("AL2", "al2@latest"), ("AL2023", "al2023@latest"), ("Bottlerocket", "bottlerocket@latest")]
    {
        let made = spec(json!({ "amiFamily": family, "role": "r" }));
        assert_eq!(made["amiSelectorTerms"], json!([{ "alias": alias }]));
        assert_eq!(made.get("amiFamily"), None, "the alias says it");
        let made = spec(json!({ "amiFamily": family, "amiSelectorTerms": terms, "role": "r" }));
        assert_eq!((&made["amiFamily"], &made["amiSelectorTerms"]), (&json!(family), &terms));
    }
    let made = spec(json!({ "amiFamily": "Custom", "amiSelectorTerms": terms, "instanceProfile": "p" }));
    assert_eq!((&made["amiFamily"], &made["instanceProfile"]), (&json!("Custom"), &json!("p")));
    let text = error(class(json!({ "amiFamily": "Custom", "role": "r" })));
    assert!(text.contains("select images by id, name or tags first"), "{text}");
    let ubuntu = spec(json!({ "amiFamily": "Ubuntu", "amiSelectorTerms": terms, "role": "r" }));
    assert_eq!(ubuntu["amiFamily"], "AL2");
    assert_eq!(ubuntu["blockDeviceMappings"][0]["ebs"]["volumeSize"], "20Gi");
    let converted = convert(class(
        json!({ "amiFamily": "AL2", "role": "r", "metadataOptions": { "httpTokens": "optional" }, "surprise": 1 }),
    ));
    assert_eq!(
        converted.objects[0]["spec"]["metadataOptions"],
        json!({ "httpTokens": "optional", "httpPutResponseHopLimit": 2 })
    );
    assert_eq!(paths(&converted.notes), ["spec.metadataOptions.httpPutResponseHopLimit", "spec.surprise"]);
}

#[test]
fn machines() {
    let machine = json!({
        "apiVersion": "karpenter.sh/v1alpha5", "kind": "Machine",
        "metadata": {
            "name": "default-x", "uid": "u",
            "labels": { "karpenter.sh/provisioner-name": "default" },
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {
            "requirements": [{ "key": "karpenter.sh/provisioner-name", "operator": "In", "values": ["default"] }],
            "taints": [{ "key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule" }],
            "resources": { "requests": { "cpu": "1" } },
            "kubelet": { "maxPods": 5 },
            "machineTemplateRef": { "name": "nodes", "kind": "AWSNodeTemplate", "apiVersion": "karpenter.k8s.aws/v1alpha1" },
        },
        "status": { "providerID": "aws:///a/i-1", "conditions": [
            { "type": "MachineLaunched", "status": "True", "severity": "", "lastTransitionTime": "2024-01-01T00:00:00Z" },
            { "type": "MachineRegistered", "status": "True", "reason": "MachineRegistered", "lastTransitionTime": "2024-01-01T00:00:00Z" },
            { "type": "MachineInitialized", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z" },
            { "type": "MachineDrifted", "status": "True", "reason": "Drift", "lastTransitionTime": "2024-01-01T00:00:00Z" },
            { "type": "MachineExpired", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z" },
            { "type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z" },
        ] },
    });
    let converted = convert(machine.clone());
    let object = &converted.objects[0];
    let loaded: NodeClaim = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(validation::validate_nodeclaim(&loaded), []);
    assert_eq!(object["kind"], "NodeClaim");
    assert_eq!(object["metadata"]["labels"], json!({ "karpenter.sh/nodepool": "default" }));
    assert_eq!(object["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    assert_eq!(object["spec"]["requirements"][0]["key"], "karpenter.sh/nodepool");
    assert_eq!(
        object["spec"]["taints"],
        json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }])
    );
    assert_eq!(
        object["spec"]["nodeClassRef"],
        json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "nodes" })
    );
    let conditions: Vec<_> = loaded
        .status
        .unwrap()
        .conditions
        .into_iter()
        .map(|condition| (condition.type_, condition.reason))
        .collect();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        conditions,
        [
            pair("Launched", ""),
            pair("Registered", "Registered"),
            pair("Initialized", ""),
            pair("Drifted", "Drift"),
            pair("Ready", "")
        ]
    );
    assert!(converted.notes.iter().any(|note| note.message.contains("`MachineExpired` dropped")));

    let mut inline = machine.clone();
    inline["spec"].as_object_mut().unwrap().remove("machineTemplateRef");
    assert_eq!(convert(inline.clone()).objects[0]["spec"]["nodeClassRef"]["name"], "default");
    inline["metadata"].as_object_mut().unwrap().remove("labels");
    assert!(error(inline).contains("no label names the Provisioner"));
}

#[test]
fn malformed_fields_are_named() {
    for (spec, text) in [
        (
            json!({ "ttlSecondsAfterEmpty": "30s" }),
            "`spec.ttlSecondsAfterEmpty` is `\"30s\"`, expected a whole number of seconds, not below 0",
        ),
        (
            json!({ "ttlSecondsUntilExpired": -1 }),
            "`spec.ttlSecondsUntilExpired` is `-1`, expected a whole number of seconds, not below 0",
        ),
        (
            json!({ "consolidation": { "enabled": "yes" } }),
            "`spec.consolidation.enabled` is `\"yes\"`, expected true or false",
        ),
        (json!({ "requirements": {} }), "`spec.requirements` is `{}`, expected a list"),
        (json!({ "labels": [] }), "`spec.labels` is `[]`, expected an object"),
        (json!({ "providerRef": { "name": 5 } }), "`spec.providerRef.name` is `5`, expected text"),
        (
            json!({ "providerRef": null, "provider": { "subnetSelector": { "a": 1 } } }),
            "`spec.provider.subnetSelector.a` is `1`, expected text",
        ),
    ] {
        assert_eq!(error(provisioner(spec)), format!("Provisioner `default`: {text}"));
    }
    let text = error(
        json!({ "apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": [], "spec": {} }),
    );
    assert_eq!(text, "NodePool ``: `metadata` is `[]`, expected an object");
}

#[test]
fn a_pool_does_not_ask_for_its_own_name() {
    let converted = to_v1(
        provisioner(json!({
            "labels": { "karpenter.sh/provisioner-name": "default", "team": "web" },
            "requirements": [
                { "key": "team", "operator": "Exists" },
                { "key": "karpenter.sh/provisioner-name", "operator": "Exists" },
            ],
        })),
        &skipping(),
    )
    .unwrap();
    let template = &converted.objects[0]["spec"]["template"];
    assert_eq!(template["spec"]["requirements"], json!([{ "key": "team", "operator": "Exists" }]));
    assert_eq!(template["metadata"]["labels"], json!({ "team": "web" }));
    let told: Vec<_> = converted.notes.iter().filter(|note| note.message.starts_with("dropped: ")).collect();
    assert_eq!(told.len(), 2, "{:?}", converted.notes);
    assert_eq!(told[0].path, "spec.requirements[1].key");
    let loaded: NodePool = serde_json::from_value(converted.objects[0].clone()).unwrap();
    assert_eq!(validation::validate_nodepool(&loaded), []);
}

#[test]
fn labels_on_paper_are_replaced_where_pods_choose_nodes() {
    let expression = |key: &str| json!({ "matchExpressions": [{ "key": key, "operator": "Exists" }] });
    let deployment = |selector: Value, key: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
            "spec": { "template": { "spec": {
                "nodeSelector": selector,
                "affinity": { "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": expression(key) }],
                } },
                "tolerations": [{ "key": "karpenter.sh/instance-memory", "operator": "Exists" }],
            } } },
        })
    };
    let options = Options { rename_on_workloads: true, ..Options::default() };
    let paper =
        deployment(json!({ "karpenter.kwok.sh/instance-type": "c-2x" }), "karpenter.sh/instance-memory");
    let converted = to_v1(paper, &options).unwrap();
    let real = deployment(
        json!({ "node.kubernetes.io/instance-type": "c-2x" }),
        "karpenter.kwok.sh/instance-memory",
    );
    assert_eq!(converted.objects, [real]);
    assert_eq!(converted.notes.len(), 2, "{:?}", converted.notes);
}

#[test]
fn old_names_on_workloads_only_when_asked() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "template": {
            "metadata": { "annotations": { "karpenter.sh/do-not-evict": "true" } },
            "spec": {
                "nodeSelector": { "karpenter.sh/provisioner-name": "default" },
                "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                    { "matchExpressions": [{ "key": "karpenter.sh/provisioner-name", "operator": "Exists" }] },
                ] } } },
                "topologySpreadConstraints": [{ "topologyKey": "karpenter.sh/provisioner-name" }],
                "tolerations": [
                    { "key": "karpenter.sh/disruption", "operator": "Equal", "value": "disrupting", "effect": "NoSchedule" },
                    { "key": "karpenter.sh/disruption", "operator": "Exists" },
                ],
            },
        } },
    });
    assert_eq!(convert(deployment.clone()).objects, std::slice::from_ref(&deployment));
    let options = Options { rename_on_workloads: true, ..Options::default() };
    let converted = to_v1(deployment, &options).unwrap();
    let template = &converted.objects[0]["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"], json!({ "karpenter.sh/do-not-disrupt": "true" }));
    assert_eq!(template["spec"]["nodeSelector"], json!({ "karpenter.sh/nodepool": "default" }));
    assert_eq!(template["spec"]["topologySpreadConstraints"][0]["topologyKey"], "karpenter.sh/nodepool");
    assert_eq!(
        template["spec"]["tolerations"],
        json!([
            { "key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule" },
            { "key": "karpenter.sh/disrupted", "operator": "Exists" },
        ])
    );
    assert_eq!(converted.notes.len(), 6, "{:?}", converted.notes);
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": {
        "labels": { "karpenter.sh/provisioner-name": "a" }, "annotations": {
            "karpenter.sh/do-not-consolidate": "true", "karpenter.sh/do-not-disrupt": "false" } },
        "spec": { "taints": [{ "key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule" }] } });
    let node = to_v1(node, &options).unwrap().objects.remove(0);
    assert_eq!(
        node["metadata"]["annotations"],
        json!({ "karpenter.sh/do-not-disrupt": "false" }),
        "today's name wins"
    );
    assert_eq!(node["spec"]["taints"], json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }]));
}
