//! The file in which a store is kept: one `redb` database.
//!
//! It holds what the memory holds, in two tables: the objects as they were at the oldest revision that is still remembered, and
//! every change since. A write appends one change; a change that the history forgets moves into the objects. Reading the file is
//! replaying it, so the history of a store outlives the process as well as its objects do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::seal::{self, Seal};
use super::{Change, ChangeKind, ResourceName};

/// The form of the file that this version writes. It rises when an older version could not read the file any more.
const FORMAT: u64 = 1;

const NUMBERS: TableDefinition<&str, u64> = TableDefinition::new("numbers");
const FORGOTTEN: TableDefinition<&str, u64> = TableDefinition::new("forgotten");
const OBJECTS: TableDefinition<&str, &[u8]> = TableDefinition::new("objects");
const CHANGES: TableDefinition<u64, &[u8]> = TableDefinition::new("changes");

/// The name of the file within its folder.
const FILE_NAME: &str = "objects.redb";

/// Why a store on disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Another process has it open.
    #[error("`{}` is in use by another running server: end that one, or choose another folder", .path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A later version has written it.
    #[error("`{}` has format {found}, which a newer version has written; this one knows formats up to {FORMAT}: use the newer version, or another folder", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format it has.
        found: u64,
    },
    /// Its content makes no sense.
    #[error("`{}` is damaged and was left as it is ({detail}): put back a copy, or choose another folder", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The system does not let us.
    #[error("cannot use `{}`: {detail}", .path.display())]
    Unusable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        detail: String,
    },
}

/// Something to be written down.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// An object was written or removed.
    Happened(ResourceName, Arc<Change>),
    /// The history has forgotten this change.
    Forgotten(ResourceName, Arc<Change>),
    /// The history has forgotten everything up to this revision.
    AllForgotten(u64),
}

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The revision of the latest write.
    pub revision: u64,
    /// Resources that were never written to begin with this as their forgotten past.
    pub epoch: u64,
    /// The latest forgotten revision of each resource that has forgotten any.
    pub forgotten: Vec<(ResourceName, u64)>,
    /// The objects before the first change.
    pub objects: Vec<(ResourceName, Arc<str>, Value)>,
    /// The changes, in order.
    pub changes: Vec<LoggedChange>,
}

/// A change as it is kept: what was there before follows from the changes before.
#[derive(Debug)]
pub(super) struct LoggedChange {
    pub revision: u64,
    pub kind: ChangeKind,
    pub resource: ResourceName,
    pub key: Arc<str>,
    pub object: Value,
}

/// The way to a file. Tests take one that fails when they say so.
pub(crate) trait Disk: std::fmt::Debug + Send {
    /// Opens the database in a file that is there.
    fn open(&self, path: &Path) -> Result<Database, DatabaseError>;
}

/// The way that the system offers.
#[derive(Debug)]
pub(super) struct SystemDisk;

