//! Equal input, equal plan: the documents of an input can come in any order.
//!
//! The laws of both packings turn small clusters round. Here are inputs in which ties abound: those recorded because the order once decided, the
//! clusters of the refusals, and drawn ones with many services of equal pods over types that cost nearly the same.

use std::path::{Path, PathBuf};

use joiner_oracle::checker;
use joiner_oracle::generate::services;
use joiner_oracle::world::World;
use joiner_provider_kwok::Catalogue;
use serde_json::Value;

use crate::support;

const PACKINGS: [&str; 2] = ["--packing=cheapest", "--packing=upstream"];

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The documents of a file: a JSON list, or YAML documents of which heads of scenarios are left out.
fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("readable");
    if path.extension().is_some_and(|e| e == "json") {
        return serde_json::from_str(&text).expect("a JSON list");
    }
    // One by one: the reader bounds how many documents a stream may have.
    let all = text.split("\n---\n").map(|one| one.trim_start_matches("---\n"));
    let all = all.filter(|one| one.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')));
    let all = all.map(|one| serde_saphyr::from_str::<Value>(one).expect("a YAML document"));
    all.filter(|document| document["kind"] != "Scenario").collect()
}

fn types(path: &Path) -> Vec<Value> {
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("a JSON list")
}

/// The general-purpose types of the AWS list.
fn general_types() -> Vec<Value> {
    let mut all = types(&tests().join("../../../bench/data/aws-us-west-2.json"));
    all.retain(|entry| {
        let name = entry["name"].as_str().expect("a name");
        let (family, _) = name.split_once('.').expect("a family and a size");
        let mut letters = family.chars();
        letters.next().is_some_and(|first| "cmr".contains(first))
            && letters.next().is_some_and(|generation| ('5'..='9').contains(&generation))
            && letters.all(|letter| letter.is_ascii_lowercase())
    });
    all
}

/// A fixed way to shuffle, another one for each number.
fn shuffled<T: Clone>(list: &[T], number: u64) -> Vec<T> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(number + 1);
    let mut out = list.to_vec();
    for at in (1..out.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.swap(at, (state % (at as u64 + 1)) as usize);
    }
    out
}

/// Plans an input and shuffles of it; all plans are one.
fn one_plan(name: &str, documents: &[Value], types: Option<&[Value]>, shuffles: u64, extra: &[&str]) {
    let plan = |documents: &[Value], number: Option<u64>| {
        let catalogue = match (types, number) {
            (None, _) => Catalogue::hypothetical(),
            (Some(types), number) => {
                let types = number.map_or_else(|| types.to_vec(), |number| shuffled(types, number));
                let text = serde_json::to_string(&types).expect("writable");
                Catalogue::from_text("types.json", &text).expect("valid")
            }
        };
        support::plan_on(documents, &catalogue, extra).expect("valid")
    };
    let first = plan(documents, None);
    for number in 0..shuffles {
        let other = plan(&shuffled(documents, number), Some(number));
        let price = |plan: &Value| plan["totals"]["pricePerHour"].clone();
        assert!(
            first == other,
            "{name} {extra:?}: shuffle {number} costs {}, not {}, or differs otherwise",
            price(&other),
            price(&first)
        );
    }
}

#[test]
fn thirteen_pods_in_any_order_are_one_plan() {
    let pods = documents(&tests().join("data/order/thirteen-pods.json"));
    for packing in PACKINGS {
        one_plan("thirteen pods", &pods, None, 10, &[packing]);
    }
}

#[test]
fn two_thousand_services_in_any_order_are_one_plan() {
    let services = documents(&tests().join("data/order/services-2000.yaml"));
    let types = general_types();
    assert_eq!(types.len(), 544);
    one_plan("services", &services, Some(&types), 10, &["--packing=cheapest"]);
    one_plan("services", &services, Some(&types), 2, &["--packing=upstream"]);
}

#[test]
fn the_clusters_of_the_refusals_in_any_order_are_one_plan() {
    let folder = tests().join("scenarios/refusals");
    let types = types(&folder.join("types.json"));
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("readable").map(|entry| entry.expect("readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    assert_eq!(files.len(), 22);
    for path in files {
        let name = path.file_stem().expect("named").to_string_lossy().into_owned();
        for (packing, shuffles) in PACKINGS.into_iter().zip([10, 3]) {
            one_plan(&name, &documents(&path), Some(&types), shuffles, &[packing, "--effort=0.2"]);
            let plan = support::plan(&documents(&path), &types, &[packing]).expect("valid");
            let world = World::from_manifests(&documents(&path), &types).expect("valid");
            let violations = checker::check(&world, &plan);
            assert!(violations.is_empty(), "{name} {packing}: {violations:?}");
        }
    }
}

#[test]
fn services_in_any_order_are_one_plan() {
    for seed in 0..12 {
        let drawn = services(seed);
        let name = format!("services {seed}");
        one_plan(&name, &drawn.manifests, Some(&drawn.types), 10, &["--packing=cheapest", "--effort=0.1"]);
        one_plan(&name, &drawn.manifests, Some(&drawn.types), 2, &["--packing=upstream"]);
    }
}

#[test]
fn plans_for_services_break_no_rule() {
    for seed in 100..110 {
        let drawn = services(seed);
        let world = World::from_manifests(&drawn.manifests, &drawn.types).expect("valid");
        for packing in PACKINGS {
            let plan =
                support::plan(&drawn.manifests, &drawn.types, &[packing, "--effort=0.1"]).expect("valid");
            let violations = checker::check(&world, &plan);
            assert!(violations.is_empty(), "services {seed} {packing}: {violations:?}");
        }
    }
}
