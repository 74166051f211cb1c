//! The retry budget: how many retries a node may add to the load of its callers.
//!
//! **Why a budget and not only a maximum per request?** A maximum per request does not help when every request fails:
//! three retries each make four times the load, on a target that is already down. A budget bounds the sum. Each first
//! attempt deposits a fraction of a credit, each retry and each hedge withdraws one, and when none is left there are no
//! retries.
//!
//! There are three gates. Each is optional, and all that are configured must agree:
//! - a **ratio**: retries within a window are at most a share of the first attempts in it. A few may always be in
//!   flight, or a node with little traffic could never retry;
//! - a **rate cap**: at most this many retries of this node in the cap's period;
//! - a **token bucket** that successes refill. A timeout takes more from it than a throttle, because it has cost more.
//!
//! A [`Credit`] is an RAII value. Dropping it spends it; if its attempt succeeds, the bucket is refilled by its cost.

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

/// What a credit is withdrawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditUse {
    /// A retry after a failure of this kind.
    Retry(FailureKind),
    /// A hedge: a second attempt in parallel to the first.
    Hedge,
}

/// The gate that refused a credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditRefusal {
    /// Too many retries for the number of first attempts.
    Ratio,
    /// Too many retries within the rate cap's period.
    RateCap,
    /// The bucket is empty.
    Bucket,
}

/// Unchecked settings of the ratio gate.
#[derive(Clone, Debug, PartialEq)]
pub struct RatioOptions {
    /// The retries allowed per first attempts, in percent.
    pub percent: f64,
    /// The window over which both are counted: 1 s to 60 s.
    pub window: Duration,
    /// This many retries may be in flight whatever the ratio is.
    pub min_concurrency: u32,
    /// Retries per second on top of the ratio.
    pub min_per_second: u32,
}

/// Unchecked settings of a retry budget; [`RetryBudget::new`] validates them.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryBudgetOptions {
    /// The ratio gate; `None` to leave it out.
    pub ratio: Option<RatioOptions>,
    /// The rate cap: at most this many retries in any period of this length.
    pub rate_cap: Option<(u32, Duration)>,
    /// The bucket gate; `None` to leave it out.
    pub bucket: Option<BucketOptions>,
    /// The cost of a retry by kind of failure.
    pub costs: CreditCosts,
}

impl Default for RetryBudgetOptions {
    /// 20 % of the first attempts over ten seconds, three always in flight, and at most a hundred per minute.
    fn default() -> Self {
        Self {
            ratio: Some(RatioOptions {
                percent: 20.0,
                window: Duration::from_secs(10),
                min_concurrency: 3,
                min_per_second: 0,
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
    min_concurrency: u32,
    /// Retries on top of the ratio, over the whole window.
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

/// A retry budget shared between threads. Clones are handles to the same budget.
///
/// A deposit, which every request makes, takes no lock. A withdrawal, which only failures make, takes one, so that no
/// two can spend the same credit.
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

/// The right to make one more attempt. Dropping it spends it.
#[derive(Debug)]
#[must_use = "dropping a credit spends it"]
pub struct Credit {
    budget: RetryBudget,
    cost: u32,
}

impl RetryBudget {
    /// Creates an unspent budget; fails on invalid settings.
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

    /// Counts a first attempt.
    pub fn deposit(&self, now: Timestamp) {
        if let Some(gate) = &self.0.ratio {
            gate.first_attempts.add(1, now);
        }
    }

    /// Counts a first attempt that succeeded, which refills the bucket by one credit.
    pub fn record_first_attempt_success(&self) {
        if let Some(bucket) = &mut lock(&self.0.spending).bucket {
            bucket.refill(1);
        }
    }

    /// Whether a credit would be granted now. Withdraws nothing, and guarantees nothing under concurrent withdrawals.
    pub fn would_grant(&self, purpose: CreditUse, now: Timestamp) -> Result<(), CreditRefusal> {
        self.check(&lock(&self.0.spending), self.0.costs.of(purpose), now)
    }

    /// Withdraws the cost of one more attempt from every gate, or from none.
    pub fn withdraw(&self, purpose: CreditUse, now: Timestamp) -> Result<Credit, CreditRefusal> {
        let cost = self.0.costs.of(purpose);
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

    /// Credits whose attempts are in flight.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        lock(&self.0.spending).in_flight
    }

    /// The bucket's level, if there is a bucket.
    #[must_use]
    pub fn bucket_level(&self) -> Option<u32> {
        lock(&self.0.spending).bucket.as_ref().map(Bucket::level)
    }
}

impl RatioGate {
    fn new(options: &RatioOptions) -> Result<Self, SettingError> {
        let RatioOptions { percent, window, min_concurrency, min_per_second } = options;
        if *window < Duration::from_secs(1) || *window > Duration::from_secs(60) {
            return Err(SettingError::new("window", format!("{window:?} is not between 1s and 60s")));
        }
        let reserve = u128::from(*min_per_second) * window.as_millis() / 1_000;
        Ok(Self {
            ratio: Ratio::percent("percent", *percent)?,
            min_concurrency: *min_concurrency,
            reserve: u64::try_from(reserve).unwrap_or(u64::MAX),
            first_attempts: Deposits::new(*window),
            retries: Deposits::new(*window),
        })
    }

    fn has_room(&self, in_flight: u32, now: Timestamp) -> bool {
        if in_flight < self.min_concurrency {
            return true;
        }
        let allowed = self.ratio.of(self.first_attempts.sum(now)).saturating_add(self.reserve);
        self.retries.sum(now) < allowed
    }
}

impl Credit {
    /// Refills the bucket by the credit's cost, because the attempt succeeded.
    pub fn record_success(self) {
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
        at_least_one("costs.standard", self.standard.into())?;
        at_least_one("costs.throttled", self.throttled.into())?;
        at_least_one("costs.timed_out", self.timed_out.into())?;
        Ok(())
    }
}
