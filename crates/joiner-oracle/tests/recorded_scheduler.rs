//! The checker against the real kube-scheduler: every recorded placement must pass, every refusal must be found, node by node and for the
//! same reason.

use std::collections::{BTreeMap, BTreeSet};

use joiner_oracle::checker::{Violation, check};
use joiner_oracle::world::World;
use serde_json::{Value, json};

/// Cases about things a plan checker has no part in.
const SKIPPED: [(&str, &str); 3] = [
    (
        "match fields name",
        "`matchFields` is refused before packing by design, while kube-scheduler honours it",
    ),
    (
        "wait for first consumer with one local volume",
        "binding an unbound claim to a pre-made volume is the volume controller's choice; the rule book resolves such a claim by its class",
    ),
    ("other scheduler is left alone", "which scheduler a pod names is not a rule of placement"),
];

/// kube-scheduler's filters in the order it runs them, our rules for each, and its words.
const FILTERS: [(&str, &[&str]); 8] = [
    ("node(s) were unschedulable", &["node-closed"]),
    ("node(s) had untolerated taint(s)", &["taints"]),
    ("node(s) didn't match Pod's node affinity/selector", &["node-affinity"]),
    ("node(s) didn't have free ports for the requested pod ports", &["host-ports"]),
    ("Insufficient", &["resources"]),
    ("node(s) didn't match PersistentVolume's node affinity", &["volume-topology"]),
    ("node(s) didn't match pod topology spread constraints", &["spread", "spread-missing-key"]),
    ("affinity rules", &["anti-affinity", "pod-affinity"]),
];

struct Case {
    name: String,
    manifests: Vec<Value>,
    nodes: Vec<String>,
    pods: Vec<Value>,
}

fn with_namespace(mut object: Value) -> Value {
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!("case");
    }
    object
}

