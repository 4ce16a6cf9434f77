//! Each checker sees the bug it is there for: what happens here must not, and beside it stands what may.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use joiner::simulate::checks;
use joiner::simulate::happening::{Call, Change, Cluster, Happening, What, key};
use joiner::simulate::rest;
use serde_json::{Value, json};

const NOTHING: [&str; 0] = [];

/// What happens, told to all checkers.
struct Story {
    now: Timestamp,
    cluster: Cluster,
    checks: Vec<Box<dyn checks::Check>>,
    found: Vec<&'static str>,
}

impl Story {
    fn new() -> Self {
        let type_ = |cpu: f64| BTreeMap::from([("cpu".to_owned(), cpu)]);
        let types = BTreeMap::from([("small".to_owned(), type_(2.0)), ("large".to_owned(), type_(8.0))]);
        Self {
            now: "2026-01-05T08:00:00Z".parse().unwrap(),
            cluster: Cluster::default(),
            checks: checks::all(types),
            found: Vec::new(),
        }
    }

    fn tell(&mut self, what: What) {
        let happening = Happening { at: self.now, what };
        for check in &mut self.checks {
            let seen = check.see(&happening, &self.cluster);
            self.found.extend(seen.into_iter().map(|(invariant, _)| invariant));
        }
    }

    fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn put(&mut self, kind: &'static str, object: Value) {
        let previous = self.cluster.keyed(kind, &key(&object)).cloned().unwrap_or(Value::Null);
        let change = Change { kind, object, previous, is_gone: false };
        self.cluster.take(&change);
        self.tell(What::Changed(change));
    }

    fn call(&mut self, method: &str, path: &str, body: Value) {
        self.tell(What::Called(Call { process: 1, method: method.to_owned(), path: path.to_owned(), body }));
    }

    fn delete_claim(&mut self, name: &str) {
        self.call("DELETE", &format!("/apis/karpenter.sh/v1/nodeclaims/{name}"), Value::Null);
    }

    fn launched(&mut self, claim_uid: &str, machine: &str) {
        self.tell(What::Launched { claim_uid: claim_uid.to_owned(), machine: machine.to_owned() });
    }

    /// Ends it: which invariants were seen broken.
    fn end(mut self) -> Vec<&'static str> {
        self.found.dedup();
        self.found
    }
}

fn pool(limits: Value, budgets: Value) -> Value {
    json!({"metadata": {"name": "p", "generation": 1}, "spec": {"limits": limits, "disruption": {"budgets": budgets}}})
}

fn claim(name: &str, status: Value) -> Value {
    let types =
        json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small", "large"]});
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"karpenter.sh/nodepool": "p"}},
        "spec": {"requirements": [types], "expireAfter": "Never", "nodeClassRef": {"name": "c"}},
        "status": status,
    })
}

fn conditions(kinds: &[&str]) -> Value {
    kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect()
}

/// A claim with a node that has joined.
fn joined(story: &mut Story, name: &str, taints: Value) {
    let status = json!({
        "providerID": format!("kwok://{name}"), "capacity": {"cpu": "2"},
        "conditions": conditions(&["Launched", "Registered", "Initialized"]),
    });
    story.put("NodeClaim", claim(name, status));
    story.put("Node", node(name, taints));
}

fn node(name: &str, taints: Value) -> Value {
    let labels = json!({
        "karpenter.sh/nodepool": "p", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
    });
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": format!("kwok://{name}"), "taints": taints},
        "status": {"conditions": conditions(&["Ready"])},
    })
}

fn chosen() -> Value {
    json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": node}, "status": {"phase": "Running"}})
}

#[test]
fn s1_a_claim_too_many() {
    let buy = |limit: Value| {
        let mut story = Story::new();
        story.put("NodePool", pool(limit, json!([])));
        story.put("NodeClaim", claim("a", json!({"capacity": {"cpu": "2"}})));
        // Not launched: it may become a large one.
        story.put("NodeClaim", claim("b", json!({})));
        story.end()
    };
    assert_eq!(buy(json!({"cpu": "10"})), NOTHING);
    assert_eq!(buy(json!({"cpu": "9"})), ["S1"]);
    assert_eq!(buy(json!({"nodes": 1})), ["S1"]);
    assert_eq!(buy(Value::Null), NOTHING);
}

