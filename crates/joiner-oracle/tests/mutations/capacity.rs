//! A cluster with a pool of a fixed size, a buffer and an overlay, its plan, and ways to spoil it.

use serde_json::{Value, json};

use super::Mutation;
use super::scene::*;

const SPARE: [&str; 2] = ["default/buffer:spare-0", "default/buffer:spare-1"];

fn pool(name: &str, replicas: Option<i64>) -> Value {
    let mut object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        }}},
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = replicas.into();
    }
    object
}

fn kept_node(name: &str, price: f64) -> Value {
    let mut node = new_node(name, "fixed", ("m.large", "a", "on-demand", price), &[], &["m.large"]);
    node["static"] = true.into();
    node
}

/// Two machines that pool `fixed` lacks, one of them with the real pod, and a machine opened for a buffer. The overlay makes `m.large` cost 0.05.
pub fn kept() -> Scene {
    let mut first = kept_node("fixed-1", 0.05);
    first["pods"] = json!(["default/solo"]);
    let mut opened =
        new_node("open-1", "open", ("m.large", "a", "on-demand", 0.05), &[], &["m.large", "m.xlarge"]);
    opened["bufferPods"] = json!(SPARE);
    let mut scene = Scene {
        scheduler_config: Value::Null,
        manifests: vec![
            pool("fixed", Some(2)),
            pool("open", None),
            pod("solo", "solo", "3"),
            json!({
                "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "spare"},
                "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1500m"}}}]}},
            }),
            json!({
                "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "spare"},
                "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 2},
            }),
            json!({
                "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "cheap"},
                "spec": {
                    "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m.large"]}],
                    "price": "0.05",
                },
            }),
        ],
        types: vec![
            instance_type("m.large", "amd64", "4", "16Gi", &[("a", "on-demand", 0.2, true)]),
            instance_type("m.xlarge", "amd64", "8", "32Gi", &[("a", "on-demand", 0.1, true)]),
        ],
        plan: json!({
            "apiVersion": "joiner.sh/v1alpha1", "kind": "Plan",
            "nodes": [opened, first, kept_node("fixed-2", 0.05)],
            "unschedulable": [],
            "buffers": [{"buffer": "default/spare", "replicas": 2, "onExistingNodes": 0, "onNewNodes": 2, "unplaced": 0}],
            "totals": {"lowerBoundPerHour": null},
        }),
    };
    scene.add_up();
    scene
}

pub const MUTATIONS: &[Mutation] = &[
    ("a machine too few", &["static-count"], |s| {
        s.remove_node("fixed-2");
        s.add_up();
    }),
    ("a machine too many", &["static-count"], |s| {
        s.add_node(kept_node("fixed-3", 0.05));
        s.add_up();
    }),
    ("a replica less is wanted", &["static-count"], |s| {
        s.object("NodePool", "fixed")["spec"]["replicas"] = json!(1);
    }),
    ("a limit leaves room for one", &["static-count", "limits", "limits-options"], |s| {
        s.object("NodePool", "fixed")["spec"]["limits"] = json!({"nodes": "1"});
    }),
    ("a dearer machine", &["static-cheapest"], |s| {
        let node = s.node("fixed-2");
        (node["instanceType"], node["pricePerHour"]) = (json!("m.xlarge"), json!(0.1));
        s.add_up();
    }),
    ("a static machine of an ordinary pool", &["static-stray"], |s| {
        s.node("open-1")["static"] = json!(true);
    }),
    ("a machine of a static pool for a pod", &["static-stray"], |s| {
        s.node("fixed-1")["static"] = json!(false);
    }),
    ("the price without the overlay", &["price"], |s| {
        s.node("fixed-2")["pricePerHour"] = json!(0.2);
        s.add_up();
    }),
    ("the overlay is gone", &["price", "static-cheapest"], |s| {
        s.manifests.retain(|object| object["kind"] != "NodeOverlay");
        s.node("open-1")["instanceType"] = json!("m.xlarge");
        s.node("open-1")["pricePerHour"] = json!(0.1);
        s.node("open-1")["instanceTypeOptions"] = json!(["m.xlarge", "m.large"]);
        s.add_up();
    }),
    ("a buffer is not listed", &["buffers"], |s| s.plan["buffers"] = json!([])),
    ("a buffer of another size", &["buffers"], |s| {
        s.object("CapacityBuffer", "spare")["spec"]["replicas"] = json!(3);
    }),
    ("numbers of a buffer that are not so", &["buffers"], |s| {
        s.plan["buffers"][0]["onExistingNodes"] = json!(1)
    }),
    ("a virtual pod twice", &["pod-twice", "buffers"], |s| {
        s.node("fixed-2")["bufferPods"] = json!([SPARE[0]]);
    }),
    ("a virtual pod as a real one", &["pod-unknown", "buffers", "totals"], |s| {
        s.node("open-1")["bufferPods"] = json!([SPARE[1]]);
        s.put(SPARE[0], "open-1");
    }),
    ("no room for virtual pods", &["resources"], |s| {
        s.node("open-1")["bufferPods"] = json!([]);
        s.node("fixed-1")["bufferPods"] = json!(SPARE);
        s.remove_node("open-1");
        s.add_up();
    }),
    ("a new node for nothing", &["node-empty", "buffers"], |s| s.node("open-1")["bufferPods"] = json!([])),
];
