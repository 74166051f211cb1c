//! Calibration of token estimates by billed usage.

use super::counts::TextLanguage;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of samples per model and language; when it is reached, the older half is dropped.
const MAX_SAMPLES: usize = 1_000;
/// Samples kept then.
const KEPT_SAMPLES: usize = 500;
/// Minimum number of samples for a calibration.
const MIN_SAMPLES: usize = 20;
/// Maximum number of models. Names come from outside and must not grow without bound: the model whose last bill is the
/// oldest is evicted (LRU). A model in use is billed all the time, so that it stays.
const MAX_MODELS: usize = 64;
/// Maximum length of a model name in bytes.
const MAX_NAME_LENGTH: usize = 128;
/// Maximum ratio between bill and estimate, either way; samples beyond it are outliers.
const MAX_RATIO: u64 = 10;
/// Mean absolute error, in millionths, below which a model counts as calibrated.
const CALIBRATED_BELOW: u64 = 200_000;
/// Factor of the careful estimate before calibration.
const P95_UNCALIBRATED: u32 = 1_250;

/// Whether a sample was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleDecision {
    /// Accepted.
    Kept,
    /// Rejected: the estimate or the bill is zero.
    Empty,
    /// Rejected: the bill is more than ten times the estimate or less than a tenth.
    Outlier,
    /// Rejected: the model name is too long.
    NameTooLong,
}

/// Calibration factors of an estimate, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalibrationFactors {
    /// For the best estimate: the median of the observed ratios.
    pub best: u32,
    /// For the careful estimate: the p95 of the observed ratios.
    pub p95: u32,
}

impl CalibrationFactors {
    const UNCALIBRATED: Self = Self { best: 1_000, p95: P95_UNCALIBRATED };

    pub(super) fn best(self, tokens: u64) -> u64 {
        times(tokens, self.best)
    }

    pub(super) fn p95(self, tokens: u64) -> u64 {
        times(tokens, self.p95)
    }
}

/// Rounds up.
fn times(tokens: u64, thousandths: u32) -> u64 {
    u64::try_from((u128::from(tokens) * u128::from(thousandths)).div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// Accuracy of past estimates. Errors refer to the estimate with the factor in force at that time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Number of bills that this is based on.
    pub samples: usize,
    /// Mean error as a share of the bill; positive if estimates were too high.
    pub mean_error: f64,
    /// Mean absolute error. Unlike the signed mean, errors do not cancel out.
    pub mean_absolute_error: f64,
    /// Whether the mean absolute error is below 20 %, over enough bills.
    pub is_calibrated: bool,
}

impl Accuracy {
    /// 100 % minus the mean absolute error.
    pub(super) fn confidence(&self) -> u32 {
        (0..=100)
            .rev()
            .find(|percent| f64::from(*percent) / 100.0 <= 1.0 - self.mean_absolute_error)
            .unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Bill divided by estimate, in thousandths.
    ratio: u32,
    /// Estimate minus bill, divided by bill, in millionths.
    error: i64,
}

/// Samples of one model in one language.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Oldest first.
    arrived: VecDeque<Sample>,
    /// Their ratios in ascending order.
    sorted: Vec<u32>,
    error: i64,
    absolute_error: u64,
}

impl Samples {
    fn factors(&self) -> CalibrationFactors {
        let count = self.sorted.len();
        if count < MIN_SAMPLES {
            return CalibrationFactors::UNCALIBRATED;
        }
        let at = |index: usize| self.sorted.get(index).copied().unwrap_or(1_000);
        CalibrationFactors {
            best: at(count / 2).midpoint(at((count - 1) / 2)),
            // The p95.
            p95: at((count * 95).div_ceil(100) - 1),
        }
    }

    fn push(&mut self, sample: Sample) {
        self.arrived.push_back(sample);
        let index = self.sorted.partition_point(|ratio| *ratio <= sample.ratio);
        self.sorted.insert(index, sample.ratio);
        self.error += sample.error;
        self.absolute_error += sample.error.unsigned_abs();
        if self.arrived.len() >= MAX_SAMPLES {
            let newest = self.arrived.split_off(MAX_SAMPLES - KEPT_SAMPLES);
            self.sorted = newest.iter().map(|sample| sample.ratio).collect();
            self.sorted.sort_unstable();
            self.error = newest.iter().map(|sample| sample.error).sum();
            self.absolute_error = newest.iter().map(|sample| sample.error.unsigned_abs()).sum();
            self.arrived = newest;
        }
    }

    fn accuracy(&self) -> Option<Accuracy> {
        let count = self.arrived.len() as u64;
        if count == 0 {
            return None;
        }
        let mean = |sum: f64| sum / count as f64 / 1_000_000.0;
        Some(Accuracy {
            samples: self.arrived.len(),
            mean_error: mean(self.error as f64),
            mean_absolute_error: mean(self.absolute_error as f64),
            is_calibrated: self.arrived.len() >= MIN_SAMPLES
                && self.absolute_error < CALIBRATED_BELOW.saturating_mul(count),
        })
    }
}

/// Calibration by model and language.
///
/// ```
/// use seawall_core::tokens::{Calibration, TextLanguage};
///
/// let mut calibration = Calibration::default();
/// for _ in 0..100 {
///     calibration.record("sonnet", TextLanguage::Japanese, 1_000, 1_200);
/// }
/// assert_eq!(calibration.factors("sonnet", TextLanguage::Japanese).best, 1_200);
/// assert_eq!(calibration.factors("sonnet", TextLanguage::English).best, 1_000);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    models: BTreeMap<String, ModelCalibration>,
    /// Number of accepted bills.
    bills: u64,
}

