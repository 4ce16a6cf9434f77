//! Machines of a pool that do not join, one after the other. Such a pool is tried after all others, and one machine at a time, until one joins.
//!
//! Beside it stands the condition `NodeRegistrationHealthy`, which tells people and stops nothing.

use std::collections::BTreeSet;

use joiner_api::NodeClaim;
use joiner_api::NodePool;
use joiner_api::names::{REGISTRATION_FAILURES_ANNOTATION, conditions};
use kube::ResourceExt;

use crate::settings::BreakerSettings;
use crate::steps::lifecycle::is_true;

/// How many in a row have failed, as the pool says it; nonsense is none.
pub fn stored(pool: &NodePool) -> u32 {
    pool.annotations().get(REGISTRATION_FAILURES_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The text of the annotation; nothing if none has failed.
pub fn text(failures: u32) -> Option<String> {
    (failures > 0).then(|| failures.to_string())
}

/// Whether so many failures in a row are too many.
pub fn is_tripped(failures: u32, settings: &BreakerSettings) -> bool {
    settings.registration_failures > 0 && failures >= settings.registration_failures
}

/// Pools that are not used as always.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnProbation {
    /// After all others.
    pub last: BTreeSet<String>,
    /// Not at all: a machine of theirs is just trying to join.
    pub closed: BTreeSet<String>,
}

/// How a pool with too many failures is used, given its claims.
pub fn probation<'c>(
    pool: &NodePool,
    mut claims: impl Iterator<Item = &'c NodeClaim>,
    all: &mut OnProbation,
) {
    let is_trying = |claim: &NodeClaim| {
        claim.metadata.deletion_timestamp.is_none() && !is_true(claim, conditions::REGISTERED)
    };
    all.last.insert(pool.name_any());
    if claims.any(is_trying) {
        all.closed.insert(pool.name_any());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pool(failures: Option<&str>) -> NodePool {
        let annotations = failures.map(|text| json!({(REGISTRATION_FAILURES_ANNOTATION): text}));
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"disruption": {}, "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}}}))
        .unwrap()
    }

    fn claim(registered: &str, deleted: Value) -> NodeClaim {
        serde_json::from_value(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c", "deletionTimestamp": deleted},
            "status": {"conditions": [{"type": "Registered", "status": registered, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}))
        .unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        for failures in [0, 1, 3, 12] {
            assert_eq!(stored(&pool(text(failures).as_deref())), failures);
        }
        assert_eq!(stored(&pool(Some("many"))), 0);
        let settings = BreakerSettings::default();
        assert_eq!([0, 2, 3, 9].map(|failures| is_tripped(failures, &settings)), [false, false, true, true]);
        let never = BreakerSettings { registration_failures: 0, ..settings };
        assert!(!is_tripped(9, &never));
    }

    #[test]
    fn one_machine_is_tried_at_a_time() {
        let of = |claims: &[NodeClaim]| {
            let mut all = OnProbation::default();
            probation(&pool(None), claims.iter(), &mut all);
            assert!(all.last.contains("a"));
            all.closed.contains("a")
        };
        assert!(!of(&[]));
        assert!(!of(&[claim("True", Value::Null), claim("Unknown", json!("2026-01-01T00:00:00Z"))]));
        assert!(of(&[claim("True", Value::Null), claim("Unknown", Value::Null)]));
    }
}
