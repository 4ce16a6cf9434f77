//! The versioned store: every object of the cluster, and the recent past of each resource.
//!
//! One counter gives every write its revision. Each resource has an ordered map from key to object and a ring of its latest
//! changes. The ring serves two readers: watches, which are nothing but a position in it, and lists at an older revision, which
//! undo the changes made since.
//!
//! A watch holds no queue of its own. A reader that never reads costs nothing; when the ring has moved past its position it is
//! told that its revision has expired, as a real server tells a client that fell behind.
//!
//! An object is kept as its text ([`Object`]); store, history and watches share it.
//!
//! A store may be kept in a folder. Then nothing is shown to a watch, and no request is answered, before it is on disk. While the disk
//! takes nothing, the store is as the disk has it and can be read; it is not changed.

mod data_file;
mod fresh;
#[cfg(test)]
mod full_disk;
mod journal;
mod object;
mod owners;
mod seal;
mod slim;
mod watch;
mod written;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch as signal;

pub use data_file::DataError;
pub(crate) use data_file::Disk;
use data_file::{DataFile, Entry, SystemDisk};
use fresh::Fresh;
use journal::{Journal, Progress};
pub use object::{Draft, Object, Stored};
pub use owners::Location;
use owners::Owners;
pub use watch::{Watch, WatchBatch};

/// The name under which a resource is stored: its group and plural name. All versions of a resource share one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceName {
    /// The API group, empty for the core group.
    pub group: Arc<str>,
    /// The plural name, `pods`.
    pub plural: Arc<str>,
}

impl ResourceName {
    /// Names a resource.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

/// Objects with their keys, in order.
pub type Listed = Vec<(Arc<str>, Stored)>;

/// Which part of a resource to list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section<'a> {
    /// Only this namespace.
    pub namespace: Option<&'a str>,
    /// Only what comes after this key.
    pub after: Option<&'a str>,
    /// No more than so many.
    pub limit: Option<usize>,
}

/// A part of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects.
    pub objects: Listed,
    /// How many come after them.
    pub remaining: usize,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Added,
    /// It was replaced by another state of itself.
    Modified,
    /// It was removed.
    Deleted,
}

/// One entry of a resource's history.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision of the write.
    pub revision: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// Where the object is kept, see [`object_key`].
    pub key: Arc<str>,
    /// The object after the change; for a deletion the last state, carrying the revision of the deletion.
    pub object: Arc<Object>,
    /// The object before the change, nothing for a creation.
    pub previous: Option<Arc<Object>>,
}

/// The revision asked for is no longer in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The oldest revision that can still be asked for.
    pub oldest: u64,
}

#[derive(Debug)]
struct Table {
    objects: BTreeMap<Arc<str>, Arc<Object>>,
    history: VecDeque<Arc<Change>>,
    /// Changes up to and including this revision are forgotten.
    forgotten: u64,
    moved: signal::Sender<u64>,
}

impl Table {
    fn new(forgotten: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            forgotten,
            moved: signal::Sender::new(forgotten),
        }
    }
}

#[derive(Debug)]
struct Inner {
    revision: u64,
    /// Resources nobody has written to yet begin with this as their forgotten past.
    epoch: u64,
    history_limit: usize,
    tables: BTreeMap<ResourceName, Table>,
    owners: Owners,
    fresh: Fresh,
    /// Changes that the garbage collector has not looked at; kept only when there is one.
    unsettled: Option<Vec<(ResourceName, Arc<Change>)>>,
    /// Whether the store is kept on disk.
    kept: bool,
    /// The way there, once it is open.
    journal: Option<Journal>,
    /// What the open session has to write down.
    unsaved: Vec<Entry>,
    /// With a journal: watches are shown changes up to this revision.
    shown: u64,
    /// Why the disk takes nothing, if it does not.
    stall: Option<Stall>,
    /// How often that has happened.
    stalls: u64,
}

/// A time in which the disk takes nothing.
#[derive(Clone, Debug)]
struct Stall {
    number: u64,
    reason: Arc<str>,
}

