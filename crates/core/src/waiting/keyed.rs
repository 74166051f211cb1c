//! Waiting buckets, one for each key.

use super::{WaitingBucket, WaitingSettings};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// One waiting bucket for each key, such as an (account, region) pair: quotas are counted there, so an
/// account must not spend another's and a region must not slow another down.
///
/// A bucket starts full when its key is first asked for. Asking again with other settings is an error and not
/// a silent choice between the two; the bucket goes on with the settings it has.
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
///     "the bucket runs with one unit every 100ms, at most 20, \
///      but was asked for with one unit every 200ms, at most 20"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WaitingBuckets<K> {
    buckets: BTreeMap<K, WaitingBucket>,
}

/// A bucket was asked for with settings other than those it runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bucket runs with {in_use}, but was asked for with {asked}")]
pub struct Conflict {
    /// The settings the bucket runs with, unchanged.
    pub in_use: WaitingSettings,
    /// The settings it was asked for with.
    pub asked: WaitingSettings,
}

impl<K: Ord> WaitingBuckets<K> {
    /// No buckets yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { buckets: BTreeMap::new() }
    }

    /// The bucket of `key`; a full one where there was none.
    pub fn get_or_create(
        &mut self,
        key: K,
        settings: WaitingSettings,
        now: Timestamp,
    ) -> Result<&mut WaitingBucket, Conflict> {
        match self.buckets.entry(key) {
            Entry::Vacant(place) => Ok(place.insert(WaitingBucket::new(settings, now))),
            Entry::Occupied(held) if held.get().settings() == settings => Ok(held.into_mut()),
            Entry::Occupied(held) => Err(Conflict { in_use: held.get().settings(), asked: settings }),
        }
    }

    /// The bucket of `key`, if it was ever asked for.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut WaitingBucket> {
        self.buckets.get_mut(key)
    }
}

impl<K: Ord> Default for WaitingBuckets<K> {
    fn default() -> Self {
        Self::new()
    }
}
