//! What a request has taken of limits and names, on its way into the journal.
//!
//! **When it acts.** A [`CountMark`] is made when a request is let in, and written down with the first reservation of the
//! request: one record more in the same write, and no other. A request that is answered without a reservation has its mark
//! noted at its end, to be written some milliseconds later. What is put right at the end is noted the same way. A request
//! that is refused before anything was reserved leaves nothing behind.
//!
//! **What a crash does.** It may take back what was only noted: some milliseconds of requests that no model was asked for,
//! and corrections, which leaves more charged than was used. A name whose request had begun and whose end is not written
//! has an unknown outcome.

use super::{Books, JournalRecord};
use crate::lock;
use crate::quotas::Spent;
use arrayvec::ArrayVec;
use seawall_core::quota::Cost;
use seawall_core::time::{Now, UtcTime};
use std::sync::atomic::{AtomicBool, Ordering};

/// The most groups that one request counts in.
pub(crate) const MOST_CHARGED: usize = 4;

/// What a request has taken of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When.
    pub at: UtcTime,
    /// How much.
    pub cost: Cost,
    /// The [tag](seawall_core::quota::group_tag) of each group, and the key in it.
    pub scopes: ArrayVec<(u64, u64), 4>,
}

/// A name that a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameMark {
    /// Its hash.
    pub name: [u8; 32],
    /// A hash of the request.
    pub fingerprint: u64,
    /// Until when it is remembered.
    pub until: UtcTime,
}

/// What a request has taken, to be written with its first reservation.
#[derive(Debug)]
pub struct CountMark {
    charge: Charge,
    name: Option<NameMark>,
    /// For how long the name is kept when the request has been answered.
    keep: std::time::Duration,
    is_noted: AtomicBool,
}

impl CountMark {
    pub(crate) const fn new(charge: Charge, name: Option<NameMark>, keep: std::time::Duration) -> Self {
        Self { charge, name, keep, is_noted: AtomicBool::new(false) }
    }

    /// What was taken of limits.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.charge.cost
    }

    /// What is to be written down, unless it has been.
    pub(super) fn unnoted(&self) -> Option<JournalRecord> {
        (!self.is_noted.load(Ordering::Acquire))
            .then(|| JournalRecord::Counted { charge: self.charge.clone(), name: self.name })
    }

    pub(super) fn set_noted(&self) {
        self.is_noted.store(true, Ordering::Release);
    }
}

impl Books {
    /// Whether what requests take of limits and names is to be written down here.
    #[must_use]
    pub fn keeps_counts(&self) -> bool {
        lock(&self.0).journal.keeps_counts()
    }

    /// A request has ended, and has truly taken this.
    pub fn settle_mark(&self, mark: &CountMark, spent: Spent, now: Now) {
        let mut records: ArrayVec<JournalRecord, 3> = ArrayVec::new();
        let unnoted = mark.unnoted();
        let is_free = spent.cost == Cost::NOTHING && !spent.done;
        if unnoted.is_some() && is_free {
            // Nobody has been told that anything was taken.
            return;
        }
        records.extend(unnoted);
        if spent.cost != mark.charge.cost {
            let (charge, at, actual) = (mark.charge.clone(), now.utc, spent.cost);
            records.push(JournalRecord::Corrected { charge, at, actual });
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
        // What cannot be noted stays as it was charged.
        let noted = desk.journal.note(&records);
        desk.count(&noted);
    }
}
