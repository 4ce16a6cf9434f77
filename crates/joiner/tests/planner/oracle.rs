//! The fast planner and the slow reference scheduler agree to the letter on generated clusters, and the checker, which shares code with
//! neither, accepts every plan.

use joiner_oracle::generate::{Generated, Size, cluster, contested_zones};
use joiner_oracle::scheduler::{self, outcome_to_plan};
use joiner_oracle::world::World;
use serde_json::Value;

use crate::support;

/// What must be equal: machines as (pool, type, zone, capacity type, pods, options), pods on existing nodes, refused pods.
fn essence(plan: &Value) -> (Vec<String>, Vec<String>) {
    let mut nodes: Vec<String> = plan["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| {
            let listed = |field: &str| node[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            let mut pods: Vec<&str> = listed("pods").chain(listed("bufferPods")).collect();
            pods.sort_unstable();
            let place = if node["existing"] == true {
                format!("existing {}", node["name"])
            } else {
                let text = |field: &str| node[field].as_str().unwrap_or("").to_owned();
                format!(
                    "{} {} {} {} {} {}",
                    if node["static"] == true { node["name"].to_string() } else { String::new() },
                    text("nodePool"),
                    text("instanceType"),
                    text("zone"),
                    text("capacityType"),
                    node["instanceTypeOptions"]
                )
            };
            format!("{place}: {}", pods.join(" "))
        })
        .collect();
    nodes.sort_unstable();
    let mut refused: Vec<String> = plan["unschedulable"]
        .as_array()
        .expect("unschedulable")
        .iter()
        .map(|entry| entry["pod"].as_str().unwrap_or("").to_owned())
        .collect();
    refused.sort_unstable();
    (nodes, refused)
}

/// What must be equal beside places: buffers, and overlays left out.
fn remarks(plan: &Value) -> Vec<String> {
    let buffers = plan["buffers"].as_array().expect("buffers").iter().map(|buffer| {
        let number = |field: &str| buffer[field].as_u64().unwrap_or(u64::MAX);
        let [all, old, new, none] = ["replicas", "onExistingNodes", "onNewNodes", "unplaced"].map(number);
        format!("{}: {all} = {old} + {new} + {none}", buffer["buffer"])
    });
    buffers.collect()
}

fn compare(
    generated: &Generated,
    name: &str,
    respect: bool,
    strict: bool,
    fallback: bool,
) -> Result<(), String> {
    if let Ok(folder) = std::env::var("JOINER_DUMP") {
        // For a closer look: `joiner plan -f FOLDER/manifests.json --instance-types FOLDER/types.json`.
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": generated.manifests});
        std::fs::write(format!("{folder}/manifests.json"), list.to_string()).expect("writable");
        std::fs::write(format!("{folder}/types.json"), Value::Array(generated.types.clone()).to_string())
            .expect("writable");
        if let Some(config) = &generated.scheduler_config {
            std::fs::write(format!("{folder}/scheduler.json"), config.to_string()).expect("writable");
        }
    }
    let config = generated.scheduler_config.as_ref();
    let world = World::from_manifests_with(&generated.manifests, &generated.types, config)?;
    let options = scheduler::Options {
        respect_preferences: respect,
        strict_min_values: strict,
        reserved_fallback: fallback,
    };
    let expected = outcome_to_plan(&world, &scheduler::schedule(&world, &options));
    let mut extra = vec!["--no-lower-bound"];
    if !respect {
        extra.push("--preference-policy=Ignore");
    }
    if !strict {
        extra.push("--min-values-policy=BestEffort");
    }
    let file = config.map(|config| support::ConfigFile::new(name, config));
    let flag = file.as_ref().map(support::ConfigFile::flag);
    extra.extend(flag.as_deref());
    if fallback {
        extra.push("--reserved-capacity=fallback");
    }
    let plan = support::plan(&generated.manifests, &generated.types, &extra)?;
    let (expected_essence, essence) = (essence(&expected), essence(&plan));
    if expected_essence != essence {
        let only = |a: &[String], b: &[String]| {
            a.iter().filter(|x| !b.contains(x)).cloned().collect::<Vec<_>>().join("\n    ")
        };
        return Err(format!(
            "plans differ\n  only the oracle:\n    {}\n    refused {:?}\n  only the planner:\n    {}\n    refused {:?}",
            only(&expected_essence.0, &essence.0),
            expected_essence.1,
            only(&essence.0, &expected_essence.0),
            essence.1,
        ));
    }
    let (expected_remarks, got) = (remarks(&expected), remarks(&plan));
    if expected_remarks != got {
        return Err(format!("buffers differ: the oracle has {expected_remarks:?}, the planner {got:?}"));
    }
    let conflicts = plan["notes"].as_array().expect("notes").iter().filter_map(Value::as_str);
    let mut conflicts: Vec<String> = conflicts
        .filter_map(|note| {
            Some(note.strip_prefix("NodeOverlay `")?.split_once("` is left out (Conflict)")?.0.to_owned())
        })
        .collect();
    conflicts.sort_unstable();
    let mut left_out = world.overlays_left_out.clone();
    left_out.sort_unstable();
    if conflicts != left_out {
        return Err(format!("overlays left out differ: the oracle {left_out:?}, the planner {conflicts:?}"));
    }
    let price = |plan: &Value| plan["totals"]["pricePerHour"].as_f64().unwrap_or(f64::NAN);
    if (price(&plan) - price(&expected)).abs() > 1e-6 {
        return Err(format!("prices differ: the oracle {}, the planner {}", price(&expected), price(&plan)));
    }
    let policy = joiner_oracle::checker::Policy { best_effort_min_values: !strict };
    let violations = joiner_oracle::checker::check_with(&world, &plan, policy);
    if !violations.is_empty() {
        return Err(format!("the checker objects: {violations:?}"));
    }
    Ok(())
}

