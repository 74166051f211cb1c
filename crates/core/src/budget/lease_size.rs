//! Sizes a node's lease and decides when to ask for more.

use crate::money::Money;
use crate::random::Draw;
use crate::setting::{SettingError, at_least_one, positive};
use crate::time::{UtcTime, nanos};
use std::time::Duration;

/// How much budget a node keeps on lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSizeOptions {
    /// The lease covers this much time at the present spend rate.
    pub forecast: Duration,
    /// The lease covers at least this many requests at their maximum cost.
    pub requests: u64,
    /// The first lease of the next day is requested within this time before midnight, at a random moment per node, so
    /// that the nodes do not all ask at once.
    pub prefetch: Duration,
    /// A node stops spending a lease this long before its end, because clocks run at different speeds.
    pub expiry_margin: Duration,
}

impl Default for LeaseSizeOptions {
    fn default() -> Self {
        let [forecast, prefetch, expiry_margin] = [15, 60, 1].map(Duration::from_secs);
        Self { forecast, requests: 4, prefetch, expiry_margin }
    }
}

/// Validated [`LeaseSizeOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSize(LeaseSizeOptions);

impl LeaseSizeOptions {
    /// Fails on settings that would allow an empty lease.
    pub fn check(self) -> Result<LeaseSize, SettingError> {
        positive("forecast", self.forecast)?;
        at_least_one("requests", self.requests)?;
        positive("prefetch", self.prefetch)?;
        Ok(LeaseSize(self))
    }
}

impl LeaseSize {
    /// The amount to keep on lease, given the spend of the last hour and the maximum cost of the most expensive
    /// request.
    #[must_use]
    pub fn target(&self, last_hour: Money, max_cost: Money) -> Money {
        const HOUR: u128 = 3_600_000_000_000;
        let spend = u128::from(last_hour.as_nanos()) * u128::from(nanos(self.0.forecast)) / HOUR;
        let expected_spend = Money::from_nanos(u64::try_from(spend).unwrap_or(u64::MAX));
        expected_spend.max(Money::from_nanos(max_cost.as_nanos().saturating_mul(self.0.requests)))
    }

    /// How long before its end a lease must no longer be spent.
    #[must_use]
    pub const fn expiry_margin(&self) -> Duration {
        self.0.expiry_margin
    }

    /// The amount to ask for on top of the grant, with `available` left: refills to the target once more than half of it is
    /// used, and is `None` before that.
    #[must_use]
    pub fn refill(&self, available: Money, target: Money) -> Option<Money> {
        let half = Money::from_nanos(target.as_nanos().div_ceil(2));
        (available < half).then(|| target.saturating_sub(available))
    }

    /// When to ask for the first lease of the day after `now`.
    #[must_use]
    pub fn first_request_at(&self, now: UtcTime, draw: Draw) -> UtcTime {
        let midnight = UtcTime::start_of_day(now.day().saturating_add(1));
        let before = draw.between(Duration::ZERO, self.0.prefetch);
        UtcTime::from_nanos(midnight.as_nanos().saturating_sub(nanos(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Draw, LeaseSizeOptions, Money, UtcTime};
    use std::time::Duration;

    #[test]
    fn a_lease_is_fifteen_seconds_of_spend_or_four_requests() {
        let size = LeaseSizeOptions::default().check().unwrap();
        let (dollar, worst) = (Money::from_dollars(1), Money::from_nanos(27_360_000));
        assert_eq!(size.target(Money::from_dollars(240), worst), dollar);
        assert_eq!(size.target(Money::from_dollars(24), worst), Money::from_nanos(109_440_000));
        assert_eq!(size.target(Money::MAX, Money::MAX), Money::MAX);
        assert_eq!(size.expiry_margin(), Duration::from_secs(1));
    }

    #[test]
    fn more_is_asked_for_when_half_is_gone() {
        let size = LeaseSizeOptions::default().check().unwrap();
        let nanos = Money::from_nanos;
        assert_eq!(size.refill(nanos(5), nanos(10)), None);
        assert_eq!(size.refill(nanos(4), nanos(10)), Some(nanos(6)));
        assert_eq!(size.refill(nanos(0), nanos(1)), Some(nanos(1)));
        assert_eq!(size.refill(nanos(0), nanos(0)), None);
    }

    #[test]
    fn the_next_day_is_asked_for_in_the_last_minute_at_different_moments() {
        let size = LeaseSizeOptions::default().check().unwrap();
        let noon = UtcTime::from_civil(2026, 11, 15) + Duration::from_secs(43_200);
        let midnight = UtcTime::from_civil(2026, 11, 16);
        let asks = [0, u64::MAX / 2, u64::MAX]
            .map(|bits| midnight.since(size.first_request_at(noon, Draw::from_bits(bits))));
        assert!(asks.iter().all(|before| *before <= Duration::from_secs(60)), "{asks:?}");
        assert!(asks[0] != asks[1] && asks[1] != asks[2]);
        assert_eq!(size.first_request_at(midnight, Draw::from_bits(0)).day(), midnight.day() + 1);
    }

    #[test]
    fn a_lease_of_nothing_is_refused() {
        let options = LeaseSizeOptions::default();
        let problem = |options: LeaseSizeOptions| options.check().unwrap_err().to_string();
        assert_eq!(
            problem(LeaseSizeOptions { forecast: Duration::ZERO, ..options }),
            "forecast: must be longer than 0s"
        );
        assert_eq!(problem(LeaseSizeOptions { requests: 0, ..options }), "requests: must be at least 1");
        assert_eq!(
            problem(LeaseSizeOptions { prefetch: Duration::ZERO, ..options }),
            "prefetch: must be longer than 0s"
        );
    }
}
