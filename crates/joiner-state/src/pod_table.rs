//! Pods by row: a row is a pod's number as long as the pod is there, and is used again when it has gone.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use joiner_core::model::{FixedState, fixed_state};

/// No such row: a pod without node, owner or claims.
pub(crate) const NONE: u32 = u32::MAX;

/// What is kept of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodRecord {
    /// `namespace/name`.
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub spec: u32,
    pub labels: u32,
    pub claims: u32,
    pub node: u32,
    pub owner: u32,
    /// The owner is a ReplicaSet, StatefulSet or ReplicationController in control of the pod.
    pub controlled: bool,
    /// It is the mirror of a static pod.
    pub is_mirror: bool,
    pub standing: Standing,
    pub intent: Intent,
    pub created: Option<i64>,
}

/// What a pod counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Waits for a node.
    Pending,
    /// Stands for a pod that has not come yet.
    Virtual,
    /// On a node; seen by selectors.
    Bound,
    /// On a node, controlled by a DaemonSet; seen by selectors.
    BoundDaemon,
    /// On a node and being deleted: takes room, not seen by selectors.
    Leaving,
    /// The same, controlled by a DaemonSet.
    LeavingDaemon,
    /// Finished, gated, or not for us to place: takes no room.
    Ignored,
}

impl Standing {
    /// Waits for a decision.
    pub(crate) fn is_pending(self) -> bool {
        matches!(self, Self::Pending | Self::Virtual)
    }

    /// On a node, and seen by selectors.
    pub(crate) fn is_seen(self) -> bool {
        matches!(self, Self::Bound | Self::BoundDaemon)
    }

    /// On a node, and part of what its DaemonSets take there.
    pub(crate) fn is_of_daemon(self) -> bool {
        matches!(self, Self::BoundDaemon | Self::LeavingDaemon)
    }
}

/// What planning is to make of a pod that it would otherwise take as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Intent {
    #[default]
    AsSeen,
    /// A pending pod that nothing is decided for now.
    LeftOut,
    /// Planned for already: counts on this node (by the id of its name) although it is not bound.
    Expected(u32),
    /// Will need another node: pending, and no longer where it is.
    Moving,
}

impl PodRecord {
    /// Runs on a node, and needs another one if that goes.
    pub(crate) fn needs_a_node(&self) -> bool {
        self.standing == Standing::Bound && self.node != NONE && !self.is_mirror
    }

    /// What the pod counts for in planning, and on which node.
    pub(crate) fn counted(&self) -> (Standing, u32) {
        match self.intent {
            Intent::AsSeen => (self.standing, self.node),
            Intent::LeftOut if self.standing == Standing::Pending => (Standing::Ignored, NONE),
            Intent::LeftOut => (self.standing, self.node),
            Intent::Expected(node) if self.standing == Standing::Pending => (Standing::Bound, node),
            Intent::Expected(_) => (self.standing, self.node),
            Intent::Moving if self.standing == Standing::Ignored => (self.standing, self.node),
            Intent::Moving => (Standing::Pending, NONE),
        }
    }
}

/// All pods.
#[derive(Debug)]
pub(crate) struct PodTable {
    rows: Vec<Option<PodRecord>>,
    ids: HashTable<u32>,
    free: Vec<u32>,
    state: FixedState,
}

impl Default for PodTable {
    fn default() -> Self {
        Self { rows: Vec::new(), ids: HashTable::new(), free: Vec::new(), state: fixed_state() }
    }
}

impl PodTable {
    /// How many pods there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// The row of a pod.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let hash = self.state.hash_one(name);
        let is_it = |row: &u32| self.rows[*row as usize].as_ref().is_some_and(|pod| *pod.name == *name);
        self.ids.find(hash, is_it).copied()
    }

    /// The pod in a row.
    pub(crate) fn get(&self, row: u32) -> Option<&PodRecord> {
        self.rows.get(row as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, row: u32) -> Option<&mut PodRecord> {
        self.rows.get_mut(row as usize)?.as_mut()
    }

    /// All pods with their rows, in the order of rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &PodRecord)> {
        (0u32..).zip(&self.rows).filter_map(|(row, pod)| Some((row, pod.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut PodRecord)> {
        (0u32..).zip(&mut self.rows).filter_map(|(row, pod)| Some((row, pod.as_mut()?)))
    }

    /// Puts a pod that is not there yet into a row.
    pub(crate) fn insert(&mut self, pod: PodRecord) -> u32 {
        debug_assert!(self.find(&pod.name).is_none());
        let hash = self.state.hash_one(&*pod.name);
        let row = match self.free.pop() {
            Some(row) => {
                self.rows[row as usize] = Some(pod);
                row
            }
            None => {
                self.rows.push(Some(pod));
                self.rows.len() as u32 - 1
            }
        };
        let (rows, state) = (&self.rows, &self.state);
        let hash_of = |row: &u32| rows[*row as usize].as_ref().map_or(0, |pod| state.hash_one(&*pod.name));
        self.ids.insert_unique(hash, row, hash_of);
        row
    }

    /// Takes the pod out of a row.
    pub(crate) fn remove(&mut self, row: u32) -> Option<PodRecord> {
        let pod = self.rows.get_mut(row as usize)?.take()?;
        let hash = self.state.hash_one(&*pod.name);
        if let Ok(entry) = self.ids.find_entry(hash, |other| *other == row) {
            entry.remove();
        }
        self.free.push(row);
        Some(pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> PodRecord {
        PodRecord {
            name: name.into(),
            uid: "".into(),
            spec: 0,
            labels: 0,
            claims: NONE,
            node: NONE,
            owner: NONE,
            controlled: false,
            is_mirror: false,
            standing: Standing::Pending,
            intent: Intent::AsSeen,
            created: None,
        }
    }

    #[test]
    fn rows_are_used_again() {
        let mut table = PodTable::default();
        let rows: Vec<u32> = ["a", "b", "c"].map(|name| table.insert(pod(name))).into();
        assert_eq!((rows, table.find("b")), (vec![0, 1, 2], Some(1)));
        assert_eq!(table.remove(1).map(|pod| pod.name.to_string()), Some("b".to_owned()));
        assert_eq!((table.find("b"), table.len(), table.get(1).is_none()), (None, 2, true));
        assert_eq!((table.insert(pod("d")), table.find("d"), table.find("a")), (1, Some(1), Some(0)));
        for number in 0..500 {
            table.insert(pod(&number.to_string()));
        }
        assert_eq!((table.find("d"), table.len()), (Some(1), 503));
    }
}
