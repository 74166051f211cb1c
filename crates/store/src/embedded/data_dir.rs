//! The data directory: its lock, and whether its database is ours and intact.
//!
//! No content is modified before everything in it has been validated; the lock file is created and the mode of our
//! files is set to 0600 first. A new database is created under another name
//! and renamed when it is complete, so that an empty or truncated database always means damage and never an interrupted
//! creation.

use super::codec::{RowDecoder, RowEncoder};
use super::directory::index_names;
use super::open_error::OpenError;
use super::rows::{Batch, Rows, TableKind, View};
use super::staged_file::StagedFile;
use super::totals::rank_spenders;
use super::writer::begin;
use redb::{Builder, Database, DatabaseError, StorageError};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The database.
pub(super) const DATABASE_FILE: &str = "state.redb";
/// A database that is being created.
const NEW_DATABASE_FILE: &str = "state.redb.new";
/// Locked by the process that uses the directory.
const LOCK_FILE: &str = "lock";
/// These files contain hashes of credentials, spending and the master secret, so only their owner may read them.
const PRIVATE_DIRECTORY: u32 = 0o700;
pub(super) const PRIVATE_FILE: u32 = 0o600;
/// The permission bits of group and others.
const GROUP_AND_OTHERS: u32 = 0o077;
/// The format that this program writes, and the newest that it reads. Version 2 added blocks of calls and ranks of
/// callers, version 3 labels of calls, windows of budgets, contracts of keys and an index of their names.
pub(super) const FORMAT_VERSION: u32 = 3;
/// The first bytes of every redb file.
const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
const HEADER_KEY: &[u8] = b"format";
const HEADER_NAME: &str = "seawall";
/// Databases up to this size are verified in full when they are opened. Larger ones are verified as they are read.
const MAX_FULL_CHECK_BYTES: u64 = 32 << 20;

/// The data directory, locked by this process.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    /// Locked until it is dropped.
    _lock: File,
}

/// A database that has been validated, and is not modified before its staged changes are applied.
#[derive(Debug)]
pub(super) struct ValidatedDatabase {
    pub(super) database: Database,
    pub(super) file: StagedFile,
    pub(super) path: PathBuf,
    pub(super) created: bool,
}

impl DataDir {
    /// Locks the directory, and creates it if it is missing.
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        create_private_dir(path).map_err(|error| OpenError::unusable(path, &error))?;
        let lock_path = path.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE);
        let opened = options.open(&lock_path);
        let lock = opened.map_err(|error| OpenError::unusable(&lock_path, &error))?;
        lock_file(&lock, &lock_path)?;
        restrict_permissions(path);
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Whether other users may access the directory.
    pub(super) fn is_accessible_to_others(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|metadata| metadata.mode() & GROUP_AND_OTHERS != 0)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the directory, which makes the names in it durable.
    pub(super) fn sync(&self) -> Result<(), OpenError> {
        let synced = File::open(&self.path).and_then(|dir| dir.sync_all());
        synced.map_err(|error| OpenError::unusable(&self.path, &error))
    }

    /// Opens the database, or creates one if the directory is new.
    pub(super) fn open_database(
        &self,
        cache: usize,
        has_journal: bool,
    ) -> Result<ValidatedDatabase, OpenError> {
        let path = self.path.join(DATABASE_FILE);
        let exists = path.try_exists().map_err(|error| OpenError::unusable(&path, &error))?;
        if !exists {
            if has_journal {
                return Err(OpenError::damaged(&path, "journal segments exist, but the database is missing"));
            }
            self.create_database(&path)?;
        }
        Ok(ValidatedDatabase { created: !exists, ..ValidatedDatabase::open(path, cache)? })
    }

    fn create_database(&self, path: &Path) -> Result<(), OpenError> {
        let new_path = self.path.join(NEW_DATABASE_FILE);
        let unusable = |error: &std::io::Error| OpenError::unusable(&new_path, error);
        // A leftover of an interrupted creation holds nothing that was acknowledged.
        match fs::remove_file(&new_path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(&error)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let created = options.read(true).write(true).create_new(true).mode(PRIVATE_FILE).open(&new_path);
        let file =
            StagedFile::new(created.map_err(|error| unusable(&error))?).map_err(|error| unusable(&error))?;
        file.apply_staged().map_err(|error| unusable(&error))?;
        let database =
            Builder::new().create_with_backend(file).map_err(|error| open_error(&new_path, error))?;
        let written = (|| {
            let transaction = begin(&database)?;
            migrate_format(&mut Batch::new(&transaction))?;
            transaction.commit().map_err(super::rows::store_error)
        })();
        written.map_err(|error| OpenError::Unusable {
            path: new_path.clone(),
            reason: error.to_string().into(),
        })?;
        drop(database);
        fs::rename(&new_path, path).map_err(|error| unusable(&error))?;
        self.sync()
    }
}

/// Creates a directory and its missing parents, accessible to this user only. An existing one stays as it is.
pub fn create_private_dir(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)
}

/// Removes the access of other users to our own files, which older versions or a copy may have left open. The directory
/// itself may be one that others need, so it is only reported ([`DataDir::is_accessible_to_others`]).
fn restrict_permissions(path: &Path) {
    let is_ours = |name: &str| {
        [LOCK_FILE, DATABASE_FILE, NEW_DATABASE_FILE, "master-secret"].contains(&name)
            || (name.starts_with("journal-") && name.ends_with(".log"))
    };
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_ours)) {
        let is_accessible_to_others =
            |metadata: &fs::Metadata| metadata.is_file() && metadata.mode() & GROUP_AND_OTHERS != 0;
        // Symbolic links are not followed, because their targets are not ours to change.
        if fs::symlink_metadata(entry.path()).is_ok_and(|metadata| is_accessible_to_others(&metadata)) {
            // A file of another user stays as it is; it may be unusable anyway.
            let _ = fs::set_permissions(entry.path(), Permissions::from_mode(PRIVATE_FILE));
        }
    }
}

