//! What holds for the cheapest packing whatever the input: prices scale, the order of the input, threads and repetition do not matter, work stays
//! within its budget, and the lists of types are as short and as cheap as asked for.

use joiner::commands::plan::Intake;
use joiner_core::decide::{self, PackingWork};
use joiner_core::plan::Plan;
use joiner_oracle::checker;
use joiner_oracle::generate::{Generated, Size, cluster};
use joiner_oracle::world::World;
use joiner_provider_kwok::Catalogue;
use serde_json::Value;

use crate::support;

/// Little effort is enough for laws, and keeps the tests quick.
const QUICK: &str = "--effort=0.1";

fn plan(generated: &Generated, extra: &[&str]) -> Value {
    let mut options = vec!["--no-lower-bound"];
    options.extend(extra);
    if !extra.iter().any(|word| word.starts_with("--packing")) {
        options.push("--packing=cheapest");
    }
    support::plan(&generated.manifests, &generated.types, &options).expect("generated clusters are valid")
}

/// The plan before it is written, for what no document shows.
fn decided(generated: &Generated, extra: &[&str]) -> Plan {
    let arguments = support::arguments(extra);
    let mut intake = Intake::new(&arguments);
    intake.read_values("manifests", generated.manifests.iter().cloned()).expect("valid");
    let types = serde_json::to_string(&generated.types).expect("values can be written");
    let catalogue = Catalogue::from_text("types.json", &types).expect("valid");
    let (lowered, _) = intake.lower(catalogue.clone());
    decide::decide(&lowered.snapshot, &joiner::commands::plan::options(&arguments))
}

/// Without overlays, which have prices of their own.
fn at_list_prices(mut generated: Generated) -> Generated {
    generated.manifests.retain(|object| object["kind"] != "NodeOverlay");
    generated
}

/// Nano-dollars per hour.
fn bill(plan: &Value) -> i64 {
    (plan["totals"]["pricePerHour"].as_f64().expect("a price") * 1e9).round() as i64
}

fn refused(plan: &Value) -> usize {
    plan["unschedulable"].as_array().expect("a list").len()
}

fn new_nodes(plan: &Value) -> Vec<&Value> {
    plan["nodes"].as_array().expect("nodes").iter().filter(|node| node["existing"] == false).collect()
}

#[test]
fn half_the_prices_give_half_the_bill() {
    let mut bought = 0;
    for seed in 0..150 {
        let generated = at_list_prices(cluster(seed, Size::Small));
        let mut halved = generated.clone();
        let types = halved.types.iter_mut();
        for offering in types.flat_map(|entry| entry["offerings"].as_array_mut().expect("offerings")) {
            let price = offering["Price"].as_f64().expect("a price");
            assert_eq!((price * 1e9).round() as i64 % 2, 0, "prices are even in nano-dollars");
            offering["Price"] = (price / 2.0).into();
        }
        let (whole, half) = (plan(&generated, &[QUICK]), plan(&halved, &[QUICK]));
        assert_eq!(bill(&whole), 2 * bill(&half), "seed {seed}");
        let machines = |plan: &Value| -> Vec<String> {
            new_nodes(plan)
                .iter()
                .map(|node| {
                    format!("{} {} {}", node["instanceType"], node["instanceTypeOptions"], node["pods"])
                })
                .collect()
        };
        assert_eq!(machines(&whole), machines(&half), "seed {seed}");
        bought += machines(&whole).len();
    }
    assert!(bought > 150);
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    for seed in 0..100 {
        let generated = cluster(seed, Size::Small);
        let mut turned = generated.clone();
        turned.manifests.reverse();
        turned.types.reverse();
        let middle = turned.types.len() / 2;
        turned.types.rotate_left(middle);
        assert_eq!(plan(&generated, &[QUICK]), plan(&turned, &[QUICK]), "seed {seed}");
    }
}

#[test]
fn equal_seeds_give_equal_plans() {
    for seed in [1, 5, 9] {
        let generated = cluster(seed, Size::Large);
        let upstream = plan(&generated, &["--effort=0"]);
        for drawn in ["--seed=0", "--seed=7", "--seed=18446744073709551615"] {
            let first = plan(&generated, &[drawn]);
            assert_eq!(first, plan(&generated, &[drawn]), "seed {seed}, {drawn}");
            // Other machines may leave room within a limit for other pods.
            let dearer = refused(&first) == refused(&upstream) && bill(&first) > bill(&upstream);
            assert!(!dearer, "seed {seed}, {drawn}: more effort, dearer plan");
        }
    }
}

