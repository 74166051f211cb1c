//! The caller directory in memory.

use crate::directory::{AddDecision, CallerRecord, CredentialHash, Directory};
use crate::{StoreFuture, lock};
use seawall_core::time::UtcTime;
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
    fn find<'a>(&'a self, credential: &'a CredentialHash) -> StoreFuture<'a, Option<CallerRecord>> {
        StoreFuture::run(|| Ok(lock(&self.0).get(credential).cloned()))
    }

    fn add<'a>(
        &'a self,
        credential: &'a CredentialHash,
        record: &'a CallerRecord,
    ) -> StoreFuture<'a, AddDecision> {
        StoreFuture::run(|| {
            Ok(match lock(&self.0).entry(*credential) {
                Entry::Occupied(_) => AddDecision::AlreadyExists,
                Entry::Vacant(entry) => {
                    entry.insert(record.clone());
                    AddDecision::Added
                }
            })
        })
    }

    fn revoke<'a>(&'a self, credential: &'a CredentialHash, at: UtcTime) -> StoreFuture<'a, bool> {
        StoreFuture::run(
            || Ok(self.change(credential, |record| record.revoked = record.revoked.or(Some(at)))),
        )
    }

    fn update<'a>(
        &'a self,
        credential: &'a CredentialHash,
        record: &'a CallerRecord,
    ) -> StoreFuture<'a, bool> {
        StoreFuture::run(|| Ok(self.change(credential, |stored| stored.apply(record))))
    }

    fn named<'a>(&'a self, name: &'a str) -> StoreFuture<'a, Vec<(CredentialHash, CallerRecord)>> {
        StoreFuture::run(|| {
            let all = lock(&self.0);
            let named = all.iter().filter(|(_, record)| *record.name == *name);
            Ok(named.map(|(credential, record)| (*credential, record.clone())).collect())
        })
    }

    fn list(
        &self,
        after: Option<CredentialHash>,
        max: usize,
    ) -> StoreFuture<'_, Vec<(CredentialHash, CallerRecord)>> {
        StoreFuture::run(|| {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let all = lock(&self.0);
            let page = all.range((from, Bound::Unbounded)).take(max);
            Ok(page.map(|(credential, record)| (*credential, record.clone())).collect())
        })
    }
}
