//! Spread, affinity and anti-affinity terms as groups.
//!
//! A group's pods are described by namespaces and a selector. What depends on the owning pod (its own namespace, values of its
//! labels named by `matchLabelKeys`) is folded in here, so that equal groups of different pods become one.

use std::collections::{BTreeMap, BTreeSet};

use joiner_core::model::{GroupIdx, GroupSpec, KeyId, Matcher, MatcherTerm, NodeFilter, ReqId, Requirement};

use crate::bytes::Pairs;
use crate::cluster::{Cluster, Usage};
use crate::digest::{Digest, Expression, PodTerm, Spread, Term};
use crate::lower::Lowering;

impl<'c> Lowering<'c> {
    fn selector(
        &mut self,
        selector: Option<&[Expression]>,
        same: &[Box<str>],
        other: &[Box<str>],
        reduced: u32,
    ) -> Option<ReqId> {
        let selector = selector?;
        let mut list: Vec<(KeyId, Requirement)> = selector.iter().map(|e| self.expression(e)).collect();
        if !same.is_empty() || !other.is_empty() {
            let names = &mut self.frame.snapshot.vocabulary.names;
            for (key, value) in Pairs(self.frame.reduced.get(reduced)) {
                let is = |list: &[Box<str>]| list.iter().any(|listed| &**listed == key);
                let (is_same, is_other) = (is(same), is(other));
                if !is_same && !is_other {
                    continue;
                }
                let id = names.key(key);
                let value = Requirement::is(names.value(id, value));
                if is_same {
                    list.push((id, value.clone()));
                }
                if is_other {
                    list.push((id, Requirement { complement: true, may_be_absent: true, ..value }));
                }
            }
        }
        Some(self.frame.snapshot.vocabulary.set(list))
    }

    fn namespaces_of(&mut self, term: &PodTerm, own: &str) -> Option<Vec<u32>> {
        let mut ids: Vec<u32> = term.namespaces.iter().map(|name| self.namespace(name)).collect();
        match &term.namespace_selector {
            Some(selector) if selector.is_empty() => return None,
            Some(selector) => {
                let cluster = self.cluster;
                let lived_in =
                    cluster.specs.iter().zip(&cluster.usage).filter(|(_, usage)| usage.counted > 0);
                let known = cluster.namespaces.keys().map(String::as_str);
                let all: BTreeSet<&str> = lived_in.map(|(spec, _)| &*spec.namespace).chain(known).collect();
                for name in all {
                    let given = cluster.namespaces.get(name).into_iter().flatten();
                    let mut labels: BTreeMap<&str, &str> =
                        given.map(|(key, value)| (key.as_str(), value.as_str())).collect();
                    labels.insert("kubernetes.io/metadata.name", name);
                    if selector.iter().all(|e| selects(e, &labels)) {
                        ids.push(self.namespace(name));
                    }
                }
            }
            None if ids.is_empty() => ids.push(self.namespace(own)),
            None => {}
        }
        ids.sort_unstable();
        ids.dedup();
        Some(ids)
    }

    fn matcher_term(&mut self, term: &PodTerm, own: &str, reduced: u32) -> MatcherTerm {
        MatcherTerm {
            namespaces: self.namespaces_of(term, own),
            selector: self.selector(
                term.selector.as_deref(),
                &term.match_label_keys,
                &term.mismatch_label_keys,
                reduced,
            ),
        }
    }

    fn group(&mut self, group: GroupSpec) -> GroupIdx {
        self.frame.asked.insert(group.key());
        GroupIdx(self.frame.snapshot.groups.intern(group))
    }

    fn topology_key(&mut self, key: &str) -> KeyId {
        self.frame.snapshot.vocabulary.names.key(key)
    }

    /// What a pod's own spread constraint counts.
    pub(crate) fn spread_selector(&mut self, spread: &Spread, reduced: u32) -> Option<ReqId> {
        self.selector(spread.selector.as_deref(), &spread.match_label_keys, &[], reduced)
    }

    /// The group of a spread constraint that counts what a selector selects.
    pub(crate) fn spread_group(
        &mut self,
        pod: &Digest,
        spread: &Spread,
        selector: Option<ReqId>,
    ) -> GroupIdx {
        let asks = match (&pod.required, pod.node_selector.is_empty()) {
            _ if !spread.honor_affinity => None,
            (None, true) => None,
            (None, false) => Some(vec![self.node_ask(pod, None, None)]),
            (Some(terms), _) => {
                let mut asks: Vec<ReqId> =
                    matching_terms(terms).map(|term| self.node_ask(pod, Some(term), None)).collect();
                // Any of them will do, so their order is no part of the group.
                asks.sort_unstable();
                asks.dedup();
                Some(asks)
            }
        };
        for ask in asks.iter().flatten() {
            self.ask_about(*ask);
        }
        let tolerations = spread
            .honor_taints
            .then(|| self.frame.snapshot.vocabulary.toleration_list(pod.tolerations.clone()));
        let term = MatcherTerm { namespaces: Some(vec![self.namespace(&pod.namespace)]), selector };
        let key = self.topology_key(&spread.key);
        self.group(GroupSpec::Spread {
            key,
            matcher: Matcher { terms: vec![term] },
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            filter: NodeFilter { asks, tolerations },
        })
    }

