//! One limit: its rule, and the encoding of a caller's usage.

use super::calendar::{self, CalendarPeriod, CalendarRule, PeriodUse};
use super::decision::QuotaUnits;
use super::packed;
use super::rate::{self, Backlog, RateRule, RateScale};
use super::ring::SliceRing;
use super::saving::{self, Clocks, SavedQuota};
use super::slab::Slab;
use super::sliding::SlidingRule;
use crate::invariant::{Violation, rate_within_burst, window_within_limit};
use crate::setting::{SettingError, at_least_one};
use crate::time::Now;
use std::sync::Arc;
use std::time::Duration;

/// The unit that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaUnit {
    /// Requests.
    Request,
    /// Model tokens.
    Token,
}

/// One rate limit.
///
/// ```
/// use seawall_core::quota::{Quota, QuotaUnit};
/// use std::time::Duration;
///
/// let minute = Quota::sliding("minute", QuotaUnit::Request, 60, Duration::from_secs(60), 10).unwrap();
/// assert_eq!(minute.capacity(), 70);
/// let error = Quota::rate("smooth", QuotaUnit::Request, 0, Duration::from_secs(1), 10).unwrap_err();
/// assert_eq!(error.to_string(), "limit: must be at least 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    name: Arc<str>,
    unit: QuotaUnit,
    rule: QuotaRule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuotaRule {
    Rate(RateRule),
    Sliding(SlidingRule),
    Calendar(CalendarRule),
}

/// The kind of a limit, with the numbers that another store needs to enforce the same limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// A smoothed rate (GCRA).
    Rate {
        /// The emission interval: the time one unit takes at the steady rate.
        unit: Duration,
        /// The most units admitted at once.
        burst: u32,
    },
    /// A limit over a sliding window.
    Sliding {
        /// The length of a slice, a sixtieth of the period. The sum covers sixty-one slices.
        slice: Duration,
        /// The most units in any window, burst included.
        limit: u32,
    },
    /// A limit per calendar day or month.
    Calendar {
        /// The calendar period.
        period: CalendarPeriod,
        /// The most units in one period.
        limit: u32,
    },
}

/// Whether units fit under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitCheck {
    /// They fit; `remaining` would be left.
    Fits { remaining: u32 },
    /// They will fit after `wait`; `remaining` are left now.
    Wait { wait: Duration, remaining: u32 },
    /// They can never fit: they exceed the capacity.
    Never { capacity: u32 },
}

impl Quota {
    /// A steady rate of `limit` units per `per`, of which up to `burst` may arrive at once.
    pub fn rate(
        name: &str,
        unit: QuotaUnit,
        limit: u32,
        per: Duration,
        burst: u32,
    ) -> Result<Self, SettingError> {
        Ok(Self::new(name, unit, QuotaRule::Rate(RateRule::new(limit, per, burst)?)))
    }

    /// At most `limit + burst` units in any window of length `per`, wherever it begins.
    pub fn sliding(
        name: &str,
        unit: QuotaUnit,
        limit: u32,
        per: Duration,
        burst: u32,
    ) -> Result<Self, SettingError> {
        Ok(Self::new(name, unit, QuotaRule::Sliding(SlidingRule::new(limit, per, burst)?)))
    }

    /// At most `limit` units in each calendar day or month, UTC.
    pub fn calendar(
        name: &str,
        unit: QuotaUnit,
        limit: u32,
        period: CalendarPeriod,
    ) -> Result<Self, SettingError> {
        at_least_one("limit", limit.into())?;
        Ok(Self::new(name, unit, QuotaRule::Calendar(CalendarRule { limit, period })))
    }

    fn new(name: &str, unit: QuotaUnit, rule: QuotaRule) -> Self {
        Self { name: name.into(), unit, rule }
    }

    /// The name in responses, logs and settings.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The unit that it counts.
    #[must_use]
    pub fn unit(&self) -> QuotaUnit {
        self.unit
    }

    /// The kind of limit, with its numbers.
    #[must_use]
    pub const fn kind(&self) -> QuotaKind {
        match &self.rule {
            QuotaRule::Rate(rule) => rule.kind(),
            QuotaRule::Sliding(rule) => rule.kind(),
            QuotaRule::Calendar(rule) => QuotaKind::Calendar { period: rule.period, limit: rule.limit },
        }
    }

