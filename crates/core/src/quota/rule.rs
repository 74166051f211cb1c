//! One limit: its rule, and what a caller has used of it.

use super::calendar::{CalendarPeriod, CalendarRule, PeriodUse};
use super::decision::Cost;
use super::rate::{Backlog, RateRule};
use super::sliding::{RingPool, Slices, SlidingRule};
use crate::setting::{SettingError, at_least_one};
use crate::time::Now;
use std::time::Duration;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Requests.
    Request,
    /// Model tokens.
    Token,
}

/// One limit.
///
/// ```
/// use seawall_core::quota::{Quota, Unit};
/// use std::time::Duration;
///
/// let minute = Quota::sliding("minute", Unit::Request, 60, Duration::from_secs(60), 10).unwrap();
/// assert_eq!(minute.capacity(), 70);
/// let error = Quota::rate("smooth", Unit::Request, 0, Duration::from_secs(1), 10).unwrap_err();
/// assert_eq!(error.to_string(), "limit: must be at least 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    name: Box<str>,
    unit: Unit,
    rule: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Rate(RateRule),
    Sliding(SlidingRule),
    Calendar(CalendarRule),
}

/// Whether units fit under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// They do, and this many would be left.
    Fits { remaining: u32 },
    /// They will, after this wait; this many are left now.
    Wait { wait: Duration, remaining: u32 },
    /// They never will: the limit itself is smaller.
    Never { capacity: u32 },
}

/// What one caller has used of one limit. Twenty bytes: there may be a million callers with five each.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    Rate(Backlog),
    Sliding(Slices),
    Calendar(PeriodUse),
}

const _: () = assert!(size_of::<Use>() == 20);

impl Quota {
    /// An even rate of `limit` units per `per`, of which up to `burst` may come at once.
    pub fn rate(name: &str, unit: Unit, limit: u32, per: Duration, burst: u32) -> Result<Self, SettingError> {
        Ok(Self::new(name, unit, Rule::Rate(RateRule::new(limit, per, burst)?)))
    }

    /// At most `limit + burst` units in any period of length `per`, wherever it begins.
    pub fn sliding(
        name: &str,
        unit: Unit,
        limit: u32,
        per: Duration,
        burst: u32,
    ) -> Result<Self, SettingError> {
        Ok(Self::new(name, unit, Rule::Sliding(SlidingRule::new(limit, per, burst)?)))
    }

    /// At most `limit` units in each calendar day or month, UTC.
    pub fn calendar(
        name: &str,
        unit: Unit,
        limit: u32,
        period: CalendarPeriod,
    ) -> Result<Self, SettingError> {
        at_least_one("limit", limit.into())?;
        Ok(Self::new(name, unit, Rule::Calendar(CalendarRule { limit, period })))
    }

    fn new(name: &str, unit: Unit, rule: Rule) -> Self {
        Self { name: name.into(), unit, rule }
    }

    /// The name in answers, logs and settings.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it counts.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The most that can ever be taken at once.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        match &self.rule {
            Rule::Rate(rule) => rule.burst(),
            Rule::Sliding(rule) => rule.limit(),
            Rule::Calendar(rule) => rule.limit,
        }
    }

    pub(super) fn unused(&self) -> Use {
        match &self.rule {
            Rule::Rate(_) => Use::Rate(Backlog::default()),
            Rule::Sliding(_) => Use::Sliding(Slices::default()),
            Rule::Calendar(_) => Use::Calendar(PeriodUse::default()),
        }
    }

    // A use is made by `unused` of the same quota and never put beside another, so the mixed pairs below cannot
    // occur; they are answered as if nothing had been used.

    pub(super) fn check(&self, used: &Use, pool: &RingPool, now: Now, cost: Cost) -> Check {
        let units = cost.units(self.unit);
        match (&self.rule, used) {
            (Rule::Rate(rule), Use::Rate(backlog)) => rule.check(*backlog, now.monotonic, units),
            (Rule::Sliding(rule), Use::Sliding(slices)) => slices.check(rule, pool, now.monotonic, units),
            (Rule::Calendar(rule), Use::Calendar(used)) => rule.check(*used, now.utc, units),
            _ => Check::Fits { remaining: self.capacity() },
        }
    }

    /// Takes units whether they fit or not. The mark that comes back says where they were taken from.
    pub(super) fn take(&self, used: &mut Use, pool: &mut RingPool, now: Now, cost: Cost) -> u64 {
        let units = cost.units(self.unit);
        match (&self.rule, used) {
            (Rule::Rate(rule), Use::Rate(backlog)) => rule.take(backlog, now.monotonic, units),
            (Rule::Sliding(rule), Use::Sliding(slices)) => slices.take(rule, pool, now.monotonic, units),
            (Rule::Calendar(rule), Use::Calendar(used)) => rule.take(used, now.utc, units),
            _ => 0,
        }
    }

    /// Corrects what was taken at `mark` from `reserved` to `actual`.
    pub(super) fn settle(
        &self,
        used: &mut Use,
        pool: &mut RingPool,
        now: Now,
        mark: u64,
        (reserved, actual): (Cost, Cost),
    ) {
        let (reserved, actual) = (reserved.units(self.unit), actual.units(self.unit));
        let (refund, debt) = (reserved.saturating_sub(actual), actual.saturating_sub(reserved));
        match (&self.rule, used) {
            (Rule::Rate(rule), Use::Rate(backlog)) => {
                rule.give_back(backlog, mark, refund, now.monotonic);
                if debt > 0 {
                    rule.take(backlog, now.monotonic, debt);
                }
            }
            (Rule::Sliding(rule), Use::Sliding(slices)) => {
                slices.give_back(pool, mark, refund);
                slices.take(rule, pool, now.monotonic, debt);
            }
            (Rule::Calendar(_), Use::Calendar(used)) => {
                CalendarRule::give_back(used, mark, refund);
                CalendarRule::add_debt(used, mark, debt);
            }
            _ => {}
        }
    }

    pub(super) fn is_idle(&self, used: &Use, pool: &RingPool, now: Now) -> bool {
        match (&self.rule, used) {
            (Rule::Rate(_), Use::Rate(backlog)) => RateRule::is_idle(*backlog, now.monotonic),
            (Rule::Sliding(rule), Use::Sliding(slices)) => slices.is_idle(rule, pool, now.monotonic),
            (Rule::Calendar(rule), Use::Calendar(used)) => rule.is_idle(*used, now.utc),
            _ => true,
        }
    }

    /// Gives back memory that a caller who has calmed down no longer needs.
    pub(super) fn compact(&self, used: &mut Use, pool: &mut RingPool, now: Now) {
        if let (Rule::Sliding(rule), Use::Sliding(slices)) = (&self.rule, used) {
            slices.compact(rule, pool, now.monotonic);
        }
    }
}

/// The limits that apply to every key of one group: a tier's callers, guests by address, everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaGroup {
    name: Box<str>,
    quotas: Box<[Quota]>,
}

impl QuotaGroup {
    /// The most limits one group may have.
    pub const MOST_QUOTAS: usize = 8;

    /// A group with at least one limit, each with a name of its own.
    pub fn new(name: &str, quotas: Vec<Quota>) -> Result<Self, SettingError> {
        if quotas.is_empty() {
            return Err(SettingError::new("quotas", format!("group {name} has no limit")));
        }
        if quotas.len() > Self::MOST_QUOTAS {
            let problem =
                format!("group {name} has {} limits, more than {}", quotas.len(), Self::MOST_QUOTAS);
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

    /// Its limits.
    #[must_use]
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }
}
