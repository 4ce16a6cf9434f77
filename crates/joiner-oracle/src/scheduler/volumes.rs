//! Rule book §8, "Volumes": the alternatives a pod's claims leave, and how many volumes a node or machine attaches.

use std::collections::{BTreeMap, BTreeSet};

use super::requirement::{Requirements, both, conjunction, overlap};
use crate::world::{InstanceType, Node, Pod};

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

/// Whether the node can attach the pod's volumes next to those of the pods already there. Claims that are attached
/// already ask for nothing.
pub(super) fn within_limits<'a>(node: &Node, present: impl Iterator<Item = &'a Pod>, pod: &'a Pod) -> bool {
    let claims_of = |pods: &mut dyn Iterator<Item = &'a Pod>| {
        let mut claims: BTreeMap<&'a str, BTreeSet<&'a str>> = BTreeMap::new();
        for volume in pods.flat_map(|pod| &pod.volumes) {
            if let Some(driver) = &volume.driver {
                claims.entry(driver).or_default().insert(&volume.claim);
            }
        }
        claims
    };
    let attached = claims_of(&mut present.into_iter());
    claims_of(&mut std::iter::once(pod)).into_iter().all(|(driver, wanted)| {
        let there = attached.get(driver).cloned().unwrap_or_default();
        let new = wanted.difference(&there).count();
        let limit = node.volume_limits.get(driver);
        new == 0 || limit.is_none_or(|limit| there.len() + new <= *limit as usize)
    })
}

/// Whether a machine of a type attaches all volumes of these pods.
pub(super) fn attaches(ty: &InstanceType, pods: &[&Pod]) -> bool {
    ty.volume_limits.iter().all(|(driver, limit)| {
        let volumes = pods.iter().flat_map(|pod| &pod.volumes);
        let claims: BTreeSet<&str> = volumes
            .filter(|volume| volume.driver.as_ref() == Some(driver))
            .map(|volume| volume.claim.as_str())
            .collect();
        claims.len() <= *limit as usize
    })
}
