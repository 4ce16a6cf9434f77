//! S1: what a pool buys stays within its limits at every instant.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Check;
use crate::simulate::happening::{Change, Cluster, Happening, What, amount, is_leaving, text};

/// What machine types have, by name and resource.
pub type Types = BTreeMap<String, BTreeMap<String, f64>>;

/// A decision that was made under the limits of a while ago may still be carried out.
const MEMORY: SignedDuration = SignedDuration::from_secs(40);

/// Watches limits.
pub(super) struct Limits {
    types: Types,
    /// Limits of pools since when they hold, oldest first.
    known: BTreeMap<String, Vec<(Timestamp, Value)>>,
}

impl Limits {
    pub(super) fn new(types: Types) -> Self {
        Self { types, known: BTreeMap::new() }
    }

    /// What a claim counts for: what it got, or else the most it may get of each resource.
    fn counts(&self, claim: &Value, resource: &str) -> f64 {
        if resource == "nodes" {
            return 1.0;
        }
        if let Some(have) = amount(&claim["status"]["capacity"][resource]) {
            return have;
        }
        let requirements = claim["spec"]["requirements"].as_array();
        let names = requirements.into_iter().flatten().find(|requirement| {
            requirement["key"] == "node.kubernetes.io/instance-type" && requirement["operator"] == "In"
        });
        let has = |name: &str| self.types.get(name).and_then(|type_| type_.get(resource)).copied();
        let values = names.and_then(|requirement| requirement["values"].as_array());
        match values {
            Some(values) => values.iter().filter_map(|name| has(text(name))).fold(0.0, f64::max),
            None => self.types.keys().filter_map(|name| has(name)).fold(0.0, f64::max),
        }
    }
}

impl Check for Limits {
    fn see(&mut self, happening: &Happening, cluster: &Cluster) -> Vec<(&'static str, String)> {
        let What::Changed(Change { kind, object, previous, is_gone: false }) = &happening.what else {
            return Vec::new();
        };
        let now = happening.at;
        match *kind {
            "NodePool" => {
                let known = self.known.entry(text(&object["metadata"]["name"]).to_owned()).or_default();
                let limits = &object["spec"]["limits"];
                if known.last().is_none_or(|(_, last)| last != limits) {
                    known.push((now, limits.clone()));
                }
                Vec::new()
            }
            "NodeClaim" if previous.is_null() => {
                let pool = text(&object["metadata"]["labels"]["karpenter.sh/nodepool"]);
                let Some(known) = self.known.get(pool) else { return Vec::new() };
                // All limits of the last while: those that ended within it, and the present ones.
                let in_force = known.iter().enumerate().filter(|(at, _)| {
                    known.get(at + 1).is_none_or(|(ended, _)| now.duration_since(*ended) <= MEMORY)
                });
                let in_force: Vec<&Value> = in_force.map(|(_, (_, limits))| limits).collect();
                let mut resources: Vec<&String> = in_force
                    .iter()
                    .filter_map(|limits| limits.as_object())
                    .flat_map(|limits| limits.keys())
                    .collect();
                resources.sort();
                resources.dedup();
                let mut found = Vec::new();
                for resource in resources {
                    // Where one of them has no such limit, there was none.
                    let limits: Option<Vec<f64>> =
                        in_force.iter().map(|limits| amount(&limits[resource])).collect();
                    let Some(limit) = limits.and_then(|limits| limits.into_iter().reduce(f64::max)) else {
                        continue;
                    };
                    let claims = cluster.all("NodeClaim").filter(|claim| {
                        claim["metadata"]["labels"]["karpenter.sh/nodepool"] == pool && !is_leaving(claim)
                    });
                    let used: f64 = claims.map(|claim| self.counts(claim, resource)).sum();
                    if used > limit * (1.0 + 1e-9) {
                        found.push((
                            "S1",
                            format!(
                                "claim `{}` takes pool `{pool}` to {used} {resource}, its limit is {limit}",
                                text(&object["metadata"]["name"])
                            ),
                        ));
                    }
                }
                found
            }
            _ => Vec::new(),
        }
    }
}
