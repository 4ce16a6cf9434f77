//! What can be said about the labels of a node, and whether a set of expressions can hold there.
//!
//! A real node has its labels and nothing else. Of a future machine only expressions are known (pool, type, offering); a key nobody
//! mentions is free if it is well-known and missing otherwise. Both are a list of expressions here, and a question is
//! answered by looking for one label value, or its absence, that satisfies all of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{Expr, Pod};

/// A label value a node may turn out to have; `None` = the label is missing.
pub(super) type Candidate = Option<String>;

/// Whether a label value (or its absence) satisfies one expression.
pub(super) fn satisfied(expr: &Expr, value: Option<&str>) -> bool {
    let listed = |value: &str| expr.values.iter().any(|v| v == value);
    match (expr.operator.as_str(), value) {
        ("In", Some(value)) => listed(value),
        ("NotIn", Some(value)) => !listed(value),
        ("NotIn" | "DoesNotExist", None) | ("Exists", Some(_)) => true,
        (operator @ ("Gt" | "Lt" | "Gte" | "Lte"), Some(value)) => {
            let operand = expr.values.first().and_then(|operand| operand.parse::<i64>().ok());
            match (value.parse::<i64>().ok(), operand) {
                (Some(value), Some(operand)) => match operator {
                    "Gt" => value > operand,
                    "Lt" => value < operand,
                    "Gte" => value >= operand,
                    _ => value <= operand,
                },
                _ => false,
            }
        }
        _ => false,
    }
}

/// Known expressions about one node's labels.
#[derive(Clone)]
pub(super) struct Surface<'w> {
    layers: Vec<&'w [Expr]>,
    /// Keys that may take any value when no layer mentions them; `None` for real nodes.
    open: Option<&'w BTreeSet<String>>,
}

impl<'w> Surface<'w> {
    /// A real node: `labels` says all there is.
    pub(super) fn real(labels: &'w [Expr]) -> Surface<'w> {
        Surface { layers: vec![labels], open: None }
    }

    /// A future machine described by several lists of expressions.
    pub(super) fn future(layers: Vec<&'w [Expr]>, open: &'w BTreeSet<String>) -> Surface<'w> {
        Surface { layers, open: Some(open) }
    }

    fn known<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'w Expr> + 's {
        self.layers.iter().flat_map(|layer| layer.iter()).filter(move |expr| expr.key == key)
    }

    /// Whether the label can have a value (or be missing) such that all of `extra` hold as well.
    fn possible(&self, key: &str, extra: &[&Expr]) -> bool {
        let mut all: Vec<&Expr> = self.known(key).collect();
        let defined = !all.is_empty();
        if !defined && !self.open.is_some_and(|open| open.contains(key)) {
            return extra.iter().all(|expr| satisfied(expr, None));
        }
        all.extend_from_slice(extra);
        !candidates(&all, &[]).is_empty()
    }

    /// The first key about which the layers contradict each other.
    pub(super) fn contradiction(&self) -> Option<&'w str> {
        let mut keys = self.layers.iter().flat_map(|layer| layer.iter()).map(|expr| expr.key.as_str());
        keys.find(|key| !self.possible(key, &[]))
    }

    /// Whether one list of expressions can hold, key by key.
    pub(super) fn admits(&self, exprs: &[&Expr]) -> bool {
        by_key(exprs).iter().all(|(key, exprs)| self.possible(key, exprs))
    }

    /// The values a label may take under `extra`; where the choice is endless, those among `hints` and one more.
    pub(super) fn choices(&self, key: &str, extra: &[&Expr], hints: &[String]) -> Vec<Candidate> {
        let mut all: Vec<&Expr> = self.known(key).collect();
        if all.is_empty() && !self.open.is_some_and(|open| open.contains(key)) {
            return vec![None];
        }
        all.extend_from_slice(extra);
        candidates(&all, hints)
    }

    /// The values some `In` restricts the label to, with `extra` applied; none when the choice is endless.
    pub(super) fn listed(&self, key: &str, extra: &[&Expr]) -> Vec<String> {
        let mut all: Vec<&Expr> = self.known(key).collect();
        if !all.iter().any(|expr| expr.operator == "In") {
            return Vec::new();
        }
        all.extend(extra.iter().filter(|expr| expr.key == key).copied());
        candidates(&all, &[]).into_iter().flatten().collect()
    }
}

