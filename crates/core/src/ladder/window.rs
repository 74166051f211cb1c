//! Sliding window that turns outcomes of attempts into the ladder's signals.
//!
//! Two rules apply. An attempt that we gave up on before it began counts as a time to first text above five seconds:
//! otherwise giving up would improve the measured latency. If the ladder has a higher threshold, it counts as above
//! that one, so that a shorter timeout cannot lower the vote. And a throttle is not an error: otherwise one cause
//! would vote twice and pass for two.
//!
//! Rates are shares of all attempts in the window that carry information about the target. With fewer than `min_calls`
//! attempts, the missing ones count as successful, so that two unlucky attempts at night are no emergency. Without any
//! attempt the rates are zero: at a level at which no request reaches a model, the level could otherwise never fall
//! again.

use super::slices::Slices;
use super::{Ladder, LadderSettings, LadderSignal, ReadingError};
use crate::failure::{AttemptOutcome, FailureKind, Health};
use crate::setting::{SettingError, at_least_one, positive};
use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// Resolution of the time to first text, rounded up. Every usual threshold is a multiple of it, so that rounding
/// changes no vote, as exponential buckets would.
const BUCKET: Duration = Duration::from_millis(50);
/// Number of buckets; the last one holds everything above ten seconds.
const BUCKETS: usize = 200;
/// The longest time to first text that is measured; thresholds must be below it.
pub(super) const MAX_MEASURED: Duration = Duration::from_secs(10);

/// Settings of a window before validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalWindowOptions {
    /// Length of the window.
    pub window: Duration,
    /// Minimum denominator of the rates.
    pub min_calls: u64,
    /// An attempt that we gave up on before it began counts as a time to first text above this.
    pub timed_out_counts_as: Duration,
}

impl Default for SignalWindowOptions {
    fn default() -> Self {
        Self { window: Duration::from_secs(30), min_calls: 20, timed_out_counts_as: Duration::from_secs(5) }
    }
}

/// The signals computed from a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalValues {
    /// Attempts that carry information about the target.
    pub calls: u64,
    /// p99 of the time to first text; `None` without samples.
    pub first_text: Option<Duration>,
    /// Errors other than throttles, in percent.
    pub error_percent: f64,
    /// Throttles, in percent.
    pub throttle_percent: f64,
}

impl SignalValues {
    /// Records the values on a ladder as of `now`. A signal without a value is left out: its last reading becomes
    /// stale and loses its vote.
    pub fn tell(&self, ladder: &mut Ladder, now: Timestamp) -> Result<(), ReadingError> {
        if let Some(first_text) = self.first_text {
            ladder.record(LadderSignal::FirstText, first_text.as_secs_f64() * 1_000.0, now)?;
        }
        ladder.record(LadderSignal::Errors, self.error_percent, now)?;
        ladder.record(LadderSignal::Throttles, self.throttle_percent, now)
    }
}

#[derive(Clone, Debug)]
struct SignalSlice {
    calls: u64,
    errors: u64,
    throttles: u64,
    first_texts: [u64; BUCKETS + 1],
}

impl Default for SignalSlice {
    fn default() -> Self {
        Self { calls: 0, errors: 0, throttles: 0, first_texts: [0; BUCKETS + 1] }
    }
}

/// Sliding window over the attempts of the last half minute, in fixed memory.
///
/// ```
/// use seawall_core::failure::{Failure, FailureKind, AttemptOutcome};
/// use seawall_core::ladder::{LadderOptions, SignalWindow, SignalWindowOptions};
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let ladder = LadderOptions::default().check().unwrap();
/// let mut window = SignalWindow::new(&SignalWindowOptions::default(), &ladder).unwrap();
/// for _ in 0..10 {
///     window.record(&AttemptOutcome::Failed(Failure::of(FailureKind::Throttled)), Timestamp::ZERO);
///     window.record(&AttemptOutcome::Failed(Failure::of(FailureKind::StartTimeout)), Timestamp::ZERO);
/// }
/// let values = window.values(Timestamp::ZERO);
/// assert_eq!((values.throttle_percent, values.error_percent), (50.0, 0.0));
/// assert!(values.first_text > Some(Duration::from_secs(5)));
/// ```
#[derive(Clone, Debug)]
pub struct SignalWindow {
    min_calls: u64,
    /// The bucket of an attempt that we gave up on.
    timed_out_bucket: usize,
    slices: Slices<SignalSlice>,
}

impl SignalWindow {
    /// An empty window for a ladder with these settings.
    pub fn new(options: &SignalWindowOptions, ladder: &LadderSettings) -> Result<Self, SettingError> {
        let timed_out_bucket = options.timed_out_counts_as.max(ladder.max_first_text());
        Ok(Self {
            min_calls: at_least_one("min_calls", options.min_calls)?,
            // A signal votes when it is strictly above a threshold, so that the bucket at the threshold would vote one
            // level lower.
            timed_out_bucket: BUCKETS.min(bucket_of(timed_out_bucket) + 1),
            slices: Slices::new(positive("window", options.window)?),
        })
    }

    /// Records how an attempt ended. Outcomes without information about the target are ignored.
    pub fn record(&mut self, outcome: &AttemptOutcome, now: Timestamp) {
        let health = outcome.health(Duration::MAX);
        if health == Health::Unknown {
            return;
        }
        let timed_out_bucket = self.timed_out_bucket;
        let slice = self.slices.current(now);
        slice.calls += 1;
        let first_text = match outcome {
            AttemptOutcome::Succeeded { time_to_first_content: first_content_after } => {
                Some(bucket_of(*first_content_after))
            }
            _ if health == Health::TimedOut => Some(timed_out_bucket),
            _ => None,
        };
        if let Some(grain) = first_text {
            slice.first_texts[grain] += 1;
        }
        if is_throttle(outcome) {
            slice.throttles += 1;
        } else if health == Health::Bad {
            slice.errors += 1;
        }
    }

    /// Computes the values. Takes `&mut self` only to drop expired slices.
    pub fn values(&mut self, now: Timestamp) -> SignalValues {
        let mut sum = SignalSlice::default();
        for slice in self.slices.all(now) {
            sum.calls += slice.calls;
            sum.errors += slice.errors;
            sum.throttles += slice.throttles;
            for (total, count) in sum.first_texts.iter_mut().zip(&slice.first_texts) {
                *total += count;
            }
        }
        let percent = |part: u64| part as f64 * 100.0 / sum.calls.max(self.min_calls) as f64;
        SignalValues {
            calls: sum.calls,
            first_text: p99(&sum.first_texts),
            error_percent: percent(sum.errors),
            throttle_percent: percent(sum.throttles),
        }
    }
}

/// The vendor limits us, briefly or for longer. A vendor without capacity for any client counts as an error instead.
fn is_throttle(outcome: &AttemptOutcome) -> bool {
    let AttemptOutcome::Failed(failure) = outcome else { return false };
    matches!(failure.kind, FailureKind::Throttled | FailureKind::QuotaExhausted)
}

fn bucket_of(first_text: Duration) -> usize {
    let grain = nanos(first_text).div_ceil(nanos(BUCKET));
    usize::try_from(grain).unwrap_or(BUCKETS).min(BUCKETS)
}

fn p99(grains: &[u64; BUCKETS + 1]) -> Option<Duration> {
    let total: u64 = grains.iter().sum();
    let rank = total.saturating_mul(99).div_ceil(100);
    let mut seen = 0;
    let grain = grains.iter().zip(0_u32..).find(|(count, _)| {
        seen += **count;
        seen >= rank && seen > 0
    });
    grain.map(|(_, grain)| BUCKET * grain)
}
