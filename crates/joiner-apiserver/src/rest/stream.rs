//! Watches: changes as they happen, one JSON document per line.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::read::{Choice, version_asked};
use super::status::Failure;
use super::{Answer, Call, Form, Payload, list_options, meta_text, render};
use crate::clock::Clock;
use crate::resources::Resource;
use crate::store::{Change, ChangeKind, Expired, Watch};
use crate::table::{self, Include};

/// The lines of a watch.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Bytes, Infallible>> + Send>>;

/// A client that allows bookmarks gets one about this often.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A watch without a limit ends after this time, as on a real server (there between 30 and 60 minutes).
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// So many objects of the beginning are written down ahead of the reader.
const BATCH: usize = 64;

/// Lines are sent together up to this length.
const LARGEST_PIECE: usize = 32 * 1024;

/// Begins a watch.
pub(crate) fn watch(call: &Call<'_>) -> Result<Answer, Failure> {
    let query = call.query();
    let seconds = query
        .integer("timeoutSeconds")?
        .and_then(|seconds| u64::try_from(seconds).ok())
        .filter(|seconds| *seconds > 0);
    let choice = Choice::read(call)?;
    let bookmarks = query.is_set("allowWatchBookmarks");
    let initial = list_options::check_watch(query)?;
    let given = query.get("resourceVersion");
    let version = version_asked(given)?;

    let store = &call.core.store;
    let mut session = store.open();
    let present = session.revision();
    let current_state_first = initial.unwrap_or(matches!(version, None | Some(0)));
    let namespace = (!call.everywhere && call.resource.namespaced).then(|| call.namespace.clone());
    let shape = EventShape {
        resource: call.resource.clone(),
        form: call.accepted.form,
        include: Include::from_query(query.get("includeObject")),
        clock: call.core.clock.clone(),
        columns_sent: false,
        api_version: call.resource.api_version(),
    };
    let mut initial_objects = Vec::new();
    let from = if current_state_first {
        initial_objects = session.list(&call.resource.stored_as, namespace.as_deref(), None);
        present
    } else {
        version.filter(|version| *version > 0).unwrap_or(present)
    };
    let watch = session.watch(store, &call.resource.stored_as, from);
    drop(session);

    let now = Instant::now();
    let mut reader = Reader {
        watch: None,
        initial: initial_objects.into_iter(),
        initial_end: (current_state_first && bookmarks).then_some(present),
        pending: VecDeque::new(),
        shape,
        choice,
        namespace,
        bookmarks,
        seen: from,
        next_bookmark: now + BOOKMARK_EVERY,
        end: now + seconds.map_or(LONGEST, Duration::from_secs),
    };
    match watch {
        Ok(watch) => reader.watch = Some(watch),
        Err(expired) => reader.pending.push_back(expired_line(from, expired)),
    }
    let lines = futures::stream::unfold(reader, |mut reader| async move {
        let lines = reader.next().await?;
        Some((Ok(lines), reader))
    });
    Ok(Answer::new(200, Payload::Stream(Box::pin(lines))))
}

fn expired_line(version: u64, expired: Expired) -> Bytes {
    let failure = Failure::expired(format!("too old resource version: {version} ({})", expired.oldest));
    line("ERROR", &failure.to_value())
}

fn line(kind: &str, object: &Value) -> Bytes {
    // Writing JSON into memory fails only for keys that are no strings, and there are none.
    framed(kind, &serde_json::to_vec(object).unwrap_or_default())
}

/// An event around an object that is written already.
fn framed(kind: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend(b"{\"type\":\"");
    line.extend(kind.as_bytes());
    line.extend(b"\",\"object\":");
    line.extend(object);
    line.extend(b"}\n");
    line.into()
}

/// How objects of events are shown.
struct EventShape {
    resource: Arc<Resource>,
    form: Form,
    include: Include,
    clock: Arc<dyn Clock>,
    columns_sent: bool,
    api_version: String,
}

impl EventShape {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn line(&mut self, kind: &str, object: &Value) -> Bytes {
        let shown = match self.form {
            Form::Objects | Form::Discovery => render::in_version(&self.resource, object),
            Form::Metadata => render::metadata_only(object),
            Form::Table(version) => {
                let mut table =
                    table::table(&self.resource, std::iter::once(object), self.now(), self.include, version);
                table["metadata"] = json!({"resourceVersion": meta_text(object, "resourceVersion")});
                self.columns_once(&mut table);
                table
            }
        };
        line(kind, &shown)
    }

    /// As [`EventShape::line`] for the object of a change. Where all watches show it the same way, it is written once for all.
    fn changed(&mut self, kind: &'static str, change: &Change) -> Bytes {
        let as_stored = self.form == Form::Objects
            && self.resource.custom.is_none()
            && change.object.get("apiVersion").and_then(Value::as_str) == Some(&self.api_version);
        if !as_stored {
            return self.line(kind, &change.object);
        }
        match kind {
            "ADDED" => change.lines.added.get_or_init(|| line(kind, &change.object)).clone(),
            "MODIFIED" => change.lines.modified.get_or_init(|| line(kind, &change.object)).clone(),
            _ => change.lines.deleted.get_or_init(|| line(kind, &change.object)).clone(),
        }
    }

