//! Pods that are turned away before any packing, whatever room there is.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{Expr, Pod};

const POOL: &str = "karpenter.sh/nodepool";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// The reason to refuse a pod for what it asks of node labels or devices, if there is one.
pub(super) fn refusal(pod: &Pod, well_known: &BTreeSet<String>) -> Option<String> {
    if pod.uses_resource_claims {
        return Some("field `spec.resourceClaims` is not supported".to_owned());
    }
    if pod.uses_match_fields {
        return Some("`matchFields` in a required node affinity term is not supported".to_owned());
    }
    for (key, value) in &pod.node_selector {
        if let Some(why) = bad_key(key, well_known) {
            return Some(why);
        }
        if key == CAPACITY_TYPE && !known_capacity_type(value) {
            return Some(format!("`{value}` is not a capacity type"));
        }
    }
    let terms = pod.required_terms.as_deref().unwrap_or_default();
    if let Some(why) = terms.iter().flatten().find_map(|expr| bad_expression(expr, well_known)) {
        return Some(why);
    }
    if !terms.is_empty() && terms.iter().all(|term| shuns_pools(term, &pod.node_selector)) {
        return Some(format!("the pod keeps away from every node that has `{POOL}`"));
    }
    None
}

fn bad_expression(expr: &Expr, well_known: &BTreeSet<String>) -> Option<String> {
    if let Some(why) = bad_key(&expr.key, well_known) {
        return Some(why);
    }
    match expr.operator.as_str() {
        "In" if expr.key == CAPACITY_TYPE && !expr.values.iter().any(|value| known_capacity_type(value)) => {
            Some(format!("none of `{}` is a capacity type", expr.values.join(", ")))
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
        "Gt" | "Lt" | "Gte" | "Lte" => match expr.values.as_slice() {
            [one] if one.parse::<i64>().is_ok_and(|n| n >= 0) => None,
            _ => Some(format!("operator `{}` on `{}` needs one whole number", expr.operator, expr.key)),
        },
        unknown => Some(format!("operator `{unknown}` on `{}` is unknown", expr.key)),
    }
}

fn bad_key(key: &str, well_known: &BTreeSet<String>) -> Option<String> {
    if !is_qualified_name(key) {
        return Some(format!("label key `{key}` is malformed"));
    }
    if key == "kubernetes.io/hostname" {
        return Some(format!("label key `{key}` may not be asked for"));
    }
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let restricted = ["karpenter.sh", "karpenter.kwok.sh", "karpenter.k8s.aws"].iter().any(|closed| {
        domain == *closed || domain.strip_suffix(closed).is_some_and(|rest| rest.ends_with('.'))
    });
    (restricted && !well_known.contains(key)).then(|| format!("label key `{key}` may not be asked for"))
}

fn is_qualified_name(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let name_fits = name.len() <= 63
        && ends(name)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let domain_fits = domain.is_none_or(|domain| {
        domain.len() <= 253
            && domain.split('.').all(|part| {
                ends(part) && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            })
    });
    name_fits && domain_fits
}

fn known_capacity_type(value: &str) -> bool {
    matches!(value, "spot" | "on-demand" | "reserved")
}

/// Whether a term, with the node selector, only accepts nodes without a pool.
fn shuns_pools(term: &[Expr], node_selector: &BTreeMap<String, String>) -> bool {
    let on_pool: Vec<&Expr> = term.iter().filter(|expr| expr.key == POOL).collect();
    let accepts_missing =
        on_pool.iter().all(|expr| matches!(expr.operator.as_str(), "NotIn" | "DoesNotExist"));
    let accepts_no_value = on_pool.iter().any(|expr| expr.operator == "DoesNotExist");
    accepts_missing && accepts_no_value && !node_selector.contains_key(POOL)
}
