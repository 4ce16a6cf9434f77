//! Rule book §2, "Pods": which pods are packed and in which order, which are refused up front, what a pod asks for, and
//! how it lowers its wishes.

use std::cmp::Reverse;

use super::requirement::{
    Requirement, Requirements, both, conjunction, from_selector, go_integer, stable_key,
};
use crate::world::{Expr, Pod, Taint, Toleration, World};

pub(super) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub(super) const NODEPOOL: &str = "karpenter.sh/nodepool";
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// `namespace/name`.
pub(super) fn pod_id(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// "Pending pods": not bound, not a DaemonSet's. (Terminal, deleted and gated pods never reach the world.)
pub(super) fn is_pending(pod: &Pod) -> bool {
    pod.node_name.is_none() && !pod.is_daemon
}

/// "Order": the queue, by priority first when the run is repeated (§9).
pub(super) fn in_order(mut pods: Vec<&Pod>, by_priority: bool) -> Vec<&Pod> {
    let amount = |pod: &Pod, resource: &str| pod.requests.get(resource).copied().unwrap_or(0);
    pods.sort_by_key(|pod| {
        (
            if by_priority { Reverse(pod.priority) } else { Reverse(0) },
            Reverse(amount(pod, "cpu")),
            Reverse(amount(pod, "memory")),
            pod.created,
            pod.uid.clone(),
            pod.namespace.clone(),
            pod.name.clone(),
        )
    });
    pods
}

/// "Refused before packing, with the reason".
pub(super) fn refusal(world: &World, pod: &Pod) -> Option<String> {
    if let Some(reason) = &pod.refused {
        return Some(reason.clone());
    }
    if pod.uses_resource_claims {
        return Some("resource claims are not supported".to_owned());
    }
    if pod.uses_match_fields {
        return Some("`matchFields` in a required node affinity term is not supported".to_owned());
    }
    let selected = pod.node_selector.iter().map(|(key, value)| Expr {
        key: key.clone(),
        operator: "In".to_owned(),
        values: vec![value.clone()],
        min_values: None,
    });
    let terms = pod.required_terms.iter().flatten();
    for expr in selected.chain(terms.clone().flatten().cloned()) {
        if let Some(reason) = bad_expression(world, &expr) {
            return Some(reason);
        }
    }
    let stays_away = |term: &Vec<Expr>| {
        let asked = both(&from_selector(&pod.node_selector), &conjunction(term));
        asked.get(NODEPOOL).is_some_and(|pool| pool.may_be_missing && !pool.allows_some_value())
    };
    if terms.clone().next().is_some() && terms.clone().all(stays_away) {
        return Some(format!("asks for nodes without the label `{NODEPOOL}`"));
    }
    None
}

/// A restricted or malformed key, a bad operator or numeric value, or no known capacity type.
fn bad_expression(world: &World, expr: &Expr) -> Option<String> {
    let key = stable_key(&expr.key);
    if !is_qualified_name(key) {
        return Some(format!("label key `{key}` is malformed"));
    }
    if is_restricted(world, key) {
        return Some(format!("label key `{key}` is restricted"));
    }
    match expr.operator.as_str() {
        "In" if key == CAPACITY_TYPE => {
            let known = |value: &String| ["spot", "on-demand", "reserved"].contains(&value.as_str());
            if !expr.values.iter().any(known) {
                return Some(format!("`{CAPACITY_TYPE}` names no known capacity type"));
            }
            None
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
        "Gt" | "Lt" | "Gte" | "Lte" => match expr.values.as_slice() {
            [one] if go_integer(one).is_some_and(|n| n >= 0) => None,
            _ => Some(format!("operator `{}` on `{key}` needs one integer of at least 0", expr.operator)),
        },
        other => Some(format!("operator `{other}` on `{key}` is unknown")),
    }
}

fn is_restricted(world: &World, key: &str) -> bool {
    if key == HOSTNAME {
        return true;
    }
    let Some((domain, _)) = key.rsplit_once('/') else { return false };
    let within = |parent: &str| domain == parent || domain.ends_with(&format!(".{parent}"));
    if within("karpenter.sh") {
        return key != CAPACITY_TYPE && key != NODEPOOL;
    }
    (within("karpenter.kwok.sh") || within("karpenter.k8s.aws")) && !world.well_known.contains(key)
}

/// Kubernetes' shape of a label key: an optional DNS prefix, a slash, and a name of at most 63 characters.
fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let ends_well = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let name_ok = name.len() <= 63
        && ends_well(name)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let part_ok = |part: &str| {
        ends_well(part) && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name_ok && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(part_ok))
}

/// One rung of a pod's ladder: the pod with some wishes dropped.
#[derive(Debug, Clone)]
pub(super) struct Rung<'w> {
    /// The pod as written: what its node filters go by.
    pub original: &'w Pod,
    /// The pod with the wishes it still has.
    pub pod: Pod,
    /// Step 6 was taken.
    pub tolerates_prefer_no_schedule: bool,
}

/// All rungs of a pod, the full wish first. `soft_taints`: some pool or existing node has a PreferNoSchedule taint.
pub(super) fn ladder<'w>(pod: &'w Pod, respect_preferences: bool, soft_taints: bool) -> Vec<Rung<'w>> {
    let mut first = Rung { original: pod, pod: pod.clone(), tolerates_prefer_no_schedule: false };
    if !respect_preferences {
        first.pod.preferred_terms.clear();
        first.pod.preferred_affinity.clear();
        first.pod.preferred_anti_affinity.clear();
        first.pod.spread.retain(|spread| spread.hard);
    }
    let mut rungs = vec![first];
    while let Some(next) = rungs.last().and_then(|last| relaxed(last, soft_taints)) {
        rungs.push(next);
    }
    rungs
}