    fn bookmark(&mut self, version: u64, initial_events_end: bool) -> Bytes {
        let mut object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version(),
            "metadata": {"resourceVersion": version.to_string()},
        });
        if initial_events_end {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let shown = match self.form {
            Form::Objects | Form::Discovery => object,
            Form::Metadata => render::metadata_only(&object),
            Form::Table(form) => {
                let mut table =
                    table::table(&self.resource, std::iter::once(&object), self.now(), self.include, form);
                table["metadata"] = json!({"resourceVersion": version.to_string()});
                self.columns_once(&mut table);
                table
            }
        };
        line("BOOKMARK", &shown)
    }

    fn columns_once(&mut self, table: &mut Value) {
        if self.columns_sent {
            table["columnDefinitions"] = Value::Null;
        }
        self.columns_sent = true;
    }
}

/// One open watch.
struct Reader {
    /// Nothing once there is nothing more to come.
    watch: Option<Watch>,
    /// What is there at the beginning and not yet sent.
    initial: std::vec::IntoIter<(Arc<str>, Arc<Value>)>,
    /// The version of the bookmark after that, if there is to be one.
    initial_end: Option<u64>,
    pending: VecDeque<Bytes>,
    shape: EventShape,
    choice: Choice,
    namespace: Option<String>,
    bookmarks: bool,
    seen: u64,
    next_bookmark: Instant,
    end: Instant,
}

impl Reader {
    /// What is to be sent next, as many lines as there are at once.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.fill_from_initial();
            if let Some(lines) = self.take_pending() {
                return Some(lines);
            }
            let until = if self.bookmarks { self.next_bookmark.min(self.end) } else { self.end };
            let watch = self.watch.as_mut()?;
            match tokio::time::timeout_at(until, watch.next()).await {
                Ok(Ok(batch)) => {
                    self.seen = batch.seen;
                    for change in batch.changes {
                        self.push(&change);
                    }
                }
                Ok(Err(expired)) => {
                    self.watch = None;
                    return Some(expired_line(self.seen, expired));
                }
                Err(_) if Instant::now() >= self.end => return None,
                Err(_) => {
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    // Nothing was pending: all changes up to the position of the watch are sent.
                    match watch.take() {
                        Ok(batch) if batch.changes.is_empty() => {
                            return Some(self.shape.bookmark(batch.seen, false));
                        }
                        Ok(batch) => {
                            self.seen = batch.seen;
                            for change in batch.changes {
                                self.push(&change);
                            }
                        }
                        Err(expired) => {
                            self.watch = None;
                            return Some(expired_line(self.seen, expired));
                        }
                    }
                }
            }
        }
    }

    /// Writes down some of the objects that are there at the beginning. They are many, and the client may never read them.
    fn fill_from_initial(&mut self) {
        while self.pending.len() < BATCH {
            let Some((_, object)) = self.initial.next() else {
                if let Some(version) = self.initial_end.take() {
                    let bookmark = self.shape.bookmark(version, true);
                    self.pending.push_back(bookmark);
                }
                return;
            };
            if self.choice.matches(&self.shape.resource, &object) {
                let line = self.shape.line("ADDED", &object);
                self.pending.push_back(line);
            }
        }
    }

    /// Lines that wait, in one piece.
    fn take_pending(&mut self) -> Option<Bytes> {
        let first = self.pending.pop_front()?;
        if self.pending.is_empty() || first.len() >= LARGEST_PIECE {
            return Some(first);
        }
        let mut piece = Vec::with_capacity(LARGEST_PIECE);
        piece.extend(first);
        while let Some(line) = self.pending.front()
            && piece.len() + line.len() <= LARGEST_PIECE
        {
            piece.extend(line);
            self.pending.pop_front();
        }
        Some(piece.into())
    }

    /// An object that begins or ceases to match appears to come or go.
    fn push(&mut self, change: &Change) {
        if let Some(namespace) = &self.namespace
            && change.key.split_once('/').map(|(of, _)| of) != Some(namespace)
        {
            return;
        }
        let resource = self.shape.resource.clone();
        let before = change.previous.as_ref().is_some_and(|object| self.choice.matches(&resource, object));
        let after = change.kind != ChangeKind::Deleted && self.choice.matches(&resource, &change.object);
        let line = match (before, after) {
            (false, false) => return,
            (false, true) => self.shape.changed("ADDED", change),
            (true, true) => self.shape.changed("MODIFIED", change),
            (true, false) if change.kind == ChangeKind::Deleted => self.shape.changed("DELETED", change),
            (true, false) => {
                // The last state that matched, at the version in which it ceased to.
                let mut last = change.previous.as_deref().cloned().unwrap_or_default();
                last["metadata"]["resourceVersion"] = change.revision.to_string().into();
                self.shape.line("DELETED", &last)
            }
        };
        self.pending.push_back(line);
    }
}