/// Calibration of one model.
#[derive(Clone, Debug, Default)]
struct ModelCalibration {
    languages: [Samples; 3],
    /// Sequence number of its last bill.
    last_bill: u64,
}

impl Calibration {
    /// Records the billed usage of a request. `uncalibrated` is
    /// [`TokenEstimate::uncalibrated`](super::TokenEstimate::uncalibrated); `billed` is the vendor's number of input tokens
    /// minus the estimated overhead.
    pub fn record(
        &mut self,
        model: &str,
        language: TextLanguage,
        uncalibrated: u64,
        billed: u64,
    ) -> SampleDecision {
        if uncalibrated == 0 || billed == 0 {
            return SampleDecision::Empty;
        }
        if billed > uncalibrated.saturating_mul(MAX_RATIO) || uncalibrated > billed.saturating_mul(MAX_RATIO)
        {
            return SampleDecision::Outlier;
        }
        if model.len() > MAX_NAME_LENGTH {
            return SampleDecision::NameTooLong;
        }
        if !self.models.contains_key(model) && self.models.len() >= MAX_MODELS {
            self.evict_least_recently_billed();
        }
        let estimated = self.factors(model, language).best(uncalibrated);
        let ratio = (u128::from(billed) * 1_000 + u128::from(uncalibrated) / 2) / u128::from(uncalibrated);
        let error = (i128::from(estimated) - i128::from(billed)) * 1_000_000 / i128::from(billed);
        self.bills = self.bills.saturating_add(1);
        let history = self.models.entry(model.to_owned()).or_default();
        history.last_bill = self.bills;
        history.languages[language as usize].push(Sample {
            ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
            error: i64::try_from(error).unwrap_or(i64::MAX),
        });
        SampleDecision::Kept
    }

    /// The calibration factors. With fewer than twenty bills they are 1 for the best and 1.25 for the careful
    /// estimate.
    #[must_use]
    pub fn factors(&self, model: &str, language: TextLanguage) -> CalibrationFactors {
        self.samples(model, language).map_or(CalibrationFactors::UNCALIBRATED, Samples::factors)
    }

    /// Accuracy for this model and language; `None` without bills.
    #[must_use]
    pub fn accuracy(&self, model: &str, language: TextLanguage) -> Option<Accuracy> {
        self.samples(model, language).and_then(Samples::accuracy)
    }

    /// Accuracy for each billed model and language, sorted by name.
    pub fn report(&self) -> impl Iterator<Item = (&str, TextLanguage, Accuracy)> {
        self.models.iter().flat_map(|(model, learned)| {
            TextLanguage::ALL
                .into_iter()
                .zip(&learned.languages)
                .filter_map(|(language, samples)| Some((model.as_str(), language, samples.accuracy()?)))
        })
    }

    fn samples(&self, model: &str, language: TextLanguage) -> Option<&Samples> {
        self.models.get(model).map(|learned| &learned.languages[language as usize])
    }

    fn evict_least_recently_billed(&mut self) {
        let oldest = self.models.iter().min_by_key(|(_, model)| model.last_bill);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.models.remove(&name);
        }
    }
}
