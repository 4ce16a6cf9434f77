//! S15: what nobody changed does not drift.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Check;
use crate::simulate::happening::{Change, Cluster, Happening, What, is_true, text};

/// Watches drift.
#[derive(Default)]
pub(super) struct Drifting {
    /// Generations of pool and class when a claim was first seen, by its uid.
    made_from: BTreeMap<String, (Value, Value)>,
}

impl Check for Drifting {
    fn see(&mut self, happening: &Happening, cluster: &Cluster) -> Vec<(&'static str, String)> {
        let What::Changed(Change { kind: "NodeClaim", object, previous, is_gone: false }) = &happening.what
        else {
            return Vec::new();
        };
        let uid = text(&object["metadata"]["uid"]).to_owned();
        let pool = text(&object["metadata"]["labels"]["karpenter.sh/nodepool"]);
        let generation = |kind: &str, name: &str| {
            cluster.find(kind, "", name).map_or(Value::Null, |of| of["metadata"]["generation"].clone())
        };
        let class = text(&object["spec"]["nodeClassRef"]["name"]);
        let now = (generation("NodePool", pool), generation("KWOKNodeClass", class));
        let before = self.made_from.entry(uid).or_insert_with(|| now.clone());
        if is_true(object, "Drifted") && !is_true(previous, "Drifted") && *before == now {
            let name = text(&object["metadata"]["name"]);
            return vec![(
                "S15",
                format!(
                    "claim `{name}` has drifted, and neither pool `{pool}` nor class `{class}` has changed"
                ),
            )];
        }
        Vec::new()
    }
}
