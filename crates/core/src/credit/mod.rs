//! The retry budget: how much trying again a node may add to what its callers ask for.
//!
//! Limits per request do not help when every request fails: three retries each make four times the load, on a
//! target that is already down. A budget bounds the sum. Each first attempt deposits a share of a credit, each
//! retry and each hedge withdraws one, and when there is none left nobody tries again.
//!
//! Three gates, each of which can be left out, and all of which must agree:
//! - a **ratio**: retries in the last while are at most a share of the first attempts in it, but a few may always
//!   be in flight, or a quiet node could never retry;
//! - a **rate cap**: this many in any minute, the node's part of what the fleet may do;
//! - a **bucket** that successes refill, from which a timeout takes more than a throttle, because it has cost
//!   more.
//!
//! A [`Credit`] is a value. Dropped, it is spent; if its attempt succeeds, the bucket gets it back.

mod bucket;
mod deposits;
mod throttle;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use bucket::{BucketOptions, CreditCosts};
pub use throttle::FailureThrottle;

use crate::failure::FailureKind;
use crate::quota::{SliceRing, SlidingRule};
use crate::setting::{Ratio, SettingError, at_least_one};
use crate::sync::{Arc, Mutex, lock};
use crate::time::Timestamp;
use bucket::Bucket;
use deposits::Deposits;
use std::time::Duration;

/// What a credit is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditUse {
    /// Trying again after a failure of this kind.
    Retry(FailureKind),
    /// A second attempt beside the first.
    Hedge,
}

/// Which gate refused a credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditRefusal {
    /// Too many for the first attempts there were.
    Ratio,
    /// Too many in the minute.
    RateCap,
    /// The bucket is empty.
    Bucket,
}

/// The ratio gate, as somebody wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct RatioOptions {
    /// Retries per first attempts, in percent.
    pub percent: f64,
    /// How far back both are counted: 1 s to 60 s.
    pub window: Duration,
    /// This many may be in flight whatever the share says.
    pub floor_in_flight: u32,
    /// Retries a second on top of the share.
    pub reserve_per_second: u32,
}

/// A retry budget as somebody wrote it; [`RetryBudget::new`] checks it.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryBudgetOptions {
    /// The ratio gate.
    pub ratio: Option<RatioOptions>,
    /// At most so many in any period of this length.
    pub rate_cap: Option<(u32, Duration)>,
    /// The bucket gate.
    pub bucket: Option<BucketOptions>,
    /// What each kind of failure costs.
    pub costs: CreditCosts,
}

impl Default for RetryBudgetOptions {
    /// A fifth of first attempts over ten seconds, three always, and a hundred a minute.
    fn default() -> Self {
        Self {
            ratio: Some(RatioOptions {
                percent: 20.0,
                window: Duration::from_secs(10),
                floor_in_flight: 3,
                reserve_per_second: 0,
            }),
            rate_cap: Some((100, Duration::from_secs(60))),
            bucket: None,
            costs: CreditCosts::CLASSIC,
        }
    }
}

#[derive(Debug)]
struct RatioGate {
    ratio: Ratio,
    floor_in_flight: u32,
    /// Retries on top of the share, over the whole window.
    reserve: u64,
    first_attempts: Deposits,
    retries: Deposits,
}

#[derive(Debug)]
struct Spending {
    in_flight: u32,
    rate_cap: Option<(SlidingRule, SliceRing)>,
    bucket: Option<Bucket>,
}

#[derive(Debug)]
struct Shared {
    costs: CreditCosts,
    ratio: Option<RatioGate>,
    spending: Mutex<Spending>,
}

/// A retry budget for many threads. Cloning it gives another handle to the same budget.
///
/// Depositing, which every request does, takes no lock; withdrawing, which only failures do, takes one, so that
/// no two can spend the same credit.
///
/// ```
/// use seawall_core::credit::{CreditRefusal, CreditUse, RetryBudget, RetryBudgetOptions};
/// use seawall_core::failure::FailureKind;
/// use seawall_core::time::Timestamp;
///
/// let budget = RetryBudget::new(RetryBudgetOptions::default()).unwrap();
/// let retry = CreditUse::Retry(FailureKind::Throttled);
/// let held: Vec<_> = (0..3).map(|_| budget.withdraw(retry, Timestamp::ZERO).unwrap()).collect();
/// assert_eq!(budget.withdraw(retry, Timestamp::ZERO).unwrap_err(), CreditRefusal::Ratio);
///
/// for _ in 0..20 {
///     budget.deposit(Timestamp::ZERO);
/// }
/// assert!(budget.withdraw(retry, Timestamp::ZERO).is_ok());
/// # drop(held);
/// ```
#[derive(Clone, Debug)]
pub struct RetryBudget(Arc<Shared>);

/// The right to try once more. Dropped, it is spent.
#[derive(Debug)]
#[must_use = "dropping a credit spends it"]
pub struct Credit {
    budget: RetryBudget,
    cost: u32,
}

