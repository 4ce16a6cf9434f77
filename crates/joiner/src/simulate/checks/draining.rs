//! S3, S5: pods leave a node because they were asked to, and a machine ends when they have left.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Check;
use crate::simulate::happening::{
    Change, Cluster, Happening, What, is_leaving, is_owned_by, is_true, key, seconds, text,
};

/// A pod that is past the end of its deletion by so much is stuck, and nobody waits for it.
const STUCK: SignedDuration = SignedDuration::from_secs(60);

/// Watches the ends of pods and machines.
#[derive(Default)]
pub(super) struct Draining {
    /// Since when objects are being deleted, by kind and name.
    leaving: BTreeMap<(&'static str, String), Timestamp>,
}

impl Check for Draining {
    fn see(&mut self, happening: &Happening, cluster: &Cluster) -> Vec<(&'static str, String)> {
        let now = happening.at;
        match &happening.what {
            What::Changed(change) => self.note(change, now),
            What::Called(call) if call.method == "DELETE" && call.target().resource == "pods" => {
                let target = call.target();
                let Some(pod) = cluster.find("Pod", target.namespace, target.name) else { return Vec::new() };
                return self.deleted(pod, cluster, now).into_iter().collect();
            }
            What::EndAsked { machine } => return self.ended(machine, cluster, now),
            _ => {}
        }
        Vec::new()
    }
}

impl Draining {
    fn note(&mut self, change: &Change, now: Timestamp) {
        let of = (change.kind, key(&change.object));
        if change.is_gone {
            self.leaving.remove(&of);
        } else if is_leaving(&change.object) {
            self.leaving.entry(of).or_insert(now);
        }
    }

    /// How long ago the time of a claim was over; nothing if it never will be or is not yet.
    fn overdue(&self, claim: &Value, now: Timestamp) -> Option<f64> {
        let since = self.leaving.get(&("NodeClaim", key(claim)))?;
        let grace = seconds(text(&claim["spec"]["terminationGracePeriod"]))?;
        Some(now.duration_since(*since).as_secs_f64() - grace)
    }

    /// A pod is deleted by joiner, past its budget.
    fn deleted(&self, pod: &Value, cluster: &Cluster, now: Timestamp) -> Option<(&'static str, String)> {
        let node = cluster.find("Node", "", text(&pod["spec"]["nodeName"]))?;
        let claim = cluster.claim_of(text(&node["spec"]["providerID"]));
        let grace = pod["spec"]["terminationGracePeriodSeconds"].as_f64().unwrap_or(30.0);
        let is_due =
            claim.and_then(|claim| self.overdue(claim, now)).is_some_and(|overdue| overdue + grace >= -2.0);
        (!is_due).then(|| {
            let node = text(&node["metadata"]["name"]);
            (
                "S3",
                format!("pod `{}` on node `{node}` is deleted before the end of the claim's grace", key(pod)),
            )
        })
    }

    /// A machine is asked to end.
    fn ended(&self, machine: &str, cluster: &Cluster, now: Timestamp) -> Vec<(&'static str, String)> {
        let (Some(node), Some(claim)) = (cluster.node_of(machine), cluster.claim_of(machine)) else {
            return Vec::new();
        };
        let is_free = node["metadata"]["labels"]["karpenter.sh/registered"] != "true"
            || !is_true(node, "Ready")
            || self.overdue(claim, now).is_some_and(|overdue| overdue >= -2.0);
        if is_free {
            return Vec::new();
        }
        let name = text(&node["metadata"]["name"]);
        let left = cluster.pods_on(name).filter(|pod| self.is_to_leave(pod, now));
        left.map(|pod| ("S5", format!("machine `{machine}` is ended while pod `{}` runs there", key(pod))))
            .collect()
    }

    fn is_to_leave(&self, pod: &Value, now: Timestamp) -> bool {
        let is_over = ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]));
        let tolerates = |toleration: &Value| {
            let keys = [Value::Null, "".into(), "karpenter.sh/disrupted".into()];
            let effects = [Value::Null, "".into(), "NoSchedule".into()];
            let is_any = toleration["operator"] == "Exists";
            keys.contains(&toleration["key"])
                && effects.contains(&toleration["effect"])
                && (is_any || !text(&toleration["key"]).is_empty())
        };
        let is_tolerant = pod["spec"]["tolerations"].as_array().into_iter().flatten().any(tolerates);
        let grace = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
        let is_stuck = self.leaving.get(&("Pod", key(pod))).is_some_and(|since| {
            now.duration_since(*since) > SignedDuration::from_secs(grace).saturating_add(STUCK)
        });
        !is_over && !is_tolerant && !is_stuck && !is_owned_by(pod, "Node")
    }
}
