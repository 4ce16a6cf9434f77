//! A small file beside the data file that tells whether the data file is what it should be.
//!
//! The database trusts a file that was closed in good order, and after a crash it falls back to the state before if the latest does
//! not read well. Neither must pass unnoticed when a disk or a person has damaged the file. So the seal holds the latest revision
//! written and, while nobody has the file open, a checksum of all of it. Whoever uses the folder holds a lock on the seal.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

pub(super) const FILE_NAME: &str = "objects.seal";

/// Revision and checksum of the data file, and a checksum of the two.
const LENGTH: usize = 24;

/// The same without a checksum of its own, as earlier versions wrote it.
const OLD_LENGTH: usize = 16;

#[derive(Debug)]
pub(super) struct Seal {
    file: File,
    /// The latest revision that was acknowledged.
    pub revision: u64,
    /// The checksum of the closed data file; 0 while it is open, or was never closed.
    sum: u64,
    /// What was written in it makes no sense.
    pub is_damaged: bool,
}

impl Seal {
    /// Reads the seal, or makes one; nothing if somebody else holds it. `unneeded`: there is no data file yet.
    pub(super) fn open(folder: &Path, unneeded: bool) -> std::io::Result<Option<Self>> {
        let path = folder.join(FILE_NAME);
        let existed = path.try_exists()?;
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let number = |at: usize| {
            let bytes = text.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let is_new = text.is_empty() && (unneeded || !existed);
        let is_whole = match text.len() {
            LENGTH => number(16) == own_sum(&text[..16]),
            length => length == OLD_LENGTH,
        };
        let mut seal = Self { file, revision: number(0), sum: number(8), is_damaged: !is_new && !is_whole };
        if is_new {
            // An empty seal is a damaged one: after a power failure there must be none beside written data.
            seal.write()?;
            seal.file.sync_all()?;
        }
        Ok(Some(seal))
    }

    /// Whether the data file is as it was closed, if it was.
    pub(super) fn fits(&self, data: &Path) -> std::io::Result<bool> {
        Ok(self.sum == 0 || sum_of(data)? == self.sum)
    }

    /// Writes down that the data file is open and has come this far.
    pub(super) fn advance(&mut self, revision: u64) {
        self.revision = revision;
        self.sum = 0;
        // The seal may be behind the data file, never before it: a failure here takes a check away, and no data.
        let _ = self.write();
    }

    /// Seals the closed data file.
    pub(super) fn close(&mut self, data: &Path) -> std::io::Result<()> {
        self.sum = sum_of(data)?;
        self.write()
    }

    fn write(&mut self) -> std::io::Result<()> {
        let mut text = [0; LENGTH];
        text[..8].copy_from_slice(&self.revision.to_le_bytes());
        text[8..16].copy_from_slice(&self.sum.to_le_bytes());
        let own = own_sum(&text[..16]);
        text[16..].copy_from_slice(&own.to_le_bytes());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&text)
    }
}

fn own_sum(text: &[u8]) -> u64 {
    xxh3_64(text)
}

fn sum_of(data: &Path) -> std::io::Result<u64> {
    let mut file = File::open(data)?;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.digest().max(1)),
            length => hasher.update(&buffer[..length]),
        }
    }
}
