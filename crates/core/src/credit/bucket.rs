//! A token bucket of credits that successes refill.

use super::CreditUse;
use crate::failure::FailureKind;
use crate::setting::SettingError;

/// The cost of a retry in credits, by kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditCosts {
    /// After most failures, and for a hedge.
    pub standard: u32,
    /// After a throttle: the attempt cost the vendor next to nothing.
    pub throttled: u32,
    /// After a timeout: the attempt has already cost the most.
    pub timed_out: u32,
}

impl CreditCosts {
    /// The long-standing values of AWS clients.
    pub const CLASSIC: Self = Self { standard: 5, throttled: 5, timed_out: 10 };
    /// The values that AWS clients have used since their retry specification 2.1.
    pub const CURRENT: Self = Self { standard: 14, throttled: 5, timed_out: 14 };

    pub(super) const fn of(&self, purpose: CreditUse) -> u32 {
        match purpose {
            CreditUse::Retry(FailureKind::Throttled) => self.throttled,
            CreditUse::Retry(FailureKind::TimedOut) => self.timed_out,
            CreditUse::Retry(_) | CreditUse::Hedge => self.standard,
        }
    }
}

/// Unchecked settings of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketOptions {
    /// The credits when full, and at the start.
    pub capacity: u32,
}

impl Default for BucketOptions {
    fn default() -> Self {
        Self { capacity: 500 }
    }
}

#[derive(Debug)]
pub(super) struct Bucket {
    capacity: u32,
    level: u32,
}

impl Bucket {
    pub(super) fn new(options: &BucketOptions, costs: &CreditCosts) -> Result<Self, SettingError> {
        let most_expensive = costs.standard.max(costs.throttled).max(costs.timed_out);
        if options.capacity < most_expensive {
            let problem = format!(
                "{} is less than the cost of the most expensive retry ({most_expensive})",
                options.capacity
            );
            return Err(SettingError::new("capacity", problem));
        }
        Ok(Self { capacity: options.capacity, level: options.capacity })
    }

    pub(super) const fn level(&self) -> u32 {
        self.level
    }

    pub(super) const fn has(&self, cost: u32) -> bool {
        self.level >= cost
    }

    pub(super) fn take(&mut self, cost: u32) {
        self.level = self.level.saturating_sub(cost);
    }

    pub(super) fn refill(&mut self, credits: u32) {
        self.level = self.level.saturating_add(credits).min(self.capacity);
    }
}
