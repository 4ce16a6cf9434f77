//! Pods as the scheduler sees them: a class, where they are, and the little that differs between pods of a class.

use hashbrown::HashMap;
use jiff::Timestamp;
use joiner_core::model::{FixedState, Names, fixed_state};
use serde_json::Value;

use super::class::{self, Class, ClassId};
use super::nodes::{NodeId, PodId};
use super::pod_counts::PodCounts;
use crate::object::{Fields, Key};

/// A pod.
#[derive(Debug)]
pub(crate) struct PodRow {
    pub key: Key,
    pub uid: String,
    pub class: ClassId,
    /// The node it is counted on, and whether as one that is not being deleted.
    pub on: Option<(NodeId, bool)>,
    /// The node that the server says it is on.
    pub bound: Option<NodeId>,
    pub deleting: bool,
    pub started: Option<Timestamp>,
    /// The node it is nominated to.
    pub nominated: Option<NodeId>,
    /// Claims by `namespace/name`.
    pub claims: Vec<String>,
    /// Reason, message and time of its condition `PodScheduled`, if that is `False`.
    pub refused: Option<(String, String, String)>,
    /// It goes because the scheduler took its place.
    pub preempted: bool,
}

/// All pods and their classes.
#[derive(Debug)]
pub(crate) struct Pods {
    rows: Vec<Option<PodRow>>,
    free: Vec<PodId>,
    by_key: HashMap<Key, PodId, FixedState>,
    pub classes: Vec<Class>,
    class_ids: HashMap<Box<[u8]>, ClassId, FixedState>,
    buffer: Vec<u8>,
}

impl Default for Pods {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::with_hasher(fixed_state()),
            classes: Vec::new(),
            class_ids: HashMap::with_hasher(fixed_state()),
            buffer: Vec::new(),
        }
    }
}

impl Pods {
    /// The class of a pod object, made on first use.
    pub(crate) fn class_for(&mut self, names: &mut Names, counts: &mut PodCounts, pod: &Value) -> ClassId {
        class::key(pod, &mut self.buffer);
        if let Some(id) = self.class_ids.get(&self.buffer[..]) {
            return *id;
        }
        let id = self.classes.len() as ClassId;
        self.classes.push(Class::read(names, counts, pod));
        self.class_ids.insert(self.buffer.clone().into(), id);
        id
    }

    /// A pod that is there.
    pub(crate) fn find(&self, key: &Key) -> Option<PodId> {
        self.by_key.get(key).copied()
    }

    /// Adds a pod.
    pub(crate) fn add(&mut self, row: PodRow) -> PodId {
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.rows.push(None);
                (self.rows.len() - 1) as PodId
            }
        };
        self.by_key.insert(row.key.clone(), id);
        self.rows[id as usize] = Some(row);
        id
    }

    /// Takes a pod out.
    pub(crate) fn remove(&mut self, id: PodId) -> Option<PodRow> {
        let row = self.rows.get_mut(id as usize)?.take()?;
        self.by_key.remove(&row.key);
        self.free.push(id);
        Some(row)
    }

    /// A pod's row.
    pub(crate) fn row(&self, id: PodId) -> &PodRow {
        self.rows[id as usize].as_ref().expect("ids are of pods that are there")
    }

    /// A pod's row, to be changed.
    pub(crate) fn row_mut(&mut self, id: PodId) -> &mut PodRow {
        self.rows[id as usize].as_mut().expect("ids are of pods that are there")
    }

    /// A pod's class.
    pub(crate) fn class_of(&self, id: PodId) -> &Class {
        &self.classes[self.row(id).class as usize]
    }

    /// How many pods there are.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }
}

/// The condition `PodScheduled` of a pod, if it is `False`.
pub(crate) fn refused(pod: &Value) -> Option<(String, String, String)> {
    let condition = pod.condition("PodScheduled").filter(|condition| condition["status"] == "False")?;
    let part = |field: &str| condition.text(&[field]).to_owned();
    Some((part("reason"), part("message"), part("lastTransitionTime")))
}