fn read_case(case: &Value) -> Case {
    let list = |field: &str| case[field].as_array().cloned().unwrap_or_default();
    let mut manifests = list("nodes");
    let nodes =
        manifests.iter().map(|node| node["metadata"]["name"].as_str().expect("name").to_owned()).collect();
    for name in list("namespaces") {
        manifests.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
    for object in list("objects") {
        let body = object["body"].clone();
        manifests.push(if body["kind"] == "PersistentVolumeClaim" { with_namespace(body) } else { body });
    }
    manifests.extend(list("bound").into_iter().map(with_namespace));
    let pods = list("pods").into_iter().map(with_namespace).collect();
    Case { name: case["name"].as_str().expect("name").to_owned(), manifests, nodes, pods }
}

/// Violations of putting one more pod on a node, the earlier ones already bound.
fn judge(case: &Case, bound: &[(Value, String)], pod: &Value, node: &str) -> Vec<Violation> {
    let mut manifests = case.manifests.clone();
    for (earlier, node) in bound {
        let mut earlier = earlier.clone();
        earlier["spec"]["nodeName"] = json!(node);
        manifests.push(earlier);
    }
    manifests.push(pod.clone());
    let world = World::from_manifests(&manifests, &[]).unwrap_or_else(|why| panic!("{}: {why}", case.name));
    let name = format!("case/{}", pod["metadata"]["name"].as_str().expect("name"));
    check(&world, &plan(&[(node, vec![name])]))
}

fn plan(nodes: &[(&str, Vec<String>)]) -> Value {
    let pods: usize = nodes.iter().map(|(_, pods)| pods.len()).sum();
    let nodes: Vec<Value> =
        nodes.iter().map(|(name, pods)| json!({"name": name, "existing": true, "pods": pods})).collect();
    json!({
        "apiVersion": "joiner.sh/v1alpha1", "kind": "Plan", "nodes": nodes, "unschedulable": [],
        "totals": {"newNodes": 0, "pricePerHour": 0.0, "lowerBoundPerHour": null, "pods": pods, "unschedulable": 0},
    })
}

/// Per filter, how many nodes it ruled out, as the message tells it. A node short of two resources appears twice there.
fn told(message: &str) -> BTreeMap<usize, usize> {
    let reasons = message.split_once("nodes are available: ").map_or("", |(_, rest)| rest);
    let reasons = reasons.split(" preemption:").next().unwrap_or_default();
    let reasons = reasons.split(". ").next().unwrap_or_default().trim_end_matches('.');
    let mut counts = BTreeMap::new();
    for part in reasons.split(", ") {
        let number: usize = part.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let words = if part.contains("Too many pods") { "Insufficient" } else { part };
        if let Some(filter) = FILTERS.iter().position(|(text, _)| words.contains(text)) {
            *counts.entry(filter).or_insert(0) += number;
        }
    }
    counts
}

#[test]
fn placements_and_refusals_agree() {
    let skipped: BTreeSet<&str> = SKIPPED.iter().map(|(name, _)| *name).collect();
    let (mut cases, mut placed, mut refused, mut reasons) = (0, 0, 0, 0);
    for line in include_str!("data/scheduler.jsonl").lines() {
        let record: Value = serde_json::from_str(&line.replace("${NS}", "case")).expect("test data is JSON");
        let case = read_case(&record);
        if skipped.contains(case.name.as_str()) {
            continue;
        }
        cases += 1;
        for outcome in record["expect"]["outcomes"].as_array().expect("outcomes") {
            let mut bound: Vec<(Value, String)> = Vec::new();
            for pod in &case.pods {
                let name = pod["metadata"]["name"].as_str().expect("name");
                let result = &outcome[name];
                if pod["spec"]["nodeName"].is_string() {
                    continue; // never scheduled
                }
                if let Some(node) = result["node"].as_str() {
                    let violations = judge(&case, &bound, pod, node);
                    assert!(violations.is_empty(), "{}: `{name}` on `{node}`: {violations:#?}", case.name);
                    for equal in
                        record["equal"][name].as_array().into_iter().flatten().filter_map(Value::as_str)
                    {
                        // Later pods of a case meet another state than the one the list was written for.
                        if bound.is_empty() {
                            let violations = judge(&case, &bound, pod, equal);
                            assert!(
                                violations.is_empty(),
                                "{}: `{name}` on `{equal}`: {violations:#?}",
                                case.name
                            );
                        }
                    }
                    bound.push((pod.clone(), node.to_owned()));
                    placed += 1;
                    continue;
                }
                refused += 1;
                let mut found: BTreeMap<usize, usize> = BTreeMap::new();
                let message = result["message"].as_str().unwrap_or_default();
                for node in &case.nodes {
                    let violations = judge(&case, &bound, pod, node);
                    assert!(!violations.is_empty(), "{}: `{name}` on `{node}` passes; {message}", case.name);
                    let rules: BTreeSet<&str> = violations.iter().map(|violation| violation.rule).collect();
                    let first =
                        FILTERS.iter().position(|(_, ours)| ours.iter().any(|rule| rules.contains(rule)));
                    match first {
                        // As kube-scheduler does, name every resource that is short.
                        Some(filter) => *found.entry(filter).or_insert(0) += 1,
                        // Turned away before any filter: gates (no longer waiting) and broken volumes.
                        None => assert!(
                            rules.contains("pod-unknown") || rules.contains("pod-refused"),
                            "{}: {rules:?}",
                            case.name
                        ),
                    }
                }
                let told = told(message);
                let twice = case.name == "both short on one node";
                if !twice {
                    assert_eq!(found, told, "{}: {message}", case.name);
                    reasons += 1;
                }
            }
            // The whole outcome as one plan, to exercise the search for an order.
            if bound.len() > 1 {
                let mut manifests = case.manifests.clone();
                manifests.extend(bound.iter().map(|(pod, _)| pod.clone()));
                let world = World::from_manifests(&manifests, &[]).expect("read before");
                let mut nodes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
                for (pod, node) in &bound {
                    let name = format!("case/{}", pod["metadata"]["name"].as_str().expect("name"));
                    nodes.entry(node).or_default().push(name);
                }
                let violations = check(&world, &plan(&nodes.into_iter().collect::<Vec<_>>()));
                assert!(violations.is_empty(), "{}: {violations:#?}", case.name);
            }
        }
    }
    assert_eq!(cases, 93 - SKIPPED.len());
    assert!(
        placed > 50 && refused > 30 && reasons > 28,
        "{placed} placed, {refused} refused, {reasons} reasons"
    );
}
