//! Rule book §8, "Volumes": the alternatives a pod's claims leave, and how many volumes a real node attaches.

use std::collections::{BTreeMap, BTreeSet};

use super::requirement::{Requirements, both, conjunction, overlap};
use crate::world::{Node, Pod};

/// "Several claims: cross product of compatible pairs (all, if none is)". Never empty: no constraint is one
/// alternative.
pub(super) fn alternatives(pod: &Pod) -> Vec<Requirements> {
    let mut product = vec![Requirements::new()];
    for volume in pod.volumes.iter().filter(|volume| !volume.alternatives.is_empty()) {
        let terms: Vec<Requirements> = volume.alternatives.iter().map(conjunction).collect();
        let pairs: Vec<(&Requirements, &Requirements)> =
            product.iter().flat_map(|one| terms.iter().map(move |other| (one, other))).collect();
        let any_compatible = pairs.iter().any(|(one, other)| overlap(one, other));
        product = pairs
            .into_iter()
            .filter(|(one, other)| !any_compatible || overlap(one, other))
            .map(|(one, other)| both(one, other))
            .collect();
    }
    product
}

/// Whether the node can attach the pod's volumes next to those of the pods already there.
pub(super) fn within_limits<'a>(node: &Node, present: impl Iterator<Item = &'a Pod>, pod: &'a Pod) -> bool {
    let mut claims: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for volume in present.chain(std::iter::once(pod)).flat_map(|pod| &pod.volumes) {
        if let Some(driver) = &volume.driver {
            claims.entry(driver).or_default().insert(&volume.claim);
        }
    }
    pod.volumes.iter().filter_map(|volume| volume.driver.as_deref()).all(|driver| {
        let attached = claims.get(driver).map_or(0, BTreeSet::len);
        node.volume_limits.get(driver).is_none_or(|limit| attached <= *limit as usize)
    })
}
