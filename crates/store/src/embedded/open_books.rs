//! The open database, which is reopened after a disk error.
//!
//! After one disk error the database refuses every operation, including reads, because its memory may differ from the
//! disk. Reopened, it has the state of the last durable transaction, as after a crash. So a disk that was full for a
//! while costs the operations that failed meanwhile, and no restart.

use super::codec::STORE;
use super::folder::{BOOKS, FoundBooks};
use super::refusal::OpenError;
use super::rows::guarded;
use crate::StoreError;
use redb::Database;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// The database, while it is open.
#[derive(Debug)]
pub(super) struct OpenBooks {
    path: PathBuf,
    cache: usize,
    /// None if it could not be reopened. Reads and writes share the lock; reopening needs it exclusively.
    database: RwLock<Option<Database>>,
}

impl OpenBooks {
    pub(super) fn new(database: Database, folder: &Path, cache: usize) -> Self {
        Self { path: folder.join(BOOKS), cache, database: RwLock::new(Some(database)) }
    }

    /// Runs the work with the database, and converts a panic into an error.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match &*database {
            Some(database) => guarded(|| work(database)),
            None => Err(StoreError::away(STORE, "the books could not be opened again")),
        }
    }

    /// Reopens the database, once no operation uses it.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // The file can be open only once, so the old database is closed first.
        let closed = database.take();
        guarded(|| {
            drop(closed);
            Ok(())
        })?;
        let opened = guarded(|| {
            let books = FoundBooks::at(self.path.clone(), self.cache).map_err(|error| refused(&error))?;
            books.file.release().map_err(|error| StoreError::away(STORE, error))?;
            Ok(books.database)
        });
        *database = Some(opened?);
        Ok(())
    }
}

/// A disk error may pass; damage does not.
fn refused(error: &OpenError) -> StoreError {
    match error {
        OpenError::Unusable { .. } => StoreError::away(STORE, error),
        _ => StoreError::broken(STORE, error),
    }
}
