//! Availability of the intent classifier.
//!
//! **When it acts.** More than one failure in a hundred over the last minute marks the classifier as unavailable; as
//! soon as the minute holds no more than that, it is available again. With fewer calls than `min_calls`, the missing
//! ones count as successful, so that the first failure of a quiet night is no outage.
//!
//! **What it does not do.** It has no vote on the ladder.

use super::slices::Slices;
use crate::setting::{Ratio, SettingError, at_least_one, positive};
use crate::time::Timestamp;
use std::time::Duration;

/// Settings of the watch before validation.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierOptions {
    /// Length of the sliding window.
    pub window: Duration,
    /// Failure rate, in percent, above which the classifier is unavailable.
    pub failure_percent: f64,
    /// Minimum denominator of the failure rate.
    pub min_calls: u64,
}

impl Default for ClassifierOptions {
    fn default() -> Self {
        Self { window: Duration::from_secs(60), failure_percent: 1.0, min_calls: 100 }
    }
}

/// Tracks the failure rate of the intent classifier.
///
/// ```
/// use seawall_core::ladder::{ClassifierOptions, ClassifierWatch};
/// use seawall_core::time::Timestamp;
///
/// let mut watch = ClassifierWatch::new(&ClassifierOptions::default()).unwrap();
/// for call in 0..100 {
///     watch.record(call % 50 == 0, Timestamp::ZERO);
/// }
/// assert!(watch.is_unavailable(Timestamp::ZERO));
/// ```
#[derive(Clone, Debug)]
pub struct ClassifierWatch {
    failure: Ratio,
    min_calls: u64,
    /// Calls, and failures among them.
    slices: Slices<(u64, u64)>,
}

impl ClassifierWatch {
    /// A watch without any calls recorded.
    pub fn new(options: &ClassifierOptions) -> Result<Self, SettingError> {
        Ok(Self {
            failure: Ratio::percent("failure_percent", options.failure_percent)?,
            min_calls: at_least_one("min_calls", options.min_calls)?,
            slices: Slices::new(positive("window", options.window)?),
        })
    }

    /// Records the result of a classifier call.
    pub fn record(&mut self, failed: bool, now: Timestamp) {
        let (calls, failures) = self.slices.current(now);
        *calls += 1;
        *failures += u64::from(failed);
    }

    /// Whether the failure rate is above the limit. Takes `&mut self` only to drop expired slices.
    pub fn is_unavailable(&mut self, now: Timestamp) -> bool {
        let add = |sum: (u64, u64), slice: &(u64, u64)| (sum.0 + slice.0, sum.1 + slice.1);
        let (calls, failures) = self.slices.all(now).iter().fold((0, 0), add);
        self.failure.is_exceeded_by(failures, calls.max(self.min_calls))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClassifierOptions, ClassifierWatch};
    use crate::time::Timestamp;
    use std::time::Duration;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_secs(seconds)
    }

    fn watch() -> ClassifierWatch {
        ClassifierWatch::new(&ClassifierOptions::default()).unwrap()
    }

    #[test]
    fn two_failures_in_a_hundred_are_too_many_until_it_has_recovered() {
        let mut watch = watch();
        let mut seen = vec![];
        // Ten calls a second: two of a hundred fail for a minute, then none.
        for second in 0..180 {
            for call in 0..10 {
                watch.record(second < 60 && second % 5 == 0 && call == 0, at(second));
            }
            seen.push(watch.is_unavailable(at(second)));
        }
        assert!(!seen[0], "one failure of the first ten is no outage");
        assert!(seen[10..60].iter().all(|unavailable| *unavailable));
        assert!(!seen[120] && seen[120..].iter().all(|unavailable| !unavailable));
    }

    #[test]
    fn one_in_a_hundred_is_not_too_many_and_one_more_is() {
        for (calls, failures, unavailable) in [
            (100, 1, false),
            (100, 2, true),
            (1_000, 10, false),
            (1_000, 11, true),
            (5, 1, false),
            (5, 2, true),
        ] {
            let mut watch = watch();
            for call in 0..calls {
                watch.record(call < failures, at(0));
            }
            assert_eq!(watch.is_unavailable(at(0)), unavailable, "{failures} of {calls}");
            assert_eq!(watch.is_unavailable(at(59)), unavailable);
            assert!(!watch.is_unavailable(at(60)));
        }
    }

    #[test]
    fn numbers_that_make_no_sense_are_refused_by_name() {
        let usual = ClassifierOptions::default;
        for (options, setting) in [
            (ClassifierOptions { window: Duration::ZERO, ..usual() }, "window"),
            (ClassifierOptions { failure_percent: f64::NAN, ..usual() }, "failure_percent"),
            (ClassifierOptions { min_calls: 0, ..usual() }, "min_calls"),
        ] {
            assert_eq!(ClassifierWatch::new(&options).unwrap_err().setting(), setting);
        }
    }
}
