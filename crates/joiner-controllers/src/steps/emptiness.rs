//! Nodes that nobody needs: which of them may go now. Pure; the loop carries out what comes of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use joiner_api::budget::{Allowance, Budgets};
use joiner_api::names::{self, conditions};
use joiner_api::{NodeClaim, NodePool};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::pods::{self, CachedPod};
use crate::steps::lifecycle::is_true;

/// The reason as budgets know it.
pub const REASON: &str = "Empty";

/// A node that joiner made, with what decides whether it may go.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// Its claim.
    pub claim: &'a NodeClaim,
    /// The node.
    pub node: &'a Node,
    /// Pods on it.
    pub pods: Vec<&'a CachedPod>,
    /// Pods are expected on it.
    pub nominated: bool,
    /// Dollars per hour.
    pub price: f64,
}

/// Why a node stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stays {
    /// It is not up yet, or already going.
    NotStanding,
    /// Pods are on it, or expected.
    Needed,
    /// Its pool keeps it for a while or for ever.
    NotYet,
    /// An annotation protects it: of the node, or of the pod named.
    Protected(Option<String>),
}

/// Whether a node is empty and may go, budgets aside.
pub fn judge(candidate: &Candidate, now: Timestamp) -> Result<(), Stays> {
    let Candidate { claim, node, pods, nominated, .. } = candidate;
    let going = claim.metadata.deletion_timestamp.is_some() || node.metadata.deletion_timestamp.is_some();
    if going || !is_initialised(node) || is_true(claim, conditions::INSTANCE_TERMINATING) {
        return Err(Stays::NotStanding);
    }
    if !is_true(claim, conditions::CONSOLIDATABLE) {
        return Err(Stays::NotYet);
    }
    judge_node(node, pods, *nominated, now)
}

/// The part of it that has nothing to do with a claim.
pub fn judge_node(node: &Node, pods: &[&CachedPod], nominated: bool, now: Timestamp) -> Result<(), Stays> {
    // Cheap pods of little worth would not hold a node in the original's rule either; here any pod that needs a place does.
    if nominated || pods.iter().any(|pod| pods::is_reschedulable(pod)) {
        return Err(Stays::Needed);
    }
    let marked = |annotations: &BTreeMap<String, String>| {
        annotations.get(names::DO_NOT_DISRUPT_ANNOTATION).is_some_and(|value| value == "true")
    };
    if marked(node.annotations()) {
        return Err(Stays::Protected(None));
    }
    // Daemons and mirror pods protect too.
    match pods.iter().find(|pod| pods::is_active(pod) && pods::is_protected(pod, now)) {
        Some(pod) => Err(Stays::Protected(Some(pod.name.to_string()))),
        None => Ok(()),
    }
}

/// Whether a node has been made ready for pods once.
pub fn is_initialised(node: &Node) -> bool {
    node.labels().get(names::INITIALIZED_LABEL).is_some_and(|value| value == "true")
}

/// Whether a node says that it is ready.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// How many nodes of a pool may go now, and whether its budgets allow any at all. `standing` are its nodes that were ready once, `used` those
/// of them that are going or not ready.
pub fn allowance(pool: &NodePool, standing: u64, used: u64, now: Timestamp) -> (u64, bool) {
    let budgets = pool.spec.disruption.budgets.clone().unwrap_or_else(|| vec![Default::default()]);
    let allowed = Budgets::compile(&budgets).allowed(REASON, standing, now);
    (allowed.remaining(used).as_u64(), allowed == Allowance::NOTHING && standing > 0)
}

