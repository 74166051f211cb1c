//! The limits of a group in force, and how they derive from earlier ones.
//!
//! Limits can change while requests are in flight. Usage and the marks of reservations are then carried over, limit by
//! limit. A limit whose numbers changed keeps its counts; usage that cannot be counted the new way counts as used at
//! the time of the change. All conversions err against the caller: units whose origin is no longer known are not
//! refunded.

use super::rule::{CountsCarryOver, Quota, QuotaGroup};
use crate::time::Now;
use arrayvec::ArrayVec;
use std::sync::Arc;

/// How many changes a reservation may survive and still be refunded. Calls last minutes; operators change limits less
/// often.
const MAX_HISTORY: usize = 16;
/// The number of words in a record before the first limit.
pub(super) const KEY_WORDS: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct NumberedQuota {
    pub(super) quota: Quota,
    /// The number of its name, fixed for the limiter's lifetime.
    pub(super) number: usize,
}

/// The limits of one group in force.
#[derive(Debug)]
pub(super) struct QuotaGroupRules {
    pub(super) limits: Box<[NumberedQuota]>,
    /// The number of words in one caller's record.
    pub(super) words: usize,
    /// Increases with every change of a group.
    pub(super) version: u32,
    /// The latest changes, oldest first.
    history: Vec<RuleChange>,
}

/// Where a reservation's units were charged, limit by limit; `None` if no longer known.
pub(super) type CurrentMarks = ArrayVec<Option<u64>, { QuotaGroup::MAX_QUOTAS }>;

/// What one change did to the limits before it.
#[derive(Clone, Debug)]
pub(super) struct RuleChange {
    from: u32,
    at: Now,
    origins: Arc<[LimitOrigin]>,
}

/// The position of a limit's predecessor, and how its counts continue.
pub(super) type LimitOrigin = Option<(usize, CountsCarryOver)>;

impl QuotaGroupRules {
    /// The limits of a new group.
    pub(super) fn new(limits: Box<[NumberedQuota]>, version: u32) -> Self {
        let words = KEY_WORDS + limits.iter().map(|limit| limit.quota.words()).sum::<usize>();
        Self { limits, words, version, history: Vec::new() }
    }

    /// The limits that replace `previous`.
    pub(super) fn after(previous: &Self, limits: Box<[NumberedQuota]>, version: u32, at: Now) -> Self {
        let origins = limits.iter().map(|limit| previous.origin(limit)).collect();
        let mut rules = Self::new(limits, version);
        let dropped = (previous.history.len() + 1).saturating_sub(MAX_HISTORY);
        rules.history.extend(previous.history.iter().skip(dropped).cloned());
        rules.history.push(RuleChange { from: previous.version, at, origins });
        rules
    }

    fn origin(&self, limit: &NumberedQuota) -> LimitOrigin {
        let index = self.limits.iter().position(|previous| previous.number == limit.number)?;
        Some((index, limit.quota.carry_over(&self.limits[index].quota)))
    }

    /// The words of the limit at this position in a record.
    pub(super) fn words_of<'a>(&self, record: &'a [u32], index: usize) -> &'a [u32] {
        let words = |limit: &NumberedQuota| limit.quota.words();
        let from = KEY_WORDS + self.limits[..index].iter().map(words).sum::<usize>();
        &record[from..from + words(&self.limits[index])]
    }

    /// The origins of the limits, if these rules directly replaced `previous`.
    pub(super) fn origins_in(&self, previous: &Self) -> Option<&[LimitOrigin]> {
        self.history.last().filter(|step| step.from == previous.version).map(|step| &*step.origins)
    }

    /// Translates the marks of a reservation made under this version to the current limits.
    pub(super) fn marks_since(&self, version: u32, marks: &[u64]) -> CurrentMarks {
        let mut current: CurrentMarks =
            marks.iter().copied().map(Some).take(QuotaGroup::MAX_QUOTAS).collect();
        if version == self.version {
            return current;
        }
        let Some(first) = self.history.iter().position(|step| step.from == version) else {
            return self.limits.iter().map(|_| None).collect();
        };
        for step in &self.history[first..] {
            let carried = |origin: &LimitOrigin| {
                let (index, carry_over) = (*origin)?;
                carry_over.mark(current.get(index).copied().flatten()?, step.at)
            };
            current = step.origins.iter().map(carried).collect();
        }
        current
    }
}