impl Disk for SystemDisk {
    fn open(&self, path: &Path) -> Result<Database, DatabaseError> {
        Database::builder().create(path)
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct DataFile {
    path: PathBuf,
    disk: Box<dyn Disk>,
    /// Nothing while it is being closed, and after a write that failed.
    database: Option<Database>,
    seal: Seal,
}

impl Drop for DataFile {
    fn drop(&mut self) {
        self.database = None;
        // Without a seal the next start takes longer, and that is all.
        let _ = self.seal.close(&self.path);
    }
}

impl DataFile {
    /// Opens or makes the file in a folder, and reads it. There is no content in a new file.
    pub(super) fn open(folder: &Path, disk: Box<dyn Disk>) -> Result<(Self, Option<Content>), DataError> {
        make_folder(folder)?;
        let path = folder.join(FILE_NAME);
        let unusable =
            |error: std::io::Error| DataError::Unusable { path: path.clone(), detail: error.to_string() };
        let is_new = !path.try_exists().map_err(unusable)?;
        let Some(mut seal) = Seal::open(folder, is_new).map_err(unusable)? else {
            return Err(DataError::InUse { path });
        };
        if seal.is_damaged {
            let detail = "it is not what a server wrote there".to_owned();
            return Err(DataError::Damaged { path: folder.join(seal::FILE_NAME), detail });
        }
        if is_new && seal.revision > 0 {
            let detail =
                format!("it is missing, and `{}` beside it tells that there was one", seal::FILE_NAME);
            return Err(DataError::Damaged { path, detail });
        }
        if !is_new && !seal.fits(&path).map_err(unusable)? {
            let detail = "it has changed since it was closed".to_owned();
            return Err(DataError::Damaged { path, detail });
        }
        // Opening changes the file: whoever ends without closing it must not leave a checksum that is no longer true.
        seal.advance(seal.revision);
        if is_new {
            // An empty file becomes a database.
            crate::credentials::write_private(&path, "").map_err(unusable)?;
        }
        let database = disk.open(&path).map_err(|error| explain(&path, error))?;
        if is_new {
            seal.revision = 0;
            let mut file = Self { path, disk, database: Some(database), seal };
            file.write(&[], 0).map_err(|error| file.unusable(&error))?;
            return Ok((file, None));
        }
        let file = Self { path, disk, database: Some(database), seal };
        let content = file.read()?;
        if content.revision < file.seal.revision {
            return Err(file.damaged("its latest writes are missing"));
        }
        // A process that ended right after making the file has left nothing in it.
        Ok((file, (content.revision > 0).then_some(content)))
    }

    /// Writes entries down in one transaction, which is on disk when this returns. What could not be written may be written again,
    /// with what has come since.
    pub(super) fn write(&mut self, entries: &[Entry], revision: u64) -> Result<(), redb::Error> {
        if self.database.is_none() {
            self.database = Some(self.disk.open(&self.path)?);
        }
        let written = self.write_transaction(entries, revision);
        if written.is_err() {
            // A database whose file has failed once refuses everything; the next attempt opens it anew.
            self.database = None;
        }
        written
    }

    fn write_transaction(&mut self, entries: &[Entry], revision: u64) -> Result<(), redb::Error> {
        let database = self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        let transaction = database.begin_write()?;
        {
            let mut numbers = transaction.open_table(NUMBERS)?;
            numbers.insert("format", FORMAT)?;
            numbers.insert("revision", revision)?;
            let mut forgotten = transaction.open_table(FORGOTTEN)?;
            let mut objects = transaction.open_table(OBJECTS)?;
            let mut changes = transaction.open_table(CHANGES)?;
            for entry in entries {
                match entry {
                    Entry::Happened(resource, change) => {
                        changes.insert(change.revision, written_change(resource, change).as_slice())?;
                    }
                    Entry::Forgotten(resource, change) => {
                        changes.remove(change.revision)?;
                        forgotten.insert(place(resource, "").as_str(), change.revision)?;
                        let place = place(resource, &change.key);
                        if change.kind == ChangeKind::Deleted {
                            objects.remove(place.as_str())?;
                        } else {
                            let row = sealed(place.as_bytes(), &[change.object.text()]);
                            objects.insert(place.as_str(), row.as_slice())?;
                        }
                    }
                    Entry::AllForgotten(revision) => {
                        numbers.insert("epoch", *revision)?;
                        forgotten.retain(|_, _| false)?;
                        let mut moved = Vec::new();
                        for row in changes.range::<u64>(..=*revision)? {
                            let (number, row) = row?;
                            moved.push((number.value(), row.value().to_vec()));
                        }
                        for (number, row) in moved {
                            changes.remove(number)?;
                            let Some(change) = read_change(number, &row) else {
                                return Err(redb::Error::Corrupted(format!("change {number} is unreadable")));
                            };
                            let place = place(&change.resource, &change.key);
                            if change.kind == ChangeKind::Deleted {
                                objects.remove(place.as_str())?;
                            } else {
                                let row = sealed(place.as_bytes(), &[change.object.to_string().as_bytes()]);
                                objects.insert(place.as_str(), row.as_slice())?;
                            }
                        }
                    }
                }
            }
        }
        transaction.commit()?;
        self.seal.advance(revision);
        Ok(())
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn unusable(&self, error: &redb::Error) -> DataError {
        DataError::Unusable { path: self.path.clone(), detail: error.to_string() }
    }

    fn damaged(&self, detail: impl Into<String>) -> DataError {
        DataError::Damaged { path: self.path.clone(), detail: detail.into() }
    }

    fn read(&self) -> Result<Content, DataError> {
        let failed = |error: redb::Error| match error {
            redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. } => {
                self.damaged("it was not written by this program")
            }
            redb::Error::Corrupted(detail) => self.damaged(detail),
            other => self.unusable(&other),
        };
        let database = self.database.as_ref().ok_or_else(|| failed(redb::Error::DatabaseClosed))?;
        let transaction = database.begin_read().map_err(|error| failed(error.into()))?;
        let numbers = transaction.open_table(NUMBERS).map_err(|error| failed(error.into()))?;
        let number = |name: &str| -> Result<u64, DataError> {
            let found = numbers.get(name).map_err(|error| failed(error.into()))?;
            Ok(found.map_or(0, |number| number.value()))
        };
        match number("format")? {
            FORMAT => {}
            0 => return Err(self.damaged("it has no format")),
            found => return Err(DataError::Newer { path: self.path.clone(), found }),
        }
        let mut content =
            Content { revision: number("revision")?, epoch: number("epoch")?, ..Content::default() };

        let rows = transaction.open_table(FORGOTTEN).map_err(|error| failed(error.into()))?;
        for row in rows.iter().map_err(|error| failed(error.into()))? {
            let (place, revision) = row.map_err(|error| failed(error.into()))?;
            let (resource, _) =
                read_place(place.value()).ok_or_else(|| self.damaged("a resource has no name"))?;
            content.forgotten.push((resource, revision.value()));
        }
        let rows = transaction.open_table(OBJECTS).map_err(|error| failed(error.into()))?;
        for row in rows.iter().map_err(|error| failed(error.into()))? {
            let (place, row) = row.map_err(|error| failed(error.into()))?;
            let read = unsealed(place.value().as_bytes(), row.value())
                .and_then(|text| serde_json::from_slice(text).ok())
                .zip(read_place(place.value()));
            let (object, (resource, key)) =
                read.ok_or_else(|| self.damaged(format!("object `{}` is unreadable", place.value())))?;
            content.objects.push((resource, key, object));
        }
        let rows = transaction.open_table(CHANGES).map_err(|error| failed(error.into()))?;
        for row in rows.iter().map_err(|error| failed(error.into()))? {
            let (revision, row) = row.map_err(|error| failed(error.into()))?;
            let revision = revision.value();
            let change = read_change(revision, row.value()).filter(|_| revision <= content.revision);
            content
                .changes
                .push(change.ok_or_else(|| self.damaged(format!("change {revision} is unreadable")))?);
        }
        Ok(content)
    }
}

/// Objects may be secrets: a folder made here is for its owner only.
fn make_folder(folder: &Path) -> Result<(), DataError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(folder)
        .map_err(|error| DataError::Unusable { path: folder.to_owned(), detail: error.to_string() })
}

fn explain(path: &Path, error: DatabaseError) -> DataError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => DataError::InUse { path },
        DatabaseError::Storage(StorageError::Corrupted(detail)) => DataError::Damaged { path, detail },
        DatabaseError::Storage(StorageError::Io(error))
            if matches!(
                error.kind(),
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof
            ) =>
        {
            DataError::Damaged { path, detail: error.to_string() }
        }
        DatabaseError::UpgradeRequired(version) => {
            DataError::Damaged { path, detail: format!("it is a database of another version, {version}") }
        }
        other => DataError::Unusable { path, detail: other.to_string() },
    }
}