#[test]
fn s1_a_limit_that_was_lowered_long_ago_counts() {
    let mut story = Story::new();
    story.put("NodePool", pool(json!({"cpu": "100"}), json!([])));
    story.put("NodePool", pool(json!({"cpu": "1"}), json!([])));
    story.pass(20);
    story.put("NodeClaim", claim("a", json!({})));
    assert!(story.found.is_empty(), "it was decided before");
    story.pass(60);
    story.put("NodeClaim", claim("b", json!({})));
    assert_eq!(story.end(), ["S1"]);
}

#[test]
fn s2_more_than_the_budget_allows() {
    let remove = |budget: &str, count: usize| {
        let mut story = Story::new();
        story.put("NodePool", pool(Value::Null, json!([{"nodes": budget}])));
        for name in ["a", "b", "c", "d"] {
            joined(&mut story, name, chosen());
        }
        story.pass(300);
        for name in ["a", "b", "c", "d"].iter().take(count) {
            story.delete_claim(name);
        }
        story.end()
    };
    assert_eq!(remove("50%", 2), NOTHING);
    assert_eq!(remove("50%", 3), ["S2"]);
    assert_eq!(remove("1", 1), NOTHING);
    assert_eq!(remove("0", 1), ["S2"]);
}

#[test]
fn s2_a_node_that_is_out_counts() {
    let mut story = Story::new();
    story.put("NodePool", pool(Value::Null, json!([{"nodes": "1"}])));
    joined(&mut story, "a", chosen());
    joined(&mut story, "b", Value::Null);
    let mut silent = node("b", Value::Null);
    silent["status"]["conditions"][0]["status"] = "Unknown".into();
    story.put("Node", silent);
    story.pass(300);
    story.delete_claim("a");
    assert_eq!(story.end(), ["S2"]);
}

#[test]
fn s3_a_pod_deleted_before_its_time() {
    let delete = |grace: Value, after: i64| {
        let mut story = Story::new();
        joined(&mut story, "a", chosen());
        story.put("Pod", pod("web", "a"));
        let mut leaving = story.cluster.find("NodeClaim", "", "a").unwrap().clone();
        leaving["metadata"]["deletionTimestamp"] = "2026-01-05T08:00:00Z".into();
        leaving["spec"]["terminationGracePeriod"] = grace;
        story.put("NodeClaim", leaving);
        story.pass(after);
        story.call("DELETE", "/api/v1/namespaces/default/pods/web", Value::Null);
        story.end()
    };
    assert_eq!(delete(json!("60s"), 31), NOTHING, "the pod's own grace is 30 s");
    assert_eq!(delete(json!("60s"), 20), ["S3"]);
    assert_eq!(delete(Value::Null, 3600), ["S3"]);
}

#[test]
fn s4_what_must_not_be_disturbed() {
    let never = json!({"karpenter.sh/do-not-disrupt": "true"});
    let remove = |on_node: bool, on_pod: bool| {
        let mut story = Story::new();
        story.put("NodePool", pool(Value::Null, json!([])));
        joined(&mut story, "a", chosen());
        let (mut node, mut web) = (node("a", chosen()), pod("web", "a"));
        if on_node {
            node["metadata"]["annotations"] = never.clone();
        }
        if on_pod {
            web["metadata"]["annotations"] = never.clone();
        }
        story.put("Node", node);
        story.put("Pod", web);
        story.pass(300);
        story.delete_claim("a");
        story.end()
    };
    assert_eq!(remove(false, false), NOTHING);
    assert_eq!(remove(true, false), ["S4"]);
    assert_eq!(remove(false, true), ["S4"]);
}

