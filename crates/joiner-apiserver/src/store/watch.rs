//! A position in the history of one resource.

use std::sync::Arc;

use tokio::sync::watch as signal;

use super::{Change, Expired, ResourceName, Store};

/// How many changes a reader takes at once.
const BATCH: usize = 128;

/// What a watch found.
#[derive(Clone, Debug)]
pub struct WatchBatch {
    /// The changes since the last look, in order; may be empty.
    pub changes: Vec<Arc<Change>>,
    /// Everything up to this revision has been seen, also revisions that belong to other resources.
    pub seen: u64,
}

/// A reader of the changes of one resource.
#[derive(Debug)]
pub struct Watch {
    store: Store,
    resource: ResourceName,
    seen: u64,
    moved: signal::Receiver<u64>,
    /// Whether the last look may have left something behind.
    full: bool,
}

impl Watch {
    pub(super) fn new(store: Store, resource: ResourceName, seen: u64, moved: signal::Receiver<u64>) -> Self {
        Self { store, resource, seen, moved, full: true }
    }

    /// Whether something may have changed since the last look.
    pub fn has_moved(&self) -> bool {
        // Nobody can end a resource; were it ended, the next look would say so.
        self.full || self.moved.has_changed().unwrap_or(true)
    }

    /// The changes not yet taken, without waiting.
    ///
    /// # Errors
    /// The history has moved past the position of this watch.
    pub fn take(&mut self) -> Result<WatchBatch, Expired> {
        self.moved.mark_unchanged();
        let session = self.store.open();
        let changes = session.changes_after(&self.resource, self.seen, BATCH)?;
        self.full = changes.len() == BATCH;
        self.seen = match changes.last() {
            Some(last) if self.full => last.revision,
            _ => session.inner.visible().max(self.seen),
        };
        Ok(WatchBatch { changes, seen: self.seen })
    }

    /// Waits until there is something to take, then takes it.
    ///
    /// # Errors
    /// The history has moved past the position of this watch.
    pub async fn next(&mut self) -> Result<WatchBatch, Expired> {
        loop {
            let batch = self.take()?;
            if !batch.changes.is_empty() {
                return Ok(batch);
            }
            // The store holds the sender as long as this watch holds the store.
            if self.moved.changed().await.is_err() {
                return Err(Expired { oldest: self.seen });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{ChangeKind, Stored};
    use serde_json::json;

    #[tokio::test]
    async fn a_watch_sees_every_change_once_and_in_order() {
        let store = Store::new(1000);
        let maps = ResourceName::new("", "configmaps");
        let from = store.open().revision();
        let mut watch = { store.open().watch(&store, &maps, from).unwrap() };
        let writer = store.clone();
        let other = maps.clone();
        let task = tokio::spawn(async move {
            for turn in 0..500 {
                writer.open().put(
                    &other,
                    "a",
                    &format!("m{}", turn % 7),
                    json!({"metadata": {}, "turn": turn}),
                );
                writer.open().put(&ResourceName::new("", "pods"), "a", "p", json!({"metadata": {}}));
                if turn % 50 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 500 {
            let batch = watch.next().await.unwrap();
            seen.extend(batch.changes.iter().map(|change| {
                let object = Stored::new(change.object.clone());
                (change.revision, object["turn"].as_u64().unwrap())
            }));
        }
        task.await.unwrap();
        assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(seen.iter().enumerate().all(|(index, (_, turn))| index as u64 == *turn));
    }

    #[tokio::test]
    async fn a_reader_that_falls_behind_is_told_so() {
        let store = Store::new(4);
        let maps = ResourceName::new("", "configmaps");
        let from = store.open().revision();
        let mut watch = { store.open().watch(&store, &maps, from).unwrap() };
        for _ in 0..5 {
            store.open().put(&maps, "a", "x", json!({"metadata": {}}));
        }
        assert_eq!(watch.next().await.unwrap_err(), Expired { oldest: from + 1 });
        assert!(store.open().watch(&store, &maps, from).is_err());
    }

    #[tokio::test]
    async fn a_watch_resumes_where_another_ended() {
        let store = Store::new(100);
        let maps = ResourceName::new("", "configmaps");
        let from = store.open().revision();
        store.open().put(&maps, "a", "x", json!({"metadata": {}}));
        store.open().put(&maps, "a", "x", json!({"metadata": {}, "n": 1}));
        store.open().remove(&maps, "a", "x");
        let mut whole = { store.open().watch(&store, &maps, from).unwrap() };
        let all = whole.take().unwrap().changes;
        for (index, change) in all.iter().enumerate() {
            let mut rest = { store.open().watch(&store, &maps, change.revision).unwrap() };
            let kinds: Vec<ChangeKind> =
                rest.take().unwrap().changes.iter().map(|change| change.kind).collect();
            assert_eq!(kinds, all[index + 1..].iter().map(|change| change.kind).collect::<Vec<_>>());
        }
    }
}
