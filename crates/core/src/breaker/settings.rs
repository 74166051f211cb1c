//! Settings: when a breaker opens, how long it stays open, and how it closes again.

use crate::setting::{Factor, Ratio, SettingError, at_least_one, ordered, positive};
use arrayvec::ArrayVec;
use std::time::Duration;

/// The limits on the number of stages in a trial and on the number of probes in one stage.
pub(super) const MAX_STAGES: usize = 8;
pub(super) const MAX_PROBES: usize = 64;

/// Unchecked settings; [`BreakerOptions::check`] validates them.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerOptions {
    /// Consecutive failures that open the breaker.
    pub failure_threshold: u32,
    /// The failure rate over the window that opens the breaker, in percent.
    pub failure_percent: f64,
    /// The slow-call rate over the window that opens the breaker, in percent.
    pub slow_percent: f64,
    /// A call whose first content arrives later than this is slow.
    pub slow_threshold: Duration,
    /// The minimum number of calls in the window for the rates to apply. `None`: twice `failure_threshold`, at least
    /// ten.
    pub min_calls: Option<u32>,
    /// The length of the sliding window for the rates.
    pub window: Duration,
    /// How long the breaker stays open before it is half-open.
    pub open_for: Duration,
    /// The factor by which each consecutive opening lasts longer than the one before.
    pub open_multiplier: f64,
    /// The upper bound of `open_for` as it grows.
    pub max_open_for: Duration,
    /// The number of probes in each stage of a trial; a stage is passed with that many successes.
    pub half_open_stages: Vec<u32>,
}

/// The dependencies that have a breaker of their own, with the default settings for each.
///
/// A closed set, so that a misspelled name is an error and cannot silently disable a protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerProfile {
    /// The strong model.
    Sonnet,
    /// The fast model.
    Haiku,
    /// The search index for retrieval.
    OpenSearch,
    /// The store of the ledger and the caller directory.
    DynamoDb,
    /// The shared store. Its breaker state is local to the node: it cannot be kept in the store that it guards.
    Redis,
}

impl BreakerProfile {
    /// Every profile.
    pub const ALL: [Self; 5] = [Self::Sonnet, Self::Haiku, Self::OpenSearch, Self::DynamoDb, Self::Redis];

    /// The name in settings and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sonnet => "sonnet",
            Self::Haiku => "haiku",
            Self::OpenSearch => "opensearch",
            Self::DynamoDb => "dynamodb",
            Self::Redis => "redis",
        }
    }

    /// The default settings of this profile.
    #[must_use]
    pub fn options(self) -> BreakerOptions {
        let (failure_threshold, failure_percent, window, open_for, slow_threshold) = match self {
            Self::Sonnet => (5, 50.0, 60, 60, 3_800),
            Self::Haiku => (8, 50.0, 60, 30, 2_000),
            Self::OpenSearch => (5, 30.0, 30, 45, 300),
            Self::DynamoDb => (10, 20.0, 30, 30, 100),
            Self::Redis => (15, 40.0, 30, 15, 50),
        };
        BreakerOptions {
            failure_threshold,
            failure_percent,
            slow_percent: 50.0,
            slow_threshold: Duration::from_millis(slow_threshold),
            min_calls: None,
            window: Duration::from_secs(window),
            open_for: Duration::from_secs(open_for),
            open_multiplier: 1.0,
            max_open_for: Duration::from_secs(300),
            half_open_stages: vec![1, 3, 10],
        }
    }
}

/// Validated settings of one breaker.
///
/// ```
/// use seawall_core::breaker::BreakerProfile;
///
/// let mut options = BreakerProfile::Sonnet.options();
/// options.half_open_stages.clear();
/// assert_eq!(options.check().unwrap_err().to_string(), "half_open_stages: must have at least one stage");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    pub(super) failure_threshold: u32,
    pub(super) failure_rate: Ratio,
    pub(super) slow_rate: Ratio,
    pub(super) slow_threshold: Duration,
    pub(super) min_calls: u32,
    pub(super) window: Duration,
    open_for: Duration,
    open_multiplier: Factor,
    pub(super) max_open_for: Duration,
    half_open_stages: ArrayVec<u32, MAX_STAGES>,
}

impl BreakerOptions {
    /// Validates the settings; the error names the one that is wrong.
    pub fn check(self) -> Result<BreakerSettings, SettingError> {
        at_least_one("failure_threshold", self.failure_threshold.into())?;
        positive("slow_threshold", self.slow_threshold)?;
        positive("open_for", self.open_for)?;
        ordered(("open_for", self.open_for), ("max_open_for", self.max_open_for))?;
        if self.window < Duration::from_millis(10) {
            return Err(SettingError::new("window", format!("{:?} is shorter than 10ms", self.window)));
        }
        let open_multiplier = Factor::new("open_multiplier", self.open_multiplier)?;
        if open_multiplier < Factor::ONE {
            return Err(SettingError::new(
                "open_multiplier",
                format!("{open_multiplier} is less than 1 and would shorten each opening"),
            ));
        }
        let min_calls = match self.min_calls {
            None => self.failure_threshold.saturating_mul(2).max(10),
            Some(0) => return Err(SettingError::new("min_calls", "must be at least 1")),
            Some(calls) => calls,
        };
        Ok(BreakerSettings {
            failure_threshold: self.failure_threshold,
            failure_rate: Ratio::percent("failure_percent", self.failure_percent)?,
            slow_rate: Ratio::percent("slow_percent", self.slow_percent)?,
            slow_threshold: self.slow_threshold,
            min_calls,
            window: self.window,
            open_for: self.open_for,
            open_multiplier,
            max_open_for: self.max_open_for,
            half_open_stages: check_stages(&self.half_open_stages)?,
        })
    }
}

fn check_stages(half_open_stages: &[u32]) -> Result<ArrayVec<u32, MAX_STAGES>, SettingError> {
    if half_open_stages.is_empty() {
        return Err(SettingError::new("half_open_stages", "must have at least one stage"));
    }
    if half_open_stages.len() > MAX_STAGES {
        return Err(SettingError::new(
            "half_open_stages",
            format!("{} stages are more than the maximum of {MAX_STAGES}", half_open_stages.len()),
        ));
    }
    for size in half_open_stages {
        if !(1..=MAX_PROBES).contains(&usize::try_from(*size).unwrap_or(usize::MAX)) {
            return Err(SettingError::new(
                "half_open_stages",
                format!("{size} probes is not between 1 and {MAX_PROBES}"),
            ));
        }
    }
    Ok(half_open_stages.iter().copied().collect())
}

impl BreakerSettings {
    /// A first content that takes longer is slow.
    #[must_use]
    pub const fn slow_threshold(&self) -> Duration {
        self.slow_threshold
    }

    /// How long the `opening`-th consecutive opening lasts; the first is 1.
    pub(super) fn open_for(&self, opening: u32) -> Duration {
        let mut open_for = self.open_for;
        for _ in 1..opening {
            let longer = self.open_multiplier.times(open_for).min(self.max_open_for);
            if longer == open_for {
                break;
            }
            open_for = longer;
        }
        open_for
    }

    /// The number of probes in this stage; `None` past the last stage.
    pub(super) fn stage_size(&self, stage: usize) -> Option<u32> {
        self.half_open_stages.get(stage).copied()
    }

    /// The number of probes in each stage of a trial.
    #[must_use]
    pub fn half_open_stages(&self) -> &[u32] {
        &self.half_open_stages
    }
}