    /// The most units that can be charged at once.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        match &self.rule {
            QuotaRule::Rate(rule) => rule.burst(),
            QuotaRule::Sliding(rule) => rule.limit(),
            QuotaRule::Calendar(rule) => rule.limit,
        }
    }

    /// The number of words for this limit in a caller's record. All zero means nothing used.
    pub(super) fn words(&self) -> usize {
        match &self.rule {
            QuotaRule::Rate(_) => rate::WORDS,
            QuotaRule::Sliding(_) => packed::WORDS,
            QuotaRule::Calendar(_) => calendar::WORDS,
        }
    }

    pub(super) fn check(
        &self,
        words: &[u32],
        rings: &Slab<SliceRing>,
        now: Now,
        cost: QuotaUnits,
    ) -> LimitCheck {
        let units = cost.units(self.unit);
        match &self.rule {
            QuotaRule::Rate(rule) => rule.check(Backlog::read(words), now.monotonic, units),
            QuotaRule::Sliding(rule) => rule.check_words(words, rings, now.monotonic, units),
            QuotaRule::Calendar(rule) => rule.check(PeriodUse::read(words), now.utc, units),
        }
    }

    /// Charges units whether they fit or not. The returned mark records where they were charged.
    pub(super) fn take(
        &self,
        words: &mut [u32],
        rings: &mut Slab<SliceRing>,
        now: Now,
        cost: QuotaUnits,
    ) -> u64 {
        self.charge_units(words, rings, now, cost.units(self.unit))
    }

    /// Whether a caller that was just charged `cost` is within the limit: its usage counts as one admission at `now`.
    pub(super) fn check_usage(
        &self,
        words: &[u32],
        rings: &Slab<SliceRing>,
        now: Now,
        cost: QuotaUnits,
    ) -> Result<(), Violation> {
        // A cost of nothing fits even in debt.
        if cost.units(self.unit) == 0 {
            return Ok(());
        }
        let used = [(now.monotonic, u64::from(self.used(words, rings, now)))];
        match &self.rule {
            QuotaRule::Rate(rule) => {
                rate_within_burst(&used, rule.burst().into(), Duration::from_nanos(rule.nanos()[0]))
            }
            QuotaRule::Sliding(_) | QuotaRule::Calendar(_) => {
                window_within_limit(&used, self.capacity().into(), Duration::MAX)
            }
        }
    }

    fn charge_units(&self, words: &mut [u32], rings: &mut Slab<SliceRing>, now: Now, units: u32) -> u64 {
        match &self.rule {
            QuotaRule::Rate(rule) => {
                update_backlog(words, |backlog| rule.take(backlog, now.monotonic, units))
            }
            QuotaRule::Sliding(rule) => rule.take(words, rings, now.monotonic, units),
            QuotaRule::Calendar(rule) => update_period(words, |used| rule.take(used, now.utc, units)),
        }
    }

    /// Corrects a charge at `mark` from `reserved` to `actual`. Without a mark nothing can be refunded.
    pub(super) fn settle(
        &self,
        words: &mut [u32],
        rings: &mut Slab<SliceRing>,
        now: Now,
        mark: Option<u64>,
        (reserved, actual): (QuotaUnits, QuotaUnits),
    ) {
        let (reserved, actual) = (reserved.units(self.unit), actual.units(self.unit));
        let (refund, debt) = (reserved.saturating_sub(actual), actual.saturating_sub(reserved));
        match &self.rule {
            QuotaRule::Rate(rule) => update_backlog(words, |backlog| {
                if let Some(mark) = mark {
                    rule.refund(backlog, mark, refund, now.monotonic);
                }
                if debt > 0 {
                    rule.take(backlog, now.monotonic, debt);
                }
            }),
            QuotaRule::Sliding(rule) => {
                if let Some(mark) = mark {
                    SlidingRule::refund(words, rings, mark, refund);
                }
                rule.take(words, rings, now.monotonic, debt);
            }
            QuotaRule::Calendar(rule) => update_period(words, |used| match mark {
                Some(mark) => {
                    CalendarRule::refund(used, mark, refund);
                    CalendarRule::add_debt(used, mark, debt);
                }
                None if debt > 0 => {
                    rule.take(used, now.utc, debt);
                }
                None => {}
            }),
        }
    }

    pub(super) fn is_idle(&self, words: &[u32], rings: &Slab<SliceRing>, now: Now) -> bool {
        match &self.rule {
            QuotaRule::Rate(_) => RateRule::is_idle(Backlog::read(words), now.monotonic),
            QuotaRule::Sliding(rule) => rule.is_idle(words, rings, now.monotonic),
            QuotaRule::Calendar(rule) => rule.is_idle(PeriodUse::read(words), now.utc),
        }
    }

    /// Frees memory that a caller no longer needs because it has become less active.
    pub(super) fn compact(&self, words: &mut [u32], rings: &mut Slab<SliceRing>, now: Now) {
        if let QuotaRule::Sliding(rule) = &self.rule {
            rule.compact(words, rings, now.monotonic);
        }
    }
}

