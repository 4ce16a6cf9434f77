//! Pools of different weight of which the heavier has a limit: which pods it holds, worked out by hand.

use joiner_oracle::checker::{Policy, check, check_weights};
use joiner_oracle::world::World;
use serde_json::{Value, json};

use crate::support;

/// The machines of a plan as (pool, type, pods on it), sorted.
type Machines = Vec<(String, String, usize)>;

fn pool(name: &str, weight: i32, limits: Value) -> Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"weight": weight, "limits": limits, "template": {"spec": {"requirements": [], "nodeClassRef": class}}},
    })
}

fn pods(number: usize, cpu: &str) -> Vec<Value> {
    let pod = |at: usize| {
        let requests = json!({"cpu": cpu});
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p-{at}"), "namespace": "default"},
            "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]},
        })
    };
    (0..number).map(pod).collect()
}

/// A tenth of a CPU of each is for the system.
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
    vec![of("two", "2", 0.1), of("four", "4", 0.2), of("eight", "8", 1.0)]
}

/// The cheapest plan, and what the original would pay; both are checked.
fn planned(manifests: &[Value]) -> (Machines, f64, f64) {
    let plan = |packing: &str| {
        let options = ["--no-lower-bound", "--node-charge=0", packing];
        support::plan(manifests, &types(), &options).expect("the input is valid")
    };
    let (original, cheapest) = (plan("--packing=upstream"), plan("--packing=cheapest"));
    let world = World::from_manifests(manifests, &types()).expect("the world can be read");
    assert_eq!(check(&world, &cheapest), []);
    assert_eq!(check_weights(&world, &cheapest, &original, Policy::default()).0, []);
    let text = |node: &Value, field: &str| node[field].as_str().unwrap_or_default().to_owned();
    let nodes = cheapest["nodes"].as_array().expect("nodes").iter();
    let machine = |node: &Value| {
        (text(node, "nodePool"), text(node, "instanceType"), node["pods"].as_array().map_or(0, Vec::len))
    };
    let mut machines: Machines = nodes.map(machine).collect();
    machines.sort();
    let price = |plan: &Value| plan["totals"]["pricePerHour"].as_f64().expect("a price");
    (machines, price(&cheapest), price(&original))
}

fn machines(list: &[(&str, &str, usize)]) -> Machines {
    list.iter().map(|(pool, kind, pods)| ((*pool).to_owned(), (*kind).to_owned(), *pods)).collect()
}

#[test]
fn a_limit_is_used_up_by_machines_that_are_worth_it() {
    // The original has five pods on one machine of eight CPUs. Two of four hold four of them, and use the limit up.
    let mut manifests = vec![pool("first", 10, json!({"cpu": "8"})), pool("last", 1, json!({}))];
    manifests.extend(pods(14, "1500m"));
    let (bought, price, original) = planned(&manifests);
    let first: Machines = bought.iter().filter(|(pool, _, _)| pool == "first").cloned().collect();
    assert_ne!(first, machines(&[("first", "eight", 5)]));
    assert!((price - 1.4).abs() < 1e-9, "${price}, the original ${original}");
}

#[test]
fn a_lighter_pool_is_not_used_while_the_limit_takes_more() {
    // All fit into the limit, whatever they are divided over.
    let mut manifests = vec![pool("first", 10, json!({"cpu": "100"})), pool("last", 1, json!({}))];
    manifests.extend(pods(14, "1500m"));
    let (bought, price, _) = planned(&manifests);
    assert!(bought.iter().all(|(pool, _, _)| pool == "first"), "{bought:?}");
    assert!((price - 1.4).abs() < 1e-9, "seven machines of four CPUs or fourteen of two: ${price}");
}

#[test]
fn a_pool_without_limit_keeps_its_pods() {
    let mut manifests = vec![pool("first", 10, json!({})), pool("last", 1, json!({}))];
    manifests.extend(pods(14, "1500m"));
    let (bought, _, _) = planned(&manifests);
    assert!(bought.iter().all(|(pool, _, _)| pool == "first"), "{bought:?}");
}
