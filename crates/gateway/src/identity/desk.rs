//! Keys of a folder that no gateway is using.
//!
//! For a command that makes or revokes keys: it takes the folder for as long as it needs it. A folder that is in use is
//! refused at once; whoever uses it has the keys then.
//!
//! It will not make a folder to look into it.

use super::issue::{self, IssueError, IssuedKey, KeyAsk, KeyEntry};
use super::master::MasterSecret;
use crate::runtime::TokioRuntime;
use seawall_config::{Settings, StoreKind};
use seawall_core::handle::Runtime as _;
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use std::path::PathBuf;

/// Why a folder's keys cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// State is kept in memory.
    #[error("store.kind is \"memory\": keys end with the process that has them")]
    NotKept,
    /// There is no folder.
    #[error("{0}: there is no state here, and so no keys")]
    NoFolder(PathBuf),
    /// A gateway is using it.
    #[error("{0}: a gateway is using this folder")]
    InUse(PathBuf),
    /// It cannot be opened.
    #[error(transparent)]
    Open(OpenError),
}

/// See the module.
pub struct KeyDesk {
    runtime: TokioRuntime,
    store: EmbeddedStore,
    settings: Settings,
}

impl KeyDesk {
    /// Takes the folder of these settings. With `makes`, one that is not there is made.
    pub fn open(settings: &Settings, makes: bool) -> Result<Self, DeskError> {
        if settings.store.kind == StoreKind::Memory {
            return Err(DeskError::NotKept);
        }
        let path = PathBuf::from(&settings.store.folder);
        if !makes && !path.exists() {
            return Err(DeskError::NoFolder(path));
        }
        let runtime = TokioRuntime::new();
        let options = EmbeddedOptions::new(settings.budget.limits.clone());
        // The books are left as they were found: nobody spends anything here.
        let opened = EmbeddedStore::open(&path, options, runtime.now()).map_err(|error| match error {
            OpenError::InUse { .. } => DeskError::InUse(path.clone()),
            error => DeskError::Open(error),
        })?;
        Ok(Self { runtime, store: opened.store, settings: settings.clone() })
    }

    /// Makes a key.
    pub async fn create(&self, ask: &KeyAsk) -> Result<IssuedKey, IssueError> {
        let master = MasterSecret::of(&self.settings, None);
        let master = master.map_err(|error| IssueError::Cannot(error.to_string()))?;
        issue::create(&self.store, &master, ask, self.runtime.now().utc).await
    }

    /// All keys.
    pub async fn list(&self) -> Result<Vec<KeyEntry>, IssueError> {
        issue::list(&self.store).await
    }

    /// Revokes the key of this name or id.
    pub async fn revoke(&self, name_or_id: &str) -> Result<KeyEntry, IssueError> {
        issue::revoke(&self.store, name_or_id, self.runtime.now().utc).await.map(|(entry, _)| entry)
    }
}
