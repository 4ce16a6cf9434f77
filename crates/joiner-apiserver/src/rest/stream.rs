//! Watches: changes as they happen, one JSON document per line.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::read::{Choice, version_asked};
use super::status::Failure;
use super::{Answer, Call, Form, Payload, list_options, meta_text, render};
use crate::clock::Clock;
use crate::resources::Resource;
use crate::store::{Change, ChangeKind, Expired, Object, Stored, Watch};
use crate::table::{self, Include};

/// The lines of a watch.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Bytes, Infallible>> + Send>>;

/// A client that allows bookmarks gets one about this often.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A watch without a limit ends after this time, as on a real server (there between 30 and 60 minutes).
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// Lines are sent together up to about this length.
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
        by_text: call.accepted.form == Form::Objects,
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
        piece: BytesMut::new(),
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
        Err(expired) => reader.piece.put_slice(&expired_line(from, expired)),
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
    let mut line = BytesMut::with_capacity(object.len() + 40);
    put_line(&mut line, kind, object);
    line.freeze()
}

fn put_line(piece: &mut BytesMut, kind: &str, object: &[u8]) {
    piece.put_slice(b"{\"type\":\"");
    piece.put_slice(kind.as_bytes());
    piece.put_slice(b"\",\"object\":");
    piece.put_slice(object);
    piece.put_slice(b"}\n");
}

/// How objects of events are shown.
struct EventShape {
    resource: Arc<Resource>,
    form: Form,
    include: Include,
    clock: Arc<dyn Clock>,
    columns_sent: bool,
    /// Objects are shown as they are kept, where that is what clients of this version see.
    by_text: bool,
}

impl EventShape {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes an event. Where the text that is kept is what the client sees, nobody looks inside.
    fn put(&mut self, piece: &mut BytesMut, kind: &str, object: &Stored) {
        if self.by_text
            && let Some(text) = render::text_in_version(&self.resource, object)
        {
            return put_line(piece, kind, &text);
        }
        let shown = match self.form {
            Form::Objects | Form::Discovery => render::in_version(&self.resource, object),
            Form::Metadata => render::metadata_only(object),
            Form::Table(version) => {
                let object = std::iter::once(object.value());
                let mut table =
                    table::table(&self.resource, object.clone(), self.now(), self.include, version);
                let version = object.map(|object| meta_text(object, "resourceVersion").to_owned()).next();
                table["metadata"] = json!({"resourceVersion": version});
                self.columns_once(&mut table);
                table
            }
        };
        piece.put_slice(&line(kind, &shown));
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
    initial: std::vec::IntoIter<(Arc<str>, Stored)>,
    /// The version of the bookmark after that, if there is to be one.
    initial_end: Option<u64>,
    /// Changes that are not yet written down.
    pending: VecDeque<Arc<Change>>,
    /// What is written down and not yet sent.
    piece: BytesMut,
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
            self.fill();
            if !self.piece.is_empty() {
                return Some(self.piece.split().freeze());
            }
            let until = if self.bookmarks { self.next_bookmark.min(self.end) } else { self.end };
            let watch = self.watch.as_mut()?;
            match tokio::time::timeout_at(until, watch.next()).await {
                Ok(Ok(batch)) => {
                    self.seen = batch.seen;
                    self.pending.extend(batch.changes);
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
                            self.pending.extend(batch.changes);
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

    /// Writes down as much as is sent at once. There may be much more, and the client may never read it.
    fn fill(&mut self) {
        while self.piece.len() < LARGEST_PIECE {
            if let Some((_, object)) = self.initial.next() {
                if self.choice.is_everything() || self.choice.matches(&self.shape.resource, &object) {
                    self.shape.put(&mut self.piece, "ADDED", &object);
                }
            } else if let Some(version) = self.initial_end.take() {
                let bookmark = self.shape.bookmark(version, true);
                self.piece.put_slice(&bookmark);
            } else if let Some(change) = self.pending.pop_front() {
                self.put(&change);
            } else {
                return;
            }
        }
    }

    /// An object that begins or ceases to match appears to come or go.
    fn put(&mut self, change: &Change) {
        if let Some(namespace) = &self.namespace
            && change.key.split_once('/').map(|(of, _)| of) != Some(namespace)
        {
            return;
        }
        let object = Stored::from(&change.object);
        let everything = self.choice.is_everything();
        let matches = |object: &Stored| everything || self.choice.matches(&self.shape.resource, object);
        let before = change.previous.as_ref().is_some_and(|object| matches(&object.into()));
        let after = change.kind != ChangeKind::Deleted && matches(&object);
        match (before, after) {
            (false, false) => {}
            (false, true) => self.shape.put(&mut self.piece, "ADDED", &object),
            (true, true) => self.shape.put(&mut self.piece, "MODIFIED", &object),
            (true, false) if change.kind == ChangeKind::Deleted => {
                self.shape.put(&mut self.piece, "DELETED", &object);
            }
            (true, false) => {
                // The last state that matched, at the version in which it ceased to.
                if let Some(previous) = &change.previous {
                    let last: Arc<Object> = Arc::new(previous.at_revision(change.revision));
                    self.shape.put(&mut self.piece, "DELETED", &Stored::from(&last));
                }
            }
        }
    }
}
