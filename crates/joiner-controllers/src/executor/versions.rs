//! Versions of objects along a row of writes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::command::{Command, Done};

/// Versions that our own writes in a row have made: a later patch of the same object was computed from the version before the first.
#[derive(Default)]
pub struct Versions(BTreeMap<(&'static str, String), (String, String)>);

impl Versions {
    /// The command, made from the version that the writes before it have left.
    pub fn follow(&self, command: &Command) -> Command {
        let mut command = command.clone();
        let Some((object, patch)) = patch_of(&mut command) else { return command };
        if let Some((before, after)) = self.0.get(&object)
            && let Some(version) = patch.pointer_mut("/metadata/resourceVersion")
            && version.as_str() == Some(before)
        {
            *version = Value::from(after.as_str());
        }
        command
    }

    /// A write went well.
    pub fn learn(&mut self, command: &Command, done: &Done) {
        let mut command = command.clone();
        let Some((object, patch)) = patch_of(&mut command) else { return };
        let before = patch.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
        let after = match done {
            Done::Claim(claim) => claim.metadata.resource_version.clone(),
            Done::Node(node) => node.metadata.resource_version.clone(),
            Done::Pool(pool) => pool.metadata.resource_version.clone(),
            Done::Group(..) | Done::Machine(_) | Done::Found(_) | Done::Nothing => None,
        };
        if let (Some(before), Some(after)) = (before, after) {
            self.0.insert(object, (before, after));
        }
    }
}

fn patch_of(command: &mut Command) -> Option<((&'static str, String), &mut Value)> {
    match command {
        Command::PatchClaim { name, patch } | Command::PatchClaimStatus { name, patch } => {
            Some((("claim", name.clone()), patch))
        }
        Command::PatchNode { name, patch } => Some((("node", name.clone()), patch)),
        Command::PatchPool { name, patch } | Command::PatchPoolStatus { name, patch } => {
            Some((("pool", name.clone()), patch))
        }
        _ => None,
    }
}
