//! Who owns whom: an index from uids to objects and from owners to dependents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{Change, ChangeKind, ResourceName};

/// The place of an object in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Its resource.
    pub resource: ResourceName,
    /// Its key within the resource.
    pub key: Arc<str>,
}

#[derive(Debug, Default)]
pub(super) struct Owners {
    places: BTreeMap<String, Location>,
    dependents: BTreeMap<String, BTreeSet<Location>>,
}

impl Owners {
    pub(super) fn locate(&self, uid: &str) -> Option<Location> {
        self.places.get(uid).cloned()
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Location> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    pub(super) fn follow(&mut self, resource: &ResourceName, change: &Change) {
        let location = Location { resource: resource.clone(), key: change.key.clone() };
        if let Some(previous) = &change.previous {
            self.places.remove(uid(previous));
            for owner in owner_uids(previous) {
                if let Some(dependents) = self.dependents.get_mut(owner) {
                    dependents.remove(&location);
                    if dependents.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
            }
        }
        if change.kind != ChangeKind::Deleted {
            for owner in owner_uids(&change.object) {
                self.dependents.entry(owner.to_owned()).or_default().insert(location.clone());
            }
            self.places.insert(uid(&change.object).to_owned(), location);
        }
    }
}

fn uid(object: &Value) -> &str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get("uid"))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    let references =
        object.get("metadata").and_then(|metadata| metadata.get("ownerReferences")).and_then(Value::as_array);
    references.into_iter().flatten().filter_map(|reference| reference.get("uid").and_then(Value::as_str))
}
