//! From outcomes of attempts to what the ladder reads.
//!
//! Two rules live here. An attempt that we cut because it had not begun in our own time counts as one whose first text
//! took longer than five seconds: otherwise cutting would make the measured time look good. If the ladder has a higher
//! threshold, it counts as longer than that: whoever cuts sooner must not be able to vote for less. And a throttle is no error: it would
//! vote twice, and one cause would pass for two.
//!
//! Rates are shares of all attempts in the window that say something of the target. With fewer than `min_calls` the
//! missing ones count as good, so that two unlucky attempts at night are no emergency. Without any attempt the rates are
//! nothing: at the level at which nobody is let through to a model, the way back down would otherwise be closed for good.

use super::slices::Slices;
use super::{Ladder, LadderSettings, LadderSignal, ReadingError};
use crate::failure::{FailureKind, Health, Outcome};
use crate::setting::{SettingError, at_least_one, positive};
use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// A time to the first text is known to this much, rounded up. Every usual threshold is a multiple of it, so that no
/// vote is changed by the rounding, as it would be by buckets that grow.
const GRAIN: Duration = Duration::from_millis(50);
/// What takes longer than the last grain counts as it: ten seconds.
const GRAINS: usize = 200;
/// No first text is read as longer than this, and so no threshold may be as high.
pub(super) const LONGEST_READ: Duration = Duration::from_secs(10);

/// The numbers of a window, as anybody can write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalWindowOptions {
    /// How far back it looks.
    pub window: Duration,
    /// Fewer attempts than this count as this many.
    pub min_calls: u64,
    /// An attempt that we cut before it had begun counts as longer than this to the first text.
    pub cut_counts_as: Duration,
}

impl Default for SignalWindowOptions {
    fn default() -> Self {
        Self { window: Duration::from_secs(30), min_calls: 20, cut_counts_as: Duration::from_secs(5) }
    }
}

/// What a window holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignalValues {
    /// Attempts that say something of the target.
    pub calls: u64,
    /// The 99th percentile of the time to the first text; nothing if none came.
    pub first_text: Option<Duration>,
    /// Errors that are no throttles, in percent.
    pub error_percent: f64,
    /// Throttles, in percent.
    pub throttle_percent: f64,
}

impl SignalValues {
    /// Tells a ladder, as measured at `now`. A signal that has no value is not told: it grows old and loses its vote.
    pub fn tell(&self, ladder: &mut Ladder, now: Timestamp) -> Result<(), ReadingError> {
        if let Some(first_text) = self.first_text {
            ladder.record(LadderSignal::FirstText, first_text.as_secs_f64() * 1_000.0, now)?;
        }
        ladder.record(LadderSignal::Errors, self.error_percent, now)?;
        ladder.record(LadderSignal::Throttles, self.throttle_percent, now)
    }
}

#[derive(Clone, Debug)]
struct Slice {
    calls: u64,
    errors: u64,
    throttles: u64,
    first_texts: [u64; GRAINS + 1],
}

impl Default for Slice {
    fn default() -> Self {
        Self { calls: 0, errors: 0, throttles: 0, first_texts: [0; GRAINS + 1] }
    }
}

/// The last half minute of attempts, in fixed memory.
///
/// ```
/// use seawall_core::failure::{Failure, FailureKind, Outcome};
/// use seawall_core::ladder::{LadderOptions, SignalWindow, SignalWindowOptions};
/// use seawall_core::time::Timestamp;
/// use std::time::Duration;
///
/// let ladder = LadderOptions::default().check().unwrap();
/// let mut window = SignalWindow::new(&SignalWindowOptions::default(), &ladder).unwrap();
/// for _ in 0..10 {
///     window.record(&Outcome::Failed(Failure::of(FailureKind::Throttled)), Timestamp::ZERO);
///     window.record(&Outcome::Failed(Failure::of(FailureKind::NotStarted)), Timestamp::ZERO);
/// }
/// let values = window.values(Timestamp::ZERO);
/// assert_eq!((values.throttle_percent, values.error_percent), (50.0, 0.0));
/// assert!(values.first_text > Some(Duration::from_secs(5)));
/// ```
#[derive(Clone, Debug)]
pub struct SignalWindow {
    min_calls: u64,
    /// The grain of an attempt that was cut.
    cut: usize,
    slices: Slices<Slice>,
}

impl SignalWindow {
    /// A window that has seen nothing, for a ladder with these settings.
    pub fn new(options: &SignalWindowOptions, ladder: &LadderSettings) -> Result<Self, SettingError> {
        let cut = options.cut_counts_as.max(ladder.longest_first_text());
        Ok(Self {
            min_calls: at_least_one("min_calls", options.min_calls)?,
            // A signal votes above its threshold, so that at it would be one level less.
            cut: GRAINS.min(grain_of(cut) + 1),
            slices: Slices::new(positive("window", options.window)?),
        })
    }

    /// Takes in how an attempt ended. What says nothing of the target changes nothing.
    pub fn record(&mut self, outcome: &Outcome, now: Timestamp) {
        let health = outcome.health(Duration::MAX);
        if health == Health::Unknown {
            return;
        }
        let cut = self.cut;
        let slice = self.slices.current(now);
        slice.calls += 1;
        let first_text = match outcome {
            Outcome::Succeeded { first_content_after } => Some(grain_of(*first_content_after)),
            _ if health == Health::Cut => Some(cut),
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

    /// The values now. Takes `&mut self` only to forget what is too old.
    pub fn values(&mut self, now: Timestamp) -> SignalValues {
        let mut sum = Slice::default();
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
            first_text: ninety_ninth(&sum.first_texts),
            error_percent: percent(sum.errors),
            throttle_percent: percent(sum.throttles),
        }
    }
}

/// The vendor limits us, for a moment or for longer. A vendor without room for anybody is at fault.
fn is_throttle(outcome: &Outcome) -> bool {
    let Outcome::Failed(failure) = outcome else { return false };
    matches!(failure.kind, FailureKind::Throttled | FailureKind::QuotaExhausted)
}

fn grain_of(first_text: Duration) -> usize {
    let grain = nanos(first_text).div_ceil(nanos(GRAIN));
    usize::try_from(grain).unwrap_or(GRAINS).min(GRAINS)
}

fn ninety_ninth(grains: &[u64; GRAINS + 1]) -> Option<Duration> {
    let total: u64 = grains.iter().sum();
    let rank = total.saturating_mul(99).div_ceil(100);
    let mut seen = 0;
    let grain = grains.iter().zip(0_u32..).find(|(count, _)| {
        seen += **count;
        seen >= rank && seen > 0
    });
    grain.map(|(_, grain)| GRAIN * grain)
}
