//! What was read of nodes and claims for one snapshot, kept for the next: a cluster that is lowered again and again has hardly changed in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::node_digest::{ClaimDigest, NodeDigest};
use crate::problem::Finding;

/// Digests by the objects they were made of. Objects that the latest snapshot no longer had are forgotten.
#[derive(Debug, Default)]
pub struct Memo {
    pub(crate) nodes: Shelf<NodeDigest>,
    pub(crate) claims: Shelf<ClaimDigest>,
}

impl Memo {
    /// What was asked for since it was last carried over.
    pub(crate) fn carried_over(self) -> Self {
        Self { nodes: self.nodes.carried_over(), claims: self.claims.carried_over() }
    }
}

/// Digests of one kind, by name.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    known: BTreeMap<String, Kept<T>>,
    asked_for: BTreeMap<String, Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    state: State,
    digest: Arc<T>,
}

/// Which state of an object: its uid and its version.
type State = (String, String);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), asked_for: BTreeMap::new() }
    }
}

impl<T> Shelf<T> {
    /// The digest of an object: the one there is, or one that is read now. Objects without a version are always read.
    pub(crate) fn digest(
        &mut self,
        name: &str,
        metadata: &ObjectMeta,
        read: impl FnOnce() -> Result<T, Finding>,
    ) -> Result<Arc<T>, Finding> {
        let Some(state) = metadata.uid.clone().zip(metadata.resource_version.clone()) else {
            return read().map(Arc::new);
        };
        let digest = match self.known.remove(name).filter(|kept| kept.state == state) {
            Some(kept) => kept.digest,
            None => Arc::new(read()?),
        };
        self.asked_for.insert(name.to_owned(), Kept { state, digest: digest.clone() });
        Ok(digest)
    }

    fn carried_over(self) -> Self {
        Self { known: self.asked_for, asked_for: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(uid: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn an_object_is_read_again_when_it_is_another() {
        let mut shelf = Shelf::default();
        let mut reads = 0;
        let mut ask = |shelf: &mut Shelf<u32>, metadata: &ObjectMeta| {
            let digest = shelf.digest("a", metadata, || {
                reads += 1;
                Ok(reads)
            });
            *digest.unwrap()
        };
        assert_eq!(ask(&mut shelf, &state("1", "7")), 1);
        let mut shelf = shelf.carried_over();
        assert_eq!(ask(&mut shelf, &state("1", "7")), 1, "the same state");
        let mut shelf = shelf.carried_over();
        assert_eq!(ask(&mut shelf, &state("1", "8")), 2, "a later one");
        let mut shelf = shelf.carried_over();
        assert_eq!(ask(&mut shelf, &state("2", "8")), 3, "another object of that name");
        let mut shelf = shelf.carried_over().carried_over();
        assert_eq!(ask(&mut shelf, &state("2", "8")), 4, "it was not there in between");
        assert_eq!(ask(&mut shelf, &ObjectMeta::default()), 5);
        assert_eq!(ask(&mut shelf, &ObjectMeta::default()), 6, "without a version nobody can tell");
    }
}
