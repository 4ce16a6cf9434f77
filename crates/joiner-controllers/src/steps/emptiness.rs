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
    // Cheap pods of little worth would not hold a node in the original's rule either; here any pod that needs a place does.
    if *nominated || pods.iter().any(|pod| pods::is_reschedulable(pod)) {
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
