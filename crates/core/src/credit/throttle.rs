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
/// assert!(throttle.failed());
/// assert!(!throttle.failed());
/// throttle.succeeded();
/// assert!(throttle.failed());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureThrottle {
    /// In thousandths, like `level`.
    most: u32,
    per_success: u32,
    level: u32,
}

impl FailureThrottle {
    /// Starts full, with `most` credits (at most 1,000); a success returns `per_success`, to three decimals.
    pub fn new(most: u32, per_success: f64) -> Result<Self, SettingError> {
        at_least_one("most", most.into())?;
        if most > 1_000 {
            return Err(SettingError::new("most", format!("{most} is more than 1000")));
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
        Ok(Self { most: most * 1_000, per_success, level: most * 1_000 })
    }

    /// Records a failure and returns whether a retry is allowed. Only for failures that the target caused.
    pub fn failed(&mut self) -> bool {
        self.level = self.level.saturating_sub(1_000);
        self.level > self.most / 2
    }

    /// Records a success.
    pub fn succeeded(&mut self) {
        self.level = self.level.saturating_add(self.per_success).min(self.most);
    }

    /// Credits left.
    #[must_use]
    pub fn level(&self) -> f64 {
        f64::from(self.level) / 1_000.0
    }

    /// The same fill level under other settings.
    #[must_use]
    pub fn resized(&self, settings: &Self) -> Self {
        let level = u64::from(self.level) * u64::from(settings.most) / u64::from(self.most);
        Self { level: u32::try_from(level).unwrap_or(settings.most), ..settings.clone() }
    }
}
