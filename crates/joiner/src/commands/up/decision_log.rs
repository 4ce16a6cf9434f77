//! `--decisions FILE`: every decision, and what came of its commands, appended to a file as lines of JSON.
//!
//! A thread of its own writes, so that a slow disk holds nobody up: what it has no room for is counted, and the count stands in the file
//! where the lines are missing.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use anyhow::Context;
use joiner_controllers::Controllers;
use joiner_record::Entry;
use tokio::sync::mpsc;

/// Entries that may wait for the disk.
const ROOM: usize = 16_384;

/// A file that is there and can be written.
#[derive(Debug)]
pub struct DecisionLog {
    path: PathBuf,
    file: File,
}

impl DecisionLog {
    /// Opens a file for appending, and makes it if it is not there.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("--decisions: cannot write to `{}`", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes what controllers decide. The thread ends with them; joining it makes sure that everything is in the file.
    pub fn follow(self, controllers: &mut Controllers) -> std::io::Result<JoinHandle<anyhow::Result<()>>> {
        let entries = controllers.follow_decisions(ROOM);
        let write = move || {
            write(entries, BufWriter::new(self.file))
                .with_context(|| format!("--decisions: cannot write to `{}`", self.path.display()))
        };
        std::thread::Builder::new().name("decisions".to_owned()).spawn(write)
    }
}

fn write(mut entries: mpsc::Receiver<Entry>, mut file: impl Write) -> anyhow::Result<()> {
    while let Some(entry) = entries.blocking_recv() {
        let mut next = Some(entry);
        while let Some(entry) = next {
            serde_json::to_writer(&mut file, &entry)?;
            file.write_all(b"\n")?;
            next = entries.try_recv().ok();
        }
        // Whoever follows the file sees whole lines as soon as there is a pause.
        file.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_a_line() {
        let (sender, entries) = mpsc::channel(8);
        for count in 1..=3 {
            sender.try_send(Entry::Lost { count }).unwrap();
        }
        drop(sender);
        let mut text = Vec::new();
        write(entries, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert_eq!(
            serde_json::from_str::<Entry>(text.lines().last().unwrap()).unwrap(),
            Entry::Lost { count: 3 }
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = DecisionLog::open(Path::new("/nowhere/at/all.jsonl")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all.jsonl"), "{error}");
    }
}
