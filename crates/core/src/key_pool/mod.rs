//! Several keys of one target: which one a call uses, and which are set aside.
//!
//! **Why several?** Vendors limit each key or project. With a second one, a revoked key or an exhausted allowance costs one
//! attempt and not an outage.
//!
//! **Which key.** The first in the order of the settings that is not set aside. A key is set aside when the vendor
//! rejects it ([`REJECTED_FOR`]), when its quota is used up (the same, or the vendor's longer wait), or when it is throttled
//! (for the vendor's `Retry-After`, or [`THROTTLED_FOR`] without one). When the time of a rejected or exhausted key has
//! passed, one call probes it while all others use another key; the answer decides.
//!
//! **When all are set aside**, the one that is available soonest is used, and outcomes count for the target as if it had a
//! single key: its pacing, breaker and health decide.
//!
//! **What it does not do.** It knows positions, never a key, and it does not decide whether another attempt is made
//! ([`Retries::rotate`](crate::retry::Retries::rotate) does).
//!
//! ```
//! use seawall_core::failure::{Failure, FailureKind};
//! use seawall_core::key_pool::{KeyEvidence, KeyPool};
//! use seawall_core::time::{Now, Timestamp};
//!
//! let mut keys = KeyPool::new(2, Now::default());
//! assert_eq!(keys.choose(Timestamp::ZERO), 0);
//! let rejected = KeyEvidence::Failed(Failure::of(FailureKind::Unauthorized));
//! let report = keys.record(0, rejected, Timestamp::ZERO, Now::default(), || "401".into());
//! assert!(report.spares_target);
//! assert_eq!(keys.choose(Timestamp::ZERO), 1);
//! ```

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use crate::failure::{AttemptOutcome, Failure, FailureKind};
use crate::health::LastError;
use crate::time::{Now, Timestamp};
use crate::vocabulary::named_enum;
use std::time::Duration;

/// How long a rejected or exhausted key is set aside before it is probed.
pub const REJECTED_FOR: Duration = Duration::from_secs(5 * 60);
/// How long a throttled key is set aside if the vendor names no wait.
pub const THROTTLED_FOR: Duration = Duration::from_secs(30);
/// The longest time for which a key is set aside: a vendor may name any.
pub const MAX_SET_ASIDE: Duration = Duration::from_secs(60 * 60);
/// How long a probe may take before another call probes.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

named_enum! {
    /// The condition of a key.
    pub enum KeyCondition as "key_condition" {
        /// It can be used.
        Usable = "usable",
        /// The vendor rejects it.
        Rejected = "rejected",
        /// Its quota is used up.
        QuotaExhausted = "quota_exhausted",
        /// The vendor throttles it.
        Throttled = "throttled",
    }
}

/// What an attempt shows about the key that it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEvidence {
    /// The vendor accepted it.
    Accepted,
    /// The attempt failed like this.
    Failed(Failure),
}

impl KeyEvidence {
    /// What an outcome shows; `None` if nothing.
    #[must_use]
    pub const fn of(outcome: &AttemptOutcome) -> Option<Self> {
        match outcome {
            AttemptOutcome::Succeeded { .. } | AttemptOutcome::SucceededUnstreamed { .. } => {
                Some(Self::Accepted)
            }
            AttemptOutcome::Failed(failure) => Some(Self::Failed(*failure)),
            AttemptOutcome::Throttled | AttemptOutcome::Abandoned => None,
        }
    }
}

/// The condition in which a failure puts the key that was used; `None` if another key would fare no better.
#[must_use]
pub const fn condition_after(kind: FailureKind) -> Option<KeyCondition> {
    match kind {
        FailureKind::Unauthorized => Some(KeyCondition::Rejected),
        FailureKind::QuotaExhausted => Some(KeyCondition::QuotaExhausted),
        FailureKind::Throttled => Some(KeyCondition::Throttled),
        _ => None,
    }
}

/// A change of the condition of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTransition {
    /// The key's position.
    pub key: usize,
    /// The condition before.
    pub from: KeyCondition,
    /// The condition now.
    pub to: KeyCondition,
}

/// What an outcome means for the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyReport {
    /// Whether only the key is at fault and another one can be used, so that the outcome says nothing about the target.
    pub spares_target: bool,
    /// How long until a throttled key can be used again, if all keys are set aside.
    pub available_in: Option<Duration>,
    /// The change of the key.
    pub transition: Option<KeyTransition>,
}

/// One key, as the admin API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyView {
    /// Its condition.
    pub condition: KeyCondition,
    /// Since when.
    pub since: Now,
    /// How long it is still set aside.
    pub set_aside_for: Option<Duration>,
    /// How many attempts have shown the present problem.
    pub occurrences: u64,
    /// The last error.
    pub last_error: Option<LastError>,
}

#[derive(Clone, Debug)]
struct PooledKey {
    condition: KeyCondition,
    since: Now,
    /// The end of the time for which it is set aside.
    until: Timestamp,
    /// The call that probes it ends by then.
    probed_until: Timestamp,
    occurrences: u64,
    last_error: Option<LastError>,
}

