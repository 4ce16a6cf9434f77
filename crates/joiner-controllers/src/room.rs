//! What nodes have left, and so whether a pod's planned place is still there. The scheduler need not follow the plan: it may have put others
//! where a pod was to go.
//!
//! Only what pods ask for is compared. Whoever is kept out by anything else (a port, a rule about neighbours) is expected until its time is over.

use std::collections::BTreeMap;

use joiner_state::parts;
use joiner_state::requests::Amounts;

use crate::cache::ClusterCache;
use crate::pods::{self, CachedPod};

/// What is left for pods that are expected, by node; nothing is known of places where nobody has been put yet.
#[derive(Debug, Default)]
pub struct Room(BTreeMap<String, Option<Amounts>>);

impl Room {
    /// Keeps a place for a pod that is expected there. False if others have taken it.
    pub fn take(&mut self, cache: &ClusterCache, place: &str, pod: &CachedPod) -> bool {
        if !self.0.contains_key(place) {
            self.0.insert(place.to_owned(), left_on(cache, place));
        }
        let Some(Some(left)) = self.0.get_mut(place) else { return true };
        let fits = fits(left, pod);
        if fits {
            subtract(left, pod);
        }
        fits
    }
}

/// Whether pods on a node leave no room for one more.
pub fn is_taken(cache: &ClusterCache, node: &str, pod: &CachedPod) -> bool {
    left_on(cache, node).is_some_and(|left| !fits(&left, pod))
}

fn left_on(cache: &ClusterCache, place: &str) -> Option<Amounts> {
    let node = cache.nodes.get(place)?;
    left(parts::allocatable(node).ok()?, cache.pods_on(place).map(|pod| &**pod))
}

/// What pods leave of a node; none if nobody but its own daemons is there: then nobody has taken anything.
fn left<'p>(mut amounts: Amounts, on_it: impl Iterator<Item = &'p CachedPod>) -> Option<Amounts> {
    // Until a device has announced itself, a node says that it has none.
    amounts.retain(|_, amount| *amount > 0);
    let mut is_used = false;
    for pod in on_it.filter(|pod| pods::is_active(pod)) {
        subtract(&mut amounts, pod);
        is_used |= !pods::is_daemon(pod) && !pods::is_mirror(pod);
    }
    is_used.then_some(amounts)
}

fn fits(left: &Amounts, pod: &CachedPod) -> bool {
    let mut needs = pod.common.requests.iter().filter(|(_, amount)| **amount > 0);
    needs.all(|(name, amount)| left.get(name).is_none_or(|left| left >= amount))
}

fn subtract(left: &mut Amounts, pod: &CachedPod) {
    for (name, amount) in &pod.common.requests {
        if let Some(left) = left.get_mut(name) {
            *left = left.saturating_sub(*amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(requests: Value, change: (&str, Value)) -> CachedPod {
        let mut pod = json!({"metadata": {"name": "a"}, "status": {},
            "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}});
        let (part, fields) = change;
        for (field, value) in fields.as_object().unwrap() {
            pod[part][field] = value.clone();
        }
        CachedPod::new(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_place_is_taken_once_pods_leave_too_little() {
        let none = || ("status", json!({}));
        let of_daemon = || {
            let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"});
            ("metadata", json!({"ownerReferences": [owner]}))
        };
        let cpu = |cpu: &str| json!({"cpu": cpu});
        let deleted = || ("metadata", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let cases = [
            ("nobody is there", vec![], cpu("9"), true),
            ("its daemons alone", vec![pod(cpu("2"), of_daemon())], cpu("3"), true),
            ("room to the last thousandth", vec![pod(cpu("2500m"), none())], cpu("1500m"), true),
            ("a thousandth too little", vec![pod(cpu("2501m"), none())], cpu("1500m"), false),
            ("daemons count", vec![pod(cpu("2"), none()), pod(cpu("1"), of_daemon())], cpu("2"), false),
            ("who has finished", vec![pod(cpu("4"), ("status", json!({"phase": "Failed"})))], cpu("2"), true),
            ("who goes", vec![pod(cpu("4"), deleted())], cpu("2"), true),
            (
                "another resource",
                vec![pod(json!({"memory": "7Gi"}), none())],
                json!({"memory": "2Gi"}),
                false,
            ),
            ("none that it asks for", vec![pod(json!({"memory": "9Gi"}), none())], cpu("1"), true),
            ("places of pods", vec![pod(json!({}), none()), pod(json!({}), none())], json!({}), false),
            ("a device to come", vec![pod(cpu("1"), none())], json!({"example.com/gpu": "1"}), true),
        ];
        for (case, on_it, asks, expected) in cases {
            let allocatable: Amounts =
                [("cpu", 4000), ("memory", 8 << 30), ("pods", 2), ("example.com/gpu", 0)]
                    .map(|(name, amount)| (name.into(), amount))
                    .into();
            let left = left(allocatable, on_it.iter());
            assert_eq!(left.is_none_or(|left| fits(&left, &pod(asks, none()))), expected, "{case}");
        }
    }
}
