//! Nodes and the claims they came from, and which belongs to which.
//!
//! By the rule of [`pairing`](crate::pairing), with indexes: the results of [`pair`](crate::pairing::pair), one by one. A claim that names no
//! node names the one of its own name: in files written by hand a claim without status is often called so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_api::NodeClaim;
use k8s_openapi::api::core::v1::Node;

use crate::changes::Changes;
use crate::node_digest::{ClaimDigest, NodeDigest};
use crate::pairing::{ClaimKey, NodeKey, is_machine_of};
use crate::problem::Problem;

/// Nodes and claims by name, and by what brings them together.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    pub nodes: BTreeMap<String, Arc<NodeDigest>>,
    pub claims: BTreeMap<String, Arc<ClaimDigest>>,
    /// Nodes by provider id.
    nodes_by_id: Index,
    /// Claims by the node name in their status.
    claims_by_node: Index,
    /// Claims by provider id.
    claims_by_id: Index,
}

/// Names by something they share.
#[derive(Debug, Default)]
struct Index(BTreeMap<Box<str>, BTreeSet<String>>);

impl Index {
    fn of(&self, key: &str) -> impl DoubleEndedIterator<Item = &String> {
        self.0.get(key).into_iter().flatten()
    }

    fn set(&mut self, name: &str, before: Option<&str>, now: Option<&str>) {
        if before == now {
            return;
        }
        if let Some(before) = before
            && let Some(names) = self.0.get_mut(before)
        {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(before);
            }
        }
        if let Some(now) = now {
            self.0.entry(now.into()).or_default().insert(name.to_owned());
        }
    }
}

impl Machines {
    /// Takes a node in; true if there was one of that name.
    pub(crate) fn add_node(
        &mut self,
        name: &str,
        node: &Node,
        changes: &mut Changes,
    ) -> Result<bool, Problem> {
        let digest = NodeDigest::new(node).map_err(|finding| finding.on("Node", name, ""))?;
        let before = self.nodes.get(name);
        let replaces = before.is_some();
        if before.is_none_or(|before| **before != digest) {
            self.put_node(name, Some(digest), changes);
        }
        Ok(replaces)
    }

    /// A node is gone.
    pub(crate) fn remove_node(&mut self, name: &str, changes: &mut Changes) {
        if self.nodes.contains_key(name) {
            self.put_node(name, None, changes);
        }
    }

    fn put_node(&mut self, name: &str, now: Option<NodeDigest>, changes: &mut Changes) {
        let now = now.map(Arc::new);
        let before = match &now {
            Some(now) => self.nodes.insert(name.to_owned(), now.clone()),
            None => self.nodes.remove(name),
        };
        let ids = [&before, &now].map(|node| node.as_ref().and_then(|node| node.provider_id.as_deref()));
        self.nodes_by_id.set(name, ids[0], ids[1]);
        changes.nodes.insert(name.to_owned());
        // Claims may find or lose their node, and with it other nodes theirs.
        let mut claims: BTreeSet<String> = self.claims_by_node.of(name).cloned().collect();
        claims.extend(ids.into_iter().flatten().flat_map(|id| self.claims_by_id.of(id)).cloned());
        claims.extend(self.claims.contains_key(name).then(|| name.to_owned()));
        changes.nodes.extend(ids.into_iter().flatten().flat_map(|id| self.nodes_by_id.of(id)).cloned());
        // A claim may have stood for the node of its own name.
        changes.nodes.extend(claims.iter().cloned());
        for claim in &claims {
            if let Some(claim) = self.claims.get(claim) {
                self.touch_nodes_of(claim, changes);
            }
        }
        changes.claims_of_machines.extend(claims);
    }

    /// Something else about the node of a name has changed, whether it has joined or not.
    pub(crate) fn touch(&self, node: &str, changes: &mut Changes) {
        changes.nodes.insert(node.to_owned());
        changes.claims_of_machines.insert(node.to_owned());
        changes.claims_of_machines.extend(self.claims_by_node.of(node).cloned());
    }

