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
    for seed in 0..300 {
        let generated = cluster(seed, Size::Small);
        let before = plan(&generated.manifests, &generated.types);
        let mut more = generated.manifests.clone();
        more.push(wide.clone());
        let after = plan(&more, &generated.types);
        // Pods bound to topology may be placed elsewhere, so only pods without any are compared one by one.
        let names = |plan: &Value| -> Vec<String> {
            plan["unschedulable"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|u| u["pod"].as_str().map(str::to_owned))
                .collect()
        };
        let (before, after) = (names(&before), names(&after));
        assert!(after.len() <= before.len(), "seed {seed}: {before:?} -> {after:?}");
    }
}
