//! Journals what a request has taken from limits, and its idempotency key.
//!
//! **When it acts.** A [`CountMark`] is created when a request is admitted, and written together with the request's
//! first reservation: one more record in the same write, and no extra write. The mark of a request that is answered
//! without a reservation is noted when the request ends, and written some milliseconds later. Corrections at the end
//! are noted the same way. A request that is refused before anything was reserved leaves no record.
//!
//! **What a crash does.** It may lose what was only noted: some milliseconds of requests that called no model, and
//! corrections, so that more stays charged than was used. An idempotency key whose request had begun and whose end was
//! not written has an unknown outcome.

use super::{Books, JournalRecord};
use crate::lock;
use crate::quotas::Spent;
use arrayvec::ArrayVec;
use seawall_core::quota::Cost;
use seawall_core::time::{Now, UtcTime};
use std::sync::atomic::{AtomicBool, Ordering};

/// The most quota groups that one request counts in.
pub(crate) const MOST_CHARGED: usize = 4;

/// What a request has taken from rate limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitCharge {
    /// When the limits were charged.
    pub at: UtcTime,
    /// The units that were charged.
    pub cost: Cost,
    /// The [tag](seawall_core::quota::group_tag) of each group, and the key in it.
    pub scopes: ArrayVec<(u64, u64), 4>,
}

/// The idempotency key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMark {
    /// The hash of the key.
    pub name: [u8; 32],
    /// A hash of the request.
    pub fingerprint: u64,
    /// When the key expires.
    pub until: UtcTime,
}

/// What a request has taken, to be journaled with its first reservation.
#[derive(Debug)]
pub struct CountMark {
    charge: LimitCharge,
    name: Option<NameMark>,
    /// How long the key is kept once the request has been answered.
    keep: std::time::Duration,
    is_noted: AtomicBool,
}

impl CountMark {
    pub(crate) const fn new(charge: LimitCharge, name: Option<NameMark>, keep: std::time::Duration) -> Self {
        Self { charge, name, keep, is_noted: AtomicBool::new(false) }
    }

    /// The units that were taken from limits.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.charge.cost
    }

    /// The record to write, unless it has been written.
    pub(super) fn unnoted(&self) -> Option<JournalRecord> {
        (!self.is_noted.load(Ordering::Acquire))
            .then(|| JournalRecord::Counted { charge: self.charge.clone(), name: self.name })
    }

    pub(super) fn set_noted(&self) {
        self.is_noted.store(true, Ordering::Release);
    }
}

impl Books {
    /// Whether this journal stores what requests take from limits, and their idempotency keys.
    #[must_use]
    pub fn keeps_counts(&self) -> bool {
        lock(&self.0).journal.keeps_counts()
    }

    /// Records the end of a request and its actual usage.
    pub fn settle_mark(&self, mark: &CountMark, spent: Spent, now: Now) {
        let mut records: ArrayVec<JournalRecord, 3> = ArrayVec::new();
        let unnoted = mark.unnoted();
        let is_free = spent.cost == Cost::NOTHING && !spent.done;
        if unnoted.is_some() && is_free {
            // Nothing was journaled and the request took nothing, so that there is nothing to correct.
            return;
        }
        records.extend(unnoted);
        if spent.cost != mark.charge.cost {
            let (charge, at, actual) = (mark.charge.clone(), now.utc, spent.cost);
            records.push(JournalRecord::Recounted { charge, at, actual });
        }
        match mark.name {
            Some(name) if spent.done => {
                records.push(JournalRecord::Done(NameMark { until: now.utc + mark.keep, ..name }));
            }
            Some(NameMark { name, .. }) => records.push(JournalRecord::Released(name)),
            None => {}
        }
        if records.is_empty() {
            return;
        }
        mark.set_noted();
        let mut desk = lock(&self.0);
        // A correction that cannot be noted leaves the charge as it was.
        let noted = desk.journal.note(&records);
        desk.count(&noted);
    }
}
