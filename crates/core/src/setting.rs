//! Validated setting types.
//!
//! Every machine is built from validated settings. An invalid setting is rejected at construction, with an error that
//! names the setting, the given value and what would be accepted.

use crate::money::Money;
use std::fmt;
use std::time::Duration;

/// Why a setting is invalid.
///
/// ```
/// use seawall_core::setting::Ratio;
///
/// let error = Ratio::percent("failure_rate", 120.0).unwrap_err();
/// assert_eq!(error.to_string(), "failure_rate: 120% is more than 100%");
/// assert_eq!(error.setting(), "failure_rate");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct SettingError {
    setting: &'static str,
    problem: String,
}

impl SettingError {
    /// The error that `setting` is invalid because of `problem`.
    #[must_use]
    pub fn new(setting: &'static str, problem: impl Into<String>) -> Self {
        Self { setting, problem: problem.into() }
    }

    /// The setting that is invalid.
    #[must_use]
    pub fn setting(&self) -> &'static str {
        self.setting
    }

    /// What is wrong with the setting.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

/// A share of a whole: above 0 %, at most 100 %. Stored in millionths, so that comparing "failures out of calls" with
/// it is exact integer arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u32);

impl Ratio {
    const MILLIONTHS: u32 = 1_000_000;

    /// All of it: 100 %.
    pub const WHOLE: Self = Self(Self::MILLIONTHS);

    /// A share known at compile time.
    #[must_use]
    pub const fn of_percent<const PERCENT: u32>() -> Self {
        const { assert!(PERCENT > 0 && PERCENT <= 100, "a percentage must be between 1 and 100") };
        Self(PERCENT * 10_000)
    }

    /// A share given in percent. Fails unless it is a number above zero and at most 100.
    pub fn percent(setting: &'static str, percent: f64) -> Result<Self, SettingError> {
        if !percent.is_finite() {
            return Err(SettingError::new(setting, format!("{percent}% is not a percentage")));
        }
        if percent > 100.0 {
            return Err(SettingError::new(setting, format!("{percent}% is more than 100%")));
        }
        let millionths = (percent * 10_000.0).round();
        if millionths < 1.0 {
            return Err(SettingError::new(setting, format!("{percent}% must be more than 0%")));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "1 to 1,000,000 by the checks above"
        )]
        let millionths = millionths as u32;
        Ok(Self(millionths))
    }

    /// Whether `part` of `whole` is at least this share; false if `whole` is zero.
    #[must_use]
    pub fn is_reached_by(self, part: u64, whole: u64) -> bool {
        whole > 0 && u128::from(part) * u128::from(Self::MILLIONTHS) >= u128::from(whole) * u128::from(self.0)
    }

    /// Whether `part` of `whole` is more than this share.
    #[must_use]
    pub fn is_exceeded_by(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(Self::MILLIONTHS) > u128::from(whole) * u128::from(self.0)
    }

    /// This share of `whole`, rounded down.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        u64::try_from(u128::from(whole) * u128::from(self.0) / u128::from(Self::MILLIONTHS))
            .unwrap_or(u64::MAX)
    }

    /// The share in millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}%", f64::from(self.0) / 10_000.0)
    }
}

/// A factor on a duration or an amount, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u32);

impl Factor {
    /// The neutral factor.
    pub const ONE: Self = Self(1_000);
    const MAX: f64 = 1_000.0;

