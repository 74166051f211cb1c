//! The open database, which is reopened after a disk error.
//!
//! After one disk error the database refuses every operation, including reads, because its memory may differ from the
//! disk. Reopened, it has the state of the last durable transaction, as after a crash. So a disk that was full for a
//! while costs the operations that failed meanwhile, and no restart.

use super::codec::STORE;
use super::data_dir::{DATABASE_FILE, ValidatedDatabase};
use super::open_error::OpenError;
use super::rows::catch_panic;
use crate::StoreError;
use redb::Database;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// The database, while it is open.
#[derive(Debug)]
pub(super) struct ReopenableDatabase {
    path: PathBuf,
    cache: usize,
    /// None if it could not be reopened. Reads and writes share the lock; reopening needs it exclusively.
    database: RwLock<Option<Database>>,
}

impl ReopenableDatabase {
    pub(super) fn new(database: Database, data_dir: &Path, cache: usize) -> Self {
        Self { path: data_dir.join(DATABASE_FILE), cache, database: RwLock::new(Some(database)) }
    }

    /// Runs the work with the database, and converts a panic into an error.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match &*database {
            Some(database) => catch_panic(|| work(database)),
            None => Err(StoreError::unavailable(STORE, "the database could not be reopened")),
        }
    }

    /// Reopens the database, once no operation uses it.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // The file can be open only once, so the old database is closed first.
        let closed = database.take();
        catch_panic(|| {
            drop(closed);
            Ok(())
        })?;
        let opened = catch_panic(|| {
            let validated = ValidatedDatabase::open(self.path.clone(), self.cache)
                .map_err(|error| store_error(&error))?;
            validated.file.apply_staged().map_err(|error| StoreError::unavailable(STORE, error))?;
            Ok(validated.database)
        });
        *database = Some(opened?);
        Ok(())
    }
}

/// A disk error may pass; damage does not.
fn store_error(error: &OpenError) -> StoreError {
    match error {
        OpenError::Unusable { .. } => StoreError::unavailable(STORE, error),
        _ => StoreError::failed(STORE, error),
    }
}