    /// All nodes that a claim may mean.
    fn touch_nodes_of(&self, claim: &ClaimDigest, changes: &mut Changes) {
        changes.nodes.extend(claim.node_name.as_deref().map(str::to_owned));
        let by_id = claim.provider_id.as_deref().into_iter().flat_map(|id| self.nodes_by_id.of(id));
        changes.nodes.extend(by_id.cloned());
    }

    /// Takes a claim in; true if there was one of that name.
    pub(crate) fn add_claim(
        &mut self,
        name: &str,
        claim: &NodeClaim,
        changes: &mut Changes,
    ) -> Result<bool, Problem> {
        let digest = ClaimDigest::new(claim).map_err(|finding| finding.on("NodeClaim", name, ""))?;
        let before = self.claims.get(name);
        let replaces = before.is_some();
        if before.is_none_or(|before| **before != digest) {
            self.put_claim(name, Some(digest), changes);
        }
        Ok(replaces)
    }

    /// A claim is gone.
    pub(crate) fn remove_claim(&mut self, name: &str, changes: &mut Changes) {
        if self.claims.contains_key(name) {
            self.put_claim(name, None, changes);
        }
    }

    fn put_claim(&mut self, name: &str, now: Option<ClaimDigest>, changes: &mut Changes) {
        let now = now.map(Arc::new);
        let before = match &now {
            Some(now) => self.claims.insert(name.to_owned(), now.clone()),
            None => self.claims.remove(name),
        };
        let ids = [&before, &now].map(|claim| claim.as_ref().and_then(|claim| claim.provider_id.as_deref()));
        let nodes = [&before, &now].map(|claim| claim.as_ref().and_then(|claim| claim.node_name.as_deref()));
        self.claims_by_id.set(name, ids[0], ids[1]);
        self.claims_by_node.set(name, nodes[0], nodes[1]);
        changes.claims_of_machines.insert(name.to_owned());
        changes.nodes.insert(name.to_owned());
        for claim in before.iter().chain(&now) {
            self.touch_nodes_of(claim, changes);
        }
    }

    /// The node of a claim.
    pub(crate) fn node_of(&self, name: &str, claim: &ClaimDigest) -> Option<&str> {
        let (provider_id, node_name) =
            (claim.provider_id.as_deref(), claim.node_name.as_deref().or(Some(name)));
        let key = ClaimKey { name, provider_id, node_name };
        let named = node_name.and_then(|node| self.nodes.get_key_value(node)).filter(|(name, node)| {
            is_machine_of(key, NodeKey { name, provider_id: node.provider_id.as_deref() })
        });
        let has_id = named.is_some_and(|(_, node)| node.provider_id.is_some());
        let by_id = provider_id.and_then(|id| self.nodes_by_id.of(id).next()).filter(|_| !has_id);
        by_id.or(named.map(|(name, _)| name)).map(String::as_str)
    }

    /// The claim of a node.
    pub(crate) fn claim_of(&self, name: &str, node: &NodeDigest) -> Option<(&str, &Arc<ClaimDigest>)> {
        let by_id = node.provider_id.as_deref().into_iter().flat_map(|id| self.claims_by_id.of(id));
        let own = self.claims.get_key_value(name).map(|(name, _)| name);
        let all = self.claims_by_node.of(name).chain(by_id).chain(own);
        let meant = all.filter_map(|claim| self.claims.get_key_value(claim));
        let meant = meant.filter(|(claim, digest)| self.node_of(claim, digest) == Some(name));
        let first = meant.min_by_key(|(claim, digest)| {
            let has_id = digest.provider_id.is_some() && digest.provider_id == node.provider_id;
            (!has_id, *claim)
        });
        first.map(|(claim, digest)| (claim.as_str(), digest))
    }
}
