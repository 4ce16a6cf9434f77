//! Everything that is hash-consed, with the well-known keys: what lowering fills and a run reads.

use super::ids::{KeyId, ReqId, RqId, TaintsId, TolerationsId};
use super::intern::Interner;
use super::{Names, Requirement, Taint, Toleration};

/// A set of requirements, sorted by key, at most one per key.
pub type ReqSet = Box<[(KeyId, RqId)]>;

/// The shared tables of a snapshot.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// Label keys, values and resource lanes.
    pub names: Names,
    pub(crate) requirements: Interner<(KeyId, Requirement)>,
    pub(crate) sets: Interner<ReqSet>,
    pub(crate) taints: Interner<Vec<Taint>>,
    pub(crate) tolerations: Interner<Vec<Toleration>>,
    /// By [`KeyId`]: a template that does not define the key leaves it open.
    well_known: Vec<bool>,
}

impl Vocabulary {
    /// Declares a key well-known.
    pub fn add_well_known(&mut self, key: KeyId) {
        if self.well_known.len() <= key.at() {
            self.well_known.resize(key.at() + 1, false);
        }
        self.well_known[key.at()] = true;
    }

    /// Whether a template may leave a key open.
    #[inline]
    pub fn is_well_known(&self, key: KeyId) -> bool {
        self.well_known.get(key.at()).copied().unwrap_or(false)
    }

    /// The id of a requirement.
    pub fn requirement(&mut self, key: KeyId, requirement: Requirement) -> RqId {
        RqId(self.requirements.intern((key, requirement)))
    }

    /// The id of a set of requirements; several on one key are intersected.
    pub fn set(&mut self, requirements: impl IntoIterator<Item = (KeyId, Requirement)>) -> ReqId {
        let mut list: Vec<(KeyId, Requirement)> = Vec::new();
        for (key, requirement) in requirements {
            match list.iter_mut().find(|(k, _)| *k == key) {
                Some((_, have)) => *have = have.intersect(&requirement, &self.names, key),
                None => list.push((key, requirement)),
            }
        }
        list.sort_by_key(|(key, _)| *key);
        let set: ReqSet = list.into_iter().map(|(key, rq)| (key, self.requirement(key, rq))).collect();
        ReqId(self.sets.intern(set))
    }

    /// The requirements of a set.
    pub fn set_items(&self, set: ReqId) -> impl Iterator<Item = (KeyId, &Requirement)> {
        self.sets.get(set.0).iter().map(|(key, rq)| (*key, &self.requirements.get(rq.0).1))
    }

    /// The id of a list of taints, in a fixed order.
    pub fn taint_list(&mut self, mut taints: Vec<Taint>) -> TaintsId {
        taints.sort();
        taints.dedup();
        TaintsId(self.taints.intern(taints))
    }

    /// The taints of a list.
    pub fn taints(&self, id: TaintsId) -> &[Taint] {
        self.taints.get(id.0)
    }

    /// The id of a list of tolerations, in a fixed order.
    pub fn toleration_list(&mut self, mut tolerations: Vec<Toleration>) -> TolerationsId {
        tolerations.sort();
        tolerations.dedup();
        TolerationsId(self.tolerations.intern(tolerations))
    }

    /// The tolerations of a list.
    pub fn tolerations(&self, id: TolerationsId) -> &[Toleration] {
        self.tolerations.get(id.0)
    }
}
