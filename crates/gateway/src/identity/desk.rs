//! Offline key management, on a state directory that no gateway is using.
//!
//! For commands that create or revoke keys: they lock the directory for as long as they need it. A directory in use is
//! refused at once; the gateway that uses it manages its keys then.
//!
//! It does not create a directory just to list keys.

use super::issue::{self, IssueError, IssuedKey, KeyAsk, KeyEntry};
use super::master::MasterSecret;
use super::pseudonym::Pseudonyms;
use crate::runtime::TokioRuntime;
use seawall_config::{Settings, StoreKind};
use seawall_core::handle::Runtime as _;
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use std::path::PathBuf;

/// Why the keys of a state directory cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// State is stored in memory only.
    #[error("store.kind is \"memory\": keys end with the process that has them")]
    NotKept,
    /// The directory does not exist.
    #[error("{0}: there is no state here, and so no keys")]
    NoFolder(PathBuf),
    /// A gateway is using the directory.
    #[error("{0}: a gateway is using this folder")]
    InUse(PathBuf),
    /// The directory cannot be opened.
    #[error(transparent)]
    Open(OpenError),
}

/// An open state directory for key management.
pub struct KeyDesk {
    runtime: TokioRuntime,
    store: EmbeddedStore,
    settings: Settings,
}

impl KeyDesk {
    /// Locks the state directory of these settings. With `makes`, a missing directory is created.
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
        // The ledger is left as it was found: nothing is spent here.
        let opened = EmbeddedStore::open(&path, options, runtime.now()).map_err(|error| match error {
            OpenError::InUse { .. } => DeskError::InUse(path.clone()),
            error => DeskError::Open(error),
        })?;
        Ok(Self { runtime, store: opened.store, settings: settings.clone() })
    }

    fn master(&self) -> Result<MasterSecret, IssueError> {
        MasterSecret::of(&self.settings, None).map_err(|error| IssueError::Cannot(error.to_string()))
    }

    fn pseudonyms(&self) -> Result<Pseudonyms, IssueError> {
        let made = Pseudonyms::of(&self.settings, &self.master()?);
        made.map_err(|error| IssueError::Cannot(format!("telemetry.salt: {error}")))
    }

    /// Creates a key.
    pub async fn create(&self, ask: &KeyAsk) -> Result<IssuedKey, IssueError> {
        issue::create(&self.store, &self.master()?, ask, self.runtime.now().utc).await
    }

    /// Lists all keys.
    pub async fn list(&self) -> Result<Vec<KeyEntry>, IssueError> {
        issue::list(&self.store, &self.pseudonyms()?).await
    }

    /// Revokes the key with this name or id.
    pub async fn revoke(&self, name_or_id: &str) -> Result<KeyEntry, IssueError> {
        let names = self.pseudonyms()?;
        issue::revoke(&self.store, &names, name_or_id, self.runtime.now().utc).await.map(|(entry, _)| entry)
    }
}
