//! Nodes and the claims they came from, each with its other half.
//!
//! Which belongs to which is [`machines::pair`]'s to say. A change is paired again together with everything it could have to do with: claims and
//! nodes that share an id or a name, which are hardly ever more than one of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_api::NodeClaim;
use k8s_openapi::api::core::v1::Node;

use crate::changes::Changes;
use crate::machines::{self, ClaimKey, Machine, NodeKey};
use crate::node_digest::{ClaimDigest, NodeDigest};
use crate::problem::Problem;

/// Nodes and claims by name, and by what brings them together.
#[derive(Debug, Default)]
pub(crate) struct MachineTable {
    pub nodes: BTreeMap<String, Arc<NodeDigest>>,
    pub claims: BTreeMap<String, Arc<ClaimDigest>>,
    /// Nodes by provider id.
    nodes_by_id: Index,
    /// Claims by the node they name.
    claims_by_node: Index,
    /// Claims by provider id.
    claims_by_id: Index,
    /// Claims by the node they have.
    claim_of: BTreeMap<String, String>,
    /// Claims that have a node, or mean one that another claim has.
    paired: BTreeMap<String, Option<String>>,
}

/// Names by something they share.
#[derive(Debug, Default)]
struct Index(BTreeMap<Box<str>, BTreeSet<String>>);

impl Index {
    fn of(&self, key: &str) -> impl Iterator<Item = &String> {
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

impl MachineTable {
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
        let mut related = Related::default();
        related.add_node(name);
        for id in ids.into_iter().flatten() {
            self.add_all_with(id, &mut related);
        }
        self.pair(related, changes);
    }

    /// Something else about the node of a name has changed, whether it has joined or not.
    pub(crate) fn touch(&self, node: &str, changes: &mut Changes) {
        changes.nodes.insert(node.to_owned());
        changes.claims_of_machines.extend(self.claims_by_node.of(node).cloned());
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

    /// Takes a machine in that is still to come and has no claim; true if there was one of that name.
    pub(crate) fn add_upcoming(
        &mut self,
        name: &str,
        template: &Node,
        changes: &mut Changes,
    ) -> Result<bool, Problem> {
        let digest = ClaimDigest::upcoming(name, template).map_err(|finding| finding.on("Node", name, ""))?;
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
        let states = [&before, &now];
        let ids = states.map(|claim| claim.as_ref().and_then(|claim| claim.provider_id.as_deref()));
        let nodes = states.map(|claim| claim.as_ref().map(|claim| named_by(name, claim)));
        self.claims_by_id.set(name, ids[0], ids[1]);
        self.claims_by_node.set(name, nodes[0], nodes[1]);
        let mut related = Related::default();
        related.add_claim(name);
        nodes.into_iter().flatten().for_each(|node| related.add_node(node));
        for id in ids.into_iter().flatten() {
            self.add_all_with(id, &mut related);
        }
        self.pair(related, changes);
    }

    fn add_all_with(&self, id: &str, related: &mut Related) {
        self.nodes_by_id.of(id).for_each(|node| related.add_node(node));
        self.claims_by_id.of(id).for_each(|claim| related.add_claim(claim));
    }

    /// Pairs again what is given and everything it has to do with.
    fn pair(&mut self, mut related: Related, changes: &mut Changes) {
        while let Some(next) = related.waiting.pop() {
            match next {
                Half::Node(name) => {
                    self.claims_by_node.of(&name).for_each(|claim| related.add_claim(claim));
                    if let Some(id) = self.nodes.get(&name).and_then(|node| node.provider_id.as_deref()) {
                        self.add_all_with(id, &mut related);
                    }
                }
                Half::Claim(name) => {
                    let Some(claim) = self.claims.get(&name) else { continue };
                    related.add_node(named_by(&name, claim));
                    if let Some(id) = claim.provider_id.as_deref() {
                        self.add_all_with(id, &mut related);
                    }
                }
            }
        }
        for node in &related.nodes {
            self.claim_of.remove(node);
        }
        for claim in &related.claims {
            self.paired.remove(claim);
        }
        let claims = related.claims.iter().filter_map(|name| self.claims.get_key_value(name));
        let claims = claims.map(|(name, claim)| ClaimKey {
            name,
            provider_id: claim.provider_id.as_deref(),
            node_name: Some(named_by(name, claim)),
        });
        let nodes = related.nodes.iter().filter_map(|name| self.nodes.get_key_value(name));
        let nodes = nodes.map(|(name, node)| NodeKey { name, provider_id: node.provider_id.as_deref() });
        for (claim, machine) in machines::pair(claims, nodes) {
            match machine {
                Machine::Node(node) => {
                    self.claim_of.insert(node.to_owned(), claim.to_owned());
                    self.paired.insert(claim.to_owned(), Some(node.to_owned()));
                }
                Machine::Taken => drop(self.paired.insert(claim.to_owned(), None)),
                Machine::NotJoined => {}
            }
        }
        changes.nodes.extend(related.nodes);
        changes.claims_of_machines.extend(related.claims);
    }

    /// Whether a claim's machine has not joined: the claim stands for it.
    pub(crate) fn has_not_joined(&self, claim: &str) -> bool {
        !self.paired.contains_key(claim)
    }

    /// Claims that mean a node that another claim has.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = &String> {
        self.paired.iter().filter(|(_, node)| node.is_none()).map(|(claim, _)| claim)
    }

    /// The claim of a node.
    pub(crate) fn claim_of(&self, node: &str) -> Option<&Arc<ClaimDigest>> {
        self.claims.get(self.claim_of.get(node)?)
    }
}

/// The node a claim names. In files written by hand a claim without status is often called like its node.
fn named_by<'a>(name: &'a str, claim: &'a ClaimDigest) -> &'a str {
    claim.node_name.as_deref().unwrap_or(name)
}

/// Claims and nodes that may have to do with each other.
#[derive(Debug, Default)]
struct Related {
    nodes: BTreeSet<String>,
    claims: BTreeSet<String>,
    waiting: Vec<Half>,
}

#[derive(Debug)]
enum Half {
    Node(String),
    Claim(String),
}

impl Related {
    fn add_node(&mut self, name: &str) {
        if self.nodes.insert(name.to_owned()) {
            self.waiting.push(Half::Node(name.to_owned()));
        }
    }

    fn add_claim(&mut self, name: &str) {
        if self.claims.insert(name.to_owned()) {
            self.waiting.push(Half::Claim(name.to_owned()));
        }
    }
}
