//! Who owns whom: an index from uids to objects and from owners to dependents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Object, ResourceName};

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
    places: BTreeMap<Box<str>, Location>,
    dependents: BTreeMap<Box<str>, BTreeSet<Location>>,
}

impl Owners {
    pub(super) fn locate(&self, uid: &str) -> Option<Location> {
        self.places.get(uid).cloned()
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Location> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Follows an object from one state to the next, each of which may be none.
    pub(super) fn follow(
        &mut self,
        resource: &ResourceName,
        key: &Arc<str>,
        before: Option<&Object>,
        after: Option<&Object>,
    ) {
        if let (Some(before), Some(after)) = (before, after)
            && before.uid() == after.uid()
            && before.owners().eq(after.owners())
        {
            return;
        }
        let location = Location { resource: resource.clone(), key: key.clone() };
        if let Some(before) = before {
            self.places.remove(before.uid());
            for owner in before.owners() {
                if let Some(dependents) = self.dependents.get_mut(owner) {
                    dependents.remove(&location);
                    if dependents.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
            }
        }
        if let Some(after) = after {
            for owner in after.owners() {
                self.dependents.entry(owner.into()).or_default().insert(location.clone());
            }
            self.places.insert(after.uid().into(), location);
        }
    }
}
