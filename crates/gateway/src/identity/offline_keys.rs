//! Offline key management, on a data directory that no gateway is using.
//!
//! For commands that create or revoke keys: they lock the directory for as long as they need it. A directory in use is
//! refused at once; the gateway that uses it manages its keys then.
//!
//! It does not create a directory just to list keys.

use super::key_management::{
    self, IssueError, IssuedKey, KeyChange, KeyEntry, KeyRequest, KeyRotation, StoredKey,
};
use super::master::MasterSecret;
use super::pseudonym::Pseudonyms;
use crate::runtime::TokioRuntime;
use seawall_config::{Settings, StoreKind};
use seawall_core::runtime::Runtime as _;
use seawall_core::time::UtcTime;
use seawall_store::embedded::{EmbeddedOptions, EmbeddedStore, OpenError, OpenReport, OpenedStore};
use std::path::PathBuf;

/// Why the keys of a data directory cannot be managed.
#[derive(Debug, thiserror::Error)]
pub enum OfflineKeyError {
    /// State is stored in memory only.
    #[error("store.kind is \"memory\": keys exist only in the running gateway")]
    StoredInMemory,
    /// The directory does not exist.
    #[error("{0}: the data directory does not exist, so there are no keys")]
    NoDirectory(PathBuf),
    /// A gateway is using the directory.
    #[error("{0}: the data directory is in use by a running gateway")]
    InUse(PathBuf),
    /// The directory cannot be opened.
    #[error(transparent)]
    Open(OpenError),
}

/// An open data directory for key management.
pub struct OfflineKeyStore {
    runtime: TokioRuntime,
    store: EmbeddedStore,
    report: OpenReport,
    settings: Settings,
}

impl OfflineKeyStore {
    /// Locks the data directory of these settings. With `create_missing`, a missing directory is created.
    pub fn open(settings: &Settings, create_missing: bool) -> Result<Self, OfflineKeyError> {
        if settings.store.kind == StoreKind::Memory {
            return Err(OfflineKeyError::StoredInMemory);
        }
        let path = PathBuf::from(&settings.store.data_dir);
        if !create_missing && !path.exists() {
            return Err(OfflineKeyError::NoDirectory(path));
        }
        let runtime = TokioRuntime::new();
        let options = EmbeddedOptions::new(settings.budget.limits.clone());
        // Nothing is spent here, but opening recovers the ledger: calls that were in flight when a gateway was killed are
        // charged now, and the next start of the gateway does not report them again.
        let opened = EmbeddedStore::open(&path, options, runtime.now()).map_err(|error| match error {
            OpenError::InUse { .. } => OfflineKeyError::InUse(path.clone()),
            error => OfflineKeyError::Open(error),
        })?;
        let OpenedStore { store, report, .. } = opened;
        Ok(Self { runtime, store, report, settings: settings.clone() })
    }

    /// What recovery found when the directory was opened.
    #[must_use]
    pub const fn report(&self) -> &OpenReport {
        &self.report
    }

    fn master(&self) -> Result<MasterSecret, IssueError> {
        MasterSecret::load(&self.settings, None).map_err(|error| IssueError::Failed(error.to_string()))
    }

    fn pseudonyms(&self) -> Result<Pseudonyms, IssueError> {
        Pseudonyms::from_settings(&self.settings, &self.master()?)
            .map_err(|error| IssueError::Failed(format!("telemetry.salt: {error}")))
    }

    /// Creates a key.
    pub async fn create(&self, request: &KeyRequest) -> Result<IssuedKey, IssueError> {
        key_management::create(&self.store, &self.master()?, request, self.runtime.now().utc).await
    }

    /// Lists all keys.
    pub async fn list(&self) -> Result<Vec<KeyEntry>, IssueError> {
        let (pseudonyms, now) = (self.pseudonyms()?, self.runtime.now().utc);
        let mut entries = Vec::new();
        for key in key_management::list(&self.store).await? {
            entries
                .push(key_management::used_key_entry(&key, &pseudonyms, &self.store, |_| None, now).await?);
        }
        Ok(entries)
    }

    /// Changes the tier and the terms of a key.
    pub async fn update(&self, name_or_id: &str, change: &KeyChange) -> Result<KeyEntry, IssueError> {
        let now = self.runtime.now().utc;
        let KeyChange { tier, terms } = change;
        let changed = key_management::update(&self.store, name_or_id, tier.as_deref(), terms, now).await?;
        self.newest(&changed, now)
    }

    /// Replaces a key by a new one.
    pub async fn rotate(&self, name_or_id: &str, rotation: &KeyRotation) -> Result<IssuedKey, IssueError> {
        let overlap = rotation.overlap()?;
        let (master, now) = (self.master()?, self.runtime.now().utc);
        let rotated =
            key_management::rotate(&self.store, &master, name_or_id, rotation.aws, overlap, now).await?;
        Ok(rotated.0)
    }

    /// The last of these keys, as listed.
    fn newest(&self, keys: &[StoredKey], now: UtcTime) -> Result<KeyEntry, IssueError> {
        let missing = || IssueError::Failed("the key is missing".to_owned());
        let key = keys.last().ok_or_else(missing)?;
        Ok(key_management::key_entry(key, &self.pseudonyms()?, now))
    }

    /// Revokes the key with this name or id.
    pub async fn revoke(&self, name_or_id: &str) -> Result<KeyEntry, IssueError> {
        let now = self.runtime.now().utc;
        let revoked = key_management::revoke(&self.store, name_or_id, now).await?;
        self.newest(&revoked, now)
    }
}
