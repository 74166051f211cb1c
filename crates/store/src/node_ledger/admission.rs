//! Journals what a request was charged by limits, and its idempotency key.
//!
//! **When it acts.** An [`AdmissionRecord`] is created when a request is admitted, and written together with the request's
//! first reservation: one more record in the same write, and no extra write. The record of a request that is answered
//! without a reservation is buffered when the request ends, and written some milliseconds later. Corrections at the end
//! are buffered the same way. A request that is refused before anything was reserved leaves no record.
//!
//! **What a crash does.** It may lose what was only buffered: some milliseconds of requests that called no model, and
//! corrections, so that more stays charged than was used. An idempotency key whose request had begun and whose end was
//! not written has an unknown outcome.

use super::{JournalRecord, NodeLedger};
use crate::lock;
use crate::quotas::Settlement;
use arrayvec::ArrayVec;
use seawall_core::quota::QuotaUnits;
use seawall_core::time::{Now, UtcTime};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a request was charged by rate limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitCharge {
    /// When the limits were charged.
    pub at: UtcTime,
    /// The units that were charged.
    pub cost: QuotaUnits,
    /// The [tag](seawall_core::quota::group_tag) of each group, and the key in it.
    pub scopes: SmallVec<[(u64, u64); 4]>,
}

/// The idempotency key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// The hash of the key.
    pub key_hash: [u8; 32],
    /// A hash of the request.
    pub fingerprint: u64,
    /// When the key expires.
    pub expires: UtcTime,
}

/// What a request was charged, to be journaled with its first reservation.
#[derive(Debug)]
pub struct AdmissionRecord {
    charge: LimitCharge,
    key: Option<IdempotencyRecord>,
    /// How long the key is kept once the request has been answered.
    retention: std::time::Duration,
    is_journaled: AtomicBool,
}

impl AdmissionRecord {
    pub(crate) const fn new(
        charge: LimitCharge,
        key: Option<IdempotencyRecord>,
        retention: std::time::Duration,
    ) -> Self {
        Self { charge, key, retention, is_journaled: AtomicBool::new(false) }
    }

    /// The units that were charged.
    #[must_use]
    pub const fn units(&self) -> QuotaUnits {
        self.charge.cost
    }

    /// The record to write, unless it has been written.
    pub(super) fn unjournaled(&self) -> Option<JournalRecord> {
        (!self.is_journaled.load(Ordering::Acquire))
            .then(|| JournalRecord::Admitted { charge: self.charge.clone(), key: self.key })
    }

    pub(super) fn mark_journaled(&self) {
        self.is_journaled.store(true, Ordering::Release);
    }
}

impl NodeLedger {
    /// Whether this journal stores what requests are charged by limits, and their idempotency keys.
    #[must_use]
    pub fn journals_admissions(&self) -> bool {
        lock(&self.0).journal.journals_admissions()
    }

    /// Records the end of a request and its actual usage.
    pub fn settle_admission(&self, admission: &AdmissionRecord, settlement: Settlement, now: Now) {
        let mut records: ArrayVec<JournalRecord, 3> = ArrayVec::new();
        let unjournaled = admission.unjournaled();
        let used_nothing = settlement.units == QuotaUnits::NOTHING && !settlement.answered;
        if unjournaled.is_some() && used_nothing {
            // Nothing was journaled and the request took nothing, so that there is nothing to correct.
            return;
        }
        records.extend(unjournaled);
        if settlement.units != admission.charge.cost {
            let (charge, at, actual) = (admission.charge.clone(), now.utc, settlement.units);
            records.push(JournalRecord::ChargeCorrected { charge, at, actual });
        }
        match admission.key {
            Some(key) if settlement.answered => {
                records.push(JournalRecord::KeyCompleted(IdempotencyRecord {
                    expires: now.utc + admission.retention,
                    ..key
                }));
            }
            Some(IdempotencyRecord { key_hash, .. }) => records.push(JournalRecord::KeyReleased(key_hash)),
            None => {}
        }
        if records.is_empty() {
            return;
        }
        admission.mark_journaled();
        let mut state = lock(&self.0);
        // A correction that cannot be buffered leaves the charge as it was.
        let buffered = state.journal.buffer(&records);
        state.record_failure(&buffered);
    }
}
