//! A cluster out of files: snapshots of `joiner snapshot`, lists as `kubectl get` prints them, snapshots and recordings of KWOK.
//!
//! [`read`](mod@read) takes the files apart into objects and recorded changes. For a simulated cluster [`machines`] makes nodes of real
//! machines simulated ones, [`links`] gives references their targets again, [`complete`] adds what the objects need and the files
//! do not have, and [`restore`] puts all of it into a server. [`intent`] leaves only what users asked for. [`recording`] plays changes back.

pub mod complete;
pub mod intent;
pub mod links;
pub mod machines;
pub mod read;
pub mod recording;
pub mod restore;

pub use read::read;
pub use recording::Change;

use clap::ValueEnum;
use serde_json::Value;

use crate::field::{at, at_mut, text};

/// What to make of the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum FromMode {
    /// The cluster as it was: its nodes, and every pod where it stood.
    #[default]
    AsIs,
    /// Only what was asked for (workloads, pools, budgets, volumes), on no nodes at all.
    Intent,
}

/// What files hold.
#[derive(Debug, Default)]
pub struct Import {
    /// Objects, owners before what they own.
    pub objects: Vec<Value>,
    /// Changes after that, in the order of their time.
    pub changes: Vec<Change>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Whether machines or pools are of AWS.
    pub of_aws: bool,
}

impl Import {
    /// Leaves what the mode asks for, and makes it ready for a simulated cluster.
    pub fn for_simulation(mut self, mode: FromMode) -> Self {
        match mode {
            FromMode::AsIs => {}
            FromMode::Intent => self.leave_intent(),
        }
        self.of_aws = machines::are_of_aws(&self.objects);
        machines::simulate(&mut self.objects, &mut self.notes);
        complete::complete(&mut self.objects, &mut self.notes);
        crate::snapshot::file::sort(&mut self.objects);
        self
    }

    /// Leaves what users asked for.
    pub fn leave_intent(&mut self) {
        intent::leave(&mut self.objects);
        if !self.changes.is_empty() {
            let count = self.changes.len();
            self.notes.push(format!(
                "{count} recorded changes are left out: they are changes to nodes and pods that are not there"
            ));
            self.changes.clear();
        }
    }
}

/// The kind of an object.
fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// The reference to whoever controls an object.
fn controller(object: &Value) -> Option<&Value> {
    let owners = at(object, "/metadata/ownerReferences").and_then(Value::as_array)?;
    owners.iter().find(|owner| owner["controller"] == true)
}

/// Drops a field of `metadata`, `spec` or `status`.
fn remove(object: &mut Value, parent: &str, field: &str) {
    if let Some(fields) = at_mut(object, parent).and_then(Value::as_object_mut) {
        fields.remove(field);
    }
}
