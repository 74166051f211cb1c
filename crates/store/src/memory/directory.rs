//! The caller directory in memory.

use crate::directory::{AddDecision, CallerRecord, CredentialHash, Directory};
use crate::{StoreError, lock};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Ceiling, Tier};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Mutex;

/// A directory in the memory of one process. It is unbounded, because only operators add to it.
#[derive(Debug, Default)]
pub struct MemoryDirectory(Mutex<BTreeMap<CredentialHash, CallerRecord>>);

impl MemoryDirectory {
    /// An empty directory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn change(&self, credential: &CredentialHash, change: impl FnOnce(&mut CallerRecord)) -> bool {
        lock(&self.0).get_mut(credential).map(change).is_some()
    }
}

impl Directory for MemoryDirectory {
    async fn find(&self, credential: &CredentialHash) -> Result<Option<CallerRecord>, StoreError> {
        Ok(lock(&self.0).get(credential).cloned())
    }

    async fn add(
        &self,
        credential: &CredentialHash,
        record: &CallerRecord,
    ) -> Result<AddDecision, StoreError> {
        Ok(match lock(&self.0).entry(*credential) {
            Entry::Occupied(_) => AddDecision::AlreadyExists,
            Entry::Vacant(entry) => {
                entry.insert(record.clone());
                AddDecision::Added
            }
        })
    }

    async fn revoke(&self, credential: &CredentialHash, at: UtcTime) -> Result<bool, StoreError> {
        Ok(self.change(credential, |record| record.revoked = record.revoked.or(Some(at))))
    }

    async fn entitle(
        &self,
        credential: &CredentialHash,
        tier: Tier,
        ceiling: Option<Ceiling>,
    ) -> Result<bool, StoreError> {
        Ok(self.change(credential, |record| (record.tier, record.ceiling) = (tier, ceiling)))
    }

    async fn list(
        &self,
        after: Option<CredentialHash>,
        max: usize,
    ) -> Result<Vec<(CredentialHash, CallerRecord)>, StoreError> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = lock(&self.0);
        let page = all.range((from, Bound::Unbounded)).take(max);
        Ok(page.map(|(credential, record)| (*credential, record.clone())).collect())
    }
}