    /// A factor above zero and at most 1,000, with three decimals.
    pub fn new(setting: &'static str, factor: f64) -> Result<Self, SettingError> {
        let thousandths = (factor * 1_000.0).round();
        if !(1.0..=Self::MAX * 1_000.0).contains(&thousandths) {
            return Err(SettingError::new(setting, format!("{factor} is not between 0.001 and 1000")));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "1 to 1,000,000 by the check above"
        )]
        let thousandths = thousandths as u32;
        Ok(Self(thousandths))
    }

    /// A factor known at compile time.
    #[must_use]
    pub(crate) const fn of_thousandths(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// The factor in thousandths.
    #[must_use]
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    /// `amount` times this factor, rounded down to a nano-dollar.
    #[must_use]
    pub fn of(self, amount: Money) -> Money {
        let product = u128::from(amount.as_nanos()) * u128::from(self.0) / 1_000;
        Money::from_nanos(u64::try_from(product).unwrap_or(u64::MAX))
    }

    /// `duration` times this factor, rounded down to a nanosecond.
    #[must_use]
    pub fn times(self, duration: Duration) -> Duration {
        let product = duration.as_nanos().saturating_mul(u128::from(self.0)) / 1_000;
        Duration::from_nanos(u64::try_from(product).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", f64::from(self.0) / 1_000.0)
    }
}

/// Fails on a duration of zero.
pub(crate) fn positive(setting: &'static str, duration: Duration) -> Result<Duration, SettingError> {
    if duration.is_zero() {
        return Err(SettingError::new(setting, "must be longer than 0s"));
    }
    Ok(duration)
}

/// Fails on a count of zero.
pub(crate) fn at_least_one(setting: &'static str, count: u64) -> Result<u64, SettingError> {
    if count == 0 {
        return Err(SettingError::new(setting, "must be at least 1"));
    }
    Ok(count)
}

/// Fails if `smaller` is longer than `larger`.
pub(crate) fn ordered(
    smaller: (&'static str, Duration),
    larger: (&'static str, Duration),
) -> Result<(), SettingError> {
    if smaller.1 > larger.1 {
        let problem = format!("{:?} is longer than {} ({:?})", smaller.1, larger.0, larger.1);
        return Err(SettingError::new(smaller.0, problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Factor, Money, Ratio, at_least_one, ordered, positive};
    use std::time::Duration;

    fn share(percent: f64) -> Ratio {
        Ratio::percent("share", percent).unwrap()
    }

    #[test]
    fn a_percentage_out_of_range_is_rejected() {
        for (percent, problem) in [
            (f64::NAN, "share: NaN% is not a percentage"),
            (f64::INFINITY, "share: inf% is not a percentage"),
            (100.1, "share: 100.1% is more than 100%"),
            (0.0, "share: 0% must be more than 0%"),
            (-5.0, "share: -5% must be more than 0%"),
        ] {
            assert_eq!(Ratio::percent("share", percent).unwrap_err().to_string(), problem);
        }
        assert_eq!(share(100.0).millionths(), 1_000_000);
        assert_eq!(Ratio::percent("share", 0.5).unwrap().millionths(), 5_000);
        assert_eq!(share(0.0001).millionths(), 1);
        assert_eq!(share(50.0).to_string(), "50%");
    }

    #[test]
    fn a_share_is_compared_exactly_at_its_edge() {
        let half = share(50.0);
        assert!(half.is_reached_by(5, 10) && !half.is_exceeded_by(5, 10));
        assert!(!half.is_reached_by(4_999_999, 10_000_000));
        assert!(half.is_exceeded_by(5_000_001, 10_000_000));
        assert!(!half.is_reached_by(0, 0) && !half.is_exceeded_by(0, 0));
        assert!(share(100.0).is_reached_by(u64::MAX, u64::MAX));
        assert_eq!(share(20.0).of(14), 2);
        assert_eq!(share(100.0).of(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_factor_scales_and_saturates() {
        let factor = Factor::new("multiplier", 1.2).unwrap();
        assert_eq!(factor.times(Duration::from_millis(100)), Duration::from_millis(120));
        assert_eq!(factor.times(Duration::MAX), Duration::from_nanos(u64::MAX));
        assert_eq!(Factor::ONE.times(Duration::from_nanos(7)), Duration::from_nanos(7));
        assert_eq!(factor.to_string(), "1.2");
        assert_eq!(factor.of(Money::from_nanos(14)), Money::from_nanos(16));
        assert_eq!(factor.of(Money::MAX), Money::MAX);
        for wrong in [0.0, -1.0, f64::NAN, 1_000.1, 0.0004] {
            let error = Factor::new("multiplier", wrong).unwrap_err();
            assert_eq!(error.problem(), format!("{wrong} is not between 0.001 and 1000"));
        }
        assert!(Factor::new("multiplier", 1_000.0).is_ok());
    }

    #[test]
    fn zero_and_wrong_order_are_rejected_by_name() {
        let second = Duration::from_secs(1);
        assert_eq!(positive("base", Duration::ZERO).unwrap_err().to_string(), "base: must be longer than 0s");
        assert_eq!(positive("base", second), Ok(second));
        assert_eq!(positive("base", Duration::ZERO).unwrap_err().setting(), "base");
        assert_eq!(at_least_one("limit", 0).unwrap_err().to_string(), "limit: must be at least 1");
        assert_eq!(at_least_one("limit", 1), Ok(1));
        assert_eq!(ordered(("base", second), ("cap", second)), Ok(()));
        let error = ordered(("base", second * 2), ("cap", second)).unwrap_err();
        assert_eq!(error.to_string(), "base: 2s is longer than cap (1s)");
    }
}