impl Inner {
    fn new(history_limit: usize, revision: u64, epoch: u64) -> Self {
        Self {
            revision,
            epoch,
            history_limit: history_limit.max(1),
            tables: BTreeMap::new(),
            owners: Owners::default(),
            fresh: Fresh::default(),
            unsettled: None,
            kept: false,
            journal: None,
            unsaved: Vec::new(),
            shown: revision,
            stall: None,
            stalls: 0,
        }
    }

    /// The disk takes nothing. Of one time the latest reason is told.
    fn stall(&mut self, reason: Arc<str>) {
        if self.stall.is_none() {
            self.stalls += 1;
        }
        self.stall = Some(Stall { number: self.stalls, reason });
    }

    /// Watches may see everything up to this revision.
    fn visible(&self) -> u64 {
        if self.kept { self.shown } else { self.revision }
    }

    /// Lets watches see what has become safe.
    fn show(&mut self, revision: u64, moved: BTreeSet<&ResourceName>) {
        self.shown = revision;
        for resource in moved {
            self.table(resource).moved.send_replace(revision);
        }
    }

    /// Writes a change into the indexes and the history.
    fn record(&mut self, resource: &ResourceName, change: Arc<Change>) {
        let present = (change.kind != ChangeKind::Deleted).then_some(&*change.object);
        self.owners.follow(resource, &change.key, change.previous.as_deref(), present);
        let limit = self.history_limit;
        let table = self.table(resource);
        table.history.push_back(change);
        let mut forgotten = Vec::new();
        while table.history.len() > limit {
            if let Some(oldest) = table.history.pop_front() {
                table.forgotten = oldest.revision;
                forgotten.push(oldest);
            }
        }
        if self.kept {
            self.unsaved
                .extend(forgotten.into_iter().map(|change| Entry::Forgotten(resource.clone(), change)));
        }
    }

    /// Hands what has changed to the journal.
    fn flush(&mut self) {
        if !self.unsaved.is_empty()
            && let Some(journal) = &self.journal
        {
            journal.write(std::mem::take(&mut self.unsaved), self.revision);
        }
    }

    fn table(&mut self, resource: &ResourceName) -> &mut Table {
        let epoch = self.epoch;
        self.tables.entry(resource.clone()).or_insert_with(|| Table::new(epoch))
    }
}

/// The store. Clones share the same content.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Mutex<Inner>>,
    /// How far the disk has come, if the store is kept there.
    progress: Option<signal::Receiver<Progress>>,
}

impl Store {
    /// An empty store that remembers `history_limit` changes per resource.
    pub fn new(history_limit: usize) -> Self {
        Self { inner: Arc::new(Mutex::new(Inner::new(history_limit, 1, 1))), progress: None }
    }

    /// The store that is kept in a folder, and whether it was there before. A new one is empty.
    ///
    /// # Errors
    /// The folder cannot be used: somebody else does, or what is in it cannot be read.
    pub fn in_folder(folder: &Path, history_limit: usize) -> Result<(Self, bool), DataError> {
        Self::on_disk(folder, history_limit, Box::new(SystemDisk))
    }

    pub(crate) fn on_disk(
        folder: &Path,
        history_limit: usize,
        disk: Box<dyn Disk>,
    ) -> Result<(Self, bool), DataError> {
        let (file, content) = DataFile::open(folder, disk)?;
        let known = content.is_some();
        let mut inner = Inner::new(history_limit, 1, 1);
        inner.kept = true;
        if let Some(content) = content {
            inner.revision = content.revision;
            inner.epoch = content.epoch;
            for (resource, revision) in content.forgotten {
                inner.table(&resource).forgotten = revision;
            }
            for (resource, key, object) in content.objects {
                let object = Arc::new(Object::new(&resource, &object));
                inner.owners.follow(&resource, &key, None, Some(&object));
                inner.table(&resource).objects.insert(key, object);
            }
            for logged in content.changes {
                let data_file::LoggedChange { revision, kind, resource, key, object } = logged;
                let object = Arc::new(Object::new(&resource, &object));
                let objects = &mut inner.table(&resource).objects;
                let previous = match kind {
                    ChangeKind::Deleted => objects.remove(&key),
                    _ => objects.insert(key.clone(), object.clone()),
                };
                let change = Change { revision, kind, key, object, previous };
                inner.record(&resource, Arc::new(change));
            }
            inner.shown = inner.revision;
            let revision = inner.revision;
            for table in inner.tables.values_mut() {
                table.moved.send_replace(revision);
            }
        }
        let revision = inner.revision;
        let inner = Arc::new(Mutex::new(inner));
        let (journal, progress) = Journal::start(file, Arc::downgrade(&inner), revision)
            .map_err(|error| DataError::Unusable { path: folder.to_owned(), detail: error.to_string() })?;
        {
            // A shorter history than last time has forgotten changes already.
            let mut inner = inner.lock();
            inner.journal = Some(journal);
            inner.flush();
        }
        Ok((Self { inner, progress: Some(progress) }, known))
    }

