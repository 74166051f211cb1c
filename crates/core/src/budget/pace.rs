//! Spend rate, projection to the end of the day, and the usual cost of an hour.
//!
//! Keeps the spend of each of the last sixty minutes and of each hour of the last eight days. Derived from these: the
//! rate of the last hour, the projected spend of the day, and whether the present hour is unusual.
//!
//! Minutes follow the monotonic clock, so that the last hour is correct however the wall clock is set. Hours follow
//! the wall clock, because equal hours of different days are compared. When the two clocks diverge by more than a
//! minute, the wall clock was set: the hours at both ends of that step were not observed in full and are excluded from
//! comparisons, as are the hours that were skipped.

use crate::money::Money;
use crate::time::{Now, Timestamp, UtcTime, nanos};

const NANOS_PER_MINUTE: u64 = 60_000_000_000;
const NANOS_PER_HOUR: u64 = 60 * NANOS_PER_MINUTE;
const HOURS_PER_DAY: u64 = 24;
/// The present hour and the same hour of the seven days before it.
const HOURS_KEPT: usize = 8 * 24;
/// Sixty minutes span sixty-one buckets, because they rarely begin on a boundary.
const MINUTES_KEPT: usize = 61;
/// Extrapolation assumes at least this much observed time: three seconds of a busy start are no forecast.
const MIN_OBSERVED: u64 = 5 * NANOS_PER_MINUTE;
/// Clock divergence up to this is drift; beyond it, the wall clock was set.
const MAX_DRIFT: u64 = NANOS_PER_MINUTE;

/// Index of a span in a ring buffer of `SPANS`.
fn ring_index<const SPANS: usize>(span: u64) -> usize {
    usize::try_from(span % SPANS as u64).unwrap_or(0)
}

/// Ring buffer of sums per minute.
#[derive(Clone, Debug)]
struct MinuteRing {
    sums: [Money; MINUTES_KEPT],
    latest: u64,
}

impl MinuteRing {
    fn new(latest: u64) -> Self {
        Self { sums: [Money::ZERO; MINUTES_KEPT], latest }
    }

    /// Advances to `minute`, clearing the buckets that it reuses, and adds to it.
    fn add(&mut self, amount: Money, minute: u64) {
        if minute.saturating_sub(self.latest) >= MINUTES_KEPT as u64 {
            self.sums = [Money::ZERO; MINUTES_KEPT];
            self.latest = minute;
        }
        while self.latest < minute {
            self.latest += 1;
            self.sums[ring_index::<MINUTES_KEPT>(self.latest)] = Money::ZERO;
        }
        let sum = &mut self.sums[ring_index::<MINUTES_KEPT>(self.latest)];
        *sum = sum.saturating_add(amount);
    }

    /// The sum of a minute, or zero if it is no longer kept.
    fn of(&self, minute: u64) -> Money {
        let is_kept = minute <= self.latest && self.latest - minute < MINUTES_KEPT as u64;
        if is_kept { self.sums[ring_index::<MINUTES_KEPT>(minute)] } else { Money::ZERO }
    }
}

/// The cost of one wall-clock hour.
#[derive(Clone, Copy, Debug, Default)]
struct Hour {
    /// Hours since 1970.
    number: u64,
    cost: Money,
    /// Observed from beginning to end.
    is_complete: bool,
}

/// Ring buffer of wall-clock hours, indexed by hour number, so that a clock set back finds its hour again.
#[derive(Clone, Debug)]
struct HourRing {
    hours: [Hour; HOURS_KEPT],
    current: u64,
    seen: Now,
}

impl HourRing {
    fn new(now: Now) -> Self {
        let current = now.utc.as_nanos() / NANOS_PER_HOUR;
        let mut hours = Self { hours: [Hour::default(); HOURS_KEPT], current, seen: now };
        hours.begin(current, now.utc.as_nanos().is_multiple_of(NANOS_PER_HOUR));
        hours
    }

    fn begin(&mut self, number: u64, is_complete: bool) {
        self.hours[ring_index::<HOURS_KEPT>(number)] = Hour { number, cost: Money::ZERO, is_complete };
        self.current = number;
    }

    fn add(&mut self, amount: Money, now: Now) {
        self.advance(now);
        let hour = &mut self.hours[ring_index::<HOURS_KEPT>(self.current)];
        hour.cost = hour.cost.saturating_add(amount);
    }

    fn advance(&mut self, now: Now) {
        let number = now.utc.as_nanos() / NANOS_PER_HOUR;
        let expected = self.seen.utc.as_nanos().saturating_add(nanos(now.monotonic - self.seen.monotonic));
        let was_set = expected.abs_diff(now.utc.as_nanos()) > MAX_DRIFT;
        // A slightly late timestamp counts towards the present hour.
        if was_set || number > self.current {
            self.seen = now;
        }
        if was_set {
            self.hours[ring_index::<HOURS_KEPT>(self.current)].is_complete = false;
            if number != self.current {
                self.begin(number, false);
            }
            return;
        }
        // Hours without any record cost nothing.
        let first = self.current.max(number.saturating_sub(HOURS_KEPT as u64));
        for number in first.saturating_add(1)..=number {
            self.begin(number, true);
        }
    }

