//! Limits bind when they bind: a pod is refused for one only if no choice of types for the machines that are planned leaves room for it.

use std::path::{Path, PathBuf};

use joiner_oracle::checker::{Looked, Policy, check_refusals, check_with};
use joiner_oracle::generate::{Generated, tight_limits};
use joiner_oracle::world::World;
use serde_json::Value;

use crate::oracle::seeds;
use crate::support;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn plan(name: &str, packing: &str) -> Value {
    let mut arguments = support::arguments(&[packing, "--no-lower-bound"]);
    arguments.filename = vec![data(name)];
    support::plan_files(&arguments, None).expect("the manifests are right")
}

fn refused(plan: &Value) -> Vec<&str> {
    let list = plan["unschedulable"].as_array().expect("unschedulable");
    list.iter().filter_map(|entry| entry["pod"].as_str()).collect()
}

fn codes<'p>(plan: &'p Value, pod: &str) -> Vec<&'p str> {
    let entries = plan["unschedulable"].as_array().into_iter().flatten();
    let reasons = entries.filter(|entry| entry["pod"] == pod).flat_map(|entry| entry["reasons"].as_array());
    reasons.flatten().filter_map(|reason| reason["code"].as_str()).collect()
}

#[test]
fn a_limit_that_is_far_away_refuses_nobody() {
    let cheapest = plan("aws/web-stack", "--packing=cheapest");
    assert_eq!(refused(&cheapest), [] as [&str; 0]);
    // The original fills the largest types, and their memory is soon the limit, whatever is planned after that. That is what it says then.
    let original = plan("aws/web-stack", "--packing=upstream");
    for pod in refused(&original) {
        assert!(
            codes(&original, pod).contains(&"Limit") && !codes(&original, pod).contains(&"MinValues"),
            "{pod}"
        );
    }
}

#[test]
fn what_machines_do_not_become_is_left_for_other_pods() {
    let cheapest = plan("limits/two-architectures.yaml", "--packing=cheapest");
    assert_eq!(refused(&cheapest), [] as [&str; 0]);
    // The original buys one machine of 16 CPUs for the nine: that is the limit.
    let original = plan("limits/two-architectures.yaml", "--packing=upstream");
    assert_eq!(refused(&original).len(), 2);
    assert_eq!(codes(&original, refused(&original)[0]), ["Limit"]);
}

struct Plans {
    world: World,
    policy: Policy,
    original: Value,
    cheapest: Value,
}

fn plans(seed: u64, generated: &Generated) -> Plans {
    let world = World::from_manifests(&generated.manifests, &generated.types).expect("the world can be read");
    let policy = Policy { best_effort_min_values: seed.is_multiple_of(4) };
    let plan = |packing| {
        let mut options = vec!["--no-lower-bound", "--effort=0.1", packing];
        if policy.best_effort_min_values {
            options.push("--min-values-policy=BestEffort");
        }
        support::plan(&generated.manifests, &generated.types, &options).expect("generated clusters are valid")
    };
    let (original, cheapest) = (plan("--packing=upstream"), plan("--packing=cheapest"));
    Plans { world, policy, original, cheapest }
}

#[test]
fn no_choice_of_types_would_serve_a_pod_that_a_limit_refuses() {
    let mut failures = Vec::new();
    let (mut looked, mut served, mut by_limit) = (Looked::default(), 0, 0);
    for seed in seeds(0..600) {
        let Plans { world, policy, original, cheapest } = plans(seed, &tight_limits(seed));
        for plan in [&original, &cheapest] {
            let violations = check_with(&world, plan, policy);
            if !violations.is_empty() {
                failures.push(format!("seed {seed}: the checker objects: {violations:?}"));
            }
        }
        let (violations, places) = check_refusals(&world, &cheapest, policy);
        looked.pods += places.pods;
        looked.places += places.places;
        if !violations.is_empty() {
            failures.push(format!("seed {seed}: {violations:?}"));
        }
        let (before, after) = (refused(&original), refused(&cheapest));
        if let Some(lost) = after.iter().find(|pod| !before.contains(pod)) {
            failures.push(format!("seed {seed}: {lost} is refused, which the original places"));
        }
        served += before.len() - after.len();
        by_limit += after.iter().filter(|pod| codes(&cheapest, pod).contains(&"Limit")).count();
    }
    let shown = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} failures\n{shown}", failures.len());
    // The rule has to have met something: pods refused, places to try them at, pods that the original's passes would leave out.
    assert!(looked.pods > 150 && looked.places > looked.pods, "{looked:?}");
    assert!(
        served > 20 && by_limit > 100,
        "{served} served beyond the original's, {by_limit} refused for a limit"
    );
}

#[test]
fn minvalues_is_no_reason_where_a_limit_is_the_cause() {
    let mut met = 0;
    for seed in seeds(0..300) {
        let generated = tight_limits(seed);
        let mut free = generated.clone();
        for object in &mut free.manifests {
            if object["kind"] == "NodePool" {
                object["spec"]["limits"] = Value::Null;
            }
        }
        let (limited, free) = (plans(seed, &generated), plans(seed, &free));
        for (plan, without) in [(&limited.original, &free.original), (&limited.cheapest, &free.cheapest)] {
            for pod in refused(plan).into_iter().filter(|pod| !refused(without).contains(pod)) {
                met += 1;
                let codes = codes(plan, pod);
                assert!(
                    codes.contains(&"Limit") && !codes.contains(&"MinValues"),
                    "seed {seed}, {pod}: {codes:?}"
                );
            }
        }
    }
    assert!(met > 100, "only {met} pods are refused for limits");
}