    /// Waits until everything written so far is safe. Without a folder nothing ever is, and nobody waits.
    ///
    /// # Errors
    /// The disk does not take it; the text says why.
    pub async fn saved(&self) -> Result<(), Arc<str>> {
        let Some(progress) = &self.progress else { return Ok(()) };
        let revision = self.inner.lock().revision;
        let mut progress = progress.clone();
        let wait = async move {
            progress
                .wait_for(|progress| progress.saved >= revision || progress.failed.is_some())
                .await
                .map(|progress| progress.clone())
                .map_err(|_| Arc::<str>::from("the data file is closed"))
        };
        let mut wait = Box::pin(wait);
        let reached = match (&mut wait).now_or_never() {
            Some(reached) => reached?,
            // Time that jumps must not jump because a disk is slow: it stands still while a blocking task is under way.
            None => match runtime_of_one_thread() {
                Some(runtime) => runtime
                    .clone()
                    .spawn_blocking(move || runtime.block_on(wait))
                    .await
                    .map_err(|_| Arc::<str>::from("the program ends"))??,
                None => wait.await?,
            },
        };
        match reached.failed {
            Some(reason) if reached.saved < revision => Err(reason),
            _ => Ok(()),
        }
    }

    /// Writes everything down and closes the file, if there is one. Later writes are refused.
    pub fn close(&self) {
        let journal = self.inner.lock().journal.clone();
        if let Some(journal) = journal {
            journal.close();
        }
    }

    /// Opens the store for reading and writing. All other users wait: hold it for one request, never across an await.
    pub fn open(&self) -> Session<'_> {
        Session { inner: self.inner.lock(), discarded: Vec::new() }
    }

    /// Opens the store for a change.
    ///
    /// # Errors
    /// The disk takes nothing; the text says why.
    pub fn open_to_change(&self) -> Result<Session<'_>, Arc<str>> {
        let session = self.open();
        match &session.inner.stall {
            Some(stall) => Err(stall.reason.clone()),
            None => Ok(session),
        }
    }

    /// A number for the time in which the disk takes nothing, if it is such a time: what is read from its beginning to its end is on
    /// disk, and nothing is changed.
    pub fn stalled(&self) -> Option<u64> {
        self.inner.lock().stall.as_ref().map(|stall| stall.number)
    }

    /// Keeps changes for a garbage collector until it takes them.
    pub fn keep_unsettled(&self) {
        self.inner.lock().unsettled.get_or_insert_default();
    }

    /// Forgets all history so far: watches can begin only at the present revision or later.
    pub fn forget_history(&self) {
        let mut inner = self.inner.lock();
        let revision = inner.revision;
        inner.epoch = revision;
        for table in inner.tables.values_mut() {
            table.history.clear();
            table.forgotten = revision;
        }
        if inner.kept {
            inner.unsaved.push(Entry::AllForgotten(revision));
            inner.flush();
        }
    }
}

/// Exclusive use of the store: what one request does is seen by others as one step.
#[derive(Debug)]
pub struct Session<'a> {
    inner: MutexGuard<'a, Inner>,
    /// Dropped last, when others have the store.
    discarded: Vec<Arc<Value>>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.inner.flush();
        self.discarded = std::mem::take(&mut self.inner.fresh.discarded);
    }
}