impl PooledKey {
    const fn new(now: Now) -> Self {
        Self {
            condition: KeyCondition::Usable,
            since: now,
            until: now.monotonic,
            probed_until: now.monotonic,
            occurrences: 0,
            last_error: None,
        }
    }

    /// Whether any number of calls may use it.
    fn is_usable(&self, now: Timestamp) -> bool {
        match self.condition {
            KeyCondition::Usable => true,
            KeyCondition::Throttled => now >= self.until,
            KeyCondition::Rejected | KeyCondition::QuotaExhausted => false,
        }
    }

    fn is_probe_due(&self, now: Timestamp) -> bool {
        matches!(self.condition, KeyCondition::Rejected | KeyCondition::QuotaExhausted)
            && now >= self.until
            && now >= self.probed_until
    }
}

/// The keys of one target.
#[derive(Clone, Debug)]
pub struct KeyPool(Box<[PooledKey]>);

impl KeyPool {
    /// A pool of this many keys; at least one.
    #[must_use]
    pub fn new(keys: usize, now: Now) -> Self {
        Self((0..keys.max(1)).map(|_| PooledKey::new(now)).collect())
    }

    /// The position of the key that a call uses now.
    pub fn choose(&mut self, now: Timestamp) -> usize {
        if let Some(due) = self.0.iter().position(|key| key.is_probe_due(now)) {
            self.0[due].probed_until = now + PROBE_TIMEOUT;
            return due;
        }
        let usable = self.0.iter().position(|key| key.is_usable(now));
        let soonest = || self.0.iter().enumerate().min_by_key(|(_, key)| key.until).map(|(index, _)| index);
        usable.or_else(soonest).unwrap_or_default()
    }

    /// Whether any number of calls could use a key now.
    #[must_use]
    pub fn has_usable(&self, now: Timestamp) -> bool {
        self.0.iter().any(|key| key.is_usable(now))
    }

    /// Records what an attempt shows that was sent at `sent` with this key. The text of an error is only made if the key is
    /// at fault.
    pub fn record(
        &mut self,
        index: usize,
        evidence: KeyEvidence,
        sent: Timestamp,
        now: Now,
        error: impl FnOnce() -> Box<str>,
    ) -> KeyReport {
        let Some(key) = self.0.get_mut(index) else { return KeyReport::default() };
        let from = key.condition;
        let failure = match evidence {
            KeyEvidence::Failed(failure) => failure,
            KeyEvidence::Accepted => {
                // A call from before the problem began says nothing about it.
                if from == KeyCondition::Usable || sent < key.since.monotonic {
                    return KeyReport::default();
                }
                let last_error = key.last_error.take();
                *key = PooledKey { last_error, ..PooledKey::new(now) };
                let to = KeyCondition::Usable;
                return KeyReport {
                    transition: Some(KeyTransition { key: index, from, to }),
                    ..KeyReport::default()
                };
            }
        };
        let Some(to) = condition_after(failure.kind) else { return KeyReport::default() };
        key.last_error = Some(LastError { at: now, text: error() });
        let named = failure.retry_after.filter(|wait| !wait.is_zero());
        let wait = match to {
            KeyCondition::Throttled => named.unwrap_or(THROTTLED_FOR),
            _ => named.unwrap_or_default().max(REJECTED_FOR),
        };
        let until = now.monotonic + wait.min(MAX_SET_ASIDE);
        let is_same = from == to;
        (key.condition, key.probed_until) = (to, now.monotonic);
        if is_same {
            key.occurrences = key.occurrences.saturating_add(1);
            key.until = key.until.max(until);
        } else {
            (key.since, key.until, key.occurrences) = (now, until, 1);
        }
        let spares_target = self.has_usable(now.monotonic);
        let throttled = self.0.iter().filter(|key| key.condition == KeyCondition::Throttled);
        let soonest = throttled.map(|key| key.until - now.monotonic).min();
        KeyReport {
            spares_target,
            available_in: soonest.filter(|_| !spares_target),
            transition: (!is_same).then_some(KeyTransition { key: index, from, to }),
        }
    }

    /// All keys, in the order of the settings.
    #[must_use]
    pub fn views(&self, now: Timestamp) -> Vec<KeyView> {
        let view = |key: &PooledKey| {
            let is_over = key.condition == KeyCondition::Throttled && now >= key.until;
            let remaining = key.until - now;
            KeyView {
                condition: if is_over { KeyCondition::Usable } else { key.condition },
                since: if is_over { key.since + (key.until - key.since.monotonic) } else { key.since },
                set_aside_for: (key.condition != KeyCondition::Usable && !remaining.is_zero())
                    .then_some(remaining),
                occurrences: if is_over { 0 } else { key.occurrences },
                last_error: key.last_error.clone(),
            }
        };
        self.0.iter().map(view).collect()
    }
}
