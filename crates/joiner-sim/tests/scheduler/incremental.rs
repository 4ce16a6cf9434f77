//! A scheduler that has lived through a lot answers as one that sees the same cluster for the first time.

use std::collections::{BTreeMap, BTreeSet};

use joiner_sim::object::{Fields, Key, Kind, Object};
use joiner_sim::scheduler::Verdict;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::bed::{Bed, Server};
use crate::generate::{PRIORITIES, case};

/// What an answer says, whatever the order of equals.
fn essence(verdict: Option<Verdict>) -> String {
    match verdict {
        None => "nothing".to_owned(),
        Some(Verdict::Bound { equals, .. }) => format!("{:?}", equals.into_iter().collect::<BTreeSet<_>>()),
        Some(Verdict::Refused { message, nominations, .. }) => {
            format!("{message} {:?}", nominations.into_iter().collect::<BTreeMap<_, _>>())
        }
    }
}

/// A kind of the path that a generated object is sent to.
fn kind_of(body: &Value) -> Kind {
    Kind::named(body.text(&["kind"])).expect("a kind that is watched")
}

/// What the server would fill in.
fn filled(mut object: Value, revision: &mut u64) -> Object {
    *revision += 1;
    object["metadata"]["resourceVersion"] = json!(revision.to_string());
    object["metadata"]["uid"] = json!(format!("{}-{}", object.text(&["kind"]), object.name()));
    if let Some(status) = object["status"].as_object_mut() {
        // How large an image is, the first node decides: that depends on history by intent.
        status.remove("images");
    }
    if object["kind"] == "Pod" {
        object["spec"]["schedulerName"] = json!("default-scheduler");
        let class = object.text(&["spec", "priorityClassName"]).to_owned();
        if let Some((_, value, policy)) = PRIORITIES.iter().find(|(name, ..)| *name == class) {
            object["spec"]["priority"] = json!(value);
            object["spec"]["preemptionPolicy"] = json!(policy);
        }
    }
    Object::from(object)
}

#[test]
fn an_old_scheduler_answers_as_a_new_one() {
    let mut compared = 0;
    for seed in 0..150 {
        let generated = case(seed, "n");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut revision = 0;
        let mut present: BTreeMap<Key, Object> = BTreeMap::new();
        let mut old = Bed::new(Server::embedded());
        for (name, labels) in [("n", json!({})), ("n-other", json!({"team": "blue"}))] {
            let namespace = json!({"kind": "Namespace", "metadata": {"name": name, "labels": labels}});
            present.insert(Key::new(Kind::Namespace, "", name), filled(namespace, &mut revision));
        }
        for (path, body) in &generated.objects {
            let mut body = body.clone();
            if path.contains("/namespaces/n/") {
                body["metadata"]["namespace"] = json!("n");
            }
            present.insert(Key::of(kind_of(&body), &body), filled(body, &mut revision));
        }
        let mut waiting: Vec<Value> = generated.nodes.iter().chain(&generated.bound).cloned().collect();
        let mut gone: Vec<Value> = Vec::new();
        let mut probes = generated.pods.iter().cycle();
        for _ in 0..40 {
            match random.random_range(0..10) {
                // Something comes.
                0..=4 if !waiting.is_empty() => {
                    let object = waiting.remove(random.random_range(0..waiting.len()));
                    present.insert(Key::of(kind_of(&object), &object), filled(object, &mut revision));
                }
                // Something goes, perhaps to come again.
                5 | 6 => {
                    let keys: Vec<Key> = present
                        .keys()
                        .filter(|key| matches!(key.kind, Kind::Pod | Kind::Node))
                        .cloned()
                        .collect();
                    if !keys.is_empty() {
                        let key = &keys[random.random_range(0..keys.len())];
                        gone.extend(present.remove(key).map(|object| (*object).clone()));
                    }
                }
                7 if !gone.is_empty() => {
                    let object = gone.remove(random.random_range(0..gone.len()));
                    present.insert(Key::of(kind_of(&object), &object), filled(object, &mut revision));
                }
                // Something changes.
                _ => {
                    let keys: Vec<Key> = present
                        .keys()
                        .filter(|key| matches!(key.kind, Kind::Pod | Kind::Node | Kind::Namespace))
                        .cloned()
                        .collect();
                    let key = keys[random.random_range(0..keys.len())].clone();
                    let mut object = (*present[&key]).clone();
                    match (key.kind, random.random_range(0..3)) {
                        (Kind::Pod, 0) => {
                            object["metadata"]["deletionTimestamp"] = json!("2023-11-14T00:00:00Z")
                        }
                        (Kind::Pod, _) => object["metadata"]["labels"]["app"] = json!("b"),
                        (Kind::Namespace, _) => object["metadata"]["labels"]["team"] = json!("blue"),
                        (_, 0) => object["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("z2"),
                        (_, 1) => {
                            object["spec"]["taints"] =
                                json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])
                        }
                        _ => object["status"]["allocatable"]["cpu"] = json!("3"),
                    }
                    present.insert(key, filled(object, &mut revision));
                }
            }
            old.show(present.clone());
            let probe = probes.next().expect("cases have pods").clone();
            let key = Key::of(Kind::Pod, &probe);
            let probe = filled(probe, &mut revision);
            let mut new = Bed::new(Server::embedded());
            new.show(present.clone());
            let (was, is) =
                (essence(old.ask(&key, (*probe).clone())), essence(new.ask(&key, (*probe).clone())));
            assert_eq!(was, is, "seed {seed}: {probe}");
            compared += 1;
        }
    }
    assert_eq!(compared, 150 * 40);
}