impl Session<'_> {
    /// The revision of the latest write.
    pub fn revision(&self) -> u64 {
        if self.inner.stall.is_some() { self.inner.shown } else { self.inner.revision }
    }

    /// One object.
    pub fn get(&self, resource: &ResourceName, namespace: &str, name: &str) -> Option<Stored> {
        let table = self.inner.tables.get(resource)?;
        let key = object_key(namespace, name);
        if self.inner.stall.is_some() {
            // What the disk did not take is undone: of several changes the first one counts.
            let shown = self.inner.shown;
            let unsaved = table.history.iter().rev().take_while(|change| change.revision > shown);
            if let Some(first) = unsaved.filter(|change| *change.key == *key).last() {
                return first.previous.clone().map(Stored::new);
            }
        }
        table.objects.get(key.as_str()).cloned().map(Stored::new)
    }

    /// All objects of a resource in a namespace, or everywhere, in the order of their keys, beginning after the key `after`.
    pub fn list(&self, resource: &ResourceName, namespace: Option<&str>, after: Option<&str>) -> Listed {
        if self.inner.stall.is_some() {
            let section = Section { namespace, after, limit: None };
            if let Ok(page) = self.page(resource, &section, self.revision()) {
                return page.objects;
            }
        }
        match self.inner.tables.get(resource) {
            Some(table) => within(&table.objects, namespace, after)
                .map(|(key, object)| (key.clone(), Stored::new(object.clone())))
                .collect(),
            None => Vec::new(),
        }
    }

    /// A part of [`Session::list`], with the objects as they were at a revision.
    ///
    /// # Errors
    /// The history does not reach back to that revision.
    pub fn page(
        &self,
        resource: &ResourceName,
        section: &Section<'_>,
        revision: u64,
    ) -> Result<Page, Expired> {
        let Some(table) = self.inner.tables.get(resource) else {
            return if revision < self.inner.epoch {
                Err(Expired { oldest: self.inner.epoch })
            } else {
                Ok(Page::default())
            };
        };
        if revision < table.forgotten {
            return Err(Expired { oldest: table.forgotten });
        }
        // What has changed since, as it was: of several changes the first one counts.
        let mut then: BTreeMap<Arc<str>, Option<&Arc<Object>>> = BTreeMap::new();
        for change in table.history.iter().rev().take_while(|change| change.revision > revision) {
            then.insert(change.key.clone(), change.previous.as_ref());
        }
        let Section { namespace, after, limit } = *section;
        let now = within(&table.objects, namespace, after).map(|(key, object)| (key, Some(object)));
        let then = within(&then, namespace, after).map(|(key, object)| (key, *object));
        let mut both = merged(then, now).filter_map(|(key, object)| Some((key, object?)));
        let objects = both.by_ref().take(limit.unwrap_or(usize::MAX));
        let objects = objects.map(|(key, object)| (key.clone(), Stored::new(object.clone()))).collect();
        Ok(Page { objects, remaining: both.count() })
    }

    /// Writes an object, new or not, and returns it with its new revision in place.
    pub fn put(&mut self, resource: &ResourceName, namespace: &str, name: &str, value: Value) -> Stored {
        self.put_draft(resource, namespace, name, Draft::new(resource, value))
    }

    /// As [`Session::put`], for an object that was written before the session began.
    pub fn put_draft(
        &mut self,
        resource: &ResourceName,
        namespace: &str,
        name: &str,
        draft: Draft,
    ) -> Stored {
        let revision = self.next_revision();
        let object = Arc::new(draft.at_revision(revision));
        let key: Arc<str> = object_key(namespace, name).into();
        let previous = self.inner.table(resource).objects.insert(key.clone(), object.clone());
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        if let Some(previous) = &previous {
            self.inner.fresh.forget(previous);
        }
        self.inner.fresh.keep(object.clone());
        self.remember(resource, Change { revision, kind, key, object: object.clone(), previous });
        Stored::new(object)
    }

    /// Removes an object and returns its last state with the revision of the removal.
    pub fn remove(&mut self, resource: &ResourceName, namespace: &str, name: &str) -> Option<Stored> {
        let key: Arc<str> = object_key(namespace, name).into();
        let previous = self.inner.tables.get_mut(resource)?.objects.remove(&key)?;
        self.inner.fresh.forget(&previous);
        let revision = self.next_revision();
        let object = Arc::new(previous.at_revision(revision));
        let change = Change {
            revision,
            kind: ChangeKind::Deleted,
            key,
            object: object.clone(),
            previous: Some(previous),
        };
        self.remember(resource, change);
        Some(Stored::new(object))
    }

    /// The names of all resources that hold objects.
    pub fn resources(&self) -> Vec<ResourceName> {
        self.inner
            .tables
            .iter()
            .filter(|(_, table)| !table.objects.is_empty())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Where the object with a uid is.
    pub fn locate(&self, uid: &str) -> Option<Location> {
        self.inner.owners.locate(uid)
    }

    /// Where the objects are that name a uid as their owner.
    pub fn dependents(&self, uid: &str) -> Vec<Location> {
        self.inner.owners.dependents(uid)
    }

    /// The object at a location.
    pub fn at(&self, location: &Location) -> Option<Stored> {
        self.inner.tables.get(&location.resource)?.objects.get(&location.key).cloned().map(Stored::new)
    }

    /// The changes since the garbage collector last asked.
    pub fn take_unsettled(&mut self) -> Vec<(ResourceName, Arc<Change>)> {
        self.inner.unsettled.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Begins a watch of the changes after `revision`.
    ///
    /// # Errors
    /// The history does not reach back to that revision.
    pub fn watch(&mut self, store: &Store, resource: &ResourceName, revision: u64) -> Result<Watch, Expired> {
        let table = self.inner.table(resource);
        if revision < table.forgotten {
            return Err(Expired { oldest: table.forgotten });
        }
        Ok(Watch::new(store.clone(), resource.clone(), revision, table.moved.subscribe()))
    }

    fn next_revision(&mut self) -> u64 {
        self.inner.revision += 1;
        self.inner.revision
    }

    fn remember(&mut self, resource: &ResourceName, change: Change) {
        let revision = change.revision;
        let change = Arc::new(change);
        if let Some(unsettled) = &mut self.inner.unsettled {
            unsettled.push((resource.clone(), change.clone()));
        }
        if self.inner.kept {
            self.inner.unsaved.push(Entry::Happened(resource.clone(), change.clone()));
            self.inner.record(resource, change);
        } else {
            self.inner.record(resource, change);
            self.inner.table(resource).moved.send_replace(revision);
        }
    }

    fn changes_after(
        &self,
        resource: &ResourceName,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Change>>, Expired> {
        let Some(table) = self.inner.tables.get(resource) else { return Ok(Vec::new()) };
        if revision < table.forgotten {
            return Err(Expired { oldest: table.forgotten });
        }
        let visible = self.inner.visible();
        let start = table.history.partition_point(|change| change.revision <= revision);
        let new = table.history.iter().skip(start).take_while(|change| change.revision <= visible);
        Ok(new.take(limit).cloned().collect())
    }
}

/// The key of an object: `namespace/name`, or the name alone without a namespace. Its bytes give the order of lists.
pub fn object_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { [namespace, "/", name].concat() }
}

/// The runtime, if it has one thread: only such a one can have time that jumps when nobody has anything to do.
fn runtime_of_one_thread() -> Option<Handle> {
    Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}

/// The entries of a namespace, or all, beginning after the key `after`.
fn within<'a, V>(
    entries: &'a BTreeMap<Arc<str>, V>,
    namespace: Option<&str>,
    after: Option<&str>,
) -> impl Iterator<Item = (&'a Arc<str>, &'a V)> {
    let prefix = namespace.map(|namespace| format!("{namespace}/"));
    let start = match (&prefix, after) {
        (_, Some(after)) => Bound::Excluded(after),
        (Some(prefix), None) => Bound::Included(prefix.as_str()),
        (None, None) => Bound::Unbounded,
    };
    entries
        .range::<str, _>((start, Bound::Unbounded))
        .take_while(move |(key, _)| prefix.as_deref().is_none_or(|prefix| key.starts_with(prefix)))
}

