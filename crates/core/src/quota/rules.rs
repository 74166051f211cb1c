//! The limits of a group that are in force, and how they came from those before.
//!
//! Limits may change while requests are under way. What callers have used, and what reservations say they took, is then
//! carried over, limit by limit. A limit that only got other numbers keeps its counts; what cannot be counted the new way
//! counts as used at the change. Nothing here is ever generous: what nobody can tell any more is not given back.

use super::rule::{Carry, Quota, QuotaGroup};
use crate::time::Now;
use arrayvec::ArrayVec;
use std::sync::Arc;

/// How many changes a reservation may outlive and still be refunded. Calls last minutes, and operators are slower.
const REMEMBERED: usize = 16;
/// The words of a record before the first limit's.
pub(super) const KEY_WORDS: usize = 2;

/// One limit of a group.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub(super) quota: Quota,
    /// A number that its name has for as long as the book lives.
    pub(super) number: usize,
}

/// The limits of one group in force.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) limits: Box<[Limit]>,
    /// Words of one caller's record.
    pub(super) words: usize,
    /// Of two that a group has had, the later one's is higher.
    pub(super) version: u32,
    /// The latest changes, oldest first.
    past: Vec<Step>,
}

/// Where a reservation's units were taken from, limit by limit. `None` where nobody can tell any more.
pub(super) type Marks = ArrayVec<Option<u64>, { QuotaGroup::MOST_QUOTAS }>;

/// What one change did with the limits before it.
#[derive(Clone, Debug)]
pub(super) struct Step {
    from: u32,
    at: Now,
    origins: Arc<[Origin]>,
}

/// What a limit has from before: the place of the former one, and how its counts go on.
pub(super) type Origin = Option<(usize, Carry)>;

impl Rules {
    /// Limits of a group that was not there before.
    pub(super) fn new(limits: Box<[Limit]>, version: u32) -> Self {
        let words = KEY_WORDS + limits.iter().map(|limit| limit.quota.words()).sum::<usize>();
        Self { limits, words, version, past: Vec::new() }
    }

    /// Limits that take the place of others.
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

    /// The part of a record that is of the limit at this place.
    pub(super) fn words_of<'a>(&self, record: &'a [u32], place: usize) -> &'a [u32] {
        let words = |limit: &Limit| limit.quota.words();
        let from = KEY_WORDS + self.limits[..place].iter().map(words).sum::<usize>();
        &record[from..from + words(&self.limits[place])]
    }

    /// Where the limits came from, if this is what took the place of `before`.
    pub(super) fn origins_in(&self, before: &Self) -> Option<&[Origin]> {
        self.past.last().filter(|step| step.from == before.version).map(|step| &*step.origins)
    }

    /// What a reservation made under rules of this version took from each of the present limits.
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