/// Every value worth trying that satisfies all expressions. Complete as a yes-or-no question; a full list only when an `In` bounds it.
fn candidates(exprs: &[&Expr], hints: &[String]) -> Vec<Candidate> {
    let mut tries: BTreeSet<Candidate> = BTreeSet::from([None]);
    let shortest = exprs.iter().filter(|expr| expr.operator == "In").min_by_key(|expr| expr.values.len());
    match shortest {
        Some(bounded) => tries.extend(bounded.values.iter().cloned().map(Some)),
        None => {
            tries.extend(hints.iter().cloned().map(Some));
            tries.insert(Some("unlisted-value".to_owned()));
            // Integers next to every bound, as many as could be excluded.
            let excluded = exprs.iter().filter(|expr| expr.operator == "NotIn").map(|expr| expr.values.len());
            let reach = i64::try_from(excluded.sum::<usize>()).unwrap_or(i64::MAX).saturating_add(2);
            for bound in exprs
                .iter()
                .filter(|expr| matches!(expr.operator.as_str(), "Gt" | "Lt" | "Gte" | "Lte"))
                .filter_map(|expr| expr.values.first()?.parse::<i64>().ok())
            {
                for step in -reach..=reach {
                    tries.extend(bound.checked_add(step).map(|n| Some(n.to_string())));
                }
            }
        }
    }
    tries.into_iter().filter(|value| exprs.iter().all(|expr| satisfied(expr, value.as_deref()))).collect()
}

fn by_key<'e>(exprs: &[&'e Expr]) -> BTreeMap<&'e str, Vec<&'e Expr>> {
    let mut keys: BTreeMap<&str, Vec<&Expr>> = BTreeMap::new();
    for expr in exprs {
        keys.entry(&expr.key).or_default().push(expr);
    }
    keys
}

/// Alternatives of which one must hold: the OR-terms of a pod, or the places a volume can be reached from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask(pub(super) Vec<Vec<Expr>>);

impl Ask {
    /// A pod's node selector with each required term. A term that says nothing matches nothing.
    pub(super) fn of_pod(pod: &Pod) -> Ask {
        let selector = pod.node_selector.iter().map(|(key, value)| Expr {
            key: key.clone(),
            operator: "In".to_owned(),
            values: vec![value.clone()],
            min_values: None,
        });
        match &pod.required_terms {
            None => Ask(vec![selector.collect()]),
            Some(terms) => Ask(terms
                .iter()
                .filter(|term| !term.is_empty())
                .map(|term| selector.clone().chain(term.iter().cloned()).collect())
                .collect()),
        }
    }

    /// Whether some alternative can hold on its own.
    pub(super) fn fits(&self, surface: &Surface<'_>) -> bool {
        self.0.iter().any(|term| surface.admits(&term.iter().collect::<Vec<_>>()))
    }
}

/// Whether one alternative of each ask can be picked so that all hold together: the pods of a future machine share its labels.
///
/// `None` when the search was given up.
pub(super) fn all_together(surface: &Surface<'_>, asks: &[Ask]) -> Option<bool> {
    let mut order: Vec<&Ask> = asks.iter().collect();
    order.sort_by_key(|ask| ask.0.len());
    let mut steps = 0;
    pick(surface, &order, &mut Vec::new(), &mut steps)
}

fn pick<'a>(
    surface: &Surface<'_>,
    asks: &[&'a Ask],
    chosen: &mut Vec<&'a Expr>,
    steps: &mut u32,
) -> Option<bool> {
    let Some((first, rest)) = asks.split_first() else { return Some(true) };
    for term in &first.0 {
        *steps += 1;
        if *steps > 50_000 {
            return None;
        }
        let before = chosen.len();
        chosen.extend(term.iter());
        // Only keys this term names can have become impossible.
        let possible = term.iter().all(|expr| {
            let on_key: Vec<&Expr> = chosen.iter().filter(|other| other.key == expr.key).copied().collect();
            surface.possible(&expr.key, &on_key)
        });
        if possible {
            match pick(surface, rest, chosen, steps) {
                Some(false) => {}
                decided => return decided,
            }
        }
        chosen.truncate(before);
    }
    Some(false)
}
