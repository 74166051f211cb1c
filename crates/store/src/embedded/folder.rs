//! The folder: who has it, and whether its books are ours and whole.
//!
//! Nothing in it is changed before everything in it has been found to be good. Books are made under another name first and
//! get theirs when they are whole, so that books that are empty or cut short are always damage, never a beginning.

use super::backend::GuardedFile;
use super::codec::{Input, Output};
use super::refusal::OpenError;
use super::rows::{Batch, Kind, Rows, View};
use super::sums::rank_spenders;
use super::writer::begin;
use redb::{Builder, Database, DatabaseError, StorageError};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The books.
pub(super) const BOOKS: &str = "books.redb";
/// Books in the making.
const NEW_BOOKS: &str = "books.redb.new";
/// Held by the process that works here.
const LOCK: &str = "lock";
/// The format that this program writes, and the newest that it reads. Since 2 there are blocks of calls and ranks of callers.
pub(super) const FORMAT: u32 = 2;
/// What every file of the database begins with.
const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";
const HEADER_KEY: &[u8] = b"format";
const HEADER_WORD: &str = "seawall";
/// Books up to this size are read in full when they are opened. Larger ones are looked at as they are used.
const CHECKED_UP_TO: u64 = 32 << 20;

/// The folder, while this process has it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Locked until it is dropped.
    _lock: File,
}

/// Books that have been found to be good, and are not changed before they are released.
#[derive(Debug)]
pub(super) struct FoundBooks {
    pub(super) database: Database,
    pub(super) file: GuardedFile,
    pub(super) path: PathBuf,
    pub(super) created: bool,
}

impl Folder {
    /// Takes the folder, and makes it where there is none.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        fs::create_dir_all(path).map_err(|error| OpenError::unusable(path, &error))?;
        let lock_path = path.join(LOCK);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&lock_path);
        let lock = opened.map_err(|error| OpenError::unusable(&lock_path, &error))?;
        take_lock(&lock, &lock_path)?;
        Ok(Self { path: path.into(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes names in the folder durable.
    pub(super) fn sync(&self) -> Result<(), OpenError> {
        let synced = File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| OpenError::unusable(&self.path, &error))
    }

    /// Finds the books, or makes them if there is nothing here yet.
    pub(super) fn books(&self, cache: usize, has_journal: bool) -> Result<FoundBooks, OpenError> {
        let path = self.path.join(BOOKS);
        let is_there = path.try_exists().map_err(|error| OpenError::unusable(&path, &error))?;
        if !is_there {
            if has_journal {
                return Err(OpenError::damaged(&path, "the journal is here and its books are gone"));
            }
            self.make_books(&path)?;
        }
        check_beginning(&path)?;
        let (database, file) = open(&path, cache)?;
        let mut found = FoundBooks { database, file, path, created: !is_there };
        found.check_header()?;
        found.check_whole()?;
        Ok(found)
    }

    fn make_books(&self, path: &Path) -> Result<(), OpenError> {
        let new = self.path.join(NEW_BOOKS);
        let unusable = |error: &std::io::Error| OpenError::unusable(&new, error);
        // Whoever was stopped here before has told nobody that anything was kept.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unusable(&error)),
            _ => {}
        }
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(&new);
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

/// Brings the books into the present format, if they are not, and says that they are.
pub(super) fn put_header(batch: &mut Batch<'_>) -> Result<(), crate::StoreError> {
    let header = Output::default().text(HEADER_WORD).short(FORMAT).row();
    if batch.get(Kind::Header, HEADER_KEY)?.is_some_and(|before| before == header) {
        return Ok(());
    }
    rank_spenders(batch)?;
    batch.put(Kind::Header, HEADER_KEY, &header)
}

/// Takes a file for this process, until it is closed.
fn take_lock(file: &File, path: &Path) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.into() }),
        Err(TryLockError::Error(error)) => Err(OpenError::unusable(path, &error)),
    }
}

/// Whether it is a file of the database's at all.
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
    // Somebody may have deleted the lock of a process that still runs.
    take_lock(&file, path)?;
    let file = GuardedFile::new(file).map_err(|error| OpenError::unusable(path, &error))?;
    let guarded = file.clone();
    let database = catch_unwind(AssertUnwindSafe(|| {
        let mut builder = Builder::new();
        builder.set_cache_size(cache);
        // Every transaction of ours leaves a file that needs no repair. One that does was not written so.
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
            // The database reads where its header says that something is, or says that it has read nonsense.
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
        // Whether it had to tidy up is its business; what it checks first is that every page is as it was written.
        match catch_unwind(AssertUnwindSafe(|| self.database.check_integrity())) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(refusal(&self.path, error)),
            Err(_) => Err(OpenError::damaged(&self.path, "its pages make no sense")),
        }
    }
}