    /// Required affinity: all terms together, once per distinct key.
    pub(crate) fn affinity_groups(&mut self, pod: &Digest, reduced: u32) -> Vec<GroupIdx> {
        let terms: Vec<MatcherTerm> =
            pod.affinity.iter().map(|term| self.matcher_term(term, &pod.namespace, reduced)).collect();
        let mut groups = Vec::new();
        for term in &pod.affinity {
            let key = self.topology_key(&term.key);
            let group = self.group(GroupSpec::Affinity { key, matcher: Matcher { terms: terms.clone() } });
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }

    /// One affinity term alone.
    pub(crate) fn affinity_group(&mut self, pod: &Digest, term: &PodTerm, reduced: u32) -> GroupIdx {
        let matcher = Matcher { terms: vec![self.matcher_term(term, &pod.namespace, reduced)] };
        let key = self.topology_key(&term.key);
        self.group(GroupSpec::Affinity { key, matcher })
    }

    /// One anti-affinity term.
    pub(crate) fn anti_affinity_group(&mut self, pod: &Digest, term: &PodTerm, reduced: u32) -> GroupIdx {
        let matcher = Matcher { terms: vec![self.matcher_term(term, &pod.namespace, reduced)] };
        let key = self.topology_key(&term.key);
        self.group(GroupSpec::AntiAffinity { key, matcher })
    }

    /// The groups of a bound pod's required anti-affinity.
    pub(crate) fn bound_anti_affinity(&mut self, spec: u32, labels: u32) -> Vec<GroupIdx> {
        let cluster = self.cluster;
        let digest = &cluster.specs[spec as usize];
        if digest.anti_affinity.is_empty() {
            return Vec::new();
        }
        // By the labels that selectors in force name, as for pods that wait: equal terms are one group.
        let reduced = self.reduce(labels);
        let mut groups = Vec::new();
        for term in &digest.anti_affinity {
            let group = self.anti_affinity_group(digest, term, reduced);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }
}

/// The label keys that selectors in force name: those of pods that wait, and required anti-affinity of pods on nodes.
pub(crate) fn selected_keys(cluster: &Cluster) -> BTreeSet<Box<str>> {
    let mut keys = keys_named(cluster, |usage| usage.pending > 0);
    for (spec, usage) in cluster.specs.iter().zip(&cluster.usage) {
        if usage.seen > 0 {
            name_terms(&mut keys, &spec.anti_affinity);
        }
    }
    keys
}

/// The label keys that selectors of pods name, for specs used in some way.
pub(crate) fn keys_named(cluster: &Cluster, is_used: impl Fn(&Usage) -> bool) -> BTreeSet<Box<str>> {
    let respect = cluster.options.respect_preferences;
    let mut keys = BTreeSet::new();
    for (spec, _) in cluster.specs.iter().zip(&cluster.usage).filter(|(_, usage)| is_used(usage)) {
        name_terms(&mut keys, &spec.affinity);
        name_terms(&mut keys, &spec.anti_affinity);
        if respect {
            name_terms(&mut keys, &spec.preferred_affinity);
            name_terms(&mut keys, &spec.preferred_anti_affinity);
        }
        for spread in spec.spread.iter().filter(|spread| spread.hard || respect) {
            name_keys(&mut keys, spread.selector.as_deref(), &[&spread.match_label_keys]);
        }
    }
    keys
}

fn name_terms(keys: &mut BTreeSet<Box<str>>, terms: &[PodTerm]) {
    for term in terms {
        name_keys(keys, term.selector.as_deref(), &[&term.match_label_keys, &term.mismatch_label_keys]);
    }
}

fn name_keys(keys: &mut BTreeSet<Box<str>>, selector: Option<&[Expression]>, lists: &[&[Box<str>]]) {
    // Without a selector nothing is matched, and keys to fold in have nothing to be folded into.
    let Some(selector) = selector else { return };
    let listed = lists.iter().flat_map(|list| list.iter());
    for key in selector.iter().map(|expression| &expression.key).chain(listed) {
        if !keys.contains(key) {
            keys.insert(key.clone());
        }
    }
}

/// Terms that can match at all: one without expressions never does.
pub(crate) fn matching_terms(terms: &[Term]) -> impl Iterator<Item = &Term> {
    terms.iter().filter(|term| !term.expressions.is_empty())
}

/// Whether an expression of a label selector holds for labels.
fn selects(expression: &Expression, labels: &BTreeMap<&str, &str>) -> bool {
    let value = labels.get(&*expression.key);
    let listed = value.is_some_and(|value| expression.values.iter().any(|v| &**v == *value));
    match &*expression.operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}