/// Migrates the database to the current format if necessary, and records that format.
pub(super) fn migrate_format(batch: &mut Batch<'_>) -> Result<(), crate::StoreError> {
    let header = RowEncoder::default().text(HEADER_NAME).u32(FORMAT_VERSION).row();
    if batch.get(TableKind::Header, HEADER_KEY)?.is_some_and(|before| before == header) {
        return Ok(());
    }
    rank_spenders(batch)?;
    index_names(batch)?;
    batch.put(TableKind::Header, HEADER_KEY, &header)
}

/// Rewrites the header, to test whether the database can be written.
pub(super) fn rewrite_header(batch: &mut Batch<'_>) -> Result<(), crate::StoreError> {
    let header = RowEncoder::default().text(HEADER_NAME).u32(FORMAT_VERSION).row();
    batch.put(TableKind::Header, HEADER_KEY, &header)
}

/// Locks a file for this process, until the file is closed.
fn lock_file(file: &File, path: &Path) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(OpenError::unusable(path, &error)),
    }
}

/// Checks that the file is a redb database.
fn check_magic(path: &Path) -> Result<(), OpenError> {
    let unusable = |error: &std::io::Error| OpenError::unusable(path, error);
    let metadata = fs::metadata(path).map_err(|error| unusable(&error))?;
    if !metadata.is_file() {
        return Err(OpenError::foreign(path, "it is not a regular file"));
    }
    let mut start = Vec::new();
    let file = File::open(path).map_err(|error| unusable(&error))?;
    file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(|error| unusable(&error))?;
    if start.is_empty() {
        return Err(OpenError::damaged(path, "the file is empty"));
    }
    if start == MAGIC {
        return Ok(());
    }
    if MAGIC.starts_with(&start) {
        return Err(OpenError::damaged(path, "the file is truncated"));
    }
    Err(OpenError::foreign(path, "wrong magic number"))
}

fn open_file(path: &Path, cache: usize) -> Result<(Database, StagedFile), OpenError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let file = opened.map_err(|error| OpenError::unusable(path, &error))?;
    // The lock file of a process that still runs may have been deleted.
    lock_file(&file, path)?;
    let file = StagedFile::new(file).map_err(|error| OpenError::unusable(path, &error))?;
    let staged = file.clone();
    let database = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(cache);
        // Every transaction of ours leaves a file that needs no repair, so a file that does was not written by us
        // alone.
        builder.set_repair_callback(redb::RepairSession::abort);
        builder.create_with_backend(staged)
    }));
    match database {
        Ok(Ok(database)) => Ok((database, file)),
        Ok(Err(error)) => Err(open_error(path, error)),
        Err(_) => Err(OpenError::damaged(path, "its pages are invalid")),
    }
}

fn open_error(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
            // The database reads at the offsets in its header, or reports invalid data.
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput => {
                OpenError::damaged(path, "the file is truncated, or its header is invalid")
            }
            _ => OpenError::unusable(path, &error),
        },
        DatabaseError::RepairAborted => {
            let reason = "redb reports an unclean shutdown, which Seawall's commits never leave behind: another program or \
                          an incomplete copy has changed the file";
            OpenError::damaged(path, reason)
        }
        error => OpenError::damaged(path, error),
    }
}

impl ValidatedDatabase {
    /// Opens an existing database.
    pub(super) fn open(path: PathBuf, cache: usize) -> Result<Self, OpenError> {
        check_magic(&path)?;
        let (database, file) = open_file(&path, cache)?;
        let mut validated = Self { database, file, path, created: false };
        validated.check_header()?;
        validated.check_pages()?;
        Ok(validated)
    }

    fn check_header(&self) -> Result<(), OpenError> {
        let read = catch_unwind(AssertUnwindSafe(|| {
            View::new(&self.database).and_then(|mut view| view.get(TableKind::Header, HEADER_KEY))
        }));
        let damaged = |reason: &dyn std::fmt::Display| OpenError::damaged(&self.path, reason);
        let row = match read {
            Ok(Ok(Some(row))) => row,
            Ok(Ok(None)) => {
                return Err(OpenError::foreign(&self.path, "it is a database of another program"));
            }
            Ok(Err(error)) => return Err(damaged(&error)),
            Err(_) => return Err(damaged(&"its pages are invalid")),
        };
        let mut input = RowDecoder::row("seawall", &row).map_err(|error| damaged(&error))?;
        let name = input.text().map_err(|error| damaged(&error))?;
        if name != HEADER_NAME {
            return Err(OpenError::foreign(&self.path, "it is a database of another program"));
        }
        let version = input.u32().map_err(|error| damaged(&error))?;
        if version > FORMAT_VERSION {
            return Err(OpenError::Newer { path: self.path.clone(), version, supported: FORMAT_VERSION });
        }
        Ok(())
    }

    fn check_pages(&mut self) -> Result<(), OpenError> {
        let metadata = fs::metadata(&self.path).map_err(|error| OpenError::unusable(&self.path, &error))?;
        if metadata.len() > MAX_FULL_CHECK_BYTES {
            return Ok(());
        }
        // Whether it had to clean up does not matter; it verifies the checksum of every page first.
        match catch_unwind(AssertUnwindSafe(|| self.database.check_integrity())) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(open_error(&self.path, error)),
            Err(_) => Err(OpenError::damaged(&self.path, "its pages are invalid")),
        }
    }
}
