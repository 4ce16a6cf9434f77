//! Labels and what is asked of them, as small integers.
//!
//! Keys and values are interned once ([`Names`] of the core); a selector is a list of the core's [`Requirement`]s, and whether a label
//! satisfies one is the core's question ([`label_ok`]). What is added here is only what a planner of future machines has no use for:
//! fields of nodes that are there, and selectors over namespaces.

use joiner_core::filter::label_ok;
use joiner_core::model::{KeyId, Names, Operator, Requirement, ValueId};
use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value};

/// Labels of an object, sorted by key.
pub(crate) type Labels = Vec<(KeyId, ValueId)>;

/// Interns labels.
pub(crate) fn labels(names: &mut Names, map: Option<&Map<String, Value>>) -> Labels {
    let mut out: Labels = map
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let key = names.key(key);
            Some((key, names.value(key, value.as_str()?)))
        })
        .collect();
    out.sort_unstable();
    out
}

/// The value of a label.
#[inline]
pub(crate) fn value_of(labels: &[(KeyId, ValueId)], key: KeyId) -> Option<ValueId> {
    labels.binary_search_by_key(&key, |(key, _)| *key).ok().map(|at| labels[at].1)
}

/// All of these must hold; an empty one holds always.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selector(pub Vec<(KeyId, Requirement)>);

impl Selector {
    /// One requirement per pair.
    pub(crate) fn pairs<'a>(
        names: &mut Names,
        pairs: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| {
            let key = names.key(key);
            (key, Requirement::is(names.value(key, value)))
        });
        Self(pairs.collect())
    }

    /// Reads a label selector; `None` selects nothing.
    pub(crate) fn read(names: &mut Names, given: Option<&LabelSelector>) -> Option<Self> {
        let given = given?;
        let mut out = Self::pairs(names, given.match_labels.iter().flatten());
        for expression in given.match_expressions.iter().flatten() {
            out.push(names, &expression.key, &expression.operator, expression.values.as_deref());
        }
        Some(out)
    }

    fn push(&mut self, names: &mut Names, key: &str, operator: &str, values: Option<&[String]>) {
        let key = names.key(key);
        let values: Vec<&str> = values.unwrap_or_default().iter().map(String::as_str).collect();
        let requirement = match Operator::parse(operator) {
            Some(operator) => Requirement::from_expression(names, key, operator, &values),
            None => Requirement::nothing(),
        };
        self.0.push((key, requirement));
    }

    /// Whether labels satisfy it.
    pub(crate) fn matches(&self, names: &Names, labels: &[(KeyId, ValueId)]) -> bool {
        self.0.iter().all(|(key, asked)| label_ok(names, *key, asked, value_of(labels, *key)))
    }
}

/// One of the alternatives of node affinity.
#[derive(Debug, Clone)]
pub(crate) struct NodeTerm {
    labels: Selector,
    /// Of `metadata.name`, the one field there is: must it be one of these, or none of them?
    names: Vec<(bool, Vec<String>)>,
    /// A term without anything matches nothing, as does one that makes no sense.
    never: bool,
}

impl NodeTerm {
    /// Reads a term.
    pub(crate) fn read(interned: &mut Names, term: &NodeSelectorTerm) -> Self {
        let mut labels = Selector::default();
        for e in term.match_expressions.iter().flatten() {
            labels.push(interned, &e.key, &e.operator, e.values.as_deref());
        }
        let fields = term.match_fields.as_deref().unwrap_or_default();
        let mut never = labels.0.is_empty() && fields.is_empty();
        let mut names = Vec::new();
        for field in fields {
            match is_name_field(field) {
                Some(within) => names.push((within, field.values.clone().unwrap_or_default())),
                None => never = true,
            }
        }
        Self { labels, names, never }
    }

    /// Whether a node satisfies it.
    pub(crate) fn matches(&self, names: &Names, name: &str, labels: &[(KeyId, ValueId)]) -> bool {
        !self.never
            && self.labels.matches(names, labels)
            && self.names.iter().all(|(within, list)| list.iter().any(|one| one == name) == *within)
    }

    /// The nodes it names, if it names any: only they need to be looked at.
    pub(crate) fn named(&self) -> Option<Vec<&str>> {
        let mut lists = self.names.iter().filter(|(within, _)| *within).map(|(_, list)| list);
        let mut out: Vec<&str> = lists.next()?.iter().map(String::as_str).collect();
        for list in lists {
            out.retain(|name| list.iter().any(|other| other == name));
        }
        Some(out)
    }
}

fn is_name_field(field: &NodeSelectorRequirement) -> Option<bool> {
    match (field.key.as_str(), field.operator.as_str()) {
        ("metadata.name", "In") => Some(true),
        ("metadata.name", "NotIn") => Some(false),
        _ => None,
    }
}

/// Which namespaces are meant beside those that are listed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MoreNamespaces {
    /// None.
    None,
    /// Those with these labels; an empty selector means all.
    With(Selector),
}

/// Pods of some namespaces with some labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PodSelector {
    pub namespaces: Vec<u32>,
    pub more: MoreNamespaces,
    /// `None` selects nothing.
    pub labels: Option<Selector>,
}

impl PodSelector {
    /// Whether it selects a pod; `namespace_labels` are those of the pod's namespace.
    pub(crate) fn matches(
        &self,
        names: &Names,
        namespace: u32,
        namespace_labels: &[(KeyId, ValueId)],
        labels: &[(KeyId, ValueId)],
    ) -> bool {
        let inside = self.namespaces.contains(&namespace)
            || match &self.more {
                MoreNamespaces::None => false,
                MoreNamespaces::With(selector) => selector.matches(names, namespace_labels),
            };
        inside && self.labels.as_ref().is_some_and(|selector| selector.matches(names, labels))
    }
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PodTerm {
    pub key: KeyId,
    pub pods: PodSelector,
}

impl PodTerm {
    /// Reads a term of a pod in namespace `own`.
    pub(crate) fn read(
        names: &mut Names,
        term: &PodAffinityTerm,
        own: u32,
        mut namespace: impl FnMut(&str) -> u32,
    ) -> Self {
        let listed = term.namespaces.as_deref().unwrap_or_default();
        let mut namespaces: Vec<u32> = listed.iter().map(|name| namespace(name)).collect();
        if listed.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(own);
        }
        namespaces.sort_unstable();
        let more = match Selector::read(names, term.namespace_selector.as_ref()) {
            None => MoreNamespaces::None,
            Some(selector) => MoreNamespaces::With(selector),
        };
        Self {
            key: names.key(&term.topology_key),
            pods: PodSelector {
                namespaces,
                more,
                labels: Selector::read(names, term.label_selector.as_ref()),
            },
        }
    }
}
