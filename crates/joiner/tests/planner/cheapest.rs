//! The cheapest packing on generated clusters: the checker accepts it, it refuses no pod that the original's strategy places, and it is
//! never dearer.

use joiner_oracle::checker::{Looked, check_weights};
use joiner_oracle::generate::{Generated, Size, cluster, limited_pools};
use joiner_oracle::world::World;
use serde_json::Value;

use crate::oracle::seeds;
use crate::support;

fn refused(plan: &Value) -> Vec<&str> {
    let list = plan["unschedulable"].as_array().expect("unschedulable");
    list.iter().filter_map(|entry| entry["pod"].as_str()).collect()
}

fn price(plan: &Value) -> f64 {
    plan["totals"]["pricePerHour"].as_f64().expect("a price")
}

fn judge(seed: u64, name: &str, generated: &Generated) -> Result<Judged, String> {
    let config = generated.scheduler_config.as_ref();
    let world = World::from_manifests_with(&generated.manifests, &generated.types, config)?;
    let file = config.map(|config| support::ConfigFile::new(&format!("cheapest-{seed}-{name}"), config));
    let flag = file.as_ref().map(support::ConfigFile::flag);
    let strict = !seed.is_multiple_of(4);
    let plan = |packing: &str| {
        let mut options = vec!["--no-lower-bound", "--effort=0.1", packing];
        if seed.is_multiple_of(3) {
            options.push("--preference-policy=Ignore");
        }
        if !strict {
            options.push("--min-values-policy=BestEffort");
        }
        if seed.is_multiple_of(5) {
            options.push("--reserved-capacity=fallback");
        }
        options.extend(flag.as_deref());
        support::plan(&generated.manifests, &generated.types, &options)
    };
    let (original, cheapest) = (plan("--packing=upstream")?, plan("--packing=cheapest")?);
    let policy = joiner_oracle::checker::Policy { best_effort_min_values: !strict };
    let violations = joiner_oracle::checker::check_with(&world, &cheapest, policy);
    if !violations.is_empty() {
        return Err(format!("the checker objects: {violations:?}"));
    }
    let before = refused(&original);
    let lost: Vec<&str> = refused(&cheapest).into_iter().filter(|pod| !before.contains(pod)).collect();
    if !lost.is_empty() {
        return Err(format!("refuses what the original places: {lost:?}"));
    }
    // Who serves more pods may pay more.
    if refused(&cheapest).len() == before.len() && price(&cheapest) > price(&original) + 1e-9 {
        return Err(format!("${} where the original pays ${}", price(&cheapest), price(&original)));
    }
    let mut looked = Looked::default();
    if cheapest["totals"]["preferencesWouldCostPercent"].is_null() {
        let (violations, places) = check_weights(&world, &cheapest, &original, policy);
        if !violations.is_empty() {
            return Err(format!("a lighter pool though a heavier one is not used up: {violations:?}"));
        }
        looked = places;
    }
    Ok(Judged { price: price(&cheapest), original: price(&original), looked })
}

struct Judged {
    price: f64,
    original: f64,
    looked: Looked,
}

fn run(name: &str, seeds: std::ops::Range<u64>, draw: impl Fn(u64) -> Generated) -> Looked {
    let mut failures = Vec::new();
    let (mut paid, mut original) = (0.0, 0.0);
    let mut looked = Looked::default();
    for seed in seeds {
        match judge(seed, name, &draw(seed)) {
            Ok(judged) => {
                paid += judged.price;
                original += judged.original;
                looked.pods += judged.looked.pods;
                looked.places += judged.looked.places;
            }
            Err(why) => failures.push(format!("seed {seed} ({name}): {why}")),
        }
    }
    let shown = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "{} clusters fail\n\n{shown}", failures.len());
    assert!(paid < original, "${paid} in all where the original pays ${original}");
    looked
}

#[test]
fn is_right_and_no_dearer_on_tiny_clusters() {
    run("tiny", seeds(0..600), |seed| cluster(seed, Size::Tiny));
}

#[test]
fn is_right_and_no_dearer_on_small_clusters() {
    run("small", seeds(0..400), |seed| cluster(seed, Size::Small));
}

#[test]
fn is_right_and_no_dearer_on_large_clusters() {
    run("large", seeds(0..6), |seed| cluster(seed, Size::Large));
}

#[test]
fn heavier_pools_are_used_up_before_lighter_ones() {
    let looked = run("limited", seeds(0..150), limited_pools);
    // The rule has to have met something: pods that went to a lighter pool, and places on heavier ones to try them at.
    assert!(looked.pods > 100 && looked.places > looked.pods, "{looked:?}");
}