/// Serialization of a limit and its counts.
impl Quota {
    pub(super) fn saved(&self) -> SavedQuota {
        let (kind, nanos, max_units) = match &self.rule {
            QuotaRule::Rate(rule) => (0, rule.nanos(), rule.burst()),
            QuotaRule::Sliding(rule) => (1, [rule.slice_nanos(), 0], rule.limit()),
            QuotaRule::Calendar(rule) => match rule.period {
                CalendarPeriod::Day => (2, [0; 2], rule.limit),
                CalendarPeriod::Month => (3, [0; 2], rule.limit),
            },
        };
        SavedQuota { name: self.name().to_owned(), unit: self.unit, kind, nanos, max_units }
    }

    pub(super) fn from_saved(saved: &SavedQuota) -> Result<Self, SettingError> {
        let SavedQuota { name, unit, kind, nanos, max_units } = saved;
        let rule = match kind {
            0 => QuotaRule::Rate(RateRule::of_nanos(*nanos, *max_units)?),
            1 => QuotaRule::Sliding(SlidingRule::of_slice(nanos[0], *max_units)?),
            2 => return Self::calendar(name, *unit, *max_units, CalendarPeriod::Day),
            3 => return Self::calendar(name, *unit, *max_units, CalendarPeriod::Month),
            _ => return Err(SettingError::new("kind", format!("{kind} is not a kind of limit"))),
        };
        Ok(Self::new(name, *unit, rule))
    }

    /// The mark of units that were charged at this time.
    pub(super) fn mark_at(&self, at: Now, cost: QuotaUnits) -> u64 {
        match &self.rule {
            QuotaRule::Rate(rule) => rule.drained_at(at.monotonic, cost.units(self.unit)),
            QuotaRule::Sliding(rule) => rule.number_at(at.monotonic).into(),
            QuotaRule::Calendar(rule) => rule.period.number(at.utc).into(),
        }
    }

    pub(super) fn save(&self, words: &[u32], rings: &Slab<SliceRing>, now: Now, numbers: &mut Vec<u64>) {
        match &self.rule {
            QuotaRule::Rate(_) => saving::save_rate(Backlog::read(words), now.monotonic, numbers),
            QuotaRule::Sliding(rule) => rule.save(words, rings, now.monotonic, numbers),
            QuotaRule::Calendar(_) => {
                let (period, units) = PeriodUse::read(words).numbers();
                numbers.extend([period, units].map(u64::from));
            }
        }
    }

    /// Restores this limit's counts from the front of `numbers` and returns the rest, which belongs to other limits.
    /// `None` if the numbers do not fit this kind of limit.
    pub(super) fn restore<'a>(
        &self,
        words: &mut [u32],
        rings: &mut Slab<SliceRing>,
        numbers: &'a [u64],
        clock: Clocks,
    ) -> Option<&'a [u64]> {
        let (first, rest) = numbers.split_first()?;
        match &self.rule {
            QuotaRule::Rate(_) => {
                update_backlog(words, |backlog| saving::restore_rate(backlog, *first, clock));
                Some(rest)
            }
            QuotaRule::Sliding(rule) => {
                let length = usize::try_from(*first).ok()?.checked_mul(2)?;
                let (slices, rest) = rest.split_at_checked(length)?;
                rule.restore(words, rings, slices, clock).then_some(rest)
            }
            QuotaRule::Calendar(_) => {
                let (units, rest) = rest.split_first()?;
                let (period, units) = (u32::try_from(*first).ok()?, u32::try_from(*units).ok()?);
                update_period(words, |used| used.join(period, units));
                Some(rest)
            }
        }
    }
}

/// How the counts of a limit continue under another limit with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountsCarryOver {
    /// Unchanged.
    Kept,
    /// The same number of units, with another emission interval.
    Rescaled { scale: RateScale },
    /// As if used at the time of the change.
    CountedAsCurrent,
    /// Discarded.
    Discarded,
}

