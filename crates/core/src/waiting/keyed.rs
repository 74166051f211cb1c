//! Waiting buckets by key.

use super::{WaitingBucket, WaitingSettings};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// One waiting bucket per key, such as an (account, region) pair. Vendors count quotas per pair, so one account must
/// not spend another's quota and one region must not slow down another.
///
/// A bucket is created full on first use of its key. A later request with other settings is an error rather than a
/// silent choice between the two; the bucket keeps its settings.
///
/// ```
/// use seawall_core::time::Timestamp;
/// use seawall_core::waiting::{WaitingBuckets, WaitingSettings};
/// use std::time::Duration;
///
/// let mut buckets = WaitingBuckets::new();
/// let settings = WaitingSettings::recovery_api();
/// buckets.get_or_create(("main", "tokyo"), settings, Timestamp::ZERO)?;
///
/// let other = WaitingSettings::new(5, Duration::from_secs(1), 20)?;
/// let conflict = buckets.get_or_create(("main", "tokyo"), other, Timestamp::ZERO).unwrap_err();
/// assert_eq!(
///     conflict.to_string(),
///     "the bucket already exists with 1 unit per 100ms, capacity 20; \
///      requested was 1 unit per 200ms, capacity 20"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WaitingBuckets<K> {
    buckets: BTreeMap<K, WaitingBucket>,
}

/// The bucket already exists with other settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bucket already exists with {in_use}; requested was {requested}")]
pub struct BucketConflict {
    /// The settings of the existing bucket, unchanged.
    pub in_use: WaitingSettings,
    /// The settings that were requested.
    pub requested: WaitingSettings,
}

impl<K: Ord> WaitingBuckets<K> {
    /// Creates an empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self { buckets: BTreeMap::new() }
    }

    /// The bucket of `key`; created full if there was none.
    pub fn get_or_create(
        &mut self,
        key: K,
        settings: WaitingSettings,
        now: Timestamp,
    ) -> Result<&mut WaitingBucket, BucketConflict> {
        match self.buckets.entry(key) {
            Entry::Vacant(entry) => Ok(entry.insert(WaitingBucket::new(settings, now))),
            Entry::Occupied(entry) if entry.get().settings() == settings => Ok(entry.into_mut()),
            Entry::Occupied(entry) => {
                Err(BucketConflict { in_use: entry.get().settings(), requested: settings })
            }
        }
    }

    /// The bucket of `key`, if it was created before.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut WaitingBucket> {
        self.buckets.get_mut(key)
    }
}

impl<K: Ord> Default for WaitingBuckets<K> {
    fn default() -> Self {
        Self::new()
    }
}
