//! A cluster at rest: what it has come to, up to names and equal prices, and what must hold then.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::simulate::expect::price_per_hour;
use crate::simulate::happening::{Cluster, is_leaving, is_owned_by, is_tainted, is_true, key, text};

/// What a cluster has come to, one fact per line: equal texts are equal states up to names and choices of equal price.
pub fn summary(cluster: &Cluster) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = |line: String| *counts.entry(line).or_default() += 1;
    let pool = |object: &Value| text(&object["metadata"]["labels"]["karpenter.sh/nodepool"]).to_owned();
    let word = |is: bool, word: &str| if is { format!(" {word}") } else { String::new() };
    for claim in cluster.all("NodeClaim") {
        let states = ["Launched", "Registered", "Initialized", "DrainBlocked"];
        let states: String = states.iter().map(|state| word(is_true(claim, state), state)).collect();
        count(format!("claim of {}{states}{}", pool(claim), word(is_leaving(claim), "leaving")));
    }
    for node in cluster.all("Node") {
        let words = [
            word(is_true(node, "Ready"), "ready"),
            word(node["metadata"]["labels"]["karpenter.sh/initialized"] == "true", "initialized"),
            word(is_tainted(node, "karpenter.sh/disrupted"), "disrupted"),
            word(is_leaving(node), "leaving"),
        ];
        count(format!("node of {}{}", pool(node), words.concat()));
    }
    for pod in cluster.all("Pod") {
        let metadata = &pod["metadata"];
        let app = text(&metadata["labels"]["app"]);
        let app = if app.is_empty() { text(&metadata["name"]) } else { app };
        let is_bound = !text(&pod["spec"]["nodeName"]).is_empty();
        let words =
            [word(is_bound, "bound"), word(is_true(pod, "Ready"), "ready"), word(is_leaving(pod), "leaving")];
        count(format!(
            "pod {}/{app} {}{}",
            text(&metadata["namespace"]),
            text(&pod["status"]["phase"]),
            words.concat()
        ));
    }
    for pool in cluster.all("NodePool") {
        let conditions = pool["status"]["conditions"].as_array().into_iter().flatten();
        let mut told: Vec<String> = conditions
            // Whether a machine was given up on the way depends on what happened, not on where it ended.
            .filter(|condition| condition["type"] != "NodeRegistrationHealthy")
            .map(|condition| {
                format!(
                    " {}={}/{}",
                    text(&condition["type"]),
                    text(&condition["status"]),
                    text(&condition["reason"])
                )
            })
            .collect();
        told.sort();
        count(format!(
            "pool {}{}{}",
            text(&pool["metadata"]["name"]),
            told.concat(),
            word(is_leaving(pool), "leaving")
        ));
    }
    let nodes: Vec<Value> = cluster.all("Node").cloned().collect();
    let mut lines: Vec<String> = counts.into_iter().map(|(line, count)| format!("{count} {line}")).collect();
    lines.push(format!("${:.4}/h", price_per_hour(&nodes)));
    lines.join("\n")
}

