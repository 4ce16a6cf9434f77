//! S6, S7, S8: every machine that was asked for is known, there is one per claim, and nobody else's is touched.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Check;
use crate::simulate::happening::{Call, Cluster, Happening, What, is_leaving, text};

const FINALIZER: &str = "karpenter.sh/termination";

/// Watches machines.
#[derive(Default)]
pub(super) struct Machines {
    /// Machines that live, with the claims they were made for.
    alive: BTreeMap<String, String>,
    /// Machines that there ever were.
    ours: BTreeMap<String, String>,
}

impl Check for Machines {
    fn see(&mut self, happening: &Happening, cluster: &Cluster) -> Vec<(&'static str, String)> {
        match &happening.what {
            What::Launched { claim_uid, machine } => {
                let other = self.alive.iter().find(|(id, uid)| *uid == claim_uid && *id != machine);
                let found = other.map(|(other, _)| {
                    ("S7", format!("claim {claim_uid} has two machines: `{other}` and `{machine}`"))
                });
                self.alive.insert(machine.clone(), claim_uid.clone());
                self.ours.insert(machine.clone(), claim_uid.clone());
                found.into_iter().collect()
            }
            What::Ended { machine } => {
                self.alive.remove(machine);
                Vec::new()
            }
            What::NoneFor { claim_uid } => {
                self.alive.retain(|_, uid| uid != claim_uid);
                Vec::new()
            }
            What::EndAsked { machine } => {
                let node = cluster.node_of(machine);
                let is_ours = self.ours.contains_key(machine) || node.is_none_or(is_of_a_pool);
                let found = ("S8", format!("machine `{machine}` is ended, and joiner never made it"));
                if is_ours { Vec::new() } else { vec![found] }
            }
            What::Called(call) => self.called(call, cluster),
            What::Changed(_) => Vec::new(),
        }
    }
}

/// Whether a node says that it belongs to a pool.
fn is_of_a_pool(node: &Value) -> bool {
    !text(&node["metadata"]["labels"]["karpenter.sh/nodepool"]).is_empty()
}

impl Machines {
    fn called(&self, call: &Call, cluster: &Cluster) -> Vec<(&'static str, String)> {
        let target = call.target();
        match (call.method.as_str(), target.resource) {
            ("DELETE", "nodes") => {
                let node = cluster.find("Node", "", target.name).filter(|node| !is_of_a_pool(node));
                let found =
                    node.map(|_| ("S8", format!("node `{}` is deleted, and it is of no pool", target.name)));
                found.into_iter().collect()
            }
            ("PATCH", "nodeclaims") if gives_up(&call.body) => {
                let Some(claim) =
                    cluster.find("NodeClaim", "", target.name).filter(|claim| is_leaving(claim))
                else {
                    return Vec::new();
                };
                let uid = text(&claim["metadata"]["uid"]);
                let alive = self.alive.iter().filter(|(_, of)| *of == uid);
                let told = alive.map(|(machine, _)| {
                    ("S6", format!("claim `{}` is let go while its machine `{machine}` lives", target.name))
                });
                told.collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether a patch takes joiner's finalizer away.
fn gives_up(patch: &Value) -> bool {
    let Some(finalizers) = patch["metadata"].get("finalizers") else { return false };
    !finalizers.as_array().into_iter().flatten().any(|finalizer| finalizer == FINALIZER)
}