#[test]
fn s5_a_machine_ended_with_pods_on_it() {
    let end = |with_pod: bool| {
        let mut story = Story::new();
        joined(&mut story, "a", chosen());
        if with_pod {
            story.put("Pod", pod("web", "a"));
        }
        story.tell(What::EndAsked { machine: "kwok://a".to_owned() });
        story.end()
    };
    assert_eq!(end(false), NOTHING);
    assert_eq!(end(true), ["S5"]);
}

#[test]
fn s6_a_claim_let_go_before_its_machine() {
    let let_go = |has_ended: bool| {
        let mut story = Story::new();
        let mut leaving = claim("a", json!({}));
        leaving["metadata"]["deletionTimestamp"] = "2026-01-05T08:00:00Z".into();
        story.put("NodeClaim", leaving);
        story.launched("uid-a", "kwok://a");
        if has_ended {
            story.tell(What::Ended { machine: "kwok://a".to_owned() });
        }
        let patch = json!({"metadata": {"finalizers": null, "resourceVersion": "1"}});
        story.call("PATCH", "/apis/karpenter.sh/v1/nodeclaims/a", patch);
        story.end()
    };
    assert_eq!(let_go(true), NOTHING);
    assert_eq!(let_go(false), ["S6"]);
}

#[test]
fn s7_two_machines_for_a_claim() {
    let mut story = Story::new();
    story.launched("uid-a", "kwok://a");
    story.launched("uid-a", "kwok://a");
    story.launched("uid-b", "kwok://b");
    assert!(story.found.is_empty());
    story.launched("uid-a", "kwok://c");
    assert_eq!(story.end(), ["S7"]);
}

#[test]
fn s8_the_machine_of_somebody_else() {
    let mut story = Story::new();
    let mut theirs = node("x", Value::Null);
    theirs["metadata"]["labels"] = json!({"theirs": "true"});
    story.put("Node", theirs);
    story.tell(What::EndAsked { machine: "kwok://x".to_owned() });
    assert_eq!(std::mem::take(&mut story.found), ["S8"]);
    story.call("DELETE", "/api/v1/nodes/x", Value::Null);
    assert_eq!(story.end(), ["S8"]);
}

#[test]
fn s9_a_node_that_was_not_chosen() {
    let mut story = Story::new();
    story.put("NodePool", pool(Value::Null, json!([])));
    joined(&mut story, "a", Value::Null);
    story.pass(300);
    story.delete_claim("a");
    assert_eq!(story.end(), ["S9"]);
}

#[test]
fn s15_drift_out_of_nothing() {
    let drift = |generation: u32| {
        let mut story = Story::new();
        story.put("NodePool", pool(Value::Null, json!([])));
        story.put("NodeClaim", claim("a", json!({"conditions": conditions(&["Launched"])})));
        let mut changed = pool(Value::Null, json!([]));
        changed["metadata"]["generation"] = generation.into();
        story.put("NodePool", changed);
        story.put("NodeClaim", claim("a", json!({"conditions": conditions(&["Launched", "Drifted"])})));
        story.end()
    };
    assert_eq!(drift(2), NOTHING);
    assert_eq!(drift(1), ["S15"]);
}

#[test]
fn s18_what_is_none_of_joiners_business() {
    let send = |method: &str, path: &str, body: Value| {
        let mut story = Story::new();
        story.call(method, path, body);
        story.end()
    };
    let node = "/api/v1/nodes/a";
    let fine = json!({"metadata": {"labels": {"a": "b"}, "resourceVersion": "1"}, "spec": {"taints": []}});
    assert_eq!(send("PATCH", node, fine), NOTHING);
    assert_eq!(send("PATCH", node, json!({"spec": {"unschedulable": true}})), ["S18"]);
    assert_eq!(send("PATCH", node, json!({"status": {}})), ["S18"]);
    assert_eq!(send("PATCH", "/apis/karpenter.sh/v1/nodepools/p", json!({"spec": {"weight": 1}})), ["S18"]);
    assert_eq!(send("PATCH", "/api/v1/namespaces/default/pods/a", json!({})), ["S18"]);
    assert_eq!(send("DELETE", "/apis/apps/v1/namespaces/default/deployments/a", Value::Null), ["S18"]);
}