/// What a cluster must be when faults have been over for long: by invariant, what is wrong. `is_servable` says of a pod whether some machine would take it.
pub fn problems(
    cluster: &Cluster,
    now: Timestamp,
    is_servable: impl Fn(&Value) -> bool,
    is_told: impl Fn(&Value) -> bool,
) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let is_over = |pod: &Value| ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]));
    for pod in cluster.all("Pod").filter(|pod| !is_over(pod) && !is_leaving(pod)) {
        let is_bound = !text(&pod["spec"]["nodeName"]).is_empty();
        match (is_bound, is_servable(pod)) {
            (false, true) => {
                found.push(("L1", format!("pod `{}` has no place, and a machine would take it", key(pod))))
            }
            (false, false) if !is_told(pod) => {
                found.push(("S17", format!("pod `{}` has no place, and nobody says why", key(pod))));
            }
            _ => {}
        }
    }
    for claim in cluster.all("NodeClaim") {
        let name = text(&claim["metadata"]["name"]);
        let id = text(&claim["status"]["providerID"]);
        let node = cluster.node_of(id);
        let is_held = node.is_some_and(|node| is_held(cluster, node));
        match (is_leaving(claim), node) {
            (true, _) if is_held => {}
            (true, _) => found.push(("L3", format!("claim `{name}` is leaving and does not go"))),
            (false, None) if is_true(claim, "Registered") => {
                found.push(("L2", format!("claim `{name}` has no machine, and stays")));
            }
            (false, _)
                if !is_true(claim, "Registered") && age(claim, now) > SignedDuration::from_mins(17) =>
            {
                found.push(("L2", format!("claim `{name}` has not registered, and stays")));
            }
            _ => {}
        }
    }
    for node in cluster.all("Node") {
        let name = text(&node["metadata"]["name"]);
        let id = text(&node["spec"]["providerID"]);
        if !id.starts_with("kwok://") {
            continue;
        }
        let claim = cluster.claim_of(id);
        if claim.is_none() && !is_held(cluster, node) {
            found.push(("L2", format!("node `{name}` has no claim, and stays")));
        }
        let is_going = is_leaving(node) || claim.is_some_and(is_leaving);
        if is_tainted(node, "karpenter.sh/disrupted") && !is_going {
            found.push(("L3", format!("node `{name}` is marked for removal and is not removed")));
        }
        if is_going && !is_held(cluster, node) {
            found.push(("L3", format!("node `{name}` is leaving and does not go")));
        }
    }
    found.extend(empty_nodes(cluster));
    found
}

/// How old an object is.
fn age(object: &Value, now: Timestamp) -> SignedDuration {
    let made = text(&object["metadata"]["creationTimestamp"]).parse::<Timestamp>();
    made.map_or(SignedDuration::ZERO, |made| now.duration_since(made))
}

/// Whether a pod on a node may hold it for ever: it is under a budget, or must not be disrupted.
fn is_held(cluster: &Cluster, node: &Value) -> bool {
    cluster.pods_on(text(&node["metadata"]["name"])).any(|pod| {
        let namespace = text(&pod["metadata"]["namespace"]);
        let labels = &pod["metadata"]["labels"];
        let is_budgeted = cluster.all("PodDisruptionBudget").any(|budget| {
            let selected = budget["spec"]["selector"]["matchLabels"].as_object();
            let is_chosen = selected
                .is_some_and(|selected| selected.iter().all(|(name, value)| labels[name.as_str()] == *value));
            text(&budget["metadata"]["namespace"]) == namespace
                && is_chosen
                && budget["status"]["disruptionsAllowed"] == 0
        });
        is_budgeted || pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    })
}

/// L4: nodes that are empty, may go and stay. Pools whose budgets hold something back are not judged.
fn empty_nodes(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for node in cluster.all("Node") {
        let name = text(&node["metadata"]["name"]);
        let Some(pool) =
            cluster.find("NodePool", "", text(&node["metadata"]["labels"]["karpenter.sh/nodepool"]))
        else {
            continue;
        };
        let disruption = &pool["spec"]["disruption"];
        let budgets = disruption["budgets"].as_array();
        let is_free = budgets.is_none_or(|budgets| {
            budgets.iter().all(|budget| budget["schedule"].is_null() && text(&budget["nodes"]) == "100%")
        });
        let is_kept = text(&disruption["consolidateAfter"]) == "Never"
            || !is_free
            || !pool["spec"]["replicas"].is_null()
            || node["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
            || node["metadata"]["labels"]["karpenter.sh/initialized"] != "true"
            || is_leaving(node);
        let counts = |pod: &&Value| !is_owned_by(pod, "DaemonSet") && !is_owned_by(pod, "Node");
        if !is_kept && !cluster.pods_on(name).any(|pod| counts(&pod)) {
            found.push(("L4", format!("node `{name}` has been empty for long, and stays")));
        }
    }
    found
}