#[test]
fn threads_do_not_change_the_plan() {
    let folder = std::env::temp_dir().join(format!("joiner-cheapest-threads-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    for seed in [3, 7, 11] {
        let generated = cluster(seed, Size::Large);
        let file = folder.join("manifests.json");
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": generated.manifests});
        std::fs::write(&file, list.to_string()).expect("writable");
        let outputs: Vec<Value> = ["1", "2", "7"]
            .iter()
            .map(|threads| {
                let mut arguments = support::arguments(&["--packing=cheapest", "--threads", threads]);
                arguments.filename = vec![file.clone()];
                support::plan_files(&arguments, None).expect("valid")
            })
            .collect();
        assert!(outputs.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}");
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn no_effort_is_still_no_dearer_than_the_original() {
    for seed in 0..200 {
        let generated = cluster(seed, Size::Small);
        let none = plan(&generated, &["--effort=0"]);
        let original = plan(&generated, &["--packing=upstream"]);
        let serves_more = refused(&none) < refused(&original);
        assert!(serves_more || bill(&none) <= bill(&original), "seed {seed}");
        assert!(refused(&none) <= refused(&original), "seed {seed}");
    }
}

#[test]
fn work_stays_within_its_budget() {
    let mut searched = 0;
    for seed in 0..60 {
        let generated = cluster(seed, if seed % 15 == 0 { Size::Large } else { Size::Small });
        // Pods are divided anew twice at most: with what they prefer, and without.
        let work = |effort: &str, packing: &str| {
            let plan =
                decided(&generated, &["--node-charge=0.01", "--preference-policy=Ignore", effort, packing]);
            (plan.work, plan.machines.iter().map(|machine| machine.pods.len() as u64).sum::<u64>())
        };
        let (original, _) = work("--effort=0", "--packing=upstream");
        // Without a budget there is one round of buying and one look at every bin.
        let (one_round, _) = work("--effort=0", "--packing=cheapest");
        let one_round = one_round - original;
        for factor in [0.02, 0.3] {
            let (spent, pods) = work(&format!("--effort={factor}"), "--packing=cheapest");
            let spent = spent - original;
            let budget = PackingWork::default().times(factor).at_most(pods);
            assert!(
                spent <= 2 * (budget + one_round) + original,
                "seed {seed}, effort {factor}: {spent} steps, budget {budget}, a round takes {one_round}"
            );
            searched += u64::from(spent > one_round);
        }
    }
    assert!(searched > 40, "only {searched} searches");
}

/// The lowest price of a type, whatever the zone.
fn lowest(generated: &Generated, name: &Value) -> f64 {
    let entry = generated.types.iter().find(|entry| entry["name"] == *name).expect("a type of the catalogue");
    let open =
        entry["offerings"].as_array().into_iter().flatten().filter(|offering| offering["Available"] == true);
    open.filter_map(|offering| offering["Price"].as_f64()).fold(f64::INFINITY, f64::min)
}

#[test]
fn lists_of_types_are_as_short_and_cheap_as_asked_for_and_keep_min_values() {
    let (mut listed, mut with_min_values) = (0, 0);
    for seed in 0..300 {
        let generated = at_list_prices(cluster(seed, Size::Small));
        let world = World::from_manifests(&generated.manifests, &generated.types).expect("valid");
        let wants_values: Vec<&str> = world
            .pools
            .iter()
            .filter(|pool| pool.requirements.iter().any(|expr| expr.min_values.is_some()))
            .map(|pool| pool.name.as_str())
            .collect();
        for (most, premium) in [(1, 50.0), (2, 0.0), (60, 10.0)] {
            let options = [format!("--max-instance-types={most}"), format!("--type-premium={premium}%")];
            let plan = plan(&generated, &[QUICK, &options[0], &options[1]]);
            // The checker holds the lists against minValues.
            let violations = checker::check(&world, &plan);
            assert!(violations.is_empty(), "seed {seed}, {options:?}: {violations:?}");
            for node in new_nodes(&plan) {
                let types = node["instanceTypeOptions"].as_array().expect("a list");
                let reserved = node["capacityType"] == "reserved";
                if wants_values.contains(&node["nodePool"].as_str().expect("a pool")) {
                    with_min_values += usize::from(types.len() > most);
                    continue;
                }
                if reserved {
                    continue;
                }
                listed += 1;
                assert!(
                    types.len() <= most,
                    "seed {seed}, {options:?}: {} lists {}",
                    node["name"],
                    types.len()
                );
                let price = node["pricePerHour"].as_f64().expect("a price");
                for name in types {
                    let lowest = lowest(&generated, name);
                    assert!(
                        lowest <= price * (1.0 + premium / 100.0) + 1e-9,
                        "seed {seed}, {options:?}: {} at {price} lists {name}, {lowest} at least",
                        node["name"]
                    );
                }
            }
        }
    }
    assert!(listed > 500 && with_min_values > 10, "{listed} lists, {with_min_values} longer for minValues");
}