/// Step 6 of the relaxation exists only where some pool or existing node has a PreferNoSchedule taint.
pub(super) fn has_soft_taints(world: &World) -> bool {
    let soft = |taint: &Taint| taint.effect == "PreferNoSchedule";
    world.pools.iter().any(|pool| pool.taints.iter().any(soft))
        || world.nodes.iter().any(|node| node.taints.iter().any(soft))
}

/// "Relaxation": the next of several required terms, or the first of the other five steps that still has something to drop.
fn relaxed<'w>(rung: &Rung<'w>, soft_taints: bool) -> Option<Rung<'w>> {
    let mut next = rung.clone();
    let pod = &mut next.pod;
    if let Some(terms) = pod.required_terms.as_mut().filter(|terms| terms.len() > 1) {
        terms.remove(0);
        return Some(next);
    }
    // All alternatives come back for what is left of the wishes.
    pod.required_terms.clone_from(&rung.original.required_terms);
    if let Some(place) = heaviest(&pod.preferred_affinity) {
        pod.preferred_affinity.remove(place);
    } else if let Some(place) = heaviest(&pod.preferred_anti_affinity) {
        pod.preferred_anti_affinity.remove(place);
    } else if let Some(place) = heaviest(&pod.preferred_terms) {
        pod.preferred_terms.remove(place);
    } else if let Some(place) = pod.spread.iter().position(|spread| !spread.hard) {
        // The last constraint of the whole list takes the place of the removed one.
        pod.spread.swap_remove(place);
    } else if soft_taints && !next.tolerates_prefer_no_schedule {
        next.tolerates_prefer_no_schedule = true;
    } else {
        return None;
    }
    Some(next)
}

/// Where the heaviest entry is; of equal weights the earlier.
fn heaviest<T>(weighted: &[(i32, T)]) -> Option<usize> {
    let top = weighted.iter().map(|(weight, _)| *weight).max()?;
    weighted.iter().position(|(weight, _)| *weight == top)
}

impl Rung<'_> {
    /// The *strict ask*: nodeSelector ∧ first remaining required term. `None`: matches nothing.
    pub fn strict_ask(&self) -> Option<Requirements> {
        let selected = from_selector(&self.pod.node_selector);
        match &self.pod.required_terms {
            None => Some(selected),
            Some(terms) => match terms.first() {
                Some(term) if !term.is_empty() => Some(both(&selected, &conjunction(term))),
                _ => None,
            },
        }
    }

    /// The *ask*: the strict ask ∧ the heaviest remaining preferred term. `None`: matches nothing.
    pub fn ask(&self) -> Option<Requirements> {
        let strict = self.strict_ask()?;
        Some(match heaviest(&self.pod.preferred_terms) {
            Some(place) => both(&strict, &conjunction(&self.pod.preferred_terms[place].1)),
            None => strict,
        })
    }

    /// Whether every one of the taints is tolerated; PreferNoSchedule is a hard taint until step 6.
    pub fn tolerates(&self, taints: &[Taint]) -> bool {
        taints.iter().all(|taint| {
            (taint.effect == "PreferNoSchedule" && self.tolerates_prefer_no_schedule)
                || is_tolerated(taint, &self.pod.tolerations)
        })
    }
}

/// What a pod's node must match: nodeSelector ∧ any of the required terms, tried against one side by `matches`.
pub(super) fn any_term_matches(pod: &Pod, matches: impl Fn(&Requirements) -> bool) -> bool {
    let selected = from_selector(&pod.node_selector);
    match &pod.required_terms {
        None => matches(&selected),
        Some(terms) => terms
            .iter()
            .filter(|term| !term.is_empty())
            .any(|term| matches(&both(&selected, &conjunction(term)))),
    }
}

/// Whether some toleration matches the taint.
pub(super) fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| {
        let key = toleration.key.as_deref().unwrap_or_default();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        (effect.is_empty() || effect == taint.effect)
            && (key == taint.key || (key.is_empty() && toleration.operator == "Exists"))
            && match toleration.operator.as_str() {
                "Exists" => true,
                "Equal" | "" => toleration.value == taint.value,
                "Lt" => compare(&taint.value, &toleration.value, |taint, limit| taint < limit),
                "Gt" => compare(&taint.value, &toleration.value, |taint, limit| taint > limit),
                _ => false,
            }
    })
}

/// Numeric tolerations: both sides plain decimal integers (no plus sign, no leading zeros), else no match.
fn compare(taint: &str, limit: &str, holds: impl Fn(i64, i64) -> bool) -> bool {
    let plain = |text: &str| text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    match (plain(taint), plain(limit)) {
        (Some(taint), Some(limit)) => holds(taint, limit),
        _ => false,
    }
}

/// The single requirement of a template or machine for a key that offerings do not define, if it is a listed one.
pub(super) fn listed(requirement: Option<&Requirement>) -> Vec<String> {
    requirement
        .and_then(Requirement::listed_values)
        .map(|values| values.iter().cloned().collect())
        .unwrap_or_default()
}