    /// The cost of an hour that was observed in full and has ended.
    fn complete_hour(&self, number: u64) -> Option<Money> {
        let hour = self.hours[ring_index::<HOURS_KEPT>(number)];
        (hour.number == number && hour.is_complete && number != self.current).then_some(hour.cost)
    }
}

/// Measures how fast a budget is spent: rate, projection and the usual cost of an hour.
#[derive(Clone, Debug)]
pub struct SpendPace {
    began: Timestamp,
    minutes: MinuteRing,
    hours: HourRing,
}

impl SpendPace {
    /// Starts with nothing spent.
    #[must_use]
    pub fn new(now: Now) -> Self {
        let minute = now.monotonic.as_nanos() / NANOS_PER_MINUTE;
        Self { began: now.monotonic, minutes: MinuteRing::new(minute), hours: HourRing::new(now) }
    }

    /// Records spend. An amount of zero is meaningful: it records that time has passed.
    pub fn record(&mut self, amount: Money, now: Now) {
        self.minutes.add(amount, now.monotonic.as_nanos() / NANOS_PER_MINUTE);
        self.hours.add(amount, now);
    }

    /// Spend of the sixty minutes before `now`. The first minute counts in proportion to its overlap.
    #[must_use]
    pub fn last_hour(&self, now: Timestamp) -> Money {
        let minute = now.as_nanos() / NANOS_PER_MINUTE;
        let into_minute = now.as_nanos() % NANOS_PER_MINUTE;
        let complete_minutes: Money =
            (minute.saturating_sub(59)..=minute).map(|minute| self.minutes.of(minute)).sum();
        let first = minute.checked_sub(60).map_or(Money::ZERO, |minute| self.minutes.of(minute));
        complete_minutes.saturating_add(part(first, NANOS_PER_MINUTE - into_minute, NANOS_PER_MINUTE))
    }

    /// The hourly spend rate. With less than an hour observed, the observed part is extrapolated.
    #[must_use]
    pub fn hourly_rate(&self, now: Timestamp) -> Money {
        let observed = nanos(now - self.began).clamp(MIN_OBSERVED, NANOS_PER_HOUR);
        part(self.last_hour(now), NANOS_PER_HOUR, observed)
    }

    /// Projected spend of the day that has posted `posted` so far: the larger of the forecast by the last hour's rate
    /// and the forecast by the same hours of the last seven days, as far as these are known.
    #[must_use]
    pub fn projected(&self, posted: Money, now: Now) -> Money {
        let rate = self.hourly_rate(now.monotonic);
        let now = now.utc;
        let midnight = UtcTime::start_of_day(now.day().saturating_add(1));
        let left = midnight.as_nanos().saturating_sub(now.as_nanos());
        let by_rate = part(rate, left, NANOS_PER_HOUR);
        let hour = now.as_nanos() / NANOS_PER_HOUR;
        let into_hour = now.as_nanos() % NANOS_PER_HOUR;
        let rest_of_hour =
            part(self.usual(hour).unwrap_or_default(), NANOS_PER_HOUR - into_hour, NANOS_PER_HOUR);
        let end = midnight.as_nanos() / NANOS_PER_HOUR;
        let later: Money = (hour.saturating_add(1)..end).filter_map(|hour| self.usual(hour)).sum();
        posted.saturating_add(by_rate.max(rest_of_hour.saturating_add(later)))
    }

    /// The usual cost of the sixty minutes before `now`: the average of the same time on the known days among the last
    /// seven. `None` while fewer than `days` are known.
    #[must_use]
    pub fn usual_hour(&self, now: UtcTime, days: u64) -> Option<Money> {
        let hour = now.as_nanos() / NANOS_PER_HOUR;
        if self.known_days(hour.saturating_sub(1)) < days.max(1) {
            return None;
        }
        let into_hour = now.as_nanos() % NANOS_PER_HOUR;
        let of_this = part(self.usual(hour)?, into_hour, NANOS_PER_HOUR);
        let of_last = part(self.usual(hour.saturating_sub(1))?, NANOS_PER_HOUR - into_hour, NANOS_PER_HOUR);
        Some(of_this.saturating_add(of_last))
    }

    /// The average cost of the same hour of the day on the seven days before.
    fn usual(&self, hour: u64) -> Option<Money> {
        let complete_hours =
            || (1..=7).filter_map(|days| self.hours.complete_hour(hour.checked_sub(days * HOURS_PER_DAY)?));
        let days = u64::try_from(complete_hours().count()).unwrap_or(0);
        let sum: Money = complete_hours().sum();
        (days > 0).then(|| Money::from_nanos(sum.as_nanos() / days))
    }

    fn known_days(&self, hour: u64) -> u64 {
        let is_known = |days: &u64| {
            hour.checked_sub(days * HOURS_PER_DAY).and_then(|hour| self.hours.complete_hour(hour)).is_some()
        };
        u64::try_from((1..=7).filter(is_known).count()).unwrap_or(0)
    }
}

/// `amount * numerator / denominator`, saturating.
fn part(amount: Money, numerator: u64, denominator: u64) -> Money {
    let product = u128::from(amount.as_nanos()) * u128::from(numerator) / u128::from(denominator.max(1));
    Money::from_nanos(u64::try_from(product).unwrap_or(u64::MAX))
}
