//! A smoothed rate, by the generic cell rate algorithm (GCRA).
//!
//! It needs one number per caller, the theoretical arrival time: the time at which everything admitted so far will have
//! drained at the steady rate. A request fits if that time would lie no further ahead than the burst allows.

use super::rule::{LimitCheck, QuotaKind};
use crate::setting::{SettingError, at_least_one, positive};
use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// `limit` units per period, at most `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateRule {
    /// The emission interval: the time one unit takes at the steady rate. Rounded up, so that the rate never exceeds
    /// the configured one.
    unit_nanos: u64,
    /// The period in which the rate was configured.
    per_nanos: u64,
    burst: u32,
}

/// Converts a backlog to another emission interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateScale {
    from: u64,
    to: u64,
}

/// The theoretical arrival time: when everything admitted so far will have drained at the steady rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog(u64);

/// The number of words in a caller's record.
pub(super) const WORDS: usize = 2;

impl Backlog {
    pub(super) fn read(words: &[u32]) -> Self {
        Self(u64::from(words[1]) << 32 | u64::from(words[0]))
    }

    /// How far the backlog lies ahead of `now`, in nanoseconds.
    pub(super) const fn owed(self, now: Timestamp) -> u64 {
        self.0.saturating_sub(now.as_nanos())
    }

    pub(super) fn write(self, words: &mut [u32]) {
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        words[0] = half(self.0);
        words[1] = half(self.0 >> 32);
    }
}

impl RateRule {
    pub(super) fn new(limit: u32, per: Duration, burst: u32) -> Result<Self, SettingError> {
        at_least_one("limit", limit.into())?;
        at_least_one("burst", burst.into())?;
        positive("per", per)?;
        let unit_nanos = nanos(per).div_ceil(u64::from(limit));
        if nanos(per) < u64::from(limit) {
            return Err(SettingError::new(
                "limit",
                format!("{limit} in {per:?} is more than one per nanosecond"),
            ));
        }
        if unit_nanos.checked_mul(u64::from(burst)).is_none() {
            return Err(SettingError::new(
                "burst",
                format!("{burst} units would take longer than 584 years to drain"),
            ));
        }
        Ok(Self { unit_nanos, per_nanos: nanos(per), burst })
    }

    /// The emission interval and the period.
    pub(super) const fn nanos(&self) -> [u64; 2] {
        [self.unit_nanos, self.per_nanos]
    }

    pub(super) fn of_nanos([unit_nanos, per_nanos]: [u64; 2], burst: u32) -> Result<Self, SettingError> {
        at_least_one("burst", burst.into())?;
        at_least_one("unit", unit_nanos)?;
        if unit_nanos.checked_mul(u64::from(burst)).is_none() {
            return Err(SettingError::new(
                "burst",
                format!("{burst} units would take longer than 584 years to drain"),
            ));
        }
        Ok(Self { unit_nanos, per_nanos, burst })
    }

    /// When units charged now will have drained, if they are the first to drain.
    pub(super) const fn drained_at(&self, now: Timestamp, units: u32) -> u64 {
        now.as_nanos().saturating_add(self.unit_nanos.saturating_mul(units as u64))
    }

    /// Adds a backlog that is still outstanding at `now`.
    pub(super) fn add_backlog(backlog: &mut Backlog, owed: u64, now: Timestamp) {
        if owed > 0 {
            backlog.0 = backlog.0.max(now.as_nanos()).saturating_add(owed);
        }
    }

    pub(super) const fn kind(&self) -> QuotaKind {
        QuotaKind::Rate { unit: Duration::from_nanos(self.unit_nanos), burst: self.burst }
    }

    pub(super) fn burst(&self) -> u32 {
        self.burst
    }

    pub(super) fn check(&self, backlog: Backlog, now: Timestamp, units: u32) -> LimitCheck {
        if units > self.burst {
            return LimitCheck::Never { capacity: self.burst };
        }
        let full = self.unit_nanos * u64::from(self.burst);
        let before = backlog.0.saturating_sub(now.as_nanos());
        let after = before.saturating_add(self.unit_nanos * u64::from(units));
        // A cost of nothing always fits, even in debt.
        if after > full && units > 0 {
            let remaining = self.units(full.saturating_sub(before));
            return LimitCheck::Wait { wait: Duration::from_nanos(after - full), remaining };
        }
        LimitCheck::Fits { remaining: self.units(full.saturating_sub(after)) }
    }

    /// Charges units whether they fit or not. Returns when they will have drained at the steady rate if they are the
    /// first to drain.
    pub(super) fn take(&self, backlog: &mut Backlog, now: Timestamp, units: u32) -> u64 {
        let start = backlog.0.max(now.as_nanos());
        let charged = self.unit_nanos.saturating_mul(u64::from(units));
        backlog.0 = start.saturating_add(charged);
        now.as_nanos().saturating_add(charged)
    }

    /// Refunds units, less what may have drained already. Which of several reservations has drained cannot be known.
    /// Each refund assumes that its own drained first: the safe side, because otherwise refunds could return the same
    /// units twice.
    pub(super) fn refund(&self, backlog: &mut Backlog, drained_at: u64, units: u32, now: Timestamp) {
        let still_owed = drained_at.saturating_sub(now.as_nanos());
        let refund = self.unit_nanos.saturating_mul(u64::from(units)).min(still_owed);
        backlog.0 = backlog.0.saturating_sub(refund);
    }

    pub(super) fn has_period_of(&self, other: &Self) -> bool {
        self.per_nanos == other.per_nanos
    }

    /// The conversion from a faster or slower rate with the same period; `None` if the rate is equal or the period
    /// differs.
    pub(super) fn scale_from(&self, before: &Self) -> Option<RateScale> {
        let is_rescaled = self.has_period_of(before) && self.unit_nanos != before.unit_nanos;
        is_rescaled.then_some(RateScale { from: before.unit_nanos, to: self.unit_nanos })
    }

    /// Units that have not drained at this time; a partly drained unit counts.
    pub(super) fn used(&self, backlog: Backlog, now: Timestamp) -> u32 {
        let owed = backlog.0.saturating_sub(now.as_nanos());
        u32::try_from(owed.div_ceil(self.unit_nanos)).unwrap_or(u32::MAX)
    }

    pub(super) fn is_idle(backlog: Backlog, now: Timestamp) -> bool {
        backlog.0 <= now.as_nanos()
    }

    fn units(&self, span: u64) -> u32 {
        u32::try_from(span / self.unit_nanos).unwrap_or(u32::MAX)
    }
}

impl RateScale {
    /// The same number of units under the new rate.
    pub(super) fn backlog(self, backlog: Backlog, now: Timestamp) -> Backlog {
        Backlog(self.scaled(backlog.0, now, u128::div_ceil))
    }

    /// When a reservation's units will have drained. Rounded down: an earlier time refunds less, which is the safe
    /// side.
    pub(super) fn drained_at(self, drained_at: u64, now: Timestamp) -> u64 {
        self.scaled(drained_at, now, |backlog_nanos, from| backlog_nanos / from)
    }

    fn scaled(self, drained_at: u64, now: Timestamp, divide: impl FnOnce(u128, u128) -> u128) -> u64 {
        let backlog_nanos = u128::from(drained_at.saturating_sub(now.as_nanos()));
        if backlog_nanos == 0 {
            return drained_at;
        }
        let backlog_nanos = divide(backlog_nanos * u128::from(self.to), u128::from(self.from));
        now.as_nanos().saturating_add(u64::try_from(backlog_nanos).unwrap_or(u64::MAX))
    }
}
