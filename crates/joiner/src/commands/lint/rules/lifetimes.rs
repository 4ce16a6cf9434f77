//! Lifetimes that are hardly meant.

use joiner_api::duration::NillableDuration;

use crate::commands::lint::finding::Hit;
use crate::commands::lint::subject::Subject;

/// Nodes need minutes to start; what lives shorter than this is never of use.
const SHORTEST_SECONDS: i64 = 600;

/// Nodes that expire about as fast as they start.
pub fn expires_too_soon(subject: &Subject) -> Vec<Hit> {
    let mut hits = Vec::new();
    for pool in &subject.pools {
        let Some(text) = &pool.pool.spec.template.spec.expire_after else { continue };
        let lifetime = NillableDuration::parse(text).ok().and_then(|lifetime| lifetime.duration());
        if lifetime.is_some_and(|lifetime| lifetime.whole_seconds() < SHORTEST_SECONDS) {
            hits.push(Hit::new(
                pool.object,
                "spec.template.spec.expireAfter",
                format!("nodes are deleted {text} after they start, whatever budgets say"),
                "write hours, e.g. `720h`, or `Never`",
            ));
        }
    }
    hits
}
