//! Generated clusters: whatever the world, the run ends, repeats itself, and does not depend on the order of its input.

use super::super::outcome_to_plan;
use super::*;
use crate::checker::{Policy, check_with as check_with_policy};
use crate::generate::{Size, cluster};

fn generated(seed: u64) -> World {
    let made = cluster(seed, Size::Small);
    World::from_manifests_with(&made.manifests, &made.types, made.scheduler_config.as_ref())
        .unwrap_or_else(|why| panic!("seed {seed}: {why}"))
}

/// Both policies of each kind, by seed.
fn options(seed: u64) -> Options {
    Options {
        respect_preferences: !seed.is_multiple_of(3),
        strict_min_values: seed.is_multiple_of(2),
        reserved_fallback: seed.is_multiple_of(5),
    }
}

#[test]
fn every_pending_pod_is_placed_or_refused_exactly_once() {
    let (mut placed_in_all, mut refused_in_all) = (0, 0);
    for seed in 0..300 {
        let world = generated(seed);
        let outcome = schedule(&world, &options(seed));
        let mut seen: Vec<&String> = outcome.machines.iter().flat_map(|machine| &machine.pods).collect();
        seen.extend(outcome.existing.values().flatten());
        placed_in_all += seen.len();
        refused_in_all += outcome.refused.len();
        seen.extend(outcome.refused.keys());
        seen.sort();
        let mut pending: Vec<String> = world
            .pods
            .iter()
            .filter(|pod| pod.node_name.is_none())
            .map(|pod| format!("{}/{}", pod.namespace, pod.name))
            .collect();
        pending.sort();
        assert_eq!(seen, pending.iter().collect::<Vec<_>>(), "seed {seed}");
    }
    // The clusters are worth planning: most pods find a place, a good part does not.
    assert!(placed_in_all > 3 * refused_in_all / 2, "{placed_in_all} placed, {refused_in_all} refused");
    assert!(refused_in_all * 20 > placed_in_all, "{placed_in_all} placed, {refused_in_all} refused");
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    for seed in 0..150 {
        let world = generated(seed);
        let mut turned = world.clone();
        turned.pools.reverse();
        turned.nodes.reverse();
        turned.pods.reverse();
        turned.types.reverse();
        turned.daemons.reverse();
        for ty in &mut turned.types {
            ty.offerings.reverse();
            ty.requirements.reverse();
        }
        let half = turned.pods.len() / 2;
        turned.pods.rotate_left(half);
        assert_eq!(schedule(&world, &options(seed)), schedule(&turned, &options(seed)), "seed {seed}");
    }
}

#[test]
fn the_same_world_gives_the_same_outcome() {
    for seed in 0..50 {
        assert_eq!(
            schedule(&generated(seed), &options(seed)),
            schedule(&generated(seed), &options(seed)),
            "seed {seed}"
        );
    }
}

#[test]
fn the_checker_finds_no_fault() {
    let mut faults = Vec::new();
    for seed in 0..300 {
        let world = generated(seed);
        let options = options(seed);
        let plan = outcome_to_plan(&world, &schedule(&world, &options));
        let policy = Policy { best_effort_min_values: !options.strict_min_values };
        for violation in check_with_policy(&world, &plan, policy) {
            faults.push(format!("seed {seed}: {violation}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn default_spread_limits_of_types_and_zone_labels_make_a_difference() {
    let mut changed = [0; 3];
    for seed in 0..200 {
        let made = cluster(seed, Size::Small);
        let config = made.scheduler_config.as_ref();
        let plan = |manifests: &[serde_json::Value], types: &[serde_json::Value], config| {
            let world = World::from_manifests_with(manifests, types, config).expect("readable");
            outcome_to_plan(&world, &schedule(&world, &options(seed)))
        };
        let expected = plan(&made.manifests, &made.types, config);
        if config.is_some() {
            changed[0] += usize::from(plan(&made.manifests, &made.types, None) != expected);
        }
        let mut types = made.types.clone();
        for entry in types.iter_mut().filter_map(serde_json::Value::as_object_mut) {
            entry.remove("volumeLimits");
        }
        if types != made.types {
            changed[1] += usize::from(plan(&made.manifests, &types, config) != expected);
        }
        let mut manifests = made.manifests.clone();
        for object in manifests.iter_mut().filter(|object| object["kind"] == "PersistentVolume") {
            object["metadata"]["labels"] = serde_json::Value::Null;
        }
        if manifests != made.manifests {
            changed[2] += usize::from(plan(&manifests, &made.types, config) != expected);
        }
    }
    // Of 200 clusters. Less would mean that comparing with the planner says little about these rules.
    assert!(changed[0] >= 20 && changed[1] >= 3 && changed[2] >= 3, "{changed:?}");
}
