//! The rule about pods refused for a limit, on plans made by hand.

use joiner_oracle::checker::{Policy, check, check_refusals};
use joiner_oracle::world::World;
use serde_json::{Value, json};

fn pool(limits: &Value, min_values: Option<u32>) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let mut requirement = json!({"key": "node.kubernetes.io/instance-type", "operator": "Exists"});
    if let Some(number) = min_values {
        requirement["minValues"] = number.into();
    }
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"limits": limits, "template": {"spec": {"requirements": [requirement], "nodeClassRef": class}}},
    })
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

fn types() -> Vec<Value> {
    let of = |name: &str, cpus: &str, memory: &str, price: f64| {
        json!({
            "name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cpus, "memory": memory, "pods": "20"},
            "offerings": [{"Price": price, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
            ]}],
        })
    };
    vec![of("two", "2", "16Gi", 0.1), of("four", "4", "8Gi", 0.2), of("eight", "8", "16Gi", 0.4)]
}

/// A plan of nodes as (type, options, pods) that refuses `late`.
fn plan(nodes: &[(&str, &[&str], &[&str])]) -> Value {
    let price = |name: &str| match name {
        "two" => 0.1,
        "four" => 0.2,
        _ => 0.4,
    };
    let bought = nodes.iter().enumerate().map(|(at, (instance_type, options, pods))| {
        json!({
            "name": format!("node-{at}"), "nodePool": "default", "instanceType": instance_type, "zone": "a",
            "capacityType": "on-demand", "pricePerHour": price(instance_type), "existing": false, "static": false,
            "pods": pods.iter().map(|pod| format!("default/{pod}")).collect::<Vec<_>>(),
            "instanceTypeOptions": options,
        })
    });
    json!({
        "apiVersion": "joiner.sh/v1alpha1", "kind": "Plan", "nodes": bought.collect::<Vec<_>>(),
        "unschedulable": [{"pod": "default/late", "reasons": [{"nodePool": "default", "code": "Limit", "message": "limit"}]}],
        "totals": {
            "newNodes": nodes.len(), "unschedulable": 1,
            "pods": nodes.iter().map(|(_, _, pods)| pods.len()).sum::<usize>() + 1,
            "pricePerHour": nodes.iter().map(|(name, _, _)| price(name)).sum::<f64>(),
        },
    })
}

/// What the rule says of a plan that the checker has nothing against: pod `a` of 1 CPU is placed, `late` of so much is not.
fn judged(pool: Value, late: &str, plan: &Value) -> Vec<String> {
    let manifests = [pool, pod("a", "1"), pod("late", late)];
    let world = World::from_manifests(&manifests, &types()).expect("the world can be read");
    assert_eq!(check(&world, plan), []);
    let (violations, looked) = check_refusals(&world, plan, Policy::default());
    assert!(looked.pods == 1 && looked.places > 0, "{looked:?}");
    violations.iter().map(ToString::to_string).collect()
}

const ALL: [&str; 3] = ["two", "four", "eight"];

#[test]
fn what_a_machine_may_become_does_not_use_up_a_limit() {
    let plan = plan(&[("two", &ALL, &["a"])]);
    let found = judged(pool(&json!({"cpu": "8"}), None), "3500m", &plan);
    assert_eq!(
        found,
        [
            "limit-has-room: is refused for a limit, but would have a place on node `node-0` (pod `default/late`)"
        ]
    );
    let found = judged(pool(&json!({"cpu": "8", "memory": "16Gi"}), None), "7500m", &plan);
    assert_eq!(found, [] as [&str; 0], "nothing beside `a`, and 16Gi are for one machine only");
}

#[test]
fn one_machine_more_and_another_type_for_the_first() {
    // 12Gi: `two` has 16, so the only place is on the same machine, and only if it is a `four`.
    let first = plan(&[("four", &["four"], &["a"])]);
    let found = judged(pool(&json!({"memory": "12Gi"}), None), "2500m", &first);
    assert_eq!(found.len(), 1, "{found:?}");
    let found = judged(pool(&json!({"memory": "12Gi"}), None), "3500m", &first);
    assert_eq!(found, [] as [&str; 0]);
}

#[test]
fn a_limit_of_nodes_leaves_only_the_machines_that_are_there() {
    let plan = plan(&[("two", &["two"], &["a"])]);
    assert_eq!(judged(pool(&json!({"nodes": "1"}), None), "3500m", &plan).len(), 1);
    assert_eq!(judged(pool(&json!({"nodes": "1"}), None), "7500m", &plan), [] as [&str; 0]);
}

#[test]
fn min_values_take_their_part_of_a_limit() {
    let plan = plan(&[("two", &["two", "four"], &["a"])]);
    let found = judged(pool(&json!({"cpu": "8"}), Some(2)), "1500m", &plan);
    assert_eq!(found.len(), 1, "the machine may be a `four` or an `eight` then: {found:?}");
    let found = judged(pool(&json!({"cpu": "7"}), Some(2)), "1500m", &plan);
    assert_eq!(found, [] as [&str; 0], "neither two machines of up to 4 nor one of up to 8");
}
