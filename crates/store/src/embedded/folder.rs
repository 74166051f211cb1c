//! The data directory: its lock, and whether its database is ours and intact.
//!
//! Nothing in it is modified before everything in it has been validated. A new database is created under another name
//! and renamed when it is complete, so that an empty or truncated database always means damage and never an interrupted
//! creation.

use super::backend::GuardedFile;
use super::codec::{Input, Output};
use super::refusal::OpenError;
use super::rows::{Batch, Kind, Rows, View};
use super::sums::rank_spenders;
use super::writer::begin;
use redb::{Builder, Database, DatabaseError, StorageError};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The database.
pub(super) const BOOKS: &str = "books.redb";
/// A database that is being created.
const NEW_BOOKS: &str = "books.redb.new";
/// Locked by the process that uses the directory.
const LOCK: &str = "lock";
/// These files contain hashes of credentials, spending and the master secret, so only their owner may read them.
const PRIVATE_DIRECTORY: u32 = 0o700;
pub(super) const PRIVATE_FILE: u32 = 0o600;
/// The permission bits of group and others.
const OTHERS: u32 = 0o077;
/// The format that this program writes, and the newest that it reads. Version 2 added blocks of calls and ranks of
/// callers.
pub(super) const FORMAT: u32 = 2;
/// The first bytes of every redb file.
const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
const HEADER_KEY: &[u8] = b"format";
const HEADER_WORD: &str = "seawall";
/// Databases up to this size are verified in full when they are opened. Larger ones are verified as they are read.
const CHECKED_UP_TO: u64 = 32 << 20;

/// The data directory, locked by this process.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Locked until it is dropped.
    _lock: File,
}

/// A database that has been validated, and is not modified before it is released.
#[derive(Debug)]
pub(super) struct FoundBooks {
    pub(super) database: Database,
    pub(super) file: GuardedFile,
    pub(super) path: PathBuf,
    pub(super) created: bool,
}

impl Folder {
    /// Locks the directory, and creates it if it is missing.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        create_private_dir(path).map_err(|error| OpenError::unusable(path, &error))?;
        let lock_path = path.join(LOCK);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE);
        let opened = options.open(&lock_path);
        let lock = opened.map_err(|error| OpenError::unusable(&lock_path, &error))?;
        take_lock(&lock, &lock_path)?;
        tighten(path);
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Whether other users may access the directory.
    pub(super) fn is_open_to_others(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|about| about.mode() & OTHERS != 0)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the directory, which makes the names in it durable.
    pub(super) fn sync(&self) -> Result<(), OpenError> {
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| OpenError::unusable(&self.path, &error))
    }

    /// Opens the database, or creates one if the directory is new.
    pub(super) fn books(&self, cache: usize, has_journal: bool) -> Result<FoundBooks, OpenError> {
        let path = self.path.join(BOOKS);
        let is_there = path.try_exists().map_err(|error| OpenError::unusable(&path, &error))?;
        if !is_there {
            if has_journal {
                return Err(OpenError::damaged(&path, "the journal is here and its books are gone"));
            }
            self.make_books(&path)?;
        }
        Ok(FoundBooks { created: !is_there, ..FoundBooks::at(path, cache)? })
    }

    fn make_books(&self, path: &Path) -> Result<(), OpenError> {
        let new = self.path.join(NEW_BOOKS);
        let unusable = |error: &std::io::Error| OpenError::unusable(&new, error);
        // A leftover of an interrupted creation holds nothing that was acknowledged.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(&error)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let made = options.read(true).write(true).create_new(true).mode(PRIVATE_FILE).open(&new);
        let file =
            GuardedFile::new(made.map_err(|error| unusable(&error))?).map_err(|error| unusable(&error))?;
        file.release().map_err(|error| unusable(&error))?;
        let database = Builder::new().create_with_backend(file).map_err(|error| refusal(&new, error))?;
        let written = (|| {
            let transaction = begin(&database)?;
            put_header(&mut Batch::new(&transaction))?;
            transaction.commit().map_err(super::rows::failure)
        })();
        written
            .map_err(|error| OpenError::Unusable { path: new.clone(), reason: error.to_string().into() })?;
        drop(database);
        fs::rename(&new, path).map_err(|error| unusable(&error))?;
        self.sync()
    }
}

/// Creates a directory and its missing parents, accessible to this user only. An existing one stays as it is.
pub fn create_private_dir(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)
}

/// Removes the access of other users to our own files, which older versions or a copy may have left open. The directory
/// itself may be one that others need, so it is only reported ([`Folder::is_open_to_others`]).
fn tighten(path: &Path) {
    let is_ours = |name: &str| {
        [LOCK, BOOKS, NEW_BOOKS, "master-secret"].contains(&name)
            || (name.starts_with("journal-") && name.ends_with(".log"))
    };
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_ours)) {
        let is_wide = |about: &fs::Metadata| about.is_file() && about.mode() & OTHERS != 0;
        // Symbolic links are not followed, because their targets are not ours to change.
        if fs::symlink_metadata(entry.path()).is_ok_and(|about| is_wide(&about)) {
            // A file of another user stays as it is; it may be unusable anyway.
            let _ = fs::set_permissions(entry.path(), Permissions::from_mode(PRIVATE_FILE));
        }
    }
}