/// What is found at rest in a cluster of these objects.
fn at_rest(objects: Vec<(&'static str, Value)>) -> Vec<&'static str> {
    let mut cluster = Cluster::default();
    for (kind, object) in objects {
        cluster.take(&Change { kind, object, previous: Value::Null, is_gone: false });
    }
    let now = "2026-01-05T09:00:00Z".parse().unwrap();
    let served = |pod: &Value| pod["metadata"]["labels"]["served"] == "always";
    let told = |pod: &Value| pod["metadata"]["labels"]["told"] == "yes";
    let found = rest::problems(&cluster, now, served, told);
    let mut found: Vec<&str> = found.into_iter().map(|(invariant, _)| invariant).collect();
    found.dedup();
    found
}

#[test]
fn what_must_not_be_at_rest() {
    let joined = conditions(&["Launched", "Registered", "Initialized"]);
    let status = |id: &str| json!({"providerID": id, "conditions": joined});
    let waiting = |labels: Value| {
        let metadata = json!({"name": "w", "namespace": "default", "labels": labels});
        json!({"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}})
    };
    let after = |after: &str| {
        let disruption = json!({"consolidateAfter": after, "budgets": [{"nodes": "100%"}]});
        json!({"metadata": {"name": "p"}, "spec": {"disruption": disruption}})
    };
    let fine = vec![
        ("NodePool", after("30s")),
        ("NodeClaim", claim("a", status("kwok://a"))),
        ("Node", node("a", Value::Null)),
        ("Pod", pod("web", "a")),
        ("Pod", waiting(json!({"told": "yes"}))),
    ];
    assert_eq!(at_rest(fine.clone()), NOTHING);
    let with = |kind: &'static str, object: Value| {
        let mut objects = fine.clone();
        objects.push((kind, object));
        at_rest(objects)
    };
    assert_eq!(with("Pod", waiting(json!({"served": "always"}))), ["L1"]);
    assert_eq!(with("Pod", waiting(json!({}))), ["S17"]);
    assert_eq!(with("NodeClaim", claim("b", status("kwok://b"))), ["L2"]);
    let mut old = claim("b", json!({}));
    old["metadata"]["creationTimestamp"] = "2026-01-05T08:00:00Z".into();
    assert_eq!(with("NodeClaim", old.clone()), ["L2"]);
    old["metadata"]["creationTimestamp"] = "2026-01-05T08:55:00Z".into();
    assert_eq!(with("NodeClaim", old.clone()), NOTHING, "it may still join");
    old["metadata"]["deletionTimestamp"] = "2026-01-05T08:59:00Z".into();
    assert_eq!(with("NodeClaim", old), ["L3"]);
    assert_eq!(with("Node", node("a", chosen())), ["L3"]);
    let mut foreign = fine.clone();
    foreign.extend([("Node", node("c", Value::Null)), ("Pod", pod("other", "c"))]);
    assert_eq!(at_rest(foreign), ["L2"]);
    let without_pods = |wait: &str| {
        let kept = fine.iter().filter(|(kind, _)| *kind != "Pod" && *kind != "NodePool").cloned();
        at_rest(kept.chain([("NodePool", after(wait))]).collect())
    };
    assert_eq!(without_pods("30s"), ["L4"]);
    assert_eq!(without_pods("Never"), NOTHING);
}

#[test]
fn states_are_compared_without_names() {
    let summary = |node_name: &str, taints: Value| {
        let mut cluster = Cluster::default();
        let object = node(node_name, taints);
        cluster.take(&Change { kind: "Node", object, previous: Value::Null, is_gone: false });
        rest::summary(&cluster)
    };
    assert_eq!(summary("a", Value::Null), summary("b", Value::Null));
    assert_ne!(summary("a", Value::Null), summary("a", chosen()));
}