/// The empty nodes of a pool that may go now, dearest first.
pub fn choose<'c, 'a>(empty: Vec<&'c Candidate<'a>>, allowed: u64) -> Vec<&'c Candidate<'a>> {
    let mut order = empty;
    order.sort_by(|a, b| {
        b.price.total_cmp(&a.price).then_with(|| a.claim.name_any().cmp(&b.claim.name_any()))
    });
    order.truncate(usize::try_from(allowed).unwrap_or(usize::MAX));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn object<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn claim(name: &str, conditions: &[&str]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|kind| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}))
            .collect();
        json!({"metadata": {"name": name}, "status": {"conditions": conditions},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}})
    }

    fn node() -> Value {
        json!({"metadata": {"name": "n", "labels": {"karpenter.sh/initialized": "true"}, "annotations": {}}})
    }

    fn pod(owner: &str, annotation: Option<&str>) -> Value {
        json!({"metadata": {"name": "p", "annotations": {"karpenter.sh/do-not-disrupt": annotation.unwrap_or("false")},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u"}]},
            "spec": {"containers": []}, "status": {"phase": "Running"}})
    }

    #[test]
    fn what_keeps_a_node() {
        let up = ["Initialized", "Consolidatable"];
        let with = |path: &str, value: Value| {
            let mut node = node();
            let (parent, field) = path.rsplit_once('/').unwrap();
            node.pointer_mut(parent).unwrap()[field] = value;
            node
        };
        let deletion = json!("2026-01-01T00:00:00Z");
        let protected = Stays::Protected(Some("p".to_owned()));
        let daemon = || vec![pod("DaemonSet", None)];
        type Case = (&'static str, Value, Value, Vec<Value>, bool, Option<Stays>);
        let cases: [Case; 10] = [
            ("empty", claim("c", &up), node(), vec![], false, None),
            ("only daemons", claim("c", &up), node(), daemon(), false, None),
            ("not quiet for long enough", claim("c", &up[..1]), node(), vec![], false, Some(Stays::NotYet)),
            (
                "a pod that needs a place",
                claim("c", &up),
                node(),
                vec![pod("ReplicaSet", None)],
                false,
                Some(Stays::Needed),
            ),
            ("pods are expected", claim("c", &up), node(), daemon(), true, Some(Stays::Needed)),
            (
                "not ready for pods yet",
                claim("c", &up),
                with("/metadata/labels", json!({})),
                vec![],
                false,
                Some(Stays::NotStanding),
            ),
            (
                "going",
                claim("c", &up),
                with("/metadata/deletionTimestamp", deletion),
                vec![],
                false,
                Some(Stays::NotStanding),
            ),
            (
                "its machine ends",
                claim("c", &["Consolidatable", "InstanceTerminating"]),
                node(),
                vec![],
                false,
                Some(Stays::NotStanding),
            ),
            (
                "an annotation of the node",
                claim("c", &up),
                with("/metadata/annotations", json!({"karpenter.sh/do-not-disrupt": "true"})),
                vec![],
                false,
                Some(Stays::Protected(None)),
            ),
            (
                "an annotation of a daemon",
                claim("c", &up),
                node(),
                vec![pod("DaemonSet", Some("true"))],
                false,
                Some(protected),
            ),
        ];
        for (what, claim, node, pods, nominated, stays) in cases {
            let (claim, node): (NodeClaim, Node) = (object(claim), object(node));
            let pods: Vec<CachedPod> =
                pods.into_iter().map(|pod| CachedPod::new(&object::<Pod>(pod))).collect();
            let pods = pods.iter().collect();
            let candidate = Candidate { claim: &claim, node: &node, pods, nominated, price: 1.0 };
            assert_eq!(judge(&candidate, Timestamp::UNIX_EPOCH).err(), stays, "{what}");
        }
    }

    #[test]
    fn the_dearest_go_first_and_no_more_than_allowed() {
        let claims: Vec<NodeClaim> = ["a", "b", "c", "d"].map(|name| object(claim(name, &[]))).into();
        let node: Node = object(node());
        let candidate = |at: usize, price| Candidate {
            claim: &claims[at],
            node: &node,
            pods: Vec::new(),
            nominated: false,
            price,
        };
        let all = [candidate(3, 1.0), candidate(1, 2.0), candidate(0, 1.0), candidate(2, 5.0)];
        let names = |allowed| -> Vec<String> {
            choose(all.iter().collect(), allowed).into_iter().map(|of| of.claim.name_any()).collect()
        };
        assert_eq!(names(9), ["c", "b", "a", "d"]);
        assert_eq!(names(2), ["c", "b"]);
        assert!(names(0).is_empty());
    }
}
