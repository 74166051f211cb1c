//! What bills teach about estimates.

use super::counts::TextLanguage;
use std::collections::{BTreeMap, VecDeque};

/// Samples kept of one model and language; at this many the older half goes.
const MOST_SAMPLES: usize = 1_000;
/// Samples that stay then.
const KEPT_SAMPLES: usize = 500;
/// Samples below which nothing is concluded.
const FEWEST_SAMPLES: usize = 20;
/// Models that are remembered. Names come from outside and must not grow without bound: for one more, the one goes
/// whose last bill is the oldest. A model that is in use is billed all the time, so that it stays.
const MOST_MODELS: usize = 64;
/// Bytes of the longest name that is remembered.
const LONGEST_NAME: usize = 128;
/// A bill may differ from the estimate this many times either way; what differs more is no measurement.
const MOST_TIMES: u64 = 10;
/// Mean absolute error, in millionths, below which a model counts as calibrated.
const CALIBRATED_BELOW: u64 = 200_000;
/// What an estimate is multiplied by to be careful before anything was learned.
const CAREFUL_UNLEARNED: u32 = 1_250;

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleDecision {
    /// It was taken in.
    Kept,
    /// Nothing was estimated or nothing was billed.
    Empty,
    /// The bill is more than ten times the estimate or less than a tenth.
    Absurd,
    /// The name of the model is longer than any that is remembered.
    LongName,
}

/// What to multiply an estimate by, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    /// For the most likely number: the median of what was seen.
    pub best: u32,
    /// For a careful number: what 95 of 100 stayed below.
    pub careful: u32,
}

impl Factors {
    const UNLEARNED: Self = Self { best: 1_000, careful: CAREFUL_UNLEARNED };

    pub(super) fn best(self, tokens: u64) -> u64 {
        times(tokens, self.best)
    }

    pub(super) fn careful(self, tokens: u64) -> u64 {
        times(tokens, self.careful)
    }
}

/// Rounded up.
fn times(tokens: u64, thousandths: u32) -> u64 {
    u64::try_from((u128::from(tokens) * u128::from(thousandths)).div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// How good estimates have been. Errors are of what was estimated with the factor of that moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Bills that this is from.
    pub samples: usize,
    /// The mean error, as a share of the bill; above zero where estimates were too high.
    pub mean_error: f64,
    /// The mean size of the error. A mean of errors with signs hides what cancels out; this does not.
    pub mean_absolute_error: f64,
    /// Whether that is below 20 %, over enough bills.
    pub is_calibrated: bool,
}

impl Accuracy {
    /// What the mean error leaves of 100 %.
    pub(super) fn trust(&self) -> u32 {
        (0..=100)
            .rev()
            .find(|percent| f64::from(*percent) / 100.0 <= 1.0 - self.mean_absolute_error)
            .unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Bill by estimate, in thousandths.
    ratio: u32,
    /// Estimate less bill by bill, in millionths.
    error: i64,
}

/// The bills of one model in one language.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Oldest first.
    arrived: VecDeque<Sample>,
    /// Their ratios, lowest first.
    sorted: Vec<u32>,
    error: i64,
    absolute_error: u64,
}

impl Samples {
    fn factors(&self) -> Factors {
        let count = self.sorted.len();
        if count < FEWEST_SAMPLES {
            return Factors::UNLEARNED;
        }
        let at = |place: usize| self.sorted.get(place).copied().unwrap_or(1_000);
        Factors {
            best: at(count / 2).midpoint(at((count - 1) / 2)),
            // The lowest that 95 of 100 do not exceed.
            careful: at((count * 95).div_ceil(100) - 1),
        }
    }

    fn push(&mut self, sample: Sample) {
        self.arrived.push_back(sample);
        let place = self.sorted.partition_point(|ratio| *ratio <= sample.ratio);
        self.sorted.insert(place, sample.ratio);
        self.error += sample.error;
        self.absolute_error += sample.error.unsigned_abs();
        if self.arrived.len() >= MOST_SAMPLES {
            let newest = self.arrived.split_off(MOST_SAMPLES - KEPT_SAMPLES);
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
            is_calibrated: self.arrived.len() >= FEWEST_SAMPLES
                && self.absolute_error < CALIBRATED_BELOW.saturating_mul(count),
        })
    }
}

/// What was learned from bills, by model and language.
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
    models: BTreeMap<String, Model>,
    /// Bills that were taken in.
    bills: u64,
}

/// What was learned of one model.
#[derive(Clone, Debug, Default)]
struct Model {
    languages: [Samples; 3],
    /// The number of its last bill.
    last_bill: u64,
}

impl Calibration {
    /// Takes in what a request was billed. `uncalibrated` is [`Estimate::uncalibrated`](super::Estimate::uncalibrated);
    /// `billed` is the vendor's number of input tokens less the overhead that was estimated.
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
        if billed > uncalibrated.saturating_mul(MOST_TIMES)
            || uncalibrated > billed.saturating_mul(MOST_TIMES)
        {
            return SampleDecision::Absurd;
        }
        if model.len() > LONGEST_NAME {
            return SampleDecision::LongName;
        }
        if !self.models.contains_key(model) && self.models.len() >= MOST_MODELS {
            self.forget_the_longest_unbilled();
        }
        let estimated = self.factors(model, language).best(uncalibrated);
        let ratio = (u128::from(billed) * 1_000 + u128::from(uncalibrated) / 2) / u128::from(uncalibrated);
        let error = (i128::from(estimated) - i128::from(billed)) * 1_000_000 / i128::from(billed);
        self.bills = self.bills.saturating_add(1);
        let known = self.models.entry(model.to_owned()).or_default();
        known.last_bill = self.bills;
        known.languages[language as usize].push(Sample {
            ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
            error: i64::try_from(error).unwrap_or(i64::MAX),
        });
        SampleDecision::Kept
    }

    /// What to multiply estimates by. Below twenty bills, 1 and, to be careful, 1.25.
    #[must_use]
    pub fn factors(&self, model: &str, language: TextLanguage) -> Factors {
        self.samples(model, language).map_or(Factors::UNLEARNED, Samples::factors)
    }

    /// How good estimates have been for this model and language; nothing where nothing was billed.
    #[must_use]
    pub fn accuracy(&self, model: &str, language: TextLanguage) -> Option<Accuracy> {
        self.samples(model, language).and_then(Samples::accuracy)
    }

    /// How good they have been for each model and language that was billed, by name.
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

    fn forget_the_longest_unbilled(&mut self) {
        let oldest = self.models.iter().min_by_key(|(_, model)| model.last_bill);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.models.remove(&name);
        }
    }
}
