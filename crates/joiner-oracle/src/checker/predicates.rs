//! The small questions: does this toleration cover that taint, does this selector pick that pod, do these ports clash.

use super::surface::satisfied;
use crate::world::{AffinityTerm, Pod, Port, Selector, Taint, Toleration, World};

/// Whether a taint keeps pods out (as opposed to being a preference).
pub(super) fn is_hard(taint: &Taint) -> bool {
    taint.effect == "NoSchedule" || taint.effect == "NoExecute"
}

/// The first hard taint no toleration covers.
pub(super) fn untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    taints.iter().filter(|taint| is_hard(taint)).find(|taint| !tolerations.iter().any(|t| covers(t, taint)))
}

/// Whether one toleration covers one taint, whatever its effect.
pub fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    let key = toleration.key.as_deref().unwrap_or_default();
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_str() {
        "Exists" => true,
        // The API refuses `Equal` without a key; where it is met, only the value is compared.
        "" | "Equal" => toleration.value == taint.value,
        operator @ ("Lt" | "Gt") => match (plain_integer(&taint.value), plain_integer(&toleration.value)) {
            (Some(has), Some(bound)) => {
                (operator == "Lt" && has < bound) || (operator == "Gt" && has > bound)
            }
            _ => false,
        },
        _ => false,
    }
}

/// An integer in its only accepted spelling: no plus sign, no leading zeros.
fn plain_integer(text: &str) -> Option<i64> {
    text.parse::<i64>().ok().filter(|n| n.to_string() == text)
}

/// Whether a selector picks these labels; an absent selector picks nothing.
pub(super) fn selects(selector: Option<&Selector>, labels: &crate::world::Labels) -> bool {
    selector.is_some_and(|selector| {
        selector.expressions.iter().all(|expr| satisfied(expr, labels.get(&expr.key).map(String::as_str)))
    })
}

/// Whether a pod affinity term of a pod in `home` picks `pod`.
pub(super) fn term_selects(term: &AffinityTerm, home: &str, pod: &Pod, world: &World) -> bool {
    let own_only = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let in_namespace = if own_only {
        pod.namespace == home
    } else {
        term.namespaces.contains(&pod.namespace)
            || term.namespace_selector.as_ref().is_some_and(|selector| {
                let nothing = crate::world::Labels::new();
                selects(Some(selector), world.namespaces.get(&pod.namespace).unwrap_or(&nothing))
            })
    };
    in_namespace && selects(term.selector.as_ref(), &pod.labels)
}

/// Whether two host ports cannot be had on one node.
pub(super) fn clash(a: &Port, b: &Port) -> bool {
    let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
    a.port == b.port
        && a.protocol == b.protocol
        && (any(&a.host_ip) || any(&b.host_ip) || a.host_ip == b.host_ip)
}