/// Migrates the database to the current format if necessary, and records that format.
pub(super) fn put_header(batch: &mut Batch<'_>) -> Result<(), crate::StoreError> {
    let header = Output::default().text(HEADER_WORD).short(FORMAT).row();
    if batch.get(Kind::Header, HEADER_KEY)?.is_some_and(|before| before == header) {
        return Ok(());
    }
    rank_spenders(batch)?;
    batch.put(Kind::Header, HEADER_KEY, &header)
}

/// Rewrites the header, to test whether the database can be written.
pub(super) fn put_header_again(batch: &mut Batch<'_>) -> Result<(), crate::StoreError> {
    let header = Output::default().text(HEADER_WORD).short(FORMAT).row();
    batch.put(Kind::Header, HEADER_KEY, &header)
}

/// Locks a file for this process, until the file is closed.
fn take_lock(file: &File, path: &Path) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(OpenError::unusable(path, &error)),
    }
}

/// Checks that the file is a redb database.
fn check_beginning(path: &Path) -> Result<(), OpenError> {
    let unusable = |error: &std::io::Error| OpenError::unusable(path, error);
    let about = fs::metadata(path).map_err(|error| unusable(&error))?;
    if !about.is_file() {
        return Err(OpenError::foreign(path, "it is no file"));
    }
    let mut beginning = Vec::new();
    let file = File::open(path).map_err(|error| unusable(&error))?;
    file.take(MAGIC.len() as u64).read_to_end(&mut beginning).map_err(|error| unusable(&error))?;
    if beginning.is_empty() {
        return Err(OpenError::damaged(path, "the file is empty"));
    }
    if beginning == MAGIC {
        return Ok(());
    }
    if MAGIC.starts_with(&beginning) {
        return Err(OpenError::damaged(path, "the file is cut short"));
    }
    Err(OpenError::foreign(path, "it begins differently"))
}

fn open(path: &Path, cache: usize) -> Result<(Database, GuardedFile), OpenError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let file = opened.map_err(|error| OpenError::unusable(path, &error))?;
    // The lock file of a process that still runs may have been deleted.
    take_lock(&file, path)?;
    let file = GuardedFile::new(file).map_err(|error| OpenError::unusable(path, &error))?;
    let guarded = file.clone();
    let database = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(cache);
        // Every transaction of ours leaves a file that needs no repair, so a file that does was not written by us
        // alone.
        builder.set_repair_callback(redb::RepairSession::abort);
        builder.create_with_backend(guarded)
    }));
    match database {
        Ok(Ok(database)) => Ok((database, file)),
        Ok(Err(error)) => Err(refusal(path, error)),
        Err(_) => Err(OpenError::damaged(path, "its pages make no sense")),
    }
}

fn refusal(path: &Path, error: DatabaseError) -> OpenError {
    match error {
        DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
            // The database reads at the offsets in its header, or reports invalid data.
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput => {
                OpenError::damaged(path, "the file is cut short, or its header is wrong")
            }
            _ => OpenError::unusable(path, &error),
        },
        DatabaseError::RepairAborted => {
            OpenError::damaged(path, "it was not left in the order that this program leaves it in")
        }
        error => OpenError::damaged(path, error),
    }
}

impl FoundBooks {
    /// Opens an existing database.
    pub(super) fn at(path: PathBuf, cache: usize) -> Result<Self, OpenError> {
        check_beginning(&path)?;
        let (database, file) = open(&path, cache)?;
        let mut found = Self { database, file, path, created: false };
        found.check_header()?;
        found.check_whole()?;
        Ok(found)
    }

    fn check_header(&self) -> Result<(), OpenError> {
        let read = catch_unwind(AssertUnwindSafe(|| {
            View::new(&self.database).and_then(|mut view| view.get(Kind::Header, HEADER_KEY))
        }));
        let damaged = |reason: &dyn std::fmt::Display| OpenError::damaged(&self.path, reason);
        let row = match read {
            Ok(Ok(Some(row))) => row,
            Ok(Ok(None)) => {
                return Err(OpenError::foreign(&self.path, "it is a database of another program"));
            }
            Ok(Err(error)) => return Err(damaged(&error)),
            Err(_) => return Err(damaged(&"its pages make no sense")),
        };
        let mut input = Input::row("the header", &row).map_err(|error| damaged(&error))?;
        let word = input.text().map_err(|error| damaged(&error))?;
        if word != HEADER_WORD {
            return Err(OpenError::foreign(&self.path, "it is a database of another program"));
        }
        let found = input.short().map_err(|error| damaged(&error))?;
        if found > FORMAT {
            return Err(OpenError::Newer { path: self.path.clone(), found, known: FORMAT });
        }
        Ok(())
    }

    fn check_whole(&mut self) -> Result<(), OpenError> {
        let about = fs::metadata(&self.path).map_err(|error| OpenError::unusable(&self.path, &error))?;
        if about.len() > CHECKED_UP_TO {
            return Ok(());
        }
        // Whether it had to clean up does not matter; it verifies the checksum of every page first.
        match catch_unwind(AssertUnwindSafe(|| self.database.check_integrity())) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(refusal(&self.path, error)),
            Err(_) => Err(OpenError::damaged(&self.path, "its pages make no sense")),
        }
    }
}
