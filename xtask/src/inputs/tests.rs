//! Same seed, same bytes; and every family has the objects it promises.

use std::collections::BTreeMap;

use super::*;

const SMALL: [Contents; 4] =
    [Contents::Mix(503), Contents::Services(1_000), Contents::Preferences(100), Contents::OneMore(20)];

fn sources() -> Sources {
    Sources::read(&crate::root()).unwrap()
}

fn text(contents: Contents, seed: u64) -> String {
    let recipe =
        Recipe { name: "test", about: "", quick: true, peer: true, catalogue: Catalogue::Fake, contents };
    let mut bytes = Vec::new();
    write_manifests(&recipe, &sources(), seed, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn items(contents: Contents) -> Vec<Value> {
    let list: Value = serde_json::from_str(&text(contents, DEFAULT_SEED)).unwrap();
    assert_eq!(list["kind"], "List");
    list["items"].as_array().unwrap().clone()
}

fn kinds(items: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        *counts.entry(item["kind"].as_str().unwrap().to_owned()).or_insert(0) += 1;
    }
    counts
}

fn count(items: &[Value], holds: impl Fn(&Value) -> bool) -> usize {
    items.iter().filter(|item| holds(item)).count()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    for contents in SMALL {
        let bytes = text(contents, 7);
        assert!(bytes == text(contents, 7) && bytes != text(contents, 8), "{contents:?}");
    }
}

#[test]
fn the_published_inputs_keep_their_bytes() {
    // A change of these sums makes new figures incomparable with old ones: change them only on purpose.
    let sum = |contents| {
        text(contents, DEFAULT_SEED)
            .bytes()
            .fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
    };
    let sums: Vec<String> = SMALL.iter().map(|contents| format!("{:016x}", sum(*contents))).collect();
    assert_eq!(sums, ["4d181ea2201648b6", "868dc7ae35d5fb97", "325eddcc7290f0cb", "1bed356f5a570fdb"]);
}

#[test]
fn the_mix_has_a_fifth_of_each_kind() {
    let items = items(Contents::Mix(1_000));
    assert_eq!(kinds(&items), BTreeMap::from([("NodePool".into(), 1), ("Pod".into(), 1_000)]));
    let spread_by =
        |key: &str| count(&items, |item| item["spec"]["topologySpreadConstraints"][0]["topologyKey"] == key);
    assert_eq!(spread_by(objects::ZONE), 200);
    assert_eq!(spread_by(objects::HOSTNAME), 200);
    assert_eq!(count(&items, |item| item["spec"]["affinity"]["podAffinity"].is_object()), 200);
    assert_eq!(count(&items, |item| item["spec"]["affinity"]["podAntiAffinity"].is_object()), 200);
    assert_eq!(count(&items, |item| item["metadata"]["labels"]["app"] == "nginx"), 200);
}

#[test]
fn names_and_uids_are_unique() {
    for contents in SMALL {
        let items = items(contents);
        for field in ["name", "uid"] {
            let mut seen: Vec<String> = items
                .iter()
                .filter(|item| item["kind"] == "Pod")
                .map(|item| item["metadata"][field].as_str().unwrap().to_owned())
                .collect();
            let all = seen.len();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), all, "{contents:?}: {field}");
        }
    }
}

#[test]
fn services_have_ten_thousand_pods_of_every_kind_of_constraint() {
    let items = items(Contents::Services(10_000));
    let kinds = kinds(&items);
    assert_eq!((kinds["NodePool"], kinds["DaemonSet"], kinds["Pod"]), (3, 2, 10_000));
    let at_least = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        let found = count(&items, holds);
        assert!(found >= 100, "only {found} pods with {what}");
    };
    at_least("a toleration", &|pod| pod["kind"] == "Pod" && pod["spec"]["tolerations"].is_array());
    at_least("a node selector", &|pod| pod["spec"]["nodeSelector"].is_object());
    at_least("a spread", &|pod| pod["spec"]["topologySpreadConstraints"].is_array());
    at_least("anti-affinity", &|pod| pod["spec"]["affinity"]["podAntiAffinity"].is_object());
    at_least("node affinity", &|pod| pod["spec"]["affinity"]["nodeAffinity"].is_object());
}

#[test]
fn openb_keeps_every_row_and_rounds_gpus_up() {
    let items = items(Contents::Openb);
    assert_eq!(kinds(&items)["Pod"], 8_152);
    let gpus = |pod: &Value| pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"].clone();
    assert_eq!(count(&items, |pod| gpus(pod) == "1"), 6_989);
    assert_eq!(count(&items, |pod| pod["kind"] == "Pod" && gpus(pod).is_null()), 1_088);
}

#[test]
fn one_more_has_full_nodes_and_one_pending_pod() {
    let items = items(Contents::OneMore(100));
    assert_eq!(kinds(&items)["Node"], 100);
    let pending = |pod: &Value| pod["kind"] == "Pod" && pod["spec"]["nodeName"].is_null();
    assert_eq!(count(&items, pending), 1);
    let bound = count(&items, |pod| pod["kind"] == "Pod") - 1;
    assert!((2_800..3_000).contains(&bound), "{bound} bound pods");
}

#[test]
fn catalogues_have_the_promised_sizes() {
    let sources = sources();
    let size = |catalogue| catalogue::types(catalogue, &sources).unwrap().len();
    assert_eq!(size(Catalogue::Fake), 400);
    assert_eq!(size(Catalogue::AwsGeneral), 544);
    assert_eq!(size(Catalogue::AwsAll), 848);
    let gpu = catalogue::types(Catalogue::AwsGpu, &sources).unwrap();
    let with_gpu = count(&gpu, |entry| entry["resources"]["nvidia.com/gpu"].is_string());
    assert_eq!(gpu.len(), 544 + with_gpu);
    assert!(with_gpu > 30, "{with_gpu}");
}

#[test]
fn recipe_names_are_unique() {
    let mut names: Vec<_> = RECIPES.iter().map(|recipe| recipe.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), RECIPES.len());
}
