//! What holds for every input: the same plan for any thread count and any order of the input, limits kept, and more pools never hurt.

use joiner_oracle::generate::{Size, cluster};
use serde_json::Value;

use crate::support;

fn plan(manifests: &[Value], types: &[Value]) -> Value {
    support::plan(manifests, types, &[]).expect("generated clusters are valid")
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    for seed in 0..150 {
        let generated = cluster(seed, Size::Small);
        let mut reversed = generated.manifests.clone();
        reversed.reverse();
        let mut types = generated.types.clone();
        types.reverse();
        assert_eq!(plan(&generated.manifests, &generated.types), plan(&reversed, &types), "seed {seed}");
    }
}

#[test]
fn equal_input_gives_equal_plans() {
    for seed in 0..50 {
        let generated = cluster(seed, Size::Small);
        assert_eq!(
            plan(&generated.manifests, &generated.types),
            plan(&generated.manifests, &generated.types)
        );
    }
}

#[test]
fn threads_do_not_change_the_plan() {
    let folder = std::env::temp_dir().join(format!("joiner-threads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    for seed in [3, 7, 11] {
        let generated = cluster(seed, Size::Large);
        let file = folder.join("manifests.json");
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": generated.manifests});
        std::fs::write(&file, list.to_string()).expect("writable");
        let outputs: Vec<Value> = ["1", "2", "7"]
            .iter()
            .map(|threads| {
                let mut arguments = support::arguments(&["--threads", threads]);
                arguments.filename = vec![file.clone()];
                support::plan_files(&arguments, None).expect("valid")
            })
            .collect();
        assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}");
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_pool_without_limits_never_makes_a_pod_unschedulable() {
    let wide = serde_json::json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "aaa-wide"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}},
    });
    let (mut served, mut lost) = (0, 0);
    for seed in 0..300 {
        let generated = cluster(seed, Size::Small);
        let before = plan(&generated.manifests, &generated.types);
        let mut more = generated.manifests.clone();
        more.push(wide.clone());
        let after = plan(&more, &generated.types);
        let refused = |plan: &Value| -> Vec<Value> {
            plan["unschedulable"].as_array().into_iter().flatten().cloned().collect()
        };
        let (before, after) = (refused(&before), refused(&after));
        let is_in = |list: &[Value], entry: &Value| list.iter().any(|other| other["pod"] == entry["pod"]);
        let newly: Vec<&Value> = after.iter().filter(|entry| !is_in(&before, entry)).collect();
        // Who finds a place there can keep others away. Nothing else may cost more pods their places than find one.
        let kept_away = newly.iter().filter(|entry| {
            let reasons = entry["reasons"].as_array().expect("reasons");
            reasons.iter().any(|reason| reason["nodePool"] == "aaa-wide" && reason["code"] == "Topology")
        });
        let kept_away = kept_away.count();
        assert!(after.len() <= before.len() + kept_away, "seed {seed}: newly refused {newly:?}");
        (served, lost) = (served + before.len() + newly.len() - after.len(), lost + newly.len());
    }
    assert!(served > lost, "{served} pods are served that were refused, {lost} the other way round");
}

/// Where real pods go, by who shares a node with whom: `None` for refused ones.
fn company(plan: &Value) -> Vec<(String, Vec<String>)> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let nodes = plan["nodes"].as_array().expect("nodes").iter();
    let mut groups: Vec<(String, Vec<String>)> = nodes
        .map(|node| {
            // A new machine may become another type for the sake of a buffer, but not another pool's.
            let place = if node["existing"] == true || node["static"] == true {
                &node["name"]
            } else {
                &node["nodePool"]
            };
            (place.to_string(), texts(&node["pods"]))
        })
        .filter(|(_, pods)| !pods.is_empty())
        .collect();
    let refused = plan["unschedulable"].as_array().expect("unschedulable").iter();
    groups.push(("refused".to_owned(), refused.map(|entry| entry["pod"].to_string()).collect()));
    groups.sort();
    groups
}

#[test]
fn buffers_do_not_change_where_real_pods_go() {
    let mut with_buffers = 0;
    for seed in 0..400 {
        let generated = cluster(seed, Size::Small);
        let without: Vec<Value> =
            generated.manifests.iter().filter(|object| object["kind"] != "CapacityBuffer").cloned().collect();
        if without.len() < generated.manifests.len() {
            with_buffers += 1;
            let (a, b) = (plan(&generated.manifests, &generated.types), plan(&without, &generated.types));
            assert_eq!(company(&a), company(&b), "seed {seed}");
        }
    }
    assert!(with_buffers > 80, "only {with_buffers} clusters have buffers");
}

#[test]
fn the_lower_bound_holds_with_costs_and_static_pools() {
    let model = serde_json::json!({
        "apiVersion": "joiner.sh/v1alpha1", "kind": "CostModel", "metadata": {"name": "agreed"},
        "spec": {
            "discounts": [{"name": "spot", "percent": 10, "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            ]}],
            "perNodeFees": [{"name": "agent", "requirements": [], "pricePerHour": 0.003}],
            "commitments": [
                {"name": "paid", "nodes": 1, "pricePerHour": 0, "requirements": []},
                {"name": "cheap", "nodes": 3, "pricePerHour": 0.01, "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                ]},
            ],
        },
    });
    let (mut above_zero, mut cheaper) = (0, 0);
    for seed in 0..200 {
        let generated = cluster(seed, Size::Small);
        let listed = plan(&generated.manifests, &generated.types);
        let mut manifests = generated.manifests.clone();
        manifests.push(model.clone());
        let plan = plan(&manifests, &generated.types);
        let number = |plan: &Value, field: &str| plan["totals"][field].as_f64();
        let price = number(&plan, "pricePerHour").expect("a price");
        if let Some(bound) = number(&plan, "lowerBoundPerHour") {
            assert!(bound <= price + 1e-6, "seed {seed}: bound {bound} above {price}");
            above_zero += usize::from(bound > 0.0);
        }
        cheaper += usize::from(price < number(&listed, "pricePerHour").expect("a price"));
        // A static pool may buy other machines at other prices, and then other pods fit; so may a pool with limits, where these count what was bought.
        let by_price = |object: &Value| {
            let spec = &object["spec"];
            object["kind"] == "NodePool" && !(spec["replicas"].is_null() && spec["limits"].is_null())
        };
        if !manifests.iter().any(by_price) {
            assert!(company(&plan) == company(&listed), "seed {seed}: a price changes where pods go");
        }
    }
    assert!(above_zero > 100 && cheaper > 50, "{above_zero} bounds, {cheaper} cheaper plans");
}
