//! S2, S4, S9: what is taken away without need is allowed to be, and is what was chosen.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Check;
use crate::simulate::happening::{
    Change, Cluster, Happening, What, is_leaving, is_owned_by, is_tainted, is_true, seconds, text,
};

/// A removal waits so long between its beginning and the deletion: what changes meanwhile does not undo its beginning.
const MEMORY: SignedDuration = SignedDuration::from_secs(40);

/// Watches deletions of claims that nothing but joiner's own judgement asks for.
#[derive(Default)]
pub(super) struct Disrupting {
    /// Claims whose removal joiner has begun, by uid.
    begun: BTreeSet<String>,
    /// Since when nodes are not ready, by name.
    unready: BTreeMap<String, Timestamp>,
    /// When budgets of a pool last changed.
    changed: BTreeMap<String, Timestamp>,
    /// When claims were first seen, by uid.
    seen: BTreeMap<String, Timestamp>,
}

impl Check for Disrupting {
    fn see(&mut self, happening: &Happening, cluster: &Cluster) -> Vec<(&'static str, String)> {
        let now = happening.at;
        match &happening.what {
            What::Changed(change) => {
                self.note(change, now);
                Vec::new()
            }
            What::Called(call) if call.method == "DELETE" && call.target().resource == "nodeclaims" => {
                match cluster.find("NodeClaim", "", call.target().name) {
                    Some(claim) => self.deleted(claim, cluster, now),
                    None => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }
}

impl Disrupting {
    fn note(&mut self, change: &Change, now: Timestamp) {
        let name = text(&change.object["metadata"]["name"]).to_owned();
        match change.kind {
            "Node" if change.is_gone || is_true(&change.object, "Ready") => drop(self.unready.remove(&name)),
            "Node" => drop(self.unready.entry(name).or_insert(now)),
            "NodePool" if change.previous["spec"]["disruption"] != change.object["spec"]["disruption"] => {
                self.changed.insert(name, now);
            }
            "NodeClaim" => {
                self.seen.entry(text(&change.object["metadata"]["uid"]).to_owned()).or_insert(now);
            }
            _ => {}
        }
    }

    /// A claim is about to be deleted by joiner.
    fn deleted(&mut self, claim: &Value, cluster: &Cluster, now: Timestamp) -> Vec<(&'static str, String)> {
        let uid = text(&claim["metadata"]["uid"]);
        let pool = text(&claim["metadata"]["labels"]["karpenter.sh/nodepool"]);
        let (Some(node), Some(pool)) =
            (cluster.node_of(text(&claim["status"]["providerID"])), cluster.find("NodePool", "", pool))
        else {
            return Vec::new();
        };
        let age = self.seen.get(uid).map_or(0.0, |seen| now.duration_since(*seen).as_secs_f64());
        let expires = seconds(text(&claim["spec"]["expireAfter"]));
        let is_needed = is_leaving(claim)
            || is_leaving(node)
            || is_leaving(pool)
            || !is_true(claim, "Registered")
            || !is_true(claim, "Initialized")
            || !is_true(node, "Ready")
            || expires.is_some_and(|expires| age >= expires - 2.0)
            || !pool["spec"]["replicas"].is_null();
        if is_needed || !self.begun.insert(uid.to_owned()) {
            return Vec::new();
        }
        let (claim_name, node_name) = (text(&claim["metadata"]["name"]), text(&node["metadata"]["name"]));
        let mut found = Vec::new();
        if !is_tainted(node, "karpenter.sh/disrupted") {
            found.push(("S9", format!("claim `{claim_name}` is deleted, and its node `{node_name}` was not chosen: it has no taint")));
        }
        let do_not =
            |object: &Value| object["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true";
        if do_not(node) {
            found.push(("S4", format!("node `{node_name}` must not be disrupted, and its claim is deleted")));
        }
        let is_over = |pod: &Value| ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]));
        for pod in cluster.pods_on(node_name).filter(|pod| do_not(pod) && !is_over(pod) && !is_leaving(pod)) {
            let pod = text(&pod["metadata"]["name"]);
            found.push((
                "S4",
                format!("pod `{pod}` on node `{node_name}` must not be disrupted, and the claim is deleted"),
            ));
        }
        found.extend(self.budget(pool, node, cluster, now));
        found
    }

    /// Whether the pool's budgets allow one more node to go.
    fn budget(
        &self,
        pool: &Value,
        going: &Value,
        cluster: &Cluster,
        now: Timestamp,
    ) -> Option<(&'static str, String)> {
        let name = text(&pool["metadata"]["name"]);
        if self.changed.get(name).is_some_and(|changed| now.duration_since(*changed) <= MEMORY) {
            return None;
        }
        let of_pool = |object: &Value| object["metadata"]["labels"]["karpenter.sh/nodepool"] == name;
        let counted =
            |node: &&Value| of_pool(node) && node["metadata"]["labels"]["karpenter.sh/initialized"] == "true";
        let nodes: Vec<&Value> = cluster.all("Node").filter(counted).collect();
        let is_out = |node: &&&Value| {
            let id = &node["spec"]["providerID"];
            let claim = cluster.all("NodeClaim").find(|claim| claim["status"]["providerID"] == *id);
            let uid = claim.map(|claim| text(&claim["metadata"]["uid"]));
            let begun = uid.is_some_and(|uid| self.begun.contains(uid));
            let unready = self.unready.get(text(&node["metadata"]["name"]));
            begun || unready.is_some_and(|since| now.duration_since(*since) > MEMORY)
        };
        // The one that is about to go has begun, too.
        let out = nodes.iter().filter(is_out).count();
        let node_name = text(&going["metadata"]["name"]);
        let is_of_pod = |pod: &&Value| !is_owned_by(pod, "DaemonSet") && !is_owned_by(pod, "Node");
        let is_empty = !cluster.pods_on(node_name).any(|pod| is_of_pod(&pod));
        let budgets = pool["spec"]["disruption"]["budgets"].as_array()?;
        let holds = |budget: &&Value| {
            let reasons = budget["reasons"].as_array();
            // When a schedule is in force is not judged here.
            budget["schedule"].is_null()
                && reasons.is_none_or(|reasons| is_empty && reasons.iter().any(|reason| reason == "Empty"))
        };
        let allows = |budget: &Value| {
            let text = budget["nodes"].as_str().map_or_else(|| budget["nodes"].to_string(), str::to_owned);
            match text.strip_suffix('%') {
                Some(percent) => {
                    (percent.parse::<f64>().unwrap_or(0.0) / 100.0 * nodes.len() as f64).ceil() as usize
                }
                None => text.parse().unwrap_or(0),
            }
        };
        let allowed = budgets.iter().filter(holds).map(allows).min()?;
        (out > allowed).then(|| {
            (
                "S2",
                format!(
                    "pool `{name}` allows {allowed} of {} nodes to be out, and `{node_name}` is number {out}",
                    nodes.len()
                ),
            )
        })
    }
}
