//! The limits of a group in force, and how they derive from earlier ones.
//!
//! Limits can change while requests are in flight. Usage and the marks of reservations are then carried over, limit by
//! limit. A limit whose numbers changed keeps its counts; usage that cannot be counted the new way counts as used at
//! the time of the change. All conversions err against the caller: units whose origin is no longer known are not
//! refunded.

use super::rule::{Carry, Quota, QuotaGroup};
use crate::time::Now;
use arrayvec::ArrayVec;
use std::sync::Arc;

/// How many changes a reservation may survive and still be refunded. Calls last minutes; operators change limits less
/// often.
const REMEMBERED: usize = 16;
/// The number of words in a record before the first limit.
pub(super) const KEY_WORDS: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) quota: Quota,
    /// The number of its name, fixed for the book's lifetime.
    pub(super) number: usize,
}

/// The limits of one group in force.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) limits: Box<[Limit]>,
    /// The number of words in one caller's record.
    pub(super) words: usize,
    /// Increases with every change of a group.
    pub(super) version: u32,
    /// The latest changes, oldest first.
    past: Vec<Step>,
}

/// Where a reservation's units were charged, limit by limit; `None` if no longer known.
pub(super) type Marks = ArrayVec<Option<u64>, { QuotaGroup::MOST_QUOTAS }>;

/// What one change did to the limits before it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    from: u32,
    at: Now,
    origins: Arc<[Origin]>,
}

/// The position of a limit's predecessor, and how its counts continue.
pub(super) type Origin = Option<(usize, Carry)>;

impl Rules {
    /// The limits of a new group.
    pub(super) fn new(limits: Box<[Limit]>, version: u32) -> Self {
        let words = KEY_WORDS + limits.iter().map(|limit| limit.quota.words()).sum::<usize>();
        Self { limits, words, version, past: Vec::new() }
    }

    /// The limits that replace `before`.
    pub(super) fn after(before: &Self, limits: Box<[Limit]>, version: u32, at: Now) -> Self {
        let origins = limits.iter().map(|limit| before.origin(limit)).collect();
        let mut rules = Self::new(limits, version);
        let forgotten = (before.past.len() + 1).saturating_sub(REMEMBERED);
        rules.past.extend(before.past.iter().skip(forgotten).cloned());
        rules.past.push(Step { from: before.version, at, origins });
        rules
    }

    fn origin(&self, limit: &Limit) -> Origin {
        let place = self.limits.iter().position(|before| before.number == limit.number)?;
        Some((place, limit.quota.carry(&self.limits[place].quota)))
    }

    /// The words of the limit at this position in a record.
    pub(super) fn words_of<'a>(&self, record: &'a [u32], place: usize) -> &'a [u32] {
        let words = |limit: &Limit| limit.quota.words();
        let from = KEY_WORDS + self.limits[..place].iter().map(words).sum::<usize>();
        &record[from..from + words(&self.limits[place])]
    }

    /// The origins of the limits, if these rules directly replaced `before`.
    pub(super) fn origins_in(&self, before: &Self) -> Option<&[Origin]> {
        self.past.last().filter(|step| step.from == before.version).map(|step| &*step.origins)
    }

    /// Translates the marks of a reservation made under this version to the current limits.
    pub(super) fn marks_since(&self, version: u32, marks: &[u64]) -> Marks {
        let mut present: Marks = marks.iter().copied().map(Some).take(QuotaGroup::MOST_QUOTAS).collect();
        if version == self.version {
            return present;
        }
        let Some(first) = self.past.iter().position(|step| step.from == version) else {
            return self.limits.iter().map(|_| None).collect();
        };
        for step in &self.past[first..] {
            let carried = |origin: &Origin| {
                let (place, carry) = (*origin)?;
                carry.mark(present.get(place).copied().flatten()?, step.at)
            };
            present = step.origins.iter().map(carried).collect();
        }
        present
    }
}
