//! Requirement sets at run time: intersections are looked up, not computed, after the first time.
//!
//! A run makes new sets (a machine narrowed by its pods) on top of the snapshot's immutable ones. Every set has an id; `meet` of
//! two ids is memoised, so most of a run never looks inside a requirement.

use hashbrown::HashMap;

use crate::filter::label_ok;
use crate::model::ids::{KeyId, ReqId, RqId, TaintsId, TolerationsId, ValueId};
use crate::model::intern::Layered;
use crate::model::vocabulary::ReqSet;
use crate::model::{FixedState, Names, Requirement, Vocabulary, fixed_state, taint};

/// The snapshot's tables plus what this run added.
#[derive(Debug)]
pub struct Algebra<'s> {
    /// The snapshot's tables.
    pub vocabulary: &'s Vocabulary,
    requirements: Layered<'s, (KeyId, Requirement)>,
    sets: Layered<'s, ReqSet>,
    meets: HashMap<(ReqId, ReqId), Option<ReqId>, FixedState>,
    node_verdicts: HashMap<(ReqId, ReqId), bool, FixedState>,
    tolerated: HashMap<(TaintsId, TolerationsId, bool), bool, FixedState>,
    pins: HashMap<(ReqId, KeyId, ValueId), ReqId, FixedState>,
}

impl<'s> Algebra<'s> {
    /// Nothing added yet.
    pub fn new(vocabulary: &'s Vocabulary) -> Self {
        Self {
            vocabulary,
            requirements: Layered::over(&vocabulary.requirements),
            sets: Layered::over(&vocabulary.sets),
            meets: HashMap::with_hasher(fixed_state()),
            node_verdicts: HashMap::with_hasher(fixed_state()),
            tolerated: HashMap::with_hasher(fixed_state()),
            pins: HashMap::with_hasher(fixed_state()),
        }
    }

