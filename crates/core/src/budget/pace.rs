//! How fast money goes.
//!
//! Keeps what was spent in each of the last sixty minutes, and in each hour of the last eight days. From these come the
//! rate of the last hour, where the day will end at that rate, and whether this hour is out of the ordinary.
//!
//! Time is the calendar's, because hours of the day are compared. A clock that is set back adds to the latest minute it
//! has seen; one that is set forward makes the last hour look idle, which it is once the hour has passed.

use crate::money::Money;
use crate::time::UtcTime;

const NANOS_PER_MINUTE: u64 = 60_000_000_000;
const NANOS_PER_HOUR: u64 = 60 * NANOS_PER_MINUTE;
const HOURS_PER_DAY: u64 = 24;
/// The present hour and the same hour of the seven days before it.
const HOURS_KEPT: u64 = 8 * HOURS_PER_DAY;
/// Below this much of a known hour its rate is not stretched further: three seconds of a busy start are no forecast.
const LEAST_KNOWN: u64 = 5 * NANOS_PER_MINUTE;

/// Sums by consecutive spans of time, the latest few of them.
#[derive(Clone, Debug)]
struct Ring<const SPANS: usize> {
    sums: [Money; SPANS],
    /// The number of the latest span.
    latest: u64,
}

impl<const SPANS: usize> Ring<SPANS> {
    fn new(latest: u64) -> Self {
        Self { sums: [Money::ZERO; SPANS], latest }
    }

    fn place(span: u64) -> usize {
        usize::try_from(span % SPANS as u64).unwrap_or(0)
    }

    /// Moves on to `span`, forgetting what it replaces.
    fn advance(&mut self, span: u64) {
        if span.saturating_sub(self.latest) >= SPANS as u64 {
            self.sums = [Money::ZERO; SPANS];
            self.latest = span;
        }
        while self.latest < span {
            self.latest += 1;
            self.sums[Self::place(self.latest)] = Money::ZERO;
        }
    }

    fn add(&mut self, amount: Money) {
        let sum = &mut self.sums[Self::place(self.latest)];
        *sum = sum.saturating_add(amount);
    }

    /// The sum of a span that is still kept.
    fn of(&self, span: u64) -> Option<Money> {
        (span <= self.latest && self.latest - span < SPANS as u64).then(|| self.sums[Self::place(span)])
    }
}

/// How fast money goes.
#[derive(Clone, Debug)]
pub struct SpendPace {
    began: UtcTime,
    minutes: Ring<60>,
    hours: Ring<{ 8 * 24 }>,
}

impl SpendPace {
    /// Nothing spent yet.
    #[must_use]
    pub fn new(now: UtcTime) -> Self {
        Self {
            began: now,
            minutes: Ring::new(now.as_nanos() / NANOS_PER_MINUTE),
            hours: Ring::new(now.as_nanos() / NANOS_PER_HOUR),
        }
    }

    /// Spent this much. Nothing is an amount, too: it says that time has passed.
    pub fn record(&mut self, amount: Money, now: UtcTime) {
        self.minutes.advance(now.as_nanos() / NANOS_PER_MINUTE);
        self.hours.advance(now.as_nanos() / NANOS_PER_HOUR);
        self.minutes.add(amount);
        self.hours.add(amount);
    }

    /// What was spent in the sixty minutes up to the present one.
    #[must_use]
    pub fn last_hour(&self, now: UtcTime) -> Money {
        let minute = now.as_nanos() / NANOS_PER_MINUTE;
        (minute.saturating_sub(59)..=minute).filter_map(|minute| self.minutes.of(minute)).sum()
    }

    /// What an hour comes to at the rate of the last one. While less than an hour is known, what is known is stretched.
    #[must_use]
    pub fn hourly_rate(&self, now: UtcTime) -> Money {
        let known = now.as_nanos().saturating_sub(self.began.as_nanos()).clamp(LEAST_KNOWN, NANOS_PER_HOUR);
        part(self.last_hour(now), NANOS_PER_HOUR, known)
    }

    /// Where the day ends that has cost `posted` so far: the larger of what the last hour's rate brings and what the same
    /// hours of the last seven days brought, as far as they are known.
    #[must_use]
    pub fn projected(&self, posted: Money, now: UtcTime) -> Money {
        let midnight = UtcTime::start_of_day(now.day().saturating_add(1));
        let left = midnight.as_nanos().saturating_sub(now.as_nanos());
        let by_rate = part(self.hourly_rate(now), left, NANOS_PER_HOUR);
        let hour = now.as_nanos() / NANOS_PER_HOUR;
        let into_hour = now.as_nanos() % NANOS_PER_HOUR;
        let rest_of_hour =
            part(self.usual(hour).unwrap_or_default(), NANOS_PER_HOUR - into_hour, NANOS_PER_HOUR);
        let end = midnight.as_nanos() / NANOS_PER_HOUR;
        let later: Money = (hour.saturating_add(1)..end).filter_map(|hour| self.usual(hour)).sum();
        posted.saturating_add(by_rate.max(rest_of_hour.saturating_add(later)))
    }

    /// What the sixty minutes up to now usually cost: the average of the same time on those of the last seven days that
    /// are known. `None` while fewer than `days` are.
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

    /// The average of this hour's hour of the day on the seven days before it.
    fn usual(&self, hour: u64) -> Option<Money> {
        let known = || (1..=7).filter_map(|days| self.known(hour.checked_sub(days * HOURS_PER_DAY)?));
        let days = u64::try_from(known().count()).unwrap_or(0);
        let sum: Money = known().sum();
        (days > 0).then(|| Money::from_nanos(sum.as_nanos() / days))
    }

    fn known_days(&self, hour: u64) -> u64 {
        let known =
            |days: &u64| hour.checked_sub(days * HOURS_PER_DAY).and_then(|hour| self.known(hour)).is_some();
        u64::try_from((1..=7).filter(known).count()).unwrap_or(0)
    }

    /// What a whole hour cost that we have seen from its beginning to its end.
    fn known(&self, hour: u64) -> Option<Money> {
        let was_seen =
            hour.saturating_mul(NANOS_PER_HOUR) >= self.began.as_nanos() && hour < self.hours.latest;
        if was_seen { self.hours.of(hour) } else { None }
    }
}

/// `amount × numerator ÷ denominator`, at most the largest amount.
fn part(amount: Money, numerator: u64, denominator: u64) -> Money {
    let product = u128::from(amount.as_nanos()) * u128::from(numerator) / u128::from(denominator.max(1));
    Money::from_nanos(u64::try_from(product).unwrap_or(u64::MAX))
}

const _: () = assert!(HOURS_KEPT == 8 * 24, "the ring of hours holds a week and a day");