/// Two sequences in the order of their keys as one; a key that is in both comes once, with the first one's value.
fn merged<'a, V>(
    first: impl Iterator<Item = (&'a Arc<str>, V)>,
    second: impl Iterator<Item = (&'a Arc<str>, V)>,
) -> impl Iterator<Item = (&'a Arc<str>, V)> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some((one, _)), Some((other, _))) => match one.cmp(other) {
            Ordering::Less => first.next(),
            Ordering::Greater => second.next(),
            Ordering::Equal => {
                second.next();
                first.next()
            }
        },
        (Some(_), None) => first.next(),
        (None, _) => second.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, value: u64) -> Value {
        json!({"metadata": {"name": name}, "value": value})
    }

    fn names(list: &[(Arc<str>, Stored)]) -> Vec<&str> {
        list.iter().map(|(key, _)| &**key).collect()
    }

    #[test]
    fn revisions_rise_over_all_resources() {
        let store = Store::new(10);
        let mut session = store.open();
        let pods = ResourceName::new("", "pods");
        let nodes = ResourceName::new("", "nodes");
        let first = session.put(&pods, "a", "x", object("x", 1));
        let second = session.put(&nodes, "", "n", object("n", 1));
        assert_eq!(first["metadata"]["resourceVersion"], "2");
        assert_eq!(second["metadata"]["resourceVersion"], "3");
        let gone = session.remove(&pods, "a", "x").unwrap();
        assert_eq!(gone["metadata"]["resourceVersion"], "4");
        assert!(session.remove(&pods, "a", "x").is_none());
        assert_eq!(session.revision(), 4);
    }

    #[test]
    fn lists_are_ordered_by_the_bytes_of_the_key() {
        let store = Store::new(10);
        let mut session = store.open();
        let pods = ResourceName::new("", "pods");
        for (namespace, name) in [("a", "z"), ("a-b", "x"), ("a", "b"), ("ab", "q")] {
            session.put(&pods, namespace, name, object(name, 1));
        }
        assert_eq!(names(&session.list(&pods, None, None)), ["a-b/x", "a/b", "a/z", "ab/q"]);
        assert_eq!(names(&session.list(&pods, Some("a"), None)), ["a/b", "a/z"]);
        assert_eq!(names(&session.list(&pods, Some("a"), Some("a/b"))), ["a/z"]);
    }

    #[test]
    fn an_older_revision_can_be_listed_while_the_history_holds_it() {
        let store = Store::new(3);
        let mut session = store.open();
        let maps = ResourceName::new("", "configmaps");
        session.put(&maps, "a", "x", object("x", 1));
        session.put(&maps, "a", "y", object("y", 1));
        let then = session.revision();
        session.put(&maps, "a", "x", object("x", 2));
        session.remove(&maps, "a", "y");
        session.put(&maps, "a", "z", object("z", 1));
        let all = Section { namespace: Some("a"), ..Section::default() };
        let old = session.page(&maps, &all, then).unwrap().objects;
        assert_eq!(names(&old), ["a/x", "a/y"]);
        assert_eq!(old[0].1["value"], 1);
        session.put(&maps, "a", "z", object("z", 2));
        assert_eq!(session.page(&maps, &all, then).unwrap_err(), Expired { oldest: then + 1 });
    }

    #[test]
    fn pages_are_parts_of_one_list_whatever_is_written_meanwhile() {
        let store = Store::new(100);
        let mut session = store.open();
        let maps = ResourceName::new("", "configmaps");
        for name in ["b", "d", "f", "h", "j"] {
            session.put(&maps, "n", name, object(name, 1));
            session.put(&maps, "other", name, object(name, 1));
        }
        let then = session.revision();
        let mut writes = [Some("a"), None, Some("e"), Some("h"), Some("z")].into_iter();
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let section = Section { namespace: Some("n"), after: after.as_deref(), limit: Some(2) };
            let page = session.page(&maps, &section, then).unwrap();
            assert_eq!(page.remaining, 5_usize.saturating_sub(found.len() + page.objects.len()));
            assert!(page.objects.iter().all(|(_, object)| object["value"] == 1), "as it was then");
            found.extend(names(&page.objects).into_iter().map(str::to_owned));
            if page.remaining == 0 {
                break;
            }
            after = found.last().cloned();
            match writes.next().flatten() {
                Some(name) => {
                    session.put(&maps, "n", name, object(name, 2));
                    session.put(&maps, "n", name, object(name, 3));
                }
                None => {
                    session.remove(&maps, "n", "j");
                }
            }
        }
        assert_eq!(found, ["n/b", "n/d", "n/f", "n/h", "n/j"]);
        let now = session.page(&maps, &Section::default(), session.revision()).unwrap();
        assert_eq!(names(&now.objects), names(&session.list(&maps, None, None)));
    }
}
