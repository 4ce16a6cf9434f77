//! The way from the memory to the disk.
//!
//! One thread writes. What all requests have changed while it was busy goes down in its next transaction, so that many writers pay
//! for one wait for the disk. A request is answered, and a watch hears of it, only when its change cannot be lost any more.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::watch as signal;

use super::data_file::{DataFile, Entry};
use super::{Inner, ResourceName};

/// How far the disk has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Everything up to this revision is safe.
    pub saved: u64,
    /// Why nothing more will be.
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
            .spawn(move || Writer { file: Some(file), store, progress: sender }.run(&messages))?;
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
}

impl Writer {
    /// Works until the store is gone.
    fn run(mut self, messages: &mpsc::Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let mut entries = Vec::new();
            let mut revision = 0;
            let mut closing = Vec::new();
            for message in std::iter::once(first).chain(messages.try_iter()) {
                match message {
                    Message::Write { entries: more, revision: latest } => {
                        entries.extend(more);
                        revision = latest;
                    }
                    Message::Close(done) => closing.push(done),
                }
            }
            if !entries.is_empty() {
                self.write(&entries, revision);
            }
            if !closing.is_empty() {
                self.file = None;
                self.progress.send_modify(|progress| {
                    progress.failed.get_or_insert_with(|| "the data file is closed".into());
                });
                for done in closing {
                    let _ = done.send(());
                }
            }
        }
    }

    fn write(&mut self, entries: &[Entry], revision: u64) {
        // After one failure nothing more is written: a gap would be worse than an end.
        if self.progress.borrow().failed.is_some() {
            return;
        }
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write(entries, revision) {
            let reason =
                format!("cannot write to `{}`: {error}; nothing more is accepted", file.path().display());
            self.progress.send_modify(|progress| progress.failed = Some(reason.into()));
            return;
        }
        let moved: BTreeSet<&ResourceName> = entries
            .iter()
            .filter_map(|entry| match entry {
                Entry::Happened(resource, _) => Some(resource),
                _ => None,
            })
            .collect();
        if let Some(store) = self.store.upgrade() {
            store.lock().show(revision, moved);
        }
        self.progress.send_modify(|progress| progress.saved = revision);
    }
}
