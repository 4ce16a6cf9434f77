//! The solver on worlds small enough to work out by hand.

use serde_json::{Value, json};

use super::*;

fn instance_type(name: &str, cpu: u32, price: f64, zones: &[&str]) -> Value {
    let offerings: Vec<Value> = zones
        .iter()
        .map(|zone| {
            json!({"Price": price, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": ZONE, "operator": "In", "values": [zone]},
            ]})
        })
        .collect();
    json!({
        "name": name, "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "110"}, "offerings": offerings,
    })
}

fn pods(app: &str, count: usize, cpu: &str, more: &Value) -> Vec<Value> {
    (0..count)
        .map(|at| {
            let mut spec =
                json!({"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu}}}]});
            for (field, value) in more.as_object().into_iter().flatten() {
                spec[field] = value.clone();
            }
            json!({
                "apiVersion": "v1", "kind": "Pod", "spec": spec,
                "metadata": {"name": format!("{app}-{at}"), "namespace": "default", "labels": {"app": app}},
            })
        })
        .collect()
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}},
    })
}

fn best(pods: Vec<Vec<Value>>, types: &[Value], charge: f64) -> Option<f64> {
    let mut manifests = vec![pool()];
    manifests.extend(pods.into_iter().flatten());
    let world = World::from_manifests(&manifests, types).unwrap();
    optimum(&world, charge, MOST_PODS).unwrap().map(|cost| (cost * 1e6).round() / 1e6)
}

fn catalogue() -> Vec<Value> {
    // The larger one costs a little more per CPU. A tenth of a CPU is kept for the system.
    vec![instance_type("small", 2, 1.0, &["a", "b"]), instance_type("large", 4, 2.2, &["a", "b"])]
}

#[test]
fn small_machines_are_cheaper_until_a_node_costs_something() {
    let four = || vec![pods("x", 4, "900m", &json!({}))];
    assert_eq!(best(four(), &catalogue(), 0.0), Some(2.0));
    assert_eq!(best(four(), &catalogue(), 0.5), Some(2.7));
}

#[test]
fn pods_that_repel_each_other_have_a_machine_each() {
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}}});
    assert_eq!(best(vec![pods("x", 3, "100m", &apart)], &catalogue(), 0.0), Some(3.0));
    // Others may join them.
    let others = pods("y", 3, "100m", &json!({}));
    assert_eq!(best(vec![pods("x", 3, "100m", &apart), others], &catalogue(), 0.0), Some(3.0));
}

#[test]
fn company_keeps_a_group_on_one_machine() {
    let together = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "x"}}},
    ]}}});
    assert_eq!(best(vec![pods("x", 4, "900m", &together)], &catalogue(), 0.0), Some(2.2));
    assert_eq!(best(vec![pods("x", 5, "900m", &together)], &catalogue(), 0.0), None);
}

#[test]
fn a_spread_over_zones_needs_machines_in_both() {
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}},
    }]});
    assert_eq!(best(vec![pods("x", 2, "100m", &json!({}))], &catalogue(), 0.0), Some(1.0));
    assert_eq!(best(vec![pods("x", 2, "100m", &spread)], &catalogue(), 0.0), Some(2.0));
    let pinned = json!({"nodeSelector": {ZONE: "a"}, "topologySpreadConstraints": spread["topologySpreadConstraints"]});
    assert_eq!(best(vec![pods("x", 2, "100m", &pinned)], &catalogue(), 0.0), Some(1.0));
}

#[test]
fn what_is_not_covered_is_said() {
    let mut world = World::default();
    world.pods.resize(13, Pod::default());
    assert!(optimum(&world, 0.0, 1).unwrap_err().contains("so many pods"));
}

#[test]
fn cuts_try_every_division() {
    // Sets {a}, {b}, {a,b}: apart 2 + 3, together 4.
    assert_eq!(cuts(&[f64::INFINITY, 2.0, 3.0, 4.0], 2)[2][3], 4.0);
    let dear_together = cuts(&[f64::INFINITY, 2.0, 3.0, 6.0], 2);
    assert_eq!((dear_together[2][3], dear_together[1][3]), (5.0, 6.0));
}

#[test]
fn fewer_machines_cost_more() {
    let types = catalogue();
    let mut manifests = vec![pool()];
    manifests.extend(pods("x", 4, "900m", &json!({})));
    let world = World::from_manifests(&manifests, &types).unwrap();
    let cost = |most| optimum(&world, 0.0, most).unwrap();
    assert_eq!((cost(4), cost(2), cost(1), cost(0)), (Some(2.0), Some(2.0), Some(2.2), None));
}
