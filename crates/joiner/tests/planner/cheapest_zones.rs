//! Pods that spread over zones, or would like to: where they may go besides the zone the first pass dealt them to, worked out by hand.

use joiner_oracle::checker::check;
use joiner_oracle::world::World;
use serde_json::{Value, json};

use crate::support;

fn pool() -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
    })
}

/// Fourteen pods of one app and a CPU and a half each.
fn pods(spec: Value) -> Vec<Value> {
    let pod = |at: usize| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("p-{at:02}"), "namespace": "default", "labels": {"app": "shop"}},
            "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1500m"}}}]},
        });
        for (field, value) in spec.as_object().expect("an object") {
            pod["spec"][field.as_str()] = value.clone();
        }
        pod
    };
    (0..14).map(pod).collect()
}

fn spread(max_skew: u32, when: &str) -> Value {
    json!([{
        "maxSkew": max_skew, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "shop"}},
    }])
}

/// A type in two zones; a tenth of a CPU is for the system.
fn of(name: &str, cpus: &str, price: f64) -> Value {
    let offering = |zone: &str| {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
        ]})
    };
    json!({
        "name": name, "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": cpus, "memory": "64Gi", "pods": "20"},
        "offerings": [offering("a"), offering("b")],
    })
}

/// What a plan costs that the checker agrees with.
fn price(manifests: &[Value], types: &[Value]) -> f64 {
    let options = ["--no-lower-bound", "--node-charge=0", "--packing=cheapest"];
    let plan = support::plan(manifests, types, &options).expect("the input is valid");
    let world = World::from_manifests(manifests, types).expect("the world can be read");
    assert_eq!(check(&world, &plan), []);
    plan["totals"]["pricePerHour"].as_f64().expect("a price")
}

fn price_at_skew(max_skew: u32) -> f64 {
    let mut manifests = vec![pool()];
    manifests.extend(pods(json!({"topologySpreadConstraints": spread(max_skew, "DoNotSchedule")})));
    price(&manifests, &[of("five", "8", 1.0)])
}

#[test]
fn pods_change_their_zone_as_far_as_the_skew_allows() {
    // A machine holds five. Seven and seven need two machines each; ten and four, or nine and five, need three.
    assert!((price_at_skew(6) - 3.0).abs() < 1e-9, "${}", price_at_skew(6));
    assert!((price_at_skew(4) - 3.0).abs() < 1e-9, "${}", price_at_skew(4));
    // Eight and six, or seven and seven: no way to do with three.
    assert!((price_at_skew(2) - 4.0).abs() < 1e-9, "${}", price_at_skew(2));
}

#[test]
fn what_was_given_up_holds_nobody_back() {
    // Every pod would like a host for itself, and to be spread over the zones of its architecture. Fourteen hosts are too dear; once all
    // wishes are given up nothing keeps the pods on the one large machine that the first pass opens.
    let apart = json!([{"weight": 1, "podAffinityTerm": {
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "shop"}},
    }}]);
    let mut manifests = vec![pool()];
    manifests.extend(pods(json!({
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": apart}},
        "topologySpreadConstraints": spread(1, "ScheduleAnyway"),
    })));
    let price = price(&manifests, &[of("five", "8", 1.0), of("many", "32", 10.0)]);
    assert!((price - 3.0).abs() < 1e-9, "${price}");
}

/// One workload's dear wish is given up; the wishes of the others that cost nothing are kept.
#[test]
fn only_what_is_too_dear_is_given_up() {
    // Twelve that would rather have a host each: twelve machines where one would do.
    let mut loners =
        pods(json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "loner"}},
            }},
        ]}}}));
    for (at, pod) in loners.iter_mut().enumerate() {
        pod["metadata"]["name"] = json!(format!("loner-{at:02}"));
        pod["metadata"]["labels"]["app"] = json!("loner");
    }
    // Fourteen that would like to spread over zones: two machines of the same kind, in one zone or in two.
    let mut manifests = vec![pool()];
    manifests.extend(pods(json!({"topologySpreadConstraints": spread(1, "ScheduleAnyway")})));
    manifests.extend(loners);
    // Seven pods fill one.
    let types = [of("seven", "10600m", 1.0)];
    let options = ["--no-lower-bound", "--node-charge=0", "--packing=cheapest"];
    let plan = support::plan(&manifests, &types, &options).expect("the input is valid");
    assert_eq!(plan["totals"]["newNodes"], 4, "{plan}");
    let in_zone = |zone: &str| -> usize {
        let nodes = plan["nodes"].as_array().into_iter().flatten().filter(|node| node["zone"] == zone);
        let pods = nodes.flat_map(|node| node["pods"].as_array().into_iter().flatten());
        pods.filter_map(Value::as_str).filter(|pod| pod.starts_with("default/p-")).count()
    };
    assert_eq!((in_zone("a"), in_zone("b")), (7, 7), "{plan}");
}