impl RetryBudget {
    /// A budget of which nothing is spent.
    pub fn new(options: RetryBudgetOptions) -> Result<Self, SettingError> {
        let RetryBudgetOptions { ratio, rate_cap, bucket, costs } = options;
        costs.check()?;
        let rate_cap = match rate_cap {
            Some((limit, per)) => Some((SlidingRule::new(limit, per, 0)?, SliceRing::default())),
            None => None,
        };
        let ratio = ratio.map(|ratio| RatioGate::new(&ratio)).transpose()?;
        let bucket = bucket.map(|bucket| Bucket::new(&bucket, &costs)).transpose()?;
        let spending = Mutex::new(Spending { in_flight: 0, rate_cap, bucket });
        Ok(Self(Arc::new(Shared { costs, ratio, spending })))
    }

    /// Notes a first attempt.
    pub fn deposit(&self, now: Timestamp) {
        if let Some(gate) = &self.0.ratio {
            gate.first_attempts.add(1, now);
        }
    }

    /// Notes a first attempt that succeeded, which refills the bucket a little.
    pub fn first_attempt_succeeded(&self) {
        if let Some(bucket) = &mut lock(&self.0.spending).bucket {
            bucket.refill(1);
        }
    }

    /// Whether a credit would be granted now. Takes nothing, and promises nothing once others have asked.
    pub fn would_grant(&self, wanted_for: CreditUse, now: Timestamp) -> Result<(), CreditRefusal> {
        self.check(&lock(&self.0.spending), self.0.costs.of(wanted_for), now)
    }

    /// Takes what one more attempt costs from every gate, or from none.
    pub fn withdraw(&self, wanted_for: CreditUse, now: Timestamp) -> Result<Credit, CreditRefusal> {
        let cost = self.0.costs.of(wanted_for);
        let mut spending = lock(&self.0.spending);
        let spending = &mut *spending;
        self.check(spending, cost, now)?;
        if let Some((rule, ring)) = &mut spending.rate_cap {
            ring.take(rule, now, 1);
        }
        if let Some(bucket) = &mut spending.bucket {
            bucket.take(cost);
        }
        if let Some(gate) = &self.0.ratio {
            gate.retries.add(1, now);
        }
        spending.in_flight = spending.in_flight.saturating_add(1);
        Ok(Credit { budget: self.clone(), cost })
    }

    fn check(&self, spending: &Spending, cost: u32, now: Timestamp) -> Result<(), CreditRefusal> {
        if self.0.ratio.as_ref().is_some_and(|gate| !gate.has_room(spending.in_flight, now)) {
            return Err(CreditRefusal::Ratio);
        }
        if spending.bucket.as_ref().is_some_and(|bucket| !bucket.has(cost)) {
            return Err(CreditRefusal::Bucket);
        }
        if spending.rate_cap.as_ref().is_some_and(|(rule, ring)| !ring.has_room(rule, now, 1)) {
            return Err(CreditRefusal::RateCap);
        }
        Ok(())
    }

    /// Credits whose attempts are under way.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        lock(&self.0.spending).in_flight
    }

    /// What is in the bucket, if there is one.
    #[must_use]
    pub fn bucket_level(&self) -> Option<u32> {
        lock(&self.0.spending).bucket.as_ref().map(Bucket::level)
    }
}

impl RatioGate {
    fn new(options: &RatioOptions) -> Result<Self, SettingError> {
        let RatioOptions { percent, window, floor_in_flight, reserve_per_second } = options;
        if *window < Duration::from_secs(1) || *window > Duration::from_secs(60) {
            return Err(SettingError::new("window", format!("{window:?} is not between 1s and 60s")));
        }
        let reserve = u128::from(*reserve_per_second) * window.as_millis() / 1_000;
        Ok(Self {
            ratio: Ratio::percent("percent", *percent)?,
            floor_in_flight: *floor_in_flight,
            reserve: u64::try_from(reserve).unwrap_or(u64::MAX),
            first_attempts: Deposits::new(*window),
            retries: Deposits::new(*window),
        })
    }

    fn has_room(&self, in_flight: u32, now: Timestamp) -> bool {
        if in_flight < self.floor_in_flight {
            return true;
        }
        let allowed = self.ratio.of(self.first_attempts.sum(now)).saturating_add(self.reserve);
        self.retries.sum(now) < allowed
    }
}

impl Credit {
    /// The attempt succeeded: the bucket gets its credit back.
    pub fn succeeded(self) {
        if let Some(bucket) = &mut lock(&self.budget.0.spending).bucket {
            bucket.refill(self.cost);
        }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        let mut spending = lock(&self.budget.0.spending);
        spending.in_flight = spending.in_flight.saturating_sub(1);
    }
}

impl CreditCosts {
    fn check(&self) -> Result<(), SettingError> {
        at_least_one("costs.usual", self.usual.into())?;
        at_least_one("costs.throttled", self.throttled.into())?;
        at_least_one("costs.timed_out", self.timed_out.into())?;
        Ok(())
    }
}