/// `group/plural/key`: neither a group nor a plural name holds a slash.
fn place(resource: &ResourceName, key: &str) -> String {
    format!("{}/{}/{key}", resource.group, resource.plural)
}

fn read_place(text: &str) -> Option<(ResourceName, Arc<str>)> {
    let (group, rest) = text.split_once('/')?;
    let (plural, key) = rest.split_once('/')?;
    Some((ResourceName::new(group, plural), key.into()))
}

/// A row begins with a checksum of its key and its text, which may come in pieces.
fn sealed(key: &[u8], text: &[&[u8]]) -> Vec<u8> {
    let length: usize = text.iter().map(|piece| piece.len()).sum();
    let mut row = Vec::with_capacity(length + 8);
    row.extend([0; 8]);
    text.iter().for_each(|piece| row.extend_from_slice(piece));
    let sum = checksum(key, &row[8..]);
    row[..8].copy_from_slice(&sum.to_le_bytes());
    row
}

fn unsealed<'a>(key: &[u8], row: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, text) = row.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == checksum(key, text)).then_some(text)
}

fn checksum(key: &[u8], text: &[u8]) -> u64 {
    xxh3_64(key) ^ xxh3_64(text).rotate_left(1)
}

fn written_change(resource: &ResourceName, change: &Change) -> Vec<u8> {
    let kind = match change.kind {
        ChangeKind::Added => 0,
        ChangeKind::Modified => 1,
        ChangeKind::Deleted => 2,
    };
    let place = Value::from(place(resource, &change.key)).to_string();
    let beginning = format!("[{kind},{place},");
    sealed(&change.revision.to_le_bytes(), &[beginning.as_bytes(), change.object.text(), b"]"])
}

fn read_change(revision: u64, row: &[u8]) -> Option<LoggedChange> {
    let text = unsealed(&revision.to_le_bytes(), row)?;
    let (kind, place, object): (u8, String, Value) = serde_json::from_slice(text).ok()?;
    let kind = match kind {
        0 => ChangeKind::Added,
        1 => ChangeKind::Modified,
        2 => ChangeKind::Deleted,
        _ => return None,
    };
    let (resource, key) = read_place(&place)?;
    Some(LoggedChange { revision, kind, resource, key, object })
}