impl CountsCarryOver {
    /// The new mark of a reservation charged at `mark`; `None` if the counts were not kept.
    pub(super) fn mark(self, mark: u64, at: Now) -> Option<u64> {
        match self {
            Self::Kept => Some(mark),
            Self::Rescaled { scale } => Some(scale.drained_at(mark, at.monotonic)),
            Self::CountedAsCurrent | Self::Discarded => None,
        }
    }
}

/// Replacing one limit by another.
impl Quota {
    pub(super) fn carry_over(&self, before: &Self) -> CountsCarryOver {
        if self.unit != before.unit {
            return CountsCarryOver::Discarded;
        }
        let is_same = match (&self.rule, &before.rule) {
            (QuotaRule::Rate(after), QuotaRule::Rate(before)) => match after.scale_from(before) {
                Some(scale) => return CountsCarryOver::Rescaled { scale },
                None => after.has_period_of(before),
            },
            (QuotaRule::Sliding(after), QuotaRule::Sliding(before)) => after.has_period_of(before),
            (QuotaRule::Calendar(after), QuotaRule::Calendar(before)) => after.period == before.period,
            (QuotaRule::Rate(_) | QuotaRule::Sliding(_) | QuotaRule::Calendar(_), _) => false,
        };
        if is_same { CountsCarryOver::Kept } else { CountsCarryOver::CountedAsCurrent }
    }

    /// Writes a caller's usage under `previous` into the empty words of this limit.
    pub(super) fn carry_over_words(
        &self,
        words: &mut [u32],
        (previous, carry_over, old): (&Self, CountsCarryOver, &[u32]),
        rings: &mut Slab<SliceRing>,
        now: Now,
    ) {
        match carry_over {
            CountsCarryOver::Kept => words.copy_from_slice(old),
            CountsCarryOver::Rescaled { scale } => {
                scale.backlog(Backlog::read(old), now.monotonic).write(words);
            }
            CountsCarryOver::CountedAsCurrent => {
                let units = previous.used(old, rings, now);
                previous.release(old, rings);
                self.charge_units(words, rings, now, units);
            }
            CountsCarryOver::Discarded => previous.release(old, rings),
        }
    }

    /// Units that count at this time.
    fn used(&self, words: &[u32], rings: &Slab<SliceRing>, now: Now) -> u32 {
        match &self.rule {
            QuotaRule::Rate(rule) => rule.used(Backlog::read(words), now.monotonic),
            QuotaRule::Sliding(rule) => rule.used(words, rings, now.monotonic),
            QuotaRule::Calendar(rule) => rule.used(PeriodUse::read(words), now.utc),
        }
    }

    /// Frees what words that will not be read again hold outside the record.
    pub(super) fn release(&self, words: &[u32], rings: &mut Slab<SliceRing>) {
        if let QuotaRule::Sliding(_) = &self.rule {
            packed::release(words, rings);
        }
    }
}

fn update_backlog<T>(words: &mut [u32], step: impl FnOnce(&mut Backlog) -> T) -> T {
    let mut backlog = Backlog::read(words);
    let answer = step(&mut backlog);
    backlog.write(words);
    answer
}

fn update_period<T>(words: &mut [u32], step: impl FnOnce(&mut PeriodUse) -> T) -> T {
    let mut used = PeriodUse::read(words);
    let answer = step(&mut used);
    used.write(words);
    answer
}

/// The limits that apply to every key of one group: a tier's callers, guests by network, or all requests globally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaGroup {
    name: Box<str>,
    quotas: Box<[Quota]>,
}

impl QuotaGroup {
    /// The maximum number of limits in one group.
    pub const MAX_QUOTAS: usize = 8;

    /// Creates a group with at least one limit and distinct limit names.
    pub fn new(name: &str, quotas: Vec<Quota>) -> Result<Self, SettingError> {
        if quotas.is_empty() {
            return Err(SettingError::new("quotas", format!("group {name} has no limit")));
        }
        if quotas.len() > Self::MAX_QUOTAS {
            let problem = format!("group {name} has {} limits, more than {}", quotas.len(), Self::MAX_QUOTAS);
            return Err(SettingError::new("quotas", problem));
        }
        for (index, quota) in quotas.iter().enumerate() {
            if quotas[..index].iter().any(|earlier| earlier.name == quota.name) {
                return Err(SettingError::new(
                    "quotas",
                    format!("group {name} has two limits named {}", quota.name),
                ));
            }
        }
        Ok(Self { name: name.into(), quotas: quotas.into() })
    }

    /// The group's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limits of the group.
    #[must_use]
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }
}
