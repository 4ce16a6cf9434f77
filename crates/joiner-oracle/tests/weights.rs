//! The rule about pools of different weight on plans made by hand: a pod on the lighter pool while the heavier one has a place for it.

use joiner_oracle::checker::{Looked, Policy, check, check_weights};
use joiner_oracle::world::World;
use serde_json::{Value, json};

fn pool(name: &str, weight: i32, cpus: Option<&str>) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let limits = cpus.map_or(json!({}), |cpus| json!({"cpu": cpus}));
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "weight": weight, "limits": limits,
            "template": {"spec": {"requirements": [], "nodeClassRef": class}},
        },
    })
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

fn types() -> Vec<Value> {
    let of = |name: &str, cpus: &str, price: f64| {
        json!({
            "name": name, "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": cpus, "memory": "64Gi", "pods": "20"},
            "offerings": [{"Price": price, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]},
            ]}],
        })
    };
    vec![of("two", "2", 0.1), of("four", "4", 0.2), of("eight", "8", 0.4)]
}

/// Pods, and nodes as (pool, type, pods).
fn plan(nodes: &[(&str, &str, &[&str])]) -> Value {
    let price = |name: &str| match name {
        "two" => 0.1,
        "four" => 0.2,
        _ => 0.4,
    };
    let bought = nodes.iter().enumerate().map(|(at, (pool, instance_type, pods))| {
        json!({
            "name": format!("node-{at}"), "nodePool": pool, "instanceType": instance_type, "zone": "a",
            "capacityType": "on-demand", "pricePerHour": price(instance_type), "existing": false, "static": false,
            "pods": pods.iter().map(|pod| format!("default/{pod}")).collect::<Vec<_>>(),
            "instanceTypeOptions": [instance_type],
        })
    });
    json!({
        "apiVersion": "joiner.sh/v1alpha1", "kind": "Plan", "unschedulable": [], "nodes": bought.collect::<Vec<_>>(),
        "totals": {
            "newNodes": nodes.len(), "unschedulable": 0,
            "pods": nodes.iter().map(|(_, _, pods)| pods.len()).sum::<usize>(),
            "pricePerHour": nodes.iter().map(|(_, name, _)| price(name)).sum::<f64>(),
        },
    })
}

/// What is wrong with a plan for a heavy pool of so many CPUs, a light one, and the pods `a` of 2.8, `b` of 1.8 and `c` of 0.9 CPUs; a tenth of a CPU of every machine is for the system.
fn judged(cpus: &str, rule_book: &Value, plan: &Value) -> (Vec<String>, Looked) {
    let manifests = [
        pool("heavy", 10, Some(cpus)),
        pool("light", 1, None),
        pod("a", "2800m"),
        pod("b", "1800m"),
        pod("c", "900m"),
    ];
    let world = World::from_manifests(&manifests, &types()).expect("the world can be read");
    for plan in [rule_book, plan] {
        assert_eq!(check(&world, plan), []);
    }
    let (violations, looked) = check_weights(&world, plan, rule_book, Policy::default());
    (violations.iter().map(ToString::to_string).collect(), looked)
}

#[test]
fn other_pods_may_use_the_limit_up() {
    // By the rule book the largest pod comes first, and the small one fills its machine.
    let rule_book = plan(&[("heavy", "four", &["a", "c"]), ("light", "two", &["b"])]);
    let other = plan(&[("heavy", "two", &["b"]), ("heavy", "two", &["c"]), ("light", "four", &["a"])]);
    let (violations, looked) = judged("4", &rule_book, &other);
    assert_eq!(violations, [] as [&str; 0]);
    assert_eq!((looked.pods, looked.places), (1, 2), "the two machines that are too small for `a`");
}

#[test]
fn a_place_on_a_heavier_machine_is_not_left_empty() {
    let rule_book = plan(&[("heavy", "four", &["a", "c"]), ("light", "two", &["b"])]);
    let wasteful = plan(&[("heavy", "four", &["a"]), ("light", "four", &["b", "c"])]);
    let (violations, _) = judged("4", &rule_book, &wasteful);
    assert_eq!(
        violations,
        ["weights: is on a pool of weight 1, but would have a place on node `node-0` (pod `default/c`)"]
    );
}

#[test]
fn a_limit_that_allows_one_more_machine_is_not_left_over() {
    let rule_book = plan(&[("heavy", "four", &["a", "c"]), ("light", "two", &["b"])]);
    let wasteful = plan(&[("heavy", "two", &["b"]), ("light", "four", &["a", "c"])]);
    let (violations, _) = judged("4", &rule_book, &wasteful);
    assert_eq!(
        violations,
        [
            "weights: is on a pool of weight 1, but would have a place on a new `two` of pool `heavy` (pod `default/c`)"
        ]
    );
}

#[test]
fn where_the_rule_book_says_so_a_lighter_pool_is_used_whatever_is_free() {
    let rule_book = plan(&[("heavy", "four", &["a"]), ("light", "four", &["b", "c"])]);
    let (violations, looked) = judged("4", &rule_book, &rule_book);
    assert_eq!((violations, looked.pods), (Vec::<String>::new(), 0));
}
