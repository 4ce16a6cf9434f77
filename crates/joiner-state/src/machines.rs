//! Which Node is the machine of which claim.
//!
//! The provider's id of a machine decides wherever both sides carry one: names may be given again, ids are not. Only where one of the two has
//! no id (a Node whose kubelet has not been told, objects written by hand) the name that the claim gives counts. A claim has at most one
//! Node and a Node at most one claim; who asks for more than that learns that there is a duplicate, and takes nothing away because of it.

use std::collections::{BTreeMap, BTreeSet};

/// What a claim says about its machine. Empty texts say nothing.
#[derive(Debug, Clone, Copy)]
pub struct ClaimKey<'a> {
    /// Its own name.
    pub name: &'a str,
    /// From its status.
    pub provider_id: Option<&'a str>,
    /// The Node it names.
    pub node_name: Option<&'a str>,
}

/// What a Node says about itself.
#[derive(Debug, Clone, Copy)]
pub struct NodeKey<'a> {
    /// Its name.
    pub name: &'a str,
    /// From its spec.
    pub provider_id: Option<&'a str>,
}

/// What became of a claim among Nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine<'n> {
    /// This Node is its machine.
    Node(&'n str),
    /// No Node is.
    NotJoined,
    /// Another claim has the Node that it means.
    Taken,
}

/// Whether a Node is the machine of a claim, as far as the two tell.
pub fn is_machine_of(claim: ClaimKey<'_>, node: NodeKey<'_>) -> bool {
    match (filled(claim.provider_id), filled(node.provider_id)) {
        (Some(of_claim), Some(of_node)) => of_claim == of_node,
        _ => filled(claim.node_name) == Some(node.name),
    }
}

/// Gives claims their Nodes, each one at most. Among Nodes with the same id the one that the claim names goes first, then the one with the
/// lowest name; among claims for one Node those that have its id, then the one with the lowest name.
pub fn pair<'c, 'n>(
    claims: impl IntoIterator<Item = ClaimKey<'c>>,
    nodes: impl IntoIterator<Item = NodeKey<'n>>,
) -> BTreeMap<&'c str, Machine<'n>> {
    let mut by_id: BTreeMap<&str, BTreeSet<&'n str>> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, NodeKey<'n>> = BTreeMap::new();
    for node in nodes {
        if let Some(id) = filled(node.provider_id) {
            by_id.entry(id).or_default().insert(node.name);
        }
        by_name.insert(node.name, node);
    }
    let claims: BTreeMap<&'c str, ClaimKey<'c>> =
        claims.into_iter().map(|claim| (claim.name, claim)).collect();
    let mut taken: BTreeSet<&'n str> = BTreeSet::new();
    let mut found = BTreeMap::new();
    for claim in claims.values() {
        let Some(same) = filled(claim.provider_id).and_then(|id| by_id.get(id)) else { continue };
        let named = claim.node_name.and_then(|name| same.get(name).copied());
        let mut free = named.into_iter().chain(same.iter().copied()).filter(|node| !taken.contains(node));
        let machine = free.next().map_or(Machine::Taken, Machine::Node);
        // Further Nodes of the same id are duplicates, no machines of other claims.
        taken.extend(same);
        found.insert(claim.name, machine);
    }
    for claim in claims.values() {
        if found.contains_key(claim.name) {
            continue;
        }
        let named = claim.node_name.and_then(|name| by_name.get(name));
        let machine = match named.filter(|node| is_machine_of(*claim, **node)) {
            Some(node) if taken.insert(node.name) => Machine::Node(node.name),
            Some(_) => Machine::Taken,
            None => Machine::NotJoined,
        };
        found.insert(claim.name, machine);
    }
    found
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Claim = (&'static str, Option<&'static str>, Option<&'static str>);
    type Node = (&'static str, Option<&'static str>);

    fn claim((name, provider_id, node_name): Claim) -> ClaimKey<'static> {
        ClaimKey { name, provider_id, node_name }
    }

    fn node((name, provider_id): Node) -> NodeKey<'static> {
        NodeKey { name, provider_id }
    }

    #[test]
    fn ids_decide_and_names_stand_in_where_one_is_missing() {
        let cases: [(Claim, Node, bool); 9] = [
            (("c", Some("i-1"), None), ("n", Some("i-1")), true),
            (("c", Some("i-1"), Some("n")), ("other", Some("i-1")), true),
            (("c", Some("i-1"), Some("n")), ("n", Some("i-2")), false),
            (("c", Some("i-1"), Some("n")), ("n", None), true),
            (("c", None, Some("n")), ("n", Some("i-1")), true),
            (("c", Some(""), Some("n")), ("n", Some("")), true),
            (("c", None, None), ("c", None), false),
            (("c", Some(""), None), ("n", Some("")), false),
            (("c", None, Some("")), ("n", None), false),
        ];
        for (of, to, expected) in cases {
            assert_eq!(is_machine_of(claim(of), node(to)), expected, "{of:?} {to:?}");
            let alone = pair([claim(of)], [node(to)]);
            assert_eq!(alone["c"] == Machine::Node(to.0), expected, "{of:?} {to:?}");
        }
    }

    #[test]
    fn a_claim_has_one_node_and_a_node_one_claim() {
        use Machine::{Node as Is, NotJoined, Taken};
        let cases: [(&[Claim], &[Node], &[Machine<'static>]); 6] = [
            // Two Nodes with one id: the one that is named, else the first; the second is nobody's.
            (&[("a", Some("i"), Some("n2"))], &[("n1", Some("i")), ("n2", Some("i"))], &[Is("n2")]),
            (&[("a", Some("i"), None)], &[("n1", Some("i")), ("n2", Some("i"))], &[Is("n1")]),
            (
                &[("a", Some("i"), None), ("b", Some("i"), None)],
                &[("n1", Some("i")), ("n2", Some("i"))],
                &[Is("n1"), Taken],
            ),
            // The id goes before a name, whatever the order of the claims.
            (&[("a", None, Some("n")), ("b", Some("i"), None)], &[("n", Some("i"))], &[Taken, Is("n")]),
            // A name that was given again to another machine.
            (
                &[("a", Some("i-1"), Some("n")), ("b", Some("i-2"), None)],
                &[("n", Some("i-2"))],
                &[NotJoined, Is("n")],
            ),
            (&[("a", None, Some("n")), ("b", None, Some("n"))], &[("n", None)], &[Is("n"), Taken]),
        ];
        for (claims, nodes, expected) in cases {
            let found = pair(claims.iter().copied().map(claim), nodes.iter().copied().map(node));
            let found: Vec<Machine<'_>> = found.into_values().collect();
            assert_eq!(found, expected, "{claims:?} {nodes:?}");
            let backwards =
                pair(claims.iter().rev().copied().map(claim), nodes.iter().rev().copied().map(node));
            assert_eq!(backwards.into_values().collect::<Vec<_>>(), expected, "{claims:?} {nodes:?}");
        }
    }
}
