//! The way from the memory to the disk.
//!
//! One thread writes. What all requests have changed while it was busy goes down in its next transaction, so that many writers pay
//! for one wait for the disk. A request is answered, and a watch hears of it, only when its change cannot be lost any more.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch as signal;

use super::data_file::{DataFile, Entry};
use super::{Inner, ResourceName};

/// After a write that failed the next attempt comes after this time, and after each further one twice as late.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How far the disk has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Everything up to this revision is safe.
    pub saved: u64,
    /// Why nothing more is, for the time being.
    pub failed: Option<Arc<str>>,
}

enum Message {
    Write { entries: Vec<Entry>, revision: u64 },
    Close(mpsc::Sender<()>),
}

/// The store's end of the way.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    queue: mpsc::Sender<Message>,
}

impl Journal {
    /// Starts the thread that writes.
    pub(super) fn start(
        file: DataFile,
        store: Weak<Mutex<Inner>>,
        saved: u64,
    ) -> std::io::Result<(Self, signal::Receiver<Progress>)> {
        let (queue, messages) = mpsc::channel();
        let (sender, progress) = signal::channel(Progress { saved, failed: None });
        std::thread::Builder::new()
            .name("joiner-store".to_owned())
            .spawn(move || Writer::new(file, store, sender).run(&messages))?;
        Ok((Self { queue }, progress))
    }

    /// Hands over what one session has changed. Sessions hand over in the order of their revisions.
    pub(super) fn write(&self, entries: Vec<Entry>, revision: u64) {
        // A thread that is gone has said why in the progress.
        let _ = self.queue.send(Message::Write { entries, revision });
    }

    /// Waits until all is written and the file is closed.
    pub(super) fn close(&self) {
        let (done, closed) = mpsc::channel();
        if self.queue.send(Message::Close(done)).is_ok() {
            let _ = closed.recv();
        }
    }
}

struct Writer {
    file: Option<DataFile>,
    store: Weak<Mutex<Inner>>,
    progress: signal::Sender<Progress>,
    /// What could not be written yet.
    waiting: Vec<Entry>,
    /// The revision that is reached when it is written.
    revision: u64,
    /// While the disk fails: the pause before the next attempt, and when that is.
    retry: Option<(Duration, Instant)>,
}

impl Writer {
    fn new(file: DataFile, store: Weak<Mutex<Inner>>, progress: signal::Sender<Progress>) -> Self {
        Self { file: Some(file), store, progress, waiting: Vec::new(), revision: 0, retry: None }
    }

    /// Works until the store is gone.
    fn run(mut self, messages: &mpsc::Receiver<Message>) {
        loop {
            let first = match self.retry {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some((_, at)) => messages.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            if matches!(first, Err(RecvTimeoutError::Disconnected)) {
                self.write();
                return;
            }
            let mut closing = Vec::new();
            for message in first.into_iter().chain(messages.try_iter()) {
                match message {
                    Message::Write { entries, revision } => {
                        self.waiting.extend(entries);
                        self.revision = revision;
                    }
                    Message::Close(done) => closing.push(done),
                }
            }
            if !closing.is_empty() || self.retry.is_none_or(|(_, at)| at <= Instant::now()) {
                self.write();
            }
            if !closing.is_empty() {
                self.file = None;
                self.retry = None;
                self.stall("the data file is closed");
                for done in closing {
                    let _ = done.send(());
                }
            }
        }
    }

    /// Writes what waits. Nothing is left out when the disk fails: a gap would be worse than an end.
    fn write(&mut self) {
        let Some(file) = &mut self.file else { return };
        if self.waiting.is_empty() {
            return;
        }
        if let Err(error) = file.write(&self.waiting, self.revision) {
            let pause = self.retry.map_or(FIRST_PAUSE, |(pause, _)| (pause * 2).min(LONGEST_PAUSE));
            self.retry = Some((pause, Instant::now() + pause));
            let reason = format!(
                "cannot write to `{}`: {error}; nothing is changed until that succeeds, which is tried again and again: \
                 make room on the disk",
                file.path().display()
            );
            self.stall(&reason);
            return;
        }
        let entries = std::mem::take(&mut self.waiting);
        let moved: BTreeSet<&ResourceName> = entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Happened(resource, _) => Some(resource),
                _ => None,
            })
            .collect();
        if self.retry.take().is_some() {
            // First those who wait for the disk wait again, then the store is open again: nobody hears of a failure that is over.
            self.progress.send_modify(|progress| progress.failed = None);
        }
        if let Some(store) = self.store.upgrade() {
            let mut store = store.lock();
            store.stall = None;
            store.show(self.revision, moved);
        }
        self.progress.send_modify(|progress| progress.saved = self.revision);
    }

    /// From now on the store is as the disk has it, and nothing is changed.
    fn stall(&self, reason: &str) {
        let reason: Arc<str> = reason.into();
        if let Some(store) = self.store.upgrade() {
            store.lock().stall(reason.clone());
        }
        self.progress.send_modify(|progress| progress.failed = Some(reason));
    }
}
