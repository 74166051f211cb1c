//! Retry throttling by failures against successes, as in gRPC.

use crate::setting::{SettingError, at_least_one};

/// Counts a target's failures against its successes: each failure takes one credit, each success returns a part of one,
/// and retries stop while the level is at or below half of the maximum.
///
/// Simpler than a [`RetryBudget`](super::RetryBudget) and without a clock: the retry throttling of gRPC clients.
///
/// ```
/// use seawall_core::credit::FailureThrottle;
///
/// let mut throttle = FailureThrottle::new(4, 1.6).unwrap();
/// assert!(throttle.record_failure());
/// assert!(!throttle.record_failure());
/// throttle.record_success();
/// assert!(throttle.record_failure());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureThrottle {
    /// In thousandths, like `level`.
    max_credits: u32,
    per_success: u32,
    level: u32,
}

impl FailureThrottle {
    /// Starts full, with `max_credits` credits (at most 1,000); a success returns `per_success`, to three decimals.
    pub fn new(max_credits: u32, per_success: f64) -> Result<Self, SettingError> {
        at_least_one("max_credits", max_credits.into())?;
        if max_credits > 1_000 {
            return Err(SettingError::new("max_credits", format!("{max_credits} is more than 1000")));
        }
        let thousandths = (per_success * 1_000.0).round();
        if !(1.0..=1_000_000.0).contains(&thousandths) {
            let problem = format!("{per_success} is not between 0.001 and 1000");
            return Err(SettingError::new("per_success", problem));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "1 to 1,000,000 by the check above"
        )]
        let per_success = thousandths as u32;
        Ok(Self { max_credits: max_credits * 1_000, per_success, level: max_credits * 1_000 })
    }

    /// Records a failure and returns whether a retry is allowed. Only for failures that the target caused.
    pub fn record_failure(&mut self) -> bool {
        self.level = self.level.saturating_sub(1_000);
        self.level > self.max_credits / 2
    }

    /// Records a success.
    pub fn record_success(&mut self) {
        self.level = self.level.saturating_add(self.per_success).min(self.max_credits);
    }

    /// Credits left.
    #[must_use]
    pub fn level(&self) -> f64 {
        f64::from(self.level) / 1_000.0
    }

    /// The same fill level under other settings.
    #[must_use]
    pub fn resized(&self, settings: &Self) -> Self {
        let level = u64::from(self.level) * u64::from(settings.max_credits) / u64::from(self.max_credits);
        Self { level: u32::try_from(level).unwrap_or(settings.max_credits), ..settings.clone() }
    }
}
