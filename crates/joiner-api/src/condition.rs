//! Status conditions of an object and the one that sums them up.
//!
//! A kind names a root condition and the conditions it depends on. Whoever sets a condition leaves the list
//! in one piece: times move only with the status, every condition says which generation it speaks about, and
//! the root follows its dependents. Nothing is set without a reason to: writing the same values again reports
//! no change, so a controller can run for ever without writing.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::names::conditions as names;

const AWAITING_MESSAGE: &str = "object is awaiting reconciliation";

/// The conditions a kind always has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionTypes {
    /// The condition that sums up the others.
    pub root: &'static str,
    /// The conditions the root depends on.
    pub dependents: &'static [&'static str],
}

impl ConditionTypes {
    /// Conditions of a NodeClaim.
    pub const NODE_CLAIM: ConditionTypes = ConditionTypes {
        root: names::READY,
        dependents: &[names::LAUNCHED, names::REGISTERED, names::INITIALIZED],
    };
    /// Conditions of a NodePool.
    pub const NODE_POOL: ConditionTypes = ConditionTypes {
        root: names::READY,
        dependents: &[names::VALIDATION_SUCCEEDED, names::NODE_CLASS_READY],
    };
    /// Conditions of a NodeOverlay.
    pub const NODE_OVERLAY: ConditionTypes =
        ConditionTypes { root: names::READY, dependents: &[names::VALIDATION_SUCCEEDED] };
    /// Conditions of a kind whose readiness depends on nothing else.
    pub const ROOT_ONLY: ConditionTypes = ConditionTypes { root: names::READY, dependents: &[] };

    fn is_fixed(&self, condition_type: &str) -> bool {
        condition_type == self.root || self.dependents.contains(&condition_type)
    }
}

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl Status {
    /// The status as written in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }

    /// The status of a condition; a text that is no status counts as unknown.
    pub fn of(condition: &Condition) -> Status {
        match condition.status.as_str() {
            "True" => Status::True,
            "False" => Status::False,
            _ => Status::Unknown,
        }
    }
}

/// What the rules need to know about the object and the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.generation`.
    pub generation: i64,
    /// True once `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The present. Stored times have whole seconds.
    pub now: Timestamp,
}

/// Why a condition cannot be cleared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("condition `{0}` cannot be cleared: readiness depends on it; set it to Unknown instead")]
pub struct ClearError(String);

/// The conditions of one object, open for change.
#[derive(Debug)]
pub struct ConditionSet<'a> {
    types: ConditionTypes,
    subject: Subject,
    conditions: &'a mut Vec<Condition>,
}

impl<'a> ConditionSet<'a> {
    /// Opens the conditions of an object. The root and dependents that are missing appear as unknown
    /// since the object's creation.
    pub fn open(
        types: ConditionTypes,
        subject: Subject,
        conditions: &'a mut Vec<Condition>,
    ) -> ConditionSet<'a> {
        let mut set = ConditionSet { types, subject, conditions };
        for condition_type in std::iter::once(&types.root).chain(types.dependents) {
            if set.get(condition_type).is_none() {
                set.set_unknown(condition_type);
            }
        }
        set
    }

    /// A condition by its type.
    pub fn get(&self, condition_type: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == condition_type)
    }

    /// Status of a condition, unknown when there is no such condition.
    pub fn status(&self, condition_type: &str) -> Status {
        self.get(condition_type).map_or(Status::Unknown, Status::of)
    }

    /// The root condition.
    pub fn root(&self) -> Option<&Condition> {
        self.get(self.types.root)
    }

    /// Sets a condition to True with its type as reason. Returns whether anything changed, as all setters do.
    pub fn set_true(&mut self, condition_type: &str) -> bool {
        self.set(condition_type, Status::True, condition_type, "")
    }

    /// Sets a condition to False.
    pub fn set_false(&mut self, condition_type: &str, reason: &str, message: &str) -> bool {
        self.set(condition_type, Status::False, reason, message)
    }

    /// Sets a condition back to what it was before anybody looked.
    pub fn set_unknown(&mut self, condition_type: &str) -> bool {
        self.set(condition_type, Status::Unknown, names::AWAITING_RECONCILIATION, AWAITING_MESSAGE)
    }

    /// Sets a condition.
    pub fn set(&mut self, condition_type: &str, status: Status, reason: &str, message: &str) -> bool {
        let position = self.conditions.iter().position(|condition| condition.type_ == condition_type);
        let existing = position.map(|position| &self.conditions[position]);
        let since = match existing {
            Some(existing) if existing.status == status.as_str() => existing.last_transition_time.0,
            Some(_) => whole_second(self.subject.now),
            None if self.types.is_fixed(condition_type) => whole_second(self.subject.created),
            None => whole_second(self.subject.now),
        };
        let condition = Condition {
            type_: condition_type.to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(since),
            observed_generation: Some(self.subject.generation),
        };
        if existing == Some(&condition) {
            return false;
        }
        if let Some(position) = position {
            self.conditions.remove(position);
        }
        if self.subject.deleting {
            // Nobody will look at the other conditions again; they must not seem out of date for ever.
            for other in self.conditions.iter_mut() {
                other.observed_generation = Some(self.subject.generation);
            }
        }
        self.conditions.push(condition);
        let root = self.types.root;
        self.conditions.sort_by(|a, b| {
            (a.type_ == root, &a.last_transition_time).cmp(&(b.type_ == root, &b.last_transition_time))
        });
        if condition_type != root {
            self.recompute_root();
        }
        true
    }

    /// Removes a condition; true if it was there. The rest is stored by name until something is set.
    pub fn clear(&mut self, condition_type: &str) -> Result<bool, ClearError> {
        if self.types.is_fixed(condition_type) {
            return Err(ClearError(condition_type.to_owned()));
        }
        let before = self.conditions.len();
        self.conditions.retain(|condition| condition.type_ != condition_type);
        if self.conditions.len() == before {
            return Ok(false);
        }
        self.conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
        Ok(true)
    }

    fn recompute_root(&mut self) {
        let generation = self.subject.generation;
        let is_current = |condition: &Condition| condition.observed_generation == Some(generation);
        let mut unhealthy: Vec<&Condition> = self
            .conditions
            .iter()
            .filter(|condition| self.types.dependents.contains(&condition.type_.as_str()))
            .filter(|condition| Status::of(condition) != Status::True || !is_current(condition))
            .collect();
        if unhealthy.is_empty() {
            self.set_true(self.types.root);
            return;
        }
        unhealthy.sort_by_key(|condition| Reverse(condition.last_transition_time.0));
        // What a dependent said about an older generation no longer proves anything.
        let failed =
            unhealthy.iter().any(|condition| Status::of(condition) == Status::False && is_current(condition));
        let (status, reason) = if failed {
            (Status::False, names::UNHEALTHY_DEPENDENTS)
        } else {
            (Status::Unknown, names::RECONCILING_DEPENDENTS)
        };
        let named = unhealthy.iter().map(|condition| format!("{}={}", condition.type_, condition.status));
        let message = named.collect::<Vec<_>>().join(", ");
        self.set(self.types.root, status, reason, &message);
    }
}

fn whole_second(instant: Timestamp) -> Timestamp {
    Timestamp::from_second(instant.as_nanosecond().div_euclid(1_000_000_000) as i64).unwrap_or(instant)
}
