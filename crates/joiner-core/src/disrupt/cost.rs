//! What taking a node away costs those whose pods run there: the original's figures, which decide the order in which nodes are tried.

/// The weight of a pod's `controller.kubernetes.io/pod-deletion-cost` and of its priority.
const DELETION_COST_WEIGHT: f64 = (1u64 << 27) as f64;
const PRIORITY_WEIGHT: f64 = (1u64 << 25) as f64;
/// A pod costs no more than this, and no less than its negative.
const MOST: f64 = 10.0;

/// What evicting a pod costs: 1, a little more or less by deletion cost and priority.
pub fn eviction_cost(deletion_cost: f64, priority: i32) -> f64 {
    (1.0 + deletion_cost / DELETION_COST_WEIGHT + f64::from(priority) / PRIORITY_WEIGHT).clamp(-MOST, MOST)
}

/// What taking a node away costs: 1, and the cost of every pod that needs another place. Pods nobody minds evicting make it no cheaper.
pub fn rescheduling_cost(eviction_costs: impl IntoIterator<Item = f64>) -> f64 {
    1.0 + eviction_costs.into_iter().map(|cost| cost.max(0.0)).sum::<f64>()
}

/// Whether a node of this cost counts as empty: no pod on it is worth anything.
pub fn is_empty(rescheduling_cost: f64) -> bool {
    rescheduling_cost <= 1.0
}

/// The share of its life that a node has left: 1 without an end.
pub fn lifetime_left(age_seconds: f64, expire_after_seconds: Option<f64>) -> f64 {
    match expire_after_seconds {
        Some(all) if all > 0.0 => (1.0 - age_seconds / all).clamp(0.0, 1.0),
        Some(_) => 0.0,
        None => 1.0,
    }
}

/// The cost over all pods of a node, daemons too, less the nearer its end is: which of a fixed number of nodes goes first.
pub fn disruption_cost(eviction_costs: impl IntoIterator<Item = f64>, lifetime_left: f64) -> f64 {
    eviction_costs.into_iter().sum::<f64>() * lifetime_left
}