    /// Label keys and values.
    pub fn names(&self) -> &'s Names {
        &self.vocabulary.names
    }

    /// The members of a set, by key.
    #[inline]
    pub fn items(&self, set: ReqId) -> &[(KeyId, RqId)] {
        self.sets.get(set.0)
    }

    /// A requirement.
    #[inline]
    pub fn requirement(&self, id: RqId) -> &Requirement {
        &self.requirements.get(id.0).1
    }

    /// What a set says about a key.
    #[inline]
    pub fn get(&self, set: ReqId, key: KeyId) -> Option<RqId> {
        let items = self.items(set);
        items.iter().find(|(k, _)| *k == key).map(|(_, rq)| *rq)
    }

    /// What a future machine with these requirements allows for a key it may not mention.
    pub fn machine_value(&self, set: ReqId, key: KeyId) -> MachineValue<'_> {
        match self.get(set, key) {
            Some(rq) => MachineValue::Defined(self.requirement(rq)),
            None if self.vocabulary.is_well_known(key) => MachineValue::Open,
            None => MachineValue::Missing,
        }
    }

    /// The single value a set gives a key, if it is one.
    #[inline]
    pub fn single(&self, set: ReqId, key: KeyId) -> Option<ValueId> {
        self.get(set, key).and_then(|rq| self.requirement(rq).single())
    }

    /// A future machine narrowed by an ask; `None` if they contradict each other.
    pub fn meet(&mut self, machine: ReqId, ask: ReqId) -> Option<ReqId> {
        if machine == ask || self.items(ask).is_empty() {
            return Some(machine);
        }
        if let Some(known) = self.meets.get(&(machine, ask)) {
            return *known;
        }
        let met = self.meet_anew(machine, ask);
        self.meets.insert((machine, ask), met);
        met
    }

    fn meet_anew(&mut self, machine: ReqId, ask: ReqId) -> Option<ReqId> {
        let mut out: Vec<(KeyId, RqId)> = self.items(machine).to_vec();
        for (key, asked) in self.items(ask).to_vec() {
            let asked_rq = self.requirement(asked);
            match out.binary_search_by_key(&key, |(k, _)| *k) {
                Ok(at) => {
                    if out[at].1 == asked {
                        continue;
                    }
                    let both = self.requirement(out[at].1).intersect(asked_rq, self.names(), key);
                    if both.is_empty() {
                        return None;
                    }
                    out[at].1 = RqId(self.requirements.intern((key, both)));
                }
                Err(at) if self.vocabulary.is_well_known(key) => {
                    if asked_rq.is_empty() {
                        return None;
                    }
                    out.insert(at, (key, asked));
                }
                // A custom label the template does not define is missing on its machines.
                Err(_) if asked_rq.may_be_absent => {}
                Err(_) => return None,
            }
        }
        Some(ReqId(self.sets.intern(out.into_boxed_slice())))
    }

    /// A future machine pinned to one value of a key that it allows.
    pub fn pin(&mut self, machine: ReqId, key: KeyId, value: ValueId) -> ReqId {
        if let Some(known) = self.pins.get(&(machine, key, value)) {
            return *known;
        }
        let mut out: Vec<(KeyId, RqId)> = self.items(machine).to_vec();
        let one = Requirement::is(value);
        let pinned = match out.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(at) => {
                let both = self.requirement(out[at].1).intersect(&one, self.names(), key);
                out[at].1 = RqId(self.requirements.intern((key, both)));
                out
            }
            Err(at) => {
                let rq = RqId(self.requirements.intern((key, one)));
                out.insert(at, (key, rq));
                out
            }
        };
        let id = ReqId(self.sets.intern(pinned.into_boxed_slice()));
        self.pins.insert((machine, key, value), id);
        id
    }

    /// A future machine that is to lack a key which it may lack.
    pub fn pin_missing(&mut self, machine: ReqId, key: KeyId) -> ReqId {
        let missing = Requirement::does_not_exist();
        let mut out: Vec<(KeyId, RqId)> = self.items(machine).to_vec();
        match out.binary_search_by_key(&key, |(k, _)| *k) {
            Ok(at) => {
                let both = self.requirement(out[at].1).intersect(&missing, self.names(), key);
                out[at].1 = RqId(self.requirements.intern((key, both)));
            }
            Err(at) if self.vocabulary.is_well_known(key) => {
                out.insert(at, (key, RqId(self.requirements.intern((key, missing)))));
            }
            // A custom label that is not mentioned is missing already.
            Err(_) => return machine,
        }
        ReqId(self.sets.intern(out.into_boxed_slice()))
    }

    /// The same set with other minValues on a key.
    pub fn with_min_values(&mut self, set: ReqId, key: KeyId, min_values: u32) -> ReqId {
        let mut out: Vec<(KeyId, RqId)> = self.items(set).to_vec();
        if let Ok(at) = out.binary_search_by_key(&key, |(k, _)| *k) {
            let mut requirement = self.requirement(out[at].1).clone();
            requirement.min_values = Some(min_values);
            out[at].1 = RqId(self.requirements.intern((key, requirement)));
        }
        ReqId(self.sets.intern(out.into_boxed_slice()))
    }

    /// Whether a real node with these labels satisfies an ask: what it lacks is missing.
    pub fn node_accepts(&mut self, labels: ReqId, ask: ReqId) -> bool {
        if self.items(ask).is_empty() {
            return true;
        }
        if let Some(known) = self.node_verdicts.get(&(labels, ask)) {
            return *known;
        }
        let verdict = self.labels_refusal(labels, ask).is_none();
        self.node_verdicts.insert((labels, ask), verdict);
        verdict
    }

    /// The first key of an ask that a real node's labels do not satisfy.
    pub fn labels_refusal(&self, labels: ReqId, ask: ReqId) -> Option<KeyId> {
        self.items(ask).iter().find_map(|(key, asked)| {
            let asked = self.requirement(*asked);
            let ok = label_ok(self.names(), *key, asked, self.single(labels, *key));
            (!ok).then_some(*key)
        })
    }

    /// Whether tolerations put up with taints.
    pub fn tolerates(&mut self, taints: TaintsId, tolerations: TolerationsId, spare_preferred: bool) -> bool {
        if let Some(known) = self.tolerated.get(&(taints, tolerations, spare_preferred)) {
            return *known;
        }
        let verdict = taint::untolerated(
            self.vocabulary.taints(taints),
            self.vocabulary.tolerations(tolerations),
            spare_preferred,
        )
        .is_none();
        self.tolerated.insert((taints, tolerations, spare_preferred), verdict);
        verdict
    }
}

/// What a future machine says about a key.
#[derive(Debug, Clone, Copy)]
pub enum MachineValue<'a> {
    /// Its requirement.
    Defined(&'a Requirement),
    /// Not mentioned and well-known: anything.
    Open,
    /// Not mentioned and not well-known: its node will not have the label.
    Missing,
}
