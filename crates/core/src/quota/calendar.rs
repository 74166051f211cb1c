//! A fixed-window limit per calendar day or month, in UTC.

use super::rule::LimitCheck;
use crate::time::UtcTime;

/// The length of a calendar window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarPeriod {
    /// From midnight to midnight UTC.
    Day,
    /// From the first of a month to the first of the next, UTC.
    Month,
}

impl CalendarPeriod {
    /// The number of the period that contains this time.
    pub(super) fn number(self, utc: UtcTime) -> u32 {
        let number = match self {
            Self::Day => utc.day(),
            Self::Month => {
                let (year, month, _) = utc.civil();
                u64::try_from(year).unwrap_or(0).saturating_mul(12).saturating_add(u64::from(month))
            }
        };
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// When the period with this number begins.
    fn start(self, number: u32) -> UtcTime {
        match self {
            Self::Day => UtcTime::from_nanos(u64::from(number).saturating_mul(DAY_NANOS)),
            Self::Month => {
                let months = number.saturating_sub(1);
                UtcTime::from_civil(i64::from(months / 12), months % 12 + 1, 1)
            }
        }
    }
}

const DAY_NANOS: u64 = 86_400_000_000_000;

/// At most `limit` units in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CalendarRule {
    pub(super) limit: u32,
    pub(super) period: CalendarPeriod,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PeriodUse {
    period: u32,
    units: u32,
}

/// The number of words in a caller's record.
pub(super) const WORDS: usize = 2;

impl PeriodUse {
    pub(super) fn read(words: &[u32]) -> Self {
        Self { period: words[0], units: words[1] }
    }

    pub(super) fn write(self, words: &mut [u32]) {
        words[0] = self.period;
        words[1] = self.units;
    }
}

impl PeriodUse {
    pub(super) const fn numbers(self) -> (u32, u32) {
        (self.period, self.units)
    }

    /// Adds units used in `period`. Usage of an earlier period is dropped.
    pub(super) fn join(&mut self, period: u32, units: u32) {
        if period > self.period {
            *self = Self { period, units: 0 };
        }
        if period == self.period {
            self.units = self.units.saturating_add(units);
        }
    }
}

impl CalendarRule {
    pub(super) fn check(&self, used: PeriodUse, utc: UtcTime, units: u32) -> LimitCheck {
        if units > self.limit {
            return LimitCheck::Never { capacity: self.limit };
        }
        let period = self.period.number(utc).max(used.period);
        let used = if period == used.period { used.units } else { 0 };
        let left = self.limit.saturating_sub(used);
        if units > left {
            let wait = self.period.start(period.saturating_add(1)).since(utc);
            return LimitCheck::Wait { wait, remaining: left };
        }
        LimitCheck::Fits { remaining: left - units }
    }

    /// Charges units whether they fit or not, and returns the period they were charged to. After the clock was set back
    /// the later period stays current; otherwise setting the clock would renew the allowance.
    pub(super) fn take(&self, used: &mut PeriodUse, utc: UtcTime, units: u32) -> u64 {
        let period = self.period.number(utc);
        if period > used.period {
            *used = PeriodUse { period, units: 0 };
        }
        used.units = used.units.saturating_add(units);
        used.period.into()
    }

    pub(super) fn refund(used: &mut PeriodUse, period: u64, units: u32) {
        if u64::from(used.period) == period {
            used.units = used.units.saturating_sub(units);
        }
    }

    /// Charges units beyond the reservation to the reservation's period, unless a later period has begun.
    pub(super) fn add_debt(used: &mut PeriodUse, period: u64, units: u32) {
        let period = u32::try_from(period).unwrap_or(u32::MAX);
        if period > used.period {
            *used = PeriodUse { period, units: 0 };
        }
        if period == used.period {
            used.units = used.units.saturating_add(units);
        }
    }

    /// Units that count at this time.
    pub(super) fn used(&self, used: PeriodUse, utc: UtcTime) -> u32 {
        if self.is_idle(used, utc) { 0 } else { used.units }
    }

    pub(super) fn is_idle(&self, used: PeriodUse, utc: UtcTime) -> bool {
        used.units == 0 || used.period < self.period.number(utc)
    }
}
