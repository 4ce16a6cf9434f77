//! Spread, affinity and anti-affinity terms as groups.
//!
//! A group's pods are described by namespaces and a selector. What depends on the owning pod (its own namespace, values of its
//! labels named by `matchLabelKeys`) is folded in here, so that equal groups of different pods become one.

use std::collections::BTreeMap;

use joiner_core::model::{GroupIdx, GroupSpec, KeyId, Matcher, MatcherTerm, NodeFilter, ReqId, Requirement};

use crate::bytes::Pairs;
use crate::cluster::{PodRecord, Standing};
use crate::digest::{Digest, Expression, PodTerm, Spread, Term};
use crate::lower::Lowering;

impl<'c> Lowering<'c> {
    /// Collects the label keys that selectors in force name.
    pub(crate) fn find_selected_keys(&mut self, pods: &[PodRecord]) {
        let cluster = self.cluster;
        let (mut pending, mut bound) = (vec![false; cluster.specs.len()], vec![false; cluster.specs.len()]);
        for pod in pods {
            match pod.standing {
                Standing::Pending | Standing::Virtual => pending[pod.spec as usize] = true,
                Standing::Bound | Standing::BoundDaemon => bound[pod.spec as usize] = true,
                Standing::Leaving | Standing::LeavingDaemon | Standing::Ignored => {}
            }
        }
        for (at, spec) in cluster.specs.iter().enumerate() {
            if pending[at] {
                let preferred = spec.preferred_affinity.iter().chain(&spec.preferred_anti_affinity);
                let preferred = preferred.filter(|_| cluster.options.respect_preferences);
                for term in spec.affinity.iter().chain(preferred) {
                    self.name_keys(
                        term.selector.as_deref(),
                        &[&term.match_label_keys, &term.mismatch_label_keys],
                    );
                }
                for spread in &spec.spread {
                    if spread.hard || cluster.options.respect_preferences {
                        self.name_keys(spread.selector.as_deref(), &[&spread.match_label_keys]);
                    }
                }
            }
            if pending[at] || bound[at] {
                for term in &spec.anti_affinity {
                    self.name_keys(
                        term.selector.as_deref(),
                        &[&term.match_label_keys, &term.mismatch_label_keys],
                    );
                }
            }
        }
    }

    fn name_keys(&mut self, selector: Option<&'c [Expression]>, lists: &[&'c [Box<str>]]) {
        // Without a selector nothing is matched, and keys to fold in have nothing to be folded into.
        let Some(selector) = selector else { return };
        self.selected_keys.extend(selector.iter().map(|e| &*e.key));
        self.selected_keys.extend(lists.iter().flat_map(|list| list.iter()).map(|key| &**key));
    }

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
            let names = &mut self.snapshot.vocabulary.names;
            for (key, value) in Pairs(self.reduced.get(reduced)) {
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
        Some(self.snapshot.vocabulary.set(list))
    }

    fn namespaces_of(&mut self, term: &PodTerm, own: &str) -> Option<Vec<u32>> {
        let mut ids: Vec<u32> = term.namespaces.iter().map(|name| self.namespace(name)).collect();
        match &term.namespace_selector {
            Some(selector) if selector.is_empty() => return None,
            Some(selector) => {
                let matching: Vec<&str> = self
                    .namespaces
                    .iter()
                    .filter(|(_, labels)| selector.iter().all(|e| selects(e, labels)))
                    .map(|(name, _)| *name)
                    .collect();
                ids.extend(matching.into_iter().map(|name| self.namespace(name)));
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
        self.asked.insert(group.key());
        GroupIdx(self.snapshot.groups.intern(group))
    }

    fn topology_key(&mut self, key: &str) -> KeyId {
        self.snapshot.vocabulary.names.key(key)
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
        let tolerations =
            spread.honor_taints.then(|| self.snapshot.vocabulary.toleration_list(pod.tolerations.clone()));
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

    /// The required anti-affinity of bound pods: pod row and group.
    pub(crate) fn lower_bound_anti_affinity(&mut self, pods: &[PodRecord]) -> Vec<(u32, GroupIdx)> {
        let cluster = self.cluster;
        let mut known: BTreeMap<(u32, u32), Vec<GroupIdx>> = BTreeMap::new();
        let mut owners = Vec::new();
        for (row, pod) in pods.iter().enumerate() {
            let spec = &cluster.specs[pod.spec as usize];
            if !matches!(pod.standing, Standing::Bound | Standing::BoundDaemon)
                || spec.anti_affinity.is_empty()
            {
                continue;
            }
            let reduced = self.reduce(pod.labels);
            let groups = match known.get(&(pod.spec, reduced)) {
                Some(groups) => groups,
                None => {
                    let groups = spec
                        .anti_affinity
                        .iter()
                        .map(|term| self.anti_affinity_group(spec, term, reduced))
                        .collect();
                    known.entry((pod.spec, reduced)).or_insert(groups)
                }
            };
            owners.extend(groups.iter().map(|group| (row as u32, *group)));
        }
        owners
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