/// `JOINER_SEEDS=a..b` runs other seeds; a failure names the seed. `JOINER_DUMP=folder` writes the last cluster there.
pub fn seeds(default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    match std::env::var("JOINER_SEEDS") {
        Ok(text) => {
            let (from, to) = text.split_once("..").expect("JOINER_SEEDS is `from..to`");
            from.parse().expect("a number")..to.parse().expect("a number")
        }
        Err(_) => default,
    }
}

fn run(size: Size, seeds: std::ops::Range<u64>) {
    let mut failures = Vec::new();
    let total = seeds.end - seeds.start;
    for seed in seeds {
        let (respect, strict) = (seed % 3 != 0, seed % 4 != 0);
        let name = format!("{seed}-{size:?}");
        if let Err(why) = compare(&cluster(seed, size), &name, respect, strict, seed % 5 == 0) {
            failures.push(format!("seed {seed} ({size:?}): {why}"));
        }
    }
    let shown = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "{} of {total} clusters differ\n\n{shown}", failures.len());
}

#[test]
fn agrees_with_the_reference_on_tiny_clusters() {
    run(Size::Tiny, seeds(0..1500));
}

#[test]
fn agrees_with_the_reference_on_small_clusters() {
    run(Size::Small, seeds(0..1500));
}

#[test]
fn agrees_with_the_reference_on_large_clusters() {
    run(Size::Large, seeds(0..20));
}

#[test]
fn agrees_with_the_reference_where_zones_are_contested() {
    let mut failures = Vec::new();
    for seed in seeds(0..1500) {
        let generated = contested_zones(seed);
        if let Err(why) = compare(&generated, &format!("zones-{seed}"), seed % 7 != 0, seed % 6 != 0, false) {
            failures.push(format!("seed {seed} (zones): {why}"));
        }
        let world = World::from_manifests(&generated.manifests, &generated.types).expect("valid");
        let cheapest = support::plan(
            &generated.manifests,
            &generated.types,
            &["--no-lower-bound", "--packing=cheapest", "--effort=0.1"],
        );
        let violations = joiner_oracle::checker::check(&world, &cheapest.expect("valid"));
        if !violations.is_empty() {
            failures.push(format!("seed {seed} (zones): the checker objects to the cheapest packing: {violations:?}"));
        }
    }
    let shown = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "{} clusters differ\n\n{shown}", failures.len());
}
